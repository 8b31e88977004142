//! What the sessions say, told to those who wait: acceptances, ends, changes.

use super::compaction;
use super::frame::Fault;
use super::hub::{Audience, Gateway};
use super::methods::Message;
use super::out::Conn;
use super::pending::{After, Asked, Want};
use super::rows;
use super::runs::{Live, agent};
use crate::base::limits::ANSWERS_MAX;
use crate::base::{Millis, RunId};
use crate::engine::reset::ResetReason;
use crate::engine::sessions::{Event, Key, Outcome, Status};
use crate::engine::{Cause, Termination};
use crate::records::Query;
use serde_json::{Value, json};
use std::sync::Arc;

impl Gateway {
    /// Something that the sessions say.
    pub fn of_sessions(&mut self, event: &Event) {
        let now = self.now;
        self.log_sessions(event);
        match event {
            Event::Accepted { run, key, at } => self.accepted(run, key, *at),
            Event::Known(run, outcome) => self.known(run, outcome),
            Event::Conflict(run) => {
                let words = format!("run {run} exists already, for another request");
                let fault = Fault::invalid(words).because("chat-request-conflict");
                self.refuse(run, fault);
            }
            Event::Refused(run, why) => self.refuse(run, Fault::unavailable(why.to_string())),
            Event::Waited { waiter, outcome, queued } => {
                self.waited(*waiter, outcome.as_ref(), *queued);
            }
            Event::Ended { key, run, termination, into } => {
                self.ended(key, run, termination, into.as_ref());
            }
            // Nobody asked for it: a message found its session stale.
            Event::Reset(key, Ok(reason @ (ResetReason::Idle | ResetReason::Daily))) => {
                self.session_changed(key, json!({"reason": reason.word()}));
            }
            Event::Reset(key, result) => self.was_reset(key, result),
            Event::Deleted(key, result) => self.deleted(key, result),
            Event::Set(key, result) => {
                let result = result.clone();
                for (conn, id) in self.change(key, |asked| asked == Asked::Settings) {
                    let answer = result.clone().map(|()| json!({"ok": true, "key": key}));
                    self.respond(conn, &id, answer.map_err(|why| refused(&why)));
                }
            }
            Event::Waiting(run, ms) => {
                let data = json!({"phase": "queued", "waitedMs": ms});
                if let Some(live) = self.live.get(run) {
                    let key = live.key.clone();
                    self.agent_event(run, "run_status", data, &Audience::Run(&key));
                }
            }
            Event::Stuck(key, what) => {
                let payload = json!({"ok": true, "ts": now, "sessionKey": key, "state": what});
                self.broadcast("health", &payload, &Audience::All);
            }
            Event::GivenUp(key, run, attempts) => {
                let payload = json!({"ok": true, "ts": now, "sessionKey": key, "runId": run,
                    "givenUpAfter": attempts});
                self.broadcast("health", &payload, &Audience::All);
            }
            Event::Drained => self.shutdown("drained"),
        }
    }

    fn accepted(&mut self, run: &RunId, key: &Key, at: Millis) {
        let wants = self.wants.remove(run).unwrap_or_default();
        let live = self.live.entry(run.clone()).or_insert_with(|| Live::new(key));
        for (conn, _, _) in &wants {
            if self.clients.get(conn).is_some_and(|client| client.caps.contains("tool-events")) {
                live.tools.insert(*conn);
            }
        }
        let mut keep = Vec::new();
        for (conn, id, want) in wants {
            let answer = match want {
                Want::Agent => {
                    let answer = json!({
                        "runId": run, "sessionKey": key, "agentId": agent(key),
                        "status": "accepted", "acceptedAt": at,
                    });
                    keep.push((conn, id.clone(), Want::End));
                    answer
                }
                Want::Chat => json!({"runId": run, "status": "started"}),
                Want::Created => {
                    self.was_created(conn, &id, "started", None);
                    continue;
                }
                Want::Completion => {
                    self.completion_begins(conn);
                    keep.push((conn, id, Want::End));
                    continue;
                }
                Want::End | Want::Compact => {
                    keep.push((conn, id, want));
                    continue;
                }
            };
            self.respond(conn, &id, Ok(answer));
        }
        if !keep.is_empty() {
            self.wants.insert(run.clone(), keep);
        }
        self.session_changed(key, json!({"reason": "send", "runId": run, "clientRunId": run}));
    }

