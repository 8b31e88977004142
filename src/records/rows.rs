//! Rows of sessions and runs.

use crate::base::{Millis, SessionId};
use crate::engine::Termination;
use serde::Serialize;
use serde_json::Value;

/// A session as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    /// Its key.
    pub key: String,
    /// Its id.
    pub session_id: SessionId,
    /// How often it was reset.
    pub revision: u32,
    /// The run that writes now.
    pub active_run: Option<String>,
    /// Where its tools work.
    pub cwd: String,
    /// When it was made.
    pub created_at: Millis,
    /// When it last changed.
    pub updated_at: Millis,
    /// How many entries it has.
    pub entries: u64,
    /// Its last entry.
    pub leaf: Option<String>,
    /// When the conversation began: at its creation or its last reset.
    pub started_at: Millis,
    /// When a person last had to do with it.
    pub interaction_at: Millis,
    /// Its last run was stopped by a restart and is taken up again by the next start.
    pub interrupted: bool,
    /// What `/queue` set for it, as the JSON that is stored.
    pub queue_settings: Option<String>,
    /// The conversation that it belongs to, for a child's.
    pub parent_key: Option<String>,
    /// What is set for it (its label, its model), as the JSON that is stored.
    pub meta: Option<String>,
}

/// A run as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRow {
    /// The run.
    pub run_id: String,
    /// Its conversation; none once that is deleted.
    pub key: Option<String>,
    /// Its session.
    pub session_id: SessionId,
    /// When it was accepted.
    pub accepted_at: Millis,
    /// When it became the session's writer.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// How it ended.
    pub termination: Option<Termination>,
    /// The run that answered its message, where that was another one.
    pub into_run: Option<String>,
    /// What it waited for, phase by phase.
    pub phases: Option<Value>,
    /// How it was to wait for its turn.
    pub turn: Option<Value>,
    /// The identity of its request.
    #[serde(skip)]
    pub request: Option<String>,
}
