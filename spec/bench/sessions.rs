//! Many conversations in one process: memory while a thousand run, accepted runs a second beside
//! single commits, and a start beside a hundred thousand stored conversations.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use stepclaw::base::{Millis, MsgId, RunId, SessionId};
use stepclaw::store::{Admit, Part, Synchronous, agent_db, execute_all, open};
use stepclaw::transcript::{Content, User};

struct Gateway {
    child: Child,
    frames: Receiver<Value>,
}

fn start(state: &Path, more: &[&str]) -> (Gateway, Duration) {
    let begin = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepclaw"));
    command.args(["gateway", "--stdio"]).args(more).env("STEPCLAW_STATE_DIR", state);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    let (sender, frames) = channel();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            let frame = serde_json::from_str(&line).expect("a frame");
            if sender.send(frame).is_err() {
                return;
            }
        }
    });
    let mut gateway = Gateway { child, frames };
    gateway.until(|frame| frame["event"] == "ready");
    (gateway, begin.elapsed())
}

impl Gateway {
    fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.frames.recv_timeout(Duration::from_secs(120)).expect("a frame");
            if fits(&frame) {
                return frame;
            }
        }
    }

    fn send(&mut self, id: &str, key: &str, text: &str) {
        let frame = json!({"type": "req", "id": id, "method": "chat.send", "params": {
            "sessionKey": key, "message": text, "idempotencyKey": id, "queueMode": "followup",
        }});
        writeln!(self.child.stdin.as_mut().expect("a pipe"), "{frame}").expect("it reads");
    }

    fn status(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A thousand conversations at once, each waiting five seconds.
fn active(count: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut gateway, _) = start(dir.path(), &["--max-concurrent", &count.to_string()]);
    let begin = Instant::now();
    for n in 0..count {
        gateway.send(&format!("r{n}"), &format!("agent:main:s{n}"), "wait 5");
    }
    let mut finals = 0;
    let mut most = 0;
    while finals < count {
        let frame = gateway.until(|_| true);
        finals += usize::from(frame["payload"]["state"] == "final");
        most = most.max(gateway.status("Threads:"));
    }
    let (seconds, peak) = (begin.elapsed().as_secs_f64(), gateway.status("VmHWM:"));
    println!(
        "{count} sessions active, wait 5: {seconds:.2} s, peak {:.1} MiB, {most} threads   \
         bar: 64 MiB",
        peak as f64 / 1024.0
    );
    gateway.kill();
}

/// Accepted runs a second: group commit, and beside it one commit a run.
fn accepted(count: u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut gateway, _) = start(dir.path(), &["--max-concurrent", "1"]);
    gateway.send("first", "agent:main:first", "wait 60");
    gateway.until(|frame| frame["id"] == "first");
    let begin = Instant::now();
    for n in 0..count {
        gateway.send(&format!("r{n}"), &format!("agent:main:s{}", n % 1_000), "say 1 word");
    }
    let mut acks = 0;
    while acks < count {
        let frame = gateway.until(|frame| frame["type"] == "res");
        assert_eq!(frame["payload"]["status"], "started", "{frame}");
        acks += 1;
    }
    let grouped = count as f64 / begin.elapsed().as_secs_f64();
    gateway.kill();
    let single = single(400);
    println!(
        "accepted runs a second, each durable: {grouped:.0} grouped, {single:.0} one commit each \
         (the baseline)   bar: 2,000"
    );
}

fn single(count: u64) -> f64 {
    let dir = tempfile::tempdir().expect("a directory");
    let path = agent_db(dir.path(), "main");
    let mut db = open(&path, Synchronous::Full).expect("a database");
    let begin = Instant::now();
    for n in 0..count {
        let content = Content::Text("say 1 word".into());
        let admit = Admit {
            key: format!("agent:main:s{n}"),
            fresh: SessionId::new(format!("s{n}")),
            cwd: String::new(),
            run: RunId::new(format!("r{n}")),
            request: String::new(),
            turn: String::new(),
            msg: MsgId(n + 1),
            body: Arc::new(User { content, timestamp: Millis(0), idempotency_key: None }),
            interaction: true,
            at: Millis(n),
        };
        let done = execute_all(&mut db, &path, &[Part::Admit(Box::new(admit))]);
        assert!(done.iter().all(Result::is_ok), "{done:?}");
    }
    count as f64 / begin.elapsed().as_secs_f64()
}

/// The time until a gateway is ready beside so many stored conversations.
/// The log is written back first: rows that came one by one would never leave one of that size.
fn ready(stored: u32) -> Duration {
    let dir = tempfile::tempdir().expect("a directory");
    let path = agent_db(dir.path(), "main");
    let db = open(&path, Synchronous::Normal).expect("a database");
    db.execute_batch(&format!(
        "BEGIN;
         WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {stored})
         INSERT INTO sessions(session_id, session_key, version, created_at, updated_at)
         SELECT 's' || n, 'agent:main:s' || n, 4, n, n FROM c;
         INSERT INTO entries(session_id, id, at, run_id, body)
         SELECT session_id, 'e' || session_id, 1, 'r' || session_id, '{{\"type\":\"message\",\
         \"message\":{{\"role\":\"user\",\"content\":\"hello\",\"timestamp\":1}}}}' FROM sessions;
         INSERT INTO runs(run_id, session_id, entry, accepted_at, claimed_at, ended_at, request)
         SELECT 'r' || session_id, session_id, '\"Prompt\"', 1, 1, 2, 'x' FROM sessions;
         UPDATE sessions SET leaf = 'e' || session_id, entry_count = 1;
         COMMIT;
         PRAGMA wal_checkpoint(TRUNCATE);"
    ))
    .expect("rows");
    drop(db);
    let mut times: Vec<Duration> = (0..11)
        .map(|_| {
            let (gateway, time) = start(dir.path(), &[]);
            gateway.kill();
            time
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

fn main() {
    active(1_000);
    accepted(8_000);
    let (few, many) = (ready(10), ready(100_000));
    println!(
        "start beside stored conversations: 10 in {:.1} ms (the baseline), 100,000 in {:.1} ms: \
         {:.2} times   bar: 2",
        few.as_secs_f64() * 1e3,
        many.as_secs_f64() * 1e3,
        many.as_secs_f64() / few.as_secs_f64()
    );
}
