//! A store in memory with the real one's contract: the same writes, the same fence, all or
//! nothing. A test runs both with the same writes and compares them.

use super::compact::View;
use crate::base::{EntryId, MsgId, RunId};
use crate::engine::{FenceRefusal, QueueKind, Termination};
use crate::transcript::{Entry, EntryKind, Message, OpenCall, User, Write};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Why a commit was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// By the fence.
    Fenced(FenceRefusal),
    /// The disk.
    Failed,
    /// The run's id was used before.
    Duplicate,
}

/// A session's rows.
#[derive(Clone, Debug, Default)]
pub struct MemStore {
    /// The active writer.
    pub writer: Option<RunId>,
    /// Waiting messages, in the order of their arrival.
    pub queue: Vec<(MsgId, QueueKind, Arc<User>)>,
    /// Transcript messages.
    pub messages: Vec<Message>,
    /// The ids of their entries.
    pub ids: Vec<EntryId>,
    /// The last compaction, and how many messages were before it.
    pub boundary: Option<Entry>,
    pub(super) boundary_at: usize,
    /// What a model knows of them.
    pub view: View,
    /// Calls without a stored result.
    pub calls: Vec<OpenCall>,
    /// Accepted runs and how they ended.
    pub runs: BTreeMap<RunId, Option<Termination>>,
    /// Results that are owed before any other message: the pairing automaton.
    pub owed: VecDeque<String>,
    /// The first violation of pairing that was stored.
    pub unpaired: Option<String>,
    /// What somebody is to see later of a run's course.
    pub phases: BTreeMap<RunId, String>,
    /// The next commit fails.
    pub fail_next: bool,
    /// Sabotage: the fence is off.
    pub no_fence: bool,
}

impl MemStore {
    /// Commits all of the writes or none.
    ///
    /// # Errors
    /// Why none was committed.
    pub fn commit(
        &mut self,
        by: Option<&RunId>,
        seen: Option<&RunId>,
        writes: &[Write],
    ) -> Result<(), Refused> {
        if std::mem::take(&mut self.fail_next) {
            return Err(Refused::Failed);
        }
        self.admit(by, seen, writes)?;
        for write in writes {
            self.apply(by, write);
        }
        Ok(())
    }

    /// Walks the writes through the fence without writing.
    fn admit(
        &self,
        by: Option<&RunId>,
        seen: Option<&RunId>,
        writes: &[Write],
    ) -> Result<(), Refused> {
        let mut active = self.writer.as_ref();
        let mut ended: BTreeSet<&RunId> = BTreeSet::new();
        let mut accepted = BTreeSet::new();
        for write in writes {
            let free = match write {
                Write::Accept { run, .. }
                    if self.runs.contains_key(run) || !accepted.insert(run) =>
                {
                    return Err(Refused::Duplicate);
                }
                Write::Accept { .. } | Write::QueuePut { .. } => true,
                Write::Claim if by.is_some() => {
                    let Some(run) = by else { continue };
                    let open = accepted.contains(run) || self.runs.get(run) == Some(&None);
                    if !self.no_fence {
                        if !open || ended.contains(run) {
                            return Err(Refused::Fenced(FenceRefusal::RunOver));
                        }
                        if active != seen {
                            let by = active.cloned();
                            return Err(Refused::Fenced(FenceRefusal::ClaimNotPersisted { by }));
                        }
                    }
                    ended.extend(active.filter(|old| *old != run));
                    active = by;
                    true
                }
                Write::Put(_) | Write::QueueTake(_) => by.is_none(),
                Write::EndJoined { run, .. } if active == by && by.is_some() => {
                    ended.insert(run);
                    true
                }
                Write::End { .. } if active == by && by.is_some() => {
                    ended.extend(by);
                    active = None;
                    true
                }
                Write::Claim
                | Write::CallsOpen(_)
                | Write::CallsLaunched(_)
                | Write::CallProcess { .. }
                | Write::CallKnown { .. }
                | Write::CallStored(_)
                | Write::Phases(_)
                | Write::EndJoined { .. }
                | Write::End { .. } => false,
            };
            if !free && !self.no_fence && (by.is_none() || active != by) {
                let by = active.cloned();
                return Err(Refused::Fenced(FenceRefusal::SessionRebound { by }));
            }
        }
        Ok(())
    }

