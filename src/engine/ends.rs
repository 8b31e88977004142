//! How a run ends (decisions 18), and who or what made it end.

use crate::base::{FailKind, RunId};
use serde::{Deserialize, Serialize};

/// Who or what stopped a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Cause {
    /// A person, a client, a parent run.
    User,
    /// The run budget or the settle limit.
    Timeout,
    /// The process is being stopped in good order; the run is resumed later.
    Restart,
    /// A tool handed the turn over to a continuation: no interruption note.
    Handoff,
    /// The client it was tied to has gone.
    Disconnect,
}

/// Which part of ours failed a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Fault {
    /// A commit failed: disk full, read-only, damaged.
    Store,
    /// The context could not be assembled.
    Assembly,
    /// There was nothing to continue from (semantics R1b).
    NotContinuable,
    /// The lifecycle refused to launch a tool (trace 25).
    Launch,
    /// An invariant broke; the run's session was rebuilt from its records.
    Broken,
}

/// How a run ended (decisions 18).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Termination {
    /// The loop came to its natural end.
    Completed {
        /// The last reply was cut at the output limit.
        cut: bool,
    },
    /// Somebody stopped it.
    Aborted {
        /// Who.
        cause: Cause,
    },
    /// The model failed after every retry.
    ProviderError {
        /// How.
        fail: FailKind,
    },
    /// A second critical loop in one prompt.
    ToolLoop,
    /// A rule ended it.
    PolicyStop {
        /// Which.
        rule: PolicyRule,
    },
    /// A newer writer took the session.
    Superseded {
        /// The newer run, where it is known.
        by: Option<RunId>,
    },
    /// We failed.
    Failed {
        /// Where.
        fault: Fault,
    },
}

/// The rule behind a [`Termination::PolicyStop`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyRule {
    /// `prepareNextTurn` answered stop.
    PrepareNextTurn,
    /// `shouldStopAfterTurn` answered true.
    ShouldStopAfterTurn,
    /// The message had to leave a full queue, and never began.
    QueueCap,
    /// A newer message took its place (queue mode `interrupt`).
    QueueInterrupt,
    /// A heartbeat that came while a run was active.
    NotNeeded,
}

impl std::fmt::Display for FenceRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FenceRefusal::SessionEntryMissing => f.write_str("the session is gone"),
            FenceRefusal::SessionRebound { by: Some(by) } => {
                write!(f, "the session has another writer: run {by}")
            }
            FenceRefusal::SessionRebound { by: None } => {
                f.write_str("the session was reset or has no writer any more")
            }
            FenceRefusal::SessionChanged => {
                f.write_str("the session of this key changed before the writer was admitted")
            }
            FenceRefusal::RevisionChanged => {
                f.write_str("the session was reset before the writer's claim was committed")
            }
            FenceRefusal::ClaimNotPersisted { by: Some(by) } => {
                write!(f, "the claim was not persisted: run {by} came first")
            }
            FenceRefusal::ClaimNotPersisted { by: None } => {
                f.write_str("the claim was not persisted: the session's writer has changed")
            }
            FenceRefusal::RunOver => f.write_str("a run that has ended cannot claim a session"),
        }
    }
}

/// Why the fence refused a commit (semantics 7.4).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum FenceRefusal {
    /// The session's row is gone.
    SessionEntryMissing,
    /// The session id, its revision or its active writer is another one.
    SessionRebound {
        /// Who writes now, where it is known.
        by: Option<RunId>,
    },
    /// A claim: the key belongs to another session now.
    SessionChanged,
    /// A claim: the session was reset since its snapshot was read.
    RevisionChanged,
    /// A claim: another writer than the one in the snapshot is active.
    ClaimNotPersisted {
        /// Who writes now, where it is known.
        by: Option<RunId>,
    },
    /// A claim: the run has ended, or was never accepted.
    RunOver,
}
