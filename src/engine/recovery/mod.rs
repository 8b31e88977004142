//! After a start: what the last process left running goes on, one at a time, and not for ever
//! (`spec/lanes.md`, rules V).
//!
//! `step` decides; the caller stores the attempt before it submits the run, so that a process
//! which dies of a run finds the attempt counted when it comes back.
//!
//! ```text
//! waiting -> submitted -> started -> done
//!    ^          |
//!    '- backoff-'-> tombstone | failed            any -> settled
//! ```

#[cfg(test)]
mod tests;

use crate::base::limits::{
    RECOVERY_ATTEMPTS_MAX, RECOVERY_BACKOFF_MAX_MS, RECOVERY_BACKOFF_MS, RECOVERY_CANDIDATES_MAX,
    RECOVERY_DELAY_MS, RECOVERY_OBSERVE_MS,
};
use crate::base::{Millis, RunId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A run that the last process left open.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Candidate {
    /// The key of its conversation.
    pub session: Arc<str>,
    /// The run.
    pub run: RunId,
    /// Whose it is.
    pub kind: CandidateKind,
    /// How often it was resumed before, as it is stored.
    pub attempts: u8,
    /// Whether it may only use tools that can be repeated.
    pub narrowed: bool,
}

/// Whose an interrupted run is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CandidateKind {
    /// A conversation's own.
    Main,
    /// A child's: its parent waits for it.
    Subagent,
    /// A scheduled job's: the schedule comes again.
    Cron,
    /// An outside harness's: it cannot be continued from here.
    Acp,
}

/// What happens to recovery.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// The process has started, and this was left open.
    Boot(Vec<Candidate>),
    /// Time has passed.
    Tick,
    /// The resumed run of this conversation has begun a turn.
    Started(Arc<str>),
    /// The resumed run has ended.
    Ended {
        /// The conversation.
        session: Arc<str>,
        /// Whether it completed.
        completed: bool,
    },
    /// The run could not be submitted now.
    Refused(Arc<str>),
    /// Somebody else, such as a person's message, has taken the conversation over.
    Settled(Arc<str>),
    /// The process is about to stop: nothing more is begun.
    Drain,
}

/// What the caller has to do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Act {
    /// Store the number of the attempt, then submit the run.
    Resume {
        /// The conversation.
        session: Arc<str>,
        /// The interrupted run.
        run: RunId,
        /// Which attempt this is, from 1.
        attempt: u8,
        /// Whether it may only use tools that can be repeated.
        narrowed: bool,
    },
    /// Give the run up and say so in the conversation.
    Tombstone {
        /// The conversation.
        session: Arc<str>,
        /// The interrupted run.
        run: RunId,
        /// How often it was resumed.
        attempts: u8,
    },
    /// Settle the run as failed, for the parent or the schedule to decide.
    Fail {
        /// The conversation.
        session: Arc<str>,
        /// The interrupted run.
        run: RunId,
    },
}

/// Why an input changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// There was a boot already: recovery has one owner.
    Booted,
    /// Nothing waits or runs here for this conversation.
    NotOurs,
    /// It waits and was not submitted.
    NotSubmitted,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Booted => "recovery has begun already",
            Refusal::NotOurs => "recovery does not hold this conversation",
            Refusal::NotSubmitted => "this conversation was not resumed yet",
        })
    }
}

impl std::error::Error for Refusal {}

/// The order of waiting: when it may begin, then as the boot listed it.
type Turn = (Millis, u32);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stage {
    Waiting(Turn),
    Submitted,
    /// It has begun a turn and is watched until then.
    Started(Millis),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Item {
    candidate: Candidate,
    listed: u32,
    stage: Stage,
}

/// The state of recovery.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Recovery {
    booted: bool,
    draining: bool,
    items: BTreeMap<Arc<str>, Item>,
    queue: BTreeSet<(Turn, Arc<str>)>,
    /// The one that was submitted, or is still watched.
    current: Option<Arc<str>>,
}

