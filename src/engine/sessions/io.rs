//! What goes into the machine of all sessions, and what comes out of it.

use crate::base::{Millis, MsgId, OpId, RunId};
use crate::engine::lanes::{Caps, Lane, Priority};
use crate::engine::recovery::Candidate;
use crate::engine::reset::{ResetPolicy, ResetReason};
use crate::engine::turns::{Arriving, Group, Partial};
use crate::engine::watch::{Activity, Thresholds};
use crate::engine::{Cause, Termination};
use crate::transcript::User;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A conversation's key.
pub type Key = Arc<str>;

/// What the machine is started with.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// How many runs each lane takes.
    pub caps: Caps,
    /// `messages.queue` of the config.
    pub queue: Partial,
    /// When sessions begin anew.
    pub reset: ResetPolicy,
    /// When a session counts as stuck.
    pub watch: Thresholds,
    /// How long a message may wait for its lanes, ms: the run budget and some grace; 0 is for ever.
    pub lane_wait_ms: u64,
    /// How long a session that is at rest is kept in memory, ms.
    pub keep_ms: u64,
}

/// A client's message, on its way in.
#[derive(Clone, PartialEq, Debug)]
pub struct Arrival {
    /// The conversation.
    pub key: Key,
    /// The run, by the client's idempotency key.
    pub run: RunId,
    /// The identity of the request (semantics 7.3).
    pub request: Arc<str>,
    /// What it says. It passes through to the store and is not kept here.
    pub body: Arc<User>,
    /// How it waits.
    pub wait: Waits,
    /// Whether it is a person's doing: what is not does not keep a session fresh.
    pub interaction: bool,
    /// The last local daily hour at or before now, where the reset policy has one.
    pub boundary: Option<Millis>,
}

/// How a message waits for its turn; stored with its run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Waits {
    /// Message or heartbeat.
    pub arriving: Arriving,
    /// Whom it may share a turn with.
    pub group: Group,
    /// What stands for it if it is dropped.
    pub line: Arc<str>,
    /// Settings that came with it.
    pub inline: Partial,
    /// Settings of its channel.
    pub channel: Partial,
    /// Its global lane.
    pub lane: Lane,
    /// The parent's owner, for the lane of children.
    pub owner: Option<Arc<str>>,
    /// Who goes first.
    pub priority: Priority,
    /// The run's own budget, ms, where it has one; 0 is none.
    #[serde(default)]
    pub budget_ms: Option<u64>,
    /// Which attempt at resuming an interrupted run it is; 0 for anything else.
    pub attempt: u8,
    /// Only tools that can be repeated are offered to it.
    pub narrowed: bool,
}

impl Waits {
    /// The same for a command that compacts the history: it shares its turn with nobody.
    #[must_use]
    pub fn compacting(self) -> Waits {
        let group = Group::new("", "", &self.line, "compact");
        Waits { arriving: Arriving::Compaction, group, ..self }
    }

    /// A message with nothing special about it.
    #[must_use]
    pub fn plain(group: Group, line: Arc<str>) -> Waits {
        Waits {
            arriving: Arriving::Message,
            group,
            line,
            inline: Partial::default(),
            channel: Partial::default(),
            lane: Lane::Main,
            owner: None,
            priority: Priority::Normal,
            budget_ms: None,
            attempt: 0,
            narrowed: false,
        }
    }
}

/// What the store says of an arrival.
#[derive(Clone, PartialEq, Debug)]
pub enum Admission {
    /// It is accepted now.
    New(Facts),
    /// It was accepted before.
    Known(Outcome),
    /// The same key came with another request before.
    Conflict,
    /// It could not be stored.
    Failed(Arc<str>),
}

/// The session as the arrival found it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// When the conversation began.
    pub started_at: Millis,
    /// The last interaction before this one.
    pub interaction_at: Millis,
    /// It has no entry yet.
    pub empty: bool,
    /// What `/queue` set for it.
    pub queue: Partial,
}

/// What is known of a run, for those who wait for it (decisions 20).
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// When it was accepted.
    pub accepted_at: Millis,
    /// When it began.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// How it ended.
    pub termination: Option<Termination>,
    /// The run that answered its message, where that was another one.
    pub into: Option<RunId>,
}

/// The status of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The run completed.
    Ok,
    /// It ended otherwise.
    Error,
    /// It has not ended, or its own time was over.
    Timeout,
}

