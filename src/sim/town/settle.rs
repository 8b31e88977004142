//! The end: faults off, and everything must come to its end within a bound.

use super::actor::Part;
use super::world::Town;

/// Rounds until everything has to be over.
const ROUNDS: usize = 3_000;

impl Town {
    /// Faults off. A process that is about to stop stops, and the next one does the rest.
    pub fn settle(&mut self) {
        self.store.full = 0;
        self.crash_at = None;
        if self.process.draining {
            let mut rounds = 0;
            while !self.process.drained {
                assert!(rounds < ROUNDS, "12: the process does not come to its end");
                self.round();
                rounds += 1;
            }
            // Who still waits loses its connection with the process.
            self.kill();
        }
        for _ in 0..ROUNDS {
            if self.is_over() {
                self.settled();
                return;
            }
            self.round();
        }
        self.settled();
        panic!("12: it is not at rest: {:?}", self.process.machine);
    }

    fn is_over(&self) -> bool {
        let process = &self.process;
        let quiet = process.actors.is_empty() && process.jobs.is_empty();
        let quiet = quiet && process.opens.is_empty() && process.replies.is_empty();
        quiet && process.waiters.is_empty() && process.machine.is_at_rest()
    }

    /// Whoever can do something does it; where nobody can, time passes.
    pub(super) fn round(&mut self) {
        let steps = self.stats.steps;
        let deaths = self.stats.crashes;
        while !self.process.jobs.is_empty() {
            self.disk();
            self.answers();
        }
        while !self.process.opens.is_empty() {
            self.opened(0, true);
        }
        while !self.process.replies.is_empty() {
            self.reply();
        }
        let mut moved = false;
        let keys: Vec<_> = self.process.actors.keys().cloned().collect();
        for key in keys {
            self.hears(&key, true);
            let Some(actor) = self.process.actors.get(&key) else { continue };
            let deaf = actor.deaf && matches!(actor.part, Part::Work(_));
            if !deaf {
                self.go(&key, 5);
                moved = true;
            }
        }
        if !moved && self.stats.steps == steps && self.stats.crashes == deaths {
            self.due();
        }
    }
}
