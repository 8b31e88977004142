//! The hall: the gateway with many clients that lag, lie, drop and come back, the real machine of
//! sessions behind it, and friends that answer when they please. Whatever happens, a run has one
//! end, a request its answers, and a connection its numbers in order (invariants 4, 5, 9, 14).

mod peer;

use super::Choice;
use crate::base::limits::REQUESTS_MAX;
use crate::base::{Millis, RunId};
use crate::config::Secret;
use crate::engine::sessions::{
    Act, Admission, Event, Facts as Seen, Input, Key, Options, Sessions, Waits,
};
use crate::engine::turns::Group;
use crate::engine::{Event as RunEvent, Termination, Who};
use crate::gateway::auth::{Auth, Devices, Entropy, Gate, Issuer, Origins, Policy};
use crate::gateway::wire::fuzz::{frame, heading};
use crate::gateway::{Conn, Do, Facts, Gateway, Sight, Ways};
use crate::records::Query;
use crate::transcript::Delta;
use peer::{Peer, answer, outcome};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The one who is at the pipes, and sees everything.
const WITNESS: Conn = 0;
/// Most sockets at once.
const SOCKETS: usize = 6;
const TOKEN: &str = "hall";

/// What is done to what the witness is told, so that the checks are seen to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// Every run's end is told twice.
    FinalTwice,
    /// A number is left out.
    SkipNumber,
    /// An answer is lost.
    LoseAnswer,
}

/// The hall.
pub struct Hall {
    gateway: Gateway,
    sessions: Sessions,
    now: Millis,
    peers: BTreeMap<Conn, Peer>,
    next_conn: Conn,
    acts: VecDeque<Act>,
    /// What the store knows of runs: the identity of each request, and its end.
    stored: BTreeMap<RunId, (Arc<str>, Option<Termination>)>,
    /// Runs that go on, and how they are to end.
    running: BTreeMap<RunId, (Key, Option<Termination>)>,
    questions: VecDeque<(u64, Query)>,
    changes: VecDeque<u64>,
    kept: VecDeque<u64>,
    asked: u32,
    /// What the witness still waits for: how many answers to each of its requests.
    owed: BTreeMap<String, (u32, String)>,
    witness_seq: u64,
    /// Ends that were told, of each run.
    finals: BTreeMap<String, u32>,
    ended: BTreeMap<String, u32>,
    plant: Option<Plant>,
    /// Nothing fails any more.
    calm: bool,
}

fn draw(choice: &mut impl Choice, n: u64) -> u64 {
    choice.pick(n.max(1)).unwrap_or(0)
}

fn nth(choice: &mut impl Choice, n: usize) -> usize {
    usize::try_from(draw(choice, u64::try_from(n).unwrap_or(1))).unwrap_or(0)
}

fn plain(text: &str) -> Waits {
    Waits::plain(Group::new("", "", "", ""), text.into())
}

fn identity(key: &str, text: &str) -> Arc<str> {
    format!("{key} {text}").into()
}

impl Hall {
    /// An empty hall with its witness.
    #[must_use]
    pub fn new(plant: Option<Plant>) -> Hall {
        let facts = Facts { agent: "main".into(), ..Facts::default() };
        let mut gateway = Gateway::new(facts, Ways { identity, plain }, Millis(1_000));
        let secret = Secret::new(TOKEN);
        let auth = Auth::new("token", Some(&secret), None, false).unwrap_or_else(|_| {
            unreachable!("a token is there");
        });
        let entropy = Entropy { token: [7; 32], id: [7; 10] };
        let (issuer, _) = Issuer::current(None, &auth, &entropy);
        let policy =
            Policy { origins: Origins::default(), auto_approve_local: true, loopback_only: true };
        let gate = Gate::new(auth, issuer, policy, Devices::restore(vec![]));
        gateway.guard(gate, "token", Millis(1_000));
        gateway.join(WITNESS, Millis(1_000));
        let mut sessions = Sessions::new(Options {
            caps: crate::engine::lanes::Caps { main: 2, ..Default::default() },
            queue: Default::default(),
            reset: Default::default(),
            watch: Default::default(),
            lane_wait_ms: 0,
            keep_ms: 60_000,
        });
        let boot = Input::Boot { next_msg: 1, waiting: vec![], interrupted: vec![] };
        let _ = sessions.step(boot, Millis(1_000));
        Hall {
            gateway,
            sessions,
            now: Millis(1_000),
            peers: BTreeMap::new(),
            next_conn: 1,
            acts: VecDeque::new(),
            stored: BTreeMap::new(),
            running: BTreeMap::new(),
            questions: VecDeque::new(),
            changes: VecDeque::new(),
            kept: VecDeque::new(),
            asked: 0,
            owed: BTreeMap::new(),
            witness_seq: 0,
            finals: BTreeMap::new(),
            ended: BTreeMap::new(),
            plant,
            calm: false,
        }
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut Gateway, Sight<'_>) -> R) -> R {
        let fresh = ([self.asked as u8; 32], [self.asked as u8; 10]);
        let sight = Sight { now: self.now, boundary: None, sessions: &self.sessions, fresh };
        let result = act(&mut self.gateway, sight);
        self.settle();
        result
    }