    /// A repeat: the first request goes on waiting for what it waits for.
    fn known(&mut self, run: &RunId, outcome: &Outcome) {
        let payload = match &outcome.termination {
            None => json!({"runId": run, "status": "in_flight"}),
            Some(_) => {
                let stored = self.answers.iter().find(|(of, _)| of == run);
                let stored = stored.and_then(|(_, answer)| serde_json::from_str(answer).ok());
                stored.unwrap_or_else(|| result(run, outcome))
            }
        };
        let wants = self.wants.remove(run).unwrap_or_default();
        let (over, count) = (outcome.termination.is_some(), wants.len());
        let mut keep = Vec::new();
        for (at, (conn, id, want)) in wants.into_iter().enumerate() {
            // The repeat is the one that asked last.
            if want == Want::Created {
                let status = payload["status"].as_str().unwrap_or_default().to_owned();
                self.was_created(conn, &id, &status, None);
            } else if over || (at + 1 == count && want != Want::End) {
                self.respond(conn, &id, Ok(payload.clone()));
            } else {
                keep.push((conn, id, want));
            }
        }
        if !keep.is_empty() {
            self.wants.insert(run.clone(), keep);
        }
    }

    /// The request that asked last is refused; others of the same run are not.
    fn refuse(&mut self, run: &RunId, fault: Fault) {
        let Some(wants) = self.wants.get_mut(run) else { return };
        let Some((conn, id, want)) = wants.pop() else { return };
        if wants.is_empty() {
            self.wants.remove(run);
        }
        match want {
            Want::Created => self.was_created(conn, &id, "error", Some(&fault)),
            Want::Agent | Want::Chat | Want::Completion | Want::Compact | Want::End => {
                self.respond(conn, &id, Err(fault))
            }
        }
    }

    /// What became of the first message of a session that was just made.
    pub(super) fn was_created(
        &mut self,
        conn: Conn,
        id: &str,
        status: &str,
        fault: Option<&Fault>,
    ) {
        let Some(mut answer) = self.creating.remove(&(conn, id.to_owned())) else { return };
        answer["runStarted"] = fault.is_none().into();
        answer["status"] = status.into();
        if let Some(fault) = fault {
            answer["runError"] = fault.shape();
        }
        self.respond(conn, id, Ok(answer));
    }

    fn waited(&mut self, waiter: u64, outcome: Option<&Outcome>, queued: bool) {
        let Some((conn, id, run)) = self.waits.remove(&waiter) else { return };
        let payload = match outcome {
            None => {
                let fault = Fault::invalid(format!("unknown run: {run}"));
                return self.respond(conn, &id, Err(fault));
            }
            Some(outcome) if outcome.termination.is_none() => {
                let mut payload = json!({"runId": run, "status": "timeout"});
                if queued {
                    payload["timeoutPhase"] = "queue".into();
                }
                payload
            }
            Some(outcome) => result(&run, outcome),
        };
        self.respond(conn, &id, Ok(payload));
    }