    fn apply(&mut self, by: Option<&RunId>, write: &Write) {
        match write {
            Write::Accept { run, .. } => {
                self.runs.insert(run.clone(), None);
            }
            Write::Claim => {
                if let Some(old) = self.writer.take_if(|old| Some(&*old) != by)
                    && let Some(slot @ None) = self.runs.get_mut(&old)
                {
                    *slot = Some(Termination::Superseded { by: by.cloned() });
                }
                self.writer = by.cloned();
            }
            Write::Put(entry) => {
                if let EntryKind::Message { message } = &entry.kind {
                    self.pair(message);
                    self.messages.push(message.clone());
                    self.ids.push(entry.id.clone());
                }
                if let EntryKind::Compaction { first_kept_entry_id, .. } = &entry.kind {
                    let kept = self.ids.iter().position(|id| id == first_kept_entry_id);
                    let epoch = self.view.epoch + 1;
                    let from = kept.unwrap_or(self.messages.len());
                    self.view = View { summary: entry.kind.summary(entry.timestamp), from, epoch };
                    self.boundary = Some(entry.clone());
                    self.boundary_at = self.messages.len();
                }
            }
            Write::QueuePut { id, kind, body } => {
                match self.queue.iter_mut().find(|(m, _, _)| m == id) {
                    Some((_, at, _)) => *at = *kind,
                    None => self.queue.push((*id, *kind, Arc::clone(body))),
                }
            }
            Write::QueueTake(id) => self.queue.retain(|(m, _, _)| m != id),
            Write::CallsOpen(calls) => self.calls.clone_from(calls),
            Write::CallsLaunched(calls) => {
                for call in calls {
                    self.call(*call, |c| c.launched = true);
                }
            }
            Write::CallProcess { .. } => {}
            Write::CallKnown { call, output } => {
                self.call(*call, |c| c.output = Some(Arc::clone(output)));
            }
            Write::CallStored(call) => {
                self.call(*call, |c| c.stored = true);
                if self.calls.iter().all(|c| c.stored) {
                    self.calls.clear();
                }
            }
            Write::Phases(phases) => {
                if let Some(run) = by {
                    self.phases.insert(run.clone(), phases.clone());
                }
            }
            Write::EndJoined { run, termination, .. } => {
                if let Some(slot @ None) = self.runs.get_mut(run) {
                    *slot = Some(termination.clone());
                }
            }
            Write::End { termination, .. } => {
                if let Some(slot @ None) = by.and_then(|run| self.runs.get_mut(run)) {
                    *slot = Some(termination.clone());
                }
                self.writer = None;
            }
        }
    }

    fn call(&mut self, call: u16, change: impl FnOnce(&mut OpenCall)) {
        if let Some(slot) = self.calls.get_mut(usize::from(call)) {
            change(slot);
        }
    }

    /// Invariant 1, for what is stored.
    fn pair(&mut self, message: &Message) {
        let fine = match message {
            Message::ToolResult(r) => self.owed.pop_front().as_deref() == Some(&*r.tool_call_id),
            Message::Assistant(a) => {
                let paid = self.owed.is_empty();
                self.owed.extend(a.calls().map(|(id, _, _)| id.to_owned()));
                paid
            }
            Message::User(_)
            | Message::Custom(_)
            | Message::BashExecution(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_) => self.owed.is_empty(),
        };
        if !fine && self.unpaired.is_none() {
            self.unpaired = Some(format!("message {} breaks the pairing", self.messages.len()));
        }
    }
}
