//! What a run waited for, and how long: for people who look at it later, and for the watch.

use crate::base::Millis;
use crate::base::limits::SUMMARY_MS_MAX;
use crate::engine::watch::WaitsFor;
use crate::engine::{Phase, Run};
use serde::Serialize;

/// Most stretches that are kept of one run; a longer run keeps its first ones and its last.
const STRETCHES_MAX: usize = 512;

/// A stretch of time in which a run waited for one thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
struct Stretch {
    phase: &'static str,
    at: Millis,
}

/// The course of a run.
#[derive(Clone, Debug)]
pub(super) struct Phases {
    stretches: Vec<Stretch>,
    left_out: u64,
    pub last_progress: Millis,
    /// What stood before the conversation, where that was new.
    pub prompt: Option<serde_json::Value>,
    since: Millis,
}

impl Phases {
    pub fn new(accepted_at: Millis, now: Millis) -> Phases {
        let stretches = vec![Stretch { phase: "queued", at: accepted_at }];
        Phases { stretches, left_out: 0, last_progress: now, prompt: None, since: now }
    }

    /// When the run began.
    pub fn started(&self) -> Millis {
        self.stretches.get(1).map_or(self.since, |s| s.at)
    }

    /// After a step.
    pub fn step(&mut self, run: &Run, now: Millis) {
        self.last_progress = now;
        let phase = name(&run.phase);
        if self.stretches.last().is_some_and(|s| s.phase == phase) {
            return;
        }
        self.since = now;
        let next = Stretch { phase, at: now };
        let full = self.stretches_full();
        match self.stretches.last_mut().filter(|_| full) {
            Some(last) => {
                self.left_out += 1;
                *last = next;
            }
            None => self.stretches.push(next),
        }
    }

    fn stretches_full(&self) -> bool {
        self.stretches.len() >= STRETCHES_MAX
    }

    /// As it is stored.
    pub fn text(&self) -> String {
        let mut value =
            serde_json::json!({ "stretches": self.stretches, "leftOut": self.left_out });
        if let Some(prompt) = &self.prompt {
            value["prompt"] = prompt.clone();
        }
        value.to_string()
    }

    /// What the run waits for now.
    pub fn waits_for(&self, run: &Run) -> WaitsFor {
        match &run.phase {
            Phase::Calling(_) => WaitsFor::ModelCall { since: self.since, owned: true },
            Phase::Working(_) => WaitsFor::Tool,
            Phase::Waiting { .. } => WaitsFor::Retry,
            Phase::Compacting(_) => WaitsFor::Compaction { limit: self.since.plus(COMPACTION_MS) },
            Phase::Ended(_) => WaitsFor::TerminalCommitted,
            Phase::Idle | Phase::Claiming(_) | Phase::Assembling(_) | Phase::Hooking(..) => {
                WaitsFor::Nothing
            }
        }
    }
}

/// A compaction that takes longer is stuck: the summary's own limit, and some grace.
const COMPACTION_MS: u64 = 2 * SUMMARY_MS_MAX;

/// The name of a phase (architecture: phases of a run).
fn name(phase: &Phase) -> &'static str {
    match phase {
        Phase::Idle => "queued",
        Phase::Claiming(_) => "claiming",
        Phase::Assembling(_) => "assembling",
        Phase::Hooking(..) => "hooking",
        Phase::Compacting(_) => "compacting",
        Phase::Calling(_) => "calling",
        Phase::Waiting { .. } => "waiting",
        Phase::Working(batch) if batch.executing() => "executing",
        Phase::Working(_) => "admitting",
        Phase::Ended(_) => "ended",
    }
}
