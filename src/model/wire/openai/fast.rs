//! A short cut for the chunks that make up most of a stream: those that differ from the one
//! before only in the text they add.
//!
//! Once a chunk has been read that does nothing but add a text, its bytes before and after that
//! text are remembered. Data with the same beginning and end, and between them a JSON string's
//! content, parses to the same chunk with another text: a string's content cannot change what
//! stands around it. Everything else goes the long way.

use super::chunk::{Chunk, Text};
use std::borrow::Cow;

/// The remembered chunk.
#[derive(Debug, Default)]
pub(super) struct Fast {
    before: Vec<u8>,
    after: Vec<u8>,
    thinking: bool,
}

impl Fast {
    /// The text that this data adds, and whether it is reasoning, if it is like the remembered
    /// chunk.
    pub fn read<'a>(&self, data: &'a [u8]) -> Option<(&'a str, bool)> {
        if self.before.is_empty() {
            return None;
        }
        let rest = data.strip_prefix(self.before.as_slice())?;
        let text = rest.strip_suffix(self.after.as_slice())?;
        // Escapes and control characters go the long way, which unescapes or refuses them.
        if text.iter().any(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)) {
            return None;
        }
        Some((std::str::from_utf8(text).ok()?, self.thinking))
    }

    /// Remembers a chunk that does nothing but add a text.
    pub fn learn(&mut self, data: &[u8], chunk: &Chunk<'_>) {
        let Some((text, thinking)) = only_text(chunk) else { return };
        let Cow::Borrowed(text) = text.0 else { return };
        // The text is borrowed from the data; the difference of the addresses is its place.
        let at = (text.as_ptr() as usize).wrapping_sub(data.as_ptr() as usize);
        let Some(found) = data.get(at..at.wrapping_add(text.len())) else { return };
        if found == text.as_bytes() {
            self.before = data[..at].to_vec();
            self.after = data[at + text.len()..].to_vec();
            self.thinking = thinking;
        }
    }
}

/// The one text of a chunk that carries nothing else.
fn only_text<'c, 'a>(chunk: &'c Chunk<'a>) -> Option<(&'c Text<'a>, bool)> {
    let [choice] = chunk.choices.as_deref()? else { return None };
    let quiet = !chunk.is_error()
        && chunk.usage.is_none()
        && choice.usage.is_none()
        && choice.finish_reason.as_str().is_empty()
        && choice.message.is_none()
        && choice.index.or_zero() == 0;
    let part = choice.delta.as_ref().filter(|_| quiet)?;
    if part.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
        || part.function_call.is_some()
        || !part.refusal.as_str().is_empty()
    {
        return None;
    }
    let texts = [
        (&part.content, false),
        (&part.reasoning_content, true),
        (&part.reasoning, true),
        (&part.reasoning_text, true),
    ];
    let mut said = texts.into_iter().filter(|(text, _)| !text.as_str().is_empty());
    let one = said.next()?;
    said.next().is_none().then_some(one)
}
