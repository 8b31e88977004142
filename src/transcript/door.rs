//! The one door through which an entry is appended (invariant 1).
//!
//! A session's door knows the calls of the last stored assistant message. Results enter by the
//! call's place in the batch, in source order, each once; any other message that comes while calls
//! are open is preceded by synthetic results (the live guard, semantics 7.6). So whatever the
//! caller does, what the door lets through is paired.

use super::entry::{Entry, EntryKind, Made};
use super::message::{
    Assistant, Block, Content, Message, StopReason, ToolOutput, ToolResult, User,
};
use super::outcome::{
    LOOP_END, MISSING, TURN_ABORTED, TURN_ABORTED_TYPE, abort_code, abort_text, render,
};
use super::stream::{Check, ReplyBody};
use crate::base::{EntryId, Millis, MsgId, Rng, RunId, id};
use crate::engine::replay::{Interruption, Known};
use crate::engine::{Entry as RunEntry, Ledger, Outcome, QueueKind, Record, Termination, recover};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One change of what is stored. The store executes them in order, in one transaction.
// Entries are by far the most common kind: a box would cost more than it saves.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Write {
    /// A run is accepted.
    Accept {
        /// The run.
        run: RunId,
        /// With or without prompts.
        entry: RunEntry,
        /// When.
        at: Millis,
    },
    /// The run becomes the active writer, by compare-and-set.
    Claim,
    /// An entry; its parent is the session's leaf at commit, and it becomes the leaf.
    Put(Entry),
    /// A message waits.
    QueuePut {
        /// Its name.
        id: MsgId,
        /// Where.
        kind: QueueKind,
        /// What it says.
        body: Arc<User>,
    },
    /// A message waits no longer.
    QueueTake(MsgId),
    /// The last assistant entry's calls are open.
    CallsOpen(Vec<OpenCall>),
    /// These calls are about to be started.
    CallsLaunched(Vec<u16>),
    /// A started call has a process group.
    CallProcess {
        /// The call.
        call: u16,
        /// The group.
        pgid: u32,
        /// The start time of its leader.
        started: u64,
    },
    /// What became of a call is known.
    CallKnown {
        /// The call.
        call: u16,
        /// The result that will be stored.
        output: Arc<ToolOutput>,
    },
    /// A call's result is among the entries.
    CallStored(u16),
    /// What the run waited for, and how long: for people who look at it later.
    Phases(String),
    /// A run whose message this one answered ends with it.
    EndJoined {
        /// The run.
        run: RunId,
        /// How.
        termination: Termination,
        /// When.
        at: Millis,
    },
    /// The run is over.
    End {
        /// How.
        termination: Termination,
        /// When.
        at: Millis,
    },
}

/// A call whose result is not in the transcript yet.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OpenCall {
    /// The provider's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// What runs, or why not.
    pub check: Check,
    /// Its start was decided.
    pub launched: bool,
    /// What became of it, once known.
    pub output: Option<Arc<ToolOutput>>,
    /// Its result is an entry.
    pub stored: bool,
}

impl OpenCall {
    /// What is durably known of it.
    #[must_use]
    pub fn known(&self) -> Known {
        match self {
            OpenCall { stored: true, .. } => Known::Stored,
            OpenCall { output: Some(_), .. } => Known::Outcome,
            OpenCall { launched: true, .. } => Known::Launched,
            OpenCall { .. } => Known::Asked,
        }
    }
}

/// Why the door did not open. These are faults of ours, never of a model or a tool.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DoorError {
    /// A result for a call that is not open, or not next.
    #[error("no open call {0} that is next in order")]
    NoSuchCall(u16),
    /// A result before its outcome.
    #[error("call {0} has no outcome yet")]
    NoOutcome(u16),
    /// A message that is not waiting.
    #[error("message {} is not waiting", .0.0)]
    NotWaiting(MsgId),
}

/// Which model the session talks to; closing messages carry it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ModelName {
    /// The protocol.
    pub api: String,
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
}

/// A session's door.
#[derive(Clone, PartialEq, Debug)]
pub struct Door {
    model: ModelName,
    ids: Rng,
    calls: Vec<OpenCall>,
    /// The last batch, kept for those who are told of it after its last result was stored.
    closed: Vec<OpenCall>,
    waiting: BTreeMap<MsgId, (QueueKind, Arc<User>)>,
    guarded: u32,
}

