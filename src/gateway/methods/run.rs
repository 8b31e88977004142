//! Messages for runs, and what stops them.

use super::Said;
use crate::base::RunId;
use crate::engine::Cause;
use crate::engine::command::{Command, QueueCommand, command};
use crate::engine::reset::ResetReason;
use crate::engine::sessions::{Arrival, Input, Key, Target, Waits};
use crate::engine::turns::{Mode, Partial};
use crate::gateway::frame::{Fault, Params};
use crate::gateway::hub::{Gateway, Sight};
use crate::gateway::out::{Conn, Do};
use crate::gateway::pending::{After, Asked, Want};
use crate::records::{Query, Wanted};
use crate::transcript::{Block, Content, User};
use serde_json::{Value, json};
use std::sync::Arc;
use unicode_normalization::UnicodeNormalization;

/// How long `agent.wait` waits where nobody says, ms.
const WAIT_MS: u64 = 30_000;
/// Longest message, bytes.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Largest picture, bytes before its encoding (protocol 4.4).
const IMAGE_BYTES_MAX: usize = 6_291_456;
/// Longest run id.
const RUN_ID_BYTES_MAX: usize = 256;

/// A message that is to be sent.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::gateway) struct Message {
    pub key: Key,
    pub text: String,
    pub images: Vec<Block>,
    pub run: RunId,
    pub inline: Partial,
    pub budget_ms: Option<u64>,
    /// Whether `/new` and its like are commands here.
    pub commands: bool,
    pub want: Want,
}

type Asker = (Conn, String);

impl Gateway {
    pub(super) fn agent(&mut self, (conn, id): Asker, params: &Params) -> Said {
        if params.flag("deliver") {
            return Err(Fault::invalid("deliver: there is no channel to deliver to"));
        }
        if params.text("channel").is_some_and(|channel| channel != "webchat") {
            return Err(Fault::invalid("channel: no channel of that name is configured"));
        }
        let key = self.key(params, "sessionKey")?;
        let message = Message {
            key: Arc::clone(&key),
            text: params.need("message").to_owned(),
            images: vec![],
            run: run_id(params.need("idempotencyKey"))?,
            inline: Partial::default(),
            budget_ms: params.number("timeout").map(|seconds| seconds.saturating_mul(1_000)),
            commands: for_session(params.need("message")),
            want: Want::Agent,
        };
        let session = params.text("sessionId").map(str::to_owned);
        self.check_then_send(conn, id, session, None, message)
    }

    pub(super) fn chat_send(&mut self, (conn, id): Asker, params: &Params) -> Said {
        if params.flag("deliver") {
            return Err(Fault::invalid("deliver: there is no channel to deliver to"));
        }
        let mode = params.text("queueMode").and_then(Mode::from_word);
        let message = Message {
            key: self.key(params, "sessionKey")?,
            text: cleaned(params.need("message"))?,
            images: images(params)?,
            run: run_id(params.need("idempotencyKey"))?,
            inline: Partial { mode, ..Partial::default() },
            budget_ms: params.number("timeoutMs"),
            commands: !params.flag("suppressCommandInterpretation"),
            want: Want::Chat,
        };
        let leaf = params.0.get("expectedLeafEntryId");
        let leaf = leaf.map(|leaf| leaf.as_str().map(str::to_owned));
        let session = params.text("sessionId").map(str::to_owned);
        self.check_then_send(conn, id, session, leaf, message)
    }

    pub(super) fn session_send(&mut self, (conn, id): Asker, params: &Params, steer: bool) -> Said {
        let mode = steer.then_some(Mode::Interrupt);
        let run = match params.text("idempotencyKey") {
            Some(key) => run_id(key)?,
            None => RunId::new(crate::base::id::uuid_v7(self.now, self.random_id())),
        };
        let message = Message {
            key: self.key(params, "key")?,
            text: cleaned(params.need("message"))?,
            images: images(params)?,
            run,
            inline: Partial { mode, ..Partial::default() },
            budget_ms: params.number("timeoutMs"),
            commands: true,
            want: Want::Chat,
        };
        self.check_then_send(conn, id, None, None, message)
    }

