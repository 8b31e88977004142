//! Decisions laid over messages. No message is added or removed: a call keeps its result.

use super::super::units::{head, tail, units};
use super::{CLEARED, Decisions, Deed, block_chars};
use crate::transcript::message::join_text;
use crate::transcript::{Block, Message, ToolResult};
use std::borrow::Cow;

/// Stands for images that were taken out.
const NO_IMAGES: &str = "[Images of this old tool result were removed]";

/// A message as the model gets it.
#[must_use]
pub fn applied<'m>(message: &'m Message, decisions: &Decisions) -> Cow<'m, Message> {
    let Message::ToolResult(result) = message else { return Cow::Borrowed(message) };
    match decisions.about(result) {
        None => Cow::Borrowed(message),
        Some(deed) => {
            let content = vec![Block::text(text(result, deed))];
            Cow::Owned(Message::ToolResult(ToolResult { content, ..result.clone() }))
        }
    }
}

/// A conversation as the model gets it.
#[must_use]
pub fn project<'m>(messages: &'m [Message], decisions: &Decisions) -> Vec<Cow<'m, Message>> {
    messages.iter().map(|message| applied(message, decisions)).collect()
}

/// What a result counts as after a deed.
pub(super) fn result_chars(result: &ToolResult, deed: Deed) -> usize {
    block_chars(&Block::text(text(result, deed)), false)
}

/// A result's text after a deed.
fn text(result: &ToolResult, deed: Deed) -> String {
    let Deed::Trim { keep } = deed else { return CLEARED.to_owned() };
    let whole = join_text(&result.content);
    let length = units(&whole);
    let images = result.content.iter().any(|b| matches!(b, Block::Image { .. }));
    let mut out = match length > keep.saturating_mul(2) {
        false => whole,
        true => format!(
            "{}\n...\n{}\n\n[Old tool result shortened: the first {keep} and the last {keep} of \
             {length} characters are kept]",
            head(&whole, keep),
            tail(&whole, keep)
        ),
    };
    if images {
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        out.push_str(NO_IMAGES);
    }
    out
}
