//! Moves: what clients, runs, outsiders and time do.

use super::moves::TownMove;
use super::world::Town;
use crate::base::{OpId, RunId};
use crate::engine::lanes::{Lane, Priority};
use crate::engine::reset::ResetReason;
use crate::engine::sessions::{Admission, Arrival, Input, Key, Outcome, Target, Waits};
use crate::engine::turns::{Arriving, Group, Mode, Partial};
use crate::engine::{Cause, Termination};
use std::sync::Arc;

impl Town {
    fn key(&self, n: u8) -> Key {
        Arc::clone(&self.keys[usize::from(n) % self.keys.len()])
    }

    fn recent(&self, n: u8) -> Option<&Arrival> {
        let count = self.sent.len();
        (count > 0).then(|| &self.sent[count - 1 - usize::from(n) % count.min(8)])
    }

    fn actor(&self, n: u8) -> Option<Key> {
        let actors = &self.process.actors;
        if actors.is_empty() {
            return None;
        }
        actors.keys().nth(usize::from(n) % actors.len()).map(Arc::clone)
    }

    fn send(&mut self, arrival: Arrival) {
        if self.sent.iter().all(|a| a.run != arrival.run) {
            self.sent.push(arrival.clone());
        }
        *self.process.unanswered.entry(arrival.run.clone()).or_default() += 1;
        self.feed(Input::Arrive(Box::new(arrival)));
    }

    /// One move.
    pub fn play(&mut self, m: TownMove) {
        match m {
            TownMove::Arrive(session, mode, kind) => self.arrives(session, mode, kind),
            TownMove::Again(n, other) => {
                let Some(mut arrival) = self.recent(n).cloned() else { return };
                if other {
                    arrival.request = "another request".into();
                }
                self.send(arrival);
            }
            TownMove::Settings(session, n) => {
                let mode = Some(mode(n));
                let cap = (n & 4 != 0).then_some(1 + u16::from(n & 1));
                let partial = Partial { mode, cap, ..Partial::default() };
                self.feed(Input::Settings(self.key(session), partial));
            }
            TownMove::Reload(session) => drop(self.feed(Input::Reload(self.key(session)))),
            TownMove::AbortRun(n) => {
                if let Some(run) = self.recent(n).map(|a| a.run.clone()) {
                    self.feed(Input::Abort(Target::Run(run), Cause::User));
                }
            }
            TownMove::AbortSession(n) => {
                self.feed(Input::Abort(Target::Session(self.key(n)), Cause::User));
            }
            TownMove::Reset(n) => {
                self.feed(Input::Reset(self.key(n), ResetReason::Reset));
            }
            TownMove::Delete(n) => {
                self.feed(Input::Delete(self.key(n)));
            }
            TownMove::Wait(n, s) => self.waits(n, s),
            TownMove::Unwait => {
                if let Some((waiter, _)) = self.process.waiters.pop_first() {
                    self.feed(Input::Unwait(waiter));
                }
            }
            TownMove::Disk => self.disk(),
            TownMove::Answer => self.answers(),
            TownMove::Open(n, good) => self.opened(n, good),
            TownMove::Go(n, how) => {
                if let Some(key) = self.actor(n) {
                    self.go(&key, how);
                }
            }
            TownMove::Hear(n, takes) => {
                if let Some(key) = self.actor(n) {
                    self.hears(&key, takes);
                }
            }
            TownMove::Reply => self.reply(),
            TownMove::Stale(n) => self.stale(n),
            TownMove::Pass(s) => self.now = self.now.plus(u64::from(s) * 1_000),
            TownMove::Due => self.due(),
            TownMove::Tick => drop(self.feed(Input::Tick)),
            TownMove::Full(n) => self.store.full = n,
            TownMove::Look(n) => {
                let key = self.key(n);
                self.foreign = self.store.snapshot(&key).map(|hand| (key, hand));
            }
            TownMove::TakeOver => self.take_over(),
            TownMove::Drain(s) => {
                self.process.draining = true;
                self.feed(Input::Drain(self.now.plus(u64::from(s) * 1_000)));
            }
            TownMove::Crash(at) => self.crash_at = Some(at),
            TownMove::Round => self.round(),
            TownMove::Kill => self.kill(),
        }
    }

    fn arrives(&mut self, session: u8, mode_of: u8, kind: u8) {
        let run = RunId::new(format!("r{}", self.sent.len()));
        let person = kind < 6;
        let arrival =
            self.arrival(self.key(session), run, "request", waits(mode(mode_of), kind), person);
        let mut arrival = arrival;
        if mode_of & 4 != 0 {
            arrival.wait.inline = Partial::default();
        }
        self.send(arrival);
    }

    fn waits(&mut self, n: u8, s: u16) {
        let Some(run) = self.recent(n).map(|a| a.run.clone()) else { return };
        let waiter = self.next_waiter;
        self.next_waiter += 1;
        self.process.waiters.insert(waiter, run.clone());
        let until = self.now.plus(u64::from(s) * 1_000);
        self.feed(Input::Wait { waiter, run, until });
    }

    /// An answer that nobody waits for must be refused, and changes nothing.
    fn stale(&mut self, n: u8) {
        let op = OpId(1_000_000 + u32::from(n));
        let before = self.knobs.checks.then(|| self.process.machine.clone());
        let input = match n % 5 {
            0 => Input::Admitted(op, Admission::Conflict),
            1 => Input::Opened(op),
            2 => Input::Changed(op),
            3 => Input::Found(op, None::<Outcome>),
            _ => {
                let run = RunId::new("nobody");
                let termination = Termination::Completed { cut: false };
                Input::Ended { run, termination, reload: false }
            }
        };
        let refused = self.process.machine.step(input, self.now).refused;
        assert!(refused.is_some(), "11: an answer to nothing was taken");
        let same = before.is_none_or(|before| before == self.process.machine);
        assert!(same, "11: a refused input has changed something");
    }

    pub(super) fn due(&mut self) {
        if let Some(at) = self.process.machine.due() {
            self.now = self.now.max(at);
            self.feed(Input::Tick);
        }
    }

    fn take_over(&mut self) {
        let Some((key, hand)) = self.foreign.take() else { return };
        self.foreigners += 1;
        let run = RunId::new(format!("f{}", self.foreigners));
        let _ = self.store.claim(&key, &run, &hand, &[]);
    }
}

fn mode(n: u8) -> Mode {
    [Mode::Steer, Mode::FollowUp, Mode::Collect, Mode::Interrupt][usize::from(n & 3)]
}

/// How a message of a kind waits.
pub(super) fn waits(mode: Mode, kind: u8) -> Waits {
    let (lane, priority) = match kind {
        0 | 1 => (Lane::Main, Priority::Foreground),
        2 => (Lane::Subagent, Priority::Normal),
        3 => (Lane::Nested, Priority::Normal),
        4 => (Lane::Background, Priority::Background),
        5 => (Lane::Main, Priority::Normal),
        6 => (Lane::Cron, Priority::Normal),
        _ => (Lane::CronNested, Priority::Normal),
    };
    let arriving = if kind == 7 { Arriving::Heartbeat } else { Arriving::Message };
    let owner = (lane == Lane::Subagent).then(|| "agent:main:main".into());
    let inline = Partial { mode: Some(mode), ..Partial::default() };
    Waits {
        arriving,
        group: Group::new("web", "default", if kind == 1 { "side" } else { "" }, "owner"),
        line: "a line".into(),
        inline,
        channel: Partial::default(),
        lane,
        owner,
        priority,
        budget_ms: None,
        attempt: 0,
        narrowed: false,
    }
}
