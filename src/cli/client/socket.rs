//! A WebSocket as a client sees it, with time limits on everything: text frames out, text frames
//! in, pings answered.

use crate::base::b64;
use crate::reactor::entropy;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long connecting and the upgrade may take.
const OPEN: Duration = Duration::from_secs(5);
/// Longest head of an answer, bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Longest message, bytes.
const MESSAGE_BYTES_MAX: usize = 26 * 1024 * 1024;
/// What is put behind the key before it is hashed (RFC 6455, 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Why there is no more to hear.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocketError {
    /// Nobody listens there, or the connection broke.
    #[error("{0}")]
    Broken(#[from] std::io::Error),
    /// What answers is no gateway.
    #[error("what answers there is no gateway: {0}")]
    NoGateway(String),
    /// It was closed.
    #[error("the gateway has closed the connection ({code}{words})")]
    Closed {
        /// With this code.
        code: u16,
        /// And these words, after a separator.
        words: String,
    },
    /// Nothing came in time.
    #[error("the gateway did not answer in time")]
    Late,
}

/// A connection.
pub(super) struct Socket {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// The beginning of a message that comes in pieces.
    begun: Vec<u8>,
}

impl Socket {
    /// Connects and upgrades.
    pub fn open(at: SocketAddr) -> Result<Socket, SocketError> {
        let mut stream = TcpStream::connect_timeout(&at, OPEN)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(OPEN))?;
        stream.set_write_timeout(Some(OPEN))?;
        let key = b64::encode(&entropy::<16>());
        let head = format!(
            "GET / HTTP/1.1\r\nHost: {at}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        let mut bytes = Vec::new();
        let end = loop {
            let mut some = [0u8; 1024];
            let n = stream.read(&mut some)?;
            bytes.extend_from_slice(&some[..n]);
            if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            if n == 0 || bytes.len() > HEAD_BYTES_MAX {
                return Err(SocketError::NoGateway("it does not speak HTTP".to_owned()));
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let first = head.lines().next().unwrap_or_default().to_owned();
        let hash = ring::digest::digest(
            &ring::digest::SHA1_FOR_LEGACY_USE_ONLY,
            format!("{key}{GUID}").as_bytes(),
        );
        let accepted = b64::encode(hash.as_ref());
        let fits = head.lines().any(|line| {
            line.split_once(':').is_some_and(|(name, value)| {
                name.eq_ignore_ascii_case("sec-websocket-accept") && value.trim() == accepted
            })
        });
        if !first.starts_with("HTTP/1.1 101 ") || !fits {
            return Err(SocketError::NoGateway(first));
        }
        Ok(Socket { stream, bytes: bytes.split_off(end), begun: vec![] })
    }

    /// Sends a text.
    pub fn send(&mut self, text: &str) -> Result<(), SocketError> {
        self.frame(1, text.as_bytes())
    }

    fn frame(&mut self, opcode: u8, payload: &[u8]) -> Result<(), SocketError> {
        let mask: [u8; 4] = entropy();
        let mut frame = vec![0x80 | opcode];
        match payload.len() {
            n @ 0..=125 => frame.push(0x80 | u8::try_from(n).unwrap_or(0)),
            n @ 126..=65_535 => {
                frame.push(0xfe);
                frame.extend(u16::try_from(n).unwrap_or(0).to_be_bytes());
            }
            n => {
                frame.push(0xff);
                frame.extend(u64::try_from(n).unwrap_or(0).to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.stream.write_all(&frame)?;
        Ok(())
    }

    /// The next text, until then.
    pub fn next(&mut self, until: Instant) -> Result<String, SocketError> {
        loop {
            while let Some((last, opcode, payload)) = self.take()? {
                match opcode {
                    0..=2 => {
                        self.begun.extend_from_slice(&payload);
                        if self.begun.len() > MESSAGE_BYTES_MAX {
                            return Err(too_long());
                        }
                        if last {
                            let text = std::mem::take(&mut self.begun);
                            return Ok(String::from_utf8_lossy(&text).into_owned());
                        }
                    }
                    8 => {
                        let code =
                            payload.first_chunk::<2>().map_or(1005, |c| u16::from_be_bytes(*c));
                        let words = payload.get(2..).unwrap_or_default();
                        let words = String::from_utf8_lossy(words).into_owned();
                        let words = if words.is_empty() { words } else { format!(": {words}") };
                        return Err(SocketError::Closed { code, words });
                    }
                    9 => self.frame(10, &payload)?,
                    _ => {}
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(SocketError::Late);
            }
            self.stream.set_read_timeout(Some(left))?;
            let mut some = [0u8; 16 * 1024];
            match self.stream.read(&mut some) {
                Ok(0) => {
                    return Err(SocketError::Closed { code: 1006, words: String::new() });
                }
                Ok(n) => self.bytes.extend_from_slice(&some[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(SocketError::Late);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// A whole frame, if one is there: whether its message ends with it, its kind, its payload.
    fn take(&mut self) -> Result<Option<(bool, u8, Vec<u8>)>, SocketError> {
        let [first, second, ..] = self.bytes[..] else { return Ok(None) };
        let wide = |from: usize, to: usize| {
            let bytes = self.bytes.get(from..to)?;
            Some(bytes.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte)))
        };
        let (length, at) = match second & 0x7f {
            126 => (wide(2, 4), 4),
            127 => (wide(2, 10), 10),
            n => (Some(u64::from(n)), 2),
        };
        let Some(length) = length else { return Ok(None) };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if second & 0x80 != 0 || length > MESSAGE_BYTES_MAX {
            return Err(too_long());
        }
        let Some(payload) = self.bytes.get(at..at + length) else { return Ok(None) };
        let payload = payload.to_vec();
        self.bytes.drain(..at + length);
        Ok(Some((first & 0x80 != 0, first & 0x0f, payload)))
    }
}

fn too_long() -> SocketError {
    SocketError::NoGateway("it sends frames that are none of a gateway's".to_owned())
}