    fn settle(&mut self) {
        loop {
            let wanted = self.gateway.take();
            if wanted.is_empty() {
                return;
            }
            for what in wanted {
                self.gateway.look(&what, &self.sessions);
                match what {
                    Do::Send { conn, frame } => {
                        assert_eq!(conn, WITNESS, "4: a frame for somebody who is not there");
                        self.witnessed(&frame.text());
                    }
                    Do::Give(input) => self.feed(input),
                    Do::Ask(ticket, query) => self.questions.push_back((ticket, query)),
                    Do::Want(ticket, ..) => self.changes.push_back(ticket),
                    Do::Keep(ticket, _) => self.kept.push_back(ticket),
                    _ => {}
                }
            }
        }
    }

    fn feed(&mut self, input: Input) {
        let step = self.sessions.step(input, self.now);
        for event in &step.tell {
            if let Event::Ended { run, termination, .. } = event {
                if let Some((_, end)) = self.stored.get_mut(run) {
                    *end = Some(termination.clone());
                }
                *self.ended.entry(run.to_string()).or_default() += 1;
            }
            self.gateway.clock(self.now);
            self.gateway.of_sessions(event);
        }
        self.acts.extend(step.act);
    }

    /// What the witness is told.
    fn witnessed(&mut self, text: &str) {
        let frame: Value = serde_json::from_str(text).unwrap_or_default();
        if frame["type"] == "res" {
            let id = frame["id"].as_str().unwrap_or_default();
            if self.plant == Some(Plant::LoseAnswer) && id.ends_with('3') {
                return;
            }
            let accepted = frame["payload"]["status"] == "accepted";
            if let Some((owed, _)) = self.owed.get_mut(id) {
                *owed -= u32::from(!accepted);
                if *owed == 0 {
                    self.owed.remove(id);
                }
            } else {
                assert!(matches!(id, "invalid" | "x"), "4: nobody asked for this: {text}");
            }
            return;
        }
        let mut seq = frame["seq"].as_u64().unwrap_or(0);
        if self.plant == Some(Plant::SkipNumber) && seq > 5 {
            seq += 1;
        }
        assert_eq!(seq, self.witness_seq + 1, "9: the numbers of the witness");
        self.witness_seq = seq;
        if frame["event"] == "chat" && frame["payload"]["state"] != "delta" {
            let run = frame["payload"]["runId"].as_str().unwrap_or_default();
            let times = if self.plant == Some(Plant::FinalTwice) { 2 } else { 1 };
            *self.finals.entry(run.to_owned()).or_default() += times;
        }
    }

    /// One move.
    pub fn step(&mut self, kind: u64, choice: &mut impl Choice) {
        match kind {
            0 => self.comes(choice),
            1..=4 => self.asks(choice),
            5 | 6 => self.reads(choice),
            7 => self.goes(choice),
            8 | 9 => self.friend(choice),
            10..=12 => self.run(choice),
            13 => self.passes(choice),
            14 => self.store(choice),
            _ => self.lies(choice),
        }
        self.check();
    }

