//! What clients see of a run while it goes on: paced text, tools, stored messages (protocol 5.2 to
//! 5.4).

use super::hub::{Audience, Gateway};
use super::out::{Conn, event_head};
use super::rows;
use crate::base::{Millis, RunId, SessionKey};
use crate::engine::answer::{Collected, HeldBack};
use crate::engine::sessions::Key;
use crate::engine::{Event, Outcome, Who};
use crate::transcript::outcome::render;
use crate::transcript::{Check, Delta, Entry, OpenCall};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The least time between two pieces of text for a client, ms (protocol 5.2).
pub const PACE_MS: u64 = 75;
/// Most characters of a message that are kept to be shown while it streams.
const SHOWN_BYTES_MAX: usize = 500_000;

/// A run that goes on.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub key: Key,
    /// The number of its last `agent` event.
    pub seq: u64,
    /// What it has said and done.
    pub collected: Collected,
    /// The message that streams, as far as it was told and as far as it may be.
    pub text: String,
    told: usize,
    held: HeldBack,
    told_at: Option<Millis>,
    /// The text was begun anew: what was told is void.
    replaced: bool,
    message: u32,
    pub started: Option<Millis>,
    /// What became of its last compaction, as clients are told.
    pub compaction: Option<Value>,
    /// How many facts of it the ledger was given.
    pub noted: u64,
    /// Who is told of its tools under its own name.
    pub tools: BTreeSet<Conn>,
}

impl Live {
    pub fn new(key: &Key) -> Live {
        Live {
            key: key.clone(),
            seq: 0,
            collected: Collected::default(),
            text: String::new(),
            told: 0,
            held: HeldBack::default(),
            told_at: None,
            replaced: false,
            message: 0,
            started: None,
            compaction: None,
            noted: 0,
            tools: BTreeSet::new(),
        }
    }

    fn has_more(&self) -> bool {
        self.told < self.text.len() || self.replaced
    }

    /// When the next piece of text is to be told.
    pub fn due(&self) -> Option<Millis> {
        let at = self.told_at.map_or(Millis(0), |at| at.plus(PACE_MS));
        self.has_more().then_some(at)
    }

    fn begin(&mut self) {
        self.text.clear();
        self.told = 0;
        self.held = HeldBack::default();
        self.message += 1;
    }

    /// What was told of the message does not hold.
    fn void(&mut self) {
        let had = self.told > 0;
        self.begin();
        self.replaced = had;
    }

    fn push(&mut self, piece: &str) {
        let shown = self.held.push(piece);
        let room = SHOWN_BYTES_MAX.saturating_sub(self.text.len());
        let end = (0..=room.min(shown.len())).rev().find(|at| shown.is_char_boundary(*at));
        self.text.push_str(&shown[..end.unwrap_or(0)]);
    }
}