    fn ended(&mut self, key: &Key, run: &RunId, end: &Termination, into: Option<&RunId>) {
        self.flush(run);
        self.note_end(key, run, end);
        self.log_end(key, run, end, into);
        let live = self.live.remove(run);
        let payloads = match (into, &live) {
            (None, Some(live)) => live.collected.payloads(end),
            (Some(_), _) | (None, None) => vec![],
        };
        let texts: Vec<Value> =
            payloads.iter().map(|p| json!({"text": p.text, "mediaUrl": null})).collect();
        let started = live.as_ref().and_then(|live| live.started);
        let took = self.now.since(started.unwrap_or(self.now));
        let mut payload = json!({
            "runId": run, "status": rows::status(status(end)), "summary": summary(end),
            "termination": end,
            "result": {"payloads": texts, "meta": {
                "durationMs": took, "aborted": matches!(end, Termination::Aborted { .. }),
            }},
        });
        if let Some(into) = into {
            payload["joinedRunId"] = into.as_str().into();
        }
        if self.answers.len() >= ANSWERS_MAX {
            self.answers.pop_front();
        }
        self.answers.push_back((run.clone(), payload.to_string().into()));
        let text: Vec<&str> = payloads.iter().map(|p| p.text.as_str()).collect();
        let text = (into.is_none() && !text.is_empty()).then(|| text.join("\n\n"));
        let compaction = live.as_ref().and_then(|live| live.compaction.clone());
        let silent = compaction.as_ref().filter(|_| text.is_none() && into.is_none());
        let text = text.or_else(|| silent.map(compaction::words));
        let seq = live.map_or(0, |live| {
            let seq = live.seq;
            self.live.insert(run.clone(), live);
            seq
        });
        self.tells_end(key, run, end, text, (seq, into.is_some()));
        self.live.remove(run);
        for (conn, id, want) in self.wants.remove(run).unwrap_or_default() {
            if want == Want::Compact {
                self.answer_compaction((conn, &id), key, end, compaction.as_ref());
                continue;
            }
            let answer = match end {
                Termination::ProviderError { .. }
                | Termination::Failed { .. }
                | Termination::ToolLoop => {
                    let words = texts.iter().filter_map(|text| text["text"].as_str()).next();
                    let fault = Fault::failed(words.unwrap_or(summary(end)));
                    Err(Fault { payload: Some(payload.clone()), ..fault })
                }
                _ => Ok(payload.clone()),
            };
            self.respond(conn, &id, answer);
        }
    }

    /// The end of the run's lifecycle, the final of its chat, and the session's rest.
    fn tells_end(
        &mut self,
        key: &Key,
        run: &RunId,
        end: &Termination,
        text: Option<String>,
        (seq, joined): (u64, bool),
    ) {
        let (now, error) = (self.now, status(end) == Status::Error && !aborted(end));
        let phase = if error { "error" } else { "end" };
        let mut data = json!({"phase": phase, "endedAt": now, "aborted": aborted(end)});
        if error {
            data["error"] = text.as_deref().unwrap_or(summary(end)).into();
        }
        if aborted(end) {
            data["status"] = "cancelled".into();
        }
        self.agent_event(run, "lifecycle", data, &Audience::Run(key));
        let mut chat = json!({
            "runId": run, "sessionKey": key, "agentId": agent(key), "seq": seq + 1,
            "state": state(end), "ts": now,
        });
        chat["stopReason"] = stop_reason(end).into();
        match text {
            Some(text) if error => chat["errorMessage"] = text.into(),
            Some(text) => {
                let content = json!([{"type": "text", "text": text}]);
                chat["message"] =
                    json!({"role": "assistant", "content": content, "timestamp": now});
            }
            None if error => chat["errorMessage"] = summary(end).into(),
            None => {
                // What a stopped run had said so far is shown, though nobody is sent it.
                let said = self.live.get(run).filter(|_| aborted(end) && !joined);
                if let Some(live) = said.filter(|live| !live.text.is_empty()) {
                    let content = json!([{"type": "text", "text": live.text}]);
                    chat["message"] =
                        json!({"role": "assistant", "content": content, "timestamp": now});
                }
            }
        }
        self.broadcast("chat", &chat, &Audience::Run(key));
        if joined {
            // Its session goes on with the run that answers it.
            return;
        }
        self.session_changed(
            key,
            json!({"phase": phase, "runId": run, "clientRunId": run, "hasActiveRun": false,
                "activeRunIds": [], "status": if error { "failed" } else { "done" }}),
        );
    }

    fn was_reset(&mut self, key: &Key, result: &Result<ResetReason, Arc<str>>) {
        let asked = self.change(key, |asked| match (asked, result) {
            (Asked::Reset(asked), Ok(reason)) => asked == *reason,
            (Asked::Reset(_), Err(_)) => true,
            (Asked::Delete | Asked::Settings, _) => false,
        });
        match result {
            Ok(reason) => {
                let word = reason.word();
                self.session_changed(key, json!({"reason": word, "hasActiveRun": false}));
                for (conn, id) in asked {
                    let after = After::Entry { key: key.clone(), reason: word, told: true };
                    self.ask(conn, id, Query::Session(key.to_string()), after);
                }
            }
            Err(why) => {
                for (conn, id) in asked {
                    self.respond(conn, &id, Err(refused(why)));
                }
            }
        }
    }

