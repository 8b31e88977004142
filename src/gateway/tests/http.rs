//! Requests as bytes, answers as bytes (spec/http.md).

use super::super::auth::{Auth, Devices, Entropy, Gate, Issuer, Origins, Policy};
use super::super::{Do, Facts, FileGot, FileWanted, Gateway, Pages, Sight, ToolFacts, Ways};
use crate::base::{Millis, RunId};
use crate::config::Secret;
use crate::engine::sessions::{Arrival, Event, Input, Sessions, Target, Waits, Why};
use crate::engine::turns::{Group, Mode};
use crate::engine::{self, Cause, Termination, Who};
use crate::records::{Found, Page};
use crate::transcript::{Content, Delta, ToolOutput};
use serde_json::{Value, json};

const SECRET: &str = "the-secret";

struct Bed {
    gateway: Gateway,
    sessions: Sessions,
    now: u64,
    conns: u32,
}

/// An answer: its status, its head in lower case, and its body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.map(str::trim)
    }
}

fn plain(text: &str) -> Waits {
    Waits::plain(Group::new("", "", "", ""), text.into())
}

fn gate(mode: &str, origins: Origins, loopback_only: bool) -> Gate {
    let secret = Secret::new(SECRET);
    let auth = Auth::new(mode, Some(&secret), Some(&secret), false).unwrap();
    let entropy = Entropy { token: [9; 32], id: [9; 10] };
    let (issuer, _) = Issuer::current(None, &auth, &entropy);
    let policy = Policy { origins, auto_approve_local: true, loopback_only };
    Gate::new(auth, issuer, policy, Devices::default())
}

impl Bed {
    fn new() -> Bed {
        Bed::with(gate("token", Origins::default(), true), "")
    }

    fn with(gate: Gate, base: &str) -> Bed {
        let tool = |name: &str, safe| ToolFacts { name: name.into(), description: "".into(), safe };
        let facts = Facts {
            agent: "main".into(),
            version: "1.2".into(),
            tools: vec![tool("read", true), tool("exec", false)],
            http: Pages { ui: true, ui_root: true, base: base.into(), chat: true },
            ..Facts::default()
        };
        let identity = |key: &str, text: &str| format!("{key} {text}").into();
        let mut gateway = Gateway::new(facts, Ways { identity, plain }, Millis(0));
        gateway.guard(gate, "token", Millis(0));
        Bed { gateway, sessions: super::sessions(), now: 5_000, conns: 0 }
    }

    /// A new connection from an address sends this.
    fn send_from(&mut self, from: &str, bytes: &str) -> u32 {
        self.conns += 1;
        let now = Millis(self.now);
        assert!(self.gateway.open(self.conns, from.parse().unwrap(), now));
        let sight = at(&self.sessions, self.now);
        self.gateway.bytes(self.conns, bytes.as_bytes(), sight);
        self.conns
    }

    fn send(&mut self, bytes: &str) -> u32 {
        self.send_from("127.0.0.1", bytes)
    }

    /// What was written to a connection, as text.
    fn written(&mut self, conn: u32) -> String {
        let sight = at(&self.sessions, self.now);
        let Some(wire) = self.gateway.wire(conn) else { return String::new() };
        let bytes: Vec<u8> = wire.out().flatten().copied().collect();
        self.gateway.written(conn, bytes.len(), sight);
        String::from_utf8(bytes).unwrap()
    }

