//! Sessions that do not get on (`spec/watch.md`): what they are, and what is to be done.

use crate::base::Millis;
use crate::base::limits::{
    STUCK_ABORT_FACTOR, STUCK_ABORT_MIN_MS, STUCK_WARN_MS, WATCH_TICK_MS, WATCHED_MAX,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a session waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitsFor {
    /// Nothing that is known.
    Nothing,
    /// A place among the runs of the whole gateway.
    GlobalLane,
    /// A model.
    ModelCall {
        /// Since when.
        since: Millis,
        /// Whether somebody still listens to it.
        owned: bool,
    },
    /// A tool.
    Tool,
    /// A compaction or a memory flush.
    Compaction {
        /// Until when it may take.
        limit: Millis,
    },
    /// The next attempt of a request.
    Retry,
    /// An approval.
    Approval,
    /// The answer to a question.
    HumanQuestion,
    /// Nothing: its end is committed and being told.
    TerminalCommitted,
}

/// What is known of a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Activity {
    /// It is marked as processing.
    pub active: bool,
    /// How many turns wait.
    pub queued: usize,
    /// A living run owns the work.
    pub owner: bool,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// When it last said, did or received something.
    pub last_progress: Millis,
    /// When the work began.
    pub started: Millis,
    /// Since when the same request is sent again and again without progress: the requests alone
    /// look like progress (G4).
    pub repeats_since: Option<Millis>,
}

/// What a session is (G1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Nothing to see.
    Fine,
    /// It works for a long time, and may.
    LongRunning,
    /// It works without getting on.
    Stalled,
    /// Nobody works, and it is not free.
    Stuck,
}

impl Class {
    /// The word for logs and events.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Class::Fine => "fine",
            Class::LongRunning => "long_running",
            Class::Stalled => "stalled",
            Class::Stuck => "stuck",
        }
    }
}

/// From which time without progress on something is done, ms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Thresholds {
    /// A session is looked at.
    pub warn_ms: u64,
    /// A stalled run is aborted.
    pub abort_ms: u64,
}

impl Thresholds {
    /// The thresholds of a warning limit; the abort limit is never close to it.
    #[must_use]
    pub fn new(warn_ms: u64) -> Thresholds {
        let warn_ms = warn_ms.max(1);
        let abort_ms = STUCK_ABORT_MIN_MS.max(warn_ms.saturating_mul(STUCK_ABORT_FACTOR));
        Thresholds { warn_ms, abort_ms }
    }
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds::new(STUCK_WARN_MS)
    }
}

/// What is to be done (G2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Nothing.
    Leave,
    /// It is logged and told.
    Warn,
    /// The session's lane is freed: nobody is there to be aborted.
    ReleaseLane,
    /// The run is aborted, then what waits goes on.
    AbortAndDrain,
}

impl Decision {
    /// The word for logs and events.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Decision::Leave => "leave",
            Decision::Warn => "warn",
            Decision::ReleaseLane => "release_lane",
            Decision::AbortAndDrain => "abort_and_drain",
        }
    }

    /// The first pause before the same is decided again, ms; each further one is twice as long.
    fn pause(self, thresholds: &Thresholds) -> u64 {
        match self {
            Decision::Leave => 0,
            Decision::Warn => thresholds.warn_ms,
            Decision::ReleaseLane | Decision::AbortAndDrain => WATCH_TICK_MS,
        }
    }
}

/// Time without progress; work that only repeats itself makes none (G4).
fn quiet(activity: &Activity, now: Millis) -> u64 {
    let repeating = activity.repeats_since.map_or(0, |since| now.since(since));
    now.since(activity.last_progress).max(repeating)
}

