//! Death and what comes after it; and the end, when everything must settle.

use super::checks;
use super::friends::Friend;
use super::moves::Reply;
use super::sabotage::Sabotage;
use super::world::World;
use crate::engine::replay::Interruption;
use crate::transcript::{Door, Message, ModelName};

impl World {
    /// The process dies. What was committed stays; everything else is gone.
    pub(super) fn crash(&mut self) {
        self.stats.crashes += 1;
        self.crash_at = None;
        self.store.fail_next = false;
        self.old = None;
        if let Some(live) = self.live.take() {
            self.crashed_runs.insert(live.id);
        }
        if self.knobs.checks {
            checks::messages(self);
        }
        self.restart();
    }

    /// The next process makes the session whole before anything new begins.
    pub(super) fn restart(&mut self) {
        if !self.knobs.checks {
            self.store.writer = None;
            return;
        }
        let sabotage = self.knobs.sabotage;
        if sabotage == Some(Sabotage::LoseQueue) {
            self.store.queue.clear();
        }
        if sabotage == Some(Sabotage::ForgetOutcome) {
            for call in &mut self.store.calls {
                call.output = None;
            }
        }
        let owed: Vec<u16> =
            (0u16..).zip(&self.store.calls).filter(|(_, c)| !c.stored).map(|(i, _)| i).collect();
        let Some(run) = self.store.writer.clone() else { return };
        if sabotage == Some(Sabotage::HalfRecovery) {
            return;
        }
        let calls = self.store.calls.clone();
        if sabotage == Some(Sabotage::RunAgain) {
            for (i, call) in calls.iter().enumerate() {
                if call.launched && call.output.is_none() {
                    let i = u16::try_from(i).unwrap_or(0);
                    let key = self.effects.keys().rev().find(|k| k.0 == run && k.2 == i).cloned();
                    if let Some(key) = key {
                        *self.effects.entry(key).or_default() += 1;
                    }
                }
            }
        }
        let launched: Vec<u16> = (0u16..)
            .zip(&calls)
            .filter(|(_, c)| c.launched && c.output.is_none() && !c.stored)
            .map(|(i, _)| i)
            .collect();
        let mut door = Door::resume(ModelName::default(), self.door_seed(), calls, vec![]);
        let writes = door.close_interrupted(Interruption::ProcessStopped, self.now);
        let writes = writes.unwrap_or_default();
        let at = self.store.messages.len();
        let done = self.store.commit(Some(&run), Some(&run), &writes);
        assert!(done.is_ok(), "12: recovery was refused: {done:?}");
        if self.knobs.checks {
            self.recovered(at, &owed, &launched);
        }
    }

    /// 6 and 15: what ran is unknown, what is known stays known, and nothing ran again.
    fn recovered(&mut self, at: usize, owed: &[u16], launched: &[u16]) {
        for times in self.effects.values() {
            assert!(*times <= 1, "6: a tool was run again after a crash");
        }
        for (call, message) in owed.iter().zip(&self.store.messages[at..]) {
            let Message::ToolResult(result) = message else { continue };
            let told = format!("{:?}", result.content);
            if let Some(known) = self.known.get(call) {
                assert!(*known == told, "15: {known} was known and {told} was stored");
            } else if launched.contains(call) {
                let honest = told.contains("Outcome unknown: the process stopped");
                assert!(honest, "6: call {call} was running, and {told} was stored");
            }
        }
        self.known.clear();
    }

    /// Faults off: everything must come to its end within a bound.
    pub fn settle(&mut self) {
        self.crash_at = None;
        self.store.fail_next = false;
        for _ in 0..4_000 {
            let Some(live) = &self.live else { break };
            if checks::idle(live) {
                break;
            }
            match live.open.first() {
                Some((_, Friend::Tool { entered: true, .. } | Friend::Model { .. })) => {
                    self.friend_says(0, &Reply::Odd(0));
                }
                Some(_) => self.friend_says(0, &Reply::Good),
                None => self.due(),
            }
            if self.knobs.checks {
                checks::after_step(self);
            }
        }
        let busy = self.busy();
        assert!(!busy, "12: the run did not settle: {:?}", self.live.as_ref().map(|l| &l.run));
        self.restart();
        if self.knobs.checks {
            checks::settled(self);
        }
    }
}
