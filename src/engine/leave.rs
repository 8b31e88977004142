//! Ends that the run does not write itself: it was displaced, or its store or its context failed.

use super::batch;
use super::compact::CompactionEnd;
use super::flow::{Flow, Halt};
use super::io::{Act, Event, Fault, FenceRefusal, Outcome, Record, Termination, Who};
use super::reply::Cut;
use super::run::Phase;

impl Flow {
    /// The fence refused: somebody else writes, or the session is not what it was.
    pub fn fenced(self, why: FenceRefusal) -> Halt {
        let by = match why {
            FenceRefusal::SessionEntryMissing
            | FenceRefusal::SessionChanged
            | FenceRefusal::RevisionChanged
            | FenceRefusal::RunOver => None,
            FenceRefusal::SessionRebound { by } | FenceRefusal::ClaimNotPersisted { by } => by,
        };
        self.displaced(Termination::Superseded { by })
    }

    /// The run ends without a word of its own in the transcript: it was superseded, or its store
    /// or its context failed. The outcome is told before anything is cancelled (semantics 7.4).
    pub fn displaced(mut self, termination: Termination) -> Halt {
        let phase = std::mem::replace(&mut self.phase, Phase::Idle);
        let ours = match termination {
            Termination::Superseded { .. } | Termination::Failed { fault: Fault::Store } => false,
            Termination::Completed { .. }
            | Termination::Aborted { .. }
            | Termination::ProviderError { .. }
            | Termination::ToolLoop
            | Termination::PolicyStop { .. }
            | Termination::Failed { .. } => true,
        };
        let dropped = self.core.queues.restore();
        if ours {
            self.out.append.extend(dropped.into_iter().map(Record::Dropped));
            self.out.append.push(Record::Ended(termination.clone()));
        }
        self.tell(Event::Ended(termination.clone()));
        if self.core.started {
            self.close_events(&phase);
        }
        self.cancel_all(&phase);
        self.core.turn_open = false;
        self.halt(Phase::Ended(termination))
    }

    /// Observers see balanced events although nothing is stored.
    fn close_events(&mut self, phase: &Phase) {
        let stopped = Who::Stopped(self.cause());
        match phase {
            Phase::Calling(reply) => self.end_message(stopped, reply.shown()),
            Phase::Waiting { shown, .. } => self.end_message(stopped, *shown),
            Phase::Working(batch) => {
                for (i, call) in batch.calls.iter().enumerate() {
                    let announced =
                        !matches!(call.phase, batch::Phase::Fresh | batch::Phase::Ended);
                    if announced {
                        let outcome = Outcome::UnknownAfterTakeover;
                        let call_index = u16::try_from(i).unwrap_or(u16::MAX);
                        let started = call.entered;
                        self.tell(Event::ToolEnd { call: call_index, outcome, started });
                    }
                }
            }
            Phase::Compacting(of) => {
                self.tell(Event::CompactionEnd(CompactionEnd::Aborted));
                if of.shown {
                    self.tell(Event::MessageEnd(stopped));
                }
            }
            Phase::Idle
            | Phase::Claiming(_)
            | Phase::Assembling(_)
            | Phase::Hooking(..)
            | Phase::Ended(_) => {}
        }
        if self.core.turn_open {
            self.tell(Event::TurnEnd { results: 0 });
        }
        self.tell(Event::AgentEnd);
    }

    fn cancel_all(&mut self, phase: &Phase) {
        match phase {
            Phase::Calling(reply) => {
                let step = reply.cut(Cut::Abort, &self.core.setup.limits, self.now);
                self.out.act.extend(step.act);
            }
            Phase::Working(batch) => {
                let running = |c: &batch::Call| match c.phase {
                    batch::Phase::Entering(op) | batch::Phase::Running(op) => {
                        Some(Act::CancelTool(op))
                    }
                    batch::Phase::Fresh
                    | batch::Phase::Asking(_)
                    | batch::Phase::Ready
                    | batch::Phase::After(_)
                    | batch::Phase::Judging(_)
                    | batch::Phase::Ended => None,
                };
                self.out.act.extend(batch.calls.iter().filter_map(running));
            }
            Phase::Compacting(of) => self.out.act.push(Act::CancelCompact(of.op)),
            Phase::Idle
            | Phase::Claiming(_)
            | Phase::Assembling(_)
            | Phase::Hooking(..)
            | Phase::Waiting { .. }
            | Phase::Ended(_) => {}
        }
    }
}
