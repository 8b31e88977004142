//! OpenAI chat completions, receiving side (semantics 11.1, 11.2, spec/model.md M2 to M11).
//!
//! ```text
//! bytes -> sse -> chunk -> deltas while it streams, one End when it is over
//!       -> a whole JSON body or a page of HTML, where the server does not stream
//! ```

mod calls;
mod chunk;
mod fast;
mod finish;

#[cfg(test)]
mod tests;

use super::sse::{Frame, Splitter};
use super::{Delta, End, errors, excerpt, push_delta};
use crate::base::limits::{REPLY_BYTES_MAX, STREAM_LINE_BYTES_MAX};
use crate::base::{FailKind, Failure, Millis, json};
use calls::{Calls, Piece};
use chunk::{Chunk, Part};
use fast::{Adds, Fast};
use serde_json::Value;

/// The protocol's name in stored messages.
pub const API: &str = "openai-completions";
/// The data line that ends a stream.
const LAST_WORD: &[u8] = b"[DONE]";

/// Whom the reply comes from, as it is stored with it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Meta {
    /// The provider's id in the config.
    pub provider: String,
    /// The model's id at that provider.
    pub model: String,
}

/// Why no more bytes come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The body ended as HTTP says it may.
    Closed,
    /// The connection broke, with the text of the break.
    Cut(String),
    /// We were told to stop, with the reason.
    Aborted(String),
}

/// Whether more bytes are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Yes.
    More,
    /// The reply is decided; what follows is not read.
    Complete,
}

/// Text and reasoning as they came, and where the calls began among them.
#[derive(Debug)]
enum Piecewise {
    Text(String),
    Thinking(String),
    Call(usize),
}

/// What kind of body this is; its first bytes tell.
#[derive(Debug)]
enum Shape {
    /// Only blanks and a byte order mark so far.
    Unknown(u8),
    Stream,
    Whole(Vec<u8>),
}

/// Turns the bytes of one answer into deltas and an end.
#[derive(Debug)]
pub struct Decoder {
    meta: Meta,
    shape: Shape,
    splitter: Splitter,
    reply: Reply,
}

/// What is known of the reply.
#[derive(Debug, Default)]
struct Reply {
    started: bool,
    /// The last word of the stream has come.
    done: bool,
    /// Events seen that carried a chunk.
    chunks: u64,
    pieces: Vec<Piecewise>,
    bytes: usize,
    calls: Calls,
    /// The calls come in the legacy `function_call`.
    legacy: bool,
    refusal: String,
    finish: Option<String>,
    usage: Option<chunk::Usage>,
    response_id: Option<String>,
    response_model: Option<String>,
    failure: Option<Failure>,
    /// The first line that belongs to no event stream.
    foreign: Option<String>,
    fast: Fast,
}

impl Decoder {
    /// A decoder for one answer.
    #[must_use]
    pub fn new(meta: Meta) -> Decoder {
        Decoder {
            meta,
            shape: Shape::Unknown(0),
            splitter: Splitter::new(LAST_WORD),
            reply: Reply::default(),
        }
    }

    /// Reads the next bytes; deltas are added to `out`.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<Delta>) -> Progress {
        let mut bytes = bytes;
        if let Shape::Unknown(mark) = &mut self.shape {
            bytes = skip_blank(bytes, mark);
            match bytes.first() {
                None => return Progress::More,
                Some(b'{' | b'[' | b'<') => self.shape = Shape::Whole(Vec::new()),
                Some(_) => self.shape = Shape::Stream,
            }
        }
        if self.reply.over() {
            return Progress::Complete;
        }
        if let Shape::Whole(body) = &mut self.shape {
            if body.len() + bytes.len() > STREAM_LINE_BYTES_MAX {
                let text = format!("The answer is longer than {STREAM_LINE_BYTES_MAX} bytes");
                self.reply.failure = Some(Failure::new(FailKind::TooLarge, text));
            } else {
                body.extend_from_slice(bytes);
            }
        } else {
            let reply = &mut self.reply;
            let fed = self.splitter.feed(bytes, &mut |frame| reply.on_frame(frame, out));
            if let Err(error) = fed {
                self.reply.fail(FailKind::TooLarge, error.to_string());
            }
        }
        if self.reply.over() { Progress::Complete } else { Progress::More }
    }

    /// Ends the reply. Deltas of a body that came whole, or whose last event had no end, are
    /// added to `out`.
    pub fn finish(mut self, why: Ended, at: Millis, out: &mut Vec<Delta>) -> End {
        if why == Ended::Closed && !self.reply.over() {
            match std::mem::replace(&mut self.shape, Shape::Stream) {
                Shape::Whole(body) => self.reply.on_body(&body, out),
                Shape::Unknown(_) | Shape::Stream => {
                    let reply = &mut self.reply;
                    let closed = self.splitter.close(&mut |frame| reply.on_frame(frame, out));
                    if let Err(error) = closed {
                        self.reply.fail(FailKind::TooLarge, error.to_string());
                    }
                }
            }
        }
        finish::end(self.reply, &self.meta, why, at)
    }

    /// Ends the reply with a failure that is none of the protocol's.
    #[must_use]
    pub fn fail(mut self, failure: Failure, at: Millis) -> End {
        self.reply.failure = Some(failure);
        finish::end(self.reply, &self.meta, Ended::Closed, at)
    }
}

