//! When a session begins anew by itself (`spec/resets.md`).

use crate::base::Millis;
use serde::{Deserialize, Serialize};

const DAY_MS: u64 = 86_400_000;
const MINUTE_MS: u64 = 60_000;

/// When a session is no longer fresh. By default it always is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetPolicy {
    /// The local hour, 0 to 23, that ends a session which began before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily_hour: Option<u8>,
    /// Minutes without an interaction that end a session; 0 is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_minutes: Option<u32>,
}

/// Why a session ended (Z5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResetReason {
    /// `/new`.
    New,
    /// `/reset`.
    Reset,
    /// Nobody spoke for too long.
    Idle,
    /// The day is over.
    Daily,
    /// The history was compacted into a new session.
    Compaction,
    /// The session was deleted.
    Deleted,
    /// The gateway stops.
    Shutdown,
    /// The gateway restarts.
    Restart,
    /// It cannot be said.
    Unknown,
}

impl ResetReason {
    /// The word that is stored and told.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ResetReason::New => "new",
            ResetReason::Reset => "reset",
            ResetReason::Idle => "idle",
            ResetReason::Daily => "daily",
            ResetReason::Compaction => "compaction",
            ResetReason::Deleted => "deleted",
            ResetReason::Shutdown => "shutdown",
            ResetReason::Restart => "restart",
            ResetReason::Unknown => "unknown",
        }
    }
}

/// Whether a session has to begin anew, and for which reason, whichever came first (Z1, Z2).
///
/// `last_interaction` is the one *before* the message that asks. `boundary` is the last local daily
/// hour at or before `now`; the edge computes it, since it knows the time zone.
#[must_use]
pub fn stale(
    policy: &ResetPolicy,
    session_started_at: Millis,
    last_interaction: Millis,
    boundary: Option<Millis>,
    now: Millis,
) -> Option<ResetReason> {
    let daily = policy.daily_hour.and(boundary).filter(|b| session_started_at < *b);
    let idle = policy.idle_minutes.filter(|minutes| *minutes > 0);
    let idle = idle.map(|minutes| last_interaction.plus(u64::from(minutes) * MINUTE_MS));
    match (daily, idle.filter(|at| *at <= now)) {
        (Some(last), Some(idle)) => {
            // Several boundaries may have passed; the first one counts. Days of 23 and 25 hours do
            // not matter here: only the name of the reason hangs on it.
            let days = (last.since(session_started_at) - 1) / DAY_MS;
            let first = Millis(last.0 - days * DAY_MS);
            Some(if idle < first { ResetReason::Idle } else { ResetReason::Daily })
        }
        (Some(_), None) => Some(ResetReason::Daily),
        (None, Some(_)) => Some(ResetReason::Idle),
        (None, None) => None,
    }
}

/// What comes to a session (Z3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// A person's message or command.
    Interaction,
    /// The regular look at what is to be done.
    Heartbeat,
    /// A scheduled job.
    Cron,
    /// A notice of a tool that runs in the background.
    Exec,
    /// Book-keeping: a route, a label, a counter.
    Bookkeeping,
}

impl Source {
    /// Whether it keeps a session alive, and may begin a new one.
    #[must_use]
    pub fn is_interaction(self) -> bool {
        match self {
            Source::Interaction => true,
            Source::Heartbeat | Source::Cron | Source::Exec | Source::Bookkeeping => false,
        }
    }
}

/// The two times that decide about a session's freshness.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Freshness {
    /// When the session began.
    pub session_started_at: Millis,
    /// The last interaction; the beginning where none is known.
    pub last_interaction_at: Millis,
}

impl Freshness {
    /// A session that begins now.
    #[must_use]
    pub fn new(now: Millis) -> Freshness {
        Freshness { session_started_at: now, last_interaction_at: now }
    }

