//! Codecs: bytes of a provider's protocol to and from our messages. Pure: no clock, no socket.

pub mod args;
pub mod errors;
pub mod openai;
pub mod request;
pub mod sse;

use crate::base::Failure;
use crate::transcript::Assistant;
pub use crate::transcript::{Delta, Finished};

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
