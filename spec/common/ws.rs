//! A client of the gateway's socket that knows no more of WebSockets than tests need: text frames
//! out, text and close frames in.

#![allow(dead_code)] // Each target uses its own part of this.

use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A connection.
pub struct Ws {
    stream: TcpStream,
    bytes: Vec<u8>,
    seen: Vec<Value>,
    next: u32,
    /// The code and words with which it was closed.
    pub closed: Option<(u16, String)>,
    /// How many events came, and how many bytes.
    pub events: u64,
    pub received: u64,
}

impl Ws {
    /// An upgraded connection that has not said hello.
    pub fn open(port: u16, headers: &str) -> Ws {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let head = format!(
            "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        let (mut bytes, mut byte) = (Vec::new(), [0u8; 1]);
        while !bytes.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).expect("an answer");
            bytes.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&bytes).into_owned();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "the key of RFC 6455: {head}");
        Ws { stream, bytes: vec![], seen: vec![], next: 0, closed: None, events: 0, received: 0 }
    }

    /// A connection that has said hello, as a program on this machine.
    pub fn connect(port: u16, token: &str) -> Ws {
        let mut ws = Ws::open(port, "");
        let hello = ws.hello(token, json!({}));
        assert_eq!(hello["ok"], true, "{hello}");
        ws
    }

    /// Says who it is; gives the answer.
    pub fn hello(&mut self, token: &str, more: Value) -> Value {
        let challenge = self.until(|frame| frame["event"] == "connect.challenge");
        assert!(challenge["payload"]["nonce"].is_string(), "{challenge}");
        let mut params = json!({
            "minProtocol": 4, "maxProtocol": 4, "role": "operator",
            "client": {"id": "gateway-client", "version": "1", "platform": "linux",
                "mode": "backend"},
            "scopes": ["operator.admin"], "caps": ["tool-events"], "auth": {"token": token},
        });
        for (name, value) in more.as_object().expect("an object") {
            params[name] = value.clone();
        }
        let id = self.send("connect", params);
        self.answer(&id)
    }

    /// Sends a request; gives its id.
    pub fn send(&mut self, method: &str, params: Value) -> String {
        self.next += 1;
        let id = self.next.to_string();
        let frame = json!({"type": "req", "id": id, "method": method, "params": params});
        self.text(&frame.to_string());
        id
    }

    /// Sends a text.
    pub fn text(&mut self, text: &str) {
        let (bytes, mask) = (text.as_bytes(), [1u8, 2, 3, 4]);
        let mut frame = vec![0x81];
        match bytes.len() {
            n @ 0..=125 => frame.push(0x80 | u8::try_from(n).expect("it fits")),
            n @ 126..=65_535 => {
                frame.push(0xfe);
                frame.extend(u16::try_from(n).expect("it fits").to_be_bytes());
            }
            n => {
                frame.push(0xff);
                frame.extend(u64::try_from(n).expect("it fits").to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(bytes.iter().enumerate().map(|(n, byte)| byte ^ mask[n % 4]));
        // Whoever was closed meanwhile is told so by what comes next.
        let _ = self.stream.write_all(&frame);
    }

    /// Sends a request and waits for its answer.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(&id)
    }

    pub fn answer(&mut self, id: &str) -> Value {
        self.until(|frame| frame["type"] == "res" && frame["id"] == id)
    }

    pub fn event(&mut self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.until(|frame| frame["event"] == name && fits(&frame["payload"]))
    }

    /// The next frame that fits; those before it are kept.
    pub fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.seen.iter().position(&fits) {
            return self.seen.remove(at);
        }
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let Some(frame) = self.next(end) else {
                panic!("no such frame; closed: {:?}; seen: {:#?}", self.closed, self.seen);
            };
            if fits(&frame) {
                return frame;
            }
            self.seen.push(frame);
        }
    }

    /// What was kept is not looked at any more.
    pub fn forget(&mut self) {
        self.seen.clear();
    }

    /// The next text frame; nothing when the connection has ended, or at that time.
    pub fn next(&mut self, end: Instant) -> Option<Value> {
        loop {
            if let Some((opcode, payload)) = self.frame() {
                match opcode {
                    1 => {
                        let frame: Value = serde_json::from_slice(&payload).expect("JSON");
                        self.events += u64::from(frame["type"] == "event");
                        return Some(frame);
                    }
                    8 => {
                        let code =
                            payload.get(..2).map_or(1005, |c| u16::from_be_bytes([c[0], c[1]]));
                        let words = String::from_utf8_lossy(payload.get(2..).unwrap_or_default());
                        self.closed = Some((code, words.into_owned()));
                        return None;
                    }
                    // A ping is answered, as every client does.
                    9 => {
                        let _ = self.stream.write_all(&[0x8a, 0x80, 0, 0, 0, 0]);
                    }
                    _ => {}
                }
                continue;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.stream.set_read_timeout(Some(left)).expect("a socket");
            let mut buffer = [0u8; 64 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.closed.get_or_insert((1006, String::new()));
                    return None;
                }
                Ok(n) => {
                    self.received += n as u64;
                    self.bytes.extend_from_slice(&buffer[..n]);
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return None;
                }
                Err(_) => {
                    self.closed.get_or_insert((1006, String::new()));
                    return None;
                }
            }
        }
    }

    /// Waits until it is closed; gives the code and the words.
    pub fn end(&mut self) -> (u16, String) {
        let end = Instant::now() + Duration::from_secs(20);
        while self.next(end).is_some() {}
        self.closed.clone().expect("it was closed")
    }

    fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let (first, second) = (*self.bytes.first()?, *self.bytes.get(1)?);
        assert_eq!(second & 0x80, 0, "a server does not mask");
        let (length, at) = match second {
            126 => {
                let l = self.bytes.get(2..4)?;
                (usize::from(u16::from_be_bytes([l[0], l[1]])), 4)
            }
            127 => {
                let l: [u8; 8] = self.bytes.get(2..10)?.try_into().expect("eight bytes");
                (usize::try_from(u64::from_be_bytes(l)).expect("it fits"), 10)
            }
            n => (usize::from(n), 2),
        };
        let payload = self.bytes.get(at..at + length)?.to_vec();
        self.bytes.drain(..at + length);
        Some((first & 15, payload))
    }
}
