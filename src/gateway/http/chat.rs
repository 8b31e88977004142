//! `/v1/chat/completions` and `/v1/models` (J6 to J11): a completion is a run of the agent.

use super::chunks::{self, DONE};
use super::{Open, json_response, object, of_fault, plain, prompt};
use crate::base::id::{hex, uuid_v7};
use crate::base::{Millis, RunId};
use crate::engine::sessions::{Input, Key, Target};
use crate::engine::turns::{Mode, Partial};
use crate::engine::{Cause, Event, Who};
use crate::gateway::frame::{Fault, Params};
use crate::gateway::hub::Gateway;
use crate::gateway::lines::BUFFERED_BYTES_MAX;
use crate::gateway::methods::{Message, images};
use crate::gateway::out::{Conn, Do};
use crate::gateway::pending::Want;
use crate::gateway::wire::{Request, Response};
use prompt::Prompt;
use serde_json::{Map, Value, json};

/// Longest name of a user that stands in a key as it is; characters.
const USER_CHARS_MAX: usize = 64;
/// Most bytes of a stream that are remembered, to tell at its end what was left out.
const SENT_BYTES_MAX: usize = 1024 * 1024;

/// A completion that is under way.
#[derive(Debug)]
pub(super) struct Completion {
    pub run: RunId,
    pub created: u64,
    /// The name under which the agent was asked for.
    pub model: String,
    /// Tokens of all prompts, and of all answers.
    pub tokens: (u64, u64),
    stream: bool,
    /// The head of the stream is out.
    begun: bool,
    usage: bool,
    hints: String,
    /// What was said and still holds.
    sent: String,
    /// Where the message that streams begins in it, and which one it is.
    begin: usize,
    message: u32,
}

impl Gateway {
    pub(super) fn models_told(&mut self, conn: Conn, one: Option<&str>) {
        let shape = |id: &str| {
            json!({"id": id, "object": "model", "created": 0,
            "owned_by": "stepclaw"})
        };
        let own = format!("openclaw/{}", self.facts.agent);
        let response = match one {
            Some(one) if self.knows_model(one) => json_response(200, &shape(one)),
            Some(one) => no_model(one),
            None => {
                let names = ["openclaw", "openclaw/default", own.as_str()];
                json_response(200, &json!({"object": "list", "data": names.map(shape)}))
            }
        };
        self.reply(conn, &response);
    }

    /// Whether a name means the agent that is served (J6).
    fn knows_model(&self, name: &str) -> bool {
        let heads = ["openclaw/", "openclaw:", "agent:"];
        let agent = heads.iter().find_map(|head| name.strip_prefix(head));
        name == "openclaw" || agent.is_some_and(|id| id == "default" || id == self.facts.agent)
    }

    pub(super) fn completion(&mut self, conn: Conn, request: &Request) {
        let Err(response) = self.completion_starts(conn, request) else { return };
        self.reply(conn, &response);
    }

    fn completion_starts(&mut self, conn: Conn, request: &Request) -> Result<(), Response> {
        let bad = |words: &str, param: Option<&str>| {
            chunks::error(400, "invalid_request_error", words, (param, ""))
        };
        let body = object(&request.body).map_err(|words| bad(&words, None))?;
        let prompt = prompt::read(&body).map_err(|e| bad(&e.to_string(), Some(&e.param)))?;
        if !self.knows_model(&prompt.model) {
            return Err(no_model(&prompt.model));
        }
        let header =
            |name: &str| request.headers.get(name).map(str::trim).filter(|v| !v.is_empty());
        if let Some(agent) = header("x-openclaw-agent-id").filter(|id| *id != self.facts.agent) {
            return Err(no_model(&format!("openclaw/{agent}")));
        }
        if header("x-openclaw-model").is_some() {
            return Err(bad("x-openclaw-model: the agent's own model is used", None));
        }
        let run = RunId::new(format!("chatcmpl-{}", uuid_v7(self.now, self.random_id())));
        let key = self.completion_key(header("x-openclaw-session-key"), &prompt, &run);
        let key = key.map_err(|fault| bad(&fault.message, None))?;
        let pictures = pictures(&prompt.pictures).map_err(|f| bad(&f.message, Some("messages")))?;
        let completion = Completion {
            run: run.clone(),
            created: self.now.0 / 1_000,
            model: prompt.model,
            tokens: (0, 0),
            stream: prompt.stream,
            begun: false,
            usage: prompt.usage,
            hints: prompt.hints.join(", "),
            sent: String::new(),
            begin: 0,
            message: 0,
        };
        let Some(id) = self.opened(conn, Open::Chat(Box::new(completion))) else { return Ok(()) };
        self.web.runs.insert(run.clone(), conn);
        let message = Message {
            key,
            text: prompt.text,
            images: pictures,
            run,
            // It asks for an answer of its own, whatever runs.
            inline: Partial { mode: Some(Mode::FollowUp), ..Partial::default() },
            budget_ms: None,
            commands: false,
            want: Want::Completion,
        };
        self.sends(conn, id, message);
        Ok(())
    }