/// Skips what may stand before the first byte that tells the shape: blanks, and a byte order mark
/// of which `mark` bytes have been seen.
fn skip_blank<'a>(bytes: &'a [u8], mark: &mut u8) -> &'a [u8] {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if MARK.get(usize::from(*mark)) == Some(byte) {
            *mark += 1;
        } else if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            break;
        }
        at += 1;
    }
    &bytes[at..]
}

impl Reply {
    fn over(&self) -> bool {
        self.done || self.failure.is_some()
    }

    fn fail(&mut self, kind: FailKind, message: impl Into<String>) {
        self.failure.get_or_insert(Failure::new(kind, message));
    }

    /// One frame of the stream; the answer says whether to read on.
    fn on_frame(&mut self, frame: Frame<'_>, out: &mut Vec<Delta>) -> bool {
        match frame {
            Frame::Alive => return true,
            Frame::Foreign(line) => {
                let line = || excerpt(&String::from_utf8_lossy(line), 200);
                self.foreign.get_or_insert_with(line);
                return true;
            }
            Frame::Event { name: b"", data: LAST_WORD } => self.done = true,
            Frame::Event { name: b"error", data } => self.on_error(data),
            Frame::Event { data, .. } if data.trim_ascii().is_empty() => {}
            Frame::Event { data, .. } => self.on_data(data, out),
        }
        !self.over()
    }

    fn on_error(&mut self, data: &[u8]) {
        let text = String::from_utf8_lossy(data);
        let object = match serde_json::from_str::<Value>(&text) {
            Ok(value) => value,
            Err(_) if text.trim().is_empty() => Value::Object(serde_json::Map::new()),
            Err(_) => Value::String(text.into_owned()),
        };
        self.failure.get_or_insert(errors::from_object(&object));
    }

    /// The data of one event.
    fn on_data(&mut self, data: &[u8], out: &mut Vec<Delta>) {
        if let Some((text, adds)) = self.fast.read(data) {
            self.chunks += 1;
            return self.add(&text, adds, out);
        }
        if data.trim_ascii() == LAST_WORD {
            self.done = true;
            return;
        }
        let text = std::str::from_utf8(data).ok();
        match text.and_then(|text| serde_json::from_str::<Chunk<'_>>(text).ok()) {
            Some(chunk) => {
                self.fast.learn(data, &chunk);
                self.on_chunk(&chunk, data, out);
            }
            None => self.on_odd_data(data, out),
        }
    }

    /// What a chunk does that only adds a text.
    fn add(&mut self, text: &str, adds: Adds, out: &mut Vec<Delta>) {
        let index = match adds {
            Adds::Text => return self.say(text, false, out),
            Adds::Thinking => return self.say(text, true, out),
            Adds::Args(index) => index,
        };
        self.calls.chunk = self.chunks;
        let pieces = &mut self.pieces;
        let mut opened = |at: usize| pieces.push(Piecewise::Call(at));
        let id = self.response_id.as_deref().unwrap_or("");
        let piece = Piece { index, id: "", name: "", args: text };
        if let Err(failure) = self.calls.add(&piece, id, &mut opened, out) {
            self.failure.get_or_insert(failure);
        }
    }

