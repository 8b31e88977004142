//! What the last process left: waiting runs, interrupted ones, and how those are taken up.

use super::clock::entropy;
use super::links::{Observer, Owner};
use super::{Reactor, ReactorError, stored};
use crate::base::{MsgId, RunId, id};
use crate::engine::recovery::{Candidate, CandidateKind};
use crate::engine::sessions::{Arrival, Input, Key, Restored, Waits};
use crate::engine::turns::Arriving;
use crate::engine::{Cause, Termination};
use crate::store::{Boot, Change as Managed, Job, Manage, Part};
use crate::transcript::{Content, User};
use std::sync::Arc;

impl Reactor {
    /// What the last process left is taken up; a process for one conversation leaves the others
    /// as they are.
    pub(super) fn booted(
        &mut self,
        boot: Boot,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let only = self.only.clone();
        let wanted = |key: &str| only.as_deref().is_none_or(|only| only == key);
        let mut waiting = Vec::new();
        for was in boot.waiting.into_iter().filter(|was| wanted(&was.key)) {
            let text = was.body.content.to_text();
            let waits = stored::read(was.turn.as_deref(), &text);
            self.bodies.insert(was.run.clone(), (was.msg, was.body));
            waiting.push(Restored {
                key: was.key.into(),
                run: was.run,
                request: was.request.into(),
                msg: was.msg,
                accepted_at: was.accepted_at,
                waits,
            });
        }
        let alone = self.only.is_some();
        let cut = boot.interrupted.into_iter().filter(|_| !alone);
        let interrupted = cut.map(|cut| {
            let waits = stored::read(cut.turn.as_deref(), "");
            // Attempts count over all starts: a turn that kills the process does it a few times.
            let attempts = waits.attempt;
            // A compaction that was cut off has changed nothing: there is nothing to go on with.
            let kind = match waits.arriving {
                Arriving::Compaction => CandidateKind::Cron,
                _ => kind_of(&cut.key),
            };
            let session = cut.key.into();
            Candidate { session, run: cut.run, kind, attempts, narrowed: cut.unsure }
        });
        let interrupted = interrupted.collect();
        for (key, run, msg, why) in boot.damaged {
            if wanted(&key) {
                self.write_off(&key, run, msg, &why, observer)?;
            }
        }
        self.ready = true;
        let next_msg = boot.next_msg;
        self.decide(Input::Boot { next_msg, waiting, interrupted }, observer)
    }

    /// A run whose message is not there can only end: its message was answered by a run that was
    /// cut off, or it is damaged.
    pub(super) fn write_off(
        &mut self,
        key: &str,
        run: RunId,
        msg: MsgId,
        why: &str,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        observer.notice(Some(&key.into()), &format!("run {run} is closed: {why}"));
        let at = self.links.clock.now();
        let termination = Termination::Aborted { cause: Cause::Restart };
        let what = Managed::Drop { runs: vec![(run, msg)], termination };
        let manage = Manage { key: key.to_owned(), at, what };
        let ticket = self.links.ticket(Owner::Nobody);
        self.links.send(Job::Write(ticket, Part::Manage(Box::new(manage))))
    }

    /// The message that takes up an interrupted run (semantics 7.7).
    pub(super) fn resumption(&self, key: Key, run: &RunId, attempt: u8, narrowed: bool) -> Arrival {
        let now = self.links.clock.now();
        let mut text = format!(
            "[System] The process was restarted while run {run} was under way. Continue from the \
             transcript. Calls that were running have an unknown outcome: check before you do \
             them again. Do not start subagents again that were started before."
        );
        if narrowed {
            text.push_str(" Only tools that change nothing are offered in this turn.");
        }
        let waits = Waits { attempt, narrowed, ..stored::plain(&text) };
        let content = Content::Text(text);
        let body = Arc::new(User { content, timestamp: now, idempotency_key: None });
        Arrival {
            key,
            run: RunId::new(id::uuid_v7(now, entropy())),
            request: format!("resume {run}").into(),
            body,
            wait: waits,
            interaction: false,
            boundary: None,
        }
    }
}

/// Whose run it was, by its key.
fn kind_of(key: &str) -> CandidateKind {
    use crate::base::key::Kind;
    let Ok(key) = crate::base::SessionKey::parse(key) else { return CandidateKind::Main };
    match key.kind() {
        Kind::Subagent { .. } => CandidateKind::Subagent,
        Kind::Cron { .. } => CandidateKind::Cron,
        Kind::Acp => CandidateKind::Acp,
        Kind::Main
        | Kind::Hook
        | Kind::Dashboard
        | Kind::Explicit
        | Kind::Direct { .. }
        | Kind::Group { .. }
        | Kind::Other => CandidateKind::Main,
    }
}
