//! A short cut for the chunks that make up most of a stream: those that differ from the one
//! before only in the text they add.
//!
//! Once a chunk has been read that does nothing but add a text, its bytes before and after that
//! text are remembered. Data with the same beginning and end, and between them a JSON string's
//! content, parses to the same chunk with another text: a string's content cannot change what
//! stands around it. Everything else goes the long way.

use super::chunk::{CallPart, Chunk, Part};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What the text of a chunk is added to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Adds {
    Text,
    Thinking,
    /// The arguments of the call with this number, or of the last one.
    Args(Option<u64>),
}

/// The remembered chunk.
#[derive(Debug)]
pub(super) struct Fast {
    before: Vec<u8>,
    after: Vec<u8>,
    adds: Adds,
    /// Room to unescape in.
    quoted: Vec<u8>,
}

impl Default for Fast {
    fn default() -> Fast {
        Fast { before: Vec::new(), after: Vec::new(), adds: Adds::Text, quoted: Vec::new() }
    }
}

impl Fast {
    /// The text that this data adds, and to what, if it is like the remembered chunk.
    pub fn read<'a>(&mut self, data: &'a [u8]) -> Option<(Cow<'a, str>, Adds)> {
        if self.before.is_empty() {
            return None;
        }
        let rest = data.strip_prefix(self.before.as_slice())?;
        let text = rest.strip_suffix(self.after.as_slice())?;
        if !text.iter().any(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)) {
            return Some((Cow::Borrowed(std::str::from_utf8(text).ok()?), self.adds));
        }
        // A quote that ends the string early, or what may not stand in one, is refused here.
        self.quoted.clear();
        self.quoted.push(b'"');
        self.quoted.extend_from_slice(text);
        self.quoted.push(b'"');
        Some((Cow::Owned(serde_json::from_slice(&self.quoted).ok()?), self.adds))
    }

    /// Remembers a chunk that does nothing but add a text.
    pub fn learn(&mut self, data: &[u8], chunk: &Chunk<'_>) {
        let Some((text, adds)) = only_text(chunk) else { return };
        // The text is borrowed from the data; the difference of the addresses is its place.
        let at = (text.as_ptr() as usize).wrapping_sub(data.as_ptr() as usize);
        let end = at.wrapping_add(text.len());
        let quoted = at.checked_sub(1).and_then(|q| data.get(q)) == Some(&b'"')
            && data.get(end) == Some(&b'"');
        if !quoted || data.get(at..end) != Some(text.as_bytes()) {
            return;
        }
        self.before.clear();
        self.before.extend_from_slice(&data[..at]);
        self.after.clear();
        self.after.extend_from_slice(&data[end..]);
        self.adds = adds;
    }
}

/// The one text of a chunk that carries nothing else, as it stands in the data.
fn only_text<'c>(chunk: &'c Chunk<'_>) -> Option<(&'c str, Adds)> {
    let [choice] = chunk.choices.as_deref()? else { return None };
    let quiet = !chunk.is_error()
        && chunk.usage.is_none()
        && choice.usage.is_none()
        && choice.finish_reason.as_str().is_empty()
        && choice.message.is_none()
        && choice.index.or_zero() == 0;
    let part = choice.delta.as_ref().filter(|_| quiet)?;
    if part.function_call.is_some() || !part.refusal.as_str().is_empty() {
        return None;
    }
    match part.tool_calls.as_deref() {
        None | Some([]) => only_say(part),
        Some([call]) if only_say(part).is_none() && silent(part) => only_args(call),
        Some(_) => None,
    }
}

fn texts<'c, 'a>(part: &'c Part<'a>) -> [(&'c Cow<'a, str>, Adds); 4] {
    [
        (&part.content.0, Adds::Text),
        (&part.reasoning_content.0, Adds::Thinking),
        (&part.reasoning.0, Adds::Thinking),
        (&part.reasoning_text.0, Adds::Thinking),
    ]
}

fn silent(part: &Part<'_>) -> bool {
    texts(part).iter().all(|(text, _)| text.is_empty())
}

fn only_say<'c>(part: &'c Part<'_>) -> Option<(&'c str, Adds)> {
    let mut said = texts(part).into_iter().filter(|(text, _)| !text.is_empty());
    let (text, adds) = said.next()?;
    match (text, said.next()) {
        (Cow::Borrowed(text), None) => Some((text, adds)),
        _ => None,
    }
}

fn only_args<'c>(call: &CallPart<'c>) -> Option<(&'c str, Adds)> {
    let function = call.function.filter(|_| call.id.as_str().is_empty())?;
    let raw = function.arguments.map(RawValue::get).filter(|_| function.name().is_empty())?;
    let text = raw.strip_prefix('"')?.strip_suffix('"')?;
    Some((text, Adds::Args(call.index.0)))
}
