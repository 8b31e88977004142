//! All sessions of an agent at once (`spec/sessions.md`): what is accepted, who waits, who runs,
//! who stops whom. One of them at a time is a run; the others wait here.
//!
//! ```text
//! a session:  Idle -> Lined up -> Opening -> Running -> Idle
//!               \-> Changing (a reset, a deletion, an overflow on its way) -> Idle
//! a run:      Accepting -> Waiting -> Running -> gone
//!                            \-> Steering -> Joined -> gone
//! ```
//!
//! Unlike a run, this machine is one for the whole process, so it changes in place; whatever it
//! does is still decided by its state and its input alone. Content passes through.

mod admit;
pub mod io;
mod mend;
#[cfg(any(test, fuzzing, feature = "sim"))]
mod plant;
mod stop;
#[cfg(test)]
mod tests;
mod turn;
mod waits;

pub use io::{
    Act, Admission, Arrival, Change, Event, Facts, Input, Key, Options, Outcome, Refusal, Restored,
    Start, Status, Step, Target, Waits, Why,
};

#[cfg(any(test, fuzzing, feature = "sim"))]
pub use plant::{Line, Plant};

use crate::base::{Millis, MsgId, OpId, RunId};
use crate::engine::lanes::{Lane, Lanes, Ticket};
use crate::engine::recovery::Recovery;
use crate::engine::reset::ResetReason;
use crate::engine::turns::{Partial, Turn, Turns};
use crate::engine::watch::Watch;
use crate::engine::{Cause, Termination};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is open with the world.
#[derive(Clone, PartialEq, Debug)]
enum Asked {
    Admit(RunId, Doing),
    Open(Key),
    Drop(Key, Vec<(RunId, MsgId)>, Termination),
    Reset(Key, ResetReason),
    Delete(Key),
    Settings(Key, Partial),
    GivenUp,
    Find(u64),
}

/// What an arrival means for the freshness of its session (Z3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Doing {
    /// It is a person's doing.
    interaction: bool,
    /// The last daily hour before the message.
    boundary: Option<Millis>,
}

/// Where a run stands.
#[derive(Clone, PartialEq, Debug)]
enum Stage {
    /// Its acceptance is on its way to the store.
    Accepting {
        /// Somebody stopped it before it was accepted.
        stopped: Option<Cause>,
    },
    /// It waits among its session's turns.
    Waiting,
    /// The active run was given its message.
    Steering,
    /// The active run was asked to give its message back, and the run is to end so. It is not over
    /// before the active run has said what became of the message, or has ended.
    Leaving(Termination),
    /// It is the active run.
    Running,
    /// Another run answers its message.
    Joined(RunId),
    /// It ends without having begun, once that is stored.
    Dropping,
}

/// A run that has not ended.
#[derive(Clone, PartialEq, Debug)]
struct Live {
    key: Key,
    request: Arc<str>,
    msg: MsgId,
    accepted_at: Millis,
    started_at: Option<Millis>,
    waits: Waits,
    stage: Stage,
}

/// What a session is doing.
#[derive(Clone, PartialEq, Debug)]
enum Phase {
    /// Nothing runs.
    Idle,
    /// It waits for its lanes.
    Lined(Ticket),
    /// It has them and is being loaded.
    Opening(Ticket),
    /// Nothing may begin until a change of it is stored; its lanes, if it has them.
    Changing(Option<Ticket>),
    /// It is made whole, so that it can be changed.
    Mending,
    /// A run writes.
    Running {
        ticket: Ticket,
        run: RunId,
        /// The runs whose messages it answers too.
        joined: Vec<RunId>,
        /// Somebody has stopped it.
        stopping: bool,
    },
}

/// What is to happen to a session once nothing runs in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pending {
    Reset(ResetReason),
    Delete,
}

