//! What a start finds, and sessions that do not get on.

use super::{Act, Asked, Change, Event, Key, Out, Phase, Refusal, Restored, Sessions};
use crate::base::Millis;
use crate::engine::Cause;
use crate::engine::recovery::{self, Candidate};
use crate::engine::watch::{Activity, Decision};
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
        for restored in waiting {
            self.restore(restored, now);
        }
        let keys: Vec<Key> = self.sessions.keys().map(Arc::clone).collect();
        for key in keys {
            if let Some(session) = self.sessions.get_mut(&key) {
                let turns = std::mem::take(&mut session.restored);
                session.turns.put_back(turns, None);
            }
            self.schedule(&key, now, out);
        }
        // Opening a session makes it whole, before anybody resumes it (semantics 7.7).
        for candidate in &interrupted {
            let key = Arc::clone(&candidate.session);
            self.session(&key, now);
            let op = self.op(Asked::Open(Arc::clone(&key)));
            out.act.push(Act::Open(op, key));
        }
        self.recover(recovery::Input::Boot(interrupted), now, out);
        Ok(())
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

    fn give_up(&mut self, key: &Key, out: &mut Out) {
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
