//! Requests that are no WebSocket (`spec/http.md`): who is asked for, who may ask, and how an
//! answer is worded.

mod chat;
mod chunks;
mod index;
mod probes;
mod prompt;
mod sessions;
mod tools;
mod ui;

pub use tools::ToolAsked;
pub use ui::{FileGot, FileWanted};

use super::auth::{HttpRefusal, Peer};
use super::frame::{Fault, Params};
use super::hub::{Gateway, Sight};
use super::lines::{Stage, peer};
use super::out::Conn;
use super::wire::{Method, Request, Response, limits};
use crate::base::RunId;
use crate::base::limits::REQUESTS_MAX;
use chat::Completion;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use ui::Served;

/// Longest body of a tool's call, bytes.
const TOOL_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Longest body where none is expected, bytes.
const SMALL_BYTES_MAX: usize = 64 * 1024;

/// What the configuration says of pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pages {
    /// The Control UI is served.
    pub ui: bool,
    /// There is a directory with its files.
    pub ui_root: bool,
    /// Its base path: a leading slash and none behind, or empty.
    pub base: String,
    /// `/v1/chat/completions` and `/v1/models` are there.
    pub chat: bool,
}

/// Requests that wait for something.
#[derive(Debug, Default)]
pub(super) struct Web {
    /// What each connection has asked for, under which id.
    open: BTreeMap<Conn, (String, Open)>,
    /// Refusals that are held back.
    held: BTreeMap<Conn, Response>,
    /// Whose run it is.
    runs: BTreeMap<RunId, Conn>,
    /// Files that are being read.
    files: BTreeMap<u64, (Conn, Served)>,
    /// How many tools run outside of runs.
    calls: usize,
}

/// What a connection waits for.
#[derive(Debug)]
enum Open {
    History,
    Kill,
    Tool,
    Chat(Box<Completion>),
}

