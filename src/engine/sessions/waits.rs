//! Those who wait, and time.

use super::{
    Act, Asked, Drain, Event, Key, Out, Outcome, Phase, Refusal, Sessions, Stage, dropped,
};
use crate::base::limits::{WAITERS_MAX, WATCH_TICK_MS};
use crate::base::{Millis, OpId, RunId};
use crate::engine::{Cause, recovery};
use std::sync::Arc;

impl Sessions {
    /// Somebody waits for a run; waiting never stops it.
    pub(super) fn wait(
        &mut self,
        waiter: u64,
        run: RunId,
        until: Millis,
        now: Millis,
        out: &mut Out,
    ) {
        let Some(live) = self.runs.get(&run) else {
            // It has ended, or was never here: the records know for ever.
            let op = self.op(Asked::Find(waiter));
            return out.act.push(Act::Find(op, run));
        };
        if until <= now || self.waiters.len() >= WAITERS_MAX {
            let (outcome, queued) = (Some(live.outcome()), queued(&live.stage));
            return out.tell.push(Event::Waited { waiter, outcome, queued });
        }
        self.waiters.insert(waiter, (run, until));
    }

    pub(super) fn found(
        &mut self,
        op: OpId,
        outcome: Option<Outcome>,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let Asked::Find(waiter) = self.answered(op)? else { return Err(Refusal::Stale(op)) };
        out.tell.push(Event::Waited { waiter, outcome, queued: false });
        self.drained(out);
        Ok(())
    }

    /// When there is something to do, whatever else happens.
    #[must_use]
    pub fn due(&self) -> Option<Millis> {
        let drain = match self.drain {
            Drain::Until(at) => Some(at),
            Drain::No | Drain::Aborting | Drain::Done => None,
        };
        [
            self.alarms.first().map(|(at, _)| *at),
            self.waiters.values().map(|(_, until)| *until).min(),
            self.lanes.due(),
            self.recovery.due(),
            self.look_at,
            drain,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Millis, out: &mut Out) {
        while let Some((at, key)) = self.alarms.first().filter(|(at, _)| *at <= now).cloned() {
            self.alarms.remove(&(at, Arc::clone(&key)));
            self.alarm(&key, now, out);
        }
        for (ticket, ms) in self.lanes.waiting_notice(now) {
            let head = self.tickets.get(&ticket).and_then(|key| self.sessions.get(key));
            if let Some(turn) = head.and_then(|session| session.turns.iter().next()) {
                out.tell.push(Event::Waiting(turn.run.clone(), ms));
            }
        }
        self.expire_waiters(now, out);
        if self.recovery.due().is_some_and(|at| at <= now) {
            self.recover(recovery::Input::Tick, now, out);
        }
        if self.look_at.is_some_and(|at| at <= now) {
            // Nothing is looked at where nothing runs: idle costs nothing.
            self.look_at = (self.running > 0).then(|| now.plus(WATCH_TICK_MS));
            if self.running > 0 {
                out.act.push(Act::Look);
            }
        }
        self.drain_due(now, out);
    }

    fn expire_waiters(&mut self, now: Millis, out: &mut Out) {
        let due = self.waiters.iter().filter(|(_, (_, until))| *until <= now);
        let due: Vec<(u64, RunId)> = due.map(|(w, (run, _))| (*w, run.clone())).collect();
        for (waiter, run) in due {
            self.waiters.remove(&waiter);
            let live = self.runs.get(&run);
            let queued = live.is_some_and(|live| queued(&live.stage));
            let outcome = live.map(super::Live::outcome);
            out.tell.push(Event::Waited { waiter, outcome, queued });
        }
    }

    fn alarm(&mut self, key: &Key, now: Millis, out: &mut Out) {
        self.retry_drops(key, out);
        let keep = self.options.keep_ms;
        let Some(session) = self.sessions.get_mut(key) else { return };
        match session.phase {
            Phase::Idle if session.turns.is_empty() && session.pending.is_empty() => {
                let rested = now.since(session.rest_since) >= keep;
                if rested && !self.awaited(key) {
                    self.let_go(key, out);
                }
            }
            Phase::Idle => self.schedule(key, now, out),
            Phase::Lined(ticket) => {
                let waited = now.since(session.lined_at);
                if self.options.lane_wait_ms > 0 && waited >= self.options.lane_wait_ms {
                    let first = session.turns.iter().next().map(|t| (t.run.clone(), t.msg));
                    if let Some((run, msg)) = first {
                        session.turns.remove(&run);
                        self.drop_runs(key, vec![(run, msg)], dropped(Cause::Timeout), out);
                    }
                    self.give_back(key, ticket);
                    self.schedule(key, now, out);
                }
            }
            Phase::Opening(_) | Phase::Changing(_) | Phase::Running { .. } => {}
        }
    }

    /// Whether a message for this session is on its way to the store.
    fn awaited(&self, key: &Key) -> bool {
        self.runs.values().any(|live| live.key == *key)
    }

    fn let_go(&mut self, key: &Key, out: &mut Out) {
        if self.sessions.remove(key).is_some_and(|session| session.open) {
            out.act.push(Act::Close(Arc::clone(key)));
        }
    }
}

fn queued(stage: &Stage) -> bool {
    match stage {
        Stage::Accepting { .. } | Stage::Waiting | Stage::Dropping => true,
        Stage::Steering | Stage::Running | Stage::Joined(_) => false,
    }
}
