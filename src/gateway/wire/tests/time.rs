//! What happens when nothing happens.

use super::super::Late;
use super::super::limits::*;
use super::*;

fn late(late: Late) -> [Event; 1] {
    [Event::Broken(Fault::Late(late))]
}

fn due(peer: &Peer) -> (u64, Late) {
    let (at, late) = peer.wire.due().expect("something is due");
    (at.since(NOW), late)
}

/// H14: heads.
#[test]
fn a_head_has_its_time() {
    let mut peer = Peer::new();
    assert_eq!(due(&peer), (HANDSHAKE_MS, Late::Handshake));
    assert_eq!(peer.wait(), late(Late::Handshake));
    assert!(peer.wire.done(), "who says nothing is told nothing");

    let mut peer = Peer::new();
    peer.now = NOW.plus(2_000);
    peer.feed(b"GET /");
    assert_eq!(due(&peer), (2_000 + HEAD_MS, Late::Head));
    // More bytes buy no time.
    peer.now = NOW.plus(9_000);
    peer.feed(b"x");
    assert_eq!(due(&peer), (2_000 + HEAD_MS, Late::Head));
    assert_eq!(peer.wait(), late(Late::Head));
    assert!(peer.words().starts_with("HTTP/1.1 408 "));

    let mut peer = Peer::new();
    peer.now = NOW.plus(10_000);
    peer.feed(b"G");
    assert_eq!(due(&peer), (HANDSHAKE_MS, Late::Head));
}