    fn comes(&mut self, choice: &mut impl Choice) {
        if self.peers.len() >= SOCKETS {
            return;
        }
        let conn = self.next_conn;
        self.next_conn += 1;
        let address = "127.0.0.1".parse().unwrap_or_else(|_| unreachable!("an address"));
        assert!(self.gateway.open(conn, address, self.now));
        self.peers.insert(conn, Peer::default());
        self.with(|gateway, sight| gateway.bytes(conn, heading().as_bytes(), sight));
        let token = if draw(choice, 4) == 0 { "wrong" } else { TOKEN };
        let params = json!({
            "minProtocol": 4, "maxProtocol": 4, "scopes": ["operator.admin"],
            "caps": ["tool-events"], "auth": {"token": token},
            "client": {"id": "gateway-client", "version": "1", "platform": "linux",
                "mode": "backend"},
        });
        if draw(choice, 6) > 0 {
            self.says(conn, "connect", &params);
        }
    }

    fn says(&mut self, conn: Conn, method: &str, params: &Value) {
        self.asked += 1;
        let id = self.asked.to_string();
        let text = json!({"type": "req", "id": id, "method": method, "params": params});
        let text = text.to_string();
        if conn == WITNESS {
            self.owed.insert(id, (1, text.clone()));
            self.with(|gateway, sight| gateway.text(WITNESS, &text, sight));
        } else {
            let bytes = frame(0x81, [1, 2, 3, 4], text.as_bytes());
            self.with(|gateway, sight| gateway.bytes(conn, &bytes, sight));
        }
    }

    fn someone(&self, choice: &mut impl Choice) -> Conn {
        let n = nth(choice, self.peers.len() + 2);
        self.peers.keys().nth(n).copied().unwrap_or(WITNESS)
    }

    fn asks(&mut self, choice: &mut impl Choice) {
        let conn = self.someone(choice);
        let key = ["main", "a", "b"][nth(choice, 3)];
        let run = format!("r{}", draw(choice, 24));
        let text = ["hello", "/stop", "/new", "/queue collect", "more words", "", "/new again"];
        let text = text[nth(choice, text.len())];
        let mode = ["steer", "followup", "collect", "interrupt"];
        let mode = mode[nth(choice, 4)];
        let sent = json!({"sessionKey": key, "message": text, "idempotencyKey": run,
            "queueMode": mode});
        let (method, params) = match draw(choice, 16) {
            0..=4 => ("chat.send", sent),
            5 | 6 => ("agent", json!({"sessionKey": key, "message": "x", "idempotencyKey": run})),
            7 => ("agent.wait", json!({"runId": run, "timeoutMs": 500})),
            8 => ("chat.abort", json!({"sessionKey": key})),
            9 => ("chat.history", json!({"sessionKey": key})),
            10 => ("sessions.list", json!({})),
            11 => ("sessions.create", json!({"key": key, "message": "hi", "idempotencyKey": run})),
            12 => ("sessions.reset", json!({"key": key})),
            13 => ("sessions.delete", json!({"key": key})),
            14 => ("sessions.patch", json!({"key": key, "label": "x"})),
            _ => ("sessions.subscribe", json!({})),
        };
        self.says(conn, method, &params);
    }

    /// A client takes some of what waits for it.
    fn reads(&mut self, choice: &mut impl Choice) {
        let n = nth(choice, self.peers.len() + 1);
        let Some(conn) = self.peers.keys().nth(n).copied() else { return };
        let most = if draw(choice, 3) == 0 { 7 } else { usize::MAX };
        let Some(wire) = self.gateway.wire(conn) else { return };
        let bytes: Vec<u8> = wire.out().flatten().copied().take(most).collect();
        let (done, count) = (wire.done(), bytes.len());
        if let Some(peer) = self.peers.get_mut(&conn) {
            peer.take(&bytes);
        }
        if count > 0 {
            self.with(|gateway, sight| gateway.written(conn, count, sight));
        }
        if done {
            self.peers.remove(&conn);
            self.gateway.lost(conn);
        }
    }

    fn goes(&mut self, choice: &mut impl Choice) {
        let n = nth(choice, self.peers.len() + 3);
        let Some(conn) = self.peers.keys().nth(n).copied() else { return };
        self.peers.remove(&conn);
        if draw(choice, 2) == 0 {
            self.with(|gateway, sight| gateway.end_of_input(conn, sight));
        }
        self.gateway.lost(conn);
        self.settle();
    }

