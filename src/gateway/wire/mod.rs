//! The bytes of one connection (`spec/wire.md`): HTTP/1.1, and a WebSocket after an upgrade. Pure:
//! bytes and the time come in, events and bytes come out.
//!
//! ```text
//! feed, end_of_input -> poll -> Event     until it gives none
//! respond | begin chunk end               the answer to Request, Upgrade, or already to Head
//! accept -> hello -> text, close          the other answer to Upgrade
//! out -> written                          what is to be written; then poll again
//! due -> poll                             at that time, whatever happens
//! wants_bytes, said_all, done             read? shut down our side? drop the connection?
//! ```
//!
//! The phases: `Head -> [Body ->] Asked -> Head ...`, `Asked -> Socket`, and from everywhere
//! `-> Leaving -> Over`.

mod answer;
mod body;
mod fault;
mod frames;
#[cfg(any(test, fuzzing, feature = "sim"))]
pub mod fuzz;
mod head;
mod http;
pub mod limits;
mod out;
mod poll;
mod target;
#[cfg(test)]
mod tests;
mod time;
mod upgrade;

pub use fault::{Fault, Late, Refused, Violation};
pub use http::{Headers, Method, Request, Response};

use crate::base::Millis;
use body::Body;
use frames::Reader;
use head::Scan;
use http::Framing;
use out::Out;

/// What happened. After [`Event::Closed`] and [`Event::Broken`] nothing more happens; what is still
/// to be written is to be written all the same, until [`Wire::done`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The head of a request whose body has not come. Polling on means that the body is wanted;
    /// else there may be an answer at once, or a lower limit ([`Wire::body_max`]).
    Head(Request),
    /// A whole request, with its body if it has one. It waits for its answer.
    Request(Request),
    /// A request for a WebSocket. It waits for [`Wire::accept`] or for an answer.
    Upgrade(Request),
    /// A message.
    Text(String),
    /// The peer's side has ended while its request waits for the answer, which may still be given:
    /// the peer has gone, or only says that it asks for nothing more.
    Ended,
    /// The peer has closed the WebSocket.
    Closed {
        /// Its code; none where it gave none.
        code: Option<u16>,
        /// Its words.
        reason: String,
    },
    /// The connection has come to an end that is not in order.
    Broken(Fault),
}

/// What a gateway can set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// From the connection to its first head, and from the upgrade to hello, ms.
    pub handshake_ms: u64,
    /// Longest body, bytes.
    pub body_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { handshake_ms: limits::HANDSHAKE_MS, body_bytes: limits::BODY_BYTES_MAX }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Wire {
    limits: Limits,
    inbox: Inbox,
    out: Out,
    phase: Phase,
    /// When bytes that wait were last taken, or the first of them was queued.
    moved: Millis,
    /// The peer's side has ended.
    ended: bool,
}

#[derive(Debug)]
enum Phase {
    Head(Waiting),
    Body(Box<Incoming>),
    Asked(Asked),
    Socket(Box<Socket>),
    /// All is said. What comes is thrown away, so that our last words are not lost to a reset.
    /// Ends at its time, which begins with the last byte written.
    Leaving(Option<Millis>),
    Over,
}

/// A head is awaited, or has begun.
#[derive(Debug)]
struct Waiting {
    scan: Scan,
    until: Millis,
    late: Late,
}

/// A body is coming in.
#[derive(Debug)]
struct Incoming {
    request: Request,
    body: Body,
    from: Millis,
    expects: bool,
    /// The caller has seen the head and polls on.
    wanted: bool,
}

/// A request is with the caller.
#[derive(Debug)]
struct Asked {
    /// The answer has no body, whatever it says about it.
    head_only: bool,
    keep_alive: bool,
    minor: u8,
    /// The key of an upgrade.
    key: Option<Box<str>>,
    /// The answer is under way in pieces.
    stream: Option<Framing>,
    /// The caller knows that the peer's side has ended.
    told: bool,
}

#[derive(Debug)]
struct Socket {
    reader: Reader,
    state: SocketState,
}

#[derive(Clone, Copy, Debug)]
enum SocketState {
    /// Hello is due.
    Early(Millis),
    Open(Pulse),
    /// We have closed; the peer's close is due.
    Closing(Millis),
}

