//! One client's connection: which request waits for what, and how answers are worded.

use super::frame::{Fault, Request, answer};
use super::methods::settings;
use crate::base::limits::{ANSWERS_MAX, REQUESTS_MAX};
use crate::base::{Millis, RunId, SessionKey};
use crate::engine::answer::Collected;
use crate::engine::reset::ResetReason;
use crate::engine::sessions::{Event, Input, Key, Outcome, Sessions, Status, Target, Waits};
use crate::engine::{Cause, Termination};
use crate::transcript::OpenCall;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What a frame leads to.
#[derive(Clone, PartialEq, Debug)]
pub enum Do {
    /// A frame goes to the client.
    Send(Value),
    /// The sessions are given this.
    Give(Input),
    /// The answer to `health`.
    Health(String),
    /// The answer to `/queue`.
    ShowQueue(String, Key),
    /// The answer to an abort that follows: what it will stop is known before it does.
    Abort(String, Target),
}

/// What a request for a run waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Want {
    /// An acceptance, and then the end.
    Agent,
    /// An acceptance.
    Chat,
    /// The end.
    End,
}

/// What a request for a session waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    Reset,
    Delete,
    Settings,
}

/// A connection.
pub struct Server {
    pub(super) now: Millis,
    pub(super) boundary: Option<Millis>,
    /// The identity of a request, from its key and text.
    pub(super) identity: fn(&str, &str) -> Arc<str>,
    /// How a plain message waits.
    pub(super) plain: fn(&str) -> Waits,
    pub(super) wants: BTreeMap<RunId, Vec<(String, Want)>>,
    pub(super) waits: BTreeMap<u64, (String, RunId)>,
    pub(super) next_waiter: u64,
    pub(super) changes: Vec<(Key, String, Asked)>,
    collected: BTreeMap<RunId, Collected>,
    /// Answers of runs that have ended, the oldest first: the records know their outcome for ever,
    /// their words for a while.
    answers: VecDeque<(RunId, Value)>,
    seq: u64,
}

impl Server {
    /// A connection, with what the edge knows.
    #[must_use]
    pub fn new(identity: fn(&str, &str) -> Arc<str>, plain: fn(&str) -> Waits) -> Server {
        Server {
            now: Millis(0),
            boundary: None,
            identity,
            plain,
            wants: BTreeMap::new(),
            waits: BTreeMap::new(),
            next_waiter: 0,
            changes: vec![],
            collected: BTreeMap::new(),
            answers: VecDeque::new(),
            seq: 0,
        }
    }