    /// Judges first and records then, in one call, so that no caller can do it the other way round
    /// (Z4, B206). A reset has begun the new session when this returns: what arrived is its first
    /// message (B207).
    pub fn arrive(
        &mut self,
        source: Source,
        policy: &ResetPolicy,
        boundary: Option<Millis>,
        now: Millis,
    ) -> Option<ResetReason> {
        if !source.is_interaction() {
            return None;
        }
        let (began, last) = (self.session_started_at, self.last_interaction_at);
        let reason = stale(policy, began, last, boundary, now);
        if reason.is_some() {
            self.session_started_at = now;
        }
        self.last_interaction_at = now;
        reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn policy(daily_hour: Option<u8>, idle_minutes: Option<u32>) -> ResetPolicy {
        ResetPolicy { daily_hour, idle_minutes }
    }

    fn judged(p: ResetPolicy, began: u64, last: u64, bound: u64, now: u64) -> Option<ResetReason> {
        let at = |hours: u64| Millis(hours * HOUR);
        stale(&p, at(began), at(last), Some(at(bound)), at(now))
    }

    /// Z1: without a policy a session is fresh for ever.
    #[test]
    fn there_is_no_reset_by_default() {
        assert_eq!(judged(ResetPolicy::default(), 0, 0, 9_999, 9_999), None);
        assert_eq!(judged(policy(None, Some(0)), 0, 0, 9_999, 9_999), None, "no minutes, none");
    }

    /// Z1: the daily hour looks at the beginning only; idleness at the last interaction.
    #[test]
    fn each_policy_has_its_own_time() {
        let daily = policy(Some(4), None);
        assert_eq!(judged(daily, 20, 27, 28, 29), Some(ResetReason::Daily));
        assert_eq!(judged(daily, 28, 28, 28, 29), None, "it began at the boundary");
        assert_eq!(stale(&daily, Millis(0), Millis(0), None, Millis(9 * DAY_MS)), None);
        let idle = policy(None, Some(120));
        assert_eq!(judged(idle, 0, 10, 28, 11), None);
        assert_eq!(judged(idle, 0, 10, 28, 12), Some(ResetReason::Idle), "to the minute");
        assert_eq!(judged(idle, 0, 50, 28, 12), None, "a time ahead of now is no idleness");
    }

    /// Z2: whichever came first names the reason, however many days have passed.
    #[test]
    fn whichever_came_first_is_the_reason() {
        let both = policy(Some(4), Some(120));
        assert_eq!(judged(both, 20, 27, 28, 40), Some(ResetReason::Daily));
        assert_eq!(judged(both, 20, 25, 28, 40), Some(ResetReason::Idle));
        assert_eq!(judged(both, 20, 39, 28, 40), Some(ResetReason::Daily));
        assert_eq!(judged(both, 29, 30, 28, 40), Some(ResetReason::Idle));
        let slow = policy(Some(4), Some(48 * 60));
        assert_eq!(judged(slow, 20, 20, 28 + 72, 101), Some(ResetReason::Daily));
    }

    /// Z3: what is no interaction neither keeps a session alive nor ends it.
    #[test]
    fn background_events_are_no_activity() {
        let idle = policy(None, Some(45));
        let mut fresh = Freshness::new(Millis(0));
        for source in [Source::Heartbeat, Source::Cron, Source::Exec, Source::Bookkeeping] {
            for now in (0..10).map(|n| Millis(n * HOUR)) {
                assert_eq!(fresh.arrive(source, &idle, None, now), None);
            }
        }
        assert_eq!(fresh, Freshness::new(Millis(0)));
    }

    /// Z4, B206, B207: 95 minutes after the last message, with 45 allowed, the next message begins
    /// a new session and is the first of it.
    #[test]
    fn freshness_is_judged_before_the_message_is_recorded() {
        let idle = policy(None, Some(45));
        let mut fresh = Freshness::new(Millis(0));
        let (soon, late) = (Millis(5 * MINUTE_MS), Millis(100 * MINUTE_MS));
        assert_eq!(fresh.arrive(Source::Interaction, &idle, None, soon), None);
        assert_eq!(fresh.arrive(Source::Bookkeeping, &idle, None, late), None);
        let reason = fresh.arrive(Source::Interaction, &idle, None, late);
        assert_eq!(reason, Some(ResetReason::Idle));
        assert_eq!(fresh, Freshness::new(late));
        assert_eq!(fresh.arrive(Source::Interaction, &idle, None, late), None, "once");
    }

    /// Z5: the words are the ones that are stored.
    #[test]
    fn reasons_have_words() {
        use ResetReason::*;
        for reason in [New, Reset, Idle, Daily, Compaction, Deleted, Shutdown, Restart, Unknown] {
            let text = serde_json::to_string(&reason).unwrap();
            assert_eq!(text, format!("\"{}\"", reason.word()));
        }
    }
}