/// Pings and what they are answered with.
#[derive(Clone, Copy, Debug)]
struct Pulse {
    /// When the next ping is due.
    next: Millis,
    /// A ping is out: where it ends in the stream of written bytes.
    out: Option<u64>,
    /// When its last byte was written.
    since: Option<Millis>,
}

/// Bytes that came and are not read.
#[derive(Debug, Default)]
struct Inbox {
    bytes: Vec<u8>,
    start: usize,
}

impl Inbox {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    fn consume(&mut self, n: usize) {
        self.start += n;
        if self.start == self.bytes.len() {
            // Nothing waits: an idle connection keeps no memory for it.
            *self = Inbox::default();
        }
    }
}

impl Wire {
    /// A connection that was just made.
    #[must_use]
    pub fn new(now: Millis, limits: Limits) -> Wire {
        let until = now.plus(limits.handshake_ms);
        let waiting = Waiting { scan: Scan::default(), until, late: Late::Handshake };
        Wire {
            limits,
            inbox: Inbox::default(),
            out: Out::default(),
            phase: Phase::Head(waiting),
            moved: now,
            ended: false,
        }
    }

    /// Bytes came. Then [`Wire::poll`] until it gives nothing.
    pub fn feed(&mut self, bytes: &[u8]) {
        if !matches!(self.phase, Phase::Leaving(_) | Phase::Over) {
            self.inbox.push(bytes);
        }
    }

    /// The peer's side has ended. Then [`Wire::poll`].
    pub fn end_of_input(&mut self) {
        self.ended = true;
    }

    /// Whether to read. While it is false the peer waits: a request is being answered and others
    /// are behind it, or the peer does not take what it is sent.
    #[must_use]
    pub fn wants_bytes(&self) -> bool {
        !self.ended
            && match &self.phase {
                Phase::Head(_) | Phase::Body(_) | Phase::Socket(_) => !self.is_full(),
                Phase::Asked(_) => self.inbox.rest().len() < limits::AHEAD_BYTES_MAX,
                Phase::Leaving(_) => true,
                Phase::Over => false,
            }
    }

    /// What is to be written, in order; for a vectored write.
    pub fn out(&self) -> impl Iterator<Item = &[u8]> {
        self.out.slices()
    }

    /// Bytes that wait to be written: what a rule about slow consumers looks at.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.out.len()
    }

    /// The first `n` bytes of [`Wire::out`] were written. Then [`Wire::poll`].
    ///
    /// # Panics
    /// When there were not so many.
    pub fn written(&mut self, now: Millis, n: usize) {
        let full = self.is_full();
        self.out.advance(n);
        self.moved = now;
        self.on_written(now, full);
    }

    /// Everything is said and written: our side of the connection may be shut down.
    #[must_use]
    pub fn said_all(&self) -> bool {
        self.out.is_empty() && matches!(self.phase, Phase::Leaving(_) | Phase::Over)
    }

    /// The connection is over: drop it.
    #[must_use]
    pub fn done(&self) -> bool {
        self.out.is_empty() && matches!(self.phase, Phase::Over)
    }

    /// More waits than a peer that reads would leave.
    fn is_full(&self) -> bool {
        self.out.len() > limits::PAUSE_BYTES
    }

    /// Queues bytes.
    fn put(&mut self, now: Millis, bytes: &[u8]) {
        if self.out.is_empty() {
            self.moved = now;
        }
        self.out.copy(bytes);
    }

    /// All is said, except what waits to be written.
    fn leave(&mut self, until: Option<Millis>) {
        self.inbox = Inbox::default();
        self.phase = Phase::Leaving(until);
    }

    /// Nothing more is read, nor written but what waits.
    fn finish(&mut self) {
        self.inbox = Inbox::default();
        self.phase = Phase::Over;
    }

    /// Bytes of memory that this connection holds, without what it shares with others.
    #[cfg(any(test, fuzzing, feature = "sim"))]
    #[must_use]
    pub fn footprint(&self) -> usize {
        let held = match &self.phase {
            Phase::Body(incoming) => size_of::<Incoming>() + incoming.body.heap(),
            Phase::Socket(socket) => size_of::<Socket>() + socket.reader.heap(),
            Phase::Head(_) | Phase::Asked(_) | Phase::Leaving(_) | Phase::Over => 0,
        };
        size_of::<Wire>() + self.inbox.bytes.capacity() + self.out.heap() + held
    }
}