    /// The conversation that a completion belongs to (J7).
    fn completion_key(
        &self,
        named: Option<&str>,
        prompt: &Prompt,
        run: &RunId,
    ) -> Result<Key, Fault> {
        let agent = &self.facts.agent;
        match (named, prompt.user.as_deref().map(str::trim).filter(|user| !user.is_empty())) {
            (Some(key), _) => self.key_of(key, None),
            (None, Some(user)) => {
                self.key_of(&format!("agent:{agent}:openai-user:{}", user_word(user)), None)
            }
            (None, None) => self.key_of(&format!("agent:{agent}:openai:{}", run.as_str()), None),
        }
    }

    /// The run is accepted: a stream begins.
    pub(in crate::gateway) fn completion_begins(&mut self, conn: Conn) {
        let now = self.now;
        let Some((_, Open::Chat(completion))) = self.web.open.get_mut(&conn) else { return };
        let Some(line) = self.lines.get_mut(&conn).filter(|_| completion.stream) else { return };
        completion.begun = line.wire.begin(now, &completion.hinted(chunks::stream()));
        let role = json!({"role": "assistant", "content": ""});
        line.wire.chunk(now, &completion.chunk(&role, None));
        self.dirty.insert(conn);
    }

    /// Whether somebody waits for this run by HTTP.
    pub(in crate::gateway) fn completes(&self, run: &RunId) -> bool {
        self.web.runs.contains_key(run)
    }

    fn completion_of(&mut self, run: &RunId) -> Option<(Conn, &mut Completion)> {
        let conn = *self.web.runs.get(run)?;
        match self.web.open.get_mut(&conn) {
            Some((_, Open::Chat(completion))) => Some((conn, completion)),
            _ => None,
        }
    }

    /// Counts the tokens of a reply.
    pub(in crate::gateway) fn completion_counts(&mut self, run: &RunId, event: &Event) {
        let Event::MessageEnd(Who::Reply(Some(body))) = event else { return };
        let Some((_, completion)) = self.completion_of(run) else { return };
        let Some(usage) = &body.message.usage else { return };
        let (prompt, answer) = &mut completion.tokens;
        for part in [usage.input, usage.cache_read, usage.cache_write] {
            *prompt = prompt.saturating_add(part);
        }
        *answer = answer.saturating_add(usage.output);
    }

    /// A piece of a message, by its number; `anew`: what was told of that message before is void.
    pub(in crate::gateway) fn completion_says(
        &mut self,
        run: &RunId,
        (message, piece, anew): (u32, String, bool),
    ) {
        let now = self.now;
        let Some((conn, completion)) = self.completion_of(run).filter(|(_, c)| c.stream) else {
            return;
        };
        let piece = completion.takes(message, &piece, anew);
        if piece.is_empty() {
            return;
        }
        let chunk = completion.chunk(&json!({ "content": piece }), None);
        let Some(line) = self.lines.get_mut(&conn) else { return };
        if line.wire.buffered() > BUFFERED_BYTES_MAX {
            return self.completion_lost(conn);
        }
        line.wire.chunk(now, &chunk);
        self.dirty.insert(conn);
    }

    /// The run has ended, or was refused.
    pub(super) fn completion_ends(
        &mut self,
        conn: Conn,
        completion: Completion,
        result: Result<Value, Fault>,
    ) {
        let now = self.now;
        let verdict = verdict(result);
        if !completion.begun {
            let response = match verdict {
                Ok((text, finish)) => json_response(200, &completion.whole(&text, finish)),
                Err(response) => response.answer(),
            };
            return self.reply(conn, &completion.hinted(response));
        }
        let Some(line) = self.lines.get_mut(&conn) else { return };
        match verdict {
            Ok((text, finish)) => {
                let rest = completion.rest(&text);
                if !rest.is_empty() {
                    line.wire.chunk(now, &completion.chunk(&json!({ "content": rest }), None));
                }
                line.wire.chunk(now, &completion.chunk(&json!({}), Some(finish)));
                if completion.usage {
                    line.wire.chunk(now, &completion.usage_chunk());
                }
            }
            Err(failed) => {
                let error = json!({"message": failed.words, "type": failed.kind,
                    "param": null, "code": null});
                line.wire.chunk(now, &chunks::event(&json!({ "error": error })));
            }
        }
        line.wire.chunk(now, DONE);
        line.wire.end(now);
        self.dirty.insert(conn);
    }

