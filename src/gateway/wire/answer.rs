//! Writing: answers, and frames of ours.

use super::frames::{self, Reader};
use super::head::Scan;
use super::http::{self, Framing, Response};
use super::limits::{
    GRACE_MS, IDLE_MS, MESSAGE_BYTES_EARLY, MESSAGE_BYTES_MAX, PING_MS, REASON_BYTES_MAX,
};
use super::{Asked, Late, Method, Phase, Pulse, Socket, SocketState, Waiting, Wire, upgrade};
use crate::base::Millis;
use std::sync::Arc;

/// Each of these says whether it was done: a connection that has ended meanwhile, or has no open
/// request, takes no answer and stays as it was. After an answer, [`Wire::poll`].
impl Wire {
    /// Answers the request. To its head alone, or to an upgrade: the connection ends with it.
    pub fn respond(&mut self, now: Millis, response: &Response) -> bool {
        let Some(asked) = self.asked() else { return false };
        let (head_only, close) = (asked.head_only, !asked.keep_alive);
        let framing = framing(response, Framing::Length(response.body.len()));
        self.put(now, http::head(response, framing, close).as_bytes());
        if !head_only && framing != Framing::None {
            self.out.share(&response.body);
        }
        self.answered(now, close);
        true
    }

    /// Begins an answer whose body comes in pieces; that of `response` is not looked at.
    pub fn begin(&mut self, now: Millis, response: &Response) -> bool {
        let Some(asked) = self.asked() else { return false };
        let stream = if asked.minor == 0 { Framing::ToTheEnd } else { Framing::Chunked };
        let framing = framing(response, stream);
        asked.stream = Some(if asked.head_only { Framing::None } else { framing });
        let close = !asked.keep_alive;
        self.put(now, http::head(response, framing, close).as_bytes());
        true
    }

    /// The next piece of the body.
    pub fn chunk(&mut self, now: Millis, bytes: &[u8]) -> bool {
        let Phase::Asked(Asked { stream: Some(framing), .. }) = self.phase else { return false };
        // An empty chunk would be the last one.
        if framing == Framing::Chunked && !bytes.is_empty() {
            self.put(now, format!("{:x}\r\n", bytes.len()).as_bytes());
            self.put(now, bytes);
            self.put(now, b"\r\n");
        } else if framing == Framing::ToTheEnd {
            self.put(now, bytes);
        }
        true
    }

    /// The body is whole.
    pub fn end(&mut self, now: Millis) -> bool {
        let Phase::Asked(Asked { stream: Some(framing), keep_alive, .. }) = self.phase else {
            return false;
        };
        if framing == Framing::Chunked {
            self.put(now, b"0\r\n\r\n");
        }
        self.answered(now, !keep_alive);
        true
    }

    /// The request that waits for the beginning of its answer.
    fn asked(&mut self) -> Option<&mut Asked> {
        if let Phase::Body(incoming) = &self.phase {
            // The body is not read to its end, so nothing can follow it.
            self.phase = Phase::Asked(Asked {
                head_only: incoming.request.method == Method::Head,
                keep_alive: false,
                minor: incoming.request.minor,
                key: None,
                stream: None,
                told: false,
            });
        }
        match &mut self.phase {
            Phase::Asked(asked) if asked.stream.is_none() => Some(asked),
            _ => None,
        }
    }

    fn answered(&mut self, now: Millis, close: bool) {
        if close {
            let until = self.out.is_empty().then(|| now.plus(GRACE_MS));
            return self.leave(until);
        }
        let (scan, until) = (Scan::default(), now.plus(IDLE_MS));
        self.phase = Phase::Head(Waiting { scan, until, late: Late::Idle });
    }

    /// An answer of our own to what is no request.
    pub(super) fn last_answer(&mut self, now: Millis, response: &Response) {
        let framing = Framing::Length(response.body.len());
        self.put(now, http::head(response, framing, true).as_bytes());
        self.out.share(&response.body);
        self.leave(None);
    }

    /// Accepts the upgrade: what follows are frames. [`Wire::hello`] is due.
    pub fn accept(&mut self, now: Millis) -> bool {
        let Phase::Asked(Asked { key: Some(key), stream: None, .. }) = &self.phase else {
            return false;
        };
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\n\r\n",
            upgrade::accept(key)
        );
        self.put(now, head.as_bytes());
        let reader = Reader::new(MESSAGE_BYTES_EARLY);
        let state = SocketState::Early(now.plus(self.limits.handshake_ms));
        self.phase = Phase::Socket(Box::new(Socket { reader, state }));
        true
    }

    /// The peer is known: long messages are allowed, pings begin.
    pub fn hello(&mut self, now: Millis) -> bool {
        let Phase::Socket(socket) = &mut self.phase else { return false };
        let SocketState::Early(_) = socket.state else { return false };
        socket.reader.set_max(MESSAGE_BYTES_MAX);
        let next = now.plus(PING_MS);
        socket.state = SocketState::Open(Pulse { next, out: None, since: None });
        true
    }

    /// Sends one text message: the shared pieces, which are not copied, and then `own`. Together
    /// they are UTF-8.
    pub fn text(&mut self, now: Millis, shared: &[Arc<[u8]>], own: &[u8]) -> bool {
        if !self.is_open() {
            return false;
        }
        let length = shared.iter().map(|piece| piece.len()).sum::<usize>() + own.len();
        self.put(now, &frames::text_head(length));
        shared.iter().for_each(|piece| self.out.share(piece));
        self.put(now, own);
        true
    }

    /// Closes the WebSocket with a code and a reason, which is cut to
    /// [`REASON_BYTES_MAX`] bytes. The peer has [`GRACE_MS`] to take it.
    pub fn close(&mut self, now: Millis, code: u16, reason: &str) -> bool {
        if !self.is_open() {
            return false;
        }
        self.put(now, &frames::close(Some(code), reason, REASON_BYTES_MAX));
        if let Phase::Socket(socket) = &mut self.phase {
            socket.state = SocketState::Closing(now.plus(GRACE_MS));
        }
        true
    }

    fn is_open(&self) -> bool {
        let Phase::Socket(socket) = &self.phase else { return false };
        !matches!(socket.state, SocketState::Closing(_))
    }
}

/// Answers of some statuses have no body (RFC 9112, 6.3).
fn framing(response: &Response, usual: Framing) -> Framing {
    if matches!(response.status, 204 | 304) { Framing::None } else { usual }
}
