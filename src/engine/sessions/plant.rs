//! Faults that the simulator plants in the machine itself, and what its checks look at.

use super::{Key, Out, Phase, Sessions, Stage};
use crate::base::Millis;
use crate::engine::lanes::{Lane, Priority, Ticket};
use std::sync::Arc;

/// A fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// A waiting turn is forgotten, and nobody is told.
    DropTurn,
    /// A lane is never given back.
    LeakLane,
    /// A second run begins in a session.
    TwoRuns,
    /// A turn that was given up begins all the same.
    RunDropped,
}

/// A lane, with the owner where that counts.
pub type Line = (Lane, Option<Arc<str>>);

impl Sessions {
    /// Plants a fault, once it can be planted; gives what follows from it.
    pub fn plant(&mut self, plant: Plant, now: Millis) -> Option<Out> {
        let mut out = Out::default();
        let found = match plant {
            Plant::DropTurn => {
                let waits = |s: &super::Session| s.turns.iter().find(|t| !t.in_flight).cloned();
                let (key, turn) = self.sessions.iter().find_map(|(k, s)| {
                    let idle = s.phase == Phase::Idle || matches!(s.phase, Phase::Running { .. });
                    idle.then(|| waits(s)).flatten().map(|turn| (Arc::clone(k), turn))
                })?;
                self.runs.remove(&turn.run);
                self.sessions.get_mut(&key)?.turns.remove(&turn.run).is_some()
            }
            Plant::LeakLane => self.leak(now, &mut out),
            Plant::TwoRuns => self.two(now, &mut out)?,
            Plant::RunDropped => {
                let gone = self.runs.iter().find(|(_, live)| live.stage == Stage::Dropping)?;
                let (run, live) = (gone.0.clone(), gone.1.clone());
                let turn = super::admit::turn(&run, live.msg, &live.waits, now, false);
                let session = self.sessions.get_mut(&live.key)?;
                session.turns.put_back(vec![turn], None);
                self.runs.get_mut(&run)?.stage = Stage::Waiting;
                self.schedule(&live.key, now, &mut out);
                self.go_on(now, &mut out);
                true
            }
        };
        found.then_some(out)
    }

    fn leak(&mut self, now: Millis, out: &mut Out) -> bool {
        let ticket = Ticket(u64::MAX);
        let asked = self.lanes.ask(ticket, "leak", Lane::Main, None, Priority::Foreground, now);
        self.go_on(now, out);
        asked.is_ok()
    }

    fn two(&mut self, now: Millis, out: &mut Out) -> Option<bool> {
        let (key, ticket) = self.sessions.iter().find_map(|(k, s)| match s.phase {
            Phase::Running { ticket, .. } if s.turns.iter().any(|t| !t.in_flight) => {
                Some((Arc::clone(k), ticket))
            }
            _ => None,
        })?;
        let session = self.sessions.get_mut(&key)?;
        let turn = session.turns.iter().find(|t| !t.in_flight).cloned()?;
        session.turns.remove(&turn.run);
        self.start(&key, ticket, &turn.run.clone(), &[turn], now, out);
        Some(true)
    }

    /// Who holds a lane and who waits for one (invariant 8).
    #[must_use]
    pub fn lines(&self) -> Vec<(Line, bool)> {
        let of = |(key, session): (&Key, &super::Session)| match session.phase {
            Phase::Lined(_) => {
                let (lane, owner, _) = self.line_of_first(key);
                Some(((lane, owner), false))
            }
            Phase::Opening(_) | Phase::Running { .. } | Phase::Changing(Some(_)) => {
                Some((session.lined_for.clone(), true))
            }
            Phase::Idle | Phase::Changing(None) | Phase::Mending => None,
        };
        self.sessions.iter().filter_map(of).collect()
    }

    /// The lane that a session has or waits for.
    #[must_use]
    pub fn line_held(&self, key: &str) -> Option<Line> {
        self.sessions.get(key).map(|session| session.lined_for.clone())
    }

    /// Whether nothing waits, runs or is on its way, and no appointment is left.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let still = self.runs.is_empty() && self.sessions.is_empty() && self.asked.is_empty();
        still && self.waiters.is_empty() && self.alarms.is_empty() && self.recovery.is_empty()
    }
}