    fn answer(&mut self, conn: u32) -> Answer {
        let text = self.written(conn);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let status = head[9..12].parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    fn get(&mut self, path: &str, headers: &str) -> Answer {
        let conn = self.send(&request("GET", path, headers, ""));
        self.answer(conn)
    }

    fn post(&mut self, path: &str, body: &Value) -> u32 {
        self.send(&request("POST", path, &bearer(), &body.to_string()))
    }

    /// The run that was begun, if one was.
    fn arrival(&mut self) -> Option<Arrival> {
        self.gateway.take().into_iter().find_map(|one| match one {
            Do::Give(Input::Arrive(arrival)) => Some(*arrival),
            _ => None,
        })
    }

    fn event(&mut self, event: &Event) {
        self.gateway.clock(Millis(self.now));
        self.gateway.of_sessions(event);
    }

    fn run(&mut self, body: &Value) -> (u32, Arrival) {
        let conn = self.post("/v1/chat/completions", body);
        let arrival = self.arrival().expect("a run");
        let (run, key) = (arrival.run.clone(), arrival.key.clone());
        self.event(&Event::Accepted { run, key, at: Millis(self.now) });
        (conn, arrival)
    }

    fn says(&mut self, arrival: &Arrival, event: &engine::Event) {
        self.now += 100;
        self.gateway.clock(Millis(self.now));
        self.gateway.told(&arrival.key, &arrival.run, event, &[], |_| true);
    }

    /// A whole reply in two pieces.
    fn replies(&mut self, arrival: &Arrival, pieces: [&str; 2]) {
        let whole = pieces.concat();
        let body = crate::sim::bodies::text(&whole);
        self.says(arrival, &engine::Event::MessageStart(Who::Reply(None)));
        for piece in pieces {
            self.says(arrival, &engine::Event::MessageUpdate(Delta::Text(piece.into())));
        }
        self.says(arrival, &engine::Event::MessageEnd(Who::Reply(Some(body))));
    }

    fn ends(&mut self, arrival: &Arrival, termination: Termination) {
        let (key, run) = (arrival.key.clone(), arrival.run.clone());
        self.event(&Event::Ended { key, run, termination, into: None });
    }

    fn wanted(&mut self) -> Vec<FileWanted> {
        let all = self.gateway.take().into_iter();
        all.filter_map(|one| if let Do::File(wanted) = one { Some(wanted) } else { None }).collect()
    }

    /// Asks for a page; its file is this.
    fn page(&mut self, path: &str, headers: &str, got: FileGot) -> (FileWanted, Answer) {
        let conn = self.send(&request("GET", path, headers, ""));
        let wanted = self.wanted().pop().expect("a file");
        let sight = at(&self.sessions, self.now);
        self.gateway.file(wanted.ticket, got, sight);
        (wanted, self.answer(conn))
    }
}

fn at(sessions: &Sessions, now: u64) -> Sight<'_> {
    Sight { now: Millis(now), ..super::sight(sessions) }
}

fn bearer() -> String {
    format!("Authorization: Bearer {SECRET}\r\n")
}

fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    let host = if headers.contains("Host: ") { "" } else { "Host: 127.0.0.1:1\r\n" };
    let length = body.len();
    let length =
        if method == "POST" { format!("Content-Length: {length}\r\n") } else { String::new() };
    format!("{method} {path} HTTP/1.1\r\n{host}{headers}{length}\r\n{body}")
}

fn found(text: &str, packed: Option<&'static str>) -> FileGot {
    let modified = "Mon, 01 Jan 2001 00:00:00 GMT".to_owned();
    FileGot::Found { bytes: text.as_bytes().into(), packed, modified }
}

fn user(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": text}]})
}

const DONE: Termination = Termination::Completed { cut: false };

