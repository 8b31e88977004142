//! The world around the engine: one session, its store, its friends, a virtual clock.

use super::bodies;
use super::checks::{self, Fate};
use super::friends::{Friend, gate, history, model_says, note_friend, tool_says};
use super::moves::{Move, Reply, cause, follow};
use super::sabotage::Sabotage;
use super::store::{MemStore, Refused};
use crate::base::limits::QUEUE_MAX;
use crate::base::{Millis, MsgId, OpId, RunId};
use crate::engine::replay::Interruption;
use crate::engine::{
    Act, Compacted, Entry, Event, Hook, Input, Ledger, Outcome, QueueKind, Record, Refusal, Run,
    Setup, Step, Submit, Unstarted, Verdict, batch, step,
};
use crate::model::wire::request::{Compat, Encoder};
use crate::transcript::{Door, ModelName, Write};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A run that this process believes in.
#[derive(Clone, Debug)]
pub struct Live {
    pub(super) id: RunId,
    /// The active writer when it was submitted: what its claim compares with.
    pub(super) seen: Option<RunId>,
    pub(super) run: Run,
    pub(super) door: Door,
    pub(super) ledger: Ledger,
    pub(super) open: Vec<(OpId, Friend)>,
    /// Calls of the current batch that a gate blocked.
    pub(super) blocked: BTreeSet<u16>,
    /// Calls of the current batch that have begun.
    pub(super) begun: BTreeSet<u16>,
    /// Operations whose tool was started.
    pub(super) started: BTreeSet<OpId>,
    pub(super) batches: u32,
}

/// How a world is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Knobs {
    /// Check every invariant after every step.
    pub checks: bool,
    /// A planted fault.
    pub sabotage: Option<Sabotage>,
    /// Options of every run.
    pub setup: Setup,
}

/// What a world has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Steps of the engine.
    pub steps: u64,
    /// Inputs that were refused.
    pub refused: u64,
    /// Crashes.
    pub crashes: u64,
    /// Runs accepted.
    pub runs: u64,
    /// Boundaries at which a crash was possible.
    pub boundaries: u64,
}

/// The world.
#[derive(Clone, Debug)]
pub struct World {
    pub(super) now: Millis,
    pub(super) knobs: Knobs,
    pub(super) store: MemStore,
    pub(super) live: Option<Live>,
    /// A superseded run, and the door through which it would still write.
    pub(super) old: Option<(RunId, Door)>,
    pub(super) fates: BTreeMap<MsgId, Fate>,
    pub(super) told: BTreeMap<RunId, u32>,
    pub(super) crashed_runs: BTreeSet<RunId>,
    /// Known outcomes of the open batch, by text: they must survive (15).
    pub(super) known: BTreeMap<u16, String>,
    /// The ledger of effects: how often each tool really began.
    pub(super) effects: BTreeMap<(RunId, u32, u16), u32>,
    pub(super) encoder: Encoder,
    pub(super) sent: usize,
    /// The compaction that the encoder knows of.
    pub(super) epoch: u32,
    pub(super) crash_at: Option<u8>,
    pub(super) next_run: u32,
    pub(super) next_msg: u64,
    /// Doors opened so far: each draws ids of its own.
    doors: u64,
    /// A hash over everything that was recorded, told and started.
    pub trace: u64,
    pub(super) stats: Stats,
    dice: u64,
}

const FAILS: u64 = 0x9e37_79b9_7f4a_7c15;

impl World {
    /// An empty world.
    #[must_use]
    pub fn new(knobs: Knobs) -> World {
        let no_fence = knobs.sabotage == Some(Sabotage::IgnoreFence);
        World {
            now: Millis(1_000_000),
            knobs,
            store: MemStore { no_fence, ..MemStore::default() },
            live: None,
            old: None,
            fates: BTreeMap::new(),
            told: BTreeMap::new(),
            crashed_runs: BTreeSet::new(),
            known: BTreeMap::new(),
            effects: BTreeMap::new(),
            encoder: Encoder::new(Compat::default()),
            sent: 0,
            epoch: 0,
            crash_at: None,
            next_run: 1,
            next_msg: 1,
            doors: 0,
            trace: FAILS,
            stats: Stats::default(),
            dice: 0,
        }
    }

