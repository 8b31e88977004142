//! Compactions in the world: the real plan and the real rules for summaries, with a summary that
//! a friend gives or does not give.

use super::moves::Reply;
use super::sabotage::Sabotage;
use super::store::MemStore;
use super::world::World;
use crate::context::compact::{Budget, Summarizer, plan};
use crate::engine::{Compacted, Trigger};
use crate::model::wire::request::{Compat, Encoder};
use crate::transcript::{Entry, EntryKind, Message, paired};
use std::sync::Arc;

/// What a model knows of the past, in place of what was compacted.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Its summary; none before the first compaction.
    pub summary: Option<Message>,
    /// The first message that is kept.
    pub from: usize,
    /// How many compactions there were.
    pub epoch: u32,
}

impl MemStore {
    /// The history as entries, the compaction included.
    fn branch(&self) -> Vec<Entry> {
        let mut branch: Vec<Entry> = Vec::new();
        for (id, message) in self.ids.iter().zip(&self.messages) {
            let kind = EntryKind::Message { message: message.clone() };
            branch.push(Entry::restore(id.clone(), None, Default::default(), kind));
        }
        branch.extend(self.boundary.clone());
        // A compaction stands where it was made: what came after it follows.
        if let Some(made) = branch.pop().filter(|_| self.boundary.is_some()) {
            branch.insert(self.boundary_at.min(branch.len()), made);
        }
        branch
    }
}

impl World {
    /// What the worker makes of the history.
    pub(super) fn compaction(&self, why: Trigger, says: &Reply) -> Compacted {
        if matches!(says, Reply::Bad) {
            return Compacted::Failed("sim".into());
        }
        let budget = Budget { keep: 8, ..Budget::new(100_000, 1_000, 16_384, 20_000) };
        let mut branch = self.store.branch();
        let Ok(made) = plan(&branch, &budget, why == Trigger::Overflow) else {
            return Compacted::Nothing("sim".into());
        };
        let mut asks = Summarizer::new(made, budget, None);
        while asks.ask().is_some() {
            match says {
                Reply::Piece | Reply::Odd(_) => asks.failed("sim", false),
                _ => asks.answered("S"),
            }
        }
        let Ok((mut made, _)) = asks.finish() else { return Compacted::Nothing("sim".into()) };
        if self.sabotaged(Sabotage::CutPair) {
            branch.retain(|e| {
                matches!(&e.kind, EntryKind::Message { message: Message::ToolResult(_) })
            });
            if let Some(result) = branch.pop() {
                made.first_kept_entry_id = result.id;
            }
        }
        Compacted::Done(Arc::new(made))
    }

    /// 1, for what a model is sent: after a compaction, pairing is whole in what is left.
    pub(super) fn look_again(&mut self) {
        let view = &self.store.view;
        if view.epoch == self.epoch {
            return;
        }
        self.epoch = view.epoch;
        let mut seen: Vec<Message> = view.summary.iter().cloned().collect();
        seen.extend_from_slice(&self.store.messages[view.from..]);
        assert!(paired(&seen), "1: a compaction has cut a call from its result");
        let asked =
            seen.iter().any(|m| !matches!(m, Message::Assistant(_) | Message::ToolResult(_)));
        assert!(asked, "1: a request without anything that was asked");
        self.encoder = Encoder::new(Compat::default());
        view.summary.iter().for_each(|summary| self.encoder.push(summary));
        self.sent = view.from;
    }
}
