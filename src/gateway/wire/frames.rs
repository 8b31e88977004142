//! The frames of a client (RFC 6455): bytes in, messages out (H10 to H12). And the heads of ours.
//!
//! An own reader, since the frame reader of `tungstenite` reserves a whole message at its head and
//! keeps that memory for ever (26 MB for 14 bytes, on each connection), and sees a wrong head only
//! after its payload. The tests hold both to the same answers.

use super::fault::Violation;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// Longest payload of a control frame, bytes.
const CONTROL_BYTES_MAX: u64 = 125;
/// What is reserved for a message at its head, bytes; the rest grows as it comes.
const RESERVE_BYTES: u64 = 64 * 1024;

/// What frames add up to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Got {
    Text(String),
    Ping(Vec<u8>),
    Pong,
    Close { code: Option<u16>, reason: String },
}

/// A frame whose payload is coming in.
#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: u8,
    last: bool,
    mask: [u8; 4],
    /// Bytes that are missing.
    left: u64,
    /// Bytes that have come.
    at: usize,
}

/// The reader's state between two slices.
#[derive(Debug)]
pub(super) struct Reader {
    /// The head that is coming in: two bytes, the longer length, the mask.
    head: [u8; 14],
    have: usize,
    frame: Option<Frame>,
    /// The payload of a control frame.
    control: Vec<u8>,
    /// The message so far, and the kind of its first frame.
    message: Vec<u8>,
    kind: Option<u8>,
    /// How much of the message is known to be UTF-8.
    checked: usize,
    /// Most bytes of a message.
    max: usize,
}

impl Reader {
    pub(super) fn new(max: usize) -> Reader {
        Reader {
            head: [0; 14],
            have: 0,
            frame: None,
            control: Vec::new(),
            message: Vec::new(),
            kind: None,
            checked: 0,
            max,
        }
    }

    /// Sets what a message may have, also one that has begun.
    pub(super) fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    #[cfg(any(test, fuzzing, feature = "sim"))]
    pub(super) fn heap(&self) -> usize {
        self.message.capacity() + self.control.capacity()
    }

