//! One session in this process: its run, its door, what its model has been sent so far.
//!
//! While a commit is under way the session's inputs wait behind it in order; what the step wants
//! told and done waits for the commit and is dropped if it is refused.

use super::ReactorError;
use super::briefing::Briefing;
use super::clock::entropy;
use super::history::History;
use super::journal::Head;
use super::links::{At, Links, Observer, Owner, View};
use super::phases::Phases;
use super::settle::{Whole, model_name};
use crate::base::{Millis, MsgId, OpId, RunId, SessionId};
use crate::engine::command::{Command, command};
use crate::engine::watch::Activity;
use crate::engine::{
    Act, Entry as RunEntry, Event, Fault, Input, QueueKind, Record, Refusal, Run, Setup, Step,
    Submit, Termination, step,
};
use crate::model::call::CallHandle;
use crate::model::catalog::Resolved;
use crate::store::{Commit, Committed, Denied, Job};
use crate::tools::ToolSpec;
use crate::tools::run::{Cancel, end_now};
use crate::transcript::{Door, Entry, Message, User, Write};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Where a report belongs: a session in memory, and which of its runs. A late report of a former
/// run finds nobody.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Address {
    /// The session.
    pub seat: u32,
    /// The run.
    pub run: u32,
}

/// What a run is started with.
pub(super) struct Launch {
    pub run: RunId,
    /// Its messages as one: the last one's name.
    pub msg: MsgId,
    pub body: Arc<User>,
    /// Messages that are part of that one, and leave the queue with it.
    pub merged: Vec<MsgId>,
    /// Runs that end with it.
    pub joined: Vec<RunId>,
    pub accepted_at: Millis,
    pub setup: Setup,
    pub specs: Arc<Vec<ToolSpec>>,
    /// It only compacts the history.
    pub compacts: bool,
}

/// What a seat has to say to those who decide about sessions.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Said {
    /// Whether a steering message was taken.
    Steered { run: RunId, taken: bool },
    /// A steering message is in the transcript.
    Joined(RunId),
    /// The first turn has begun.
    Turned(RunId),
    /// The run is over, durably if the store allowed it.
    Ended { run: RunId, termination: Termination, reload: bool },
}

/// What waits for a commit.
struct Pending {
    ticket: u64,
    tell: Vec<Event>,
    act: Vec<Act>,
    said: Vec<Said>,
    entries: Vec<Entry>,
    claims: bool,
    ends: bool,
}

pub(super) struct Seat {
    pub(super) address: Address,
    pub(super) key: Arc<str>,
    pub(super) session: SessionId,
    pub(super) revision: u32,
    pub(super) model: Resolved,
    pub(super) run_id: Option<RunId>,
    /// The session's active writer, as far as this process knows.
    pub(super) writer: Option<RunId>,
    pub(super) run: Run,
    pub(super) door: Door,
    pub(super) history: History,
    /// The history as it was loaded; taken up by the first run's assembly.
    pub(super) branch: Option<Vec<Entry>>,
    /// Messages whose run ended before it committed them.
    pub(super) left: Vec<(MsgId, Arc<User>)>,
    /// Steering messages of the active run, and whose they are.
    pub(super) given: BTreeMap<MsgId, RunId>,
    /// Runs that end with the active one.
    pub(super) joined: Vec<RunId>,
    /// The prompt, and the messages that are part of it.
    pub(super) merged: (MsgId, Vec<MsgId>),
    /// Runs that joined one that was superseded: its successor's claim ends them too.
    pub(super) orphans: Vec<RunId>,
    /// What the active run may use.
    pub(super) specs: Arc<Vec<ToolSpec>>,
    pub(super) phases: Phases,
    pub(super) briefing: Briefing,
    pub(super) turned: bool,
    pub(super) said: Vec<Said>,
    pub(super) inbox: VecDeque<Input>,
    pending: Option<Pending>,
    /// Running model calls, and whether anything was heard of them.
    pub(super) models: BTreeMap<OpId, (CallHandle, bool)>,
    pub(super) tools: BTreeMap<OpId, Cancel>,
    /// Process groups of running tools: group, start time of its leader.
    pub(super) groups: BTreeMap<OpId, (u32, u64)>,
    pub(super) notices: Vec<String>,
    pub(super) fault: Option<String>,
    pub(super) seed: u64,
    /// Whether the model was asked since the last entry, and since when it is asked the same.
    pub(super) asked: (bool, Option<Millis>),
    /// Characters of results in this turn.
    pub(super) turn_chars: usize,
    /// A commit failed: what is in memory is not what is stored.
    pub(super) spoiled: bool,
    /// How many entries the session has.
    pub(super) stored: u64,
    /// The compaction that is under way.
    pub(super) compacting: Option<super::compact::Underway>,
    /// What it keeps, until its entry is stored.
    pub(super) kept: Vec<Message>,
    /// What the person wants its summary to mind.
    pub(super) wish: Option<String>,
    /// Up to this size another compaction would be as fruitless as the last one.
    pub(super) fruitless: Option<u64>,
    /// A detached run's session is in memory alone: no row, no claim, nothing to recover.
    pub(super) detached: bool,
}

