//! Requests and responses as values.

use std::fmt::Write;
use std::sync::Arc;

/// The methods that are known here; every other is answered with 501.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // They are what they are called.
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Patch,
}

impl Method {
    pub(super) fn named(name: &str) -> Option<Method> {
        Some(match name {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "DELETE" => Method::Delete,
            "OPTIONS" => Method::Options,
            "PATCH" => Method::Patch,
            _ => return None,
        })
    }
}

/// The headers of a request, in their order. Names are in lower case, values without blanks around.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Headers(pub(super) Vec<(String, String)>);

impl Headers {
    /// The first value of a header; `name` in lower case. Headers that decide anything come once
    /// (H4), so the first is the only one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The names of all headers, in lower case.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Every value of a header; `name` in lower case.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// What is asked.
    pub method: Method,
    /// The path, its escapes resolved once, free of `.` and `..` segments (H6). `*` only for
    /// OPTIONS, else it begins with a slash.
    pub path: String,
    /// What follows the question mark, as it was sent: printable ASCII, escapes in place.
    pub query: Option<String>,
    /// The headers.
    pub headers: Headers,
    /// The body; empty where there is none, and while it has not come (H8).
    pub body: Vec<u8>,
    /// The connection serves another request after this one.
    pub keep_alive: bool,
    /// 1 for HTTP/1.1, 0 for HTTP/1.0.
    pub(super) minor: u8,
}

/// An answer. `Content-Length`, `Transfer-Encoding` and `Connection` are not its matter.
#[derive(Clone, Debug)]
pub struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Arc<[u8]>,
}

impl Response {
    /// An answer with a status from 200 to 599, without headers and body.
    ///
    /// # Panics
    /// When the status is another one: no peer decides it.
    #[must_use]
    pub fn new(status: u16) -> Response {
        assert!((200..600).contains(&status), "{status} is no status of an answer");
        Response { status, headers: Vec::new(), body: Arc::new([]) }
    }

    /// The answer with a header more. Control characters of the value are left out, so that no
    /// value can hold another header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Response {
        self.headers.push((name, value.chars().filter(|c| !c.is_control()).collect()));
        self
    }

    /// The answer with a body, which is shared and not copied.
    #[must_use]
    pub fn body(mut self, body: impl Into<Arc<[u8]>>) -> Response {
        self.body = body.into();
        self
    }
}

/// How an answer's body is told apart from what follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    /// There is none, and none is announced (204, 304, and an upgrade).
    None,
    /// So many bytes.
    Length(usize),
    /// Chunks.
    Chunked,
    /// It ends with the connection (HTTP/1.0).
    ToTheEnd,
}

/// The head of an answer. `close`: the connection ends after it.
pub(super) fn head(response: &Response, framing: Framing, close: bool) -> String {
    let mut text = String::with_capacity(256);
    let status = response.status;
    // Writing to a String cannot fail.
    let _ = write!(text, "HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in &response.headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    let _ = match framing {
        Framing::Length(n) => write!(text, "Content-Length: {n}\r\n"),
        Framing::Chunked => write!(text, "Transfer-Encoding: chunked\r\n"),
        Framing::None | Framing::ToTheEnd => Ok(()),
    };
    if close {
        text.push_str("Connection: close\r\n");
    }
    text.push_str("\r\n");
    text
}

/// The usual words for a status; they mean nothing to a client.
fn reason(status: u16) -> &'static str {
    match status {
        101 => "Switching Protocols",
        200 => "OK",
        204 => "No Content",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        414 => "URI Too Long",
        417 => "Expectation Failed",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Status",
    }
}
