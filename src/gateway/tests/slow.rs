//! Y11, Y13: pacing, and clients that do not read.

use super::super::auth::{Auth, Devices, Entropy, Gate, Issuer, Origins, Policy};
use super::super::wire::fuzz::{frame, heading};
use super::super::{Facts, Gateway, PACE_MS, Ways};
use super::sight;
use crate::base::{Millis, RunId};
use crate::config::Secret;
use crate::engine::sessions::{Key, Sessions, Waits};
use crate::engine::turns::Group;
use crate::engine::{Event, Who};
use crate::transcript::Delta;
use serde_json::{Value, json};

const MAX: usize = 52_428_800;

fn plain(text: &str) -> Waits {
    Waits::plain(Group::new("", "", "", ""), text.into())
}

struct Hall {
    gateway: Gateway,
    sessions: Sessions,
    key: Key,
    run: RunId,
    now: u64,
}

impl Hall {
    fn new() -> Hall {
        let facts = Facts { agent: "main".into(), ..Facts::default() };
        let identity = |key: &str, text: &str| format!("{key} {text}").into();
        let mut gateway = Gateway::new(facts, Ways { identity, plain }, Millis(0));
        let secret = Secret::new("secret");
        let auth = Auth::new("token", Some(&secret), None, false).unwrap();
        let entropy = Entropy { token: [9; 32], id: [9; 10] };
        let (issuer, _) = Issuer::current(None, &auth, &entropy);
        let origins = Origins::default();
        let policy = Policy { origins, auto_approve_local: true, loopback_only: true };
        gateway.guard(Gate::new(auth, issuer, policy, Devices::default()), "token", Millis(0));
        let (sessions, run) = (super::sessions(), RunId::new("r"));
        Hall { gateway, sessions, key: "agent:main:main".into(), run, now: 1_000 }
    }

    fn connect(&mut self, conn: u32) {
        assert!(self.gateway.open(conn, "127.0.0.1".parse().unwrap(), Millis(5)));
        let params = json!({
            "minProtocol": 4, "maxProtocol": 4, "scopes": ["operator.admin"],
            "client": {"id": "gateway-client", "version": "1", "platform": "x", "mode": "backend"},
            "auth": {"token": "secret"},
        });
        let hello = json!({"type": "req", "id": "1", "method": "connect", "params": params});
        for bytes in
            [heading().as_bytes().to_vec(), frame(0x81, [1, 2, 3, 4], hello.to_string().as_bytes())]
        {
            self.gateway.bytes(conn, &bytes, sight(&self.sessions));
        }
        self.read(conn);
    }

    /// What waits for a client, all of it.
    fn read(&mut self, conn: u32) -> Vec<u8> {
        let bytes: Vec<u8> = self.gateway.wire(conn).unwrap().out().flatten().copied().collect();
        self.gateway.written(conn, bytes.len(), sight(&self.sessions));
        bytes
    }

    fn waits(&self, conn: u32) -> usize {
        self.gateway.wire(conn).unwrap().buffered()
    }

    fn tell(&mut self, event: &Event) {
        self.gateway.clock(Millis(self.now));
        self.gateway.told(&self.key, &self.run, event, &[], |_| true);
    }

    fn says(&mut self, text: &str) {
        self.tell(&Event::MessageUpdate(Delta::Text(text.into())));
    }
}

/// The numbers of the events among some frames of a server.
fn numbers(bytes: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(bytes);
    let ends = text.match_indices(",\"seq\":").filter_map(|(at, what)| {
        let rest = &text[at + what.len()..];
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        // The number of the connection is the last thing in its frame.
        rest[digits.len()..].starts_with('}').then(|| digits.parse().ok()).flatten()
    });
    ends.collect()
}

/// Y11: the first piece at once, then one in 75 ms, however many come.
#[test]
fn pieces_are_paced() {
    let mut hall = Hall::new();
    hall.connect(1);
    hall.tell(&Event::MessageStart(Who::Reply(None)));
    hall.says("some words that are no token ");
    assert!(hall.waits(1) > 0, "the first one is told at once");
    hall.read(1);
    for _ in 0..1_000 {
        hall.says("word ");
    }
    assert_eq!(hall.waits(1), 0, "the next ones wait");
    assert_eq!(hall.gateway.due(), Some(Millis(hall.now + PACE_MS)));
    hall.gateway.tick(Millis(hall.now + PACE_MS));
    let frames = String::from_utf8_lossy(&hall.read(1)).into_owned();
    assert_eq!(frames.matches("\"deltaText\"").count(), 1, "and are told together");
}

/// Y13, B187, B188: for who does not read, pieces are left out and their numbers used up; what may
/// not be missed closes the socket. Who reads has every number, and memory has its bound.
#[test]
fn b187_b188_who_does_not_read() {
    let mut hall = Hall::new();
    hall.connect(1);
    hall.connect(2);
    let mut seen: Vec<u64> = Vec::new();
    let text = "words ".repeat(60_000);
    for _ in 0..80 {
        hall.tell(&Event::MessageStart(Who::Reply(None)));
        hall.says(&text);
        hall.now += PACE_MS;
        seen.extend(numbers(&hall.read(2)));
    }
    let full = hall.waits(1);
    assert!(full > MAX && full < MAX + 2_000_000, "{full}");
    let last = *seen.last().unwrap();
    assert_eq!(seen, (1..=last).collect::<Vec<u64>>(), "who reads misses nothing");
    assert!(last >= 79, "{last}");
    // A run's beginning may not be missed.
    hall.tell(&Event::AgentStart);
    let closing: Value = json!(String::from_utf8_lossy(&hall.read(1)));
    assert!(closing.as_str().unwrap().ends_with("slow consumer"), "it is closed");
    assert!(numbers(&hall.read(2)).contains(&(last + 1)), "the others are told");
}