    /// `sessions.compact`: a run of its own, answered when it is over.
    pub(super) fn compact(&mut self, (conn, id): Asker, params: &Params) -> Said {
        if params.number("maxLines").is_some() {
            return Err(Fault::invalid("maxLines: only the model can shorten a history here"));
        }
        let message = Message {
            key: self.key(params, "key")?,
            text: "/compact".to_owned(),
            images: vec![],
            run: RunId::new(crate::base::id::uuid_v7(self.now, self.random_id())),
            inline: Partial::default(),
            budget_ms: None,
            commands: true,
            want: Want::Compact,
        };
        self.send(conn, id, message).map(|()| None)
    }

    /// The sender may name the session, and the message, that it has seen last.
    fn check_then_send(
        &mut self,
        conn: Conn,
        id: String,
        session: Option<String>,
        leaf: Option<Option<String>>,
        message: Message,
    ) -> Said {
        let known = session.is_none() || session.as_ref() == self.ids.get(&message.key);
        if known && leaf.is_none() {
            self.send(conn, id, message)?;
            return Ok(None);
        }
        let query = Query::Session(message.key.to_string());
        self.ask(conn, id, query, After::Check { session, leaf, message: Box::new(message) });
        Ok(None)
    }

    /// Gives a message to the sessions; commands in it are done.
    pub(in crate::gateway) fn send(
        &mut self,
        conn: Conn,
        id: String,
        message: Message,
    ) -> Result<(), Fault> {
        let Message { key, text, images, run, mut inline, budget_ms, commands, want } = message;
        if text.len() > MESSAGE_BYTES_MAX {
            return Err(Fault::invalid(format!(
                "the message has more than {MESSAGE_BYTES_MAX} bytes"
            )));
        }
        // The identity is that of what was sent, not of what a command makes of it.
        let request = self.identity(&key, &text, &images);
        let mut compacts = false;
        let text = match command(&text).filter(|_| commands) {
            None => text,
            Some(Err(error)) => return Err(Fault::invalid(error.to_string())),
            Some(Ok(Command::Stop)) => {
                self.asked_to_stop(conn, &id, Target::Session(key));
                return Ok(());
            }
            Some(Ok(Command::Steer(words))) => {
                inline.mode = Some(Mode::Steer);
                words.to_owned()
            }
            Some(Ok(Command::Queue(of))) => return self.queue(conn, id, key, of),
            Some(Ok(Command::Compact(_))) => {
                compacts = true;
                text
            }
            Some(Ok(Command::New(then) | Command::Reset(then))) => {
                let new = text.trim_start().to_ascii_lowercase().starts_with("/new");
                let reason = if new { ResetReason::New } else { ResetReason::Reset };
                self.out.push(Do::Give(Input::Reset(Arc::clone(&key), reason)));
                match then {
                    Some(then) => then.to_owned(),
                    None => {
                        self.changes.push((key, conn, id, Asked::Reset(reason)));
                        return Ok(());
                    }
                }
            }
        };
        if text.trim().is_empty() && images.is_empty() {
            return Err(Fault::invalid("the message is empty"));
        }
        let wait = Waits { inline, budget_ms, ..(self.ways.plain)(&text) };
        let wait = if compacts { wait.compacting() } else { wait };
        let content = if images.is_empty() {
            Content::Text(text)
        } else {
            let text = (!text.is_empty()).then(|| Block::text(text));
            Content::Blocks(text.into_iter().chain(images).collect())
        };
        let idempotency_key = Some(format!("{run}:user"));
        let body = User { content, timestamp: self.now, idempotency_key };
        self.wants.entry(run.clone()).or_default().push((conn, id, want));
        let arrival = Arrival {
            key,
            run,
            request,
            body: Arc::new(body),
            wait,
            interaction: true,
            boundary: self.boundary,
        };
        self.out.push(Do::Give(Input::Arrive(Box::new(arrival))));
        Ok(())
    }