/// J1, J3: probes are for everybody, details are not; while the gateway stops they say so.
#[test]
fn probes() {
    let mut bed = Bed::new();
    for (path, body) in [
        ("/health", json!({"ok": true, "status": "live"})),
        ("/readyz", json!({"ready": true})),
        ("/startup", json!({"ok": true, "status": "started"})),
    ] {
        let answer = bed.get(path, "X-Forwarded-For: 1.2.3.4\r\n");
        assert_eq!((answer.status, answer.json()), (200, body), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let wrong = bed.get(path, "Authorization: Bearer no\r\n");
        assert!(wrong.json().get("uptimeMs").is_none(), "a wrong secret is told nothing");
    }
    assert_eq!(bed.get("/startup", "").json()["version"], "1.2");
    assert_eq!(bed.get("/ready", "").json()["uptimeMs"], 5_000);
    let far = bed.send_from("192.0.2.1", &request("GET", "/ready", &bearer(), ""));
    assert_eq!(bed.answer(far).json()["failing"], json!([]));
    let conn = bed.send(&request("POST", "/healthz", "", ""));
    let answer = bed.answer(conn);
    assert_eq!((answer.status, answer.header("allow")), (405, Some("get, head")));
    bed.gateway.shutdown("drained");
    assert_eq!(bed.get("/ready", "").status, 503);
    assert_eq!(bed.get("/health", "").status, 200);
    let answer = bed.get("/", "");
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
}

/// H30, H31, H32, J3: who may ask, before a body is taken.
#[test]
fn the_gate_of_requests() {
    let mut bed = Bed::new();
    let path = "/sessions/main/history";
    let missing = bed.get(path, "");
    assert_eq!((missing.status, missing.header("www-authenticate")), (401, Some("bearer")));
    assert_eq!(missing.json()["error"]["type"], "unauthorized");
    for (headers, status) in [
        ("Host: evil.example\r\n", 403),
        ("Host: localhost:1\r\n", 401),
        ("Origin: https://evil.example\r\n", 403),
        ("Origin: http://localhost:9\r\n", 401),
        ("Authorization: Basic x\r\nX-Forwarded-For: 1\r\n", 401),
    ] {
        let conn = bed.send_from("127.0.0.1", &request("GET", path, headers, ""));
        bed.now += 10_000;
        bed.gateway.lines_tick(at(&bed.sessions, bed.now));
        assert_eq!(bed.answer(conn).status, status, "{headers}");
    }
    // The head alone is refused: nobody waits for 20 MB of a stranger.
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 20000000";
    let conn = bed.send(&format!("{head}\r\n\r\n"));
    assert_eq!(bed.answer(conn).status, 401);
    let long = "POST /tools/invoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3000000";
    let conn = bed.send(&format!("{long}\r\n{}\r\n", bearer()));
    assert_eq!(bed.answer(conn).status, 413);
    let mut open = Bed::with(gate("none", Origins::default(), true), "");
    open.send(&request("GET", path, "", ""));
    assert!(!open.gateway.take().is_empty(), "mode none asks for nothing");
    assert_eq!(open.get(path, "Host: rebound.example\r\n").status, 403);
    let origins = Origins { allowed: vec!["https://ui.example".into()], host_fallback: false };
    let mut listed = Bed::with(gate("none", origins, true), "");
    let named = "Host: ui.example\r\nOrigin: https://ui.example\r\n";
    listed.send(&request("GET", path, named, ""));
    assert!(!listed.gateway.take().is_empty(), "an allowed origin names us");
    let mut lan = Bed::with(gate("token", Origins::default(), false), "");
    assert_eq!(lan.get(path, "Host: box.example\r\n").status, 401);
}

/// H7, H30: guesses from here are answered later and later, those from elsewhere lock.
#[test]
fn guesses_are_counted() {
    let mut bed = Bed::new();
    let wrong = request("GET", "/v1/models", "Authorization: Bearer guess\r\n", "");
    let conn = bed.send(&wrong);
    assert_eq!(bed.written(conn), "", "held back");
    assert_eq!(bed.gateway.due(), Some(Millis(bed.now + 250)));
    bed.now += 250;
    bed.gateway.lines_tick(at(&bed.sessions, bed.now));
    assert_eq!(bed.answer(conn).status, 401);
    let gone = bed.send(&wrong);
    bed.gateway.lost(gone);
    bed.now += 10_000;
    bed.gateway.lines_tick(at(&bed.sessions, bed.now));
    assert!(bed.gateway.wire(gone).is_none());
    for n in 0..10 {
        let conn = bed.send_from("192.0.2.9", &wrong);
        assert_eq!(bed.answer(conn).status, 401, "{n}");
    }
    let right = request("GET", "/v1/models", &bearer(), "");
    let conn = bed.send_from("192.0.2.9", &right);
    let locked = bed.answer(conn);
    assert_eq!((locked.status, locked.header("retry-after")), (429, Some("300")));
    assert_eq!(bed.get("/v1/models", &bearer()).status, 200);
}

/// J2, J4, J6: routes and models; off means 404.
#[test]
fn models_and_nothing() {
    let mut bed = Bed::new();
    let list = bed.get("/v1/models", &bearer()).json();
    let ids: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["openclaw", "openclaw/default", "openclaw/main"]);
    assert_eq!(bed.get("/v1/models/openclaw/main", &bearer()).json()["object"], "model");
    let none = bed.get("/v1/models/gpt-4", &bearer());
    assert_eq!((none.status, &none.json()["error"]["code"]), (404, &json!("model_not_found")));
    for path in ["/v1/embeddings", "/api/x", "/plugins/x"] {
        assert_eq!(bed.get(path, &bearer()).status, 404, "{path}");
    }
    let conn = bed.send(&request("DELETE", "/v1/chat/completions", &bearer(), ""));
    assert_eq!(bed.answer(conn).status, 405);
    let mut off = Bed::new();
    off.gateway.facts.http.chat = false;
    assert_eq!(off.get("/v1/models", &bearer()).status, 404);
    let conn = off.post("/v1/chat/completions", &user("x"));
    assert_eq!(off.answer(conn).status, 404);
}

