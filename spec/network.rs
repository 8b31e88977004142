//! The gateway's socket, with a real process behind it (spec/gateway.md, spec/auth.md).

#![allow(clippy::unwrap_used)] // A failure here is a failure of the test.

mod common;
#[path = "common/ws.rs"]
mod ws;

use common::{Home, Running};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};
use ws::Ws;

const TOKEN: &str = "a token of the tests";

struct Site {
    running: Running,
    port: u16,
}

fn start(home: &Home, more: &[&str]) -> Site {
    let args = [&["gateway", "--json", "--token", TOKEN], more].concat();
    let args = if more.contains(&"--port") { args } else { [&args[..], &["--port", "0"]].concat() };
    let mut child = home.command(&args).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    let port = u16::try_from(ready["port"].as_u64().unwrap()).unwrap();
    Site { running: Running(child), port }
}

impl Site {
    fn connect(&self) -> Ws {
        Ws::connect(self.port, TOKEN)
    }

    fn stop(self) -> Option<i32> {
        self.running.signal(Signal::TERM);
        self.running.end(20_000).status
    }
}

fn send(ws: &mut Ws, key: &str, run: &str, text: &str) -> Value {
    ws.call("chat.send", json!({"sessionKey": key, "message": text, "idempotencyKey": run}))
}

fn last(ws: &mut Ws, run: &str) -> Value {
    let last = |chat: &Value| chat["runId"] == run && chat["state"] != "delta";
    ws.event("chat", last)["payload"].clone()
}

/// Y10: whoever does not say who they are is told nothing and closed, and so is who says it
/// wrongly; nothing but `connect` comes first.
#[test]
fn b192_strangers_are_told_nothing() {
    let home = Home::new();
    let site = start(&home, &[]);
    let mut wrong = Ws::open(site.port, "");
    let refused = wrong.hello("another token", json!({}));
    assert_eq!(refused["error"]["details"]["code"], "AUTH_TOKEN_MISMATCH", "{refused}");
    assert_eq!(wrong.end().0, 1008);
    let mut silent = Ws::open(site.port, "");
    silent.send("health", json!({}));
    assert_eq!(silent.end().0, 1008);
    for origin in ["https://evil.example", "null"] {
        let mut page = Ws::open(site.port, &format!("Origin: {origin}\r\n"));
        let refused = page.hello(TOKEN, json!({}));
        let code = &refused["error"]["details"]["code"];
        assert_eq!(code, "CONTROL_UI_ORIGIN_NOT_ALLOWED", "{origin}: {refused}");
    }
    let mut old = Ws::open(site.port, "");
    let refused = old.hello(TOKEN, json!({"minProtocol": 5, "maxProtocol": 9}));
    assert_eq!(refused["error"]["details"]["code"], "PROTOCOL_MISMATCH");
    assert_eq!(old.end().0, 1002);
    let mut odd = Ws::open(site.port, "");
    let refused = odd.hello(TOKEN, json!({"foo": 1}));
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(
        words.contains("invalid connect params: at root: unexpected property 'foo'"),
        "{words}"
    );
    let mut huge = Ws::open(site.port, "");
    huge.text(&"x".repeat(70_000));
    assert_eq!(huge.end().0, 1009);
    assert_eq!(site.stop(), Some(0));
}

