//! The same frames read by `tungstenite`, and ours read by its client.

use super::super::Violation;
use super::*;
use crate::base::Rng;
use std::io::{self, Read, Write};
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode};
use tungstenite::{Error, Message, WebSocket};

/// A socket in memory.
#[derive(Default)]
struct Memory {
    come: Vec<u8>,
    gone: Vec<u8>,
}

impl Read for Memory {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.come.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = into.len().min(self.come.len());
        into[..n].copy_from_slice(&self.come[..n]);
        self.come.drain(..n);
        Ok(n)
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gone.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn socket(role: Role) -> WebSocket<Memory> {
    let config = WebSocketConfig::default().read_buffer_size(4_096).write_buffer_size(0);
    let config = config.max_message_size(Some(26_214_400)).max_frame_size(Some(26_214_400));
    WebSocket::from_raw_socket(Memory::default(), role, Some(config))
}

/// Frames as clients send them, most of them well.
pub fn frames(rng: &mut Rng) -> Vec<u8> {
    let texts: [&[u8]; 7] =
        [b"", b"a", "\u{6f22}\u{1f600}".as_bytes(), &[b'l'; 300], b"\xe6\xbc", b"\xa2", b"\xff"];
    let mut bytes = Vec::new();
    let mut open = false;
    for _ in 0..rng.below(8) {
        let mask = (rng.next() as u32).to_le_bytes();
        let payload = texts[rng.below(40).min(6) as usize % texts.len()];
        let payload = if rng.below(2) == 0 { texts[rng.below(4) as usize] } else { payload };
        let last = rng.below(2) == 0;
        let first = match rng.below(12) {
            0 => 0x89,
            1 => 0x8a,
            2 if rng.below(3) == 0 => 0x88,
            3 => rng.next() as u8,
            _ => {
                let opcode = if open { 0 } else { 1 + rng.below(2) as u8 };
                open = !last;
                opcode | if last { 0x80 } else { 0 }
            }
        };
        let control = first & 0x0f >= 8;
        let payload = if control { &payload[..payload.len().min(125)] } else { payload };
        let close = [&[0x03, 0xe8][..], payload].concat();
        let closing = first == 0x88 && rng.below(3) > 0 && close.len() <= 125;
        bytes.extend(frame(first, mask, if closing { &close } else { payload }));
    }
    bytes
}

/// What a reader makes of bytes: its texts, and how it ended.
type Seen = (Vec<String>, Option<u16>);

fn theirs(bytes: &[u8]) -> Seen {
    let mut socket = socket(Role::Server);
    socket.get_mut().come = bytes.to_vec();
    let mut texts = Vec::new();
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => texts.push(text.as_str().to_owned()),
            Ok(Message::Binary(bytes)) => match String::from_utf8(bytes.to_vec()) {
                Ok(text) => texts.push(text),
                Err(_) => return (texts, Some(1003)),
            },
            Ok(Message::Close(_)) => return (texts, Some(0)),
            Ok(_) => {}
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                return (texts, None);
            }
            Err(Error::Utf8(_)) => return (texts, Some(1007)),
            Err(Error::Capacity(_)) => return (texts, Some(1009)),
            Err(_) => return (texts, Some(1002)),
        }
    }
}

fn ours(bytes: &[u8]) -> Seen {
    let mut peer = Peer::open();
    let mut texts = Vec::new();
    for event in peer.feed(bytes) {
        match event {
            Event::Text(text) => texts.push(text),
            Event::Closed { .. } => return (texts, Some(0)),
            Event::Broken(Fault::Frame(wrong)) => return (texts, Some(wrong.code())),
            other => panic!("{other:?}"),
        }
    }
    (texts, None)
}