/// A session that is in use.
#[derive(Clone, PartialEq, Debug)]
struct Session {
    phase: Phase,
    turns: Turns,
    /// What `/queue` set for it.
    settings: Partial,
    /// Settings of the channel of its latest message.
    channel: Partial,
    /// It is in memory, whole.
    open: bool,
    /// Resets and deletions that wait for the end of the run.
    pending: Vec<Pending>,
    /// Its loading is on its way.
    opening: Option<OpId>,
    /// A run of it was cut off: the store has a writer that is not there, until it is opened.
    torn: bool,
    /// What is in memory was read before its settings changed: it goes with the run.
    stale: bool,
    /// When it is to be looked at.
    alarm: Option<Millis>,
    /// The lanes that were asked for.
    lined_for: (Lane, Option<Arc<str>>),
    /// Counts its runs: what was decided about one is not done to the next.
    generation: u64,
    /// Since when it is at rest.
    rest_since: Millis,
    /// When its run asked for its lanes.
    lined_at: Millis,
    /// The run by which the model is told of dropped messages, on its way to the store.
    overflow: Option<RunId>,
    /// What a start found waiting.
    restored: Vec<Turn>,
    /// What waits found the session at rest: it runs without a quiet window.
    at_once: bool,
}

/// The process stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Drain {
    No,
    Until(Millis),
    Aborting,
    Done,
}

/// The machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Sessions {
    options: Options,
    sessions: BTreeMap<Key, Session>,
    runs: BTreeMap<RunId, Live>,
    lanes: Lanes,
    tickets: BTreeMap<Ticket, Key>,
    asked: BTreeMap<OpId, Asked>,
    /// When sessions that keep quiet, wait for their lanes or are at rest have to be looked at.
    alarms: BTreeSet<(Millis, Key)>,
    waiters: BTreeMap<u64, (RunId, Millis)>,
    recovery: Recovery,
    watch: Watch,
    look_at: Option<Millis>,
    drain: Drain,
    booted: bool,
    /// How many runs are active.
    running: usize,
    /// Ends that could not be stored yet.
    drop_again: Vec<Owed>,
    next_msg: u64,
    next_op: u32,
    next_ticket: u64,
}

/// Runs of a session whose end could not be stored, with the message of each.
type Owed = (Key, Vec<(RunId, MsgId)>, Termination);

/// What a step gathers.
type Out = Step;

impl Sessions {
    /// A process that has just begun.
    #[must_use]
    pub fn new(options: Options) -> Sessions {
        Sessions {
            lanes: Lanes::new(options.caps),
            watch: Watch::new(options.watch),
            options,
            sessions: BTreeMap::new(),
            runs: BTreeMap::new(),
            tickets: BTreeMap::new(),
            asked: BTreeMap::new(),
            alarms: BTreeSet::new(),
            waiters: BTreeMap::new(),
            recovery: Recovery::default(),
            look_at: None,
            drain: Drain::No,
            booted: false,
            running: 0,
            drop_again: vec![],
            next_msg: 1,
            next_op: 1,
            next_ticket: 1,
        }
    }

    /// One input. A refused one changes nothing.
    pub fn step(&mut self, input: Input, now: Millis) -> Step {
        let mut out = Step::default();
        let done = self.dispatch(input, now, &mut out);
        if let Err(why) = done {
            out.refused = Some(why);
            return out;
        }
        self.go_on(now, &mut out);
        self.drained(&mut out);
        out
    }