    fn identity(&self, key: &str, text: &str, images: &[Block]) -> Arc<str> {
        if images.is_empty() {
            return (self.ways.identity)(key, text);
        }
        let whole = format!("{text}\0{}", json!(images));
        (self.ways.identity)(key, &whole)
    }

    fn queue(&mut self, conn: Conn, id: String, key: Key, of: QueueCommand) -> Result<(), Fault> {
        let partial = match of {
            QueueCommand::Show => {
                self.out.push(Do::ShowQueue(conn, id, key));
                return Ok(());
            }
            QueueCommand::Set(partial) => partial,
            QueueCommand::Clear => Partial::default(),
        };
        self.changes.push((Arc::clone(&key), conn, id, Asked::Settings));
        self.out.push(Do::Give(Input::Settings(key, partial)));
        Ok(())
    }

    pub(super) fn wait(&mut self, (conn, id): Asker, params: &Params) -> Said {
        let run = RunId::new(params.need("runId"));
        let ms = params.number("timeoutMs").unwrap_or(WAIT_MS);
        let waiter = self.ticket();
        self.waits.insert(waiter, (conn, id, run.clone()));
        self.out.push(Do::Give(Input::Wait { waiter, run, until: self.now.plus(ms) }));
        Ok(None)
    }

    pub(super) fn abort(&mut self, params: &Params, sight: Sight<'_>) -> Said {
        let key = self.key(params, "sessionKey")?;
        let target = match params.text("runId") {
            None => Target::Session(key),
            Some(run) => {
                let target = Target::Run(RunId::new(run));
                let live = self.live.get(&RunId::new(run));
                if live.is_some_and(|live| live.key != key) {
                    return Err(Fault::invalid("runId does not match sessionKey"));
                }
                target
            }
        };
        let runs = sight.sessions.stoppable(&target);
        self.out.push(Do::Give(Input::Abort(target, Cause::User)));
        Ok(Some(json!({"ok": true, "aborted": !runs.is_empty(), "runIds": runs})))
    }

    pub(super) fn session_abort(&mut self, params: &Params, sight: Sight<'_>) -> Said {
        let target = match (params.text("runId"), params.text("key")) {
            (Some(run), _) => Target::Run(RunId::new(run)),
            (None, Some(_)) => {
                let key = self.key(params, "key")?;
                match sight.sessions.active(&key) {
                    Some(run) if !params.flag("clearQueued") => Target::Run(run.clone()),
                    _ => Target::Session(key),
                }
            }
            (None, None) => return Err(Fault::invalid("sessions.abort needs key or runId")),
        };
        let runs = sight.sessions.stoppable(&target);
        self.out.push(Do::Give(Input::Abort(target, Cause::User)));
        let first = runs.first().map(|run| run.as_str().to_owned());
        let status = if first.is_some() { "aborted" } else { "no-active-run" };
        Ok(Some(json!({"ok": true, "abortedRunId": first, "status": status})))
    }

    /// `/stop`: what is stopped is told as `chat.abort` tells it.
    fn asked_to_stop(&mut self, conn: Conn, id: &str, target: Target) {
        self.out.push(Do::Stop(conn, id.to_owned(), target.clone()));
        self.out.push(Do::Give(Input::Abort(target, Cause::User)));
    }

