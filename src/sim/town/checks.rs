//! What must hold in the town after every step, at every death, and in the end. Each panics with
//! the number of its invariant.

use super::store::RunRow;
use super::world::Town;
use crate::base::RunId;
use crate::base::limits::RECOVERY_ATTEMPTS_MAX;
use crate::engine::Termination;
use crate::engine::reset::ResetReason;
use crate::engine::sessions::{Arrival, Event, Key, Line, Outcome, Plant};
use crate::sim::Sabotage;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Who asks, and for what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Known {
    pub run: RunId,
    request: Arc<str>,
    key: Key,
}

impl Known {
    pub(super) fn of(arrival: &Arrival) -> Known {
        let (run, request) = (arrival.run.clone(), Arc::clone(&arrival.request));
        Known { run, request, key: Arc::clone(&arrival.key) }
    }

    fn is(&self, row: &RunRow) -> bool {
        row.request == self.request && row.key == self.key
    }
}

fn kind(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::Accepted { run, .. } if run.as_str().starts_with("overflow-") => "overflow",
        Event::Ended { into: Some(_), .. } => "joined",
        Event::Ended { .. } => "ended",
        Event::Reset(_, Ok(ResetReason::Idle)) => "idle",
        Event::Reset(_, Ok(ResetReason::Daily)) => "daily",
        Event::Reset(_, Ok(_)) => "reset",
        Event::Deleted(_, Ok(())) => "deleted",
        Event::Stuck(_, "superseded") => "superseded",
        Event::Stuck(..) => "stuck",
        Event::GivenUp(..) => "given up",
        Event::Conflict(_) => "conflict",
        Event::Drained => "drained",
        Event::Accepted { .. }
        | Event::Known(..)
        | Event::Refused(..)
        | Event::Waited { .. }
        | Event::Waiting(..)
        | Event::Reset(..)
        | Event::Deleted(..)
        | Event::Set(..) => return None,
    })
}

