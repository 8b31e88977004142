//! Killed with SIGKILL at any moment, under load, again and again: what was acknowledged is there
//! once, every call has its result, and nothing hangs (spec/sessions.md, spec/store.md S14).

#![allow(clippy::unwrap_used)] // A failure here is a failure of the test.

mod common;

use common::Home;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How often the process is killed.
const KILLS: u32 = 200;
/// Conversations at once.
const SESSIONS: u64 = 4;

/// A choice that differs from run to run is what this test is about; it prints its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// One life of the process.
struct Life {
    running: common::Running,
    frames: Receiver<Value>,
}

fn start(home: &Home) -> Life {
    let mut command = home.command(&["gateway", "--stdio"]);
    command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (sender, frames) = channel();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            let Ok(frame) = serde_json::from_str(&line) else { return };
            if sender.send(frame).is_err() {
                return;
            }
        }
    });
    Life { running: common::Running(child), frames }
}

impl Life {
    fn send(&mut self, id: u64, dice: &mut Dice) {
        let session = dice.below(SESSIONS);
        let text = match dice.below(5) {
            0 => format!("m{id}."),
            1 => format!("run: true # m{id}."),
            2 => format!("together: run: true; run: echo m{id}."),
            3 => format!("then: run: true; run: echo m{id}."),
            _ => format!("say 3 words\nrun: echo m{id}."),
        };
        let mode = ["steer", "followup"][usize::try_from(dice.below(2)).unwrap()];
        let frame = json!({"type": "req", "id": id.to_string(), "method": "chat.send", "params": {
            "sessionKey": format!("agent:main:s{session}"), "message": text,
            "idempotencyKey": format!("k{id}"), "queueMode": mode,
        }});
        // A process that is being killed takes nothing more.
        let _ = writeln!(self.running.0.stdin.as_mut().unwrap(), "{frame}");
    }

    fn acknowledged(&self, frame: &Value) -> Option<u64> {
        let ok = frame["type"] == "res" && frame["ok"] == true;
        let started = frame["payload"]["status"] == "started";
        (ok && started).then(|| frame["id"].as_str()?.parse().ok()).flatten()
    }
}

fn database(home: &Home) -> Connection {
    let path = home.state().join("agents/main/agent.sqlite");
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

fn bodies(db: &Connection, sql: &str) -> Vec<(String, Value)> {
    let mut statement = db.prepare(sql).unwrap();
    let row = |r: &rusqlite::Row<'_>| Ok((r.get::<_, String>(0)?, r.get::<_, String>(1)?));
    let rows = statement.query_map([], row).unwrap().map(Result::unwrap);
    rows.map(|(of, body)| (of, serde_json::from_str(&body).unwrap())).collect()
}

/// Which messages a text holds.
fn marks(text: &str) -> Vec<u64> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter_map(|word| word.strip_prefix('m')?.parse().ok()).collect()
}

/// Every acknowledged message once, in the transcript or in its queue; or its run was dropped by
/// the queue's policy, and its sender told.
fn nothing_lost(db: &Connection, acknowledged: &BTreeSet<u64>, seed: u64) {
    let mut places: BTreeMap<u64, u32> = BTreeMap::new();
    for (_, body) in bodies(db, "SELECT session_id, body FROM entries") {
        if body["message"]["role"] == "user" {
            for mark in marks(body["message"]["content"].as_str().unwrap_or_default()) {
                *places.entry(mark).or_default() += 1;
            }
        }
    }
    for (_, body) in bodies(db, "SELECT session_id, body FROM queue") {
        for mark in marks(body["content"].as_str().unwrap_or_default()) {
            *places.entry(mark).or_default() += 1;
        }
    }
    let mut dropped = db
        .prepare("SELECT 1 FROM runs WHERE run_id = ?1 AND termination LIKE '%policy_stop%'")
        .unwrap();
    for id in acknowledged {
        let there = places.get(id).copied().unwrap_or(0);
        let gone = dropped.exists([format!("k{id}")]).unwrap();
        assert!(
            there == 1 || (there == 0 && gone),
            "seed {seed}: message {id} is there {there} times"
        );
    }
}

