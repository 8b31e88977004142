//! Records to state: what is durably known of a run, and how an interrupted one is closed.
//!
//! The ledger is what the log can tell. After every step of a simulation `Ledger::fold` of the log
//! equals the ledger of the live run, up to work in flight (invariant 11).

use super::batch::{Phase as CallPhase, Stage};
use super::io::{Cause, Outcome, Record, Termination};
use super::run::{Phase, Run};
use super::steer::QueueKind;
use crate::base::MsgId;
use serde::{Deserialize, Serialize};

/// What is known of one call of the open batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Known {
    /// It was asked for.
    Asked,
    /// Its start was decided: it may have taken effect.
    Launched,
    /// What became of it is recorded.
    Outcome,
    /// Its result is in the transcript.
    Stored,
}

/// What the log tells of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ledger {
    /// It was accepted.
    pub accepted: bool,
    /// Accepted messages without a place in the transcript.
    pub waiting: Vec<(MsgId, QueueKind)>,
    /// The open batch; empty between batches.
    pub calls: Vec<Known>,
    /// How it ended.
    pub ended: Option<Termination>,
}

/// Why a run did not end by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interruption {
    /// The process stopped.
    ProcessStopped,
    /// A newer run took the session.
    TakenOver,
}

impl Ledger {
    /// The ledger of a whole log.
    #[must_use]
    pub fn fold(log: &[Record]) -> Ledger {
        let mut ledger = Ledger::default();
        for record in log {
            ledger.apply(record);
        }
        ledger
    }

    /// One more record.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Accepted { prompts, .. } => {
                self.accepted = true;
                let prompts = prompts.iter().map(|(id, _)| (*id, QueueKind::Prompt));
                self.waiting.splice(0..0, prompts);
                self.ended = None;
            }
            Record::Queued { id, kind, .. } => self.waiting.push((*id, *kind)),
            Record::Dropped(id) | Record::Committed(id) => self.waiting.retain(|(m, _)| m != id),
            Record::Reply(body) => self.calls = vec![Known::Asked; body.facts.len()],
            Record::Launch(calls) => {
                for call in calls {
                    self.set(*call, Known::Launched);
                }
            }
            Record::Outcome { call, .. } => self.set(*call, Known::Outcome),
            Record::Result(call) => {
                self.set(*call, Known::Stored);
                if self.calls.iter().all(|c| *c == Known::Stored) {
                    self.calls.clear();
                }
            }
            Record::Ended(termination) => self.ended = Some(termination.clone()),
            Record::Claim
            | Record::Failed { .. }
            | Record::Stopped { .. }
            | Record::Process { .. }
            | Record::LoopEnd
            | Record::Compacted(_)
            | Record::Note => {}
        }
    }

    fn set(&mut self, call: u16, known: Known) {
        if let Some(slot) = self.calls.get_mut(usize::from(call)) {
            *slot = known;
        }
    }

    /// The ledger of a live run.
    #[must_use]
    pub fn of(run: &Run) -> Ledger {
        Ledger {
            accepted: run.phase != Phase::Idle,
            waiting: run.core.queues.waiting(),
            calls: live_calls(run),
            ended: run.ended().cloned(),
        }
    }

    /// Whether two ledgers say the same; messages of different queues have no order between them.
    #[must_use]
    pub fn agrees(&self, other: &Ledger) -> bool {
        let ended = self.ended.is_some();
        let key = |(id, kind): &(MsgId, QueueKind)| (if ended { None } else { Some(*kind) }, *id);
        let of_kind = |ledger: &Ledger| {
            let mut keys: Vec<_> = ledger.waiting.iter().map(key).collect();
            keys.sort_by_key(|(kind, id)| (*kind, if ended { id.0 } else { 0 }));
            keys
        };
        self.accepted == other.accepted
            && self.calls == other.calls
            && self.ended == other.ended
            && of_kind(self) == of_kind(other)
    }
}

fn live_calls(run: &Run) -> Vec<Known> {
    let Phase::Working(batch) = &run.phase else { return vec![] };
    let launched = |i: usize| match batch.stage {
        Stage::Launch(_) => true,
        Stage::Serial(at) => usize::from(at) == i && batch.calls[i].entered,
        Stage::Admit(_)
        | Stage::Prepare(_)
        | Stage::Running
        | Stage::Tail(..)
        | Stage::Returned => false,
    };
    let known = |(i, call): (usize, &super::batch::Call)| match call.phase {
        CallPhase::Fresh | CallPhase::Asking(_) => Known::Asked,
        CallPhase::Ready if launched(i) => Known::Launched,
        CallPhase::Ready => Known::Asked,
        CallPhase::Entering(_) | CallPhase::Running(_) => Known::Launched,
        CallPhase::Ended if call.stored => Known::Stored,
        CallPhase::After(_) | CallPhase::Judging(_) | CallPhase::Ended => Known::Outcome,
    };
    batch.calls.iter().enumerate().map(known).collect()
}

/// The records that close an interrupted run: every open call gets its one result, honest about
/// what is known, and the run its end. Nothing is done again (decisions 7).
#[must_use]
pub fn recover(ledger: &Ledger, why: Interruption) -> Vec<Record> {
    if !ledger.accepted || ledger.ended.is_some() {
        return vec![];
    }
    let mut records = Vec::new();
    for (i, known) in ledger.calls.iter().enumerate() {
        let call = u16::try_from(i).unwrap_or(u16::MAX);
        let outcome = match (known, why) {
            (Known::Stored, _) => continue,
            (Known::Outcome, _) => None,
            (Known::Launched, Interruption::ProcessStopped) => Some(Outcome::UnknownAfterStop),
            (Known::Launched, Interruption::TakenOver) => Some(Outcome::UnknownAfterTakeover),
            (Known::Asked, Interruption::ProcessStopped) => Some(Outcome::NotStartedBeforeStop),
            (Known::Asked, Interruption::TakenOver) => Some(Outcome::NotStartedBeforeTakeover),
        };
        if let Some(outcome) = outcome {
            records.push(Record::Outcome { call, outcome, warned: None });
        }
        records.push(Record::Result(call));
    }
    records.push(Record::Ended(match why {
        Interruption::ProcessStopped => Termination::Aborted { cause: Cause::Restart },
        Interruption::TakenOver => Termination::Superseded { by: None },
    }));
    records
}
