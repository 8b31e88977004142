//! What goes into the machine and what comes out of it.

use super::compact::{Compacted, CompactionEnd, Trigger};
pub use super::ends::{Cause, Fault, FenceRefusal, PolicyRule, Termination};
pub use super::outcome::{Outcome, Unstarted};
use super::{batch, reply, run::Run, steer::Drain, steer::QueueKind};
use crate::base::{Failure, Millis, MsgId, OpId, RunId};
use crate::transcript::{Assistant, Compaction, Delta, ReplyBody, ToolOutput, User};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a run begins (semantics 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Entry {
    /// With new messages.
    Prompt,
    /// From what the transcript ends with.
    Continue,
    /// Only to make the history shorter; its prompt never reaches the model.
    Compact,
}

/// Loop-level points at which the world is asked (semantics 2.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Hook {
    /// May replace system prompt and tools before a request is built.
    PrepareContinuation,
    /// May change what the model sees of the history.
    TransformContext,
    /// May replace context or model after a turn, or stop the run.
    PrepareNextTurn,
    /// May end the run after a turn.
    ShouldStop,
    /// Weighs what would be sent; [`Verdict::Stop`] says that it is too much.
    WeighRequest,
    /// Weighs what the next run would find; [`Verdict::Stop`] says that it is too much.
    WeighHistory,
}

/// Which points have somebody behind them. A point with nobody costs nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Hooks {
    /// [`Hook::PrepareContinuation`].
    pub prepare_continuation: bool,
    /// [`Hook::TransformContext`].
    pub transform_context: bool,
    /// [`Hook::PrepareNextTurn`].
    pub prepare_next_turn: bool,
    /// [`Hook::ShouldStop`].
    pub should_stop: bool,
    /// [`Hook::WeighRequest`] and [`Hook::WeighHistory`]: histories are compacted.
    #[serde(default)]
    pub compaction: bool,
    /// Gate of a whole batch (semantics B1).
    pub before_batch: bool,
    /// Gate of one call (semantics 3.1.5).
    pub before_call: bool,
    /// Sees the result of each call that ran (semantics 3.1.8).
    pub after_call: bool,
    /// Sees the outcome of every call (semantics 3.1.9).
    pub after_outcome: bool,
}

/// Time limits of a run, ms; 0 means none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// The whole run (semantics 13).
    pub budget_ms: u64,
    /// From the request to the first byte of the answer.
    pub first_event_ms: u64,
    /// Between two bytes of the answer, comments included.
    pub idle_ms: u64,
    /// Between two pieces of content.
    pub progress_ms: u64,
    /// From an abort to the end of everything it stops.
    pub settle_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            budget_ms: 172_800_000,
            first_event_ms: 120_000,
            idle_ms: 120_000,
            progress_ms: 600_000,
            settle_ms: 15_000,
        }
    }
}

/// What a run is started with; fixed for its life.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Setup {
    /// Points with somebody behind them.
    pub hooks: Hooks,
    /// How much a steering poll takes.
    pub steer_mode: Drain,
    /// How much a follow-up poll takes.
    pub follow_mode: Drain,
    /// `toolExecution: sequential` forces every batch.
    pub sequential: bool,
    /// Loop detection is off only if the config says so (decisions 17).
    pub loops_off: bool,
    /// Time limits.
    pub limits: Limits,
    /// Entropy for jitter; comes with the input that starts the run.
    pub seed: u64,
}

/// A request to start a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Submit {
    /// The run's name.
    pub run: RunId,
    /// With or without prompts.
    pub entry: Entry,
    /// New messages, for [`Entry::Prompt`].
    pub prompts: Vec<(MsgId, Arc<User>)>,
    /// Messages that a former process accepted and did not commit, in order.
    #[serde(default)]
    pub waiting: Vec<(MsgId, QueueKind)>,
    /// Fixed options.
    pub setup: Setup,
}

/// What the transcript ends with, for [`Entry::Continue`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Assembled {
    /// There is no message yet.
    EmptyHistory,
    /// The last message is the model's.
    AfterAssistant,
    /// The last message is a tool's result.
    AfterResult,
    /// The last message is a person's.
    AfterUser,
}

/// Answer of a loop-level hook. `Stop` is only listened to where semantics 2.3 lets it decide.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// Go on; what the hook changed is with the one who asked it.
    Go,
    /// Stop the run.
    Stop,
}

