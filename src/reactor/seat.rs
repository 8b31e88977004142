//! One session in this process: its run, its door, what its model has been sent so far.
//!
//! While a commit is under way the session's inputs wait behind it in order; what the step wants
//! told and done waits for the commit and is dropped if it is refused.

use super::clock::entropy;
use super::journal::Head;
use super::links::{Links, Observer, View};
use super::settle::{Whole, model_name};
use super::{ReactorError, workers};
use crate::base::{FailKind, Failure, Millis, MsgId, OpId, RunId, SessionId, id};
use crate::engine::{
    Act, Assembled, Entry as RunEntry, Event, Fault, Input, QueueKind, Record, Run, Setup, Step,
    Submit, Termination, Verdict, batch, reply, step,
};
use crate::model::call::{CallHandle, ModelEvent};
use crate::model::catalog::{Backend, Resolved};
use crate::model::scripted::ends_a_plan;
use crate::model::wire::End;
use crate::model::wire::request::{Compat, Encoder};
use crate::store::{Commit, Committed, Denied, Job};
use crate::tools::cap::{cap, turn_chars_max};
use crate::tools::judge;
use crate::tools::run::{Cancel, end_now};
use crate::transcript::{
    Block, Content, Door, Entry, Message, ToolOutput, User, Write, repair, visible,
};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A request to start a run.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The person's message.
    pub text: String,
    /// The run's id, if the caller names one.
    pub run: Option<String>,
    /// Fixed options; the seed is drawn here.
    pub setup: Setup,
}

/// The names of a run and its session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ids {
    /// The run, once one was submitted.
    pub run: Option<RunId>,
    /// The session.
    pub session: SessionId,
}

/// What waits for a commit.
struct Pending {
    ticket: u64,
    tell: Vec<Event>,
    act: Vec<Act>,
    entries: Vec<Entry>,
    claims: bool,
    ends: bool,
}

/// What the model has been sent, and is sent again with every request.
struct History {
    encoder: Encoder,
    /// For a model that lives in this process: the messages since the end of its last plan.
    messages: Option<Arc<Vec<Message>>>,
    last: Assembled,
}

pub(super) struct Seat {
    key: String,
    session: SessionId,
    revision: u32,
    model: Resolved,
    run_id: Option<RunId>,
    /// The session's active writer, as far as this process knows.
    writer: Option<RunId>,
    run: Run,
    door: Door,
    history: History,
    /// The history as it was loaded; taken up by the first run's assembly.
    branch: Option<Vec<Entry>>,
    waiting: Vec<(MsgId, QueueKind, Arc<User>)>,
    next_msg: u64,
    inbox: VecDeque<Input>,
    pending: Option<Pending>,
    /// Running model calls, and whether anything was heard of them.
    models: BTreeMap<OpId, (CallHandle, bool)>,
    tools: BTreeMap<OpId, Cancel>,
    /// Process groups of running tools: group, start time of its leader.
    groups: BTreeMap<OpId, (u32, u64)>,
    notices: Vec<String>,
    fault: Option<String>,
    seed: u64,
    refused: u64,
    /// Characters of results in this turn.
    turn_chars: usize,
    /// A commit failed: what is in memory is not what is stored.
    spoiled: bool,
}

impl History {
    fn new(model: &Resolved) -> History {
        let compat = match &model.backend {
            Backend::OpenAi { compat, .. } => compat.encoding,
            Backend::Scripted => Compat::default(),
        };
        let messages = matches!(model.backend, Backend::Scripted).then(Arc::default);
        History { encoder: Encoder::new(compat), messages, last: Assembled::EmptyHistory }
    }

    fn push(&mut self, message: Message) {
        self.last = match &message {
            Message::Assistant(_) => Assembled::AfterAssistant,
            Message::ToolResult(_) => Assembled::AfterResult,
            Message::User(_)
            | Message::Custom(_)
            | Message::BashExecution(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_) => Assembled::AfterUser,
        };
        match &mut self.messages {
            // The script looks back no further than the end of its last plan, so what is lent to
            // its worker stays short, and a copy of it too.
            Some(messages) => {
                let messages = Arc::make_mut(messages);
                if ends_a_plan(&message) {
                    messages.clear();
                }
                messages.push(message);
            }
            None => self.encoder.push(&message),
        }
    }
}

impl Seat {
    pub fn new(key: &str, whole: Whole, model: Resolved) -> Seat {
        let next_msg = whole.waiting.iter().map(|(id, _, _)| id.0 + 1).max().unwrap_or(1);
        Seat {
            key: key.to_owned(),
            session: whole.session,
            revision: whole.revision,
            history: History::new(&model),
            model,
            run_id: None,
            writer: None,
            run: Run::default(),
            door: whole.door,
            branch: Some(whole.branch),
            waiting: whole.waiting,
            next_msg,
            inbox: VecDeque::new(),
            pending: None,
            models: BTreeMap::new(),
            tools: BTreeMap::new(),
            groups: BTreeMap::new(),
            notices: whole.notices,
            fault: None,
            seed: whole.seed,
            refused: 0,
            turn_chars: 0,
            spoiled: false,
        }
    }