/// H14: bodies.
#[test]
fn a_body_has_its_time_and_buys_more() {
    let mut peer = Peer::new();
    peer.feed(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n");
    assert_eq!(due(&peer), (BODY_MS, Late::Body));
    peer.feed(&vec![b'x'; 3 * BODY_BYTES_PER_SECOND as usize]);
    assert_eq!(due(&peer), (BODY_MS + 3_000, Late::Body));
    assert_eq!(peer.wait(), late(Late::Body));
    assert!(peer.words().starts_with("HTTP/1.1 408 "));
    assert_eq!(due(&peer).1, Late::Grace);
}

/// H14: between requests, and while one is answered.
#[test]
fn an_idle_connection_is_ended_in_silence() {
    let ask = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut peer = Peer::new();
    peer.feed(ask);
    assert_eq!(peer.wire.due(), None);
    assert!(peer.wire.respond(NOW, &Response::new(200).body(*b"slow")));
    assert_eq!(due(&peer), (STALL_MS, Late::Stall));
    // A slow reader is not idle.
    peer.now = NOW.plus(20_000);
    peer.wire.written(peer.now, 1);
    assert_eq!(due(&peer), (20_000 + STALL_MS, Late::Stall));
    peer.take();
    assert_eq!(due(&peer), (20_000 + IDLE_MS, Late::Idle));
    peer.now = NOW.plus(30_000);
    peer.feed(&ask[..3]);
    assert_eq!(due(&peer), (30_000 + HEAD_MS, Late::Head));
    peer.feed(&ask[3..]);
    peer.respond(&Response::new(200));
    assert_eq!(due(&peer), (30_000 + IDLE_MS, Late::Idle));
    assert!(peer.wait().is_empty());
    assert!(peer.wire.done() && peer.wire.due().is_none());
}

/// H9: the last answer has a moment to arrive.
#[test]
fn after_the_last_answer_there_is_grace() {
    let mut peer = Peer::new();
    peer.feed(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert!(peer.wire.respond(NOW, &Response::new(200)));
    assert!(!peer.wire.said_all());
    peer.now = NOW.plus(5_000);
    peer.take();
    assert_eq!(due(&peer), (5_000 + GRACE_MS, Late::Grace));
    assert!(peer.wire.said_all() && peer.wire.wants_bytes());
    assert!(peer.wait().is_empty());
    assert!(peer.wire.done());
}

/// H15: what nobody takes is given up.
#[test]
fn a_stalled_peer_is_dropped() {
    let mut peer = Peer::new();
    peer.feed(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(peer.wire.begin(NOW, &Response::new(200)));
    peer.now = NOW.plus(STALL_MS - 1);
    assert!(peer.poll().is_empty() && peer.wire.buffered() > 0);
    assert_eq!(peer.wait(), late(Late::Stall));
    assert!(peer.wire.done() && !peer.wire.chunk(peer.now, b"x"));
    // Who is told already is not told again.
    let mut peer = Peer::new();
    peer.feed(b"\0");
    assert_eq!(peer.wire.due().unwrap().1, Late::Stall);
    assert!(peer.wait().is_empty() && peer.wire.done());
}

/// H14: from the upgrade to hello.
#[test]
fn hello_has_its_time() {
    let mut peer = Peer::early();
    assert_eq!(due(&peer), (HANDSHAKE_MS, Late::Handshake));
    peer.feed(&frame(0x81, [0; 4], b"hi"));
    assert_eq!(due(&peer), (HANDSHAKE_MS, Late::Handshake));
    assert_eq!(peer.wait(), late(Late::Handshake));
    assert_eq!(peer.take()[..4], [0x88, 22, 0x03, 0xf0]);
    assert!(!peer.wire.hello(peer.now));
    assert!(peer.wait().is_empty() && peer.wire.done());
    let mut peer = Peer::open();
    assert!(!peer.wire.hello(peer.now), "once");
    assert!(!Peer::new().wire.hello(NOW));
}

/// H15: pings.
#[test]
fn pings_are_sent_and_missed() {
    let mut peer = Peer::open();
    for round in 1..4 {
        assert_eq!(due(&peer), (round * PING_MS, Late::Ping));
        assert!(peer.wait().is_empty());
        assert_eq!(peer.take(), b"\x89\x00");
        peer.now = peer.now.plus(10);
        assert!(peer.feed(&frame(0x8a, [0; 4], b"")).is_empty());
    }
    // Anything that comes is a sign of life, also a part of a message.
    assert!(peer.wait().is_empty());
    peer.take();
    assert_eq!(due(&peer), (4 * PING_MS + PONG_MS, Late::Pong));
    peer.feed(&frame(0x81, [0; 4], b"half")[..7]);
    assert_eq!(due(&peer), (5 * PING_MS, Late::Ping));
    assert!(peer.wait().is_empty());
    // The time begins when the ping was written.
    assert_eq!(due(&peer), (5 * PING_MS + STALL_MS, Late::Stall));
    peer.now = peer.now.plus(5_000);
    peer.take();
    assert_eq!(due(&peer), (5 * PING_MS + 5_000 + PONG_MS, Late::Pong));
    assert_eq!(peer.wait(), late(Late::Pong));
    assert!(peer.wire.done() && peer.wire.buffered() == 0);
}

/// H15: what we do not read is nobody's silence.
#[test]
fn a_pong_that_is_not_read_is_not_missed() {
    let mut peer = Peer::open();
    peer.wait();
    peer.take();
    assert_eq!(due(&peer).1, Late::Pong);
    let long = vec![b'x'; PAUSE_BYTES + 10];
    assert!(peer.wire.text(peer.now, &[long.into()], b""));
    assert!(!peer.wire.wants_bytes());
    assert_eq!(due(&peer), (PING_MS + STALL_MS, Late::Stall));
    peer.now = peer.now.plus(20_000);
    peer.wire.written(peer.now, 20);
    assert!(peer.wire.wants_bytes());
    assert_eq!(due(&peer), (PING_MS + 20_000 + PONG_MS, Late::Pong));
}

/// H12: a close has a moment, whatever waits.
#[test]
fn a_close_has_its_grace() {
    let mut peer = Peer::open();
    assert!(peer.wire.text(NOW, &[vec![b'x'; 1_000].into()], b""));
    assert!(peer.wire.close(NOW, 1008, "slow consumer"));
    assert_eq!(due(&peer), (GRACE_MS, Late::Grace));
    assert!(peer.wait().is_empty());
    assert!(peer.wire.done());
    let mut peer = Peer::open();
    peer.feed(&frame(0x83, [0; 4], b""));
    assert_eq!(due(&peer), (GRACE_MS, Late::Grace));
    assert!(peer.wait().is_empty() && peer.wire.done());
}