    fn dispatch(&mut self, input: Input, now: Millis, out: &mut Out) -> Result<(), Refusal> {
        match input {
            Input::Boot { next_msg, waiting, interrupted } => {
                self.boot(next_msg, waiting, interrupted, now, out)
            }
            Input::Arrive(arrival) => {
                self.arrive(*arrival, now, out);
                Ok(())
            }
            Input::Admitted(op, admission) => self.admitted(op, admission, now, out),
            Input::Opened(op) => self.opened(op, now, out),
            Input::OpenFailed(op) => self.open_failed(op, now, out),
            Input::Steered { run, taken } => self.steered(&run, taken, now, out),
            Input::Joined(run) => self.joined(&run),
            Input::Turned(run) => {
                let key = self.live(&run)?.key.clone();
                self.recover(crate::engine::recovery::Input::Started(key), now, out);
                Ok(())
            }
            Input::Ended { run, termination, reload } => {
                self.ended(&run, &termination, reload, now, out)
            }
            Input::Changed(op) => self.changed(op, now, out),
            Input::ChangeFailed(op, why) => self.change_failed(op, &why, now, out),
            Input::Found(op, outcome) => self.found(op, outcome, out),
            Input::Abort(target, cause) => self.abort(target, cause, now, out),
            Input::Wait { waiter, run, until } => {
                self.wait(waiter, run, until, now, out);
                Ok(())
            }
            Input::Unwait(waiter) => {
                self.waiters.remove(&waiter);
                Ok(())
            }
            Input::Reset(key, reason) => {
                self.pend(key, Pending::Reset(reason), now, out);
                Ok(())
            }
            Input::Delete(key) => {
                self.pend(key, Pending::Delete, now, out);
                Ok(())
            }
            Input::Settings(key, partial) => {
                self.settings(key, partial, out);
                Ok(())
            }
            Input::Reload(key) => {
                self.reload(&key, out);
                Ok(())
            }
            Input::Configure(options) => {
                self.configure(*options, now, out);
                Ok(())
            }
            Input::Seen(seen) => {
                self.seen(seen, now, out);
                Ok(())
            }
            Input::Drain(until) => {
                self.drain(until, now, out);
                Ok(())
            }
            Input::Tick => {
                self.tick(now, out);
                Ok(())
            }
        }
    }

    fn op(&mut self, asked: Asked) -> OpId {
        let op = OpId(self.next_op);
        self.next_op += 1;
        self.asked.insert(op, asked);
        op
    }

    fn answered(&mut self, op: OpId) -> Result<Asked, Refusal> {
        self.asked.remove(&op).ok_or(Refusal::Stale(op))
    }

    fn live(&self, run: &RunId) -> Result<&Live, Refusal> {
        self.runs.get(run).ok_or(Refusal::UnknownRun)
    }

    /// The session of a key, made if it is not in use.
    fn session(&mut self, key: &Key, now: Millis) -> &mut Session {
        self.sessions.entry(Arc::clone(key)).or_insert_with(|| Session {
            phase: Phase::Idle,
            turns: Turns::default(),
            settings: Partial::default(),
            channel: Partial::default(),
            open: false,
            pending: vec![],
            opening: None,
            torn: false,
            stale: false,
            alarm: None,
            lined_for: (Lane::Main, None),
            generation: 0,
            rest_since: now,
            lined_at: now,
            overflow: None,
            restored: vec![],
            at_once: false,
        })
    }

