//! What the log is told (Y22): who comes and goes, what ran and how it ended. Ids and words of our
//! own alone: never what somebody said, never a credential.

use super::hub::{Client, Gateway};
use super::out::{Conn, Do};
use crate::base::{Level, RunId};
use crate::engine::sessions::{Event, Key, Why};
use crate::engine::{Fault, Termination};
use serde_json::Value;

impl Gateway {
    /// A line.
    pub(super) fn log(&mut self, level: Level, of: &'static str, words: String) {
        self.out.push(Do::Log(level, of, words));
    }

    pub(super) fn log_hello(&mut self, conn: Conn, client: &Client) {
        let device = client.device.as_deref().unwrap_or("none");
        let from = client.ip.as_deref().unwrap_or("pipe");
        let words = format!(
            "connected: {} ({}) from {from}, connection {conn}, device {device}",
            client.id, client.mode
        );
        self.log(Level::Info, "connections", words);
    }

    pub(super) fn log_refused(&mut self, conn: Conn, error: &Value) {
        let code = error["details"]["code"].as_str().or_else(|| error["code"].as_str());
        let from = self.lines.get(&conn).map(|line| line.address.to_string());
        let words = format!(
            "refused: {}, connection {conn} from {}",
            code.unwrap_or("unknown"),
            from.unwrap_or_default()
        );
        self.log(Level::Warn, "connections", words);
    }

    pub(super) fn log_gone(&mut self, conn: Conn, client: &Client) {
        let lasted = self.now.since(client.since);
        let words = format!("gone: {}, connection {conn} after {lasted} ms", client.id);
        self.log(Level::Info, "connections", words);
    }

    pub(super) fn log_run(&mut self, level: Level, key: &Key, run: &RunId, what: &str) {
        self.log(level, "runs", format!("run {run} of {key}: {what}"));
    }

    pub(super) fn log_end(
        &mut self,
        key: &Key,
        run: &RunId,
        end: &Termination,
        into: Option<&RunId>,
    ) {
        let level = match end {
            Termination::Completed { .. }
            | Termination::Aborted { .. }
            | Termination::PolicyStop { .. }
            | Termination::Superseded { .. } => Level::Info,
            Termination::ProviderError { .. } | Termination::ToolLoop => Level::Warn,
            Termination::Failed { .. } => Level::Error,
        };
        let mut words = match end {
            Termination::ProviderError { fail } => format!("ended: model error {}", fail.name()),
            Termination::Failed { fault: Fault::Store } => "ended: a commit has failed".to_owned(),
            Termination::Aborted { .. }
            | Termination::Completed { .. }
            | Termination::ToolLoop
            | Termination::PolicyStop { .. }
            | Termination::Superseded { .. }
            | Termination::Failed { .. } => format!("ended: {}", super::ends::summary(end)),
        };
        let started = self.live.get(run).and_then(|live| live.started);
        if let Some(started) = started {
            words += &format!(" after {} ms", self.now.since(started));
        }
        if let Some(into) = into {
            words += &format!(", with run {into}");
        }
        self.log_run(level, key, run, &words);
    }

    pub(super) fn log_sessions(&mut self, event: &Event) {
        match event {
            Event::Refused(run, Why::Store(_)) => {
                let words = format!("run {run} is refused: a commit has failed");
                self.log(Level::Error, "runs", words);
            }
            Event::Refused(run, why) => {
                self.log(Level::Warn, "runs", format!("run {run} is refused: {why}"));
            }
            Event::Reset(key, Ok(reason)) => {
                let words = format!("{key} begins anew: {}", reason.word());
                self.log(Level::Info, "sessions", words);
            }
            Event::Deleted(key, Ok(())) => {
                self.log(Level::Info, "sessions", format!("{key} is deleted"));
            }
            Event::Reset(key, Err(_)) | Event::Deleted(key, Err(_)) | Event::Set(key, Err(_)) => {
                let words = format!("a change of {key} has failed");
                self.log(Level::Error, "sessions", words);
            }
            Event::Stuck(key, _) => {
                self.log(Level::Warn, "sessions", format!("{key} does not get on"));
            }
            Event::GivenUp(key, run, attempts) => {
                let words = format!("given up after {attempts} attempts to take it up");
                self.log_run(Level::Warn, key, run, &words);
            }
            Event::Waiting(run, ms) => {
                let words = format!("run {run} has waited {ms} ms for its lane");
                self.log(Level::Debug, "runs", words);
            }
            Event::Accepted { run, key, .. } => {
                let (run, key) = (run.clone(), key.clone());
                self.log_run(Level::Debug, &key, &run, "accepted");
            }
            Event::Set(_, Ok(()))
            | Event::Known(..)
            | Event::Conflict(_)
            | Event::Waited { .. }
            | Event::Ended { .. }
            | Event::Drained => {}
        }
    }
}