    fn lies(&mut self, choice: &mut impl Choice) {
        let conn = self.someone(choice);
        let text = ["{", "[]", "{\"type\":\"req\"}", "\u{0}", "{\"type\":\"event\",\"id\":\"x\"}"];
        let text = text[nth(choice, text.len())];
        if conn == WITNESS {
            return self.with(|gateway, sight| gateway.text(WITNESS, text, sight));
        }
        let first = [0x81, 0x01, 0x82, 0x88, 0x89, 0xf1][nth(choice, 6)];
        let bytes = frame(first, [9, 8, 7, 6], text.as_bytes());
        self.with(|gateway, sight| gateway.bytes(conn, &bytes, sight));
    }

    /// A friend does the oldest thing that it was asked for.
    fn friend(&mut self, choice: &mut impl Choice) {
        let Some(act) = self.acts.pop_front() else { return };
        match act {
            Act::Admit(op, _, arrival) => {
                let failed = !self.calm && draw(choice, 12) == 0;
                let known = self.stored.get(&arrival.run);
                let admission = match known {
                    Some((request, end)) if *request == arrival.request => {
                        Admission::Known(outcome(end.as_ref()))
                    }
                    Some(_) => Admission::Conflict,
                    None if failed => Admission::Failed("the disk is full".into()),
                    None => {
                        self.stored.insert(arrival.run, (arrival.request, None));
                        Admission::New(Seen::default())
                    }
                };
                self.feed(Input::Admitted(op, admission));
            }
            Act::Open(op, _) => self.feed(Input::Opened(op)),
            Act::Change(op, _, _) if !self.calm && draw(choice, 12) == 0 => {
                self.feed(Input::ChangeFailed(op, "the disk is full".into()));
            }
            Act::Change(op, _, _) => self.feed(Input::Changed(op)),
            Act::Find(op, run) => {
                let known = self.stored.get(&run).map(|(_, end)| outcome(end.as_ref()));
                self.feed(Input::Found(op, known));
            }
            Act::Start(start) => {
                let (key, run) = (start.key, start.run);
                self.tell(&key, &run, &RunEvent::AgentStart);
                self.running.insert(run, (key, None));
            }
            Act::Steer { run, .. } => {
                self.feed(Input::Steered { run, taken: draw(choice, 2) == 0 })
            }
            Act::Unsteer { run, .. } => self.feed(Input::Steered { run, taken: false }),
            Act::Abort(key, cause) => self.stops(&key, &Termination::Aborted { cause }),
            Act::Supersede(key) => self.stops(&key, &Termination::Superseded { by: None }),
            Act::Look => self.feed(Input::Seen(vec![])),
            Act::Close(_) | Act::Resume { .. } => {}
        }
        self.settle();
    }

    fn stops(&mut self, key: &Key, how: &Termination) {
        for (_, end) in self.running.values_mut().filter(|(of, _)| of == key) {
            end.get_or_insert_with(|| how.clone());
        }
    }

    fn tell(&mut self, key: &Key, run: &RunId, event: &RunEvent) {
        self.gateway.clock(self.now);
        self.gateway.told(key, run, event, &[], |_| true);
    }

    /// A run says something, or ends.
    fn run(&mut self, choice: &mut impl Choice) {
        let n = nth(choice, self.running.len() + 1);
        let Some((run, (key, end))) = self.running.iter().nth(n) else { return };
        let (run, key, end) = (run.clone(), Arc::clone(key), end.clone());
        match draw(choice, 6) {
            0 => self.tell(&key, &run, &RunEvent::MessageStart(Who::Reply(None))),
            1 | 2 => {
                self.tell(&key, &run, &RunEvent::MessageUpdate(Delta::Text("word ".into())));
            }
            3 => self.tell(&key, &run, &RunEvent::MessageReset),
            _ => {
                let done = Termination::Completed { cut: false };
                let termination = end.unwrap_or(done);
                self.running.remove(&run);
                let reload = draw(choice, 8) == 0;
                self.feed(Input::Ended { run, termination, reload });
            }
        }
        self.settle();
    }

