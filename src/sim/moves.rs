//! What the world may do next. A list of moves is a replay file.

use crate::base::FailKind;
use crate::engine::{Cause, QueueKind};
use serde::{Deserialize, Serialize};

/// One move.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Move {
    /// A run is submitted with so many prompts.
    Submit(u8),
    /// A run is submitted that continues without a prompt.
    Continue,
    /// A run is submitted that only compacts the history.
    Compact,
    /// A message joins the running turn.
    Steer,
    /// A message waits for the end of the loop.
    FollowUp,
    /// The nth waiting message is taken back.
    Cancel(u8),
    /// Somebody stops the run.
    Abort(u8),
    /// A newer run takes the session.
    Supersede,
    /// The superseded run tries to write all the same.
    LateCommit,
    /// So many milliseconds pass.
    Wait(u16),
    /// Time passes until the next appointment, and is ticked.
    Due,
    /// A tick at the wrong time.
    Tick,
    /// The nth open friend answers.
    Answer(u8, Reply),
    /// An answer for an operation that is not open.
    Stale(u8, Reply),
    /// The next commit fails, as on a full disk.
    FailCommit,
    /// A permitted foreign append: an announcement.
    Announce,
    /// The next step crashes at its nth boundary.
    Crash(u8),
    /// The process is killed between two steps.
    Kill,
}

/// What a friend says. What does not fit its kind is fitted to it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Yes; go on; text; a good result.
    Good,
    /// No; stop; block; a failed result.
    Bad,
    /// One more piece: a delta, a preview, a keep-alive.
    Piece,
    /// The model asks for tools: how many, and their shape.
    Calls {
        /// How many.
        count: u8,
        /// Which must run alone, bit by bit.
        sequential: u8,
        /// Which cannot run, bit by bit.
        rejected: u8,
        /// Arguments, to make repeats.
        args: u8,
    },
    /// The model fails.
    Fail(FailKind),
    /// An empty reply, or one that was cut.
    Odd(u8),
    /// A result that asks for the end of the run.
    Terminate,
    /// A launch is refused, a process is reported.
    Special,
}

/// A waiting prompt of a former run is a follow-up for the next one.
pub(super) fn follow(kind: QueueKind) -> QueueKind {
    match kind {
        QueueKind::Prompt | QueueKind::FollowUp => QueueKind::FollowUp,
        QueueKind::Steer => QueueKind::Steer,
    }
}

/// Who stops a run, by number.
pub(super) fn cause(n: u8) -> Cause {
    match n % 5 {
        0 => Cause::User,
        1 => Cause::Timeout,
        2 => Cause::Restart,
        3 => Cause::Handoff,
        _ => Cause::Disconnect,
    }
}
