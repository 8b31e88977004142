//! A history that is about to be too large (F14 to F18): when it is weighed, what follows of it,
//! and where the loop goes on afterwards.

use super::ends::{Fault, Termination};
use super::flow::{Flow, Halt};
use super::io::{Act, Event, Hook, Record};
use super::run::Phase;
use super::steer::QueueKind;
use crate::base::limits::{OVERFLOWS_MAX, SUMMARY_MS_MAX};
use crate::base::{FailKind, Failure, Millis, OpId};
use crate::transcript::Compaction;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Why a history is compacted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// The next request would not leave the reserve free.
    Threshold,
    /// The run is over, and the next one would find it so.
    After,
    /// The provider refused the request as too large.
    Overflow,
    /// Somebody asked for it.
    Manual,
}

impl Trigger {
    /// The word that clients are told.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Trigger::Threshold | Trigger::After => "threshold",
            Trigger::Overflow => "overflow",
            Trigger::Manual => "manual",
        }
    }
}

/// What became of a compaction.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Compacted {
    /// This becomes an entry.
    Done(Arc<Compaction>),
    /// There is nothing that could go; why.
    Nothing(Arc<str>),
    /// It could not be made; why.
    Failed(Arc<str>),
}

/// What observers are told of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum CompactionEnd {
    /// The history is shorter now.
    Completed {
        /// What was stored.
        made: Arc<Compaction>,
        /// The refused request is sent again.
        retry: bool,
    },
    /// Nothing has changed; why.
    Skipped(Arc<str>),
    /// It was stopped.
    Aborted,
    /// It could not be made; why.
    Failed(Arc<str>),
}

/// A compaction that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Compacting {
    /// Its operation.
    pub op: OpId,
    /// Why.
    pub why: Trigger,
    /// When the model is waited for no longer; none once that has been.
    pub due: Option<Millis>,
    /// Observers know of the message whose request was refused.
    pub shown: bool,
}

impl Flow {
    /// Before a request: whether it would leave the reserve free.
    pub(super) fn weigh(self) -> Halt {
        if self.core.setup.hooks.compaction {
            return self.ask(Hook::WeighRequest);
        }
        self.call_model()
    }

    /// The loop has come to its natural end.
    pub(super) fn completed(self) -> Halt {
        if self.core.setup.hooks.compaction {
            return self.ask(Hook::WeighHistory);
        }
        self.close_completed()
    }

    fn close_completed(mut self) -> Halt {
        // What came while the history was made shorter has a turn of its own.
        if !self.core.aborted() {
            let queues = &mut self.core.queues;
            if queues.poll(QueueKind::FollowUp) || queues.poll(QueueKind::Steer) {
                return self.outer_top();
            }
        }
        let cut = self.core.last == super::run::Last::Cut;
        self.end(Termination::Completed { cut })
    }

    /// The history has been weighed.
    pub(super) fn weighed(self, after: bool, full: bool) -> Halt {
        match (after, full) {
            (false, true) => self.compact(Trigger::Threshold, false),
            (false, false) => self.call_model(),
            (true, true) => self.compact(Trigger::After, false),
            (true, false) => self.close_completed(),
        }
    }

    pub(super) fn compact(mut self, why: Trigger, shown: bool) -> Halt {
        let op = self.core.op();
        self.tell(Event::CompactionStart(why));
        self.out.act.push(Act::Compact(op, why));
        let due = Some(self.now.plus(SUMMARY_MS_MAX));
        self.halt(Phase::Compacting(Compacting { op, why, due, shown }))
    }

    /// A request that the provider refused as too large: the history is made shorter, and the
    /// request is made again, so many times.
    pub(super) fn overflowed(&self, failure: &Failure) -> bool {
        failure.kind == FailKind::ContextOverflow
            && self.core.setup.hooks.compaction
            && self.core.overflows < OVERFLOWS_MAX
            && !self.core.aborted()
    }

    pub(super) fn overflow(mut self, shown: bool) -> Halt {
        self.core.overflows += 1;
        self.compact(Trigger::Overflow, shown)
    }

    /// The worker has answered.
    pub(super) fn compacted(mut self, of: Compacting, what: Compacted) -> Halt {
        let done = matches!(what, Compacted::Done(_));
        let failed = matches!(what, Compacted::Failed(_));
        let end = match what {
            Compacted::Done(made) => {
                self.out.append.push(Record::Compacted(Arc::clone(&made)));
                CompactionEnd::Completed { made, retry: of.why == Trigger::Overflow }
            }
            Compacted::Nothing(why) => CompactionEnd::Skipped(why),
            Compacted::Failed(why) => CompactionEnd::Failed(why),
        };
        self.tell(Event::CompactionEnd(end));
        match of.why {
            Trigger::Threshold => self.call_model(),
            Trigger::After => self.close_completed(),
            Trigger::Manual if failed => self.end(Termination::Failed { fault: Fault::Assembly }),
            Trigger::Manual => self.end(Termination::Completed { cut: false }),
            Trigger::Overflow if done => {
                if of.shown {
                    self.tell(Event::MessageReset);
                }
                self.send(of.shown)
            }
            Trigger::Overflow => {
                self.failed_for_good(Failure::new(FailKind::ContextOverflow, TOO_LONG), of.shown)
            }
        }
    }

    /// A stop while it is under way: what is stored stays as it is.
    pub(super) fn stop_compacting(mut self, of: Compacting) -> Halt {
        self.out.act.push(Act::CancelCompact(of.op));
        self.tell(Event::CompactionEnd(CompactionEnd::Aborted));
        match of.why {
            Trigger::Overflow => self.reply_stopped(None, of.shown),
            Trigger::Threshold => self.abort_close(),
            Trigger::After | Trigger::Manual => self.stopped_outside_a_turn(),
        }
    }

    /// A stop when nothing is left to say.
    pub(super) fn stopped_outside_a_turn(self) -> Halt {
        let cause = self.cause();
        self.end(Termination::Aborted { cause })
    }

    /// The model has been waited for long enough: what there is has to do.
    pub(super) fn cut_summary(mut self, of: Compacting) -> Halt {
        self.out.act.push(Act::CutSummary(of.op));
        self.halt(Phase::Compacting(Compacting { due: None, ..of }))
    }

    /// A run that does nothing else: its words are for us, not for the model.
    pub(super) fn enter_compact(mut self) -> Halt {
        self.core.started = true;
        self.tell(Event::AgentStart);
        for drained in self.core.queues.take_pending() {
            self.out.append.push(Record::Dropped(drained.id));
        }
        if self.core.aborted() {
            return self.stopped_outside_a_turn();
        }
        self.compact(Trigger::Manual, false)
    }
}

/// What a person is told when nothing helps.
const TOO_LONG: &str = "The conversation is too long for the model and could not be made shorter. \
                        Begin anew with /new, or use a model with a larger window.";
