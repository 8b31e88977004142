//! Codecs: bytes of a provider's protocol to and from our messages. Pure: no clock, no socket.

pub mod args;
pub mod errors;
pub mod openai;
pub mod request;
pub mod sse;

use crate::base::Failure;
use crate::transcript::Assistant;

/// One step of a reply while it streams. Deltas of one kind that stand side by side may be merged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delta {
    /// The provider began to answer: exactly once, before every other delta.
    Start,
    /// Visible text.
    Text(String),
    /// Reasoning that the model shows.
    Thinking(String),
    /// A tool call whose name is known.
    CallStart {
        /// The call's position among the calls of the reply.
        index: u16,
        /// Its id as it will stand in the message.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More text of a call's arguments.
    CallArgs {
        /// The call's position among the calls of the reply.
        index: u16,
        /// The next piece of the JSON text.
        text: String,
    },
}

/// A reply that ended as the protocol wants it.
#[derive(Clone, PartialEq, Debug)]
pub struct Finished {
    /// The reply.
    pub message: Assistant,
    /// Calls whose arguments are valid JSON but no object: position and a short text for the
    /// model. Such a call stands in the message with empty arguments; the tool layer answers it
    /// with this text as an error result.
    pub bad_args: Vec<(u16, String)>,
}

/// How a reply ended. There is exactly one for each call.
#[derive(Clone, PartialEq, Debug)]
pub enum End {
    /// It is complete.
    Done(Finished),
    /// It failed or was stopped. The message holds what was said until then, without calls.
    Failed(Failure, Assistant),
}

/// Adds a delta; text that continues the last delta is merged into it.
pub fn push_delta(out: &mut Vec<Delta>, delta: Delta) {
    match (out.last_mut(), &delta) {
        (Some(Delta::Text(text)), Delta::Text(more))
        | (Some(Delta::Thinking(text)), Delta::Thinking(more)) => text.push_str(more),
        (Some(Delta::CallArgs { index, text }), Delta::CallArgs { index: other, text: more })
            if index == other =>
        {
            text.push_str(more);
        }
        _ => out.push(delta),
    }
}

/// A piece of a text for an error message: at most `max` characters, with the total length where
/// something was cut.
#[must_use]
pub fn excerpt(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
    }
}
