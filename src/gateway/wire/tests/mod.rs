//! Tests of a connection. `Peer` is a client that plays bytes, with a caller that answers.

mod http;
mod oracle;
mod socket;
mod time;

use super::fuzz::{Play, frame, heading};
use super::{Event, Fault, Limits, Refused, Response, Wire};
use crate::base::Millis;

const NOW: Millis = Millis(1_000_000);

/// A connection, its time, and what it has said.
struct Peer {
    wire: Wire,
    now: Millis,
    said: Vec<u8>,
}

impl Peer {
    fn new() -> Peer {
        Peer { wire: Wire::new(NOW, Limits::default()), now: NOW, said: Vec::new() }
    }

    /// An accepted WebSocket, before hello.
    fn early() -> Peer {
        let mut peer = Peer::new();
        assert!(matches!(peer.feed(heading().as_bytes())[..], [Event::Upgrade(_)]));
        assert!(peer.wire.accept(peer.now));
        peer.take();
        peer
    }

    /// A WebSocket after hello.
    fn open() -> Peer {
        let mut peer = Peer::early();
        assert!(peer.wire.hello(peer.now));
        peer
    }

    fn poll(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.wire.poll(self.now)).collect()
    }

    fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.wire.feed(bytes);
        self.poll()
    }

    /// Everything that waits is written, and returned.
    fn take(&mut self) -> Vec<u8> {
        let bytes: Vec<u8> = self.wire.out().flatten().copied().collect();
        assert_eq!(bytes.len(), self.wire.buffered());
        self.wire.written(self.now, bytes.len());
        self.said.extend_from_slice(&bytes);
        bytes
    }

    fn words(&mut self) -> String {
        String::from_utf8(self.take()).unwrap()
    }

    fn respond(&mut self, response: &Response) -> String {
        assert!(self.wire.respond(self.now, response));
        self.words()
    }

    /// The time at which something is due has come.
    fn wait(&mut self) -> Vec<Event> {
        self.now = self.wire.due().expect("something is due").0;
        self.poll()
    }
}

/// What a request is refused with, and the answer.
fn refused(bytes: &[u8]) -> (Refused, String) {
    let mut peer = Peer::new();
    let events: Vec<Event> =
        peer.feed(bytes).into_iter().filter(|e| !matches!(e, Event::Head(_))).collect();
    let [Event::Broken(Fault::Request(refused))] = &events[..] else {
        panic!("{:?}: {events:?}", String::from_utf8_lossy(bytes))
    };
    let answer = peer.words();
    assert!(answer.starts_with(&format!("HTTP/1.1 {} ", refused.status())), "{answer}");
    assert!(answer.contains("Connection: close\r\n"), "{answer}");
    assert!(answer.ends_with(&format!("\r\n\r\n{refused}\n")), "{answer}");
    assert!(peer.feed(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").is_empty());
    assert!(peer.wire.said_all() && !peer.wire.done());
    peer.wire.end_of_input();
    assert!(peer.poll().is_empty());
    assert!(peer.wire.done());
    (refused.clone(), answer)
}

/// The events of bytes, with every request answered and every upgrade accepted.
fn events(bytes: &[u8]) -> Vec<Event> {
    let mut play = Play::new();
    play.feed(bytes);
    play.events
}
