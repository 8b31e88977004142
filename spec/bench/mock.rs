//! A model server that answers at once and keeps the time between its last byte and the next
//! request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

#[derive(Default)]
struct Seen {
    last_byte: Option<Instant>,
    gaps_ms: Vec<f64>,
}

pub struct Server {
    port: u16,
    seen: Arc<Mutex<Seen>>,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&shared);
                std::thread::spawn(move || serve(&stream, &seen));
            }
        });
        Server { port, seen }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    pub fn forget(&self) {
        *self.seen.lock().expect("a lock") = Seen::default();
    }

    pub fn gaps_ms(&self) -> Vec<f64> {
        self.seen.lock().expect("a lock").gaps_ms.clone()
    }
}

fn serve(stream: &TcpStream, seen: &Mutex<Seen>) {
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    while let Some(body) = request(&mut reader, seen) {
        let after_tool = body.contains("\"role\":\"tool\"")
            && body.rfind("\"role\":\"tool\"") > body.rfind("\"role\":\"user\"");
        let call = !after_tool && body.contains("TOOL");
        let answer = if call { CALL } else { TEXT };
        let mut writer = stream;
        if writer.write_all(&http(answer)).is_err() {
            return;
        }
        seen.lock().expect("a lock").last_byte = call.then(Instant::now);
    }
}

/// A chunked answer, one chunk an event.
fn http(events: &[&str]) -> Vec<u8> {
    let mut out = String::from("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n");
    out.push_str("transfer-encoding: chunked\r\n\r\n");
    for event in events {
        out.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
    }
    out.push_str("0\r\n\r\n");
    out.into_bytes()
}

/// Reads one request; the gap ends when its head has arrived.
fn request(reader: &mut BufReader<&TcpStream>, seen: &Mutex<Seen>) -> Option<String> {
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut seen = seen.lock().expect("a lock");
    if let Some(at) = seen.last_byte.take() {
        seen.gaps_ms.push(at.elapsed().as_secs_f64() * 1_000.0);
    }
    drop(seen);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    // Only the last messages matter here.
    String::from_utf8(body).ok()
}

const TEXT: &[&str] = &[
    concat!(
        "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",",
        "\"content\":\"hello\"},\"finish_reason\":null}]}\n\n",
    ),
    concat!(
        "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"s",
        "top\"}]}\n\n",
    ),
    "data: [DONE]\n\n",
];

const CALL: &[&str] = &[
    concat!(
        "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"inde",
        "x\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"ls\",\"argume",
        "nts\":\"{}\"}}]},\"finish_reason\":null}]}\n\n",
    ),
    concat!(
        "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"t",
        "ool_calls\"}]}\n\n",
    ),
    "data: [DONE]\n\n",
];