    fn deleted(&mut self, key: &Key, result: &Result<(), Arc<str>>) {
        let asked = self.change(key, |asked| asked == Asked::Delete);
        self.ids.remove(key);
        if result.is_ok() {
            self.session_changed(key, json!({"reason": "delete"}));
        }
        for (conn, id) in asked {
            let answer = json!({"ok": true, "key": key, "deleted": true, "archived": []});
            let answer = result.clone().map(|()| answer);
            self.respond(conn, &id, answer.map_err(|why| refused(&why)));
        }
    }

    /// Who asked for this change first, and those who asked for the same while it had not begun:
    /// the sessions make it once for all of them.
    fn change(&mut self, key: &Key, fits: impl Fn(Asked) -> bool) -> Vec<(Conn, String)> {
        let mut found = Vec::new();
        let first = self.changes.iter().position(|(of, _, _, what)| of == key && fits(*what));
        let Some(mut at) = first else { return found };
        let asked = self.changes[at].3;
        while let Some((of, conn, id, what)) = self.changes.get(at) {
            if of != key {
                at += 1;
                continue;
            }
            let more = *what == asked && (found.is_empty() || asked != Asked::Settings);
            if !more {
                break;
            }
            found.push((*conn, id.clone()));
            self.changes.remove(at);
        }
        found
    }

    /// A message whose sender has gone is sent all the same, if it was promised.
    pub(super) fn sends(&mut self, conn: Conn, id: String, message: Message) {
        let created = message.want == Want::Created;
        match self.send(conn, id.clone(), message) {
            Ok(()) => {}
            Err(fault) if created => self.was_created(conn, &id, "error", Some(&fault)),
            Err(fault) => self.respond(conn, &id, Err(fault)),
        }
    }
}

fn refused(why: &Arc<str>) -> Fault {
    Fault::failed(why.to_string())
}

fn aborted(end: &Termination) -> bool {
    matches!(end, Termination::Aborted { .. } | Termination::Superseded { .. })
}

fn status(end: &Termination) -> Status {
    let outcome = Outcome {
        accepted_at: Millis(0),
        started_at: None,
        ended_at: None,
        termination: Some(end.clone()),
        into: None,
    };
    outcome.status()
}

/// How a run ended, in a word or two.
pub(super) fn summary(end: &Termination) -> &'static str {
    match end {
        Termination::Completed { .. } => "completed",
        Termination::Aborted { cause: Cause::Timeout } => "timed out",
        Termination::Aborted { .. } => "aborted",
        Termination::ProviderError { .. } | Termination::Failed { .. } => "failed",
        Termination::ToolLoop => "tool loop",
        Termination::PolicyStop { .. } => "stopped by a rule",
        Termination::Superseded { .. } => "superseded",
    }
}

fn stop_reason(end: &Termination) -> &'static str {
    match end {
        Termination::Completed { cut: true } => "length",
        Termination::Completed { cut: false } | Termination::PolicyStop { .. } => "stop",
        Termination::Aborted { cause: Cause::Timeout } => "timeout",
        Termination::Aborted { cause: Cause::User } => "rpc",
        Termination::Aborted { .. } => "restart",
        Termination::Superseded { .. } => "superseded",
        Termination::ProviderError { .. } | Termination::ToolLoop | Termination::Failed { .. } => {
            "error"
        }
    }
}

fn state(end: &Termination) -> &'static str {
    match end {
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
        "runId": run, "status": rows::status(outcome.status()), "startedAt": outcome.started_at,
        "endedAt": outcome.ended_at,
    });
    if let Some(termination) = &outcome.termination {
        payload["summary"] = summary(termination).into();
        payload["termination"] = json!(termination);
        payload["stopReason"] = stop_reason(termination).into();
        if outcome.status() == Status::Error {
            payload["error"] = summary(termination).into();
        }
    }
    if let Some(into) = &outcome.into {
        payload["joinedRunId"] = into.as_str().into();
    }
    payload
}