impl Recovery {
    /// When the next `Tick` has something to do.
    #[must_use]
    pub fn due(&self) -> Option<Millis> {
        if let Some(item) = self.current.as_ref().and_then(|session| self.items.get(session)) {
            return match item.stage {
                Stage::Started(until) => Some(until),
                // Its answer comes as an input: every submitted run ends.
                Stage::Submitted | Stage::Waiting(_) => None,
            };
        }
        let first = self.queue.first().filter(|_| !self.draining);
        first.map(|((at, _), _)| *at)
    }

    /// Whether a conversation waits to be resumed, or is being resumed.
    #[must_use]
    pub fn holds(&self, session: &str) -> bool {
        self.items.contains_key(session)
    }

    /// How many conversations are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// One step of recovery. A refusal changes nothing.
#[must_use]
pub fn step(
    mut state: Recovery,
    input: Input,
    now: Millis,
) -> (Recovery, Vec<Act>, Option<Refusal>) {
    let mut acts = Vec::new();
    let done = match input {
        Input::Boot(candidates) => state.boot(candidates, now, &mut acts),
        Input::Tick => Ok(()),
        Input::Started(session) => state.started(&session, now),
        Input::Ended { session, completed } => state.ended(&session, completed, now, &mut acts),
        Input::Refused(session) => state.refused(&session, now, &mut acts),
        Input::Settled(session) => state.settled(&session),
        Input::Drain => {
            state.draining = true;
            Ok(())
        }
    };
    if let Err(refusal) = done {
        return (state, acts, Some(refusal));
    }
    state.go_on(now, &mut acts);
    (state, acts, None)
}

type Done = Result<(), Refusal>;

impl Recovery {
    /// Takes what can be resumed and gives up the rest (V2, V5, V6).
    fn boot(&mut self, candidates: Vec<Candidate>, now: Millis, acts: &mut Vec<Act>) -> Done {
        if self.booted {
            return Err(Refusal::Booted);
        }
        self.booted = true;
        for candidate in candidates {
            let fails = match candidate.kind {
                CandidateKind::Main => false,
                CandidateKind::Subagent => candidate.attempts > 0,
                CandidateKind::Cron | CandidateKind::Acp => true,
            };
            let listed = u32::try_from(self.items.len()).unwrap_or(u32::MAX);
            if fails || self.items.contains_key(&candidate.session) {
                acts.push(fail(candidate));
            } else if candidate.attempts >= RECOVERY_ATTEMPTS_MAX
                || self.items.len() >= RECOVERY_CANDIDATES_MAX
            {
                acts.push(tombstone(candidate));
            } else {
                self.wait(candidate, listed, now.plus(RECOVERY_DELAY_MS));
            }
        }
        Ok(())
    }

    fn wait(&mut self, candidate: Candidate, listed: u32, at: Millis) {
        let (turn, session) = ((at, listed), candidate.session.clone());
        self.queue.insert((turn, session.clone()));
        self.items.insert(session, Item { candidate, listed, stage: Stage::Waiting(turn) });
    }

    fn stage(&self, session: &Arc<str>) -> Result<Stage, Refusal> {
        self.items.get(session).map(|item| item.stage).ok_or(Refusal::NotOurs)
    }

    fn forget(&mut self, session: &Arc<str>) -> Option<Item> {
        if self.current.as_ref() == Some(session) {
            self.current = None;
        }
        let item = self.items.remove(session)?;
        if let Stage::Waiting(turn) = item.stage {
            self.queue.remove(&(turn, session.clone()));
        }
        Some(item)
    }

    fn started(&mut self, session: &Arc<str>, now: Millis) -> Done {
        match self.stage(session)? {
            Stage::Waiting(_) => Err(Refusal::NotSubmitted),
            // Further turns of the same run.
            Stage::Started(_) => Ok(()),
            Stage::Submitted => {
                if let Some(item) = self.items.get_mut(session) {
                    item.stage = Stage::Started(now.plus(RECOVERY_OBSERVE_MS));
                }
                Ok(())
            }
        }
    }

