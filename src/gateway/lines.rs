//! The sockets: from bytes to requests, and back (protocol 1.4, 2.2, 3.1).

use super::auth::{Challenge, Peer, is_forwarding};
use super::frame::{Fault, Request};
use super::hub::{Gateway, Sight};
use super::out::{Conn, Frame, answer, event_head};
use super::wire::{Event, Limits, Request as Asked, Response, Wire};
use crate::base::Millis;
use core::net::IpAddr;
use serde_json::json;
use std::sync::Arc;

/// Bytes that may wait for a client that does not read (protocol 1.6).
pub const BUFFERED_BYTES_MAX: usize = 52_428_800;
/// Sockets of one address that have not said hello.
const UNKNOWN_MAX: usize = 32;
/// Connections of all kinds.
const CONNECTIONS_MAX: usize = 1_024;

/// A socket.
#[derive(Debug)]
pub(super) struct Line {
    pub wire: Wire,
    pub address: IpAddr,
    pub stage: Stage,
}

/// How far a socket has come.
#[derive(Debug)]
pub(super) enum Stage {
    /// It asks for pages.
    Http,
    /// It was challenged, and must connect.
    Challenged { peer: Box<Peer>, challenge: Challenge },
    /// Its `connect` is being answered.
    Connecting,
    /// It has said hello.
    Open,
    /// It was closed, or has gone.
    Over,
}

impl Gateway {
    /// A socket was opened from this address; `false` if there are too many.
    pub fn open(&mut self, conn: Conn, address: IpAddr, now: Millis) -> bool {
        if self.lines.len() >= CONNECTIONS_MAX {
            return false;
        }
        let wire = Wire::new(now, Limits::default());
        self.lines.insert(conn, Line { wire, address, stage: Stage::Http });
        true
    }

    /// Bytes came from a socket.
    pub fn bytes(&mut self, conn: Conn, bytes: &[u8], sight: Sight<'_>) {
        if let Some(line) = self.lines.get_mut(&conn) {
            line.wire.feed(bytes);
        }
        self.polled(conn, sight);
    }

    /// The other side of a socket says nothing more.
    pub fn end_of_input(&mut self, conn: Conn, sight: Sight<'_>) {
        if let Some(line) = self.lines.get_mut(&conn) {
            line.wire.end_of_input();
        }
        self.polled(conn, sight);
    }

    /// What is to be written to a socket.
    #[must_use]
    pub fn wire(&self, conn: Conn) -> Option<&Wire> {
        self.lines.get(&conn).map(|line| &line.wire)
    }

    /// So many bytes were written.
    pub fn written(&mut self, conn: Conn, n: usize, sight: Sight<'_>) {
        if let Some(line) = self.lines.get_mut(&conn) {
            line.wire.written(sight.now, n);
        }
        self.polled(conn, sight);
    }

    /// The sockets that have something to write, or are over, since the last time.
    pub fn touched(&mut self) -> Vec<Conn> {
        std::mem::take(&mut self.dirty).into_iter().collect()
    }

