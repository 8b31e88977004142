//! The head of a request: where it ends, and what it says (H2 to H4).

use super::body::Length;
use super::fault::Refused;
use super::http::{Headers, Method, Request};
use super::limits::{HEAD_BYTES_MAX, HEADERS_MAX, LINE_BYTES_MAX, TARGET_BYTES_MAX};
use super::{target, upgrade};

/// Headers that come once: they decide what a request is or who sends it.
const ONCE: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "content-type",
    "authorization",
    "origin",
    "expect",
    "upgrade",
    "sec-websocket-key",
    "sec-websocket-version",
];

/// Looks for the end of a head, each byte once. What is wrong is seen at its byte, however the
/// bytes are cut.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scan {
    /// Bytes seen.
    at: usize,
    /// Where the open line begins.
    line: usize,
    /// Where the head begins: one blank line before it is allowed (RFC 9112, 2.2).
    start: usize,
}

impl Scan {
    /// Goes on in `bytes`, which begin where they began before. The range of a whole head, once it
    /// is there.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> Result<Option<(usize, usize)>, Refused> {
        while self.at < bytes.len() {
            let (at, byte) = (self.at, bytes[self.at]);
            let length = at - self.start;
            let first = self.line == self.start;
            if first && length >= LINE_BYTES_MAX {
                return Err(Refused::TargetLong);
            }
            if length >= HEAD_BYTES_MAX {
                return Err(Refused::HeadLong);
            }
            let after_cr = at > 0 && bytes[at - 1] == b'\r';
            if after_cr != (byte == b'\n') {
                return Err(Refused::LineBreak { at: length });
            }
            if byte < b' ' && !b"\r\n\t".contains(&byte) || byte == 0x7f {
                return Err(Refused::Control { at: length });
            }
            if at == self.line && !first && (byte == b' ' || byte == b'\t') {
                return Err(Refused::Folded { at: length });
            }
            self.at += 1;
            if byte == b'\n' {
                let blank = at == self.line + 1;
                self.line = self.at;
                if blank && !first {
                    return Ok(Some((self.start, self.at)));
                }
                if blank {
                    if self.start > 0 {
                        return Err(Refused::Syntax("no request line"));
                    }
                    self.start = self.at;
                }
            }
        }
        Ok(None)
    }
}

/// What a head says.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) request: Request,
    pub(super) length: Length,
    /// The client waits for a word before it sends the body.
    pub(super) expects: bool,
    pub(super) upgrade: bool,
}

/// Reads a whole head.
pub(super) fn parse(bytes: &[u8]) -> Result<Head, Refused> {
    let mut lines = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut lines);
    match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(n)) if n == bytes.len() => {}
        Ok(_) => return Err(Refused::Syntax("no request")),
        Err(error) => return Err(syntax(error, bytes)),
    }
    let (Some(name), Some(raw), Some(minor)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(Refused::Syntax("no request"));
    };
    if raw.len() > TARGET_BYTES_MAX {
        return Err(Refused::TargetLong);
    }
    let method = Method::named(name).ok_or(Refused::Method)?;
    let headers = headers(parsed.headers)?;
    let target = target::parse(raw, method == Method::Options)?;
    host(&headers, minor, target.authority)?;
    let length = length(&headers, minor)?;
    let has_body = length != Length::Known(0);
    let expects = minor == 1 && has_body && headers.get("expect").is_some();
    if expects && !upgrade::lists(&headers, "expect", "100-continue") {
        return Err(Refused::Expectation);
    }
    let keep_alive = minor == 1 && !upgrade::lists(&headers, "connection", "close");
    let (path, query) = (target.path, target.query.map(str::to_owned));
    let request = Request { method, path, query, headers, body: Vec::new(), keep_alive, minor };
    let upgrade = upgrade::check(&request, has_body)?;
    Ok(Head { request, length, expects, upgrade })
}

fn syntax(error: httparse::Error, bytes: &[u8]) -> Refused {
    match error {
        httparse::Error::TooManyHeaders => Refused::HeadersMany,
        httparse::Error::Version if names_version(bytes) => Refused::Version,
        httparse::Error::HeaderName => Refused::Syntax("a header's name is malformed"),
        httparse::Error::HeaderValue => Refused::Syntax("a header's value is malformed"),
        httparse::Error::Token | httparse::Error::Version => {
            Refused::Syntax("the request line is malformed")
        }
        httparse::Error::NewLine | httparse::Error::Status => Refused::Syntax("no request"),
    }
}

/// The request line ends with a version, though with none that is spoken here.
fn names_version(bytes: &[u8]) -> bool {
    let line = bytes.split(|b| *b == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    matches!(words[..], [_, _, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]]
        if major.is_ascii_digit() && minor.is_ascii_digit())
}

fn headers(lines: &[httparse::Header<'_>]) -> Result<Headers, Refused> {
    let mut headers = Vec::with_capacity(lines.len());
    for line in lines {
        let name = line.name.to_ascii_lowercase();
        if let Some(once) = ONCE.iter().find(|once| **once == name)
            && headers.iter().any(|(n, _)| *n == name)
        {
            return Err(Refused::Repeated(once));
        }
        let value = str::from_utf8(line.value).map_err(|_| Refused::Utf8)?;
        headers.push((name, value.trim_matches([' ', '\t']).to_owned()));
    }
    Ok(Headers(headers))
}

/// There is one host, and it is the one of the target.
fn host(headers: &Headers, minor: u8, authority: Option<&str>) -> Result<(), Refused> {
    let Some(host) = headers.get("host") else {
        return if minor == 0 { Ok(()) } else { Err(Refused::Host("is missing")) };
    };
    let is_fine = |b: u8| b.is_ascii_alphanumeric() || b"-._~:[]".contains(&b);
    if host.is_empty() || !host.bytes().all(is_fine) {
        return Err(Refused::Host("is no host"));
    }
    if authority.is_some_and(|authority| !authority.eq_ignore_ascii_case(host)) {
        return Err(Refused::Host("and the target's host are not the same"));
    }
    Ok(())
}

/// How long the body is; nothing that two readers could understand in two ways.
fn length(headers: &Headers, minor: u8) -> Result<Length, Refused> {
    let known = headers.get("content-length");
    if let Some(coding) = headers.get("transfer-encoding") {
        if known.is_some() {
            return Err(Refused::Length("both Content-Length and Transfer-Encoding"));
        }
        if minor == 0 {
            return Err(Refused::Length("Transfer-Encoding in HTTP/1.0"));
        }
        let chunked = coding.eq_ignore_ascii_case("chunked");
        return if chunked { Ok(Length::Chunked) } else { Err(Refused::Coding) };
    }
    let Some(digits) = known else { return Ok(Length::Known(0)) };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Refused::Length("Content-Length is no number"));
    }
    // A number too large for the machine is too large for every route.
    Ok(Length::Known(digits.parse().unwrap_or(usize::MAX)))
}
