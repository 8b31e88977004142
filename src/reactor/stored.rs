//! How a run waits for its turn, as it is stored with it.

use crate::engine::sessions::{Facts, Outcome, Waits};
use crate::engine::turns::{Group, summary_line};
use crate::records::RunRow;
use crate::store::Seen;
use std::sync::Arc;

/// A person's message to a conversation, with nothing special about it.
#[must_use]
pub fn plain(text: &str) -> Waits {
    Waits::plain(Group::new("", "", "", ""), summary_line(text))
}

/// The identity of a request: the same key with another one is a conflict (semantics 7.3).
#[must_use]
pub fn request(key: &str, text: &str) -> Arc<str> {
    let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
    for part in [key, text] {
        hash.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part.as_bytes());
    }
    crate::base::id::hex(hash.finish().as_ref()).into()
}

/// The stored form.
pub(super) fn text(waits: &Waits) -> String {
    // Our own types have text keys and no fallible parts.
    serde_json::to_string(waits).unwrap_or_default()
}

/// Read again; what a former version left out, or cannot be read, waits as a plain message.
pub(super) fn read(text: Option<&str>, message: &str) -> Waits {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| plain(message))
}

/// What a run's row says of it.
pub(super) fn outcome(row: &RunRow) -> Outcome {
    Outcome {
        accepted_at: row.accepted_at,
        started_at: row.started_at,
        ended_at: row.ended_at,
        termination: row.termination.clone(),
        into: row.into_run.as_deref().map(crate::base::RunId::new),
    }
}

/// What an acceptance found.
pub(super) fn facts(seen: &Seen) -> Facts {
    let queue = seen.queue_settings.as_deref().and_then(|text| serde_json::from_str(text).ok());
    Facts {
        started_at: seen.started_at,
        interaction_at: seen.interaction_at,
        empty: seen.empty,
        queue: queue.unwrap_or_default(),
    }
}