impl Outcome {
    /// Only a completed run is ok; only its own time limits are a timeout (semantics 4).
    #[must_use]
    pub fn status(&self) -> Status {
        match &self.termination {
            None | Some(Termination::Aborted { cause: Cause::Timeout }) => Status::Timeout,
            Some(Termination::Completed { .. }) => Status::Ok,
            Some(
                Termination::Aborted { .. }
                | Termination::ProviderError { .. }
                | Termination::ToolLoop
                | Termination::PolicyStop { .. }
                | Termination::Superseded { .. }
                | Termination::Failed { .. },
            ) => Status::Error,
        }
    }
}

/// A run that was accepted by a former process and never began.
#[derive(Clone, PartialEq, Debug)]
pub struct Restored {
    /// The conversation.
    pub key: Key,
    /// The run.
    pub run: RunId,
    /// The identity of its request.
    pub request: Arc<str>,
    /// Its message.
    pub msg: MsgId,
    /// When it was accepted.
    pub accepted_at: Millis,
    /// How it waits.
    pub waits: Waits,
}

/// Whom an abort is for.
#[derive(Clone, PartialEq, Debug)]
pub enum Target {
    /// One run.
    Run(RunId),
    /// Everything of a conversation: what waits first, then what runs (semantics 6.1).
    Session(Key),
}

/// Everything that can happen to the sessions.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// The process has started.
    Boot {
        /// A message name above every one in use.
        next_msg: u64,
        /// What was accepted and never began, in order.
        waiting: Vec<Restored>,
        /// What was running.
        interrupted: Vec<Candidate>,
    },
    /// A message comes in.
    Arrive(Box<Arrival>),
    /// The store's answer to [`Act::Admit`].
    Admitted(OpId, Admission),
    /// A session is in memory and whole.
    Opened(OpId),
    /// It could not be.
    OpenFailed(OpId),
    /// Whether the active run took a steering message.
    Steered {
        /// Whose message.
        run: RunId,
        /// Whether.
        taken: bool,
    },
    /// The active run committed a steering message: that message's run ends with it.
    Joined(RunId),
    /// A run has begun its first turn.
    Turned(RunId),
    /// A run has ended, and its end is stored; with those that joined it.
    Ended {
        /// The run.
        run: RunId,
        /// How.
        termination: Termination,
        /// What is in memory is not what is stored: the session has to be opened again.
        reload: bool,
    },
    /// A change of a session is stored.
    Changed(OpId),
    /// It was not.
    ChangeFailed(OpId, Arc<str>),
    /// What the store knows of a run.
    Found(OpId, Option<Outcome>),
    /// Somebody stops something.
    Abort(Target, Cause),
    /// Somebody waits for a run.
    Wait {
        /// Who.
        waiter: u64,
        /// For which.
        run: RunId,
        /// Until when.
        until: Millis,
    },
    /// Somebody waits no longer.
    Unwait(u64),
    /// A session begins anew.
    Reset(Key, ResetReason),
    /// A session goes.
    Delete(Key),
    /// `/queue` for a session; nothing takes it back.
    Settings(Key, Partial),
    /// What is set for a session has changed: what is in memory of it is read again before its next
    /// run.
    Reload(Key),
    /// Other options hold from now on; what is in memory of every session is read again before its
    /// next run.
    Configure(Box<Options>),
    /// What the active sessions are doing: the answer to [`Act::Look`].
    Seen(Vec<(Key, Activity)>),
    /// The process is about to stop: nothing more begins, and what runs has until then.
    Drain(Millis),
    /// Time has passed.
    Tick,
}

/// A durable change of a session.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// Runs that never began end.
    Drop {
        /// They, with their messages.
        runs: Vec<(RunId, MsgId)>,
        /// How.
        termination: Termination,
    },
    /// The session begins anew.
    Reset(ResetReason),
    /// The session goes.
    Delete,
    /// `/queue`.
    Settings(Partial),
    /// An interrupted run is not taken up again.
    GivenUp,
}