/// What a session is, and what its state calls for, without regard to what was done before.
#[must_use]
pub fn classify(activity: &Activity, thresholds: &Thresholds, now: Millis) -> (Class, Decision) {
    let quiet = quiet(activity, now);
    if !activity.active && activity.queued == 0 {
        return (Class::Fine, Decision::Leave);
    }
    if quiet < thresholds.warn_ms {
        let long = activity.active && now.since(activity.started) >= thresholds.warn_ms;
        return (if long { Class::LongRunning } else { Class::Fine }, Decision::Leave);
    }
    let over = quiet >= thresholds.abort_ms;
    match activity.waits_for {
        // The claim is made inside the global lane: before that there is no owner to ask for.
        WaitsFor::GlobalLane => return (Class::LongRunning, Decision::Leave),
        // There is nothing left to abort, but a lane that is never given back has to be freed.
        WaitsFor::TerminalCommitted if over => return (Class::Stuck, Decision::ReleaseLane),
        WaitsFor::TerminalCommitted => return (Class::LongRunning, Decision::Leave),
        WaitsFor::Nothing
        | WaitsFor::ModelCall { .. }
        | WaitsFor::Tool
        | WaitsFor::Compaction { .. }
        | WaitsFor::Retry
        | WaitsFor::Approval
        | WaitsFor::HumanQuestion => {}
    }
    if !activity.owner || !activity.active {
        return (Class::Stuck, Decision::ReleaseLane);
    }
    let stalled = if over { Decision::AbortAndDrain } else { Decision::Warn };
    match activity.waits_for {
        WaitsFor::Retry | WaitsFor::Approval | WaitsFor::HumanQuestion => {
            (Class::LongRunning, Decision::Leave)
        }
        WaitsFor::Compaction { limit } if now < limit => (Class::LongRunning, Decision::Leave),
        // A model that says nothing may be a slow one. Its silence counts from its request, unless
        // it is the same request once more.
        WaitsFor::ModelCall { since, owned: true }
            if now.since(since) < thresholds.abort_ms
                && !(over && activity.repeats_since.is_some()) =>
        {
            (Class::LongRunning, Decision::Warn)
        }
        WaitsFor::Nothing
        | WaitsFor::GlobalLane
        | WaitsFor::ModelCall { .. }
        | WaitsFor::Tool
        | WaitsFor::Compaction { .. }
        | WaitsFor::TerminalCommitted => (Class::Stalled, stalled),
    }
}

/// What was decided last about a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Told {
    generation: u64,
    class: Class,
    decision: Decision,
    pause: u64,
    again: Millis,
    looked: Millis,
}

/// Remembers what was decided, so that repeats become rare (G5).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Watch {
    thresholds: Thresholds,
    told: BTreeMap<Arc<str>, Told>,
}

impl Watch {
    /// A watch with its thresholds.
    #[must_use]
    pub fn new(thresholds: Thresholds) -> Watch {
        Watch { thresholds, told: BTreeMap::new() }
    }

    /// Other thresholds; what was decided by the former ones is not repeated for that.
    pub fn set_thresholds(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
    }

    /// Looks at a session; call it every [`WATCH_TICK_MS`]. `generation` counts the session's
    /// processing: another number is another piece of work.
    pub fn look(
        &mut self,
        session: &str,
        generation: u64,
        activity: &Activity,
        now: Millis,
    ) -> Decision {
        let (class, decision) = classify(activity, &self.thresholds, now);
        if decision == Decision::Leave {
            self.told.remove(session);
            return Decision::Leave;
        }
        let first = decision.pause(&self.thresholds);
        if let Some(told) = self.told.get_mut(session) {
            told.looked = now;
            let same = (told.generation, told.class, told.decision);
            if same == (generation, class, decision) {
                if now < told.again {
                    return Decision::Leave;
                }
                told.pause = told.pause.saturating_mul(2);
                told.again = now.plus(told.pause);
                return decision;
            }
        } else if self.told.len() >= WATCHED_MAX {
            self.forget_one();
        }
        let again = now.plus(first);
        let told = Told { generation, class, decision, pause: first, again, looked: now };
        self.told.insert(session.into(), told);
        decision
    }

    /// The session is gone or idle.
    pub fn forget(&mut self, session: &str) {
        self.told.remove(session);
    }

    /// Makes room: what was looked at longest ago has most likely gone.
    fn forget_one(&mut self) {
        let oldest = self.told.iter().min_by_key(|(_, told)| told.looked);
        if let Some(session) = oldest.map(|(session, _)| Arc::clone(session)) {
            self.told.remove(&session);
        }
    }