impl Town {
    fn note(&mut self, event: &Event) {
        let mut text = String::new();
        let _ = write!(text, "{event:?}");
        for byte in text.bytes() {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Somebody is told something.
    pub(super) fn hear(&mut self, event: &Event, asking: Option<&Known>) {
        self.note(event);
        if let Some(kind) = kind(event) {
            self.stats.count(kind);
        }
        if !self.knobs.checks {
            return;
        }
        match event {
            Event::Accepted { run, .. } => {
                self.answered(run);
                assert!(self.store.runs.contains_key(run), "15: {run} is accepted and not stored");
            }
            Event::Known(run, outcome) => {
                self.answered(run);
                let other = self.identity(run, asking) == Some(false);
                assert!(!other, "15: {run}: another request is taken for the same");
                self.same_as_stored(run, outcome);
            }
            Event::Conflict(run) => {
                self.answered(run);
                let same = self.identity(run, asking) == Some(true);
                assert!(!same, "15: {run}: the same request is taken for another");
            }
            Event::Refused(run, _) => self.answered(run),
            Event::Waited { waiter, outcome, .. } => {
                let run = self.process.waiters.remove(waiter);
                if let (Some(run), Some(outcome)) = (&run, outcome) {
                    self.same_as_stored(run, outcome);
                } else if let Some(run) = run.filter(|_| !self.finding) {
                    // What the store has found may be older than what it has accepted since.
                    let known = self.store.runs.contains_key(&run);
                    assert!(!known, "4: nothing is told of {run}, which is known");
                }
            }
            Event::Ended { run, termination, into, .. } => self.ends(run, termination, into),
            Event::Reset(key, Ok(_)) => self.reset(key),
            Event::Drained => {
                assert!(self.process.actors.is_empty(), "12: drained while runs are active");
                assert!(self.process.jobs.is_empty(), "12: drained before the store is done");
                self.process.drained = true;
            }
            Event::Waiting(..)
            | Event::Reset(..)
            | Event::Deleted(..)
            | Event::Set(..)
            | Event::Stuck(..)
            | Event::GivenUp(..) => {}
        }
    }

    /// Every arrival is answered once.
    fn answered(&mut self, run: &RunId) {
        if run.as_str().starts_with("overflow-") {
            return;
        }
        let open = self.process.unanswered.get_mut(run);
        assert!(open.is_some(), "15: {run}: an answer that nobody waits for");
        if let Some(n) = open {
            *n -= 1;
            if *n == 0 {
                self.process.unanswered.remove(run);
            }
        }
    }

    /// Whether who asks means what is known by that name.
    fn identity(&self, run: &RunId, asking: Option<&Known>) -> Option<bool> {
        let asking = asking?;
        if let Some(first) = self.process.asking.get(run) {
            return Some(first == asking);
        }
        self.store.runs.get(run).map(|row| asking.is(row))
    }

    /// 4: what is told of an end is what the store says.
    fn same_as_stored(&self, run: &RunId, outcome: &Outcome) {
        let Some(how) = &outcome.termination else { return };
        self.same_end(run, how, &outcome.into);
    }

    fn same_end(&self, run: &RunId, how: &Termination, into: &Option<RunId>) {
        let stored = self.store.runs.get(run).and_then(|row| row.ended.as_ref());
        let host = into.as_ref().unwrap_or(run);
        if self.told_torn.contains(host) {
            return;
        }
        let same = stored.is_some_and(|(t, i)| {
            let lost = |t: &Termination| matches!(t, Termination::Superseded { .. });
            (t == how || lost(t) && lost(how)) && i == into
        });
        assert!(same, "4: {run} ended {how:?} into {into:?}, and the store says {stored:?}");
    }

    fn ends(&mut self, run: &RunId, how: &Termination, into: &Option<RunId>) {
        if self.is(Sabotage::TownEndNever) {
            return;
        }
        let told = self.told.entry(run.clone()).or_default();
        *told += if self.knobs.sabotage == Some(Sabotage::TownEndTwice) { 2 } else { 1 };
        assert_eq!(*told, 1, "4: the end of {run} is told twice");
        self.same_end(run, how, into);
    }

    /// 2: a reset is seen by every writer that has read the session before it.
    fn reset(&mut self, key: &Key) {
        let Some(row) = self.store.rows.get(key) else { return };
        let now = (row.id, row.revision);
        let before = self.revisions.insert(Arc::clone(key), now);
        assert_ne!(before, Some(now), "2: a reset of {key} keeps the revision");
        assert!(row.revision > 0, "2: a reset of {key} keeps the revision");
    }

    pub(super) fn after_step(&self) {
        self.process.machine.check();
        for (key, row) in &self.store.rows {
            let resumes = row.resumes;
            assert!(resumes <= RECOVERY_ATTEMPTS_MAX, "12: {key} was resumed {resumes} times");
        }
        self.lanes();
        for (key, actor) in &self.process.actors {
            let active = self.process.machine.active(key);
            assert_eq!(active, Some(&actor.start.run), "3: another run is active in {key}");
        }
    }

    /// 8: no lane takes more than it may, and none stays idle while somebody waits for it.
    fn lanes(&self) {
        let cap = usize::from(self.knobs.setup.cap);
        let mut lines: BTreeMap<Line, (usize, usize)> = BTreeMap::new();
        for (lane, holds) in self.process.machine.lines() {
            let line = lines.entry(lane).or_default();
            if holds {
                line.0 += 1;
            } else {
                line.1 += 1;
            }
        }
        for ((lane, _), (running, waiting)) in lines {
            let name = lane.name();
            assert!(running <= cap, "8: {running} runs in {name}");
            assert!(waiting == 0 || running == cap, "8: {waiting} wait for {name}, which is idle");
        }
    }

    /// 5: at a death and in the end.
    pub(super) fn messages(&self) {
        let mut queued: BTreeMap<&RunId, u32> = BTreeMap::new();
        for row in self.store.rows.values() {
            for (_, run) in &row.queue {
                *queued.entry(run).or_default() += 1;
            }
        }
        for (run, row) in &self.store.runs {
            let waits = queued.get(run).copied().unwrap_or(0);
            let stored = row.stored;
            match &row.ended {
                None => assert_eq!(stored + waits, 1, "5: {run}: {stored} stored, {waits} waiting"),
                Some((how, _)) => {
                    assert_eq!(waits, 0, "5: {run} is over and its message waits");
                    assert!(stored <= 1, "5: the message of {run} is stored {stored} times");
                    let completed = matches!(how, Termination::Completed { .. });
                    assert!(stored == 1 || !completed, "5: {run} completed without its message");
                }
            }
        }
    }

    /// When everything has settled.
    pub(super) fn settled(&self) {
        self.messages();
        for (run, row) in &self.store.runs {
            assert!(row.ended.is_some(), "12: run {run} hangs for ever");
            let told = self.told.get(run).copied().unwrap_or(0);
            let died = self.crashed.contains(run);
            assert!(told == 1 || died, "4: nobody was told of the end of run {run}");
        }
        for (run, open) in &self.process.unanswered {
            assert_eq!(*open, 0, "12: an arrival of {run} was never answered");
        }
        let waiters = self.process.waiters.len();
        assert_eq!(waiters, 0, "12: {waiters} wait for ever");
    }

    /// Plants what only the machine itself can do wrong.
    pub(super) fn plant(&mut self) {
        let plant = match self.knobs.sabotage {
            Some(Sabotage::TownDropTurn) => Plant::DropTurn,
            Some(Sabotage::TownLeakLane) => Plant::LeakLane,
            Some(Sabotage::TownTwoRuns) => Plant::TwoRuns,
            Some(Sabotage::TownRunDropped) => Plant::RunDropped,
            _ => return,
        };
        if self.planted {
            return;
        }
        if let Some(step) = self.process.machine.plant(plant, self.now) {
            self.planted = true;
            for event in &step.tell {
                self.hear(event, None);
            }
            self.planted_acts(step.act);
        }
    }
}
