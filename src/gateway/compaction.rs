//! Compactions as clients see them (Y23; protocol 5.4): events of the run and of its session, and
//! the answer to who asked for one.

use super::frame::Fault;
use super::hub::{Audience, Gateway};
use super::out::Conn;
use super::runs::agent;
use crate::base::RunId;
use crate::engine::sessions::Key;
use crate::engine::{CompactionEnd, Termination, Trigger};
use serde_json::{Value, json};

impl Gateway {
    pub(super) fn compaction_starts(&mut self, key: &Key, run: &RunId, why: Trigger) {
        let data = json!({"phase": "start", "reason": why.word()});
        self.agent_event(run, "compaction", data, &Audience::Run(key));
        self.operation(key, run, json!({"phase": "start", "reason": why.word()}));
    }

    pub(super) fn compaction_ends(&mut self, key: &Key, run: &RunId, end: &CompactionEnd) {
        let told = ended(end);
        let mut data = json!({
            "phase": "end", "completed": told["compacted"], "outcome": told["outcome"],
            "willRetry": matches!(end, CompactionEnd::Completed { retry: true, .. }),
        });
        for field in ["reason", "result"] {
            if let Some(value) = told.get(field) {
                data[field] = value.clone();
            }
        }
        self.agent_event(run, "compaction", data.clone(), &Audience::Run(key));
        self.operation(key, run, data);
        if let Some(live) = self.live.get_mut(run) {
            live.compaction = Some(told);
        }
        if matches!(end, CompactionEnd::Completed { .. }) {
            self.session_changed(key, json!({"reason": "compact"}));
        }
    }

    fn operation(&mut self, key: &Key, run: &RunId, mut data: Value) {
        data["operation"] = "compact".into();
        data["sessionKey"] = (**key).into();
        data["agentId"] = agent(key).into();
        data["runId"] = run.as_str().into();
        data["ts"] = self.now.0.into();
        self.broadcast("session.operation", &data, &Audience::Session(key));
    }

    /// The answer to `sessions.compact`, when its run is over.
    pub(super) fn answer_compaction(
        &mut self,
        (conn, id): (Conn, &str),
        key: &Key,
        end: &Termination,
        told: Option<&Value>,
    ) {
        let answer = match told {
            Some(told) if told["outcome"] != "failed" => {
                let mut answer = json!({"ok": true, "key": key, "compacted": told["compacted"]});
                for field in ["reason", "result"] {
                    if let Some(value) = told.get(field) {
                        answer[field] = value.clone();
                    }
                }
                Ok(answer)
            }
            Some(told) => {
                let why = told["reason"].as_str().unwrap_or("no reason was given");
                Err(Fault::failed(format!("the session could not be compacted: {why}")))
            }
            None => {
                let end = super::ends::summary(end);
                Err(Fault::failed(format!("the session was not compacted: the run {end}")))
            }
        };
        self.respond(conn, id, answer);
    }
}

/// What is told of an end.
fn ended(end: &CompactionEnd) -> Value {
    match end {
        CompactionEnd::Completed { made, .. } => {
            let mut told = json!({
                "compacted": true, "outcome": "completed",
                "result": {
                    "summary": made.summary, "firstKeptEntryId": made.first_kept_entry_id,
                    "tokensBefore": made.tokens_before, "tokensAfter": made.tokens_after,
                },
            });
            if !made.summarized {
                told["reason"] = "the earlier messages were removed without a summary".into();
            }
            told
        }
        CompactionEnd::Skipped(why) => {
            json!({"compacted": false, "outcome": "skipped", "reason": &**why})
        }
        CompactionEnd::Aborted => {
            json!({"compacted": false, "outcome": "aborted", "reason": "it was stopped"})
        }
        CompactionEnd::Failed(why) => {
            json!({"compacted": false, "outcome": "failed", "reason": &**why})
        }
    }
}

/// The words for the person who asked, where the run has none of its own.
pub(super) fn words(told: &Value) -> String {
    let result = &told["result"];
    let why = told["reason"].as_str();
    match (told["compacted"] == true, why) {
        (true, why) => {
            let (before, after) = (&result["tokensBefore"], &result["tokensAfter"]);
            let why = why.map(|why| format!("; {why}")).unwrap_or_default();
            format!("Compacted: about {before} tokens became {after}{why}.")
        }
        (false, Some(why)) => format!("Not compacted: {why}."),
        (false, None) => "Not compacted.".to_owned(),
    }
}