/// Everything that can happen to a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// Start.
    Submit(Box<Submit>),
    /// The claim was committed.
    Claimed(OpId),
    /// Context is ready.
    Assembled(OpId, Assembled),
    /// Context could not be made.
    AssemblyFailed(OpId),
    /// A loop-level hook answered.
    Hooked(OpId, Verdict),
    /// What became of a compaction.
    Compacted(OpId, Compacted),
    /// From the model.
    Reply(OpId, reply::Input),
    /// From a tool or a hook around it.
    Call(OpId, batch::Input),
    /// A message for the running turn, or for after it.
    Message {
        /// Its name.
        id: MsgId,
        /// Where it waits.
        kind: QueueKind,
        /// What it says.
        body: Arc<User>,
    },
    /// A waiting message is taken back.
    Cancel(MsgId),
    /// Stop.
    Abort(Cause),
    /// A newer run has this session.
    Superseded(RunId),
    /// The fence refused the last commit; its `tell` and `act` were dropped.
    Fenced(FenceRefusal),
    /// The last commit failed; its `tell` and `act` were dropped.
    StoreFailed,
    /// Time has passed.
    Tick,
}

/// One line of the log: committed before anything is told or done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Record {
    /// The run is accepted, with its prompts.
    Accepted {
        /// The run.
        run: RunId,
        /// With or without prompts.
        entry: Entry,
        /// Its prompts.
        prompts: Vec<(MsgId, Arc<User>)>,
    },
    /// This run becomes the session's active writer, by compare-and-set.
    Claim,
    /// A message waits.
    Queued {
        /// Its name.
        id: MsgId,
        /// Where.
        kind: QueueKind,
        /// What it says.
        body: Arc<User>,
    },
    /// A waiting message was taken back.
    Dropped(MsgId),
    /// A waiting message becomes a transcript entry.
    Committed(MsgId),
    /// The model's reply becomes a transcript entry; its calls are open.
    Reply(Arc<ReplyBody>),
    /// The model failed; the entry is made of what it had said.
    Failed {
        /// How.
        failure: Failure,
        /// What had arrived.
        partial: Option<Arc<Assistant>>,
    },
    /// The reply was stopped; the entry is made of what it had said.
    Stopped {
        /// Who stopped it.
        cause: Cause,
        /// What had arrived; nothing at all between replies.
        partial: Option<Arc<Assistant>>,
    },
    /// These calls are about to be started.
    Launch(Vec<u16>),
    /// A started call has a process of its own.
    Process {
        /// The call.
        call: u16,
        /// Its process group.
        pgid: u32,
        /// The start time of the group's leader, as the system counts it.
        started: u64,
    },
    /// What became of a call is known.
    Outcome {
        /// The call.
        call: u16,
        /// What became of it.
        outcome: Outcome,
        /// A loop warning to append to its text: after so many repeats.
        warned: Option<u32>,
    },
    /// A call's outcome becomes a transcript entry.
    Result(u16),
    /// The assistant message that closes a run stopped by the loop detector.
    LoopEnd,
    /// The hidden note that tells the model of an interruption.
    Note,
    /// What the model knows of the past becomes this.
    Compacted(Arc<Compaction>),
    /// The run is over.
    Ended(Termination),
}

/// Whose message an event speaks of.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Who {
    /// A person's, prompt or queued.
    User(MsgId),
    /// The model's; the body is absent until it is final.
    Reply(Option<Arc<ReplyBody>>),
    /// The model's, failed.
    Failed(Failure),
    /// The model's, stopped: made by the machine if there was none.
    Stopped(Cause),
    /// A tool's result.
    Result(u16),
    /// The closing words of the loop detector.
    LoopEnd,
    /// The hidden interruption note.
    Note,
}