    /// How many sockets there are.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.lines.len()
    }

    /// A socket is gone.
    pub fn lost(&mut self, conn: Conn) {
        self.lines.remove(&conn);
        self.late.retain(|(_, of)| *of != conn);
        self.refusals.remove(&conn);
        self.http_lost(conn);
        self.dirty.remove(&conn);
        self.gone(conn);
    }

    /// Time has passed for the sockets.
    pub fn lines_tick(&mut self, sight: Sight<'_>) {
        let due = |line: &Line| line.wire.due().is_some_and(|(at, _)| at <= sight.now);
        let due: Vec<Conn> =
            self.lines.iter().filter(|(_, line)| due(line)).map(|(conn, _)| *conn).collect();
        for conn in due {
            self.polled(conn, sight);
        }
        self.late_answers(sight);
    }

    /// When a socket has to be looked at.
    pub(super) fn lines_due(&self) -> Option<Millis> {
        let wires = self.lines.values().filter_map(|line| line.wire.due().map(|(at, _)| at));
        let late = self.late.first().map(|(at, _)| *at);
        wires.chain(late).min()
    }

    fn polled(&mut self, conn: Conn, sight: Sight<'_>) {
        self.dirty.insert(conn);
        self.see(sight);
        loop {
            let Some(line) = self.lines.get_mut(&conn) else { return };
            let Some(event) = line.wire.poll(sight.now) else { return };
            match event {
                Event::Head(request) => {
                    let most = self.headed(conn, &request);
                    if let Some(line) = self.lines.get_mut(&conn) {
                        line.wire.body_max(most);
                    }
                }
                Event::Request(request) => self.asked_for(conn, &request, sight),
                Event::Upgrade(request) => self.upgrade(conn, &request),
                Event::Text(text) => self.said(conn, &text, sight),
                Event::Ended => self.http_ended(conn),
                Event::Closed { .. } | Event::Broken(_) => {
                    if let Some(line) = self.lines.get_mut(&conn) {
                        line.stage = Stage::Over;
                    }
                    self.http_lost(conn);
                    self.gone(conn);
                }
            }
        }
    }

    fn upgrade(&mut self, conn: Conn, request: &Asked) {
        let (now, boot) = (self.now, crate::base::id::uuid_v7(self.now, self.random_id()));
        let Some(line) = self.lines.get(&conn) else { return };
        let address = line.address;
        let unknown = |line: &&Line| {
            let early = matches!(line.stage, Stage::Challenged { .. } | Stage::Connecting);
            early && line.address == address
        };
        let crowd = self.lines.values().filter(unknown).count() >= UNKNOWN_MAX;
        let closed = self.draining || self.gate.is_none();
        let Some(line) = self.lines.get_mut(&conn) else { return };
        if crowd || closed {
            let words = if crowd { "too many connections" } else { "the gateway is about to stop" };
            let response = Response::new(503)
                .header("Retry-After", "1")
                .header("Content-Type", "text/plain; charset=utf-8")
                .body(format!("{words}\n").into_bytes());
            line.wire.respond(now, &response);
            return;
        }
        line.wire.accept(now);
        let peer = peer(address, request);
        line.stage =
            Stage::Challenged { peer: Box::new(peer), challenge: Challenge::new(boot.clone()) };
        let payload = json!({"nonce": boot, "ts": now});
        let head = event_head("connect.challenge", &payload, None);
        line.wire.text(now, &[head], b"}");
    }

    fn said(&mut self, conn: Conn, text: &str, sight: Sight<'_>) {
        let Some(line) = self.lines.get_mut(&conn) else { return };
        match &line.stage {
            Stage::Open => self.text(conn, text, sight),
            Stage::Challenged { .. } => self.first(conn, text),
            // What comes before hello is answered has nobody to ask for it.
            Stage::Connecting => self.shut(conn, 1008, "too many frames before hello"),
            Stage::Http | Stage::Over => {}
        }
    }

    /// The first frame, which must be `connect`.
    fn first(&mut self, conn: Conn, text: &str) {
        let request = match Request::read(text) {
            Ok(request) if request.method == "connect" => request,
            Ok(request) => {
                let words = "invalid handshake: first request must be connect";
                let frame = answer(&request.id, Err(Fault::invalid(words)));
                self.give(conn, &Frame::whole(&frame));
                return self.shut(conn, 1008, words);
            }
            Err(super::frame::FrameError::NoJson(_)) => return self.shut(conn, 1000, ""),
            Err(error) => {
                let words = "invalid handshake: first request must be connect";
                let frame = answer(error.id(), Err(Fault::invalid(words)));
                self.give(conn, &Frame::whole(&frame));
                return self.shut(conn, 1008, words);
            }
        };
        let problems = self.schemas.problems("connect", &request.params);
        if !problems.is_empty() {
            let words = format!("invalid connect params: {}", problems.join("; "));
            let frame = answer(&request.id, Err(Fault::invalid(words.clone())));
            self.give(conn, &Frame::whole(&frame));
            return self.shut(conn, 1008, &words);
        }
        let Some(line) = self.lines.get_mut(&conn) else { return };
        let Stage::Challenged { peer, challenge } =
            std::mem::replace(&mut line.stage, Stage::Connecting)
        else {
            return;
        };
        self.connect(conn, &request, &peer, challenge);
    }

    /// A frame goes to a socket.
    pub(super) fn give(&mut self, conn: Conn, frame: &Frame) {
        let now = self.now;
        if let Some(line) = self.lines.get_mut(&conn) {
            line.wire.text(now, &[Arc::clone(&frame.head)], &frame.tail);
            self.dirty.insert(conn);
        }
    }

    /// A socket is closed, after what it was sent.
    pub(super) fn shut(&mut self, conn: Conn, code: u16, reason: &str) {
        let now = self.now;
        if let Some(line) = self.lines.get_mut(&conn) {
            line.wire.close(now, code, reason);
            line.stage = Stage::Over;
            self.dirty.insert(conn);
        }
        self.gone(conn);
    }

    /// A frame for somebody who is connected, by whatever way that is. A slow client misses what
    /// may be missed, and is closed for what may not.
    pub(super) fn deliver(&mut self, conn: Conn, frame: Frame, droppable: bool) {
        let Some(line) = self.lines.get(&conn) else {
            // Whoever has gone meanwhile is told nothing.
            if self.clients.contains_key(&conn) {
                self.out.push(super::out::Do::Send { conn, frame });
            }
            return;
        };
        if line.wire.buffered() <= BUFFERED_BYTES_MAX {
            self.give(conn, &frame);
        } else if !droppable {
            self.shut(conn, 1008, "slow consumer");
        }
    }
}

/// What is known of whoever sent a request.
pub(super) fn peer(address: IpAddr, request: &Asked) -> Peer {
    let header = |name: &str| request.headers.get(name).map(str::to_owned);
    Peer {
        address,
        forwarded: request.headers.names().any(is_forwarding),
        origin: header("origin"),
        host: header("host"),
    }
}