    /// What it has seen.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    pub(super) fn sabotaged(&self, by: Sabotage) -> bool {
        self.knobs.sabotage == Some(by)
    }

    /// How many messages may wait: what the queues hold, and what a run was submitted with.
    pub(super) fn waiting_max(&self) -> usize {
        3 * QUEUE_MAX
    }

    pub(super) fn busy(&self) -> bool {
        self.live.as_ref().is_some_and(|live| !checks::idle(live))
    }

    /// Carries out one move.
    pub fn play(&mut self, m: &Move) {
        match m {
            Move::Submit(n) => self.submit(Entry::Prompt, u64::from(*n).clamp(1, 3)),
            Move::Continue => self.submit(Entry::Continue, 0),
            Move::Compact => self.submit(Entry::Compact, 1),
            Move::Steer => self.say(QueueKind::Steer),
            Move::FollowUp => self.say(QueueKind::FollowUp),
            Move::Cancel(n) => self.take_back(*n),
            Move::Abort(n) => self.feed(Input::Abort(cause(*n))),
            Move::Supersede => self.supersede(),
            Move::LateCommit => self.late_commit(),
            Move::Wait(ms) => self.now = self.now.plus(u64::from(*ms)),
            Move::Due => self.due(),
            Move::Tick => self.feed(Input::Tick),
            Move::Answer(n, reply) => self.answer(*n, reply),
            Move::Stale(n, reply) => self.stale(*n, reply),
            Move::FailCommit => self.store.fail_next = self.busy(),
            Move::Announce => self.announce(),
            Move::Crash(at) => self.crash_at = Some(*at),
            Move::Kill => self.crash(),
        }
        if self.knobs.checks {
            checks::after_step(self);
        }
    }

    fn message(&mut self) -> (MsgId, Arc<crate::transcript::User>) {
        let id = MsgId(self.next_msg);
        self.next_msg += 1;
        // Without checks nobody reads what it says.
        let checks = self.knobs.checks;
        let body = if checks { bodies::user(&format!("m{}", id.0)) } else { bodies::stock_user() };
        (id, body)
    }

    fn submit(&mut self, entry: Entry, prompts: u64) {
        if self.busy() {
            let (id, body) = self.message();
            let prompts = vec![(id, body)];
            let setup = self.knobs.setup;
            let run = RunId::new("busy");
            let submit = Submit { run, entry: Entry::Prompt, prompts, waiting: vec![], setup };
            return self.feed(Input::Submit(Box::new(submit)));
        }
        self.live = None;
        // After a failed commit the session is made whole before it is used again.
        self.restart();
        self.start_run(entry, prompts);
    }

    /// The seed of a door's ids: no two doors of a world draw the same ones.
    pub(super) fn door_seed(&mut self) -> u64 {
        self.doors += 1;
        self.doors
    }

    pub(super) fn start_run(&mut self, entry: Entry, prompts: u64) {
        let id = RunId::new(format!("r{}", self.next_run));
        self.next_run += 1;
        self.stats.runs += 1;
        let seed = u64::from(self.next_run);
        let door = if self.knobs.checks {
            let (calls, queue) = (self.store.calls.clone(), self.store.queue.clone());
            Door::resume(ModelName::default(), self.door_seed(), calls, queue)
        } else {
            Door::new(ModelName::default(), seed)
        };
        let waiting = checks::waiting_for(self);
        let mut ledger = Ledger::default();
        ledger.waiting.extend(waiting.iter().copied().map(|(id, kind)| (id, follow(kind))));
        self.live = Some(Live {
            id: id.clone(),
            seen: self.store.writer.clone(),
            run: Run::default(),
            door,
            ledger,
            open: vec![],
            blocked: BTreeSet::new(),
            begun: BTreeSet::new(),
            started: BTreeSet::new(),
            batches: 0,
        });
        let prompts = (0..prompts).map(|_| self.message()).collect();
        let setup = Setup { seed, ..self.knobs.setup };
        let submit = Submit { run: id, entry, prompts, waiting, setup };
        self.feed(Input::Submit(Box::new(submit)));
    }

    fn say(&mut self, kind: QueueKind) {
        if !self.busy() {
            return;
        }
        let (id, body) = self.message();
        self.feed(Input::Message { id, kind, body });
        if self.sabotaged(Sabotage::Overfill)
            && let Some(live) = &mut self.live
        {
            live.run.core.queues.overfill();
        }
    }

    fn take_back(&mut self, n: u8) {
        let waiting = &self.store.queue;
        if waiting.is_empty() {
            return self.feed(Input::Cancel(MsgId(0)));
        }
        let id = waiting[usize::from(n) % waiting.len()].0;
        self.feed(Input::Cancel(id));
    }

    /// A newer run takes the session in this process: the old one ends first, and its acts are
    /// dropped, before the claim is given away.
    fn supersede(&mut self) {
        if !self.busy() || self.store.writer.is_none() {
            return;
        }
        let by = RunId::new(format!("r{}", self.next_run));
        let planted = self.sabotaged(Sabotage::ActAfterEnd);
        let before = if planted { self.live.clone() } else { None };
        self.feed(Input::Superseded(by));
        self.old = self.live.take().map(|live| (live.id, live.door));
        self.start_run(Entry::Prompt, 1);
        if planted {
            let keep = std::mem::replace(&mut self.live, before);
            self.run_tool(OpId(9_999), 0);
            self.live = keep;
        }
    }

    pub(super) fn due(&mut self) {
        let due = self.live.as_ref().and_then(|live| live.run.due());
        if let Some((at, _)) = due {
            self.now = self.now.max(at);
            self.feed(Input::Tick);
        }
    }

    /// The nth open friend answers.
    fn answer(&mut self, n: u8, reply: &Reply) {
        let open = self.live.as_ref().map_or(0, |l| l.open.len());
        if open > 0 {
            self.friend_says(usize::from(n) % open, reply);
        }
    }

    fn stale(&mut self, n: u8, reply: &Reply) {
        let op = OpId(1_000_000 + u32::from(n));
        let input = match reply {
            Reply::Good | Reply::Odd(_) => Input::Claimed(op),
            Reply::Bad => Input::Hooked(op, Verdict::Stop),
            Reply::Piece => bodies::delta(op, "late"),
            Reply::Calls { .. } | Reply::Fail(_) => bodies::finish(op, bodies::text("late")),
            Reply::Terminate => bodies::done(op, "late"),
            Reply::Special => Input::Call(op, batch::Input::Entered),
        };
        self.feed(input);
    }

    pub(super) fn friend_says(&mut self, n: usize, says: &Reply) {
        let Some(live) = &mut self.live else { return };
        let (op, friend) = live.open[n].clone();
        let good = !matches!(says, Reply::Bad | Reply::Special);
        let input = match friend {
            Friend::Claim => Input::Claimed(op),
            Friend::Assemble if matches!(says, Reply::Special) => Input::AssemblyFailed(op),
            Friend::Assemble => Input::Assembled(op, history(&self.store)),
            Friend::Compact(_) if !self.knobs.checks => {
                // Nobody looks at what is stored, and so there is nothing to compact.
                Input::Compacted(op, Compacted::Nothing("sim".into()))
            }
            Friend::Compact(why) => Input::Compacted(op, self.compaction(why, says)),
            Friend::Hook(Hook::WeighRequest | Hook::WeighHistory) => {
                // Rarely what a small world would say; often enough to be worth a look.
                let full = !matches!(says, Reply::Good | Reply::Piece);
                Input::Hooked(op, if full { Verdict::Stop } else { Verdict::Go })
            }
            Friend::Hook(_) => Input::Hooked(op, if good { Verdict::Go } else { Verdict::Stop }),
            Friend::Model { begun, cut } => {
                Input::Reply(op, bodies::stock(|stock| model_says(stock, says, begun, cut)))
            }
            Friend::Batch => Input::Call(op, batch::Input::Gated(gate(good))),
            Friend::Gate(call) => {
                if !good {
                    live.blocked.insert(call);
                }
                let lifted = self.knobs.sabotage == Some(Sabotage::Unblock);
                Input::Call(op, batch::Input::Gated(gate(good || lifted)))
            }
            Friend::Tool { entered, .. } => {
                Input::Call(op, bodies::stock(|stock| tool_says(stock, says, entered)))
            }
            Friend::After(outcome) => Input::Call(op, batch::Input::Judged(outcome)),
        };
        let Some(live) = &mut self.live else { return };
        note_friend(live, op, &input);
        self.feed(input);
    }

    /// Feeds one input to the live run: step, commit, tell, act, with a crash where one is armed.
    pub(super) fn feed(&mut self, input: Input) {
        let Some(live) = &mut self.live else { return };
        self.stats.steps += 1;
        let before = self.knobs.checks.then(|| live.run.clone());
        let mut now = self.now;
        if self.knobs.sabotage == Some(Sabotage::Dice) {
            // Something that no input carries: it differs from run to run of the same seed.
            now = now.plus(self.dice);
        }
        let Step { state, append, tell, act, refused } =
            step(std::mem::take(&mut live.run), input, now);
        live.run = state;
        if self.knobs.checks {
            self.trace = mix(self.trace, append.len() as u64, tell.len() as u64, act.len() as u64);
            if let Some((at, _)) = live.run.due() {
                self.trace = mix(self.trace, at.0, 0, 0);
            }
        }
        if let Some(why) = refused {
            self.stats.refused += 1;
            if let Some(before) = before {
                assert!(append.is_empty() && tell.is_empty() && act.is_empty(), "a loud refusal");
                let full = why == Refusal::QueueFull;
                assert!(live.run == before || full, "a refusal changed the state: {why:?}");
            }
            return;
        }
        let crash = self.crash_at.take();
        self.stats.boundaries += 2 + act.len() as u64;
        self.carry(append, tell, act, crash);
    }

    /// Commits, then tells, then starts. `crash` counts the boundaries until the process dies.
    fn carry(&mut self, append: Vec<Record>, tell: Vec<Event>, act: Vec<Act>, crash: Option<u8>) {
        let early = self.sabotaged(Sabotage::ActBeforeCommit);
        if early {
            self.start_all(&act, None);
        }
        if crash == Some(0) {
            return self.crash();
        }
        let claims = append.iter().any(|r| matches!(r, Record::Claim));
        match self.commit(append) {
            Ok(()) => {}
            Err(Refused::Fenced(why)) => return self.feed(Input::Fenced(why)),
            Err(Refused::Failed | Refused::Duplicate) => return self.feed(Input::StoreFailed),
        }
        if crash == Some(1) {
            return self.crash();
        }
        self.tell_all(&tell);
        if claims && let Some(live) = &mut self.live {
            let op = live.run.open_ops()[0];
            live.open.push((op, Friend::Claim));
        }
        if !early {
            self.start_all(&act, crash.map(|k| usize::from(k) - 2));
        }
        let Some(live) = &mut self.live else { return };
        let run = &live.run;
        live.open.retain(|(op, _)| run.is_open(*op));
        if crash.is_some() {
            self.crash();
        }
    }

    /// Without checks nobody looks at what is stored: only who may write is kept.
    fn forget(&mut self, append: &[Record]) -> Result<(), Refused> {
        if std::mem::take(&mut self.store.fail_next) {
            return Err(Refused::Failed);
        }
        for record in append {
            match record {
                Record::Claim => self.store.writer = self.live.as_ref().map(|l| l.id.clone()),
                Record::Ended(_) => self.store.writer = None,
                _ => {}
            }
        }
        Ok(())
    }

    fn commit(&mut self, mut append: Vec<Record>) -> Result<(), Refused> {
        if !self.knobs.checks {
            return self.forget(&append);
        }
        self.plant(&mut append);
        let seeds = (self.door_seed(), self.door_seed());
        let Some(live) = &mut self.live else { return Ok(()) };
        let mut writes = Vec::new();
        let mut claims = false;
        for record in &append {
            claims |= matches!(record, Record::Claim);
            let made = live.door.apply(record, self.now);
            assert!(made.is_ok(), "1: the door did not open for {record:?}: {made:?}");
            writes.extend(made.unwrap_or_default());
        }
        if claims && self.store.writer.is_some() {
            // The successor's claim makes the session whole in its own transaction.
            let calls = self.store.calls.clone();
            let mut door = Door::resume(ModelName::default(), seeds.0, calls, vec![]);
            let closing = door.close_interrupted(Interruption::TakenOver, self.now);
            let closing = closing.unwrap_or_default();
            writes.extend(closing.into_iter().filter(|w| !matches!(w, Write::End { .. })));
            live.door = Door::resume(ModelName::default(), seeds.1, vec![], live.door.queue());
        }
        if self.knobs.sabotage == Some(Sabotage::DoubleMessage) {
            writes.retain(|w| !matches!(w, Write::QueueTake(_)));
        }
        if writes.is_empty() {
            return Ok(());
        }
        let id = live.id.clone();
        let seen = live.seen.clone();
        self.store.commit(Some(&id), seen.as_ref(), &writes)?;
        let lost = self.sabotaged(Sabotage::LoseRecord);
        let Some(live) = &mut self.live else { return Ok(()) };
        for record in &append {
            if !(lost && matches!(record, Record::Launch(_))) {
                live.ledger.apply(record);
            }
        }
        self.learn(&append);
        Ok(())
    }

    /// What senders and watchers know after a commit.
    fn learn(&mut self, records: &[Record]) {
        for record in records {
            match record {
                Record::Accepted { prompts, .. } => {
                    let new = prompts.iter().map(|(id, _)| (*id, Fate::Accepted));
                    self.fates.extend(new);
                }
                Record::Queued { id, .. } => {
                    self.fates.insert(*id, Fate::Accepted);
                }
                Record::Dropped(id) => {
                    self.fates.insert(*id, Fate::Dropped);
                }
                Record::Reply(_) => {
                    self.known.clear();
                    if let Some(live) = &mut self.live {
                        live.blocked.clear();
                        live.begun.clear();
                        live.batches += 1;
                    }
                }
                Record::Outcome { call, outcome, .. } => self.outcome(*call, outcome),
                Record::Committed(_)
                | Record::Claim
                | Record::Failed { .. }
                | Record::Stopped { .. }
                | Record::Launch(_)
                | Record::Process { .. }
                | Record::Result(_)
                | Record::LoopEnd
                | Record::Compacted(_)
                | Record::Note
                | Record::Ended(_) => {}
            }
        }
    }

    /// 7: what has begun is not skipped; 15: what is known stays known.
    fn outcome(&mut self, call: u16, outcome: &Outcome) {
        let Some(live) = &self.live else { return };
        if matches!(outcome, Outcome::Unstarted(Unstarted::Steering)) {
            assert!(!live.begun.contains(&call), "7: steering skipped a call that had begun");
        }
        let slot = self.store.calls.get(usize::from(call));
        if let Some(output) = slot.and_then(|c| c.output.as_ref()) {
            self.known.insert(call, format!("{:?}", output.content));
        }
    }

    /// Faults in what is recorded.
    fn plant(&mut self, append: &mut Vec<Record>) {
        match self.knobs.sabotage {
            Some(Sabotage::SkipResult) => {
                if let Some(at) = append.iter().rposition(|r| matches!(r, Record::Result(_))) {
                    append.remove(at);
                }
            }
            Some(Sabotage::ReorderResults) => {
                let results: Vec<usize> =
                    (0..append.len()).filter(|i| matches!(append[*i], Record::Result(_))).collect();
                if let [a, b, ..] = results[..] {
                    append.swap(a, b);
                }
            }
            Some(Sabotage::SkipStarted) if self.steering_waits() => {
                for record in append {
                    if let Record::Outcome { outcome: o @ Outcome::Tool(_), .. } = record {
                        *o = Outcome::Unstarted(Unstarted::Steering);
                    }
                }
            }
            _ => {}
        }
    }

    fn steering_waits(&self) -> bool {
        self.live.as_ref().is_some_and(|l| l.run.core.queues.steering())
    }

    fn tell_all(&mut self, tell: &[Event]) {
        let Some(live) = &self.live else { return };
        for event in tell {
            if let Event::Ended(_) = event {
                let times = match self.knobs.sabotage {
                    Some(Sabotage::EndTwice) => 2,
                    Some(Sabotage::EndNever) => 0,
                    _ => 1,
                };
                *self.told.entry(live.id.clone()).or_default() += times;
            }
        }
    }

    /// Sets what the `dice` sabotage adds.
    pub(super) fn throw(&mut self, dice: u64) {
        self.dice = dice;
    }
}

fn mix(trace: u64, a: u64, b: u64, c: u64) -> u64 {
    let mut x = trace ^ a.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = x.rotate_left(23) ^ b.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x.rotate_left(17).wrapping_add(c).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}
