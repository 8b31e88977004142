//! The gateway's control plane, with a real process behind it: the config and the log
//! (spec/gateway.md Y19 to Y22, spec/config.md C11 to C16).

#![allow(clippy::unwrap_used)] // A failure here is a failure of the test.

mod common;
#[path = "common/ws.rs"]
mod ws;

use common::{Home, Left, Running};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use ws::Ws;

const TOKEN: &str = "a token of the tests";
const MARK: &str = "__OPENCLAW_REDACTED__";

struct Site {
    running: Running,
    port: u16,
}

fn start(home: &Home) -> Site {
    let args = ["gateway", "--json", "--token", TOKEN, "--port", "0"];
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

    fn stop(self) -> Left {
        self.running.signal(Signal::TERM);
        let left = self.running.end(20_000);
        assert_eq!(left.status, Some(0), "{left:?}");
        left
    }
}

fn file(home: &Home) -> PathBuf {
    home.state().join("stepclaw.json")
}

/// A provider that answers every call with its own name, and tells which model was asked for and
/// with which key.
fn provider(name: &'static str) -> (u16, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, asked) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Some((stream, seen)) =
                stream.ok().and_then(|mut s| Some((s.try_clone().ok()?, request(&mut s)?)))
            else {
                continue;
            };
            let _ = sender.send(seen);
            answer(stream, name);
        }
    });
    (port, asked)
}

fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut key) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let lower = line.to_lowercase();
        if let Some(n) = lower.strip_prefix("content-length:") {
            length = n.trim().parse().ok()?;
        }
        if lower.starts_with("authorization:") {
            key = line.split_whitespace().last()?.to_owned();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body: Value = serde_json::from_slice(&body).ok()?;
    Some((body["model"].as_str()?.to_owned(), key))
}