impl Door {
    /// A door with nothing open. Entry ids are drawn from `seed`.
    #[must_use]
    pub fn new(model: ModelName, seed: u64) -> Door {
        Door {
            model,
            ids: Rng(seed),
            calls: Vec::new(),
            closed: Vec::new(),
            waiting: BTreeMap::new(),
            guarded: 0,
        }
    }

    /// A door as a former process left it: open calls and waiting messages.
    #[must_use]
    pub fn resume(
        model: ModelName,
        seed: u64,
        calls: Vec<OpenCall>,
        waiting: Vec<(MsgId, QueueKind, Arc<User>)>,
    ) -> Door {
        let waiting = waiting.into_iter().map(|(id, kind, body)| (id, (kind, body))).collect();
        Door { calls, waiting, ..Door::new(model, seed) }
    }

    /// The open calls, in source order; empty when every result is stored.
    #[must_use]
    pub fn calls(&self) -> &[OpenCall] {
        &self.calls
    }

    /// The calls of the current batch, or of the last one if none is open.
    #[must_use]
    pub fn batch(&self) -> &[OpenCall] {
        if self.calls.is_empty() { &self.closed } else { &self.calls }
    }

    /// A waiting message.
    #[must_use]
    pub fn waiting(&self, id: MsgId) -> Option<&Arc<User>> {
        self.waiting.get(&id).map(|(_, body)| body)
    }

    /// Every waiting message, by id.
    #[must_use]
    pub fn queue(&self) -> Vec<(MsgId, QueueKind, Arc<User>)> {
        let item =
            |(id, (kind, body)): (&MsgId, &(QueueKind, Arc<User>))| (*id, *kind, Arc::clone(body));
        self.waiting.iter().map(item).collect()
    }

    /// A waiting message that another run will take up is nothing to this one any more.
    pub fn forget(&mut self, id: MsgId) {
        self.waiting.remove(&id);
    }

    /// How often the live guard had to step in. The engine never makes it.
    #[must_use]
    pub fn guarded(&self) -> u32 {
        self.guarded
    }

    /// What one record of the engine means for what is stored.
    ///
    /// # Errors
    /// When the record does not fit what is open; nothing has changed then.
    pub fn apply(&mut self, record: &Record, now: Millis) -> Result<Vec<Write>, DoorError> {
        let mut out = Vec::new();
        match record {
            Record::Accepted { run, entry, prompts } => {
                out.push(Write::Accept { run: run.clone(), entry: *entry, at: now });
                for (id, body) in prompts {
                    self.enqueue(*id, QueueKind::Prompt, body, &mut out);
                }
            }
            Record::Claim => out.push(Write::Claim),
            Record::Queued { id, kind, body } => self.enqueue(*id, *kind, body, &mut out),
            Record::Dropped(id) => {
                self.waiting.remove(id).ok_or(DoorError::NotWaiting(*id))?;
                out.push(Write::QueueTake(*id));
            }
            Record::Committed(id) => {
                let (_, body) = self.waiting.remove(id).ok_or(DoorError::NotWaiting(*id))?;
                self.put(Message::User(User::clone(&body)), now, &mut out);
                out.push(Write::QueueTake(*id));
            }
            Record::Reply(body) => self.reply(body, now, &mut out),
            Record::Failed { failure, partial } => {
                let mut message = self.closing(partial.as_deref(), StopReason::Error, now);
                message.error_message = Some(failure.message.clone());
                message.error_code = Some(failure.kind.name().to_owned());
                self.put(Message::Assistant(message), now, &mut out);
            }
            Record::Stopped { cause, partial } => {
                let mut message = self.closing(partial.as_deref(), StopReason::Aborted, now);
                message.error_message = Some(abort_text(*cause).to_owned());
                message.error_code = abort_code(*cause).map(str::to_owned);
                self.put(Message::Assistant(message), now, &mut out);
            }
            Record::LoopEnd => {
                let mut message = self.closing(None, StopReason::Error, now);
                message.content = vec![Block::text(LOOP_END)];
                message.error_message = Some(LOOP_END.to_owned());
                message.error_code = Some("tool_loop".to_owned());
                self.put(Message::Assistant(message), now, &mut out);
            }
            Record::Note => self.note(now, &mut out),
            Record::Compacted(made) => {
                self.guard(now, &mut out);
                out.push(Write::Put(self.make(EntryKind::from(&**made), now)));
            }
            Record::Launch(calls) => self.launch(calls, &mut out)?,
            Record::Process { call, pgid, started } => {
                let (call, pgid, started) = (*call, *pgid, *started);
                self.open(call)?;
                out.push(Write::CallProcess { call, pgid, started });
            }
            Record::Outcome { call, outcome, warned } => {
                self.known(*call, outcome, *warned, &mut out)?;
            }
            Record::Result(call) => self.result(*call, now, &mut out)?,
            Record::Ended(termination) => {
                out.push(Write::End { termination: termination.clone(), at: now });
            }
        }
        Ok(out)
    }