/// Y9, Y11, Y12: hello says what there is; a turn is told in order, its final once, its rows with
/// their marks; every event has the next number.
#[test]
fn a_turn_is_told() {
    let home = Home::new();
    let site = start(&home, &[]);
    let mut ws = Ws::open(site.port, "");
    let hello = ws.hello(TOKEN, json!({}))["payload"].clone();
    assert_eq!((&hello["type"], &hello["protocol"]), (&json!("hello-ok"), &json!(4)));
    assert_eq!(hello["snapshot"]["sessionDefaults"]["mainSessionKey"], "agent:main:main");
    let methods = hello["features"]["methods"].as_array().unwrap();
    assert!(methods.contains(&json!("chat.send")) && !methods.contains(&json!("connect")));
    ws.call("sessions.subscribe", json!({}));
    let started = send(&mut ws, "main", "r1", "then: say 3 words; run: echo hi");
    assert_eq!(started["payload"], json!({"runId": "r1", "status": "started"}));
    let mut frames = Vec::new();
    let end = Instant::now() + Duration::from_secs(20);
    while let Some(frame) = ws.next(end) {
        let over = frame["event"] == "sessions.changed" && frame["payload"]["phase"] == "end";
        frames.push(frame);
        if over {
            break;
        }
    }
    let numbers: Vec<u64> = frames.iter().map(|f| f["seq"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    let of = |name: &str| frames.iter().filter(|f| f["event"] == name).collect::<Vec<_>>();
    let finals: Vec<_> =
        of("chat").into_iter().filter(|f| f["payload"]["state"] == "final").collect();
    assert_eq!(finals.len(), 1);
    let rows = of("session.message");
    let roles: Vec<&str> =
        rows.iter().map(|f| f["payload"]["message"]["role"].as_str().unwrap()).collect();
    assert_eq!((roles[0], *roles.last().unwrap()), ("user", "assistant"), "{roles:?}");
    assert!(roles.contains(&"toolResult"), "{roles:?}");
    assert_eq!(rows[0]["payload"]["message"]["__openclaw"]["idempotencyKey"], "r1:user");
    let tools = of("agent").into_iter().filter(|f| f["payload"]["stream"] == "tool");
    let phases: Vec<&str> =
        tools.map(|f| f["payload"]["data"]["phase"].as_str().unwrap()).collect();
    assert_eq!((phases.first(), phases.last()), (Some(&"start"), Some(&"result")));
    let history = ws.call("chat.history", json!({"sessionKey": "main"}))["payload"].clone();
    let told: Vec<&Value> = rows.iter().map(|f| &f["payload"]["message"]["__openclaw"]).collect();
    let kept: Vec<&Value> =
        history["messages"].as_array().unwrap().iter().map(|m| &m["__openclaw"]).collect();
    assert_eq!(told, kept, "events and history agree");
    assert_eq!(site.stop(), Some(0));
}

/// Y12, invariant 9: a client that comes back has in its history what it missed, and numbers begin
/// anew (B196).
#[test]
fn b196_who_comes_back_misses_nothing() {
    let home = Home::new();
    let site = start(&home, &[]);
    let mut first = site.connect();
    send(&mut first, "main", "r1", "say 2 words");
    last(&mut first, "r1");
    drop(first);
    let mut second = site.connect();
    send(&mut second, "main", "r2", "wait 1");
    drop(second);
    let mut third = site.connect();
    let waited = third.call("agent.wait", json!({"runId": "r2", "timeoutMs": 10_000}));
    assert_eq!(waited["payload"]["status"], "ok", "a client that goes does not stop its run");
    let history = third.call("chat.history", json!({"sessionKey": "main"}));
    assert_eq!(history["payload"]["messages"].as_array().unwrap().len(), 4, "{history}");
    let mut fourth = site.connect();
    fourth.call("sessions.subscribe", json!({}));
    send(&mut fourth, "main", "r3", "say 1 word");
    let event = fourth.until(|frame| frame["type"] == "event" && frame["seq"].is_u64());
    assert_eq!(event["seq"], 1, "{event}");
    assert_eq!(site.stop(), Some(0));
}

/// Y5, semantics 6.1: stopping from another connection; the stopped run's end is told once, and a
/// steered message ends without words of its own.
#[test]
fn stopping_and_steering() {
    let home = Home::new();
    let site = start(&home, &[]);
    let (mut ws, mut other) = (site.connect(), site.connect());
    send(&mut ws, "main", "r1", "wait 30");
    let stopped = other.call("chat.abort", json!({"sessionKey": "main"}));
    assert_eq!(stopped["payload"]["runIds"], json!(["r1"]));
    assert_eq!(last(&mut ws, "r1")["state"], "aborted");
    send(&mut ws, "main", "r2", "then: wait 1; say 1 word");
    send(&mut ws, "main", "r3", "say 2 words");
    let joined = last(&mut ws, "r3");
    assert_eq!((&joined["state"], &joined["message"]), (&json!("final"), &Value::Null), "{joined}");
    assert_eq!(last(&mut ws, "r2")["state"], "final");
    assert_eq!(site.stop(), Some(0));
}

/// Y14 to Y16: sessions are made, set, forked, listed, reset and deleted, and all who follow them
/// is told.
#[test]
fn sessions_as_a_whole() {
    let home = Home::new();
    let site = start(&home, &[]);
    let mut ws = site.connect();
    ws.call("sessions.subscribe", json!({}));
    let made =
        ws.call("sessions.create", json!({"key": "one", "label": "First"}))["payload"].clone();
    assert_eq!(
        (&made["key"], &made["entry"]["label"]),
        (&json!("agent:main:one"), &json!("First"))
    );
    ws.event("sessions.changed", |of| of["reason"] == "create");
    send(&mut ws, "one", "r1", "say 2 words");
    last(&mut ws, "r1");
    let forked = json!({"key": "two", "parentSessionKey": "one", "fork": true});
    let forked = ws.call("sessions.create", forked)["payload"].clone();
    assert_eq!(forked["entry"]["parentSessionKey"], "agent:main:one", "{forked}");
    let history = ws.call("chat.history", json!({"sessionKey": "two"}));
    assert_eq!(history["payload"]["messages"].as_array().unwrap().len(), 2, "{history}");
    let patched =
        ws.call("sessions.patch", json!({"key": "two", "label": "Second", "pinned": true}));
    assert_eq!(patched["payload"]["entry"]["label"], "Second", "{patched}");
    let model = ws.call("sessions.patch", json!({"key": "two", "model": "nothing/here"}));
    assert!(model["error"]["message"].as_str().unwrap().contains("offline/scripted"), "{model}");
    let list = ws.call("sessions.list", json!({}))["payload"].clone();
    let keys: Vec<&Value> =
        list["sessions"].as_array().unwrap().iter().map(|s| &s["key"]).collect();
    assert_eq!(keys, [&json!("agent:main:two"), &json!("agent:main:one")], "the pinned one first");
    let found = ws.call("sessions.resolve", json!({"label": "First"}));
    assert_eq!(found["payload"]["key"], "agent:main:one");
    let reset = ws.call("sessions.reset", json!({"key": "one"}))["payload"].clone();
    assert_eq!((&reset["ok"], &reset["entry"]["sessionId"]), (&json!(true), &made["sessionId"]));
    let history = ws.call("chat.history", json!({"sessionKey": "one"}));
    assert_eq!(history["payload"]["messages"], json!([]), "{history}");
    let deleted = ws.call("sessions.delete", json!({"key": "one"}));
    assert_eq!(deleted["payload"]["deleted"], true);
    ws.event("sessions.changed", |of| of["reason"] == "delete");
    let described = ws.call("sessions.describe", json!({"key": "one"}));
    assert_eq!(described["payload"]["session"], Value::Null);
    assert_eq!(site.stop(), Some(0));
}

/// Y17: what is put into a conversation from outside is there for the next run, too.
#[test]
fn words_from_outside() {
    let home = Home::new();
    let site = start(&home, &[]);
    let mut ws = site.connect();
    send(&mut ws, "main", "r1", "say 1 word");
    last(&mut ws, "r1");
    let put = json!({"sessionKey": "main", "message": "a note", "label": "cron"});
    let put = ws.call("chat.inject", put)["payload"].clone();
    let told = ws.event("chat", |chat| chat["state"] == "final" && chat["seq"] == 0);
    assert_eq!(told["payload"]["message"]["__openclaw"]["id"], put["messageId"], "{told}");
    send(&mut ws, "main", "r2", "say 1 word");
    last(&mut ws, "r2");
    let history = ws.call("chat.history", json!({"sessionKey": "main"}))["payload"].clone();
    let texts: Vec<String> = history["messages"].as_array().unwrap().iter().map(text).collect();
    assert_eq!(texts[2], "[cron]\n\na note");
    let one =
        ws.call("chat.message.get", json!({"sessionKey": "main", "messageId": put["messageId"]}));
    assert_eq!(text(&one["payload"]["message"]), "[cron]\n\na note", "{one}");
    let missing = ws.call("chat.inject", json!({"sessionKey": "nowhere", "message": "x"}));
    assert_eq!(missing["error"]["code"], "INVALID_REQUEST", "{missing}");
    assert_eq!(site.stop(), Some(0));
}

fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks[0]["text"].as_str().unwrap_or_default().to_owned(),
    }
}