    /// What has to be said since the last time.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// How many inputs were refused so far.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    pub fn ids(&self) -> Ids {
        Ids { run: self.run_id.clone(), session: self.session.clone() }
    }

    /// What went wrong on our side.
    pub fn fault(&self) -> Option<String> {
        self.fault.clone()
    }

    /// How the run ended, once its last commit is through.
    pub fn ended(&self) -> Option<Termination> {
        if self.pending.is_some() || !self.inbox.is_empty() {
            return None;
        }
        self.run.ended().cloned()
    }

    pub fn due(&self) -> Option<Millis> {
        self.run.due().map(|(at, _)| at)
    }

    /// Stops every tool without waiting, also one that does not want to: the process is leaving.
    pub fn kill_all(&mut self) {
        for cancel in self.tools.values() {
            cancel.cancel();
        }
        for (handle, _) in self.models.values() {
            handle.abort("the process is leaving");
        }
        for (pgid, started) in std::mem::take(&mut self.groups).into_values() {
            end_now(pgid, started);
        }
    }

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

    /// A message of this session's own, as an input.
    pub fn message(&mut self, text: String, kind: QueueKind, now: Millis) -> Input {
        let id = MsgId(self.next_msg);
        self.next_msg += 1;
        let content = Content::Text(text);
        let body = Arc::new(User { content, timestamp: now, idempotency_key: None });
        Input::Message { id, kind, body }
    }

    pub fn submit(
        &mut self,
        submission: Submission,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        if self.spoiled {
            return Err(ReactorError::Spoiled);
        }
        let now = links.clock.now();
        if self.run.ended().is_some() {
            self.run = Run::default();
            self.fault = None;
            self.waiting = self.door.queue();
        }
        let run = submission.run.unwrap_or_else(|| id::uuid_v7(now, entropy()));
        self.run_id = Some(RunId::new(run.clone()));
        let Input::Message { id, body, .. } = self.message(submission.text, QueueKind::Prompt, now)
        else {
            return Ok(());
        };
        let setup = Setup { seed: u64::from_be_bytes(entropy()), ..submission.setup };
        let waiting = self.waiting.iter().map(|(id, kind, _)| (*id, *kind)).collect();
        if let Some(journal) = &mut links.outfit.journal {
            let head = Head {
                journal: super::journal::VERSION,
                session: self.session.clone(),
                key: self.key.clone(),
                model: model_name(&self.model),
                seed: self.seed,
                waiting: self.waiting.clone(),
                program: env!("CARGO_PKG_VERSION").to_owned(),
            };
            // The door as the run finds it: its ids go on from the seed.
            self.door = head.door();
            journal.head(&head).map_err(ReactorError::Journal)?;
        }
        let submit = Submit {
            run: RunId::new(run),
            entry: RunEntry::Prompt,
            prompts: vec![(id, body)],
            waiting,
            setup,
        };
        self.feed(Input::Submit(Box::new(submit)), links, observer)
    }

    pub fn feed(
        &mut self,
        input: Input,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        self.inbox.push_back(input);
        self.drain(links, observer)
    }

    /// Takes inputs until a commit is under way or none is left.
    fn drain(
        &mut self,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        while self.pending.is_none() {
            let Some(input) = self.inbox.pop_front() else { break };
            self.take(input, links, observer)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        input: Input,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let now = links.clock.now();
        if let Some(journal) = &mut links.outfit.journal {
            journal.input(now, &input).map_err(ReactorError::Journal)?;
        }
        let run = std::mem::take(&mut self.run);
        let stepped = catch_unwind(AssertUnwindSafe(|| step(run, input, now)));
        let Ok(Step { state, append, tell, act, refused }) = stepped else {
            return self.broken("an invariant of the engine broke", links, observer);
        };
        self.run = state;
        if refused.is_some() {
            // Late answers are normal after a cut: they change nothing, and are counted.
            self.refused += 1;
            return Ok(());
        }
        let claims = append.iter().any(|r| matches!(r, Record::Claim));
        let mut writes = Vec::new();
        for record in &append {
            match self.door.apply(record, now) {
                Ok(more) => writes.extend(more),
                Err(error) => return self.broken(&error.to_string(), links, observer),
            }
        }
        if let Some(journal) = &mut links.outfit.journal {
            journal.writes(&writes).map_err(ReactorError::Journal)?;
        }
        if writes.is_empty() {
            return self.deliver(tell, act, links, observer);
        }
        self.commit(writes, tell, act, claims, now, links)
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        tell: Vec<Event>,
        act: Vec<Act>,
        claims: bool,
        at: Millis,
        links: &mut Links,
    ) -> Result<(), ReactorError> {
        let entries = writes
            .iter()
            .filter_map(|write| match write {
                Write::Put(entry) => Some(entry.clone()),
                _ => None,
            })
            .collect();
        let ends = writes.iter().any(|write| matches!(write, Write::End { .. }));
        let ticket = links.ticket();
        self.pending = Some(Pending { ticket, tell, act, entries, claims, ends });
        let commit = Commit {
            session: self.session.clone(),
            key: self.key.clone(),
            cwd: links.outfit.cwd.to_string_lossy().into_owned(),
            revision: self.revision,
            writer: self.run_id.clone(),
            seen: self.writer.clone(),
            writes,
            at,
        };
        let sent = links.store.send(Job::commit(ticket, commit));
        if sent { Ok(()) } else { Err(ReactorError::StoreGone) }
    }

    /// The store has answered: what waited is told and done, or dropped.
    pub fn committed(
        &mut self,
        ticket: u64,
        result: Committed,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let Some(pending) = self.pending.take_if(|p| p.ticket == ticket) else { return Ok(()) };
        match result {
            Ok(()) => {
                if pending.claims {
                    self.writer.clone_from(&self.run_id);
                }
                if pending.ends {
                    self.writer = None;
                }
                for entry in pending.entries {
                    if let Some(message) = entry.kind.in_context(entry.timestamp) {
                        self.history.push(message);
                    }
                }
                self.deliver(pending.tell, pending.act, links, observer)?;
                if pending.claims
                    && let [op] = self.run.open_ops().as_slice()
                {
                    self.inbox.push_front(Input::Claimed(*op));
                }
            }
            Err(Denied::Fenced(why)) => {
                self.spoiled = true;
                self.fault = Some(why.to_string());
                self.inbox.push_front(Input::Fenced(why));
            }
            Err(Denied::Failed(error)) => {
                self.spoiled = true;
                self.fault = Some(error.to_string());
                self.inbox.push_front(Input::StoreFailed);
            }
        }
        self.drain(links, observer)
    }

    fn deliver(
        &mut self,
        tell: Vec<Event>,
        act: Vec<Act>,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let view = View { calls: self.door.batch() };
        for event in &tell {
            observer.told(event, view);
        }
        for act in act {
            self.start(act, links);
        }
        Ok(())
    }

    /// A step could not be made. The run ends with a named error; what is stored stays as it was
    /// and is made whole when the session is opened again (decisions 11).
    fn broken(
        &mut self,
        what: &str,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        self.kill_all();
        self.spoiled = true;
        self.fault = Some(format!("internal error: {what}"));
        self.inbox.clear();
        let termination = Termination::Failed { fault: Fault::Broken };
        self.run =
            Run { phase: crate::engine::Phase::Ended(termination.clone()), ..Run::default() };
        self.deliver(vec![Event::Ended(termination)], vec![], links, observer)
    }

    /// Starts one act. Answers that need no worker go to the inbox at once.
    fn start(&mut self, act: Act, links: &mut Links) {
        match act {
            Act::Assemble(op) => {
                let facts = self.assemble();
                self.inbox.push_back(Input::Assembled(op, facts));
            }
            // Nobody is behind the hook points yet, so none of them is asked; an answer keeps the
            // machine total all the same.
            Act::AskHook(op, _) => self.inbox.push_back(Input::Hooked(op, Verdict::Go)),
            Act::AskBatch(op) | Act::AskCall(op, _) => {
                let allow = batch::Input::Gated(batch::Gate::Allow);
                self.inbox.push_back(Input::Call(op, allow));
            }
            Act::AskAfter(op, _, outcome) | Act::AskOutcome(op, _, outcome) => {
                self.inbox.push_back(Input::Call(op, batch::Input::Judged(outcome)));
            }
            Act::CallModel(op) => {
                let handle = match &self.history.messages {
                    Some(messages) => workers::scripted(op, Arc::clone(messages), links),
                    None => workers::model(op, &self.model, &self.history.encoder, links),
                };
                self.models.insert(op, (handle, false));
                self.turn_chars = 0;
            }
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
                match workers::tool(op, open, self.model.context_window, links) {
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

    /// The history a model may see, repaired if it came from elsewhere or was damaged.
    fn assemble(&mut self) -> Assembled {
        if let Some(branch) = self.branch.take() {
            let (messages, report) = repair::repair(visible(&branch));
            if !report.clean() {
                self.notices.push(format!("the history was repaired for the model: {report}"));
            }
            for message in messages {
                self.history.push(message);
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
                        reply::Input::Done(Arc::new(judge(finished, &links.outfit.specs)))
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
