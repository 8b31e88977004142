//! What requests wait for.

use super::methods::Message;
use crate::engine::reset::ResetReason;
use crate::engine::sessions::Key;
use serde_json::{Map, Value};

/// What a request for a run waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Want {
    /// An acceptance, and then the end.
    Agent,
    /// An acceptance.
    Chat,
    /// The end.
    End,
    /// What became of a compaction.
    Compact,
    /// The acceptance of the first message of a session that was just made.
    Created,
    /// An acceptance that begins a stream, and then the end.
    Completion,
}

/// What a request for a session waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    Reset(ResetReason),
    Delete,
    Settings,
}

/// What is done with an answer of the store.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum After {
    /// A list of sessions; beside a subscription, if so.
    List { subscribed: bool, offset: u64, limit: u64 },
    /// One session.
    Describe(Key),
    /// A history.
    History(Box<HistoryWanted>),
    /// The bare messages of a history.
    Messages,
    /// One message.
    Message { most_chars: usize },
    /// The newest messages of several conversations.
    Preview { most_chars: usize },
    /// A key.
    Resolve { by: String, allow_missing: bool },
    /// Whether the session is the one that the sender has seen; then the message is sent.
    Check { session: Option<String>, leaf: Option<Option<String>>, message: Box<Message> },
    /// The session's settings; then they are changed.
    Patch { key: Key, fields: Map<String, Value>, expected: Option<String> },
    /// The change is stored; then the session is looked at.
    Patched(Key),
    /// The session after its change, by the word for that; whether everybody was told already.
    Entry { key: Key, reason: &'static str, told: bool },
    /// The session is made; then it is looked at.
    Made { key: Key, message: Option<Box<Message>> },
    /// The session that was made.
    Created { key: Key, message: Option<Box<Message>> },
    /// Whether there is something to delete.
    Delete { key: Key, expected: Option<String>, archived: bool },
    /// The words are stored.
    Injected { key: Key, text: String, entry: Option<String> },
    /// A tool has run.
    Tool { name: String },
    /// What is told of the gateway's health, with some sessions.
    Health,
    /// What is told of its state.
    Status,
}

impl After {
    /// Whether what follows is done also for a client that has gone: it was promised, or has been
    /// done by half.
    pub fn goes_on(&self) -> bool {
        match self {
            After::Check { .. }
            | After::Patch { .. }
            | After::Patched(_)
            | After::Made { .. }
            | After::Created { .. }
            | After::Injected { .. }
            | After::Entry { .. }
            | After::Delete { .. } => true,
            After::List { .. }
            | After::Describe(_)
            | After::History(_)
            | After::Messages
            | After::Message { .. }
            | After::Preview { .. }
            | After::Resolve { .. }
            | After::Tool { .. }
            | After::Health
            | After::Status => false,
        }
    }
}

/// How a history is to be told.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct HistoryWanted {
    pub key: Key,
    /// Everything that a page needs at its start comes with it.
    pub startup: bool,
    pub offset: u64,
    pub limit: u64,
    /// Most characters of one text.
    pub most_chars: usize,
    /// Most bytes of the messages.
    pub most_bytes: usize,
}