    /// How many sessions are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.told.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }
}

/// Why a recovery did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skipped {
    /// Nothing but a warning was called for.
    NotNeeded,
    /// It got on again before anything was done.
    GotOn,
    /// Another recovery of it is under way.
    UnderWay,
    /// There is no such session any more.
    Gone,
}

/// What a recovery did (G6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(tag = "outcome", content = "why", rename_all = "snake_case")]
pub enum Recovery {
    /// The lane is free.
    Released,
    /// The run is aborted and the lane is free.
    Aborted,
    /// Nothing was done.
    Skipped(Skipped),
    /// The lane is still held after all: a newer writer has to take the session over (B036).
    StillHeld,
    /// Other work has begun meanwhile; it was left alone.
    StaleGeneration,
}

impl Recovery {
    /// What became of a decision about the work of generation `asked`, once it was carried out.
    /// Only a lane that was seen to be free counts as freed (B036).
    #[must_use]
    pub fn of(decision: Decision, asked: u64, current: u64, lane_free: bool) -> Recovery {
        if asked != current {
            return Recovery::StaleGeneration;
        }
        match decision {
            Decision::Leave | Decision::Warn => Recovery::Skipped(Skipped::NotNeeded),
            Decision::ReleaseLane | Decision::AbortAndDrain if !lane_free => Recovery::StillHeld,
            Decision::ReleaseLane => Recovery::Released,
            Decision::AbortAndDrain => Recovery::Aborted,
        }
    }

    /// Whether the session may be marked idle: only if the same work is still the current one.
    #[must_use]
    pub fn goes_idle(self) -> bool {
        match self {
            Recovery::Released | Recovery::Aborted => true,
            Recovery::Skipped(_) | Recovery::StillHeld | Recovery::StaleGeneration => false,
        }
    }

