//! The gateway over standard input and output (spec/gateway.md).

#![allow(clippy::unwrap_used)] // A failure here is a failure of the test.

mod common;

use common::Home;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

struct Client {
    running: common::Running,
    frames: Receiver<Value>,
    seen: Vec<Value>,
}

fn start(home: &Home, more: &[&str]) -> Client {
    let mut command = home.command(&[&["gateway", "--stdio"], more].concat());
    command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (sender, frames) = channel();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                return;
            }
        }
    });
    let mut client = Client { running: common::Running(child), frames, seen: vec![] };
    client.until(|frame| frame["event"] == "ready");
    client
}

impl Client {
    fn raw(&mut self, line: &str) {
        writeln!(self.running.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn request(&mut self, id: &str, method: &str, params: Value) {
        let frame = json!({"type": "req", "id": id, "method": method, "params": params});
        self.raw(&frame.to_string());
    }

    /// The next frame that fits; those before it are kept.
    fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.seen.iter().position(&fits) {
            return self.seen.remove(at);
        }
        loop {
            let frame = self.frames.recv_timeout(Duration::from_secs(20)).unwrap();
            if fits(&frame) {
                return frame;
            }
            self.seen.push(frame);
        }
    }

    fn answer(&mut self, id: &str) -> Value {
        self.until(|frame| frame["type"] == "res" && frame["id"] == id)
    }

    fn send(&mut self, id: &str, key: &str, text: &str, mode: &str) -> Value {
        self.request(
            id,
            "chat.send",
            json!({
                "sessionKey": key, "message": text, "idempotencyKey": id, "queueMode": mode,
            }),
        );
        self.answer(id)
    }

    /// The end of a run, as its waiter is told.
    fn end(&mut self, run: &str) -> Value {
        let id = format!("wait for {run}");
        self.request(&id, "agent.wait", json!({"runId": run, "timeoutMs": 20_000}));
        self.answer(&id)["payload"].clone()
    }

    fn close(mut self) -> Option<i32> {
        drop(self.running.0.stdin.take());
        self.running.end(20_000).status
    }
}

fn user_texts(home: &Home, key: &str) -> Vec<String> {
    let left = home.run(&["sessions", "export", key, "--format", "jsonl"]);
    let lines = left.out.lines().skip(1).map(|l| serde_json::from_str::<Value>(l).unwrap());
    let users = lines.filter(|l| l["message"]["role"] == "user");
    users.map(|l| l["message"]["content"].as_str().unwrap().to_owned()).collect()
}

/// Y1: accepting and finishing are two answers; a repeat runs nothing twice, also after a restart,
/// and another request under the same key is a conflict.
#[test]
fn b045_b046_accepted_once() {
    let home = Home::new();
    let params = json!({"message": "run: echo x >> ran", "idempotencyKey": "a"});
    let mut client = start(&home, &[]);
    client.request("1", "agent", params.clone());
    let accepted = client.answer("1");
    assert_eq!(accepted["payload"]["status"], "accepted");
    assert!(accepted["payload"]["acceptedAt"].is_u64(), "{accepted}");
    let done = client.answer("1");
    assert_eq!((&done["payload"]["status"], &done["ok"]), (&json!("ok"), &json!(true)));
    assert_eq!(done["payload"]["result"]["payloads"].as_array().unwrap().len(), 1, "{done}");
    client.request("2", "agent", params.clone());
    assert_eq!(client.answer("2")["payload"], done["payload"], "the stored answer");
    client.request("3", "agent", json!({"message": "run: echo y >> ran", "idempotencyKey": "a"}));
    let conflict = client.answer("3");
    assert_eq!(conflict["error"]["details"]["reason"], "chat-request-conflict");
    assert_eq!(client.close(), Some(0));
    let mut client = start(&home, &[]);
    client.request("4", "agent", params);
    assert_eq!(client.answer("4")["payload"]["status"], "ok");
    assert_eq!(client.close(), Some(0));
    assert_eq!(std::fs::read_to_string(home.work("ran")).unwrap(), "x\n");
}

/// Y2: waiting stops nothing; what still waits for its turn is told apart.
#[test]
fn waiting_is_only_waiting() {
    let home = Home::new();
    let mut client = start(&home, &["--max-concurrent", "1"]);
    client.send("long", "one", "wait 2", "steer");
    client.send("queued", "two", "say 1 word", "steer");
    for (run, phase) in [("long", Value::Null), ("queued", json!("queue"))] {
        client.request(run, "agent.wait", json!({"runId": run, "timeoutMs": 100}));
        let waited = client.answer(run);
        assert_eq!(waited["payload"]["status"], "timeout", "{waited}");
        assert_eq!(waited["payload"]["timeoutPhase"], phase);
    }
    assert_eq!(client.end("queued")["status"], "ok");
    assert_eq!(client.end("long")["status"], "ok");
    client.request("x", "agent.wait", json!({"runId": "nobody"}));
    assert_eq!(client.answer("x")["error"]["message"], "unknown run: nobody");
    assert_eq!(client.close(), Some(0));
}

/// Y3, B030: queue modes, on the real thing.
#[test]
fn messages_in_the_middle_of_a_run() {
    let home = Home::new();
    let mut client = start(&home, &[]);
    client.send("a", "s", "wait 1", "steer");
    client.send("b", "s", "say 2 words", "steer");
    assert_eq!(client.end("b")["joinedRunId"], "a", "it was steered into the active run");
    client.send("c", "s", "wait 1", "steer");
    for (id, text) in [("d", "say 1 word"), ("e", "say 3 words")] {
        client.send(id, "s", text, "collect");
    }
    client.request(
        "set",
        "chat.send",
        json!({
            "sessionKey": "s", "message": "/queue collect debounce:100ms", "idempotencyKey": "set",
        }),
    );
    assert_eq!(client.answer("set")["ok"], true);
    assert_eq!(client.end("d")["joinedRunId"], "e", "one combined turn");
    client.send("f", "s", "wait 30", "steer");
    client.send("g", "s", "say 1 word", "followup");
    client.send("h", "s", "say 2 words", "interrupt");
    assert_eq!(client.end("h")["status"], "ok");
    assert_eq!(client.end("f")["termination"], json!({"kind": "aborted", "cause": "User"}));
    assert_eq!(client.end("g")["termination"]["rule"], "queue_interrupt");
    assert_eq!(client.close(), Some(0));
    let texts = user_texts(&home, "s");
    assert_eq!(texts[..3], ["wait 1", "say 2 words", "wait 1"]);
    assert!(texts[3].starts_with("[Queued messages while agent was busy]"), "{texts:?}");
    assert!(texts[3].contains("Queued #1\nsay 1 word") && texts[3].contains("Queued #2\nsay 3"));
    assert_eq!(texts[4..], ["wait 30", "say 2 words"]);
}

/// Y3, Q2, C4: the config's queue mode holds where neither the message nor the session has one.
#[test]
fn the_configs_queue_holds() {
    let home = Home::new();
    home.config("{ messages: { queue: { mode: 'steer-backlog', debounceMs: 0, cap: 7 } } }");
    let mut client = start(&home, &[]);
    let send = |client: &mut Client, id: &str, text: &str| {
        let params = json!({"sessionKey": "s", "message": text, "idempotencyKey": id});
        client.request(id, "chat.send", params);
        client.answer(id)
    };
    let shown = send(&mut client, "q", "/queue")["payload"].clone();
    assert_eq!(
        shown,
        json!({"mode": "followup", "debounceMs": 0, "cap": 7, "drop": "summarize"}),
        "{shown}"
    );
    send(&mut client, "a", "wait 1");
    send(&mut client, "b", "say 2 words");
    let b = client.end("b");
    assert_eq!((&b["status"], &b["joinedRunId"]), (&json!("ok"), &Value::Null), "its own turn");
    send(&mut client, "set", "/queue steer");
    send(&mut client, "c", "wait 1");
    send(&mut client, "d", "say 1 word");
    assert_eq!(client.end("d")["joinedRunId"], "c", "the session's own setting wins");
    assert_eq!(client.close(), Some(0));
}

/// Y2, N2, C4: the config's capacity: two conversations one after the other.
#[test]
fn the_configs_capacity_holds() {
    let home = Home::new();
    home.config("{ agents: { defaults: { maxConcurrent: 1 } } }");
    let mut client = start(&home, &[]);
    client.send("a", "one", "run: echo a1 >> log; sleep 0.5; echo a2 >> log", "steer");
    common::until("the first", || home.work("log").exists());
    client.send("b", "two", "run: echo b >> log", "steer");
    client.request("w", "agent.wait", json!({"runId": "b", "timeoutMs": 50}));
    assert_eq!(client.answer("w")["payload"]["timeoutPhase"], "queue");
    assert_eq!(client.end("b")["status"], "ok");
    assert_eq!(std::fs::read_to_string(home.work("log")).unwrap(), "a1\na2\nb\n");
    assert_eq!(client.close(), Some(0));
}

/// Y5, Z4, B206, B207: a message that finds its session stale begins it anew and is its first; who
/// listens is told.
#[test]
fn b207_a_stale_session_begins_anew() {
    let home = Home::new();
    home.config("{ session: { reset: { mode: 'idle', idleMinutes: 45 } } }");
    let mut client = start(&home, &[]);
    client.send("a", "s", "say 1 word", "steer");
    assert_eq!(client.end("a")["status"], "ok");
    let path = home.state().join("agents/main/agent.sqlite");
    let back = "UPDATE sessions SET interaction_at = interaction_at - 95 * 60000";
    rusqlite::Connection::open(path).unwrap().execute(back, []).unwrap();
    client.send("b", "s", "say 2 words", "steer");
    let idle = |frame: &Value| frame["payload"]["reason"] == "idle";
    let changed = client.until(|frame| frame["event"] == "sessions.changed" && idle(frame));
    assert_eq!(changed["payload"]["sessionKey"], "agent:main:s");
    assert_eq!(client.end("b")["status"], "ok");
    client.send("c", "s", "say 3 words", "steer");
    assert_eq!(client.end("c")["status"], "ok");
    assert_eq!(client.close(), Some(0));
    assert_eq!(user_texts(&home, "s"), ["say 1 word", "say 2 words", "say 3 words"]);
    assert!(home.run(&["sessions", "show", "s"]).out.contains("revision 1"));
}

/// Y4, B209, B034: commands do not wait in the queue and are not given to the model; after a reset
/// the model sees nothing of before.
#[test]
fn b209_a_reset_does_not_wait() {
    let home = Home::new();
    let mut client = start(&home, &[]);
    client.send("a", "s", "wait 30", "steer");
    client.send("b", "s", "say 1 word", "followup");
    client.request("r", "sessions.reset", json!({"key": "s", "reason": "new"}));
    let reset = client.answer("r");
    assert_eq!((&reset["payload"]["reason"], &reset["ok"]), (&json!("new"), &json!(true)));
    for run in ["a", "b"] {
        assert_eq!(client.end(run)["termination"], json!({"kind": "aborted", "cause": "User"}));
    }
    let sent = client.send("c", "s", "/new say 2 words", "steer");
    assert_eq!(sent["payload"]["status"], "started");
    assert_eq!(client.end("c")["status"], "ok");
    client.request(
        "q",
        "chat.send",
        json!({
            "sessionKey": "s", "message": "/queue sideways", "idempotencyKey": "q",
        }),
    );
    let refused = client.answer("q");
    assert!(refused["error"]["message"].as_str().unwrap().contains("sideways"), "{refused}");
    assert_eq!(client.close(), Some(0));
    assert_eq!(user_texts(&home, "s"), ["wait 30", "say 2 words"]);
    let shown = home.run(&["sessions", "show", "s"]);
    assert!(shown.out.contains("revision 2"), "{}", shown.out);
}

/// Y5: stopping takes what waits first, then what runs; deleting leaves nothing.
#[test]
fn stop_and_delete() {
    let home = Home::new();
    let mut client = start(&home, &[]);
    client.send("a", "s", "wait 30", "steer");
    client.send("b", "s", "say 1 word", "followup");
    client.request("stop", "chat.abort", json!({"sessionKey": "s"}));
    let stopped = client.answer("stop");
    assert_eq!(stopped["payload"]["runIds"], json!(["a", "b"]), "{stopped}");
    assert_eq!(client.end("b")["status"], "error");
    assert_eq!(client.end("a")["status"], "error");
    client.request("d", "sessions.delete", json!({"key": "s"}));
    assert_eq!(client.answer("d")["payload"]["deleted"], true);
    client.request("e", "sessions.delete", json!({"key": "s"}));
    assert_eq!(client.answer("e")["payload"]["deleted"], false, "it is gone");
    assert_eq!(client.close(), Some(0));
    assert!(home.run(&["sessions", "list"]).out.contains("No conversations yet"));
}

/// Y6: what is no request is told so, with what is wrong, and nothing else happens.
#[test]
fn bad_frames() {
    let home = Home::new();
    let mut client = start(&home, &[]);
    for (line, words) in [
        ("{", "invalid frame"),
        ("[]", "must be object"),
        (r#"{"type":"req","method":"health"}"#, "must have required property 'id'"),
        (r#"{"type":"req","id":"1","method":"health","x":1}"#, "unexpected property 'x'"),
        (
            r#"{"type":"req","id":"1","method":"health","params":{"y":1}}"#,
            "unexpected property 'y'",
        ),
        (r#"{"type":"req","id":"1","method":"nothing"}"#, "unknown method: nothing"),
        (
            r#"{"type":"req","id":"1","method":"agent","params":{"idempotencyKey":"k"}}"#,
            "must have required property 'message'",
        ),
        (
            r#"{"type":"req","id":"1","method":"chat.send","params":
               {"sessionKey":"agent:","message":"x","idempotencyKey":"k"}}"#,
            "at /sessionKey",
        ),
    ] {
        client.raw(&line.replace('\n', " "));
        let answer = client.until(|frame| frame["type"] == "res");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{line}: {answer}");
    }
    client.request("h", "health", json!({}));
    assert_eq!(client.answer("h")["payload"]["runs"], 0);
    let network = home.run(&["gateway"]);
    assert_eq!(network.status, Some(75));
    assert_eq!(client.close(), Some(0));
}

/// Y7, B026, B032: stopped in good order, what waits is there again after the start, in order, and
/// what ran is taken up once.
#[test]
fn b032_a_stop_in_good_order() {
    let home = Home::new();
    let mut client = start(&home, &[]);
    client.send("a", "s", "run: echo x >> ran && sleep 30", "steer");
    common::until("the tool", || home.work("ran").exists());
    client.send("b", "s", "say 1 word", "followup");
    client.send("c", "t", "say 2 words", "followup");
    assert_eq!(client.end("c")["status"], "ok");
    client.running.signal(Signal::TERM);
    client.request("late", "agent", json!({"message": "x", "idempotencyKey": "late"}));
    assert_eq!(client.answer("late")["error"]["code"], "UNAVAILABLE");
    client.running.signal(Signal::TERM);
    client.until(|frame| frame["event"] == "shutdown");
    assert_eq!(client.close(), Some(0));
    let mut client = start(&home, &[]);
    assert_eq!(client.end("b")["status"], "ok", "it waited through the restart");
    let a = client.end("a");
    assert_eq!(a["termination"], json!({"kind": "aborted", "cause": "Restart"}));
    assert_eq!(client.close(), Some(0));
    assert_eq!(std::fs::read_to_string(home.work("ran")).unwrap(), "x\n", "not run again");
}

/// X13: thousands of requests at once are all accepted: the loop and its store do not wait for
/// each other, and a client that writes faster than it reads is held back.
#[test]
fn a_flood_of_requests_is_accepted() {
    let home = Home::new();
    let mut client = start(&home, &["--max-concurrent", "1"]);
    client.send("first", "first", "wait 60", "steer");
    for n in 0..3_000 {
        client.request(
            &format!("r{n}"),
            "chat.send",
            json!({
                "sessionKey": format!("s{}", n % 500), "message": "say 1 word",
                "idempotencyKey": format!("r{n}"), "queueMode": "followup",
            }),
        );
    }
    for n in 0..3_000 {
        let id = format!("r{n}");
        let answer = client.until(|frame| frame["type"] == "res");
        assert_eq!((&answer["id"], &answer["payload"]["status"]), (&json!(id), &json!("started")));
    }
}

/// V1 to V4, X10: what was running when the process was killed is closed honestly and taken up
/// once, by a turn that may only look.
#[test]
fn an_interrupted_run_is_taken_up_again() {
    let home = Home::new();
    let mut client = start(&home, &[]);
    client.send("a", "s", "run: echo x >> ran && sleep 60", "steer");
    common::until("the tool", || home.work("ran").exists());
    client.running.0.kill().unwrap();
    let mut client = start(&home, &[]);
    let of = |frame: &Value| frame["payload"]["sessionKey"] == "agent:main:s";
    let taken = client.until(|frame| of(frame) && frame["payload"]["state"] == "final");
    assert_ne!(taken["payload"]["runId"], "a");
    assert_eq!(client.end("a")["termination"], json!({"kind": "aborted", "cause": "Restart"}));
    assert_eq!(client.close(), Some(0));
    let texts = user_texts(&home, "s");
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[1].contains("run a") && texts[1].contains("change nothing"), "{texts:?}");
    assert_eq!(std::fs::read_to_string(home.work("ran")).unwrap(), "x\n", "not run again");
}
