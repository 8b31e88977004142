//! What a run asks of the world, and what its friends answer.

use super::links::{Links, Observer};
use super::seat::Seat;
use super::{ReactorError, workers};
use crate::base::{FailKind, Failure, OpId};
use crate::engine::{Act, Assembled, Hook, Input, Verdict, batch, reply};
use crate::model::call::ModelEvent;
use crate::model::wire::End;
use crate::tools::cap::{cap, turn_chars_max};
use crate::tools::judge;
use crate::transcript::{Block, Message, ToolOutput, repair, visible};
use std::sync::Arc;

impl Seat {
    /// A tool has something to say.
    pub fn tool_event(
        &mut self,
        op: OpId,
        mut input: batch::Input,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        match &mut input {
            batch::Input::Process { pgid, started } => {
                self.groups.insert(op, (*pgid, *started));
            }
            batch::Input::Done(output, _) => {
                self.fit_turn(output);
                self.groups.remove(&op);
                self.tools.remove(&op);
            }
            _ => {}
        }
        self.feed(Input::Call(op, input), links, observer)
    }

    /// What all results of one turn may have together (semantics 3.9); at least two thousand
    /// characters of each are kept.
    fn fit_turn(&mut self, output: &mut Arc<ToolOutput>) {
        let most = turn_chars_max(self.model.context_window);
        let chars = text_chars(output);
        let left = most.saturating_sub(self.turn_chars).max(2_000);
        if chars > left {
            *output = Arc::new(cap(ToolOutput::clone(output), left));
        }
        self.turn_chars += chars.min(left);
    }

    /// Starts one act. Answers that need no worker go to the inbox at once.
    pub(super) fn start(&mut self, act: Act, links: &mut Links) {
        match act {
            Act::Assemble(op) => {
                let facts = self.assemble();
                self.ask_prompt(op, facts, links);
            }
            Act::AskHook(op, hook @ (Hook::WeighRequest | Hook::WeighHistory)) => {
                let verdict = self.weigh(hook, links);
                self.inbox.push_back(Input::Hooked(op, verdict));
            }
            // Nobody is behind the other hook points yet, so none of them is asked; an answer
            // keeps the machine total all the same.
            Act::AskHook(op, _) => self.inbox.push_back(Input::Hooked(op, Verdict::Go)),
            Act::Compact(op, why) => self.compact(op, why, links),
            Act::CancelCompact(op) => self.cut_compaction(op, "aborted"),
            Act::CutSummary(op) => self.cut_compaction(op, "the summary took too long"),
            Act::AskBatch(op) | Act::AskCall(op, _) => {
                let allow = batch::Input::Gated(batch::Gate::Allow);
                self.inbox.push_back(Input::Call(op, allow));
            }
            Act::AskAfter(op, _, outcome) | Act::AskOutcome(op, _, outcome) => {
                self.inbox.push_back(Input::Call(op, batch::Input::Judged(outcome)));
            }
            Act::CallModel(op) => self.call_model(op, links),
            Act::CancelModel(op) => {
                let Some((handle, heard)) = self.models.get(&op) else { return };
                handle.abort("aborted");
                if !heard {
                    // Nothing has come yet, and a name that is being resolved or a connection
                    // that is being made cannot be cut: its end is not waited for.
                    let cut = Failure::new(FailKind::Network, "aborted");
                    self.inbox.push_back(Input::Reply(op, reply::Input::Failed(cut, None)));
                }
            }
            Act::RunTool(op, call) => {
                let Some(open) = self.door.calls().get(usize::from(call)) else { return };
                match workers::tool(self.address, op, open, self.model.context_window, links) {
                    Some(cancel) => {
                        self.tools.insert(op, cancel);
                        self.inbox.push_back(Input::Call(op, batch::Input::Entered));
                    }
                    None => self.inbox.push_back(Input::Call(op, batch::Input::LaunchRefused)),
                }
            }
            Act::CancelTool(op) => {
                if let Some(cancel) = self.tools.get(&op) {
                    cancel.cancel();
                }
            }
        }
    }

    fn call_model(&mut self, op: OpId, links: &mut Links) {
        // The same request again, with nothing new in it, is no progress (G4).
        if std::mem::replace(&mut self.asked.0, true) {
            self.asked.1.get_or_insert(links.clock.now());
        }
        let handle = match &self.history.messages {
            Some(messages) => workers::scripted(self.address, op, Arc::clone(messages), links),
            None => {
                let with = workers::With {
                    model: &self.model,
                    specs: self.specs.as_slice(),
                    prompt: self.briefing.prompt.as_ref(),
                };
                workers::model(self.address, op, with, &self.history.encoder, links)
            }
        };
        self.models.insert(op, (handle, false));
        self.turn_chars = 0;
    }

    /// The history a model may see, repaired if it came from elsewhere or was damaged.
    fn assemble(&mut self) -> Assembled {
        if let Some(branch) = self.branch.take() {
            let (messages, report) = repair::repair(visible(&branch));
            if !report.clean() {
                self.notices.push(format!("the history was repaired for the model: {report}"));
            }
            // What was counted before a compaction does not hold after it.
            let compacted = branch
                .iter()
                .rev()
                .find_map(|entry| entry.kind.summary(entry.timestamp).map(|_| entry.timestamp));
            for message in messages {
                match (&message, compacted) {
                    (Message::Assistant(reply), Some(at)) if reply.timestamp <= at => {
                        self.history.push_stale(message);
                    }
                    _ => self.history.push(message),
                }
            }
        }
        self.history.last
    }

    /// The model's stream has moved.
    pub fn model_event(
        &mut self,
        op: OpId,
        event: ModelEvent,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        if let Some((_, heard)) = self.models.get_mut(&op) {
            *heard = true;
        }
        let input = match event {
            ModelEvent::Alive => reply::Input::Alive,
            ModelEvent::Delta(delta) => reply::Input::Delta(delta),
            ModelEvent::End(end) => {
                self.models.remove(&op);
                match *end {
                    End::Done(finished) => {
                        reply::Input::Done(Arc::new(judge(finished, &self.specs)))
                    }
                    End::Failed(failure, partial) => {
                        reply::Input::Failed(failure, Some(Arc::new(partial)))
                    }
                }
            }
        };
        self.feed(Input::Reply(op, input), links, observer)
    }
}

/// Characters of a result's text.
fn text_chars(output: &ToolOutput) -> usize {
    let chars = |block: &Block| match block {
        Block::Text { text } => text.chars().count(),
        Block::Thinking { .. } | Block::Image { .. } | Block::ToolCall { .. } => 0,
    };
    output.content.iter().map(chars).sum()
}