fn answer(mut stream: TcpStream, name: &str) {
    let chunk = |delta: Value, reason: Value| {
        json!({"id": "x", "object": "chat.completion.chunk", "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
    };
    let first = chunk(json!({"role": "assistant", "content": format!("from {name}")}), Value::Null);
    let body =
        format!("data: {first}\n\ndata: {}\n\ndata: [DONE]\n\n", chunk(json!({}), json!("stop")));
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
}

fn said(ws: &mut Ws, run: &str) -> String {
    ws.call("chat.send", json!({"sessionKey": "main", "message": "hello", "idempotencyKey": run}));
    let last = |chat: &Value| chat["runId"] == run && chat["state"] != "delta";
    let end = ws.event("chat", last)["payload"].clone();
    end["message"]["content"][0]["text"].as_str().unwrap_or(&end.to_string()).to_owned()
}

fn patch(ws: &mut Ws, patch: &Value) -> Value {
    let hash = ws.call("config.get", json!({}))["payload"]["hash"].clone();
    let mut params = json!({"raw": patch.to_string()});
    if hash.is_string() {
        params["baseHash"] = hash;
    }
    ws.call("config.patch", params)
}

/// Y20, O20: a model that is patched in answers the next run of a conversation that is in use; its
/// key is stored, sent, and told to nobody.
#[test]
fn a_model_is_changed_while_the_gateway_runs() {
    let home = Home::new();
    let ((one, first), (two, second)) = (provider("one"), provider("two"));
    let of = |port: u16, key: &str| {
        json!({"baseUrl": format!("http://127.0.0.1:{port}/v1"), "apiKey": key,
            "models": [{"id": "m"}]})
    };
    let config = json!({"models": {"providers": {"one": of(one, "key-canary-1")}},
        "agents": {"defaults": {"model": "one/m"}}});
    home.config(&format!("// mine\n{config}"));
    let site = start(&home);
    let mut ws = site.connect();
    assert_eq!(said(&mut ws, "r1"), "from one");
    assert_eq!(first.recv().unwrap(), ("m".to_owned(), "key-canary-1".to_owned()));
    let change = json!({"models": {"providers": {"two": of(two, "key-canary-2")}},
        "agents": {"defaults": {"model": "two/m"}}, "gateway": {"port": 4_711}});
    let done = patch(&mut ws, &change)["payload"].clone();
    assert_eq!(done["ok"], true, "{done}");
    let of_two = |key: &str| format!("models.providers.two.{key}");
    let applied =
        ["agents.defaults.model".to_owned(), of_two("apiKey"), of_two("baseUrl"), of_two("models")];
    assert_eq!(done["applied"], json!(applied));
    assert_eq!(done["requiresRestart"], json!(["gateway.port"]));
    assert_eq!(done["restart"]["scheduled"], false);
    assert_eq!(done["config"]["models"]["providers"]["two"]["apiKey"], MARK);
    assert_eq!(said(&mut ws, "r2"), "from two");
    assert_eq!(second.recv().unwrap().1, "key-canary-2");
    let models = ws.call("models.list", json!({}))["payload"]["models"].clone();
    assert!(models.to_string().contains("\"two\""), "{models}");
    let seen = ws.call("config.get", json!({}))["payload"].clone();
    assert!(!seen.to_string().contains("canary"), "{seen}");
    assert_eq!((&seen["valid"], &seen["hash"]), (&json!(true), &done["hash"]));
    assert_ne!(seen["appliedConfigHash"], seen["hash"], "the port waits for the next start");
    // What was shown is stored again, with its secrets.
    let again = json!({"raw": seen["raw"], "baseHash": seen["hash"]});
    assert_eq!(ws.call("config.set", again)["ok"], true);
    let stored = std::fs::read_to_string(file(&home)).unwrap();
    assert!(stored.contains("key-canary-2") && !stored.contains(MARK), "{stored}");
    assert_eq!(common::mode(&file(&home)), 0o644, "the mode that it had");
    let before = std::fs::read_to_string(home.state().join("stepclaw.json.bak")).unwrap();
    assert!(before.starts_with("// mine"), "{before}");
    let left = site.stop();
    let log = std::fs::read_to_string(home.state().join("logs/gateway.log")).unwrap();
    for text in [&log, &left.err, &left.out] {
        assert!(!text.contains("canary") && !text.contains(TOKEN), "{text}");
    }
    assert!(log.contains("agents.defaults.model"), "{log}");
}

/// Y20, C14: what is wrong, stale or not allowed changes nothing on the disk and nothing here.
#[test]
fn a_wrong_change_changes_nothing() {
    let home = Home::new();
    home.config("{ gateway: { auth: { token: 'tok-canary-9' } } } // as it was");
    let site = start(&home);
    let mut ws = site.connect();
    let text = std::fs::read_to_string(file(&home)).unwrap();
    let unknown = patch(&mut ws, &json!({"gateway": {"prot": 1}}));
    let message = unknown["error"]["message"].as_str().unwrap();
    assert_eq!(unknown["error"]["code"], "INVALID_REQUEST");
    assert!(message.contains("gateway.prot") && message.contains("\"port\""), "{message}");
    let issue = &unknown["error"]["details"]["issues"][0];
    assert_eq!(issue["path"], "gateway.prot");
    assert!(issue["line"].as_u64().unwrap() > 1, "{issue}");
    let missing = json!({"models": {"providers": {"a": {"baseUrl": "http://h",
        "apiKey": "${NO_SUCH_KEY}", "models": [{"id": "m"}]}}},
        "agents": {"defaults": {"model": "a/m"}}});
    for (change, words) in [
        (json!({"agents": {"defaults": {"model": "a/b"}}}), "there is no model"),
        (missing, "NO_SUCH_KEY"),
        (json!({"gateway": {"auth": {"password": MARK}}}), "stands for no stored value"),
        (json!({"channels": {}}), "not supported yet"),
    ] {
        let refused = patch(&mut ws, &change);
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{words}: {refused}");
    }
    let raw = "{}";
    let none = ws.call("config.patch", json!({"raw": raw}));
    assert!(none["error"]["message"].as_str().unwrap().contains("base hash required"), "{none}");
    for method in ["config.set", "config.apply", "config.patch"] {
        let stale = ws.call(method, json!({"raw": raw, "baseHash": "0"}));
        let message = stale["error"]["message"].as_str().unwrap();
        assert!(message.contains("config changed since last load"), "{stale}");
    }
    let mut reader = Ws::open(site.port, "");
    reader.hello(TOKEN, json!({"scopes": ["operator.read"]}));
    assert_eq!(reader.call("config.get", json!({}))["ok"], true);
    for method in ["config.set", "config.apply", "config.patch"] {
        let refused = reader.call(method, json!({"raw": raw}));
        assert_eq!(refused["error"]["details"]["missingScope"], "operator.admin", "{method}");
    }
    assert_eq!(std::fs::read_to_string(file(&home)).unwrap(), text);
    assert!(!home.state().join("stepclaw.json.bak").exists());
    site.stop();
}

/// Y20: who patches without end is held up (protocol 1.6); a client of another kind is not.
#[test]
fn writes_are_limited() {
    let home = Home::new();
    let site = start(&home);
    let mut ws = site.connect();
    for _ in 0..30 {
        let refused = ws.call("config.patch", json!({"raw": "{}", "baseHash": "0"}));
        assert_eq!(refused["error"]["code"], "INVALID_REQUEST", "{refused}");
    }
    let held = ws.call("config.patch", json!({"raw": "{}"}));
    assert_eq!(held["error"]["code"], "UNAVAILABLE", "{held}");
    assert_eq!(held["error"]["details"]["method"], "config.patch");
    assert!(held["error"]["retryAfterMs"].as_u64().unwrap() <= 60_000);
    let other = ws.call("config.apply", json!({"raw": "{}"}));
    assert_eq!(other["payload"]["ok"], true, "{other}");
    site.stop();
}

/// Y19: the schema names every key, and one is looked up by its path.
#[test]
fn the_schema_is_told() {
    let home = Home::new();
    let site = start(&home);
    let mut ws = Ws::open(site.port, "");
    let hello = ws.hello(TOKEN, json!({}))["payload"].clone();
    let methods = hello["features"]["methods"].to_string();
    for method in ["config.get", "config.schema", "config.patch", "config.apply", "logs.tail"] {
        assert!(methods.contains(&format!("\"{method}\"")), "{method}");
    }
    let schema = ws.call("config.schema", json!({}))["payload"].clone();
    let port = &schema["schema"]["properties"]["gateway"]["properties"]["port"];
    assert_eq!((&port["default"], &port["type"]), (&json!(18_789), &json!("integer")));
    assert_eq!(schema["uiHints"]["gateway.auth.token"]["sensitive"], true);
    assert!(schema["generatedAt"].as_str().unwrap().ends_with('Z'), "{}", schema["generatedAt"]);
    let one = ws.call("config.schema.lookup", json!({"path": "tools.exec"}))["payload"].clone();
    assert_eq!((&one["path"], &one["reloadKind"]), (&json!("tools.exec"), &json!("hot")));
    let none = ws.call("config.schema.lookup", json!({"path": "tools.nothing"}));
    assert_eq!(none["error"]["message"], "config schema path not found");
    site.stop();
}

/// Y10: who has no scope is told neither where things are nor who is there, by the hello or by
/// `health`.
#[test]
fn a_hello_without_scopes_tells_little() {
    let home = Home::new();
    let site = start(&home);
    let mut reader = Ws::open(site.port, "");
    let hello = reader.hello(TOKEN, json!({"scopes": ["operator.read"]}));
    let path = &hello["payload"]["snapshot"]["health"]["sessions"]["path"];
    assert!(path.as_str().unwrap().ends_with("agent.sqlite"), "{path}");
    said(&mut site.connect(), "r1");
    let mut nobody = Ws::open(site.port, "");
    let hello = nobody.hello(TOKEN, json!({"scopes": []}));
    assert_eq!(hello["ok"], true, "{hello}");
    let health = nobody.call("health", json!({}))["payload"].clone();
    assert_eq!((&health["ok"], &health["sessions"]["count"]), (&json!(true), &json!(1)));
    for told in [&hello["payload"]["snapshot"], &health] {
        let text = told.to_string();
        let state = home.state().to_string_lossy().into_owned();
        for word in [state.as_str(), "agent.sqlite", "gateway-client"] {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }
    assert_eq!(health["sessions"]["recent"], json!([]));
    let refused = nobody.call("config.get", json!({}));
    assert_eq!(refused["error"]["details"]["code"], "MISSING_SCOPE", "{refused}");
    site.stop();
}

/// C16: one key from the command line, with a gateway and without one.
#[test]
fn one_key_is_set_from_outside() {
    let home = Home::new();
    let alone = home.run(&["config", "set", "agents.defaults.timeoutSeconds", "77"]);
    assert_eq!(alone.status, Some(0), "{alone:?}");
    assert_eq!(common::mode(&file(&home)), 0o600);
    let get = |key: &str| home.run(&["config", "get", key]).out.trim().to_owned();
    assert_eq!(get("agents.defaults.timeoutSeconds"), "77");
    assert_eq!(get("gateway.port"), "18789", "what nobody has set has its default");
    assert_eq!(home.run(&["config", "get", "gateway.prot"]).status, Some(2));
    let wrong = home.run(&["config", "set", "gateway.port", "many"]);
    assert_eq!(wrong.status, Some(2));
    assert!(wrong.err.contains("gateway.port"), "{}", wrong.err);
    // The command line finds the token in the config.
    assert_eq!(home.run(&["config", "set", "gateway.auth.token", TOKEN]).status, Some(0));
    assert_eq!(get("gateway.auth.token"), "[redacted]");
    let site = start(&home);
    let hot = home.run(&["config", "set", "logging.level", "debug"]);
    assert!(hot.out.contains("has taken up: logging.level"), "{hot:?}");
    let later = home.run(&["config", "set", "gateway.port", "4712"]);
    assert!(later.out.contains("waits for the gateway's next start: gateway.port"), "{later:?}");
    let bad = home.run(&["config", "set", "logging.level", "loud"]);
    assert_eq!(bad.status, Some(1), "{bad:?}");
    let gone = home.run(&["config", "unset", "gateway.port"]);
    assert!(gone.out.contains("Nothing has changed"), "{gone:?}");
    let text = std::fs::read_to_string(file(&home)).unwrap();
    std::fs::write(file(&home), text.replace("debug", "warn")).unwrap();
    let again = home.run(&["config", "reload"]);
    assert!(again.out.contains("has taken up: logging.level"), "{again:?}");
    let text = std::fs::read_to_string(file(&home)).unwrap();
    assert!(text.contains(TOKEN) && !text.contains(MARK), "{text}");
    site.stop();
}

/// Y22: the log tells what an operator needs and never what was said; it is followed by a cursor.
#[test]
fn the_log_has_no_words() {
    let home = Home::new();
    home.config("{ logging: { level: 'debug' } }");
    let site = start(&home);
    let mut stranger = Ws::open(site.port, "");
    stranger.hello("tok-canary-1", json!({}));
    stranger.end();
    let mut ws = site.connect();
    let send = |ws: &mut Ws, run: &str, text: &str| {
        let params = json!({"sessionKey": "main", "message": text, "idempotencyKey": run});
        ws.call("chat.send", params);
        ws.event("chat", |chat| chat["runId"] == run && chat["state"] != "delta");
    };
    send(&mut ws, "r1", "run: echo canary-4711");
    let mut first = Value::Null;
    common::until("the end of the run", || {
        first = ws.call("logs.tail", json!({}))["payload"].clone();
        first["lines"].to_string().contains("run r1 of agent:main:main: ended: completed")
    });
    assert!(first["file"].as_str().unwrap().ends_with("logs/gateway.log"), "{first}");
    assert_eq!(first["cursor"], first["size"]);
    send(&mut ws, "r2", "fail");
    let mut next = Value::Null;
    common::until("the model's error", || {
        next = ws.call("logs.tail", json!({"cursor": first["cursor"]}))["payload"].clone();
        next["lines"].to_string().contains("ended: model error")
    });
    assert_eq!(next["reset"], false);
    assert!(!next["lines"].to_string().contains("run r1"), "{next}");
    let shown = home.command(&["logs"]);
    let mut shown = shown;
    shown.env("STEPCLAW_GATEWAY_TOKEN", TOKEN);
    let shown = Running(shown.spawn().unwrap()).end(20_000);
    assert!(shown.out.contains("AUTH_TOKEN_MISMATCH"), "{shown:?}");
    site.stop();
    let after = home.run(&["logs", "--json", "--limit", "3"]);
    assert_eq!(after.out.lines().count(), 3, "{after:?}");
    let path = home.state().join("logs/gateway.log");
    assert_eq!(common::mode(&path), 0o600);
    let text = std::fs::read_to_string(path).unwrap();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        for name in ["time", "level", "subsystem", "message"] {
            assert!(line[name].is_string(), "{line}");
        }
    }
    assert!(!text.contains("canary") && !text.contains(TOKEN), "{text}");
    for words in [
        "is ready",
        "listens at",
        "connected: gateway-client",
        "gone: gateway-client",
        "refused: AUTH_TOKEN_MISMATCH",
        "run r1 of agent:main:main: started",
        "told to stop",
        "has stopped",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
}
