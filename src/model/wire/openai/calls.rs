//! Assembly of tool calls from their pieces (spec/model.md M7): which call a piece belongs to.

use super::super::{Delta, push_delta};
use super::chunk::CallPart;
use crate::base::limits::{ARGS_BYTES_MAX, CALLS_MAX};
use crate::base::{FailKind, Failure, id};

/// One call that is being put together.
#[derive(Debug)]
pub(super) struct Call {
    /// The provider's number for it, where it gives one.
    index: Option<u64>,
    /// The provider's id for it; routes later pieces.
    wire_id: String,
    /// The id that stands in the message, fixed when the name is known.
    pub id: String,
    /// The tool's name; empty until it is known.
    pub name: String,
    /// The argument text so far.
    pub args: String,
    /// Number of the chunk that opened it.
    opened_by: u64,
}

/// All calls of a reply, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub list: Vec<Call>,
    /// Number of the chunk that is being read.
    pub chunk: u64,
}

/// A piece of a call, taken out of its wire shape.
pub(super) struct Piece<'a> {
    pub index: Option<u64>,
    pub id: &'a str,
    pub name: &'a str,
    pub args: &'a str,
}

impl Calls {
    /// Adds the pieces of one chunk.
    pub fn take(
        &mut self,
        parts: &[CallPart<'_>],
        response_id: &str,
        opened: &mut dyn FnMut(usize),
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        for part in parts {
            let name = part.function.map(|f| f.name()).unwrap_or_default();
            let args = part.function.map(|f| f.arguments()).unwrap_or_default();
            let piece =
                Piece { index: part.index.0, id: part.id.as_str(), name: &name, args: &args };
            self.add(&piece, response_id, opened, out)?;
        }
        Ok(())
    }

    /// Adds one piece, opening a call where it begins one.
    pub fn add(
        &mut self,
        piece: &Piece<'_>,
        response_id: &str,
        opened: &mut dyn FnMut(usize),
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        let at = match self.route(piece) {
            Some(at) => at,
            None if self.list.len() == CALLS_MAX => {
                let text = format!("The reply asks for more than {CALLS_MAX} tool calls");
                return Err(Failure::new(FailKind::TooLarge, text));
            }
            None => {
                self.list.push(Call {
                    index: piece.index,
                    wire_id: String::new(),
                    id: String::new(),
                    name: String::new(),
                    args: String::new(),
                    opened_by: self.chunk,
                });
                opened(self.list.len() - 1);
                self.list.len() - 1
            }
        };
        self.extend(at, piece, response_id, out)
    }

    fn extend(
        &mut self,
        at: usize,
        piece: &Piece<'_>,
        response_id: &str,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        let index = u16::try_from(at).unwrap_or(u16::MAX);
        let call = &mut self.list[at];
        call.index = call.index.or(piece.index);
        if call.wire_id.is_empty() {
            piece.id.clone_into(&mut call.wire_id);
        }
        if call.args.len() + piece.args.len() > ARGS_BYTES_MAX {
            let text = format!("A tool call's arguments are longer than {ARGS_BYTES_MAX} bytes");
            return Err(Failure::new(FailKind::TooLarge, text));
        }
        call.args.push_str(piece.args);
        if !call.name.is_empty() {
            if !piece.args.is_empty() {
                push_delta(out, Delta::CallArgs { index, text: piece.args.to_owned() });
            }
            return Ok(());
        }
        if piece.name.is_empty() {
            return Ok(());
        }
        piece.name.clone_into(&mut call.name);
        call.id = match call.wire_id.as_str() {
            "" => synthetic_id(response_id, at, piece.name),
            known => known.to_owned(),
        };
        out.push(Delta::CallStart { index, id: call.id.clone(), name: call.name.clone() });
        if !call.args.is_empty() {
            push_delta(out, Delta::CallArgs { index, text: call.args.clone() });
        }
        Ok(())
    }

    /// The call that a piece continues; none where it begins one.
    fn route(&self, piece: &Piece<'_>) -> Option<usize> {
        if let Some(index) = piece.index {
            if let Some(at) = self.list.iter().rposition(|c| c.index == Some(index)) {
                let known = &self.list[at].wire_id;
                // Another id on a known index is another call (some gateways number all of them 0).
                let other = !piece.id.is_empty() && !known.is_empty() && known != piece.id;
                return (!other).then_some(at);
            }
            let unnumbered = |c: &Call| c.index.is_none() && !c.wire_id.is_empty();
            let same = |c: &Call| unnumbered(c) && c.wire_id == piece.id;
            return self.list.iter().rposition(same);
        }
        let at = match piece.id {
            "" => self.list.len().checked_sub(1)?,
            id => self.list.iter().rposition(|c| c.wire_id == id)?,
        };
        // Without a number, a piece that brings a name begins a call unless the last one still
        // waits for its own; servers that repeat the name do so while the arguments are open.
        let call = &self.list[at];
        let begins = !piece.name.is_empty()
            && !call.name.is_empty()
            && (call.opened_by == self.chunk || call.name != piece.name || whole(&call.args));
        (!begins).then_some(at)
    }
}

/// Whether an argument text is complete. The first test keeps this cheap for growing texts.
fn whole(args: &str) -> bool {
    args.trim_end().ends_with('}') && serde_json::from_str::<serde::de::IgnoredAny>(args).is_ok()
}

/// An id for a call that came without one: the same for the same reply, and no two alike in it.
fn synthetic_id(response_id: &str, at: usize, name: &str) -> String {
    let seed = format!("{response_id}\n{at}\n{name}");
    let digest = ring::digest::digest(&ring::digest::SHA256, seed.as_bytes());
    format!("call_{}", id::hex(&digest.as_ref()[..12]))
}
