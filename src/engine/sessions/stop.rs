//! What is stopped, begun anew, deleted, drained.

use super::{Act, Asked, Change, Drain, Event, Key, Out, Pending, Phase, Refusal, Sessions};
use super::{Stage, Target, dropped};
use crate::base::limits::DROP_RETRY_MS;
use crate::base::{Millis, MsgId, OpId, RunId};
use crate::engine::turns::{Partial, Turn};
use crate::engine::{Cause, Termination, recovery};
use std::sync::Arc;

impl Sessions {
    /// Runs that never began end, once that is stored.
    pub(super) fn drop_runs(
        &mut self,
        key: &Key,
        runs: Vec<(RunId, MsgId)>,
        how: Termination,
        now: Millis,
        out: &mut Out,
    ) {
        for (run, _) in &runs {
            if let Some(live) = self.runs.get_mut(run) {
                live.stage = Stage::Dropping;
            }
        }
        let op = self.op(Asked::Drop(Arc::clone(key), runs.clone(), how.clone()));
        let change = Change::Drop { runs, termination: how };
        out.act.push(Act::Change(op, Arc::clone(key), change));
        self.realign(key, now, out);
    }

    /// Somebody stops something.
    pub(super) fn abort(
        &mut self,
        target: Target,
        cause: Cause,
        now: Millis,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        match target {
            Target::Run(run) => self.abort_run(&run, cause, now, out)?,
            Target::Session(key) => self.abort_session(&key, cause, now, out),
        }
        Ok(())
    }

    fn abort_run(
        &mut self,
        run: &RunId,
        cause: Cause,
        now: Millis,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let live = self.runs.get_mut(run).ok_or(Refusal::UnknownRun)?;
        let (key, msg) = (Arc::clone(&live.key), live.msg);
        match &mut live.stage {
            Stage::Accepting { stopped } => *stopped = Some(cause),
            Stage::Waiting => {
                if let Some(session) = self.sessions.get_mut(&key) {
                    session.turns.remove(run);
                }
                self.drop_runs(&key, vec![(run.clone(), msg)], dropped(cause), now, out);
                self.schedule(&key, now, out);
            }
            Stage::Steering => {
                live.stage = Stage::Leaving(dropped(cause));
                out.act.push(Act::Unsteer { key, run: run.clone(), msg });
            }
            Stage::Running | Stage::Joined(_) => self.stop_active(&key, cause, out),
            Stage::Leaving(_) | Stage::Dropping => {}
        }
        Ok(())
    }

    /// What waits goes first, so that nothing slips into a session that is half stopped.
    fn abort_session(&mut self, key: &Key, cause: Cause, now: Millis, out: &mut Out) {
        self.clear(key, cause, now, out);
        self.stop_active(key, cause, out);
        if self.recovery.holds(key) {
            // Who stops a conversation does not want it to go on by itself a little later.
            self.recover(recovery::Input::Settled(Arc::clone(key)), now, out);
            self.give_up(key, out);
        }
        self.schedule(key, now, out);
    }

    /// Everything that waits in a session, or is on its way to it, ends.
    fn clear(&mut self, key: &Key, cause: Cause, now: Millis, out: &mut Out) {
        for live in self.runs.values_mut().filter(|live| live.key == *key) {
            if let Stage::Accepting { stopped } = &mut live.stage {
                *stopped = Some(cause);
            }
        }
        self.take_back(key, &dropped(cause), out);
        let Some(session) = self.sessions.get_mut(key) else { return };
        let all = session.turns.clear();
        // What is with the active run stays until that has said what became of it.
        let (flying, waiting): (Vec<Turn>, Vec<Turn>) = all.into_iter().partition(|t| t.in_flight);
        session.turns.keep(flying);
        if !waiting.is_empty() {
            let runs = waiting.into_iter().map(|t| (t.run, t.msg)).collect();
            self.drop_runs(key, runs, dropped(cause), now, out);
        }
    }

    /// The active run is asked for the messages that it was given and has not committed.
    pub(super) fn take_back(&mut self, key: &Key, how: &Termination, out: &mut Out) {
        let Some(session) = self.sessions.get(key) else { return };
        for turn in session.turns.iter().filter(|t| t.in_flight) {
            let Some(live) = self.runs.get_mut(&turn.run) else { continue };
            if live.stage == Stage::Steering {
                live.stage = Stage::Leaving(how.clone());
                let (key, run, msg) = (Arc::clone(key), turn.run.clone(), turn.msg);
                out.act.push(Act::Unsteer { key, run, msg });
            }
        }
    }

