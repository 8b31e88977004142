//! What each method asks of the sessions.

use super::frame::{Fault, Params, Request};
use super::server::{Asked, Do, Server, Want};
use crate::base::{RunId, SessionKey};
use crate::engine::Cause;
use crate::engine::command::{Command, QueueCommand, command};
use crate::engine::reset::ResetReason;
use crate::engine::sessions::{Arrival, Input, Key, Target, Waits};
use crate::engine::turns::{Mode, Partial};
use crate::transcript::{Content, User};
use serde_json::json;
use std::sync::Arc;

/// How long `agent.wait` waits where nobody says, ms.
const WAIT_MS: u64 = 30_000;
/// Longest message, bytes.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A message that is to be sent.
struct Sent {
    key: Key,
    text: String,
    run: RunId,
    inline: Partial,
    budget_ms: Option<u64>,
    /// Whether `/new` and its like are commands here.
    commands: bool,
}

impl Server {
    pub(super) fn method(&mut self, request: Request) -> Result<Vec<Do>, Fault> {
        let Request { id, method, params } = request;
        let params = Params::new(&method, params);
        match method.as_str() {
            "health" => {
                params.done()?;
                Ok(vec![Do::Health(id)])
            }
            "agent" => self.agent(id, params),
            "agent.wait" => self.wait(id, params),
            "chat.send" => self.chat(id, params),
            "chat.abort" => self.abort(id, params),
            "sessions.reset" => self.reset(id, params),
            "sessions.delete" => self.delete(id, params),
            other => Err(Fault::invalid(format!("unknown method: {other}"))),
        }
    }

    fn agent(&mut self, id: String, mut params: Params) -> Result<Vec<Do>, Fault> {
        let text = params.text("message");
        let key = params.optional("sessionKey").unwrap_or_else(|| "main".into());
        let key = conversation(&mut params, "sessionKey", &key);
        let run = RunId::new(params.text("idempotencyKey"));
        let budget_ms = params.number("timeout").map(|seconds| seconds.saturating_mul(1_000));
        params.done()?;
        let inline = Partial::default();
        let sent = Sent { key, text, run, inline, budget_ms, commands: false };
        self.send(id, Want::Agent, sent)
    }

    fn chat(&mut self, id: String, mut params: Params) -> Result<Vec<Do>, Fault> {
        let key = params.text("sessionKey");
        let key = conversation(&mut params, "sessionKey", &key);
        let text = params.text("message");
        let run = RunId::new(params.text("idempotencyKey"));
        let budget_ms = params.number("timeoutMs");
        let mode = params.optional("queueMode").and_then(|word| {
            let mode = Mode::from_word(&word);
            if mode.is_none() {
                params.problem("queueMode", "must be steer, followup, collect or interrupt");
            }
            mode
        });
        if params.flag("deliver") == Some(true) {
            params.problem("deliver", "there is no channel to deliver to");
        }
        let plain = params.flag("suppressCommandInterpretation").unwrap_or(false);
        params.done()?;
        let inline = Partial { mode, ..Partial::default() };
        let sent = Sent { key, text, run, inline, budget_ms, commands: !plain };
        self.send(id, Want::Chat, sent)
    }

    fn send(&mut self, id: String, want: Want, sent: Sent) -> Result<Vec<Do>, Fault> {
        let Sent { key, text, run, mut inline, budget_ms, commands } = sent;
        if text.len() > MESSAGE_BYTES_MAX {
            return Err(Fault::invalid(format!(
                "the message has more than {MESSAGE_BYTES_MAX} bytes"
            )));
        }
        if text.contains('\0') {
            return Err(Fault::invalid("the message has a NUL character"));
        }
        // The identity is that of what was sent, not of what a command makes of it.
        let request = (self.identity)(&key, &text);
        let mut before = Vec::new();
        let text = match command(&text).filter(|_| commands) {
            None => text,
            Some(Err(error)) => return Err(Fault::invalid(error.to_string())),
            Some(Ok(Command::Stop)) => return Ok(self.stop(id, Target::Session(key))),
            Some(Ok(Command::Steer(words))) => {
                inline.mode = Some(Mode::Steer);
                words.to_owned()
            }
            Some(Ok(Command::Queue(of))) => return self.queue(id, key, of),
            Some(Ok(Command::New(then) | Command::Reset(then))) => {
                let reason = if text.trim_start().to_ascii_lowercase().starts_with("/new") {
                    ResetReason::New
                } else {
                    ResetReason::Reset
                };
                before.push(Do::Give(Input::Reset(Arc::clone(&key), reason)));
                match then {
                    Some(then) => then.to_owned(),
                    None => {
                        self.changes.push((Arc::clone(&key), id, Asked::Reset));
                        return Ok(before);
                    }
                }
            }
        };
        let wait = Waits { inline, budget_ms, ..(self.plain)(&text) };
        let body =
            User { content: Content::Text(text), timestamp: self.now, idempotency_key: None };
        self.wants.entry(run.clone()).or_default().push((id, want));
        let arrival = Arrival {
            key,
            run,
            request,
            body: Arc::new(body),
            wait,
            interaction: true,
            boundary: self.boundary,
        };
        before.push(Do::Give(Input::Arrive(Box::new(arrival))));
        Ok(before)
    }