impl Gateway {
    /// Something that a run says.
    pub fn told(
        &mut self,
        key: &Key,
        run: &RunId,
        event: &Event,
        calls: &[OpenCall],
        safe: impl Fn(&str) -> bool,
    ) {
        let live = self.live.entry(run.clone()).or_insert_with(|| Live::new(key));
        live.collected.told(event, calls, safe);
        self.note(key, run, event, calls);
        self.completion_counts(run, event);
        let Some(live) = self.live.get_mut(run) else { return };
        match event {
            Event::AgentStart => self.starts(key, run),
            Event::MessageStart(Who::Reply(_)) => live.begin(),
            Event::MessageUpdate(Delta::Text(piece)) => {
                live.push(piece);
                let due = live.due().is_some_and(|at| at <= self.now);
                if due {
                    self.flush(run);
                }
            }
            Event::MessageReset => live.void(),
            Event::MessageEnd(Who::Reply(_)) => {
                let rest = live.held.finish();
                live.text.push_str(&rest);
                self.flush(run);
                self.says_text(run);
            }
            Event::ToolStart(call) => {
                self.flush(run);
                self.tool(run, *call, calls, |call| {
                    let args = match &call.check {
                        Check::Ready(args) => Value::Object(args.clone()),
                        Check::Rejected(_) => json!({}),
                    };
                    json!({"phase": "start", "args": args})
                });
            }
            Event::ToolUpdate(call, output) => {
                let result = json!({"content": output.content});
                let data = json!({"phase": "update", "partialResult": result});
                self.tool(run, *call, calls, |_| data);
            }
            Event::ToolEnd { call, outcome, .. } => self.tool_ends(run, *call, outcome, calls),
            Event::Retry { attempt, max, delay_ms, failure } => {
                let data = json!({
                    "phase": "retrying", "retryAttempt": attempt, "maxRetries": max,
                    "delayMs": delay_ms, "reason": failure.message,
                });
                self.agent_event(run, "run_status", data, &Audience::Run(key));
            }
            Event::CompactionStart(why) => self.compaction_starts(key, run, *why),
            Event::CompactionEnd(end) => self.compaction_ends(key, run, end),
            Event::Accepted
            | Event::TurnStart
            | Event::MessageStart(_)
            | Event::MessageUpdate(_)
            | Event::MessageEnd(_)
            | Event::TurnEnd { .. }
            | Event::AbortSlow
            | Event::AgentEnd
            | Event::Ended(_) => {}
        }
    }

    fn starts(&mut self, key: &Key, run: &RunId) {
        let now = self.now;
        if let Some(live) = self.live.get_mut(run) {
            live.started = Some(now);
        }
        let data = json!({"phase": "start", "startedAt": now});
        self.agent_event(run, "lifecycle", data, &Audience::Run(key));
        self.session_changed(
            key,
            json!({"phase": "start", "runId": run, "clientRunId": run,
            "hasActiveRun": true, "activeRunIds": [run], "status": "running"}),
        );
    }

    /// The whole text of a message that has ended, for those who follow the run itself.
    fn says_text(&mut self, run: &RunId) {
        let Some(live) = self.live.get(run).filter(|live| !live.text.is_empty()) else { return };
        let key = live.key.clone();
        let data = json!({
            "text": live.text, "delta": "", "itemId": format!("{run}:{}", live.message),
        });
        self.agent_event(run, "assistant", data, &Audience::Run(&key));
    }

    fn tool_ends(&mut self, run: &RunId, call: u16, outcome: &Outcome, calls: &[OpenCall]) {
        self.tool(run, call, calls, |call| {
            let output = match &call.output {
                Some(output) => crate::transcript::ToolOutput::clone(output),
                None => render(outcome, &call.check, &call.name, None),
            };
            let content = rows::without_pictures(&json!(output.content));
            json!({
                "phase": "result", "isError": output.is_error,
                "result": {"content": content, "details": output.details},
            })
        });
    }

    /// An event of a tool: by the run's name for those who started it, else by the session's.
    fn tool(
        &mut self,
        run: &RunId,
        call: u16,
        calls: &[OpenCall],
        data: impl FnOnce(&OpenCall) -> Value,
    ) {
        let Some(call) = calls.get(usize::from(call)) else { return };
        let Some(live) = self.live.get_mut(run) else { return };
        live.seq += 1;
        let (key, seq, own) = (live.key.clone(), live.seq, live.tools.clone());
        let reads = |client: &super::hub::Client| client.scopes.covers(super::auth::Scope::Read);
        let others = self.clients.iter().filter(|(conn, client)| {
            !own.contains(conn)
                && reads(client)
                && (client.subscribed || client.keys.contains(&key))
        });
        let others: Vec<Conn> = others.map(|(conn, _)| *conn).collect();
        if own.is_empty() && others.is_empty() {
            return;
        }
        let mut data = data(call);
        data["name"] = call.name.as_str().into();
        data["toolCallId"] = call.id.as_str().into();
        let mut payload = self.payload(&key, run);
        payload["stream"] = "tool".into();
        payload["seq"] = seq.into();
        payload["data"] = data;
        for (name, conns) in [("agent", own.into_iter().collect()), ("session.tool", others)] {
            if conns.is_empty() {
                continue;
            }
            let head = event_head(name, &payload, None);
            for conn in conns {
                self.give_event(conn, &head, name == "session.tool");
            }
        }
    }