/// Work for the world. What changes the store is answered by an input.
#[derive(Clone, PartialEq, Debug)]
pub enum Act {
    /// Accept durably.
    Admit(OpId, MsgId, Box<Arrival>),
    /// Load a session and make it whole.
    Open(OpId, Key),
    /// Let a session go from memory.
    Close(Key),
    /// Change a session durably.
    Change(OpId, Key, Change),
    /// Ask the store for a run.
    Find(OpId, RunId),
    /// Start a run: it claims the session.
    Start(Box<Start>),
    /// Hand a message to the active run.
    Steer {
        /// The conversation.
        key: Key,
        /// Whose message.
        run: RunId,
        /// The message.
        msg: MsgId,
    },
    /// Take a steering message back from the active run; answered by `Steered { taken: false }`
    /// if it was not committed yet.
    Unsteer {
        /// The conversation.
        key: Key,
        /// Whose message.
        run: RunId,
        /// The message.
        msg: MsgId,
    },
    /// Stop the active run.
    Abort(Key, Cause),
    /// The active run loses the session at once; its end comes as an input.
    Supersede(Key),
    /// Tell what the active sessions are doing.
    Look,
    /// Make an arrival that resumes an interrupted run.
    Resume {
        /// The conversation.
        key: Key,
        /// The interrupted run.
        run: RunId,
        /// Which attempt.
        attempt: u8,
        /// Only tools that can be repeated.
        narrowed: bool,
    },
}

/// What a run is started with.
#[derive(Clone, PartialEq, Debug)]
pub struct Start {
    /// The conversation.
    pub key: Key,
    /// The run.
    pub run: RunId,
    /// Its messages, in order; several are one combined turn, by the name of the last.
    pub msgs: Vec<MsgId>,
    /// The runs that the others came with: they end with it.
    pub joined: Vec<RunId>,
    /// When it was accepted.
    pub accepted_at: Millis,
    /// When it had its lanes.
    pub granted_at: Millis,
    /// Only tools that can be repeated.
    pub narrowed: bool,
    /// The run's own budget, ms, where it has one.
    pub budget_ms: Option<u64>,
    /// It only compacts the history.
    pub compacts: bool,
}

/// What somebody should know.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A run is accepted, durably.
    Accepted {
        /// The run.
        run: RunId,
        /// The conversation.
        key: Key,
        /// When.
        at: Millis,
    },
    /// The same request is on its way already, or is over.
    Known(RunId, Outcome),
    /// The same key with another request.
    Conflict(RunId),
    /// It was not accepted.
    Refused(RunId, Why),
    /// A wait is over.
    Waited {
        /// Who waited.
        waiter: u64,
        /// What became of the run; nothing if nobody knows it.
        outcome: Option<Outcome>,
        /// It still waits for its turn.
        queued: bool,
    },
    /// A run is over. Once for every accepted run.
    Ended {
        /// The conversation.
        key: Key,
        /// The run.
        run: RunId,
        /// How.
        termination: Termination,
        /// The run that answered its message.
        into: Option<RunId>,
    },
    /// A run has waited for its lanes for some time, ms.
    Waiting(RunId, u64),
    /// A session began anew, or why not.
    Reset(Key, Result<ResetReason, Arc<str>>),
    /// A session is gone, or why not.
    Deleted(Key, Result<(), Arc<str>>),
    /// What `/queue` set is stored, or why not.
    Set(Key, Result<(), Arc<str>>),
    /// A session does not get on: the word of its class or of what was done.
    Stuck(Key, &'static str),
    /// An interrupted run was given up after so many attempts.
    GivenUp(Key, RunId, u8),
    /// Nothing runs any more.
    Drained,
}

/// Why a message was not accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// The process is about to stop.
    Draining,
    /// Too much is waiting already.
    Busy,
    /// A heartbeat that nobody needs while a run is active.
    NotNeeded,
    /// It could not be stored.
    Store(Arc<str>),
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Why::Draining => f.write_str("the gateway is about to stop"),
            Why::Busy => f.write_str("too many messages are waiting"),
            Why::NotNeeded => f.write_str("a run is active: no heartbeat is needed"),
            Why::Store(why) => write!(f, "it could not be stored: {why}"),
        }
    }
}

/// Why an input changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No such operation is open.
    Stale(OpId),
    /// No such run is here.
    UnknownRun,
    /// There was a boot already.
    Booted,
}

/// The outcome of one input.
#[must_use]
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Step {
    /// To be told.
    pub tell: Vec<Event>,
    /// To be done.
    pub act: Vec<Act>,
    /// Set if the input was ill-timed; then nothing has changed.
    pub refused: Option<Refusal>,
}