    /// Reads until something is whole; says how many bytes that took.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (usize, Result<Option<Got>, Violation>) {
        let mut at = 0;
        loop {
            while self.frame.is_none() {
                let Some(byte) = bytes.get(at) else { return (at, Ok(None)) };
                self.head[self.have] = *byte;
                self.have += 1;
                at += 1;
                if let Err(wrong) = self.look() {
                    return (at, Err(wrong));
                }
            }
            let (n, got) = self.payload(&bytes[at..]);
            at += n;
            match got {
                Ok(None) if self.frame.is_none() => {}
                got => return (at, got),
            }
        }
    }

    /// Judges a head by its last byte; begins its frame when it is whole.
    fn look(&mut self) -> Result<(), Violation> {
        let (opcode, last) = (self.head[0] & 0x0f, self.head[0] & 0x80 != 0);
        let control = opcode >= CLOSE;
        let short = self.head[1] & 0x7f;
        let long = [0, 2, 8][usize::from(short.saturating_sub(125))];
        if self.have == 1 {
            return self.look_first(opcode, last);
        }
        if self.have == 2 && self.head[1] & 0x80 == 0 {
            return Err(Violation::Protocol("a frame is not masked"));
        }
        if self.have == 2 && control && long > 0 {
            return Err(Violation::Protocol("a control frame is longer than 125 bytes"));
        }
        if self.have < 2 + long {
            return Ok(());
        }
        let digits = self.head[2..2 + long].iter();
        let number = digits.fold(0u64, |n, byte| n << 8 | u64::from(*byte));
        let length = if long == 0 { u64::from(short) } else { number };
        if self.have == 2 + long {
            if long == 2 && length <= CONTROL_BYTES_MAX || long == 8 && length < 1 << 16 {
                return Err(Violation::Protocol("a length has more bytes than it needs"));
            }
            let room = self.max.saturating_sub(self.message.len());
            if !control && length > room as u64 {
                return Err(Violation::Long { max: self.max });
            }
        }
        if self.have == 6 + long {
            let mut mask = [0; 4];
            mask.copy_from_slice(&self.head[2 + long..6 + long]);
            self.frame = Some(Frame { opcode, last, mask, left: length, at: 0 });
            self.have = 0;
            let payload = if control { &mut self.control } else { &mut self.message };
            payload.reserve(length.min(RESERVE_BYTES) as usize);
            if opcode == TEXT || opcode == BINARY {
                self.kind = Some(opcode);
            }
        }
        Ok(())
    }

    fn look_first(&self, opcode: u8, last: bool) -> Result<(), Violation> {
        let wrong = match opcode {
            _ if self.head[0] & 0x70 != 0 => "a reserved bit is set",
            CONTINUATION if self.kind.is_none() => "nothing to continue",
            TEXT | BINARY if self.kind.is_some() => "a message within a message",
            CLOSE..=PONG if !last => "a control frame is in pieces",
            CONTINUATION | TEXT | BINARY | CLOSE..=PONG => return Ok(()),
            _ => "a reserved opcode",
        };
        Err(Violation::Protocol(wrong))
    }

    /// Takes what there is of the open frame's payload.
    fn payload(&mut self, bytes: &[u8]) -> (usize, Result<Option<Got>, Violation>) {
        let Some(frame) = &mut self.frame else { return (0, Ok(None)) };
        let n = usize::try_from(frame.left).unwrap_or(usize::MAX).min(bytes.len());
        let into = if frame.opcode >= CLOSE { &mut self.control } else { &mut self.message };
        let (mask, shift) = (frame.mask, frame.at % 4);
        let mask = [0, 1, 2, 3].map(|i| mask[(i + shift) % 4]);
        let start = into.len();
        into.extend_from_slice(&bytes[..n]);
        for four in into[start..].chunks_mut(4) {
            four.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        }
        frame.left -= n as u64;
        frame.at += n;
        let frame = *frame;
        if frame.opcode < CLOSE && self.kind == Some(TEXT) && !self.is_text() {
            return (n, Err(Violation::Utf8));
        }
        if frame.left > 0 {
            return (n, Ok(None));
        }
        self.frame = None;
        (n, self.whole(frame))
    }

    /// What has come of a text can begin a text.
    fn is_text(&mut self) -> bool {
        match str::from_utf8(&self.message[self.checked..]) {
            Ok(text) => self.checked += text.len(),
            Err(error) if error.error_len().is_some() => return false,
            Err(error) => self.checked += error.valid_up_to(),
        }
        true
    }

    fn whole(&mut self, frame: Frame) -> Result<Option<Got>, Violation> {
        match frame.opcode {
            PING => Ok(Some(Got::Ping(std::mem::take(&mut self.control)))),
            PONG => {
                self.control = Vec::new();
                Ok(Some(Got::Pong))
            }
            CLOSE => closing(&std::mem::take(&mut self.control)).map(Some),
            _ if !frame.last => Ok(None),
            _ => {
                let message = std::mem::take(&mut self.message);
                self.checked = 0;
                let binary = self.kind.take() == Some(BINARY);
                let wrong = if binary { Violation::Binary } else { Violation::Utf8 };
                String::from_utf8(message).map(|text| Some(Got::Text(text))).map_err(|_| wrong)
            }
        }
    }
}

/// What a close frame says.
fn closing(payload: &[u8]) -> Result<Got, Violation> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return match payload {
            [] => Ok(Got::Close { code: None, reason: String::new() }),
            _ => Err(Violation::Protocol("a close code has two bytes")),
        };
    };
    let code = u16::from_be_bytes(*code);
    // RFC 6455, 7.4, and what was registered later: 1012 to 1014.
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(Violation::Protocol("a close code that may not be sent"));
    }
    let reason = str::from_utf8(reason).map_err(|_| Violation::Utf8)?.to_owned();
    Ok(Got::Close { code: Some(code), reason })
}

/// The head of a frame of ours: whole, and not masked, since it comes from a server.
fn head(opcode: u8, length: usize) -> Vec<u8> {
    let mut head = vec![0x80 | opcode];
    match length {
        0..=125 => head.push(length as u8),
        126..=0xffff => {
            head.push(126);
            head.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            head.push(127);
            head.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    head
}

/// The head of a text frame of ours.
pub(super) fn text_head(length: usize) -> Vec<u8> {
    head(TEXT, length)
}

/// A ping of ours.
pub(super) fn ping() -> Vec<u8> {
    head(PING, 0)
}

/// The answer to a ping.
pub(super) fn pong(payload: &[u8]) -> Vec<u8> {
    let mut frame = head(PONG, payload.len());
    frame.extend_from_slice(payload);
    frame
}

/// A close frame of ours; the reason is cut to `max` bytes between two characters.
pub(super) fn close(code: Option<u16>, reason: &str, max: usize) -> Vec<u8> {
    let Some(code) = code else { return head(CLOSE, 0) };
    let reason = &reason[..reason.floor_char_boundary(max)];
    let mut frame = head(CLOSE, 2 + reason.len());
    frame.extend_from_slice(&code.to_be_bytes());
    frame.extend_from_slice(reason.as_bytes());
    frame
}
