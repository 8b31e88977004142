//! What a start finds, and sessions that do not get on.

use super::{Act, Asked, Change, Event, Key, Out, Phase, Refusal, Restored, Sessions};
use crate::base::Millis;
use crate::engine::recovery::{self, Candidate};
use crate::engine::watch::{Activity, Decision};
use crate::engine::{Cause, Termination};
use std::sync::Arc;

impl Sessions {
    /// The process has started: what waited waits again, what ran is settled and then resumed.
    pub(super) fn boot(
        &mut self,
        next_msg: u64,
        waiting: Vec<Restored>,
        interrupted: Vec<Candidate>,
        now: Millis,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        if std::mem::replace(&mut self.booted, true) {
            return Err(Refusal::Booted);
        }
        self.next_msg = self.next_msg.max(next_msg);
        // Those who were accepted first line up first, whatever their conversations are called.
        let mut keys: Vec<Key> = vec![];
        for restored in waiting {
            if !self.sessions.contains_key(&restored.key) {
                keys.push(Arc::clone(&restored.key));
            }
            self.restore(restored, now);
        }
        for candidate in &interrupted {
            self.session(&candidate.session, now).torn = true;
        }
        // What waits goes on with the conversation anyway, be it a message or an earlier attempt.
        let (settled, resumed): (Vec<Candidate>, Vec<Candidate>) = interrupted
            .into_iter()
            .partition(|c| self.sessions.get(&c.session).is_some_and(|s| !s.restored.is_empty()));
        for key in keys {
            if let Some(session) = self.sessions.get_mut(&key) {
                let turns = std::mem::take(&mut session.restored);
                session.turns.put_back(turns, None);
            }
            self.schedule(&key, now, out);
        }
        // Opening a session makes it whole, before anybody resumes it (semantics 7.7).
        for candidate in settled.iter().chain(&resumed) {
            self.ask_open(&candidate.session, out);
            self.schedule(&candidate.session, now, out);
        }
        self.recover(recovery::Input::Boot(resumed), now, out);
        Ok(())
    }

    /// What the end of an attempt at resuming means for the recovery.
    pub(super) fn resumed(&mut self, session: Key, how: &Termination, now: Millis, out: &mut Out) {
        let input = match how {
            Termination::Completed { .. } => recovery::Input::Ended { session, completed: true },
            // Somebody did not want it, or took the conversation over.
            Termination::Aborted { cause: Cause::User }
            | Termination::PolicyStop { .. }
            | Termination::Superseded { .. } => recovery::Input::Settled(session),
            Termination::Aborted { .. }
            | Termination::ProviderError { .. }
            | Termination::ToolLoop
            | Termination::Failed { .. } => recovery::Input::Ended { session, completed: false },
        };
        self.recover(input, now, out);
    }

    /// One step of the recovery; what it asks for is done.
    pub(super) fn recover(&mut self, input: recovery::Input, now: Millis, out: &mut Out) {
        let state = std::mem::take(&mut self.recovery);
        let (state, acts, _) = recovery::step(state, input, now);
        self.recovery = state;
        for act in acts {
            match act {
                recovery::Act::Resume { session, run, attempt, narrowed } => {
                    out.act.push(Act::Resume { key: session, run, attempt, narrowed });
                }
                recovery::Act::Tombstone { session, run, attempts } => {
                    self.give_up(&session, out);
                    out.tell.push(Event::GivenUp(session, run, attempts));
                }
                recovery::Act::Fail { session, run } => {
                    self.give_up(&session, out);
                    out.tell.push(Event::GivenUp(session, run, 0));
                }
            }
        }
    }

    pub(super) fn give_up(&mut self, key: &Key, out: &mut Out) {
        let op = self.op(Asked::GivenUp);
        out.act.push(Act::Change(op, Arc::clone(key), Change::GivenUp));
    }

    /// What the active sessions are doing (semantics 13).
    pub(super) fn seen(&mut self, seen: Vec<(Key, Activity)>, now: Millis, out: &mut Out) {
        for (key, mut activity) in seen {
            let Some(session) = self.sessions.get(&key) else { continue };
            activity.queued = session.turns.len();
            let Phase::Running { stopping, .. } = session.phase else { continue };
            let (class, _) = crate::engine::watch::classify(&activity, &self.options.watch, now);
            match self.watch.look(&key, session.generation, &activity, now) {
                Decision::Leave => {}
                Decision::Warn => out.tell.push(Event::Stuck(key, class.word())),
                // A run that was told to stop and is still there loses the session (B036).
                Decision::AbortAndDrain if stopping => {
                    out.tell.push(Event::Stuck(Arc::clone(&key), "superseded"));
                    out.act.push(Act::Supersede(key));
                }
                Decision::AbortAndDrain => {
                    out.tell.push(Event::Stuck(Arc::clone(&key), "aborted"));
                    self.stop_active(&key, Cause::Timeout, out);
                }
                Decision::ReleaseLane => {
                    out.tell.push(Event::Stuck(Arc::clone(&key), "released"));
                    out.act.push(Act::Supersede(key));
                }
            }
        }
    }
}