impl Seat {
    pub fn new(address: Address, key: &Arc<str>, whole: Whole) -> Seat {
        Seat {
            address,
            key: Arc::clone(key),
            session: whole.session,
            revision: whole.revision,
            history: History::new(&whole.model),
            model: whole.model,
            stored: whole.entries,
            run_id: None,
            writer: whole.writer,
            run: Run::default(),
            door: whole.door,
            branch: Some(whole.branch),
            left: whole.left,
            given: BTreeMap::new(),
            joined: vec![],
            merged: (MsgId(0), vec![]),
            orphans: vec![],
            specs: Arc::default(),
            phases: Phases::new(Millis(0), Millis(0)),
            briefing: Briefing::default(),
            turned: false,
            said: vec![],
            inbox: VecDeque::new(),
            pending: None,
            models: BTreeMap::new(),
            tools: BTreeMap::new(),
            groups: BTreeMap::new(),
            notices: whole.notices,
            fault: None,
            seed: whole.seed,
            asked: (false, None),
            turn_chars: 0,
            spoiled: false,
            compacting: None,
            kept: vec![],
            wish: None,
            fruitless: None,
            detached: false,
        }
    }

    /// A session that is never stored.
    pub fn detached(address: Address, key: &Arc<str>, whole: Whole) -> Seat {
        Seat { detached: true, ..Seat::new(address, key, whole) }
    }

    /// What has to be said since the last time.
    pub fn take_said(&mut self) -> Vec<Said> {
        std::mem::take(&mut self.said)
    }