    /// What may be told of texts now.
    pub(super) fn flush_due(&mut self) {
        let due = |live: &Live| live.due().is_some_and(|at| at <= self.now);
        let runs = self.live.iter().filter(|(_, live)| due(live));
        for run in runs.map(|(run, _)| run.clone()).collect::<Vec<_>>() {
            self.flush(&run);
        }
    }

    /// The rest of a text, as a delta with all of it.
    pub(super) fn flush(&mut self, run: &RunId) {
        let (now, completes) = (self.now, self.completes(run));
        let Some(live) = self.live.get_mut(run).filter(|live| live.has_more()) else { return };
        let key = live.key.clone();
        let delta = if live.replaced { &live.text[..] } else { &live.text[live.told..] };
        let piece = completes.then(|| (live.message, delta.to_owned(), live.replaced));
        let message = json!({
            "role": "assistant", "content": [{"type": "text", "text": live.text}],
            "timestamp": now,
        });
        let mut payload = json!({
            "runId": run, "sessionKey": key, "agentId": agent(&key), "seq": live.seq,
            "state": "delta", "deltaText": delta, "message": message,
        });
        if std::mem::take(&mut live.replaced) {
            payload["replace"] = true.into();
        }
        live.told = live.text.len();
        live.told_at = Some(now);
        self.broadcast("chat", &payload, &Audience::Run(&key));
        if let Some(piece) = piece {
            self.completion_says(run, piece);
        }
    }

    pub(super) fn payload(&self, key: &Key, run: &RunId) -> Value {
        json!({"runId": run, "sessionKey": key, "agentId": agent(key), "ts": self.now})
    }

    pub(super) fn agent_event(
        &mut self,
        run: &RunId,
        stream: &str,
        data: Value,
        to: &Audience<'_>,
    ) {
        let Some(live) = self.live.get_mut(run) else { return };
        live.seq += 1;
        let (key, seq) = (live.key.clone(), live.seq);
        let mut payload = self.payload(&key, run);
        payload["stream"] = stream.into();
        payload["seq"] = seq.into();
        payload["data"] = data;
        self.broadcast("agent", &payload, to);
    }

    /// Entries were stored, in the name of a run.
    pub fn stored(&mut self, key: &Key, session: &str, run: &RunId, entries: &[Entry], first: u64) {
        self.learn_id(key, session);
        for (seq, entry) in (first..).zip(entries) {
            let Some(message) = rows::of_entry(entry, seq, Some(run.as_str())) else { continue };
            let payload = json!({
                "sessionKey": key, "agentId": agent(key), "sessionId": session,
                "message": message, "messageId": entry.id, "messageSeq": seq,
                "updatedAt": entry.timestamp, "runId": run,
            });
            self.broadcast("session.message", &payload, &Audience::Session(key));
        }
    }

    pub(super) fn learn_id(&mut self, key: &Key, session: &str) {
        if self.ids.get(key).is_some_and(|known| known == session) {
            return;
        }
        // A cache: what falls out is asked for again.
        if self.ids.len() >= IDS_MAX {
            self.ids.pop_first();
        }
        self.ids.insert(key.clone(), session.to_owned());
    }
}

/// Most ids of sessions that are kept.
const IDS_MAX: usize = 4_096;

/// The agent of a conversation.
pub(super) fn agent(key: &str) -> String {
    SessionKey::parse(key).map(|key| key.agent().to_owned()).unwrap_or_default()
}