    /// Whoever asked has gone: the run is stopped (J11).
    pub(super) fn completion_lost(&mut self, conn: Conn) {
        let Some((_, Open::Chat(completion))) = self.web.open.remove(&conn) else { return };
        let run = &completion.run;
        self.web.runs.remove(run);
        if let Some(wants) = self.wants.get_mut(run) {
            wants.retain(|(of, _, _)| *of != conn);
            if wants.is_empty() {
                self.wants.remove(run);
            }
        }
        self.out.push(Do::Give(Input::Abort(Target::Run(run.clone()), Cause::Disconnect)));
        let now: Millis = self.now;
        let Some(line) = self.lines.get_mut(&conn) else { return };
        if completion.begun {
            line.wire.end(now);
        } else {
            line.wire.respond(now, &plain(503, "the client has gone"));
        }
        self.dirty.insert(conn);
    }
}

impl Completion {
    /// An answer that names the hints that were not followed.
    fn hinted(&self, response: Response) -> Response {
        if self.hints.is_empty() {
            return response;
        }
        response.header("X-Stepclaw-Ignored", &self.hints)
    }

    /// Takes a piece of a message. Gives what is to be said for it: messages are kept apart by a
    /// blank line, and so is what begins anew, since nothing said can be taken back.
    fn takes(&mut self, message: u32, piece: &str, anew: bool) -> String {
        if self.sent.len() + piece.len() > SENT_BYTES_MAX {
            self.sent.clear();
            self.begin = 0;
        }
        let had = !self.sent.is_empty();
        if anew {
            self.sent.truncate(self.begin);
        } else if message != self.message {
            self.begin = self.sent.len();
        }
        let first = anew || message != self.message;
        self.message = message;
        if piece.is_empty() {
            return String::new();
        }
        if first && !self.sent.is_empty() {
            self.sent.push_str("\n\n");
        }
        self.sent.push_str(piece);
        if first && had { format!("\n\n{piece}") } else { piece.to_owned() }
    }

    /// What of the whole answer was not said yet.
    fn rest(&self, whole: &str) -> String {
        let sent = self.sent.trim_end();
        match whole.strip_prefix(sent) {
            Some(rest) => rest.to_owned(),
            None => String::new(),
        }
    }
}

/// A run that gave no answer.
struct NoAnswer {
    status: u16,
    kind: &'static str,
    words: String,
    /// It was begun: to ask again may do things twice.
    ran: bool,
}

impl NoAnswer {
    fn answer(&self) -> Response {
        let response = chunks::error(self.status, self.kind, &self.words, (None, ""));
        let response =
            if self.status == 503 { response.header("Retry-After", "1") } else { response };
        // The API's own clients ask again by themselves unless they are told not to.
        if self.ran { response.header("X-Should-Retry", "false") } else { response }
    }
}

/// The answer and why it ended, or why there is none (J9, J10).
fn verdict(result: Result<Value, Fault>) -> Result<(String, &'static str), NoAnswer> {
    let payload = match result {
        Ok(payload) => payload,
        Err(fault) => {
            let ran = fault.payload.is_some();
            let (status, kind) = if ran { (500, "api_error") } else { of_fault(&fault) };
            return Err(NoAnswer { status, kind, words: fault.message, ran });
        }
    };
    let texts = payload["result"]["payloads"].as_array().into_iter().flatten();
    let texts: Vec<&str> = texts.filter_map(|payload| payload["text"].as_str()).collect();
    let no = |words: &str| {
        let words = format!("the run was {words}");
        NoAnswer { status: 500, kind: "api_error", words, ran: true }
    };
    match payload["summary"].as_str().unwrap_or_default() {
        "completed" => {
            let cut = payload["termination"]["cut"] == true;
            Ok((texts.join("\n\n"), if cut { "length" } else { "stop" }))
        }
        "stopped by a rule" if !texts.is_empty() => Ok((texts.join("\n\n"), "stop")),
        other => Err(no(other)),
    }
}

fn no_model(name: &str) -> Response {
    let words = format!("the model {name:?} does not exist; openclaw means the agent");
    let more = (Some("model"), "model_not_found");
    chunks::error(404, "invalid_request_error", &words, more)
}

/// Who a user is in a key: their name where it is plain, else its digest.
fn user_word(user: &str) -> String {
    let plain = |c: char| {
        c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.' | '@')
    };
    if user.len() <= USER_CHARS_MAX && user.chars().all(plain) {
        return user.to_owned();
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, user.as_bytes());
    format!("sha256-{}", hex(&digest.as_ref()[..16]))
}

/// Pictures as the methods have them.
fn pictures(urls: &[String]) -> Result<Vec<crate::transcript::Block>, Fault> {
    let list: Vec<Value> = urls.iter().map(|url| json!({ "content": url })).collect();
    images(&Params(Map::from_iter([("attachments".to_owned(), list.into())])))
}