    /// Closes what an interrupted run left open: every open call gets its one result, honest about
    /// what is known, and the run its end. Nothing is done again (decisions 7).
    ///
    /// # Errors
    /// When the door itself is not what it was resumed with.
    pub fn close_interrupted(
        &mut self,
        why: Interruption,
        now: Millis,
    ) -> Result<Vec<Write>, DoorError> {
        let calls = self.calls.iter().map(OpenCall::known).collect();
        let ledger = Ledger { accepted: true, calls, ..Ledger::default() };
        let mut out = Vec::new();
        for record in recover(&ledger, why) {
            out.extend(self.apply(&record, now)?);
        }
        Ok(out)
    }

    /// A message from elsewhere (an announcement, an import) through the same door.
    pub fn append(&mut self, message: Message, now: Millis) -> Vec<Write> {
        let mut out = Vec::new();
        match message {
            Message::ToolResult(result) => {
                let next = self.calls.iter().position(|c| !c.stored);
                let fits = next.filter(|i| self.calls[*i].id == result.tool_call_id);
                // A result without its call is not stored at all.
                if let Some(i) = fits {
                    self.calls[i].stored = true;
                    self.entry(Message::ToolResult(result), now, &mut out);
                    out.push(Write::CallStored(u16::try_from(i).unwrap_or(u16::MAX)));
                    self.close_if_complete();
                }
            }
            Message::Assistant(message) => {
                let checks: Vec<Check> =
                    message.calls().map(|(_, _, args)| Check::Ready(args.clone())).collect();
                let facts = vec![super::CallFacts::default(); checks.len()];
                self.reply(&ReplyBody::new(message, checks, facts), now, &mut out);
            }
            message @ (Message::User(_)
            | Message::Custom(_)
            | Message::BashExecution(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_)) => self.put(message, now, &mut out),
        }
        out
    }

    /// The entry that marks a new beginning (semantics 7.5).
    pub fn reset_entry(&mut self, reason: &str, now: Millis) -> Entry {
        self.make(EntryKind::Reset { reason: reason.to_owned(), first_kept_entry_id: None }, now)
    }

    /// Words that no run has said, as an assistant's.
    pub fn words_entry(&mut self, words: Assistant, now: Millis) -> Entry {
        self.make(EntryKind::Message { message: Message::Assistant(words) }, now)
    }

    fn enqueue(&mut self, id: MsgId, kind: QueueKind, body: &Arc<User>, out: &mut Vec<Write>) {
        self.waiting.insert(id, (kind, Arc::clone(body)));
        out.push(Write::QueuePut { id, kind, body: Arc::clone(body) });
    }

    fn launch(&mut self, calls: &[u16], out: &mut Vec<Write>) -> Result<(), DoorError> {
        for call in calls {
            self.open(*call)?.launched = true;
        }
        out.push(Write::CallsLaunched(calls.to_vec()));
        Ok(())
    }

    fn open(&mut self, call: u16) -> Result<&mut OpenCall, DoorError> {
        self.calls.get_mut(usize::from(call)).ok_or(DoorError::NoSuchCall(call))
    }

    fn reply(&mut self, body: &ReplyBody, now: Millis, out: &mut Vec<Write>) {
        let mut message = body.message.clone();
        if message.stop_reason != StopReason::ToolUse {
            // Only a message that waits for results may carry calls (semantics 2.4).
            message.content.retain(|b| !matches!(b, Block::ToolCall { .. }));
        }
        let open = |((id, name, _), check): ((&str, &str, _), &Check)| OpenCall {
            id: id.to_owned(),
            name: name.to_owned(),
            check: check.clone(),
            launched: false,
            output: None,
            stored: false,
        };
        let calls: Vec<OpenCall> = message.calls().zip(&body.checks).map(open).collect();
        self.put(Message::Assistant(message), now, out);
        if !calls.is_empty() {
            out.push(Write::CallsOpen(calls.clone()));
            self.calls = calls;
        }
    }