/// Who is asked for by a path (J2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Route<'a> {
    Probe(probes::Probe),
    Models(Option<&'a str>),
    Chat,
    Tool,
    History(&'a str),
    Kill(&'a str),
    UiConfig,
    Ui(&'a str),
    /// The bare base path.
    Base,
    Nothing,
}

impl Route<'_> {
    /// Whether the gateway's secret is needed.
    fn guarded(self) -> bool {
        match self {
            Route::Models(_)
            | Route::Chat
            | Route::Tool
            | Route::History(_)
            | Route::Kill(_)
            | Route::UiConfig => true,
            Route::Probe(_) | Route::Ui(_) | Route::Base | Route::Nothing => false,
        }
    }

    fn body_max(self) -> usize {
        match self {
            Route::Chat => limits::BODY_BYTES_MAX,
            Route::Tool => TOOL_BYTES_MAX,
            _ => SMALL_BYTES_MAX,
        }
    }

    /// The methods that it has; nothing where every one gets the same answer.
    fn methods(self) -> &'static [Method] {
        match self {
            Route::Probe(_) | Route::Ui(_) | Route::Base | Route::UiConfig | Route::Models(_) => {
                &[Method::Get, Method::Head]
            }
            Route::History(_) => &[Method::Get],
            Route::Chat | Route::Tool | Route::Kill(_) => &[Method::Post],
            Route::Nothing => &[],
        }
    }
}

impl Gateway {
    fn route<'a>(&self, path: &'a str) -> Route<'a> {
        if let Some(probe) = probes::Probe::of(path) {
            return Route::Probe(probe);
        }
        let pages = &self.facts.http;
        match path {
            "/v1/models" if pages.chat => return Route::Models(None),
            "/v1/chat/completions" if pages.chat => return Route::Chat,
            "/tools/invoke" => return Route::Tool,
            _ => {}
        }
        if let Some(model) = path.strip_prefix("/v1/models/").filter(|_| pages.chat) {
            return Route::Models(Some(model));
        }
        if let Some(rest) = path.strip_prefix("/sessions/") {
            match rest.rsplit_once('/') {
                Some((key, "history")) if !key.is_empty() => return Route::History(key),
                Some((key, "kill")) if !key.is_empty() => return Route::Kill(key),
                _ => {}
            }
        }
        if pages.ui { ui::route(&pages.base, path) } else { Route::Nothing }
    }

    /// The head of a request whose body has not come: who may not ask is told so before. Gives how
    /// many bytes the body may have (J3).
    pub(super) fn headed(&mut self, conn: Conn, request: &Request) -> usize {
        let route = self.route(&request.path);
        if self.turned_away(conn, request, route) { SMALL_BYTES_MAX } else { route.body_max() }
    }

    /// A request came that is no upgrade.
    pub(super) fn asked_for(&mut self, conn: Conn, request: &Request, sight: Sight<'_>) {
        let route = self.route(&request.path);
        // Whoever was refused by the head has the answer already, or has it on its way.
        if self.web.held.contains_key(&conn) || self.turned_away(conn, request, route) {
            return;
        }
        match route {
            Route::Probe(probe) => self.probe(conn, request, probe),
            Route::Models(model) => self.models_told(conn, model),
            Route::Chat => self.completion(conn, request),
            Route::Tool => self.tool_asked(conn, request, sight),
            Route::History(key) => self.history_told(conn, request, key, sight),
            Route::Kill(key) => {
                let params = Map::from_iter([("key".to_owned(), key.into())]);
                self.call(conn, Open::Kill, "sessions.abort", params, sight);
            }
            Route::UiConfig => self.ui_config(conn),
            Route::Ui(path) => self.ui_file(conn, request, path),
            Route::Base => self.redirect(conn, request),
            Route::Nothing => self.reply(conn, &plain(404, "Not Found")),
        }
    }

    /// Answers a request that is not done whatever it says: the wrong method, a gateway that stops,
    /// a secret that is missing or wrong (J3).
    fn turned_away(&mut self, conn: Conn, request: &Request, route: Route<'_>) -> bool {
        let methods = route.methods();
        if !methods.is_empty() && !methods.contains(&request.method) {
            let allow = match methods {
                [Method::Post] => "POST",
                [Method::Get] => "GET",
                _ => "GET, HEAD",
            };
            let response = plain(405, "Method Not Allowed").header("Allow", allow);
            let response = response.header("Cache-Control", "no-store");
            self.reply(conn, &response);
            return true;
        }
        if matches!(route, Route::Probe(_)) {
            return false;
        }
        if self.draining {
            let response = plain(503, "the gateway is about to stop").header("Retry-After", "1");
            self.reply(conn, &response);
            return true;
        }
        route.guarded() && !self.admits(conn, request)
    }

    /// Whether the request has the gateway's secret; else it is answered, or will be.
    fn admits(&mut self, conn: Conn, request: &Request) -> bool {
        let now = self.now;
        let Some(line) = self.lines.get(&conn) else { return false };
        let peer: Peer = peer(line.address, request);
        let authorization = request.headers.get("authorization");
        let Some(gate) = &mut self.gate else {
            self.reply(conn, &plain(503, "this gateway lets nobody in"));
            return false;
        };
        let Err(why) = gate.bearer(&peer, authorization, now) else { return true };
        let response = refusal(why);
        self.log_refused(conn, &json!({"code": "no secret or a wrong one, by HTTP"}));
        match why {
            HttpRefusal::Wrong(ms) if ms > 0 => {
                self.web.held.insert(conn, response);
                self.late.insert((now.plus(ms), conn));
            }
            _ => self.reply(conn, &response),
        }
        false
    }

    /// A refusal was held back long enough.
    pub(super) fn held_is_told(&mut self, conn: Conn) {
        if let Some(response) = self.web.held.remove(&conn) {
            self.reply(conn, &response);
        }
    }

    /// Asks one of the methods; what it says goes through [`Gateway::not_http`].
    fn call(
        &mut self,
        conn: Conn,
        open: Open,
        method: &str,
        params: Map<String, Value>,
        sight: Sight<'_>,
    ) {
        let problems = self.schemas.problems(method, &params);
        if !problems.is_empty() {
            let words = problems.join("; ");
            return self.reply(conn, &error(400, "invalid_request_error", &words));
        }
        let Some(id) = self.opened(conn, open) else { return };
        if let Err(fault) = self.method(conn, id.clone(), method, Params(params), sight) {
            self.respond(conn, &id, Err(fault));
        }
    }

    /// The connection waits from now on; nothing if too many do.
    fn opened(&mut self, conn: Conn, open: Open) -> Option<String> {
        if self.waiting() >= REQUESTS_MAX {
            let words = "too many requests wait for their answers";
            self.reply(conn, &unavailable(words));
            return None;
        }
        let id = format!("http-{}", self.ticket());
        self.web.open.insert(conn, (id.clone(), open));
        Some(id)
    }

    /// An answer to a request. It is given back unless it is for somebody who speaks HTTP.
    pub(super) fn not_http(
        &mut self,
        conn: Conn,
        id: &str,
        result: Result<Value, Fault>,
    ) -> Option<Result<Value, Fault>> {
        if !self.lines.get(&conn).is_some_and(|line| matches!(line.stage, Stage::Http)) {
            return Some(result);
        }
        // What was asked before, and given up, is not told to what was asked since.
        if self.web.open.get(&conn).is_none_or(|(open, _)| open != id) {
            return None;
        }
        let (_, open) = self.web.open.remove(&conn)?;
        let response = match open {
            Open::History => sessions::history(result),
            Open::Kill => sessions::killed(result),
            Open::Tool => tools::invoked(result),
            Open::Chat(completion) => {
                self.web.runs.remove(&completion.run);
                self.completion_ends(conn, *completion, result);
                return None;
            }
        };
        self.reply(conn, &response);
        None
    }

    pub(super) fn reply(&mut self, conn: Conn, response: &Response) {
        let now = self.now;
        if let Some(line) = self.lines.get_mut(&conn) {
            line.wire.respond(now, response);
            self.dirty.insert(conn);
        }
    }

    /// Whoever asked says nothing more. Runs are tied to their clients, and end with them; other
    /// answers are given all the same (J14).
    pub(super) fn http_ended(&mut self, conn: Conn) {
        if matches!(self.web.open.get(&conn), Some((_, Open::Chat(_)))) {
            self.completion_lost(conn);
        }
    }

    /// A connection has gone.
    pub(super) fn http_lost(&mut self, conn: Conn) {
        self.http_ended(conn);
        self.web.open.remove(&conn);
        self.web.held.remove(&conn);
        self.web.files.retain(|_, (of, _)| *of != conn);
    }
}