    /// Data that the quick reader refused: cut surrogates and stray bytes are replaced, and what
    /// then still is no chunk ends the reply.
    fn on_odd_data(&mut self, data: &[u8], out: &mut Vec<Delta>) {
        let text = String::from_utf8_lossy(data);
        let value = match json::tolerant::<Value>(&text) {
            Ok(read) => read.value,
            Err(error) => {
                let said = excerpt(text.trim(), 300);
                let text = format!("The provider sent what is no JSON ({error}): {said}");
                return self.fail(FailKind::MalformedResponse, text);
            }
        };
        let clean = value.to_string();
        match serde_json::from_str::<Chunk<'_>>(&clean) {
            Ok(chunk) => self.on_chunk(&chunk, clean.as_bytes(), out),
            Err(error) => {
                let said = excerpt(&clean, 300);
                let text = format!("The provider sent no chat completion ({error}): {said}");
                self.fail(FailKind::MalformedResponse, text);
            }
        }
    }

    fn on_chunk(&mut self, chunk: &Chunk<'_>, data: &[u8], out: &mut Vec<Delta>) {
        if chunk.is_error() {
            return self.on_error(data);
        }
        self.chunks += 1;
        self.calls.chunk = self.chunks;
        if !self.started {
            self.started = true;
            out.push(Delta::Start);
        }
        if self.response_id.is_none() && !chunk.id.as_str().is_empty() {
            self.response_id = Some(chunk.id.as_str().to_owned());
        }
        if self.response_model.is_none() && !chunk.model.as_str().is_empty() {
            self.response_model = Some(chunk.model.as_str().to_owned());
        }
        self.usage = chunk.usage.or(self.usage);
        for choice in chunk.choices.iter().flatten() {
            if choice.index.or_zero() != 0 {
                continue;
            }
            self.usage = choice.usage.or(self.usage);
            for part in [&choice.delta, &choice.message].into_iter().flatten() {
                self.on_part(part, out);
            }
            let reason = choice.finish_reason.as_str();
            if self.finish.is_none() && !reason.is_empty() {
                self.finish = Some(reason.to_owned());
            }
        }
    }

    fn on_part(&mut self, part: &Part<'_>, out: &mut Vec<Delta>) {
        let reasoning = [&part.reasoning_content, &part.reasoning, &part.reasoning_text];
        // Some servers send the same reasoning under two names.
        if let Some(text) = reasoning.iter().find(|t| !t.as_str().is_empty()) {
            self.say(text.as_str(), true, out);
        }
        self.say(part.content.as_str(), false, out);
        if self.refusal.len() + part.refusal.as_str().len() <= REPLY_BYTES_MAX {
            self.refusal.push_str(part.refusal.as_str());
        }
        let pieces = &mut self.pieces;
        let mut opened = |at: usize| pieces.push(Piecewise::Call(at));
        let id = self.response_id.as_deref().unwrap_or("");
        let parts = part.tool_calls.as_deref().unwrap_or(&[]);
        let mut taken = self.calls.take(parts, id, &mut opened, out);
        let legacy = part.function_call.filter(|_| self.legacy || self.calls.list.is_empty());
        if let (Ok(()), Some(function)) = (&taken, legacy) {
            self.legacy = true;
            let (name, args) = (function.name(), function.arguments());
            // The legacy form has one call and no ids: number 0 stands for it.
            let piece = Piece { index: Some(0), id: "", name: &name, args: &args };
            taken = self.calls.add(&piece, id, &mut opened, out);
        }
        if let Err(failure) = taken {
            self.failure.get_or_insert(failure);
        }
    }

    /// Adds visible text or reasoning.
    fn say(&mut self, text: &str, thinking: bool, out: &mut Vec<Delta>) {
        if text.is_empty() {
            return;
        }
        self.bytes += text.len();
        if self.bytes > REPLY_BYTES_MAX {
            let text = format!("The reply is longer than {REPLY_BYTES_MAX} bytes");
            return self.fail(FailKind::TooLarge, text);
        }
        match (self.pieces.last_mut(), thinking) {
            (Some(Piecewise::Text(all)), false) | (Some(Piecewise::Thinking(all)), true) => {
                all.push_str(text);
            }
            (_, false) => self.pieces.push(Piecewise::Text(text.to_owned())),
            (_, true) => self.pieces.push(Piecewise::Thinking(text.to_owned())),
        }
        match (out.last_mut(), thinking) {
            (Some(Delta::Text(all)), false) | (Some(Delta::Thinking(all)), true) => {
                all.push_str(text);
            }
            (_, false) => push_delta(out, Delta::Text(text.to_owned())),
            (_, true) => push_delta(out, Delta::Thinking(text.to_owned())),
        }
    }

    /// A body that came whole: a completion that was not streamed, an error, or a page.
    fn on_body(&mut self, body: &[u8], out: &mut Vec<Delta>) {
        if body.trim_ascii_start().starts_with(b"<") {
            let page = excerpt(String::from_utf8_lossy(body).trim(), 300);
            let text = format!("The provider answered with a page instead of a reply: {page}");
            return self.fail(FailKind::MalformedResponse, text);
        }
        self.on_data(body, out);
        if self.failure.is_some() {
            return;
        }
        if self.finish.is_none() && self.pieces.is_empty() {
            let text = excerpt(&String::from_utf8_lossy(body), 300);
            let text = format!("The provider's answer holds no reply: {text}");
            return self.fail(FailKind::MalformedResponse, text);
        }
        self.done = true;
    }
}