    fn known(
        &mut self,
        call: u16,
        outcome: &Outcome,
        warned: Option<u32>,
        out: &mut Vec<Write>,
    ) -> Result<(), DoorError> {
        let slot = self.open(call)?;
        let output = Arc::new(render(outcome, &slot.check, &slot.name, warned));
        slot.output = Some(Arc::clone(&output));
        out.push(Write::CallKnown { call, output });
        Ok(())
    }

    /// Results leave in source order, each once.
    fn result(&mut self, call: u16, now: Millis, out: &mut Vec<Write>) -> Result<(), DoorError> {
        let next = self.calls.iter().position(|c| !c.stored);
        if next != Some(usize::from(call)) {
            return Err(DoorError::NoSuchCall(call));
        }
        let slot = self.open(call)?;
        let output = slot.output.clone().ok_or(DoorError::NoOutcome(call))?;
        slot.stored = true;
        let (id, name) = (slot.id.clone(), slot.name.clone());
        self.entry(result_message(id, name, &output, now), now, out);
        out.push(Write::CallStored(call));
        self.close_if_complete();
        Ok(())
    }

    fn close_if_complete(&mut self) {
        if self.calls.iter().all(|c| c.stored) {
            self.closed = std::mem::take(&mut self.calls);
        }
    }

    /// The live guard: what is still owed is said before anything else.
    fn guard(&mut self, now: Millis, out: &mut Vec<Write>) {
        for (i, call) in std::mem::take(&mut self.calls).into_iter().enumerate() {
            if call.stored {
                continue;
            }
            self.guarded += 1;
            let output = call.output.unwrap_or_else(|| Arc::new(missing_output()));
            self.entry(result_message(call.id, call.name, &output, now), now, out);
            out.push(Write::CallStored(u16::try_from(i).unwrap_or(u16::MAX)));
        }
    }

    fn put(&mut self, message: Message, now: Millis, out: &mut Vec<Write>) {
        self.guard(now, out);
        self.entry(message, now, out);
    }

    fn entry(&mut self, message: Message, now: Millis, out: &mut Vec<Write>) {
        let kind = EntryKind::Message { message };
        out.push(Write::Put(self.make(kind, now)));
    }

    fn note(&mut self, now: Millis, out: &mut Vec<Write>) {
        self.guard(now, out);
        let kind = EntryKind::CustomMessage {
            custom_type: TURN_ABORTED_TYPE.to_owned(),
            content: Content::Text(TURN_ABORTED.to_owned()),
            display: false,
            details: None,
        };
        out.push(Write::Put(self.make(kind, now)));
    }

    fn make(&mut self, kind: EntryKind, now: Millis) -> Entry {
        let mut entropy = [0u8; 10];
        entropy[..8].copy_from_slice(&self.ids.next().to_be_bytes());
        entropy[8..].copy_from_slice(&self.ids.next().to_be_bytes()[..2]);
        let id = EntryId::new(id::uuid_v7(now, entropy));
        Entry { id, parent_id: None, timestamp: now, kind, made: Made::default() }
    }

    /// A closing message: what had arrived, without calls, or one empty text.
    fn closing(
        &self,
        partial: Option<&Assistant>,
        stop_reason: StopReason,
        now: Millis,
    ) -> Assistant {
        let mut message = partial.cloned().unwrap_or_else(|| Assistant {
            content: vec![],
            api: self.model.api.clone(),
            provider: self.model.provider.clone(),
            model: self.model.model.clone(),
            response_model: None,
            response_id: None,
            usage: None,
            stop_reason,
            error_message: None,
            error_code: None,
            timestamp: now,
        });
        message.content.retain(|b| !matches!(b, Block::ToolCall { .. }));
        if message.content.is_empty() {
            message.content.push(Block::text(""));
        }
        message.stop_reason = stop_reason;
        message
    }
}

fn result_message(id: String, name: String, output: &ToolOutput, now: Millis) -> Message {
    Message::ToolResult(ToolResult {
        tool_call_id: id,
        tool_name: name,
        content: output.content.clone(),
        details: output.details.clone(),
        is_error: output.is_error,
        timestamp: now,
    })
}

/// The result of a call that is only missing (semantics 7.8).
#[must_use]
pub fn missing_output() -> ToolOutput {
    let details = json!({
        "openclawSyntheticMissingToolResult": true, "reason": "missing_tool_result",
    });
    ToolOutput::error(MISSING).with(details)
}
