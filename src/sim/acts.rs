//! Acts, started in the world: who owes an answer from now on, and which effects there were.

use super::friends::Friend;
use super::sabotage::Sabotage;
use super::world::World;
use crate::base::OpId;
use crate::engine::Act;
use crate::model::wire::request::{Compat, Encoder};

impl World {
    /// Starts acts in order; stops after `cut` of them.
    pub(super) fn start_all(&mut self, act: &[Act], cut: Option<usize>) {
        for (i, act) in act.iter().enumerate() {
            if cut.is_some_and(|k| i >= k) {
                return;
            }
            self.start(act);
        }
    }

    fn start(&mut self, act: &Act) {
        let checks = self.knobs.checks;
        let Some(live) = &mut self.live else { return };
        let friend = match act {
            Act::Assemble(op) => (*op, Friend::Assemble),
            Act::AskHook(op, hook) => (*op, Friend::Hook(*hook)),
            Act::Compact(op, why) => (*op, Friend::Compact(*why)),
            Act::CancelCompact(_) | Act::CutSummary(_) => return,
            Act::CallModel(op) => {
                let op = *op;
                live.open.push((op, Friend::Model { begun: false, cut: false }));
                if checks {
                    assert!(self.store.owed.is_empty(), "1: a request with open calls");
                    self.look_again();
                    self.prefix();
                }
                return;
            }
            Act::CancelModel(op) | Act::CancelTool(op) => {
                for (open, friend) in &mut live.open {
                    if let (true, Friend::Model { cut, .. } | Friend::Tool { cut, .. }) =
                        (open == op, friend)
                    {
                        *cut = true;
                    }
                }
                return;
            }
            Act::AskBatch(op) => (*op, Friend::Batch),
            Act::AskCall(op, call) => (*op, Friend::Gate(*call)),
            Act::RunTool(op, call) => {
                let (op, call) = (*op, *call);
                self.run_tool(op, call);
                return;
            }
            Act::AskAfter(op, _, outcome) | Act::AskOutcome(op, _, outcome) => {
                (*op, Friend::After(outcome.clone()))
            }
        };
        live.open.push(friend);
    }

    /// 6: a tool begins after its record, once. 10: a blocked one does not. 3: nor does one of a
    /// run that is over.
    pub(super) fn run_tool(&mut self, op: OpId, call: u16) {
        let checks = self.knobs.checks;
        let Some(live) = &mut self.live else { return };
        live.open.push((op, Friend::Tool { call, entered: false, cut: false }));
        if !checks {
            return;
        }
        *self.effects.entry((live.id.clone(), live.batches, call)).or_default() += 1;
        assert!(self.store.writer.as_ref() == Some(&live.id), "3: a stale run started a tool");
        let recorded = self.store.calls.get(usize::from(call)).is_some_and(|c| c.launched);
        assert!(recorded, "6: a tool began before its record was stored");
        assert!(live.started.insert(op), "6: {op:?} was started twice");
        assert!(!live.blocked.contains(&call), "10: a blocked call was started");
        let times = self.effects[&(live.id.clone(), live.batches, call)];
        assert_eq!(times, 1, "6: call {call} began {times} times");
    }

    /// 13: what was sent before is the beginning of what is sent now.
    fn prefix(&mut self) {
        let before = self.encoder.bytes().to_vec();
        for message in &self.store.messages[self.sent..] {
            self.encoder.push(message);
        }
        self.sent = self.store.messages.len();
        if self.sabotaged(Sabotage::RewritePrefix) && self.sent > 3 {
            let mut other = Encoder::new(Compat::default());
            for message in &self.store.messages[1..] {
                other.push(message);
            }
            self.encoder = other;
        }
        assert!(self.encoder.bytes().starts_with(&before), "13: the prefix was rewritten");
    }
}