    /// The word for logs and events.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Recovery::Released => "released",
            Recovery::Aborted => "aborted",
            Recovery::Skipped(_) => "skipped",
            Recovery::StillHeld => "still_held",
            Recovery::StaleGeneration => "stale_generation",
        }
    }

    /// Why nothing was done, in a word.
    #[must_use]
    pub fn reason(self) -> Option<&'static str> {
        let Recovery::Skipped(why) = self else { return None };
        Some(match why {
            Skipped::NotNeeded => "not_needed",
            Skipped::GotOn => "got_on",
            Skipped::UnderWay => "under_way",
            Skipped::Gone => "gone",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WARN: u64 = STUCK_WARN_MS;
    const ABORT: u64 = 360_000;
    const LEAVE: Decision = Decision::Leave;

    /// Work of a living run that began at 0 and got on last at 0.
    fn work(waits_for: WaitsFor) -> Activity {
        let (last_progress, started) = (Millis(0), Millis(0));
        let (active, owner, queued) = (true, true, 0);
        Activity { active, queued, owner, waits_for, last_progress, started, repeats_since: None }
    }

    fn at(activity: Activity, now: u64) -> (Class, Decision) {
        classify(&activity, &Thresholds::default(), Millis(now))
    }

    /// G1: the limits.
    #[test]
    fn the_abort_limit_keeps_its_distance() {
        assert_eq!(Thresholds::default(), Thresholds { warn_ms: WARN, abort_ms: ABORT });
        assert_eq!(Thresholds::new(30_000).abort_ms, 300_000);
        assert_eq!(Thresholds::new(200_000).abort_ms, 600_000);
        assert!(Thresholds::new(0).warn_ms > 0);
        assert_eq!(Thresholds::new(u64::MAX).abort_ms, u64::MAX);
    }

    /// G1: work that gets on is fine, and long-running after a while; nothing is done about it.
    #[test]
    fn work_that_gets_on_is_left_alone() {
        assert_eq!(at(work(WaitsFor::Tool), WARN - 1), (Class::Fine, LEAVE));
        let fresh = Activity { last_progress: Millis(WARN), ..work(WaitsFor::Tool) };
        assert_eq!(at(fresh, WARN), (Class::LongRunning, LEAVE));
        let idle = Activity { active: false, owner: false, ..work(WaitsFor::Nothing) };
        assert_eq!(at(idle, 1 << 40), (Class::Fine, LEAVE), "an idle session without a queue");
    }

    /// G1, G2: work without progress is stalled: warned of, then aborted.
    #[test]
    fn stalled_work_is_aborted_late() {
        for waits in [WaitsFor::Nothing, WaitsFor::Tool] {
            assert_eq!(at(work(waits), WARN), (Class::Stalled, Decision::Warn));
            assert_eq!(at(work(waits), ABORT - 1), (Class::Stalled, Decision::Warn));
            assert_eq!(at(work(waits), ABORT), (Class::Stalled, Decision::AbortAndDrain));
        }
    }

    /// G1: a silent model has until the abort limit, if somebody listens to it.
    #[test]
    fn a_silent_model_has_time() {
        let call = |owned| work(WaitsFor::ModelCall { since: Millis(0), owned });
        assert_eq!(at(call(true), ABORT - 1), (Class::LongRunning, Decision::Warn));
        assert_eq!(at(call(true), ABORT), (Class::Stalled, Decision::AbortAndDrain));
        assert_eq!(at(call(false), WARN), (Class::Stalled, Decision::Warn));
        let later = work(WaitsFor::ModelCall { since: Millis(1_000), owned: true });
        assert_eq!(at(later, ABORT), (Class::LongRunning, Decision::Warn), "from its request");
    }

    /// G2: marks without an owner are stuck, and the lane is freed at once.
    #[test]
    fn marks_without_an_owner_are_stuck() {
        let freed = (Class::Stuck, Decision::ReleaseLane);
        for waits in [WaitsFor::Nothing, WaitsFor::Tool, WaitsFor::Retry, WaitsFor::Approval] {
            let alone = Activity { owner: false, ..work(waits) };
            assert_eq!(at(alone, WARN - 1), (Class::Fine, LEAVE));
            assert_eq!(at(alone, WARN), freed);
        }
        let queue = Activity { active: false, queued: 2, ..work(WaitsFor::Nothing) };
        assert_eq!(at(queue, WARN), freed, "an idle session with a queue");
    }

    /// G3: what waits for others is not aborted, however long it takes.
    #[test]
    fn protected_waits_are_left_alone() {
        let quiet = (Class::LongRunning, LEAVE);
        for waits in [
            WaitsFor::GlobalLane,
            WaitsFor::Retry,
            WaitsFor::Approval,
            WaitsFor::HumanQuestion,
            WaitsFor::Compaction { limit: Millis(u64::MAX) },
        ] {
            assert_eq!(at(work(waits), 100 * ABORT), quiet, "{waits:?}");
        }
        let lane =
            Activity { active: false, owner: false, queued: 1, ..work(WaitsFor::GlobalLane) };
        assert_eq!(at(lane, 100 * ABORT), quiet, "before the claim there is no owner");
        let compaction = work(WaitsFor::Compaction { limit: Millis(ABORT + 5) });
        assert_eq!(at(compaction, ABORT + 4), quiet);
        assert_eq!(at(compaction, ABORT + 5), (Class::Stalled, Decision::AbortAndDrain));
    }

    /// G3: a committed end is never aborted; its lane is freed at the abort limit.
    #[test]
    fn a_committed_end_is_not_aborted() {
        for owner in [true, false] {
            let ended = Activity { owner, ..work(WaitsFor::TerminalCommitted) };
            assert_eq!(at(ended, ABORT - 1), (Class::LongRunning, LEAVE));
            assert_eq!(at(ended, 100 * ABORT), (Class::Stuck, Decision::ReleaseLane));
        }
    }

    /// G4: the same request again and again is no progress.
    #[test]
    fn repeats_are_no_progress() {
        let now = 10 * ABORT;
        let since = Millis(now - 1_000);
        let busy = Activity {
            last_progress: since,
            repeats_since: Some(Millis(now - ABORT)),
            ..work(WaitsFor::ModelCall { since, owned: true })
        };
        assert_eq!(at(busy, now), (Class::Stalled, Decision::AbortAndDrain));
        let early = Activity { repeats_since: Some(Millis(now - WARN)), ..busy };
        assert_eq!(at(early, now), (Class::LongRunning, Decision::Warn));
        assert_eq!(at(Activity { repeats_since: None, ..busy }, now), (Class::LongRunning, LEAVE));
    }

    /// G5: a decision that is repeated is repeated ever more rarely; a change begins anew.
    #[test]
    fn repeats_back_off() {
        let mut watch = Watch::default();
        let stuck = Activity { owner: false, ..work(WaitsFor::Nothing) };
        let mut hits = Vec::new();
        for tick in 4..100 {
            let now = Millis(tick * WATCH_TICK_MS);
            if watch.look("s", 1, &stuck, now) == Decision::ReleaseLane {
                hits.push(tick);
            }
        }
        assert_eq!(hits, [4, 5, 7, 11, 19, 35, 67]);
        let now = Millis(100 * WATCH_TICK_MS);
        assert_eq!(watch.look("s", 1, &stuck, now), LEAVE);
        assert_eq!(watch.look("s", 2, &stuck, now), Decision::ReleaseLane, "other work");
        assert_eq!(watch.look("t", 1, &stuck, now), Decision::ReleaseLane, "another session");
        let fine = Activity { active: false, ..work(WaitsFor::Nothing) };
        assert_eq!(watch.look("s", 2, &fine, now), LEAVE);
        assert_eq!(watch.look("s", 2, &stuck, now), Decision::ReleaseLane, "it was fine between");
    }

    /// G5: an abort does not wait for the pause of the warning before it.
    #[test]
    fn a_new_decision_does_not_wait() {
        let mut watch = Watch::default();
        let hung = work(WaitsFor::Tool);
        let mut found = Vec::new();
        for tick in 0..14 {
            match watch.look("s", 1, &hung, Millis(tick * WATCH_TICK_MS)) {
                Decision::Leave => {}
                decision @ (Decision::Warn | Decision::ReleaseLane | Decision::AbortAndDrain) => {
                    found.push((tick, decision));
                }
            }
        }
        use Decision::{AbortAndDrain, Warn};
        assert_eq!(found, [(4, Warn), (8, Warn), (12, AbortAndDrain), (13, AbortAndDrain)]);
    }

    /// G5: the memory is bounded.
    #[test]
    fn the_watch_is_bounded() {
        let mut watch = Watch::default();
        let stuck = Activity { owner: false, ..work(WaitsFor::Nothing) };
        for n in 0..WATCHED_MAX as u64 + 10 {
            let _ = watch.look(&format!("s{n}"), 1, &stuck, Millis(WARN + n));
        }
        assert_eq!(watch.len(), WATCHED_MAX);
        watch.forget(&format!("s{}", WATCHED_MAX));
        assert_eq!(watch.len(), WATCHED_MAX - 1);
        let mut small = Watch::default();
        assert!(small.is_empty());
        small.forget("never seen");
    }

    /// G6: a session goes idle only if its own work was freed, and seen to be.
    #[test]
    fn only_the_same_work_goes_idle() {
        let of = Recovery::of;
        assert_eq!(of(Decision::ReleaseLane, 3, 3, true), Recovery::Released);
        assert_eq!(of(Decision::AbortAndDrain, 3, 3, true), Recovery::Aborted);
        assert_eq!(of(Decision::AbortAndDrain, 3, 3, false), Recovery::StillHeld);
        assert_eq!(of(Decision::ReleaseLane, 3, 4, true), Recovery::StaleGeneration);
        let skipped = of(Decision::Warn, 3, 3, true);
        assert_eq!((skipped.word(), skipped.reason()), ("skipped", Some("not_needed")));
        assert!(Recovery::Released.goes_idle() && Recovery::Aborted.goes_idle());
        for other in [Recovery::StillHeld, Recovery::StaleGeneration, skipped] {
            assert!(!other.goes_idle(), "{other:?}");
        }
        let text = serde_json::to_string(&skipped).unwrap();
        assert_eq!(text, r#"{"outcome":"skipped","why":"not_needed"}"#);
    }
}