/// Every call has its result, in order, before anything else; only the last batch of a session may
/// still be open, and is known to be.
fn paired(db: &Connection, seed: u64) {
    let mut owed: BTreeMap<String, VecDeque<String>> = BTreeMap::new();
    for (session, body) in bodies(db, "SELECT session_id, body FROM entries ORDER BY n") {
        let owed = owed.entry(session).or_default();
        let message = &body["message"];
        match message["role"].as_str() {
            Some("toolResult") => {
                let id = message["toolCallId"].as_str().unwrap();
                assert_eq!(owed.pop_front().as_deref(), Some(id), "seed {seed}: {body}");
            }
            Some("assistant") => {
                assert!(owed.is_empty(), "seed {seed}: {owed:?} before {body}");
                let blocks = message["content"].as_array().unwrap();
                let calls = blocks.iter().filter(|block| block["type"] == "toolCall");
                owed.extend(calls.map(|call| call["id"].as_str().unwrap().to_owned()));
            }
            Some(_) => assert!(owed.is_empty(), "seed {seed}: {owed:?} before {body}"),
            None => {}
        }
    }
    for (session, owed) in owed {
        let sql = "SELECT count(*) FROM calls WHERE session_id = ?1 AND stored = 0";
        let open: i64 = db.query_row(sql, [&session], |r| r.get(0)).unwrap();
        assert_eq!(usize::try_from(open).unwrap(), owed.len(), "seed {seed}: {owed:?}");
    }
}

/// With no more to read, the process brings everything that was accepted to its end, and ends.
fn comes_to_its_end(home: &Home, seed: u64) {
    let mut life = start(home);
    drop(life.running.0.stdin.take());
    let until = Instant::now() + Duration::from_secs(60);
    while life.running.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "seed {seed}: the process hangs");
        std::thread::sleep(Duration::from_millis(5));
    }
    let db = database(home);
    let sql = "SELECT count(*) FROM runs WHERE ended_at IS NULL";
    let open: i64 = db.query_row(sql, [], |r| r.get(0)).unwrap();
    assert_eq!(open, 0, "seed {seed}: runs hang");
    let sql = "SELECT count(*) FROM calls";
    let open: i64 = db.query_row(sql, [], |r| r.get(0)).unwrap();
    assert_eq!(open, 0, "seed {seed}: calls are open");
    let say: String = db.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
    assert_eq!(say, "ok", "seed {seed}");
}

#[test]
fn killed_at_any_moment_under_load() {
    let home = Home::new();
    let seed = u64::from(std::process::id()) ^ 0x5eed;
    let mut dice = Dice(seed);
    let mut acknowledged: BTreeSet<u64> = BTreeSet::new();
    let mut next = 1;
    for round in 1..=KILLS {
        let mut life = start(&home);
        let until = Instant::now() + Duration::from_millis(15 + dice.below(90));
        while Instant::now() < until {
            life.send(next, &mut dice);
            next += 1;
            let pause = Duration::from_millis(1 + dice.below(6));
            while let Ok(frame) = life.frames.recv_timeout(pause) {
                acknowledged.extend(life.acknowledged(&frame));
            }
        }
        life.running.0.kill().unwrap();
        life.running.0.wait().unwrap();
        // What it had said before it died counts too.
        while let Ok(frame) = life.frames.recv() {
            acknowledged.extend(life.acknowledged(&frame));
        }
        // Killed before it was ready, it may not have a table yet.
        if !acknowledged.is_empty() {
            let db = database(&home);
            nothing_lost(&db, &acknowledged, seed);
            paired(&db, seed);
        }
        if round % 20 == 0 {
            comes_to_its_end(&home, seed);
        }
    }
    let db = database(&home);
    nothing_lost(&db, &acknowledged, seed);
    paired(&db, seed);
    println!("{} acknowledged of {} sent, {KILLS} kills", acknowledged.len(), next - 1);
    assert!(acknowledged.len() > 100, "too little was under way: {}", acknowledged.len());
}