    /// A run that began a turn has its own outcome, which was told (V4); one that did not is tried
    /// again, but a child was interrupted twice then (V6).
    fn ended(
        &mut self,
        session: &Arc<str>,
        completed: bool,
        now: Millis,
        acts: &mut Vec<Act>,
    ) -> Done {
        let again = match self.stage(session)? {
            Stage::Waiting(_) => return Err(Refusal::NotSubmitted),
            Stage::Started(_) => false,
            Stage::Submitted => !completed,
        };
        let Some(item) = self.forget(session).filter(|_| again) else { return Ok(()) };
        match item.candidate.kind {
            CandidateKind::Main => self.again(item, now, acts),
            CandidateKind::Subagent | CandidateKind::Cron | CandidateKind::Acp => {
                acts.push(fail(item.candidate));
            }
        }
        Ok(())
    }

    fn refused(&mut self, session: &Arc<str>, now: Millis, acts: &mut Vec<Act>) -> Done {
        match self.stage(session)? {
            Stage::Waiting(_) => Err(Refusal::NotSubmitted),
            // It has begun, so it was submitted: a late answer to something else.
            Stage::Started(_) => Err(Refusal::NotOurs),
            Stage::Submitted => {
                if let Some(item) = self.forget(session) {
                    self.again(item, now, acts);
                }
                Ok(())
            }
        }
    }

    /// Another attempt after a while, or the end of trying (V3, V5).
    fn again(&mut self, item: Item, now: Millis, acts: &mut Vec<Act>) {
        let attempts = item.candidate.attempts;
        if attempts < RECOVERY_ATTEMPTS_MAX {
            self.wait(item.candidate, item.listed, now.plus(backoff(attempts)));
        } else {
            match item.candidate.kind {
                CandidateKind::Main => acts.push(tombstone(item.candidate)),
                CandidateKind::Subagent | CandidateKind::Cron | CandidateKind::Acp => {
                    acts.push(fail(item.candidate));
                }
            }
        }
    }

    fn settled(&mut self, session: &Arc<str>) -> Done {
        self.forget(session).map(|_| ()).ok_or(Refusal::NotOurs)
    }

    /// Lets go of a run that was watched for long enough, and begins the next (V1).
    fn go_on(&mut self, now: Millis, acts: &mut Vec<Act>) {
        if let Some(session) = self.current.clone()
            && let Ok(Stage::Started(until)) = self.stage(&session)
            && until <= now
        {
            self.forget(&session);
        }
        if self.draining || self.current.is_some() {
            return;
        }
        let Some((turn, session)) = self.queue.first().filter(|(t, _)| t.0 <= now).cloned() else {
            return;
        };
        self.queue.remove(&(turn, session.clone()));
        let Some(item) = self.items.get_mut(&session) else { return };
        item.stage = Stage::Submitted;
        item.candidate.attempts += 1;
        acts.push(Act::Resume {
            session: session.clone(),
            run: item.candidate.run.clone(),
            attempt: item.candidate.attempts,
            narrowed: item.candidate.narrowed,
        });
        self.current = Some(session);
    }
}

/// How long to wait after this many attempts: doubles, up to a limit.
fn backoff(attempts: u8) -> u64 {
    let doublings = u32::from(attempts.saturating_sub(1));
    let wait = RECOVERY_BACKOFF_MS.checked_shl(doublings).unwrap_or(u64::MAX);
    wait.min(RECOVERY_BACKOFF_MAX_MS)
}

fn fail(candidate: Candidate) -> Act {
    Act::Fail { session: candidate.session, run: candidate.run }
}

fn tombstone(candidate: Candidate) -> Act {
    let Candidate { session, run, attempts, kind: _, narrowed: _ } = candidate;
    Act::Tombstone { session, run, attempts }
}