    pub(super) fn stop_active(&mut self, key: &Key, cause: Cause, out: &mut Out) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        if let Phase::Running { stopping, .. } = &mut session.phase
            && !std::mem::replace(stopping, true)
        {
            out.act.push(Act::Abort(Arc::clone(key), cause));
        }
    }

    /// A reset or a deletion: what waits goes, what runs is stopped, then it is made. It does not
    /// wait in any queue (B209).
    pub(super) fn pend(&mut self, key: Key, what: Pending, now: Millis, out: &mut Out) {
        let session = self.session(&key, now);
        // The same twice is once: what is asked for has a bound.
        if session.pending.last() != Some(&what) {
            session.pending.push(what);
        }
        self.clear(&key, Cause::User, now, out);
        let Some(session) = self.sessions.get_mut(&key) else { return };
        if let Phase::Lined(ticket) = session.phase {
            self.give_back(&key, ticket);
        }
        self.stop_active(&key, Cause::User, out);
        if self.recovery.holds(&key) {
            self.recover(recovery::Input::Settled(Arc::clone(&key)), now, out);
        }
        self.schedule(&key, now, out);
    }

    /// The first change that waits is made; for a session in which nothing runs.
    pub(super) fn change_next(&mut self, key: &Key, now: Millis, out: &mut Out) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(next) = session.pending.first().copied() else { return };
        if session.torn {
            // The store refuses while it has a writer, and only opening the session ends that one.
            session.phase = Phase::Mending;
            return self.ask_open(key, out);
        }
        if next == Pending::Delete {
            if self.has_open_drops(key) {
                // What was told to end otherwise must not end with the deletion.
                return;
            }
            // A deletion ends whatever the store has accepted before it.
            self.clear(key, Cause::User, now, out);
        }
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.pending.remove(0);
        session.phase = Phase::Changing(None);
        let (asked, change) = match next {
            Pending::Reset(reason) => {
                (Asked::Reset(Arc::clone(key), reason), Change::Reset(reason))
            }
            Pending::Delete => (Asked::Delete(Arc::clone(key)), Change::Delete),
        };
        let op = self.op(asked);
        out.act.push(Act::Change(op, Arc::clone(key), change));
    }

    fn has_open_drops(&self, key: &Key) -> bool {
        let asked = |asked: &Asked| matches!(asked, Asked::Drop(of, _, _) if of == key);
        self.asked.values().any(asked) || self.drop_again.iter().any(|(of, _, _)| of == key)
    }

    /// A change is made: the session goes on.
    fn unchange(&mut self, key: &Key, now: Millis, out: &mut Out) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Phase::Changing(ticket) = session.phase else { return };
        match ticket {
            Some(ticket) => self.begin(key, ticket, now, out),
            None => {
                session.phase = Phase::Idle;
                self.schedule(key, now, out);
            }
        }
    }

    pub(super) fn changed(&mut self, op: OpId, now: Millis, out: &mut Out) -> Result<(), Refusal> {
        match self.answered(op)? {
            Asked::Drop(key, runs, how) => {
                for (run, _) in runs {
                    self.over(&run, how.clone(), None, now, out);
                }
                self.schedule(&key, now, out);
            }
            Asked::Reset(key, reason) => {
                out.tell.push(Event::Reset(Arc::clone(&key), Ok(reason)));
                self.unchange(&key, now, out);
            }
            Asked::Delete(key) => {
                // It is not in memory any more either; a next message makes a new one.
                if let Some(session) = self.sessions.get_mut(&key) {
                    session.open = false;
                    session.settings = Partial::default();
                }
                out.act.push(Act::Close(Arc::clone(&key)));
                out.tell.push(Event::Deleted(Arc::clone(&key), Ok(())));
                self.reopen(&key, now, out);
            }
            Asked::Settings(key, partial) => {
                if let Some(session) = self.sessions.get_mut(&key) {
                    session.settings = partial;
                }
                out.tell.push(Event::Set(Arc::clone(&key), Ok(())));
                self.schedule(&key, now, out);
            }
            Asked::GivenUp => {}
            other @ (Asked::Admit(..) | Asked::Open(_) | Asked::Find(_)) => {
                self.asked.insert(op, other);
                return Err(Refusal::Stale(op));
            }
        }
        Ok(())
    }

    /// After a deletion whatever waits has to open the session anew.
    fn reopen(&mut self, key: &Key, now: Millis, out: &mut Out) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Phase::Changing(ticket) = session.phase else { return };
        match ticket {
            Some(ticket) => self.give_back(key, ticket),
            None => session.phase = Phase::Idle,
        }
        self.schedule(key, now, out);
    }

    pub(super) fn change_failed(
        &mut self,
        op: OpId,
        why: &Arc<str>,
        now: Millis,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        match self.answered(op)? {
            // They are open in the store: nobody is told an end that would not last.
            Asked::Drop(key, runs, how) => {
                self.drop_again.push((Arc::clone(&key), runs, how));
                self.wake(&key, now.plus(DROP_RETRY_MS));
            }
            Asked::Reset(key, _) => {
                out.tell.push(Event::Reset(Arc::clone(&key), Err(Arc::clone(why))));
                self.unchange(&key, now, out);
            }
            Asked::Delete(key) => {
                out.tell.push(Event::Deleted(Arc::clone(&key), Err(Arc::clone(why))));
                self.unchange(&key, now, out);
            }
            Asked::Settings(key, _) => out.tell.push(Event::Set(key, Err(Arc::clone(why)))),
            Asked::GivenUp => {}
            other @ (Asked::Admit(..) | Asked::Open(_) | Asked::Find(_)) => {
                self.asked.insert(op, other);
                return Err(Refusal::Stale(op));
            }
        }
        Ok(())
    }

    /// What could not be dropped is tried again.
    pub(super) fn retry_drops(&mut self, key: &Key, now: Millis, out: &mut Out) {
        let (again, rest) =
            std::mem::take(&mut self.drop_again).into_iter().partition(|(k, _, _)| k == key);
        self.drop_again = rest;
        let again: Vec<super::Owed> = again;
        for (key, runs, how) in again {
            self.drop_runs(&key, runs, how, now, out);
        }
    }

    pub(super) fn settings(&mut self, key: Key, partial: Partial, out: &mut Out) {
        let op = self.op(Asked::Settings(Arc::clone(&key), partial));
        out.act.push(Act::Change(op, key, Change::Settings(partial)));
    }

    /// Nothing more begins; what waits stays stored. A second call can only make it shorter.
    pub(super) fn drain(&mut self, until: Millis, now: Millis, out: &mut Out) {
        match self.drain {
            Drain::No => {
                self.drain = Drain::Until(until);
                self.recover(recovery::Input::Drain, now, out);
                let lined = self.sessions.iter().filter_map(|(key, s)| match s.phase {
                    Phase::Lined(ticket) => Some((Arc::clone(key), ticket)),
                    Phase::Idle
                    | Phase::Opening(_)
                    | Phase::Changing(_)
                    | Phase::Mending
                    | Phase::Running { .. } => None,
                });
                let lined: Vec<_> = lined.collect();
                for (key, ticket) in lined {
                    self.give_back(&key, ticket);
                }
            }
            Drain::Until(before) => self.drain = Drain::Until(before.min(until)),
            Drain::Aborting | Drain::Done => {}
        }
        self.drain_due(now, out);
    }

    /// Its time is over: what still runs is stopped, to be taken up by the next process.
    pub(super) fn drain_due(&mut self, now: Millis, out: &mut Out) {
        if !matches!(self.drain, Drain::Until(at) if at <= now) {
            return;
        }
        self.drain = Drain::Aborting;
        let running: Vec<Key> = self
            .sessions
            .iter()
            .filter(|(_, s)| matches!(s.phase, Phase::Running { .. }))
            .map(|(key, _)| Arc::clone(key))
            .collect();
        for key in running {
            self.stop_active(&key, Cause::Restart, out);
        }
    }

    pub(super) fn drained(&mut self, out: &mut Out) {
        let open = self.running > 0 || !self.asked.is_empty();
        if matches!(self.drain, Drain::Until(_) | Drain::Aborting) && !open {
            self.drain = Drain::Done;
            out.tell.push(Event::Drained);
        }
    }
}
