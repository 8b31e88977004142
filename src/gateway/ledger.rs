//! What runs and tools do, noted in the audit ledger; and its pages for clients (`spec/audit.md`).

use super::audit::{Ending, Page, Query, Subject, What, row};
use super::frame::{Fault, Params};
use super::hub::{Gateway, Sight};
use super::out::{Conn, Do};
use super::runs::agent;
use crate::base::{Level, RunId};
use crate::engine::sessions::Key;
use crate::engine::{Cause, Event, Outcome, Termination};
use crate::transcript::OpenCall;
use serde_json::Value;

impl Gateway {
    /// One event of a run, as far as the ledger is concerned.
    pub(super) fn note(&mut self, key: &Key, run: &RunId, event: &Event, calls: &[OpenCall]) {
        let call = |n: &u16| calls.get(usize::from(*n));
        match event {
            Event::AgentStart => {
                self.audit(key, run, What::RunStarted);
                self.log_run(Level::Info, key, run, "started");
            }
            Event::Retry { attempt, max, delay_ms, failure } => {
                let kind = failure.kind.name();
                let what =
                    format!("its model failed: {kind}; try {attempt} of {max} in {delay_ms} ms");
                self.log_run(Level::Warn, key, run, &what);
            }
            Event::ToolStart(n) => {
                if let Some(call) = call(n) {
                    let what = What::ToolStarted { call: &call.id, name: &call.name };
                    self.audit(key, run, what);
                }
            }
            Event::ToolEnd { call: n, outcome, started } => {
                if let Some(call) = call(n) {
                    let ending = tool_ending(outcome, *started);
                    let what = What::ToolEnded { call: &call.id, name: &call.name, ending };
                    self.audit(key, run, what);
                }
            }
            Event::Accepted
            | Event::TurnStart
            | Event::MessageStart(_)
            | Event::MessageUpdate(_)
            | Event::MessageReset
            | Event::MessageEnd(_)
            | Event::ToolUpdate(..)
            | Event::TurnEnd { .. }
            | Event::CompactionStart(_)
            | Event::CompactionEnd(_)
            | Event::AbortSlow
            | Event::AgentEnd
            | Event::Ended(_) => {}
        }
    }

    /// The end of a run.
    pub(super) fn note_end(&mut self, key: &Key, run: &RunId, end: &Termination) {
        let ending = match end {
            Termination::Completed { .. } => Ending::Succeeded,
            Termination::Aborted { cause: Cause::Timeout } => Ending::TimedOut,
            Termination::Aborted { .. } | Termination::Superseded { .. } => Ending::Cancelled,
            Termination::PolicyStop { .. } | Termination::ToolLoop => Ending::Blocked,
            Termination::ProviderError { .. } | Termination::Failed { .. } => Ending::Failed,
        };
        self.audit(key, run, What::RunEnded(ending));
    }

    fn audit(&mut self, key: &Key, run: &RunId, what: What<'_>) {
        let Some(live) = self.live.get_mut(run) else { return };
        live.noted += 1;
        let subject = Subject {
            agent: agent(key),
            key: Some(key.to_string()),
            session: self.ids.get(key).cloned(),
            run: run.to_string(),
            // Every start of the process is another instance of the run (recovery, V1).
            generation: self.started.0,
        };
        let place = live.noted;
        self.out.push(Do::Audit(Box::new(row(&subject, what, place, self.now))));
    }

    /// `audit.list` and `audit.activity.list`.
    pub(super) fn audit_list(
        &mut self,
        conn: Conn,
        id: &str,
        params: &Params,
        activity: bool,
    ) -> Result<Option<Value>, Fault> {
        let query = Query::read(&params.0)?;
        let ticket = self.ticket();
        self.pages.insert(ticket, (conn, id.to_owned(), activity));
        self.out.push(Do::Page(ticket, Box::new(query)));
        Ok(None)
    }

    /// A page of the ledger was read.
    pub fn paged(&mut self, ticket: u64, page: Result<Page, String>, sight: Sight<'_>) {
        self.see(sight);
        let Some((conn, id, activity)) = self.pages.remove(&ticket) else { return };
        let result = page.map(|page| page.answer(activity)).map_err(Fault::failed);
        self.respond(conn, &id, result);
    }
}

fn tool_ending(outcome: &Outcome, started: bool) -> Ending {
    match outcome {
        Outcome::UnknownAfterStop | Outcome::UnknownAfterTakeover | Outcome::Unsettled => {
            Ending::Unknown
        }
        Outcome::Tool(_)
        | Outcome::Unstarted(_)
        | Outcome::Kept
        | Outcome::NotStartedBeforeStop
        | Outcome::NotStartedBeforeTakeover => Ending::of_tool(started, outcome.is_error(), None),
    }
}