/// U1 to U8: the ledger tells what ran and never what was said.
#[test]
fn the_ledger_has_no_words() {
    let home = Home::new();
    let site = start(&home, &[]);
    let mut ws = site.connect();
    send(&mut ws, "main", "r1", "run: echo canary-4711");
    last(&mut ws, "r1");
    let end = Instant::now() + Duration::from_secs(10);
    let events = loop {
        let list = ws.call("audit.activity.list", json!({}))["payload"]["events"].clone();
        if list.as_array().is_some_and(|list| list.len() >= 4) || Instant::now() > end {
            break list;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let actions: Vec<&str> =
        events.as_array().unwrap().iter().rev().map(|e| e["action"].as_str().unwrap()).collect();
    let wanted =
        ["agent.run.started", "tool.action.started", "tool.action.finished", "agent.run.finished"];
    assert_eq!(actions, wanted, "{events}");
    assert!(!events.to_string().contains("canary"), "{events}");
    assert_eq!(site.stop(), Some(0));
    for name in ["state.sqlite", "state.sqlite-wal", "logs/gateway.log"] {
        let bytes = std::fs::read(home.state().join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!text.contains("canary-4711") && !text.contains(TOKEN), "{name}");
    }
}

/// Y12: everybody is told that the gateway ends, and what ran is there again after it.
#[test]
fn a_restart_is_told() {
    let home = Home::new();
    let site = start(&home, &[]);
    let mut ws = site.connect();
    send(&mut ws, "main", "r1", "say 1 word");
    last(&mut ws, "r1");
    let port = site.port;
    site.running.signal(Signal::TERM);
    ws.event("shutdown", |_| true);
    assert_eq!(ws.end().0, 1012);
    assert_eq!(site.running.end(20_000).status, Some(0));
    let site = start(&home, &["--port", &port.to_string()]);
    let mut again = site.connect();
    let same = json!({"sessionKey": "main", "message": "say 1 word", "idempotencyKey": "r1"});
    let same = again.call("chat.send", same);
    assert_eq!(same["payload"]["status"], "ok", "B045: {same}");
    assert_eq!(site.stop(), Some(0));
}

/// B188: one client that never reads delays nobody.
#[test]
fn b188_one_who_never_reads() {
    let home = Home::new();
    let site = start(&home, &[]);
    let stalled = site.connect();
    let mut ws = site.connect();
    ws.call("sessions.subscribe", json!({}));
    for n in 0..30 {
        let run = format!("r{n}");
        let begin = Instant::now();
        send(&mut ws, "main", &run, "say 200 words");
        assert_eq!(last(&mut ws, &run)["state"], "final");
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
    drop(stalled);
    assert_eq!(site.stop(), Some(0));
}