    /// What a person should know since the last time.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// What went wrong on our side.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    pub fn due(&self) -> Option<Millis> {
        self.run.due().map(|(at, _)| at)
    }

    /// Whether a run is here that has not ended.
    pub fn active(&self) -> bool {
        self.run_id.is_some() && self.run.ended().is_none()
    }

    /// Whether it is in memory alone.
    pub fn is_detached(&self) -> bool {
        self.detached
    }

    /// What it is doing.
    pub fn activity(&self) -> Activity {
        Activity {
            active: true,
            queued: 0,
            owner: self.active(),
            waits_for: self.phases.waits_for(&self.run),
            last_progress: self.phases.last_progress,
            started: self.phases.started(),
            repeats_since: self.asked.1,
        }
    }

    /// Stops every tool without waiting, also one that does not want to: the process is leaving.
    pub fn kill_all(&mut self) {
        for cancel in self.tools.values() {
            cancel.cancel();
        }
        for (handle, _) in self.models.values() {
            handle.abort("the process is leaving");
        }
        if let Some(underway) = &self.compacting {
            underway.abort("the process is leaving");
        }
        for (pgid, started) in std::mem::take(&mut self.groups).into_values() {
            end_now(pgid, started);
        }
    }

    /// Starts a run; its acceptance and its messages are stored already.
    pub fn submit(
        &mut self,
        launch: Launch,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let now = links.clock.now();
        let Launch { run, msg, body, merged, joined, accepted_at, setup, specs, compacts } = launch;
        self.run = Run::default();
        self.fault = None;
        self.turned = false;
        self.given.clear();
        self.address.run += 1;
        self.orphans.append(&mut self.joined);
        self.joined = joined;
        self.merged = (msg, merged);
        self.specs = specs;
        self.phases = Phases::new(accepted_at, now);
        self.run_id = Some(run.clone());
        self.journal_head(links)?;
        // What former runs left comes first, in its order (decisions 2). Words for a compaction are
        // not for the model, and what was left is not for a compaction.
        self.compacting = None;
        self.wish = compacts.then(|| body.content.to_text()).and_then(|text| wish(&text));
        let mut prompts = if compacts { vec![] } else { std::mem::take(&mut self.left) };
        prompts.push((msg, body));
        let setup = Setup { seed: u64::from_be_bytes(entropy()), ..setup };
        let entry = if compacts { RunEntry::Compact } else { RunEntry::Prompt };
        let submit = Submit { run, entry, prompts, waiting: vec![], setup };
        self.feed(Input::Submit(Box::new(submit)), links, observer)
    }

    fn journal_head(&mut self, links: &mut Links) -> Result<(), ReactorError> {
        let Some(journal) = &mut links.outfit.journal else { return Ok(()) };
        let head = Head {
            journal: super::journal::VERSION,
            session: self.session.clone(),
            key: self.key.to_string(),
            model: model_name(&self.model),
            seed: self.seed,
            waiting: vec![],
            program: env!("CARGO_PKG_VERSION").to_owned(),
        };
        // The door as the run finds it: its ids go on from the seed.
        self.door = head.door();
        journal.head(&head).map_err(ReactorError::Journal)
    }

    /// A message for the active run.
    pub fn steer(
        &mut self,
        run: RunId,
        id: MsgId,
        body: Arc<User>,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        self.given.insert(id, run);
        self.feed(Input::Message { id, kind: QueueKind::Steer, body }, links, observer)
    }

    /// Nothing of the session's past is in the model's context any more.
    pub fn reset(&mut self) {
        self.revision += 1;
        self.stored += 1;
        self.branch = None;
        self.history = History::new(&self.model);
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
        let asked = match &input {
            Input::Message { id, .. } => Some((*id, true)),
            Input::Cancel(id) => Some((*id, false)),
            _ => None,
        };
        let was_over = self.run.ended().is_some();
        let run = std::mem::take(&mut self.run);
        let stepped = catch_unwind(AssertUnwindSafe(|| step(run, input, now)));
        let Ok(Step { state, append, tell, act, refused }) = stepped else {
            return self.broken("an invariant of the engine broke", links, observer);
        };
        self.run = state;
        let mut said = Vec::new();
        if let Some((id, offered)) = asked {
            self.answer(id, offered, refused.as_ref(), &mut said);
        }
        if refused.is_some() {
            // Late answers are normal after a cut: they change nothing.
            self.said.append(&mut said);
            return Ok(());
        }
        self.phases.step(&self.run, now);
        self.learn(&append, &mut said);
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
        if !was_over && let Some(termination) = self.run.ended() {
            said.push(self.says_end(termination.clone()));
        }
        if writes.is_empty() {
            self.said.append(&mut said);
            return self.deliver(tell, act, links, observer);
        }
        self.complete(&append, &mut writes, now);
        let claims = append.iter().any(|r| matches!(r, Record::Claim));
        self.commit(writes, Made { tell, act, said, claims }, now, links, observer)
    }

    fn says_end(&self, termination: Termination) -> Said {
        let run = self.run_id.clone().unwrap_or_else(|| RunId::new(""));
        Said::Ended { run, termination, reload: self.spoiled }
    }

    /// Whether a message was taken, or taken back.
    fn answer(
        &mut self,
        id: MsgId,
        offered: bool,
        refused: Option<&Refusal>,
        said: &mut Vec<Said>,
    ) {
        let done = refused.is_none();
        let Some(run) = self.given.get(&id).cloned() else { return };
        if offered != done {
            self.given.remove(&id);
        }
        // Taken back means that the run does not have it.
        said.push(Said::Steered { run, taken: offered == done });
    }

    fn commit(
        &mut self,
        writes: Vec<Write>,
        made: Made,
        at: Millis,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let entries = writes.iter().filter_map(|write| match write {
            Write::Put(entry) => Some(entry.clone()),
            _ => None,
        });
        let entries = entries.collect();
        let ends = writes.iter().any(|write| matches!(write, Write::End { .. }));
        let Made { tell, act, said, claims } = made;
        if self.detached {
            let ticket = 0;
            self.pending = Some(Pending { ticket, tell, act, said, entries, claims, ends });
            return self.committed(ticket, Ok(()), links, observer);
        }
        let ticket = links.ticket(Owner::Seat(self.address.seat));
        self.pending = Some(Pending { ticket, tell, act, said, entries, claims, ends });
        let commit = Commit {
            session: self.session.clone(),
            key: self.key.to_string(),
            cwd: links.outfit.cwd.to_string_lossy().into_owned(),
            revision: self.revision,
            writer: self.run_id.clone(),
            seen: self.writer.clone(),
            writes,
            at,
        };
        links.send(Job::commit(ticket, commit))
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
                    self.keep_left();
                }
                if let (Some(run), false) = (&self.run_id, pending.entries.is_empty()) {
                    self.asked = (false, None);
                    let at = At { key: &self.key, run, session: &self.session };
                    observer.stored(&at, &pending.entries, self.stored + 1);
                    self.stored += u64::try_from(pending.entries.len()).unwrap_or(0);
                }
                for entry in pending.entries {
                    if let Some(summary) = entry.kind.summary(entry.timestamp) {
                        self.compacted(summary);
                    } else if let Some(message) = entry.kind.in_context(entry.timestamp) {
                        self.history.push(message);
                    }
                }
                self.said.extend(pending.said);
                self.deliver(pending.tell, pending.act, links, observer)?;
                if pending.claims
                    && let [op] = self.run.open_ops().as_slice()
                {
                    self.inbox.push_front(Input::Claimed(*op));
                }
            }
            Err(Denied::Fenced(why)) => self.denied(why.to_string(), Input::Fenced(why)),
            Err(Denied::Failed(error)) => self.denied(error.to_string(), Input::StoreFailed),
        }
        self.drain(links, observer)
    }

    pub(super) fn deliver(
        &mut self,
        tell: Vec<Event>,
        act: Vec<Act>,
        links: &mut Links,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let view = View { calls: self.door.batch() };
        if let Some(run) = &self.run_id {
            let at = At { key: &self.key, run, session: &self.session };
            for event in &tell {
                observer.told(&at, event, view);
            }
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
        let end = self.says_end(termination.clone());
        self.said.push(end);
        self.deliver(vec![Event::Ended(termination)], vec![], links, observer)
    }
}

/// What the words of `/compact` ask for.
fn wish(text: &str) -> Option<String> {
    match command(text) {
        Some(Ok(Command::Compact(Some(wish)))) => Some(wish.to_owned()),
        _ => None,
    }
}

/// What a step made beside its records.
struct Made {
    tell: Vec<Event>,
    act: Vec<Act>,
    said: Vec<Said>,
    claims: bool,
}