    fn queue(&mut self, id: String, key: Key, of: QueueCommand) -> Result<Vec<Do>, Fault> {
        let partial = match of {
            QueueCommand::Show => return Ok(vec![Do::ShowQueue(id, key)]),
            QueueCommand::Set(partial) => partial,
            QueueCommand::Clear => Partial::default(),
        };
        self.changes.push((Arc::clone(&key), id, Asked::Settings));
        Ok(vec![Do::Give(Input::Settings(key, partial))])
    }

    fn wait(&mut self, id: String, mut params: Params) -> Result<Vec<Do>, Fault> {
        let run = RunId::new(params.text("runId"));
        let ms = params.number("timeoutMs").unwrap_or(WAIT_MS);
        params.done()?;
        self.next_waiter += 1;
        let waiter = self.next_waiter;
        self.waits.insert(waiter, (id, run.clone()));
        Ok(vec![Do::Give(Input::Wait { waiter, run, until: self.now.plus(ms) })])
    }

    fn abort(&mut self, id: String, mut params: Params) -> Result<Vec<Do>, Fault> {
        let key = params.text("sessionKey");
        let key = conversation(&mut params, "sessionKey", &key);
        let run = params.optional("runId");
        params.flag("preserveSideRuns");
        params.done()?;
        let target = match run {
            Some(run) => Target::Run(RunId::new(run)),
            None => Target::Session(key),
        };
        Ok(self.stop(id, target))
    }

    fn stop(&mut self, id: String, target: Target) -> Vec<Do> {
        vec![Do::Abort(id, target.clone()), Do::Give(Input::Abort(target, Cause::User))]
    }

    fn reset(&mut self, id: String, mut params: Params) -> Result<Vec<Do>, Fault> {
        let key = params.text("key");
        let key = conversation(&mut params, "key", &key);
        let reason = match params.optional("reason").as_deref() {
            None | Some("reset") => ResetReason::Reset,
            Some("new") => ResetReason::New,
            Some(_) => {
                params.problem("reason", "must be new or reset");
                ResetReason::Reset
            }
        };
        params.done()?;
        self.changes.push((Arc::clone(&key), id, Asked::Reset));
        Ok(vec![Do::Give(Input::Reset(key, reason))])
    }

    fn delete(&mut self, id: String, mut params: Params) -> Result<Vec<Do>, Fault> {
        let key = params.text("key");
        let key = conversation(&mut params, "key", &key);
        if params.flag("deleteTranscript") == Some(false) {
            params.problem("deleteTranscript", "the transcript goes with its conversation");
        }
        params.done()?;
        self.changes.push((Arc::clone(&key), id, Asked::Delete));
        Ok(vec![Do::Give(Input::Delete(key))])
    }
}

fn conversation(params: &mut Params, name: &str, text: &str) -> Key {
    match SessionKey::parse(text) {
        Ok(key) => key.as_str().into(),
        Err(_) if text.is_empty() => "".into(),
        Err(error) => {
            params.problem(name, &error.to_string());
            "".into()
        }
    }
}

/// How a queue's settings are told.
pub(super) fn settings(of: crate::engine::turns::QueueSettings) -> serde_json::Value {
    json!({
        "mode": of.mode.word(), "debounceMs": of.debounce_ms, "cap": of.cap,
        "drop": of.drop.word(),
    })
}
