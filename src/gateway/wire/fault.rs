//! What can be wrong with what a peer sends, and how it is told.

use super::limits;

/// Why a connection came to an end that was not in order. The peer has been told by then, as far
/// as it can be told; nothing more will come from it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// A request that is refused; it was answered with [`Refused::status`].
    #[error("bad request: {0}")]
    Request(#[from] Refused),
    /// A frame that is refused; the WebSocket was closed with [`Violation::code`].
    #[error("bad frame: {0}")]
    Frame(#[from] Violation),
    /// The peer was too slow.
    #[error("too slow: {0}")]
    Late(Late),
    /// The peer's side ended in the middle of a request, or without a close frame.
    #[error("the connection ended in the middle")]
    CutOff,
}

/// What a connection waits for, and how long at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Late {
    /// The first head, or what follows an upgrade up to hello.
    #[error("no handshake in time")]
    Handshake,
    /// The rest of a head.
    #[error("the head of a request was not complete {} ms after its first byte", limits::HEAD_MS)]
    Head,
    /// The rest of a body.
    #[error("the body of a request came too slowly")]
    Body,
    /// The next request; nobody is blamed.
    #[error("no request for {} ms", limits::IDLE_MS)]
    Idle,
    /// Time for a ping; nobody is blamed.
    #[error("a ping is due")]
    Ping,
    /// A sign of life after a ping.
    #[error("no sign of life {} ms after a ping", limits::PONG_MS)]
    Pong,
    /// Room for what waits to be written.
    #[error("nothing of what waits was taken for {} ms", limits::STALL_MS)]
    Stall,
    /// The end of the connection after its close; nobody is blamed.
    #[error("the connection was not ended {} ms after its close", limits::GRACE_MS)]
    Grace,
}

/// A request that is not answered by a route. `at` counts bytes from the start of the head.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// More than [`limits::HEAD_BYTES_MAX`].
    #[error("the head has more than {} bytes", limits::HEAD_BYTES_MAX)]
    HeadLong,
    /// More than [`limits::TARGET_BYTES_MAX`].
    #[error("the target has more than {} bytes", limits::TARGET_BYTES_MAX)]
    TargetLong,
    /// More than [`limits::HEADERS_MAX`].
    #[error("more than {} headers", limits::HEADERS_MAX)]
    HeadersMany,
    /// A line feed without its carriage return, or the other way round.
    #[error("a line break at byte {at} is not CR LF")]
    LineBreak {
        /// Where.
        at: usize,
    },
    /// A control character.
    #[error("a control character at byte {at}")]
    Control {
        /// Where.
        at: usize,
    },
    /// A header that goes on in the next line.
    #[error("the line at byte {at} begins with a blank")]
    Folded {
        /// Where.
        at: usize,
    },
    /// Not the form of a request.
    #[error("{0}")]
    Syntax(&'static str),
    /// Neither HTTP/1.1 nor HTTP/1.0.
    #[error("only HTTP/1.1 and HTTP/1.0 are spoken here")]
    Version,
    /// A method that nothing here has.
    #[error("no such method here")]
    Method,
    /// A target that is refused.
    #[error("the target {0}")]
    Target(&'static str),
    /// No `Host`, a malformed one, or another one than the target's.
    #[error("Host {0}")]
    Host(&'static str),
    /// A header that may come once.
    #[error("the header {0} comes more than once")]
    Repeated(&'static str),
    /// A header's value is no text.
    #[error("a header's value is not UTF-8")]
    Utf8,
    /// `Content-Length` is no number, or `Transfer-Encoding` beside it or in HTTP/1.0.
    #[error("{0}")]
    Length(&'static str),
    /// A transfer coding other than `chunked`.
    #[error("the only transfer coding here is chunked")]
    Coding,
    /// An expectation other than `100-continue`.
    #[error("the only expectation that is met here is 100-continue")]
    Expectation,
    /// A body longer than the route takes.
    #[error("the body has more than {max} bytes")]
    BodyLong {
        /// What the route takes.
        max: usize,
    },
    /// A chunked body that is malformed.
    #[error("{what} at byte {at} of the chunked body")]
    Chunk {
        /// What is wrong.
        what: &'static str,
        /// Where, counted from the body's first byte as it is on the wire.
        at: u64,
    },
    /// More than [`limits::TRAILER_BYTES_MAX`].
    #[error("the trailers have more than {} bytes", limits::TRAILER_BYTES_MAX)]
    TrailersLong,
    /// An upgrade that is malformed.
    #[error("an upgrade to WebSocket {0}")]
    Upgrade(&'static str),
    /// Another version of the WebSocket protocol than 13.
    #[error("the only WebSocket version here is 13")]
    UpgradeVersion,
    /// A head or body that did not come in time.
    #[error("the request was not complete in time")]
    Slow,
}

impl Refused {
    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Refused::Slow => 408,
            Refused::BodyLong { .. } => 413,
            Refused::TargetLong => 414,
            Refused::Expectation => 417,
            Refused::UpgradeVersion => 426,
            Refused::HeadLong | Refused::HeadersMany | Refused::TrailersLong => 431,
            Refused::Method | Refused::Coding => 501,
            Refused::Version => 505,
            _ => 400,
        }
    }
}

/// What a client may not send over a WebSocket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Violation {
    /// Against RFC 6455.
    #[error("{0}")]
    Protocol(&'static str),
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    Utf8,
    /// A binary message that is no text.
    #[error("a binary message is not UTF-8")]
    Binary,
    /// A message longer than is allowed at this time.
    #[error("a message has more than {max} bytes")]
    Long {
        /// The limit.
        max: usize,
    },
}

impl Violation {
    /// The code of the close (RFC 6455, 7.4.1).
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Violation::Protocol(_) => 1002,
            Violation::Binary => 1003,
            Violation::Utf8 => 1007,
            Violation::Long { .. } => 1009,
        }
    }
}