/// What observers are told, in order, after the commit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// The run is accepted.
    Accepted,
    /// The loop begins.
    AgentStart,
    /// A turn begins.
    TurnStart,
    /// A message begins.
    MessageStart(Who),
    /// A piece of the model's message.
    MessageUpdate(Delta),
    /// Everything told of the model's message so far is void: a new attempt follows.
    MessageReset,
    /// A message is final and stored.
    MessageEnd(Who),
    /// A call is taken up.
    ToolStart(u16),
    /// A call's preview.
    ToolUpdate(u16, Arc<ToolOutput>),
    /// A call is over.
    ToolEnd {
        /// The call.
        call: u16,
        /// What became of it.
        outcome: Outcome,
        /// Whether its implementation was entered.
        started: bool,
    },
    /// A turn is over.
    TurnEnd {
        /// How many results it has.
        results: u16,
    },
    /// The same request will be sent again.
    Retry {
        /// Which retry this is, from 1.
        attempt: u8,
        /// How many there may be.
        max: u8,
        /// How long it waits, ms.
        delay_ms: u64,
        /// Why.
        failure: Failure,
    },
    /// The history is being compacted.
    CompactionStart(Trigger),
    /// It was, or why not.
    CompactionEnd(CompactionEnd),
    /// What an abort stops has not ended yet.
    AbortSlow,
    /// The loop is over.
    AgentEnd,
    /// The run is over: the terminal outcome, once.
    Ended(Termination),
}

/// Work for the world.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Act {
    /// Load, repair and assemble context.
    Assemble(OpId),
    /// Ask a loop-level hook.
    AskHook(OpId, Hook),
    /// Compact the history: what becomes of it is told as one answer.
    Compact(OpId, Trigger),
    /// Nobody waits for that compaction any more.
    CancelCompact(OpId),
    /// The summary is waited for no longer: answer at once, without one if need be.
    CutSummary(OpId),
    /// Send the request.
    CallModel(OpId),
    /// Cut the model's stream at once.
    CancelModel(OpId),
    /// Ask the gate of the batch.
    AskBatch(OpId),
    /// Ask the gate of a call.
    AskCall(OpId, u16),
    /// Start a tool; its record was committed.
    RunTool(OpId, u16),
    /// Stop a tool.
    CancelTool(OpId),
    /// Ask the hook that sees results of calls that ran.
    AskAfter(OpId, u16, Outcome),
    /// Ask the hook that sees every outcome.
    AskOutcome(OpId, u16, Outcome),
}

/// Why an input changed nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// A run is active already.
    Busy,
    /// No such operation is open: late, doubled or never asked.
    Stale(OpId),
    /// The run is over.
    Over,
    /// There is no run yet.
    NotStarted,
    /// Nothing is due.
    Early,
    /// That message is not waiting here.
    UnknownMessage(MsgId),
    /// The message is here already.
    DuplicateMessage(MsgId),
    /// The queue has reached its limit.
    QueueFull,
    /// The operation is open, but this is no answer to it.
    Mismatch(OpId),
    /// An abort is under way already.
    Aborting,
    /// A run needs a prompt, and no more than the queue holds.
    BadPrompts,
}

/// The outcome of one input.
#[must_use]
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// The run afterwards.
    pub state: Run,
    /// To be committed first, in one transaction.
    pub append: Vec<Record>,
    /// To be told after the commit.
    pub tell: Vec<Event>,
    /// To be started after that.
    pub act: Vec<Act>,
    /// Set if the input was ill-timed; then the state is what it was and nothing follows.
    pub refused: Option<Refusal>,
}

impl Step {
    /// The state as it was, and why.
    pub fn refuse(state: Run, why: Refusal) -> Step {
        Step { state, append: vec![], tell: vec![], act: vec![], refused: Some(why) }
    }
}

/// What a step gathers while it runs.
#[derive(Default, Debug)]
pub(super) struct Out {
    pub append: Vec<Record>,
    pub tell: Vec<Event>,
    pub act: Vec<Act>,
}

impl Out {
    /// A message that begins and ends at once, as all but the model's do.
    pub fn message(&mut self, who: Who) {
        self.tell.push(Event::MessageStart(who.clone()));
        self.tell.push(Event::MessageEnd(who));
    }
}

/// Why the machine wants to be woken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Reason {
    /// The run budget.
    Budget,
    /// No first byte.
    FirstEvent,
    /// No byte.
    Idle,
    /// No content.
    Progress,
    /// The next attempt.
    Backoff,
    /// A summary takes too long.
    Summary,
    /// What was aborted has not ended.
    AbortSlow,
    /// What was aborted is given up.
    Settle,
}

/// The earlier of two due times; ties go to the first.
#[must_use]
pub(super) fn sooner(
    a: Option<(Millis, Reason)>,
    b: Option<(Millis, Reason)>,
) -> Option<(Millis, Reason)> {
    match (a, b) {
        (Some(x), Some(y)) => Some(if y.0 < x.0 { y } else { x }),
        (x, None) => x,
        (None, y) => y,
    }
}
