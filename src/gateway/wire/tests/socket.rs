//! Frames.

use super::super::Violation;
use super::super::limits::{MESSAGE_BYTES_EARLY, MESSAGE_BYTES_MAX, PAUSE_BYTES, REASON_BYTES_MAX};
use super::*;
use crate::base::Rng;
use std::sync::Arc;

const MASK: [u8; 4] = [0x11, 0xa2, 0xff, 0x04];

fn text(payload: &[u8]) -> Vec<u8> {
    frame(0x81, MASK, payload)
}

fn close(payload: &[u8]) -> Vec<u8> {
    frame(0x88, MASK, payload)
}

fn said<'a>(events: &'a [Event]) -> Vec<&'a str> {
    let text = |event: &'a Event| match event {
        Event::Text(text) => Some(text.as_str()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

/// What the frames are refused with; the close is as it says.
fn violated(bytes: &[u8]) -> Violation {
    let mut peer = Peer::open();
    let events = peer.feed(bytes);
    let Some(Event::Broken(Fault::Frame(wrong))) = events.last() else {
        panic!("{bytes:02x?}: {events:?}")
    };
    let out = peer.take();
    let words = wrong.to_string();
    let mut want = vec![0x88, 2 + words.len() as u8];
    want.extend(wrong.code().to_be_bytes());
    want.extend(words.as_bytes());
    assert!(out.ends_with(&want), "{out:02x?}");
    assert!(peer.feed(&text(b"more")).is_empty());
    assert!(peer.wire.said_all());
    *wrong
}

fn protocol(bytes: &[u8]) {
    assert!(matches!(violated(bytes), Violation::Protocol(_)), "{bytes:02x?}");
}

/// H10, H13: messages of every size of length, and ours beside them.
#[test]
fn messages_come_and_go() {
    for n in [0, 1, 125, 126, 127, 65_535, 65_536, 100_000] {
        let mut peer = Peer::open();
        let words = "x".repeat(n);
        assert_eq!(said(&peer.feed(&text(words.as_bytes()))), [&*words]);
        let shared: Arc<[u8]> = words.as_bytes().into();
        assert!(peer.wire.text(NOW, &[Arc::clone(&shared)], b",\"seq\":7}"));
        let length = n + 9;
        let want = match length {
            0..=125 => vec![0x81, length as u8],
            126..=0xffff => [&[0x81, 126][..], &(length as u16).to_be_bytes()].concat(),
            _ => [&[0x81, 127][..], &(length as u64).to_be_bytes()].concat(),
        };
        let out = peer.take();
        assert_eq!(out[..want.len()], want);
        assert_eq!(out[want.len()..], [words.as_bytes(), b",\"seq\":7}"].concat());
    }
}

/// H13, B188: an event for many is one piece of memory.
#[test]
fn b188_an_event_is_shared() {
    let event: Arc<[u8]> = vec![b'e'; 50_000].into();
    let mut peers: Vec<Peer> = (0..20).map(|_| Peer::open()).collect();
    for (i, peer) in peers.iter_mut().enumerate() {
        assert!(peer.wire.text(NOW, &[Arc::clone(&event)], format!(",\"seq\":{i}}}").as_bytes()));
        assert!(peer.wire.footprint() < 2_048, "{}", peer.wire.footprint());
    }
    assert_eq!(Arc::strong_count(&event), 21);
    assert_eq!(peers[3].wire.buffered(), 4 + 50_000 + 9);
    assert!(peers[0].take().ends_with(b"ee,\"seq\":0}"));
    assert_eq!(Arc::strong_count(&event), 20);
}

/// H10: what a client may not send.
#[test]
fn frames_against_the_protocol_are_refused() {
    for first in [0xc1, 0xa1, 0x91, 0xf1] {
        protocol(&frame(first, MASK, b"x"));
    }
    for opcode in [3, 4, 5, 6, 7, 0xb, 0xc, 0xd, 0xe, 0xf] {
        protocol(&frame(0x80 | opcode, MASK, b""));
    }
    protocol(&[0x81, 0x01, b'x']);
    protocol(&frame(0x80, MASK, b"x"));
    protocol(&frame(0x00, MASK, b"x"));
    protocol(&[frame(0x01, MASK, b"x"), text(b"y")].concat());
    protocol(&[frame(0x02, MASK, b"x"), frame(0x82, MASK, b"y")].concat());
    protocol(&frame(0x09, MASK, b"x"));
    protocol(&frame(0x08, MASK, b""));
    protocol(&frame(0x89, MASK, &[b'x'; 126]));
    protocol(&[0x81, 0xfe, 0, 125]);
    protocol(&[0x81, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    // Seen at the byte that is wrong, before any payload.
    for head in [&[0xf1][..], &[0x83], &[0x81, 0x7e], &[0x89, 0xfe]] {
        protocol(head);
    }
    assert_eq!(violated(&[0x81, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0]).code(), 1009);
}

/// H10: control frames stand between the parts of a message.
#[test]
fn parts_are_joined_around_control_frames() {
    let mut peer = Peer::open();
    let bytes = [
        frame(0x01, MASK, "a\u{6f22}".as_bytes()[..2].into()),
        frame(0x89, MASK, b"ping"),
        frame(0x00, [0; 4], &"\u{6f22}".as_bytes()[1..]),
        frame(0x8a, MASK, b"unasked"),
        frame(0x00, MASK, b""),
        frame(0x80, MASK, b"z"),
        text(b"next"),
    ];
    assert_eq!(said(&peer.feed(&bytes.concat())), ["a\u{6f22}z", "next"]);
    assert_eq!(peer.take(), b"\x8a\x04ping");
}

/// H11: the limits, over all parts, before the payload comes.
#[test]
fn long_messages_are_refused_at_their_head() {
    let mut peer = Peer::early();
    let longest = vec![b'x'; MESSAGE_BYTES_EARLY];
    assert_eq!(said(&peer.feed(&text(&longest))).len(), 1);
    let head = &text(&[&longest[..], b"x"].concat())[..14];
    let long = |max| [Event::Broken(Fault::Frame(Violation::Long { max }))];
    assert_eq!(peer.feed(head), long(MESSAGE_BYTES_EARLY));
    let mut peer = Peer::early();
    peer.feed(&frame(0x01, MASK, &longest));
    peer.feed(&frame(0x00, MASK, b""));
    assert_eq!(peer.feed(&frame(0x80, MASK, b"x")), long(MESSAGE_BYTES_EARLY));
    let mut peer = Peer::open();
    let head = |n: usize| [&[0x81, 0xff][..], &(n as u64).to_be_bytes(), &MASK].concat();
    assert!(peer.feed(&head(MESSAGE_BYTES_MAX)).is_empty());
    assert!(peer.wire.footprint() < 80_000, "a head reserves little: {}", peer.wire.footprint());
    let mut peer = Peer::open();
    assert_eq!(peer.feed(&head(MESSAGE_BYTES_MAX + 1)), long(MESSAGE_BYTES_MAX));
    assert!(peer.take().starts_with(&[0x88, 40, 0x03, 0xf1]));
}

/// H11: text is text.
#[test]
fn text_is_utf8_at_every_byte() {
    for bytes in [&b"\xff"[..], b"ok\xc3\x28", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf"] {
        assert_eq!(violated(&text(bytes)), Violation::Utf8, "{bytes:02x?}");
        // Seen before the message is whole.
        assert_eq!(violated(&frame(0x01, MASK, bytes)), Violation::Utf8, "{bytes:02x?}");
        assert_eq!(violated(&frame(0x82, MASK, bytes)), Violation::Binary, "{bytes:02x?}");
    }
    let mut cut = text(b"\xff and more");
    cut.truncate(7);
    assert_eq!(violated(&cut), Violation::Utf8);
    assert_eq!(violated(&text(b"half \xe6\xbc")), Violation::Utf8);
    let mut peer = Peer::open();
    assert_eq!(said(&peer.feed(&frame(0x82, MASK, "\u{1f600}".as_bytes()))), ["\u{1f600}"]);
}

/// H12: closes of the client.
#[test]
fn a_close_is_answered() {
    for (payload, code, reason) in [
        (&b""[..], None, ""),
        (b"\x03\xe8", Some(1000), ""),
        (b"\x0f\xa0tick timeout", Some(4000), "tick timeout"),
    ] {
        let mut peer = Peer::open();
        let events = peer.feed(&[close(payload), text(b"after")].concat());
        assert_eq!(events, [Event::Closed { code, reason: reason.to_owned() }]);
        let end = payload.len().min(2);
        assert_eq!(peer.take(), [&[0x88, end as u8], &payload[..end]].concat());
        assert!(peer.wire.done());
        assert!(!peer.wire.text(NOW, &[], b"x") && !peer.wire.close(NOW, 1000, ""));
    }
    for code in [0u16, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65_535] {
        protocol(&close(&code.to_be_bytes()));
    }
    protocol(&close(b"\x03"));
    assert_eq!(violated(&close(b"\x03\xe8\xff")), Violation::Utf8);
}

/// H12: closes of ours.
#[test]
fn our_close_waits_for_the_peers() {
    let mut peer = Peer::open();
    assert!(peer.wire.close(NOW, 1012, "service restart"));
    assert!(!peer.wire.close(NOW, 1000, "") && !peer.wire.text(NOW, &[], b"late"));
    assert_eq!(peer.take(), b"\x88\x11\x03\xf4service restart");
    assert!(peer.feed(&[text(b"thrown away"), frame(0x89, MASK, b"")].concat()).is_empty());
    assert!(!peer.wire.done() && peer.wire.buffered() == 0);
    assert!(peer.feed(&close(b"\x03\xf4")).is_empty());
    assert!(peer.wire.done());
    let reason = "\u{6f22}".repeat(50);
    let mut peer = Peer::open();
    assert!(peer.wire.close(NOW, 1008, &format!("x{reason}")));
    let out = peer.take();
    assert_eq!(out.len(), 2 + 2 + 118);
    assert!(out.len() - 4 <= REASON_BYTES_MAX && str::from_utf8(&out[4..]).is_ok());
}

/// H12, H16: pings do not pile up answers without end.
#[test]
fn a_flood_of_pings_is_not_read() {
    let mut peer = Peer::open();
    let pings = frame(0x89, MASK, &[b'p'; 125]).repeat(500);
    let mut rounds = 0;
    while peer.wire.wants_bytes() {
        rounds += 1;
        assert!(peer.feed(&pings).is_empty());
    }
    assert!(rounds < 80, "{rounds}");
    assert!(peer.wire.buffered() < PAUSE_BYTES + 127 * 500);
    assert!(peer.wire.footprint() < PAUSE_BYTES + PAUSE_BYTES / 2, "{}", peer.wire.footprint());
    peer.take();
    assert!(peer.wire.wants_bytes());
}

/// H17: many idle connections cost little, also after a long message.
#[test]
fn an_idle_connection_is_small() {
    let mut peer = Peer::open();
    assert!(peer.wire.footprint() < 1_024, "{}", peer.wire.footprint());
    let idle = peer.wire.footprint();
    let words = "x".repeat(3_000_000);
    for piece in text(words.as_bytes()).chunks(65_536) {
        for event in peer.feed(piece) {
            let Event::Text(echo) = event else { panic!("{event:?}") };
            assert!(peer.wire.text(peer.now, &[echo.into_bytes().into()], b""));
        }
    }
    assert_eq!(peer.take().len(), 10 + words.len());
    assert_eq!(peer.wire.footprint(), idle);
    let event: Arc<[u8]> = (*b"event").into();
    for _ in 0..1_000 {
        assert!(peer.wire.text(peer.now, &[Arc::clone(&event)], b"."));
    }
    assert_eq!(peer.take().len(), 8_000);
    assert_eq!(peer.wire.footprint(), idle);
    let mut peer = Peer::new();
    peer.feed(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    peer.respond(&Response::new(200).body(vec![b'x'; 100_000]));
    assert!(peer.wire.footprint() < 1_024, "{}", peer.wire.footprint());
}

/// H9, H12: an end without a close.
#[test]
fn an_end_without_a_close_is_told() {
    let mut peer = Peer::open();
    peer.feed(&text(b"whole")[..5]);
    peer.wire.end_of_input();
    assert_eq!(peer.poll(), [Event::Broken(Fault::CutOff)]);
    assert!(peer.wire.done());
    let mut peer = Peer::open();
    peer.wire.close(NOW, 1000, "");
    peer.take();
    peer.wire.end_of_input();
    assert!(peer.poll().is_empty() && peer.wire.done());
}

/// H1: cuts and mutations of frames.
#[test]
fn cuts_and_mutations_of_frames_change_nothing() {
    let mut rng = Rng(5);
    for _ in 0..1_500 {
        let mut data = super::oracle::frames(&mut rng);
        if !data.is_empty() && rng.below(3) == 0 {
            let at = rng.below(data.len() as u64) as usize;
            data[at] = rng.next() as u8;
        }
        super::super::fuzz::fuzz_socket(&data);
    }
}