/// J4, J6, J7: what no run is begun for.
#[test]
fn completions_are_judged() {
    let mut bed = Bed::new();
    let with = |name: &str, value: Value| {
        let mut body = user("x");
        body[name] = value;
        body.to_string()
    };
    for (headers, body, status, param) in [
        ("", "{".to_owned(), 400, Value::Null),
        ("", "[]".to_owned(), 400, Value::Null),
        ("", with("tools", json!([{}])), 400, json!("tools")),
        ("", with("model", json!("gpt-4")), 404, json!("model")),
        ("X-Openclaw-Agent-Id: other\r\n", user("x").to_string(), 404, json!("model")),
        ("X-Openclaw-Model: x/y\r\n", user("x").to_string(), 400, Value::Null),
        ("X-Openclaw-Session-Key: agent:x:y\r\n", user("x").to_string(), 400, Value::Null),
    ] {
        let headers = format!("{}{headers}", bearer());
        let conn = bed.send(&request("POST", "/v1/chat/completions", &headers, &body));
        let answer = bed.answer(conn);
        assert_eq!((answer.status, &answer.json()["error"]["param"]), (status, &param), "{body}");
        assert!(bed.arrival().is_none());
    }
    let keys = [
        ("", json!("anna"), "agent:main:openai-user:anna"),
        ("X-Openclaw-Session-Key: work\r\n", json!("anna"), "agent:main:work"),
        ("", json!("Anna B"), "agent:main:openai-user:sha256-"),
        ("", Value::Null, "agent:main:openai:chatcmpl-"),
    ];
    for (headers, user, key) in keys {
        let headers = format!("{}{headers}", bearer());
        bed.send(&request("POST", "/v1/chat/completions", &headers, &with("user", user)));
        let arrival = bed.arrival().unwrap();
        assert!(arrival.key.starts_with(key), "{}", arrival.key);
        assert_eq!(arrival.wait.inline.mode, Some(Mode::FollowUp));
    }
    let mut far = Bed::with(gate("token", Origins::default(), false), "");
    far.post("/v1/chat/completions", &user("/new"));
    let arrival = far.arrival().expect("a command is words");
    assert_eq!(arrival.body.content, Content::Text("/new".into()));
}

/// J9: the whole answer, with its usage and the hints that were not followed.
#[test]
fn a_completion() {
    let mut bed = Bed::new();
    let mut body = user("x");
    body["temperature"] = json!(0.5);
    let (conn, arrival) = bed.run(&body);
    bed.replies(&arrival, ["one ", "two"]);
    assert_eq!(bed.written(conn), "", "nothing before the end");
    bed.ends(&arrival, DONE);
    let answer = bed.answer(conn);
    assert_eq!((answer.status, answer.header("x-stepclaw-ignored")), (200, Some("temperature")));
    let whole = answer.json();
    assert_eq!(whole["choices"][0]["message"]["content"], "one two");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert_eq!((&whole["object"], &whole["id"]), (&json!("chat.completion"), &json!(arrival.run)));
    assert!(whole["usage"]["total_tokens"].is_u64());
    let (conn, arrival) = bed.run(&user("x"));
    bed.replies(&arrival, ["a", "b"]);
    bed.ends(&arrival, Termination::Completed { cut: true });
    assert_eq!(bed.answer(conn).json()["choices"][0]["finish_reason"], "length");
}

/// The pieces of a stream, without the framing of chunks.
fn pieces(text: &str) -> Vec<String> {
    let lines = text.split("\r\n").filter_map(|line| line.strip_prefix("data: "));
    lines.map(|line| line.trim().to_owned()).collect()
}