/// How a refusal at the gate is told.
fn refusal(why: HttpRefusal) -> Response {
    let words = why.to_string();
    match why {
        HttpRefusal::Host | HttpRefusal::Origin => error(403, "forbidden", &words),
        HttpRefusal::Locked(ms) => {
            let seconds = ms.div_ceil(1_000).to_string();
            error(429, "rate_limited", &words).header("Retry-After", &seconds)
        }
        HttpRefusal::Missing | HttpRefusal::Wrong(_) => {
            error(401, "unauthorized", &words).header("WWW-Authenticate", "Bearer")
        }
    }
}

/// The status and the kind of a method's error.
fn of_fault(fault: &Fault) -> (u16, &'static str) {
    let code = fault.details.as_ref().and_then(|details| details["code"].as_str());
    match (fault.code, code) {
        ("INVALID_REQUEST", Some("UNKNOWN_AGENT_ID")) => (404, "not_found"),
        ("INVALID_REQUEST", _) => (400, "invalid_request_error"),
        ("FORBIDDEN", _) => (403, "forbidden"),
        _ if fault.retry_after_ms.is_some() => (503, "unavailable"),
        _ => (500, "api_error"),
    }
}

/// A method's error as an answer.
fn fault_told(fault: &Fault) -> Response {
    match of_fault(fault) {
        (503, _) => unavailable(&fault.message),
        (status, kind) => error(status, kind, &fault.message),
    }
}

fn unavailable(words: &str) -> Response {
    error(503, "unavailable", words).header("Retry-After", "1")
}

/// An answer in words.
pub(super) fn plain(status: u16, words: &str) -> Response {
    Response::new(status)
        .header("Content-Type", "text/plain; charset=utf-8")
        .body(format!("{words}\n").into_bytes())
}

/// An answer in JSON, for whoever asked and no cache.
fn json_response(status: u16, body: &Value) -> Response {
    Response::new(status)
        .header("Content-Type", "application/json; charset=utf-8")
        .header("Cache-Control", "no-store")
        .header("X-Content-Type-Options", "nosniff")
        .body(body.to_string().into_bytes())
}

/// An error in JSON (J4).
fn error(status: u16, kind: &str, words: &str) -> Response {
    json_response(status, &json!({"error": {"message": words, "type": kind}}))
}

/// The object of a body (J4).
fn object(body: &[u8]) -> Result<Map<String, Value>, String> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err("the body must be a JSON object".to_owned()),
        Err(why) => Err(format!("the body is no JSON: {why}")),
    }
}