    /// How many requests wait for an answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.wants.len() + self.waits.len() + self.changes.len()
    }

    /// A frame comes in.
    pub fn frame(&mut self, text: &str, now: Millis, boundary: Option<Millis>) -> Vec<Do> {
        self.now = now;
        self.boundary = boundary;
        let request = match Request::read(text) {
            Ok(request) => request,
            Err(error) => {
                let id = error.id.clone().unwrap_or_default();
                return vec![Do::Send(answer(&id, Err(Fault::invalid(error.why))))];
            }
        };
        let id = request.id.clone();
        if self.waiting() >= REQUESTS_MAX {
            let fault = Fault::unavailable("too many requests wait for their answers", true);
            return vec![Do::Send(answer(&id, Err(fault)))];
        }
        match self.method(request) {
            Ok(dos) => dos,
            Err(fault) => vec![Do::Send(answer(&id, Err(fault)))],
        }
    }

    /// What needs a look at the sessions.
    #[must_use]
    pub fn look(&self, what: &Do, sessions: &Sessions) -> Option<Value> {
        match what {
            Do::Health(id) => {
                let health = json!({
                    "ok": true, "ts": self.now, "runs": sessions.unfinished(),
                    "sessions": sessions.in_use(),
                });
                Some(answer(id, Ok(health)))
            }
            Do::ShowQueue(id, key) => Some(answer(id, Ok(settings(sessions.queue_settings(key))))),
            Do::Abort(id, target) => {
                let runs = sessions.stoppable(target);
                let payload = json!({"ok": true, "aborted": !runs.is_empty(), "runIds": runs});
                Some(answer(id, Ok(payload)))
            }
            Do::Send(_) | Do::Give(_) => None,
        }
    }

    /// Something that a run says.
    pub fn told(
        &mut self,
        key: &Key,
        run: &RunId,
        event: &crate::engine::Event,
        calls: &[OpenCall],
        safe: impl Fn(&str) -> bool,
    ) -> Vec<Value> {
        self.collected.entry(run.clone()).or_default().told(event, calls, safe);
        match event {
            crate::engine::Event::AgentStart => {
                vec![self.lifecycle(key, run, json!({"phase": "start", "startedAt": self.now}))]
            }
            _ => vec![],
        }
    }

    fn lifecycle(&mut self, key: &Key, run: &RunId, data: Value) -> Value {
        let mut payload = self.payload(key, run);
        payload["stream"] = "lifecycle".into();
        payload["data"] = data;
        self.event("agent", payload)
    }

    fn payload(&self, key: &Key, run: &RunId) -> Value {
        json!({"runId": run, "sessionKey": key, "agentId": agent(key), "ts": self.now})
    }

    fn event(&mut self, name: &str, payload: Value) -> Value {
        self.seq += 1;
        json!({"type": "event", "event": name, "payload": payload, "seq": self.seq})
    }

    /// Something that the sessions say.
    pub fn of_sessions(&mut self, event: &Event, now: Millis) -> Vec<Value> {
        self.now = now;
        match event {
            Event::Accepted { run, key, at } => self.accepted(run, key, *at),
            Event::Known(run, outcome) => self.known(run, outcome),
            Event::Conflict(run) => {
                let words = format!("run {run} exists already, for another request");
                let fault = Fault::invalid(words).because("chat-request-conflict");
                self.refuse(run, &fault)
            }
            Event::Refused(run, why) => {
                self.refuse(run, &Fault::unavailable(why.to_string(), true))
            }
            Event::Waited { waiter, outcome, queued } => {
                self.waited(*waiter, outcome.as_ref(), *queued).into_iter().collect()
            }
            Event::Ended { key, run, termination, into } => {
                self.ended(key, run, termination, into.as_ref())
            }
            // Nobody asked for it: a message found its session stale.
            Event::Reset(key, Ok(reason @ (ResetReason::Idle | ResetReason::Daily))) => {
                let payload = json!({"sessionKey": key, "reason": reason.word()});
                vec![self.event("sessions.changed", payload)]
            }
            Event::Reset(key, result) => {
                let reason = result.as_ref().map(|reason| json!({"reason": reason.word()}));
                self.settled(key, Asked::Reset, reason.map_err(Arc::clone))
            }
            Event::Deleted(key, result) => {
                let deleted = result.as_ref().map(|()| json!({"deleted": true}));
                self.settled(key, Asked::Delete, deleted.map_err(Arc::clone))
            }
            Event::Set(key, result) => {
                let set = result.as_ref().map(|()| json!({}));
                self.settled(key, Asked::Settings, set.map_err(Arc::clone))
            }
            Event::Waiting(run, ms) => {
                let payload = json!({"runId": run, "waitedMs": ms});
                vec![self.event("queue", payload)]
            }
            Event::Stuck(key, what) => {
                let payload = json!({"sessionKey": key, "state": what});
                vec![self.event("health", payload)]
            }
            Event::GivenUp(key, run, attempts) => {
                let payload = json!({"sessionKey": key, "runId": run, "givenUpAfter": attempts});
                vec![self.event("health", payload)]
            }
            Event::Drained => vec![self.event("shutdown", json!({"reason": "drained"}))],
        }
    }

    fn accepted(&mut self, run: &RunId, key: &Key, at: Millis) -> Vec<Value> {
        let mut out = Vec::new();
        for (id, want) in self.wants.remove(run).unwrap_or_default() {
            match want {
                Want::Agent => {
                    out.push(answer(
                        &id,
                        Ok(json!({
                            "runId": run, "sessionKey": key, "agentId": agent(key),
                            "status": "accepted", "acceptedAt": at,
                        })),
                    ));
                    self.wants.entry(run.clone()).or_default().push((id, Want::End));
                }
                Want::Chat => {
                    out.push(answer(&id, Ok(json!({"runId": run, "status": "started"}))));
                }
                Want::End => self.wants.entry(run.clone()).or_default().push((id, want)),
            }
        }
        out
    }

    /// A repeat: the first request goes on waiting for what it waits for.
    fn known(&mut self, run: &RunId, outcome: &Outcome) -> Vec<Value> {
        let payload = match &outcome.termination {
            None => json!({"runId": run, "status": "in_flight"}),
            Some(_) => {
                let stored = self.answers.iter().find(|(of, _)| of == run);
                stored.map_or_else(|| result(run, outcome), |(_, answer)| answer.clone())
            }
        };
        let wants = self.wants.remove(run).unwrap_or_default();
        let over = outcome.termination.is_some();
        let mut out = Vec::new();
        let mut keep = Vec::new();
        for (at, (id, want)) in wants.iter().enumerate() {
            // The repeat is the one that asked last.
            let last = at + 1 == wants.len();
            if over || (last && *want != Want::End) {
                out.push(answer(id, Ok(payload.clone())));
            } else {
                keep.push((id.clone(), *want));
            }
        }
        if !keep.is_empty() {
            self.wants.insert(run.clone(), keep);
        }
        out
    }

    /// The request that asked last is refused; others of the same run are not.
    fn refuse(&mut self, run: &RunId, fault: &Fault) -> Vec<Value> {
        let Some(wants) = self.wants.get_mut(run) else { return vec![] };
        let Some((id, _)) = wants.pop() else { return vec![] };
        if wants.is_empty() {
            self.wants.remove(run);
        }
        vec![answer(&id, Err(fault.clone()))]
    }

    fn waited(&mut self, waiter: u64, outcome: Option<&Outcome>, queued: bool) -> Option<Value> {
        let (id, run) = self.waits.remove(&waiter)?;
        let payload = match outcome {
            None => return Some(answer(&id, Err(Fault::invalid(format!("unknown run: {run}"))))),
            Some(outcome) if outcome.termination.is_none() => {
                let mut payload = json!({"runId": run, "status": "timeout"});
                if queued {
                    payload["timeoutPhase"] = "queue".into();
                }
                payload
            }
            Some(outcome) => result(&run, outcome),
        };
        Some(answer(&id, Ok(payload)))
    }

    fn ended(
        &mut self,
        key: &Key,
        run: &RunId,
        termination: &Termination,
        into: Option<&RunId>,
    ) -> Vec<Value> {
        let payloads = match into {
            Some(_) => vec![],
            None => self.collected.get(run).map_or_else(Vec::new, |c| c.payloads(termination)),
        };
        self.collected.remove(run);
        let texts: Vec<Value> =
            payloads.iter().map(|p| json!({"text": p.text, "mediaUrl": null})).collect();
        let status = status(termination);
        let mut payload = json!({
            "runId": run, "status": word(status), "summary": summary(termination),
            "termination": termination, "result": {"payloads": texts},
        });
        if let Some(into) = into {
            payload["joinedRunId"] = into.as_str().into();
        }
        if self.answers.len() >= ANSWERS_MAX {
            self.answers.pop_front();
        }
        self.answers.push_back((run.clone(), payload.clone()));
        let phase = if status == Status::Error { "error" } else { "end" };
        let mut out = vec![self.lifecycle(key, run, json!({"phase": phase, "endedAt": self.now}))];
        let mut chat = self.payload(key, run);
        chat["state"] = chat_state(termination).into();
        if into.is_none() && !payloads.is_empty() {
            let text: Vec<&str> = payloads.iter().map(|p| p.text.as_str()).collect();
            let content = json!([{"type": "text", "text": text.join("\n\n")}]);
            chat["message"] = json!({"role": "assistant", "content": content});
        }
        out.push(self.event("chat", chat));
        for (id, _) in self.wants.remove(run).unwrap_or_default() {
            out.push(answer(&id, Ok(payload.clone())));
        }
        out
    }

    fn settled(&mut self, key: &Key, asked: Asked, result: Result<Value, Arc<str>>) -> Vec<Value> {
        let found = self.changes.iter().position(|(k, _, a)| k == key && *a == asked);
        let Some(at) = found else { return vec![] };
        let (_, id, _) = self.changes.remove(at);
        vec![answer(
            &id,
            match result {
                Ok(mut payload) => {
                    payload["ok"] = true.into();
                    payload["key"] = (&**key).into();
                    Ok(payload)
                }
                Err(why) => Err(Fault::unavailable(why.to_string(), false)),
            },
        )]
    }
}