fn streamed(pieces: &[String]) -> String {
    let json = |piece: &String| serde_json::from_str::<Value>(piece).unwrap_or_default();
    let text = |piece: Value| piece["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
    pieces.iter().map(json).filter_map(text).collect()
}

/// J9: a stream: its role, its text as it comes, messages set off, its end.
#[test]
fn a_stream() {
    let mut bed = Bed::new();
    let mut body = user("x");
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let (conn, arrival) = bed.run(&body);
    let begin = bed.written(conn);
    assert!(begin.starts_with("HTTP/1.1 200 OK") && begin.contains("text/event-stream"));
    let role: Value = serde_json::from_str(&pieces(&begin)[0]).unwrap();
    assert_eq!(role["choices"][0]["delta"]["role"], "assistant");
    bed.replies(&arrival, ["one ", "two"]);
    let first = pieces(&bed.written(conn));
    assert_eq!(first.len(), 2, "{first:?}");
    bed.replies(&arrival, ["three", ""]);
    bed.ends(&arrival, DONE);
    let last = pieces(&bed.written(conn));
    assert_eq!(streamed(&[first, last.clone()].concat()), "one two\n\nthree");
    let at = |n: usize| serde_json::from_str::<Value>(&last[last.len() - n]).unwrap();
    assert_eq!(last[last.len() - 1], "[DONE]");
    assert!(at(2)["usage"]["total_tokens"].is_u64() && at(2)["choices"] == json!([]));
    assert_eq!(at(3)["choices"][0]["finish_reason"], "stop");
    assert_eq!(bed.gateway.waiting(), 0);
}

/// J9: an attempt that begins anew is set off: what was said cannot be taken back.
#[test]
fn what_begins_anew_is_set_off() {
    let mut bed = Bed::new();
    let mut body = user("x");
    body["stream"] = json!(true);
    let (conn, arrival) = bed.run(&body);
    bed.says(&arrival, &engine::Event::MessageStart(Who::Reply(None)));
    bed.says(&arrival, &engine::Event::MessageUpdate(Delta::Text("half ".into())));
    bed.says(&arrival, &engine::Event::MessageReset);
    bed.says(&arrival, &engine::Event::MessageUpdate(Delta::Text("whole".into())));
    let body = crate::sim::bodies::text("whole");
    bed.says(&arrival, &engine::Event::MessageEnd(Who::Reply(Some(body))));
    bed.ends(&arrival, DONE);
    let text = bed.written(conn);
    assert_eq!(streamed(&pieces(&text)), "half \n\nwhole");
}

/// J10: refused, failed, stopped.
#[test]
fn completions_that_fail() {
    let mut bed = Bed::new();
    let conn = bed.post("/v1/chat/completions", &user("x"));
    let run = bed.arrival().unwrap().run;
    bed.event(&Event::Refused(run, Why::Draining));
    let refused = bed.answer(conn);
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    for end in [
        Termination::ToolLoop,
        Termination::Aborted { cause: Cause::User },
        Termination::Aborted { cause: Cause::Timeout },
    ] {
        let (conn, arrival) = bed.run(&user("x"));
        bed.ends(&arrival, end.clone());
        let answer = bed.answer(conn);
        assert_eq!(
            (answer.status, answer.header("x-should-retry")),
            (500, Some("false")),
            "{end:?}"
        );
        assert_eq!(answer.json()["error"]["type"], "api_error");
        let mut body = user("x");
        body["stream"] = json!(true);
        let (conn, arrival) = bed.run(&body);
        bed.ends(&arrival, end);
        let told = pieces(&bed.written(conn));
        assert!(told[1].contains("\"error\"") && told[2] == "[DONE]", "{told:?}");
    }
}

/// J11: whoever goes stops the run, in every state of it, and nothing is left.
#[test]
fn a_client_that_goes_stops_its_run() {
    for (stream, accepted, closes) in
        [(true, true, true), (false, true, false), (true, false, true), (false, false, false)]
    {
        let mut bed = Bed::new();
        let mut body = user("x");
        body["stream"] = json!(stream);
        let conn = bed.post("/v1/chat/completions", &body);
        let arrival = bed.arrival().unwrap();
        let (run, key) = (arrival.run.clone(), arrival.key.clone());
        if accepted {
            let (run, key) = (run.clone(), key.clone());
            bed.event(&Event::Accepted { run, key, at: Millis(1) });
        }
        if closes {
            bed.gateway.lost(conn);
        } else {
            let sight = at(&bed.sessions, bed.now);
            bed.gateway.end_of_input(conn, sight);
        }
        let given = bed.gateway.take();
        let abort = Input::Abort(Target::Run(run.clone()), Cause::Disconnect);
        assert!(given.contains(&Do::Give(abort)), "{given:?}");
        assert_eq!(bed.gateway.waiting(), 0);
        bed.written(conn);
        bed.ends(&arrival, Termination::Aborted { cause: Cause::Disconnect });
        assert!(bed.gateway.take().iter().all(|one| !matches!(one, Do::Give(_))));
        assert!(bed.gateway.wire(conn).is_none_or(super::super::wire::Wire::done));
    }
}

/// J12, J5: a history and its next page; an answer for nobody is told to nobody.
#[test]
fn histories() {
    let mut bed = Bed::new();
    let asked = |bed: &mut Bed| {
        let all = bed.gateway.take();
        let [Do::Ask(ticket, _)] = all[..] else { panic!("{all:?}") };
        ticket
    };
    let page = |session| Box::new(Page { session, entries: vec![], total: 0, waiting: vec![] });
    for (session, status) in [(Some(super::listed()), 200), (None, 404)] {
        let get = request("GET", "/sessions/main/history?limit=2&cursor=3", &bearer(), "");
        let conn = bed.send(&get);
        let ticket = asked(&mut bed);
        let sight = at(&bed.sessions, bed.now);
        bed.gateway.found(ticket, Ok(Found::History(page(session))), sight);
        let answer = bed.answer(conn);
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    for query in ["limit=0", "limit=x", "bogus=1", "cursor=1&offset=2"] {
        let answer = bed.get(&format!("/sessions/main/history?{query}"), &bearer());
        assert_eq!(answer.status, 400, "{query}");
    }
    let other = bed.get("/sessions/agent:other:main/history", &bearer());
    assert_eq!(other.status, 404, "{}", other.body);
    let conn = bed.send(&request("GET", "/sessions/main/history", &bearer(), ""));
    let ticket = asked(&mut bed);
    bed.gateway.lost(conn);
    let sight = at(&bed.sessions, bed.now);
    bed.gateway.found(ticket, Ok(Found::History(page(None))), sight);
    let conn = bed.post("/sessions/main/kill", &json!({}));
    let killed = bed.answer(conn).json();
    assert_eq!((&killed["killed"], &killed["status"]), (&json!(false), &json!("no-active-run")));
}

/// J13: one tool, its refusals and its failures.
#[test]
fn tools() {
    let mut bed = Bed::new();
    for (body, status, kind) in [
        (json!({"tool": "bogus"}), 404, "not_found"),
        (json!({"tool": "exec", "args": {"command": "x"}}), 403, "forbidden"),
        (json!({}), 400, "invalid_request"),
        (json!({"tool": "read", "name": "read"}), 400, "invalid_request"),
        (json!({"tool": "read", "args": []}), 400, "invalid_request"),
        (json!({"tool": "read", "sessionKey": "agent:x:y"}), 404, "not_found"),
    ] {
        let conn = bed.post("/tools/invoke", &body);
        let answer = bed.answer(conn);
        assert_eq!(answer.status, status, "{body} {}", answer.body);
        assert_eq!(
            (&answer.json()["ok"], &answer.json()["error"]["type"]),
            (&json!(false), &json!(kind))
        );
    }
    let call = json!({"tool": "read", "args": {"path": "a"}});
    for (result, status) in [
        (Ok(ToolOutput::text("words")), 200),
        (Ok(ToolOutput::error("no file")), 500),
        (Err("Validation failed".to_owned()), 400),
    ] {
        let conn = bed.post("/tools/invoke", &call);
        let all = bed.gateway.take();
        let [Do::Tool(asked)] = &all[..] else { panic!("{all:?}") };
        let sight = at(&bed.sessions, bed.now);
        bed.gateway.tool_done(asked.ticket, result, sight);
        let answer = bed.answer(conn);
        assert_eq!(answer.status, status, "{}", answer.body);
        if status == 200 {
            assert_eq!(answer.json()["result"]["content"][0]["text"], "words");
        }
    }
    let conns: Vec<u32> = (0..17).map(|_| bed.post("/tools/invoke", &call)).collect();
    assert_eq!(bed.answer(conns[16]).status, 503, "seventeen at once");
}

/// J15, J16, J18: the page, wherever it is asked for, under its policy.
#[test]
fn the_page() {
    let mut bed = Bed::with(gate("token", Origins::default(), true), "/claw");
    let html = "<html><script>x()</script><script src=\"./assets/a.js\"></script></html>";
    for path in ["/claw/", "/claw/chat/deep"] {
        let (wanted, answer) = bed.page(path, "Accept: text/html\r\n", found(html, None));
        assert_eq!((wanted.path.as_str(), wanted.packed.len()), ("index.html", 0));
        assert!(answer.body.contains("src=\"/claw/assets/a.js\""), "{}", answer.body);
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        assert_eq!(answer.header("x-frame-options"), Some("deny"));
        assert_eq!(answer.header("last-modified"), None);
        assert!(answer.header("content-security-policy").unwrap().contains("'sha256-"));
    }
    let moved = bed.get("/claw?x=1", "");
    assert_eq!((moved.status, moved.header("location")), (302, Some("/claw/?x=1")));
    assert_eq!(bed.get("/", "").status, 404);
    let page = bed.get("/claw/chat", "Accept: application/json\r\n");
    assert_eq!(page.status, 404, "no page for who takes none");
    let (_, missing) = bed.page("/claw/", "", FileGot::Missing);
    assert!(missing.status == 503 && missing.body.contains("gateway.controlUi.root"));
    bed.gateway.facts.http.ui_root = false;
    let how = bed.get("/claw/", "");
    assert!(how.status == 200 && how.body.contains("gateway.controlUi.root"), "{}", how.body);
    bed.gateway.facts.http.ui = false;
    assert_eq!(bed.get("/claw/", "").status, 404);
}

/// J16, J17: files, packed ones, and what is not sent.
#[test]
fn files() {
    let mut bed = Bed::new();
    let headers = "Accept-Encoding: gzip, br\r\nIf-Modified-Since: x\r\n";
    let (wanted, answer) = bed.page("/chat/assets/a.js", headers, found("x", Some("gz")));
    assert_eq!((wanted.path.as_str(), &wanted.packed[..]), ("assets/a.js", &["br", "gz"][..]));
    assert_eq!(wanted.since.as_deref(), Some("x"));
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    assert_eq!(answer.header("content-type"), Some("text/javascript; charset=utf-8"));
    assert!(answer.header("cache-control").unwrap().contains("immutable"));
    let (wanted, answer) = bed.page("/favicon.svg", "", found("x", None));
    assert!(wanted.packed.is_empty() && answer.header("last-modified").is_some());
    assert_eq!(answer.header("cache-control"), Some("no-cache"));
    for (got, status) in [
        (FileGot::Unchanged, 304),
        (FileGot::Missing, 404),
        (FileGot::Failed("too long".into()), 500),
    ] {
        assert_eq!(bed.page("/sw.js?v=1", "", got).1.status, status);
    }
    for path in ["/assets/a.js.br", "/.env.json", "/../x.json", "/%2e%2e/x.json", "/a%2fb.js"] {
        let status = bed.get(path, "").status;
        assert!(matches!(status, 400 | 404), "{path}: {status}");
        assert!(bed.wanted().is_empty(), "{path}");
    }
    let gone = bed.send(&request("GET", "/favicon.svg", "", ""));
    let wanted = bed.wanted().pop().unwrap();
    bed.gateway.lost(gone);
    let sight = at(&bed.sessions, bed.now);
    bed.gateway.file(wanted.ticket, FileGot::Missing, sight);
}

/// J19: the page's settings need the secret.
#[test]
fn settings_of_the_page() {
    let mut bed = Bed::new();
    assert_eq!(bed.get("/control-ui-config.json", "").status, 401);
    let config = bed.get("/__openclaw__/control-ui-config.json", &bearer()).json();
    for name in ["basePath", "assistantName", "assistantAvatar", "serverVersion", "embedSandbox"] {
        assert!(config[name].is_string(), "{name}");
    }
    assert_eq!(config["terminalEnabled"], false);
    assert_eq!(config["pluginAssetsRequireAuth"], true);
    assert!(config.get("serverBuildId").is_none());
}

/// J5: what was answered first is not told twice, and the connection serves the next request.
#[test]
fn one_request_at_a_time() {
    let mut bed = Bed::new();
    let two = request("GET", "/health", "", "") + &request("GET", "/nothing.json", "", "");
    let conn = bed.send(&two);
    assert_eq!(bed.written(conn).matches("HTTP/1.1").count(), 1, "one at a time");
    let wanted = bed.wanted().pop().expect("the second one");
    let sight = at(&bed.sessions, bed.now);
    bed.gateway.file(wanted.ticket, FileGot::Missing, sight);
    assert_eq!(bed.answer(conn).status, 404);
    let run = RunId::new("nobody");
    bed.event(&Event::Refused(run, Why::Draining));
    assert_eq!(bed.written(conn), "");
}
