//! The gateway through its socket, with the offline model and this compiled client: start, memory
//! at rest, turns a second, long conversations, many clients of one long answer.

#[path = "../common/ws.rs"]
mod ws;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use stepclaw::store::{Synchronous, agent_db, open};
use ws::Ws;

const TOKEN: &str = "bench";

struct Site {
    child: Child,
    port: u16,
    begin: Instant,
}

fn start(state: &Path, synchronous: &str) -> Site {
    let config = format!("{{ store: {{ synchronous: '{synchronous}' }} }}");
    std::fs::write(state.join("stepclaw.json"), config).expect("a config");
    let begin = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepclaw"));
    command.args(["gateway", "--json", "--port", "0", "--token", TOKEN, "--max-concurrent", "64"]);
    command.env("STEPCLAW_STATE_DIR", state).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let ready: Value = serde_json::from_str(&line).expect("JSON");
    let port = u16::try_from(ready["port"].as_u64().expect("a port")).expect("a port");
    Site { child, port, begin }
}

impl Site {
    fn status(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let text = text.unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    /// Processor time so far, ms. The system counts it in ticks of 10 ms.
    fn cpu_ms(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let text = text.unwrap_or_default();
        let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or("").split(' ').collect();
        let at = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
        (at(11) + at(12)) * 10
    }

    fn wakeups(&self) -> u64 {
        self.status("voluntary_ctxt_switches")
    }

    fn stop(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn turn(ws: &mut Ws, key: &str, run: &str, text: &str) -> Duration {
    let begin = Instant::now();
    let params = json!({"sessionKey": key, "message": text, "idempotencyKey": run});
    ws.send("chat.send", params);
    ws.until(|f| {
        f["event"] == "chat" && f["payload"]["runId"] == run && f["payload"]["state"] == "final"
    });
    ws.forget();
    begin.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn fill(state: &Path, sessions: u32, messages: u32) {
    let path = agent_db(state, "main");
    let db = open(&path, Synchronous::Normal).expect("a database");
    db.execute_batch(&format!(
        "BEGIN;
         WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {sessions})
         INSERT INTO sessions(session_id, session_key, version, created_at, updated_at)
         SELECT 's' || n, 'agent:main:s' || n, 4, n, n FROM c;
         WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {messages})
         INSERT INTO entries(session_id, id, parent_id, at, run_id, body)
         SELECT 's1', 'e' || n, CASE n WHEN 1 THEN NULL ELSE 'e' || (n - 1) END, 1, 'r', CASE n % 2
         WHEN 1 THEN '{{\"type\":\"message\",\"message\":{{\"role\":\"user\",\"content\":\"hello\",\
         \"timestamp\":1}}}}' ELSE '{{\"type\":\"message\",\"message\":{{\"role\":\"assistant\",\
         \"content\":[{{\"type\":\"text\",\"text\":\"hello\"}}],\"api\":\"scripted\",\
         \"provider\":\"offline\",\"model\":\"scripted\",\"stopReason\":\"stop\",\
         \"timestamp\":1}}}}' END FROM c;
         UPDATE sessions SET leaf = 'e{messages}', entry_count = {messages} WHERE session_id = 's1';
         COMMIT;
         PRAGMA wal_checkpoint(TRUNCATE);"
    ))
    .expect("rows");
}

fn starts(state: &Path) {
    let (mut connects, mut sends) = (Vec::new(), Vec::new());
    for n in 0..11 {
        let site = start(state, "normal");
        let mut ws = Ws::connect(site.port, TOKEN);
        connects.push(site.begin.elapsed());
        let run = format!("start-{n}");
        let params = json!({"sessionKey": "main", "message": "say 1 word", "idempotencyKey": run});
        ws.call("chat.send", params);
        sends.push(site.begin.elapsed());
        site.stop();
    }
    let (connect, send) = (median(connects), median(sends));
    println!("exec to an accepted connect: {connect:.2} ms   bar: 10");
    println!("exec to the first answered chat.send: {send:.2} ms   bar: 15");
}

fn at_rest(state: &Path) {
    let site = start(state, "normal");
    std::thread::sleep(Duration::from_secs(12));
    let (rss, threads) = (site.status("VmRSS"), site.status("Threads"));
    let before = site.wakeups();
    std::thread::sleep(Duration::from_secs(20));
    let wakeups = site.wakeups() - before;
    println!(
        "at rest, 100 stored sessions: {rss} KiB, {threads} threads, {wakeups} wake-ups in 20 s   \
         bar: 6144 KiB, 0"
    );
    let mut ws = Ws::connect(site.port, TOKEN);
    let cpu = site.cpu_ms();
    let begin = Instant::now();
    let times = (0..1_000).map(|n| turn(&mut ws, "main", &format!("warm-{n}"), "say 5 words"));
    let times: Vec<Duration> = times.collect();
    let (all, cpu) = (begin.elapsed(), site.cpu_ms() - cpu);
    println!(
        "warm text turn, NORMAL: {:.3} ms median, {:.0} a second, {:.3} ms of our processor \
         time   bar: 1 ms, 0.5 ms",
        median(times),
        1_000.0 / all.as_secs_f64(),
        cpu as f64 / 1_000.0
    );
    println!("after 1,000 turns: {} KiB   bar: 10240", site.status("VmRSS"));
    std::fs::create_dir_all(state.join("workspace")).expect("a directory");
    std::fs::write(state.join("workspace/a.txt"), "some text\n").expect("a file");
    let tools = (0..200).map(|n| turn(&mut ws, "main", &format!("tool-{n}"), "read a.txt"));
    println!("warm tool turn (read), NORMAL: {:.3} ms median   bar: 4", median(tools.collect()));
    let fresh =
        (0..50).map(|n| turn(&mut ws, &format!("f{n}"), &format!("fresh-{n}"), "say 5 words"));
    let fresh = median(fresh.collect());
    turn(&mut ws, "s1", "long-first", "say 5 words");
    let long = (0..50).map(|n| turn(&mut ws, "s1", &format!("long-{n}"), "say 5 words"));
    let long = median(long.collect());
    println!(
        "a turn in a session of 2,000 messages: {long:.3} ms, in a new one {fresh:.3} ms: {:.2} \
         times   bar: 1.2",
        long / fresh
    );
    site.stop();
}

/// Turns a second over so many sessions at once.
fn load(state: &Path, synchronous: &str, sessions: usize, turns: usize) -> f64 {
    let site = start(state, synchronous);
    let port = site.port;
    let begin = Instant::now();
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let mode = synchronous.to_owned();
            std::thread::spawn(move || {
                let mut ws = Ws::connect(port, TOKEN);
                let mut left = vec![turns; sessions / 4];
                let send = |ws: &mut Ws, n: usize, left: usize| {
                    let run = format!("{client}-{n}-{left}-{mode}");
                    let params = json!({"sessionKey": format!("l{client}-{n}"),
                        "message": "say 5 words", "idempotencyKey": run});
                    ws.send("chat.send", params);
                };
                for (n, turns) in left.iter().enumerate() {
                    send(&mut ws, n, *turns);
                }
                let mut open = left.len();
                let end = Instant::now() + Duration::from_secs(60);
                while open > 0 {
                    let frame = ws.next(end).expect("a frame");
                    let (chat, id) = (&frame["payload"], frame["payload"]["runId"].as_str());
                    let mine = id.filter(|id| id.starts_with(&format!("{client}-")));
                    let (Some(id), true) =
                        (mine, frame["event"] == "chat" && chat["state"] == "final")
                    else {
                        continue;
                    };
                    let n: usize =
                        id.split('-').nth(1).and_then(|n| n.parse().ok()).expect("a number");
                    left[n] -= 1;
                    if left[n] == 0 {
                        open -= 1;
                    } else {
                        send(&mut ws, n, left[n]);
                    }
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("a client");
    }
    let rate = (sessions * turns) as f64 / begin.elapsed().as_secs_f64();
    site.stop();
    rate
}

/// A long answer that so many clients are told: processor time, and events of each.
fn wide(state: &Path, clients: usize) -> (u64, f64) {
    let site = start(state, "normal");
    let port = site.port;
    let readers: Vec<_> = (0..clients)
        .map(|_| {
            let mut ws = Ws::connect(port, TOKEN);
            std::thread::spawn(move || {
                ws.until(|f| f["event"] == "chat" && f["payload"]["state"] == "final");
                ws.events
            })
        })
        .collect();
    let mut ws = Ws::connect(port, TOKEN);
    let before = site.cpu_ms();
    turn(&mut ws, "main", &format!("wide-{clients}"), "say 5000 words");
    let events: u64 = readers.into_iter().map(|reader| reader.join().expect("a client")).sum();
    let cpu = site.cpu_ms() - before;
    site.stop();
    (cpu, events as f64 / clients as f64)
}

fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    fill(dir.path(), 100, 2_000);
    starts(dir.path());
    at_rest(dir.path());
    let normal = load(dir.path(), "normal", 32, 100);
    println!("32 sessions, NORMAL: {normal:.0} turns a second   bar: 2,000");
    let full = load(dir.path(), "full", 32, 40);
    println!("32 sessions, FULL: {full:.0} turns a second   bar: 500");
    let (one, _) = wide(dir.path(), 1);
    let (many, events) = wide(dir.path(), 50);
    println!(
        "5,000 deltas to 50 clients: {many} ms of processor time, to one {one} ms: {:.1} times; \
         {events:.0} events each   bar: 2 times",
        many as f64 / one.max(1) as f64
    );
}