fn agent(key: &Key) -> String {
    SessionKey::parse(key).map(|key| key.agent().to_owned()).unwrap_or_default()
}

fn status(termination: &Termination) -> Status {
    let outcome = Outcome {
        accepted_at: Millis(0),
        started_at: None,
        ended_at: None,
        termination: Some(termination.clone()),
        into: None,
    };
    outcome.status()
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Error => "error",
        Status::Timeout => "timeout",
    }
}

fn summary(termination: &Termination) -> &'static str {
    match termination {
        Termination::Completed { .. } => "completed",
        Termination::Aborted { cause: Cause::Timeout } => "timed out",
        Termination::Aborted { .. } => "aborted",
        Termination::ProviderError { .. } | Termination::Failed { .. } => "failed",
        Termination::ToolLoop => "tool loop",
        Termination::PolicyStop { .. } => "stopped by a rule",
        Termination::Superseded { .. } => "superseded",
    }
}

fn chat_state(termination: &Termination) -> &'static str {
    match termination {
        Termination::Completed { .. } | Termination::PolicyStop { .. } => "final",
        Termination::Aborted { .. } | Termination::Superseded { .. } => "aborted",
        Termination::ProviderError { .. } | Termination::ToolLoop | Termination::Failed { .. } => {
            "error"
        }
    }
}

/// What the records know of a run that has ended.
fn result(run: &RunId, outcome: &Outcome) -> Value {
    let mut payload = json!({
        "runId": run, "status": word(outcome.status()), "startedAt": outcome.started_at,
        "endedAt": outcome.ended_at,
    });
    if let Some(termination) = &outcome.termination {
        payload["summary"] = summary(termination).into();
        payload["termination"] = json!(termination);
        if outcome.status() == Status::Error {
            payload["error"] = summary(termination).into();
        }
    }
    if let Some(into) = &outcome.into {
        payload["joinedRunId"] = into.as_str().into();
    }
    payload
}