    /// How many runs have not ended.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.runs.len()
    }

    /// Whether nothing was asked for that has not been answered: a session that a former process
    /// left torn is being made whole until then.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.asked.is_empty()
    }

    /// Whether a run is here that has not ended.
    #[must_use]
    pub fn is_live(&self, run: &RunId) -> bool {
        self.runs.contains_key(run)
    }

    /// How many sessions are in use or in memory.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.sessions.len()
    }

    /// Whether an operation is an admission, for a store that failed it.
    #[must_use]
    pub fn admits(&self, op: OpId) -> bool {
        matches!(self.asked.get(&op), Some(Asked::Admit(..)))
    }

    /// The run that writes in a session.
    #[must_use]
    pub fn active(&self, key: &str) -> Option<&RunId> {
        match &self.sessions.get(key)?.phase {
            Phase::Running { run, .. } => Some(run),
            Phase::Idle
            | Phase::Lined(_)
            | Phase::Opening(_)
            | Phase::Changing(_)
            | Phase::Mending => None,
        }
    }

    /// The runs that an abort of this target would stop.
    #[must_use]
    pub fn stoppable(&self, target: &Target) -> Vec<RunId> {
        let stops = |live: &Live| !matches!(live.stage, Stage::Dropping);
        match target {
            Target::Run(run) => {
                self.runs.get(run).filter(|l| stops(l)).map(|_| run.clone()).into_iter().collect()
            }
            Target::Session(key) => {
                let of = self.runs.iter().filter(|(_, live)| live.key == *key && stops(live));
                of.map(|(run, _)| run.clone()).collect()
            }
        }
    }

    /// The settings of a session's queue as they hold for a message without any of its own.
    #[must_use]
    pub fn queue_settings(&self, key: &str) -> crate::engine::turns::QueueSettings {
        let none = Partial::default();
        let (session, channel) =
            self.sessions.get(key).map_or((&none, &none), |s| (&s.settings, &s.channel));
        crate::engine::turns::resolve(&none, session, channel, None, &self.options.queue)
    }

    /// A run is over without having been the active one.
    fn over(
        &mut self,
        run: &RunId,
        how: Termination,
        into: Option<RunId>,
        now: Millis,
        out: &mut Out,
    ) {
        let Some(live) = self.runs.remove(run) else { return };
        let outcome = Outcome {
            accepted_at: live.accepted_at,
            started_at: live.started_at,
            ended_at: Some(now),
            termination: Some(how.clone()),
            into: into.clone(),
        };
        let waiting: Vec<u64> =
            self.waiters.iter().filter(|(_, (r, _))| r == run).map(|(w, _)| *w).collect();
        for waiter in waiting {
            self.waiters.remove(&waiter);
            let outcome = Some(outcome.clone());
            out.tell.push(Event::Waited { waiter, outcome, queued: false });
        }
        let key = Arc::clone(&live.key);
        out.tell.push(Event::Ended { key, run: run.clone(), termination: how.clone(), into });
        if live.waits.attempt > 0 {
            self.resumed(live.key, &how, now, out);
        }
    }

    /// A session is looked at then, or earlier.
    fn wake(&mut self, key: &Key, at: Millis) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        if session.alarm.is_some_and(|before| before <= at) {
            return;
        }
        // One alarm a session, however often it is scheduled.
        if let Some(before) = session.alarm.replace(at) {
            self.alarms.remove(&(before, Arc::clone(key)));
        }
        self.alarms.insert((at, Arc::clone(key)));
    }

    /// Asserts what must hold whatever happens.
    pub fn check(&self) {
        for (key, session) in &self.sessions {
            session.turns.check();
            if let Phase::Running { ticket, run, .. } = &session.phase {
                assert_eq!(self.tickets.get(ticket), Some(key), "8: a run without its lanes");
                let live = self.runs.get(run);
                let stage = live.map(|l| &l.stage);
                assert_eq!(stage, Some(&Stage::Running), "3: {run} is and is not active");
            }
            for turn in session.turns.iter() {
                let live = self.runs.get(&turn.run);
                assert!(live.is_some(), "5: the waiting turn {} belongs to no run", turn.run);
            }
        }
        assert!(self.alarms.len() <= self.sessions.len(), "14: more alarms than sessions");
        let held = self.sessions.values().filter(|s| s.ticket().is_some()).count();
        assert_eq!(held, self.tickets.len(), "8: lanes are held for nobody");
        for (run, live) in &self.runs {
            let session = self.sessions.get(&live.key);
            let waits = session.is_some_and(|s| s.turns.iter().any(|t| t.run == *run));
            match live.stage {
                Stage::Waiting | Stage::Steering | Stage::Leaving(_) => {
                    assert!(waits, "5: {run} waits nowhere");
                }
                Stage::Accepting { .. } | Stage::Running | Stage::Joined(_) | Stage::Dropping => {
                    assert!(!waits, "5: {run} waits and does not");
                }
            }
        }
    }
}

impl Session {
    /// Whether everything waits for this run: it tells the model of what was dropped.
    fn holds_back(&self, run: &RunId) -> bool {
        self.overflow.as_ref() == Some(run)
    }

    fn ticket(&self) -> Option<Ticket> {
        match &self.phase {
            Phase::Idle | Phase::Mending => None,
            Phase::Lined(ticket) | Phase::Opening(ticket) | Phase::Running { ticket, .. } => {
                Some(*ticket)
            }
            Phase::Changing(ticket) => *ticket,
        }
    }
}

/// How a run that never began ends.
fn dropped(cause: Cause) -> Termination {
    Termination::Aborted { cause }
}