    /// The answers that need a look at the sessions just before what follows is given to them.
    pub fn look(&mut self, what: &Do, sessions: &crate::engine::sessions::Sessions) {
        match what {
            Do::Stop(conn, id, target) => {
                let runs = sessions.stoppable(target);
                let payload = json!({"ok": true, "aborted": !runs.is_empty(), "runIds": runs});
                self.respond(*conn, id, Ok(payload));
            }
            Do::ShowQueue(conn, id, key) => {
                let of = sessions.queue_settings(key);
                let payload = json!({
                    "mode": of.mode.word(), "debounceMs": of.debounce_ms, "cap": of.cap,
                    "drop": of.drop.word(),
                });
                self.respond(*conn, id, Ok(payload));
            }
            Do::Send { .. }
            | Do::Keep(..)
            | Do::Audit(_)
            | Do::Page(..)
            | Do::Give(_)
            | Do::Ask(..)
            | Do::Want(..)
            | Do::File(_)
            | Do::Chore(..)
            | Do::Log(..)
            | Do::Tool(_) => {}
        }
    }

    pub(super) fn inject(&mut self, (conn, id): Asker, params: &Params) -> Said {
        let key = self.key(params, "sessionKey")?;
        let text = params.need("message").to_owned();
        let text = match params.text("label") {
            Some(label) => format!("[{label}]\n\n{text}"),
            None => text,
        };
        let ticket = self.ticket();
        let after = After::Injected { key: Arc::clone(&key), text: text.clone(), entry: None };
        self.asked.insert(ticket, (conn, id, after));
        self.out.push(Do::Want(ticket, key, Wanted::Inject { text }));
        Ok(None)
    }

    /// Random bytes for an id.
    pub(in crate::gateway) fn random_id(&self) -> [u8; 10] {
        self.fresh_id
    }
}

fn run_id(key: &str) -> Result<RunId, Fault> {
    if key.len() > RUN_ID_BYTES_MAX || key.chars().any(char::is_control) {
        let words =
            format!("idempotencyKey: at most {RUN_ID_BYTES_MAX} bytes, no control characters");
        return Err(Fault::invalid(words));
    }
    Ok(RunId::new(key))
}

/// Whether a message of the `agent` method begins anew, as `/new` does (protocol 3.4); other
/// commands are words there.
fn for_session(text: &str) -> bool {
    matches!(command(text), Some(Ok(Command::New(_) | Command::Reset(_) | Command::Compact(_))))
}

/// Composed characters; a NUL is refused, other control characters are taken out (protocol 4.4).
fn cleaned(text: &str) -> Result<String, Fault> {
    if text.contains('\0') {
        return Err(Fault::invalid("the message has a NUL character"));
    }
    let kept = |c: &char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    if text.is_ascii() {
        return Ok(text.chars().filter(kept).collect());
    }
    Ok(text.nfc().filter(kept).collect())
}

/// Pictures that come with a message. What is no picture is refused: nothing here could read it.
pub(in crate::gateway) fn images(params: &Params) -> Result<Vec<Block>, Fault> {
    let Some(Value::Array(list)) = params.0.get("attachments") else { return Ok(vec![]) };
    let mut images = Vec::new();
    for (n, item) in list.iter().enumerate() {
        let bad = |what: &str| Fault::invalid(format!("at /attachments/{n}: {what}"));
        let Some(content) = item["content"].as_str() else {
            return Err(bad("content must be base64 text"));
        };
        let (mime, data) =
            match content.strip_prefix("data:").and_then(|c| c.split_once(";base64,")) {
                Some((mime, data)) => (mime.to_owned(), data),
                None => (item["mimeType"].as_str().unwrap_or_default().to_owned(), content),
            };
        if !["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&mime.as_str()) {
            return Err(bad("only png, jpeg, gif and webp pictures can be attached"));
        }
        if data.len() / 4 * 3 > IMAGE_BYTES_MAX {
            return Err(bad(&format!("a picture has at most {IMAGE_BYTES_MAX} bytes")));
        }
        let base64 = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/' | b'=');
        if data.is_empty() || !data.bytes().all(base64) {
            return Err(bad("content is no base64"));
        }
        images.push(Block::Image { data: data.to_owned(), mime_type: mime });
    }
    Ok(images)
}
