//! The two queues of waiting messages, their drain modes and the in-flight marks (semantics 2.7).

use crate::base::{MsgId, limits::QUEUE_MAX};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How much one poll of a queue takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drain {
    /// One message.
    #[default]
    OneAtATime,
    /// Everything that waits.
    All,
}

/// Which queue a message waits in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueKind {
    /// It starts the run.
    Prompt,
    /// It joins the running turn at the next checkpoint.
    Steer,
    /// It starts a turn of its own when the loop would end.
    FollowUp,
}

/// A drained message on its way into the transcript.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InFlight {
    /// The message.
    pub id: MsgId,
    /// The queue it returns to if it is not committed.
    pub kind: QueueKind,
    /// Its sender took it back: the next check consumes the mark.
    pub cancelled: bool,
}

/// Both queues and what was drained from them but not committed yet.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Queues {
    steer: VecDeque<MsgId>,
    follow: VecDeque<MsgId>,
    pending: Vec<InFlight>,
    /// Drain mode of the steering queue.
    pub steer_mode: Drain,
    /// Drain mode of the follow-up queue.
    pub follow_mode: Drain,
}

impl Queues {
    fn queue(&mut self, kind: QueueKind) -> &mut VecDeque<MsgId> {
        match kind {
            QueueKind::Prompt | QueueKind::FollowUp => &mut self.follow,
            QueueKind::Steer => &mut self.steer,
        }
    }

    /// Puts an accepted message at the end of its queue; `false` if the queue is full.
    #[must_use]
    pub fn push(&mut self, id: MsgId, kind: QueueKind) -> bool {
        let queue = self.queue(kind);
        if queue.len() >= QUEUE_MAX {
            return false;
        }
        queue.push_back(id);
        true
    }

    /// Whether a message is known here, waiting or drained.
    #[must_use]
    pub fn holds(&self, id: MsgId) -> bool {
        self.steer.contains(&id)
            || self.follow.contains(&id)
            || self.pending.iter().any(|p| p.id == id)
    }

    /// Whether a message was drained and is on its way.
    #[must_use]
    pub fn in_flight(&self, id: MsgId) -> bool {
        self.pending.iter().any(|p| p.id == id)
    }

    /// Whether a steering poll would take something.
    #[must_use]
    pub fn steering(&self) -> bool {
        !self.steer.is_empty()
    }

    /// Moves what a poll takes from a queue to the drained ones; `true` if there was something.
    pub fn poll(&mut self, kind: QueueKind) -> bool {
        let mode = match kind {
            QueueKind::Steer => self.steer_mode,
            QueueKind::Prompt | QueueKind::FollowUp => self.follow_mode,
        };
        let queue = self.queue(kind);
        let count = match mode {
            Drain::OneAtATime => queue.len().min(1),
            Drain::All => queue.len(),
        };
        let taken: Vec<MsgId> = queue.drain(..count).collect();
        self.pending.extend(taken.iter().map(|&id| InFlight { id, kind, cancelled: false }));
        count > 0
    }

    /// Puts the prompts of a run among the drained messages: they are committed first.
    pub fn prompts(&mut self, ids: &[MsgId]) {
        let prompt = |&id: &MsgId| InFlight { id, kind: QueueKind::Prompt, cancelled: false };
        self.pending.extend(ids.iter().map(prompt));
    }

    /// Whether drained messages wait to be committed.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Hands over the drained messages; the caller commits or drops each of them.
    pub fn take_pending(&mut self) -> Vec<InFlight> {
        std::mem::take(&mut self.pending)
    }

    /// Takes a waiting message back: removed if it waits, marked if it was drained already.
    pub fn cancel(&mut self, id: MsgId) -> bool {
        if let Some(drained) = self.pending.iter_mut().find(|p| p.id == id) {
            drained.cancelled = true;
            return true;
        }
        let before = self.steer.len() + self.follow.len();
        self.steer.retain(|x| *x != id);
        self.follow.retain(|x| *x != id);
        before > self.steer.len() + self.follow.len()
    }

    /// Puts drained, uncommitted messages back to the front of their queue, in order; gives the
    /// ones that their senders had taken back.
    pub fn restore(&mut self) -> Vec<MsgId> {
        let mut cancelled = Vec::new();
        for drained in std::mem::take(&mut self.pending).into_iter().rev() {
            if drained.cancelled {
                cancelled.push(drained.id);
            } else {
                self.queue(drained.kind).push_front(drained.id);
            }
        }
        cancelled.reverse();
        cancelled
    }

    /// Every message that is still owed a place, in the order in which it would be taken.
    #[must_use]
    pub fn waiting(&self) -> Vec<(MsgId, QueueKind)> {
        let drained = self.pending.iter().map(|p| (p.id, p.kind));
        let steer = self.steer.iter().map(|id| (*id, QueueKind::Steer));
        let follow = self.follow.iter().map(|id| (*id, QueueKind::FollowUp));
        drained.chain(steer).chain(follow).collect()
    }

    /// Asserts the bounds of this part of the state. What returns to a queue may pass the bound
    /// for new messages, but not by more than what can be on its way.
    pub fn check(&self) {
        assert!(self.steer.len() <= 2 * QUEUE_MAX, "14: the steering queue passed its limit");
        assert!(self.follow.len() <= 2 * QUEUE_MAX, "14: the follow-up queue passed its limit");
        assert!(self.pending.len() <= 2 * QUEUE_MAX, "14: drained messages passed their limit");
    }

    /// Plants a fault: the bound is not kept.
    #[cfg(any(test, fuzzing, feature = "sim"))]
    pub fn overfill(&mut self) {
        self.steer.extend((0..=2 * QUEUE_MAX as u64).map(|n| MsgId(1_000_000 + n)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(queues: &Queues) -> Vec<u64> {
        queues.waiting().iter().map(|(id, _)| id.0).collect()
    }

    #[test]
    fn restore_keeps_order_and_drops_the_cancelled() {
        let mut queues = Queues { steer_mode: Drain::All, ..Queues::default() };
        for id in 1..=3 {
            assert!(queues.push(MsgId(id), QueueKind::Steer));
        }
        assert!(queues.poll(QueueKind::Steer));
        assert!(queues.push(MsgId(4), QueueKind::Steer));
        assert!(queues.cancel(MsgId(2)));
        assert_eq!(queues.restore(), [MsgId(2)]);
        assert_eq!(ids(&queues), [1, 3, 4]);
    }

    #[test]
    fn one_at_a_time_takes_one() {
        let mut queues = Queues::default();
        assert!(queues.push(MsgId(1), QueueKind::FollowUp));
        assert!(queues.push(MsgId(2), QueueKind::FollowUp));
        assert!(queues.poll(QueueKind::FollowUp));
        assert_eq!(queues.take_pending().len(), 1);
        assert_eq!(ids(&queues), [2]);
    }

    #[test]
    fn a_full_queue_says_so() {
        let mut queues = Queues::default();
        for id in 0..QUEUE_MAX as u64 {
            assert!(queues.push(MsgId(id), QueueKind::Steer));
        }
        assert!(!queues.push(MsgId(999), QueueKind::Steer));
    }
}
