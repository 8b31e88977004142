//! Transcript entries (semantics 1.5) and what of them a model may see.

use super::message::{BranchSummary, CompactionSummary, Content, Custom, Message};
use crate::base::{EntryId, Millis};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the projection that new sessions are written for (semantics 1.5).
pub const PROJECTION_VERSION: u32 = 4;

/// One entry. Only the door makes them, so that an unpaired history cannot be stored.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its id.
    pub id: EntryId,
    /// The entry it follows; `None` for the first. Set by the store when it commits.
    pub parent_id: Option<EntryId>,
    /// When it was made.
    pub timestamp: Millis,
    /// What it is.
    #[serde(flatten)]
    pub kind: EntryKind,
    /// Keeps other code from making entries.
    #[serde(skip)]
    pub(super) made: Made,
}

impl Entry {
    /// An entry as it was stored: the door made it once.
    #[must_use]
    pub fn restore(
        id: EntryId,
        parent_id: Option<EntryId>,
        timestamp: Millis,
        kind: EntryKind,
    ) -> Entry {
        Entry { id, parent_id, timestamp, kind, made: Made::default() }
    }
}

/// A mark that only this folder can give.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Made(());

/// What stands for a compacted part of a history, on its way into the transcript.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    /// What a model reads in place of what went.
    pub summary: String,
    /// The first entry that is kept in full.
    pub first_kept_entry_id: EntryId,
    /// Context size before, tokens.
    pub tokens_before: u64,
    /// Context size after, tokens.
    pub tokens_after: u64,
    /// How many messages went.
    pub removed: u32,
    /// Whether they were summed up; if not, the text says that they are missing.
    pub summarized: bool,
    /// Metadata of the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// What an entry is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EntryKind {
    /// Something that was said.
    Message {
        /// What.
        message: Message,
    },
    /// A system's message that enters the model's context.
    #[serde(rename_all = "camelCase")]
    CustomMessage {
        /// Its kind.
        custom_type: String,
        /// What the model may see.
        content: Content,
        /// Whether a person is shown it.
        display: bool,
        /// Metadata.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
    },
    /// Data that never enters the context.
    #[serde(rename_all = "camelCase")]
    Custom {
        /// Its kind.
        custom_type: String,
        /// The data.
        data: Value,
    },
    /// What came before the kept part is summed up.
    #[serde(rename_all = "camelCase")]
    Compaction {
        /// The summary.
        summary: String,
        /// The first entry that is kept in full.
        first_kept_entry_id: EntryId,
        /// Context size before.
        tokens_before: u64,
        /// Context size after, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens_after: Option<u64>,
        /// Metadata.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
    },
    /// A boundary without a summary.
    #[serde(rename_all = "camelCase")]
    Reset {
        /// Why.
        reason: String,
        /// The first entry that is kept, if any is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_kept_entry_id: Option<EntryId>,
    },
    /// What happened on a branch that was left.
    #[serde(rename_all = "camelCase")]
    BranchSummary {
        /// The summary.
        summary: String,
        /// The branch's last entry.
        from_id: EntryId,
    },
    /// The thinking level changed; the latest wins.
    #[serde(rename_all = "camelCase")]
    ThinkingLevelChange {
        /// The level.
        thinking_level: String,
    },
    /// The model changed; the latest wins.
    #[serde(rename_all = "camelCase")]
    ModelChange {
        /// The provider.
        provider: String,
        /// The model.
        model_id: String,
    },
    /// A name for an entry.
    #[serde(rename_all = "camelCase")]
    Label {
        /// The entry.
        target_id: EntryId,
        /// Its name.
        label: Option<String>,
    },
    /// A name for the session.
    SessionInfo {
        /// The name.
        name: Option<String>,
    },
    /// The active branch ends elsewhere.
    #[serde(rename_all = "camelCase")]
    Leaf {
        /// The entry it ends with.
        target_id: Option<EntryId>,
    },
}

impl From<&Compaction> for EntryKind {
    fn from(made: &Compaction) -> EntryKind {
        EntryKind::Compaction {
            summary: made.summary.clone(),
            first_kept_entry_id: made.first_kept_entry_id.clone(),
            tokens_before: made.tokens_before,
            tokens_after: Some(made.tokens_after),
            details: made.details.clone(),
        }
    }
}

impl EntryKind {
    /// What a model is given in place of what this entry compacted, if it did.
    #[must_use]
    pub fn summary(&self, at: Millis) -> Option<Message> {
        match self {
            EntryKind::Compaction { summary, tokens_before, .. } => {
                Some(Message::CompactionSummary(CompactionSummary {
                    summary: summary.clone(),
                    tokens_before: *tokens_before,
                    timestamp: at,
                }))
            }
            _ => None,
        }
    }

    /// The message that this entry brings into the model's context, if it does.
    #[must_use]
    pub fn in_context(&self, at: Millis) -> Option<Message> {
        match self {
            EntryKind::Message { message } => Some(message.clone()),
            EntryKind::CustomMessage { custom_type, content, display, details } => {
                Some(Message::Custom(Custom {
                    custom_type: custom_type.clone(),
                    content: content.clone(),
                    display: *display,
                    details: details.clone(),
                    timestamp: at,
                }))
            }
            EntryKind::BranchSummary { summary, from_id } => {
                Some(Message::BranchSummary(BranchSummary {
                    summary: summary.clone(),
                    from_id: from_id.clone(),
                    timestamp: at,
                }))
            }
            EntryKind::Custom { .. }
            | EntryKind::Compaction { .. }
            | EntryKind::Reset { .. }
            | EntryKind::ThinkingLevelChange { .. }
            | EntryKind::ModelChange { .. }
            | EntryKind::Label { .. }
            | EntryKind::SessionInfo { .. }
            | EntryKind::Leaf { .. } => None,
        }
    }
}

/// The messages of the active branch that a model may see (semantics 1.5): from the last
/// compaction or reset on, the summary first, then what it kept, then what came after it.
#[must_use]
pub fn visible(branch: &[Entry]) -> Vec<Message> {
    let boundary = branch
        .iter()
        .rposition(|e| matches!(e.kind, EntryKind::Compaction { .. } | EntryKind::Reset { .. }));
    let Some(at) = boundary else { return messages(branch) };
    let (kept_from, summary) = match &branch[at].kind {
        kind @ EntryKind::Compaction { first_kept_entry_id, .. } => {
            (Some(first_kept_entry_id), kind.summary(branch[at].timestamp))
        }
        EntryKind::Reset { first_kept_entry_id, .. } => (first_kept_entry_id.as_ref(), None),
        EntryKind::Message { .. }
        | EntryKind::CustomMessage { .. }
        | EntryKind::Custom { .. }
        | EntryKind::BranchSummary { .. }
        | EntryKind::ThinkingLevelChange { .. }
        | EntryKind::ModelChange { .. }
        | EntryKind::Label { .. }
        | EntryKind::SessionInfo { .. }
        | EntryKind::Leaf { .. } => (None, None),
    };
    let first =
        kept_from.and_then(|id| branch[..at].iter().position(|e| e.id == *id)).unwrap_or(at);
    let kept = messages(&branch[first..at]);
    summary.into_iter().chain(kept).chain(messages(&branch[at + 1..])).collect()
}

fn messages(entries: &[Entry]) -> Vec<Message> {
    entries.iter().filter_map(|e| e.kind.in_context(e.timestamp)).collect()
}