    fn passes(&mut self, choice: &mut impl Choice) {
        self.now = self.now.plus([1, 80, 1_000, 30_000][nth(choice, 4)]);
        let now = self.now;
        self.gateway.tick(now);
        self.with(|gateway, sight| gateway.lines_tick(sight));
        if self.sessions.due().is_some_and(|at| at <= now) {
            self.feed(Input::Tick);
        }
        self.settle();
    }

    /// The store answers the oldest question, or the oldest change.
    fn store(&mut self, choice: &mut impl Choice) {
        let fails = !self.calm && draw(choice, 10) == 0;
        fn failed<T>() -> Result<T, String> {
            Err("the disk is full".to_owned())
        }
        if let Some(ticket) = self.changes.pop_front() {
            let result = if fails { failed() } else { Ok(()) };
            return self.with(|gateway, sight| gateway.changed(ticket, result, sight));
        }
        if let Some(ticket) = self.kept.pop_front() {
            let result = if fails { failed() } else { Ok(()) };
            return self.with(|gateway, sight| gateway.device_kept(ticket, result, sight));
        }
        let Some((ticket, query)) = self.questions.pop_front() else { return };
        let there = draw(choice, 3) > 0;
        let found = if fails { failed() } else { Ok(answer(&query, there)) };
        self.with(|gateway, sight| gateway.found(ticket, found, sight));
    }

    fn check(&self) {
        assert!(
            self.gateway.waiting() <= REQUESTS_MAX + SOCKETS,
            "14: requests wait without bound"
        );
        for (run, times) in &self.finals {
            assert_eq!(*times, 1, "4: the end of {run} is told {times} times");
        }
        assert!(self.gateway.connected() <= SOCKETS + 1, "14: sockets are forgotten");
    }

    /// Nothing fails any more: everything that was accepted ends, and every request has its answer.
    pub fn finish(&mut self) {
        self.calm = true;
        let choice = &mut crate::base::Rng(1);
        for conn in std::mem::take(&mut self.peers).into_keys() {
            self.gateway.lost(conn);
        }
        for _ in 0..20_000 {
            let quiet = self.acts.is_empty() && self.running.is_empty();
            let quiet = quiet && self.questions.is_empty() && self.changes.is_empty();
            if quiet && self.sessions.unfinished() == 0 && self.gateway.waiting() == 0 {
                break;
            }
            self.friend(choice);
            self.run(choice);
            self.store(choice);
            self.now = self.now.plus(100);
            let now = self.now;
            self.gateway.tick(now);
            if self.sessions.due().is_some_and(|at| at <= now) {
                self.feed(Input::Tick);
            }
            self.settle();
        }
        self.check();
        assert_eq!(self.sessions.unfinished(), 0, "4: accepted runs hang");
        assert_eq!(self.owed, BTreeMap::new(), "4: requests without an answer");
        assert_eq!(self.gateway.waiting(), 0, "14: somebody is waited for who is not there");
        let (ends, told) = (self.ended.keys(), self.finals.keys());
        assert!(ends.eq(told), "4: ends and what was told of them");
    }
}

/// So many moves, and then everything is brought to its end.
pub fn play(choice: &mut impl Choice, moves: usize, plant: Option<Plant>) {
    let mut hall = Hall::new(plant);
    for _ in 0..moves {
        let Some(kind) = choice.pick(16) else { break };
        hall.step(kind, choice);
    }
    hall.finish();
}

/// The same from bytes, for a fuzzer.
pub fn fuzz_hall(data: &[u8]) {
    play(&mut super::Bytes(data), 400, None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Rng;

    /// Invariants 4, 5, 9 and 14 of the gateway, over many halls.
    #[test]
    fn seeds_pass() {
        for seed in 0..300 {
            play(&mut Rng(seed), 300, None);
        }
    }

    /// Each check can fail.
    #[test]
    fn every_plant_is_caught() {
        for plant in [Plant::FinalTwice, Plant::SkipNumber, Plant::LoseAnswer] {
            let caught = (0..40).any(|seed| {
                std::panic::catch_unwind(|| play(&mut Rng(seed), 300, Some(plant))).is_err()
            });
            assert!(caught, "{plant:?}");
        }
    }
}
