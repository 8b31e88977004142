//! Entry points for a fuzzer, and the client that tests and fuzzers share. Each entry takes any
//! bytes, and asserts what must hold of every connection.

use super::limits::{AHEAD_BYTES_MAX, BODY_BYTES_MAX};
use super::{Event, Limits, Request, Response, Wire};
use crate::base::{Millis, Rng};

/// The head of an upgrade, with the key of RFC 6455.
#[must_use]
pub fn heading() -> &'static str {
    "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
}

/// A client's frame: the first byte of its head, a mask, its payload.
#[must_use]
pub fn frame(first: u8, mask: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        n @ 0..=125 => bytes.push(0x80 | n as u8),
        n @ 126..=0xffff => {
            bytes.push(0x80 | 126);
            bytes.extend((n as u16).to_be_bytes());
        }
        n => {
            bytes.push(0x80 | 127);
            bytes.extend((n as u64).to_be_bytes());
        }
    }
    bytes.extend(mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// A connection whose caller answers everything at once: requests with a word, upgrades with
/// their acceptance and hello.
#[derive(Debug)]
pub struct Play {
    /// The connection.
    pub wire: Wire,
    /// What happened.
    pub events: Vec<Event>,
    /// What was written.
    pub said: Vec<u8>,
}

const NOW: Millis = Millis(1);

impl Default for Play {
    fn default() -> Play {
        Play::new()
    }
}

impl Play {
    /// A new connection.
    #[must_use]
    pub fn new() -> Play {
        let wire = Wire::new(NOW, Limits::default());
        Play { wire, events: Vec::new(), said: Vec::new() }
    }

    /// Bytes come, and everything that they bring about happens.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.wire.feed(bytes);
        self.settle();
    }

    /// The peer's side ends.
    pub fn end(&mut self) {
        self.wire.end_of_input();
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(event) = self.wire.poll(NOW) {
            match &event {
                Event::Request(request) => {
                    assert_sound(request);
                    let body = format!("{} {}", request.path, request.body.len()).into_bytes();
                    assert!(self.wire.respond(NOW, &Response::new(200).body(body)));
                }
                Event::Upgrade(request) => {
                    assert_sound(request);
                    assert!(self.wire.accept(NOW) && self.wire.hello(NOW));
                }
                Event::Text(text) => assert!(self.wire.text(NOW, &[], text.as_bytes())),
                Event::Head(request) => assert_sound(request),
                Event::Closed { .. } | Event::Broken(_) | Event::Ended => {}
            }
            let over = self.events.iter().any(is_last);
            assert!(!over, "{event:?} after the last one: {:?}", self.events);
            self.events.push(event);
            self.write();
        }
        self.write();
    }

    fn write(&mut self) {
        let n = self.wire.buffered();
        self.said.extend(self.wire.out().flatten());
        self.wire.written(NOW, n);
    }
}

fn is_last(event: &Event) -> bool {
    matches!(event, Event::Closed { .. } | Event::Broken(_))
}

/// What holds of every request that is let through.
fn assert_sound(request: &Request) {
    let path = &request.path;
    assert!(path.starts_with('/') || path == "*", "{path:?}");
    assert!(!path.chars().any(|c| c.is_control() || c == '\\'), "{path:?}");
    assert!(!path.split('/').any(|segment| segment == "." || segment == ".."), "{path:?}");
    for (name, value) in &request.headers.0 {
        assert!(!name.is_empty() && *name == name.to_ascii_lowercase(), "{name:?}");
        assert!(!value.chars().any(|c| c.is_control() && c != '\t'), "{name:?}: {value:?}");
    }
    for name in ["host", "content-length", "transfer-encoding", "authorization", "origin"] {
        assert!(request.headers.all(name).count() <= 1, "{name}");
    }
    let length = request.headers.get("content-length");
    assert!(length.is_none() || request.headers.get("transfer-encoding").is_none());
    assert!(request.body.len() <= BODY_BYTES_MAX);
}

/// Whole, byte by byte, and in random cuts: the same events, the same answers, and no more memory
/// than what came accounts for.
fn same(head: &str, data: &[u8]) {
    let mut whole = Play::new();
    whole.feed(head.as_bytes());
    whole.feed(data);
    whole.end();
    let mut rng = Rng(data.iter().fold(data.len() as u64, |n, b| n * 31 % 0xffff + u64::from(*b)));
    for most in [1, 2 + rng.below(60)] {
        let mut cut = Play::new();
        cut.feed(head.as_bytes());
        let mut rest = data;
        while !rest.is_empty() {
            let n = (1 + rng.below(most) as usize).min(rest.len());
            cut.feed(&rest[..n]);
            rest = &rest[n..];
            let bound = 2_048 + AHEAD_BYTES_MAX + 4 * data.len();
            assert!(cut.wire.footprint() <= bound + (64 << 10), "{} bytes", cut.wire.footprint());
        }
        cut.end();
        assert_eq!(whole.events, cut.events);
        assert_eq!(whole.said, cut.said);
    }
}

/// Any bytes on a new connection.
pub fn fuzz_http(data: &[u8]) {
    same("", data);
}

/// Any bytes behind an upgrade.
pub fn fuzz_socket(data: &[u8]) {
    same(heading(), data);
}
