//! What becomes of a call (semantics 3.5).

use super::loops::Finding;
use crate::transcript::ToolOutput;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Why an unstarted call has a result all the same (semantics 3.5).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Unstarted {
    /// Unknown tool or unusable arguments; the text is with the reply's checks.
    Rejected,
    /// A gate said no.
    Blocked {
        /// Its reason, if it gave one.
        reason: Option<Arc<str>>,
    },
    /// Steering arrived before the launch.
    Steering,
    /// The batch lifecycle refused a launch.
    Admission,
    /// The run was aborted before the call began.
    Aborted,
    /// The loop detector blocked the batch because of this call.
    Loop {
        /// What it found.
        finding: Finding,
        /// The run ends with it.
        second: bool,
    },
    /// The loop detector blocked the batch because of another call.
    LoopOther {
        /// The run ends with it.
        second: bool,
    },
}

/// What became of a call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// It ran, or answered while it was being prepared.
    Tool(Arc<ToolOutput>),
    /// It did not begin.
    Unstarted(Unstarted),
    /// It began and did not stop in time after an abort.
    Unsettled,
    /// As it was recorded before a hook was asked that never answered; only told, not recorded.
    Kept,
    /// It was running when the process stopped (decisions 7).
    UnknownAfterStop,
    /// It had not begun when the process stopped (decisions 7).
    NotStartedBeforeStop,
    /// It was running when a newer writer took the session.
    UnknownAfterTakeover,
    /// It had not begun when a newer writer took the session.
    NotStartedBeforeTakeover,
}

impl Outcome {
    /// Whether the result is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        match self {
            Outcome::Tool(output) => output.is_error,
            Outcome::Unstarted(_)
            | Outcome::Unsettled
            | Outcome::UnknownAfterStop
            | Outcome::NotStartedBeforeStop
            | Outcome::UnknownAfterTakeover
            | Outcome::NotStartedBeforeTakeover => true,
            Outcome::Kept => false,
        }
    }

    /// Whether the result asks for the end of the run (semantics 3.6).
    #[must_use]
    pub fn terminates(&self) -> bool {
        match self {
            Outcome::Tool(output) => output.terminate,
            Outcome::Unstarted(
                Unstarted::Loop { second, .. } | Unstarted::LoopOther { second },
            ) => *second,
            Outcome::Unstarted(_)
            | Outcome::Unsettled
            | Outcome::Kept
            | Outcome::UnknownAfterStop
            | Outcome::NotStartedBeforeStop
            | Outcome::UnknownAfterTakeover
            | Outcome::NotStartedBeforeTakeover => false,
        }
    }
}