/// H10, H11, H12: the same frames, the same messages and ends. We are earlier at what is wrong (a
/// head before its payload), and stricter at lengths in more bytes than needed.
#[test]
fn another_reader_sees_the_same() {
    let mut rng = Rng(23);
    let mut ends = std::collections::BTreeMap::new();
    for round in 0..6_000 {
        let mut bytes = frames(&mut rng);
        if !bytes.is_empty() && round % 3 == 0 {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        if round % 50 == 0 {
            bytes.extend([0x81, 0xff, 0, 0, 0, 0, 0xff, 0, 0, 0, 1, 2, 3, 4]);
        }
        let (mine, other) = (ours(&bytes), theirs(&bytes));
        *ends.entry(mine.1).or_insert(0) += 1;
        if mine == other {
            continue;
        }
        let (texts, end) = &mine;
        assert_eq!(*texts, other.0, "{bytes:02x?}");
        // Theirs waits for the rest of a frame that is wrong already, or of a text.
        let early = other.1.is_none() && matches!(end, Some(1002 | 1007));
        let strict = matches!(end, Some(1002)) && is_wasteful(&bytes);
        // A close that may not be sent is closed with 1002 by theirs as well, as an answer.
        let code = *end == Some(1002) && other.1 == Some(0);
        let text = *end == Some(1007) && other.1 == Some(0);
        // Of two faults we name the one that is seen first.
        let faults = [Some(1002), Some(1007), Some(1009)];
        let first = faults.contains(end) && faults.contains(&other.1);
        assert!(early || strict || code || text || first, "{mine:?} {other:?} {bytes:02x?}");
    }
    let met: Vec<_> = ends.keys().copied().collect();
    assert_eq!(met, [None, Some(0), Some(1002), Some(1003), Some(1007), Some(1009)], "{ends:?}");
}

/// Some frame's length has more bytes than it needs.
fn is_wasteful(bytes: &[u8]) -> bool {
    let mut peer = Peer::open();
    let wasteful = Violation::Protocol("a length has more bytes than it needs");
    peer.feed(bytes).contains(&Event::Broken(Fault::Frame(wasteful)))
}

/// H10 to H13: a conversation with a client that masks and frames by itself.
#[test]
fn a_client_of_another_hand_converses() {
    let mut client = socket(Role::Client);
    let mut peer = Peer::open();
    let mut rng = Rng(3);
    let mut sent = 0;
    for round in 0..400 {
        let words = "\u{6f22}x".repeat(rng.below(400) as usize);
        match rng.below(4) {
            0 => client
                .write(Message::Ping(words.as_bytes()[..words.len().min(125)].to_vec().into())),
            1 => client.write(Message::Binary(words.clone().into_bytes().into())),
            _ => client.write(Message::text(words.clone())),
        }
        .unwrap();
        client.flush().unwrap();
        let bytes = std::mem::take(&mut client.get_mut().gone);
        for piece in bytes.chunks(1 + rng.below(500) as usize) {
            for event in peer.feed(piece) {
                let Event::Text(text) = event else { panic!("{event:?}") };
                assert_eq!(text, words);
                sent += 1;
                let shared = [text.into_bytes().into(), (*b"+").into()];
                assert!(peer.wire.text(peer.now, &shared, round.to_string().as_bytes()));
            }
        }
        client.get_mut().come = peer.take();
        match client.read() {
            Ok(Message::Text(text)) => assert_eq!(text.as_str(), format!("{words}+{round}")),
            Ok(Message::Pong(payload)) => assert!(words.as_bytes().starts_with(&payload)),
            other => panic!("{other:?}"),
        }
    }
    assert!(sent > 200);
    assert!(peer.wait().is_empty());
    client.get_mut().come = peer.take();
    assert!(matches!(client.read(), Ok(Message::Ping(_))));
    assert!(peer.wire.close(peer.now, 1012, "service restart"));
    client.get_mut().come = peer.take();
    let Ok(Message::Close(Some(CloseFrame { code, reason }))) = client.read() else { panic!() };
    assert_eq!((code, reason.as_str()), (CloseCode::Restart, "service restart"));
    let _ = client.flush();
    assert!(peer.feed(&std::mem::take(&mut client.get_mut().gone)).is_empty());
    assert!(peer.wire.done());
}
