//! The town: the machine of all sessions, a store that survives, runs that are played, clients.

use super::actor::Actor;
use super::checks::Known;
use super::moves::TownSetup;
use super::play::waits;
use super::store::{Hand, No, Store};
use crate::base::{Millis, MsgId, OpId, RunId};
use crate::engine::Termination;
use crate::engine::lanes::Caps;
use crate::engine::sessions::{
    Act, Arrival, Change, Input, Key, Options, Refusal, Sessions, Waits,
};
use crate::engine::turns::{DropPolicy, Mode};
use crate::engine::watch::Thresholds;
use crate::sim::Sabotage;
use crate::transcript::{Content, User};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

const DAY_MS: u64 = 86_400_000;
/// The town begins in the middle of some day.
const BEGIN: Millis = Millis(400 * DAY_MS + 12 * 3_600_000);

/// What a town runs with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TownKnobs {
    /// Options of the machine.
    pub setup: TownSetup,
    /// The planted fault.
    pub sabotage: Option<Sabotage>,
    /// Whether invariants are checked.
    pub checks: bool,
}

/// What a town has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TownStats {
    /// Steps of the machine.
    pub steps: u64,
    /// Sessions that had a run.
    pub sessions: u64,
    /// Runs that began.
    pub runs: u64,
    /// Processes that died.
    pub crashes: u64,
    /// What was told, by [`TownStats::KINDS`].
    pub told: [u64; 12],
}

impl TownStats {
    /// The kinds of what is told that are counted.
    pub const KINDS: [&str; 12] = [
        "ended",
        "joined",
        "overflow",
        "reset",
        "idle",
        "daily",
        "deleted",
        "stuck",
        "superseded",
        "given up",
        "conflict",
        "drained",
    ];

    pub(super) fn count(&mut self, kind: &str) {
        if let Some(at) = TownStats::KINDS.iter().position(|k| *k == kind) {
            self.told[at] += 1;
        }
    }
}

/// Work of the store, in the order in which it was handed over.
#[derive(Clone, Debug)]
pub(super) enum Job {
    Admit(OpId, MsgId, Box<Arrival>, Millis),
    Change(OpId, Key, Change, Millis),
    Find(OpId, RunId),
    Done(Input, Option<Box<Arrival>>),
}

/// All that dies with a process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub machine: Sessions,
    pub actors: BTreeMap<Key, Actor>,
    pub jobs: VecDeque<Job>,
    pub opens: Vec<(OpId, Key)>,
    pub replies: VecDeque<Input>,
    pub waiters: BTreeMap<u64, RunId>,
    /// Arrivals without an answer.
    pub unanswered: BTreeMap<RunId, u32>,
    /// Ends that could not be stored.
    pub torn: BTreeMap<RunId, Termination>,
    pub drained: bool,
    pub draining: bool,
    /// Sabotage: mail of a run that is over.
    pub carried: Vec<(RunId, MsgId, bool)>,
    /// Admissions on their way, with who asks.
    pub asking: BTreeMap<RunId, Known>,
}

/// The town.
#[derive(Debug)]
pub struct Town {
    pub(super) now: Millis,
    pub(super) store: Store,
    pub(super) process: Process,
    pub(super) knobs: TownKnobs,
    pub(super) stats: TownStats,
    /// Everything that happened, as a number.
    pub trace: u64,
    pub(super) sent: Vec<Arrival>,
    pub(super) next_waiter: u64,
    pub(super) foreign: Option<(Key, Hand)>,
    pub(super) foreigners: u32,
    pub(super) crash_at: Option<u8>,
    /// Who was told an end that the store did not have yet.
    pub(super) told_torn: BTreeSet<RunId>,
    pub(super) told: BTreeMap<RunId, u32>,
    pub(super) crashed: BTreeSet<RunId>,
    pub(super) revisions: BTreeMap<Key, (u32, u32)>,
    pub(super) keys: Vec<Key>,
    pub(super) planted: bool,
    /// What happens is an answer of the store to who waits.
    pub(super) finding: bool,
    dice: u64,
}

impl Town {
    /// An empty town in which a process has just started.
    #[must_use]
    pub fn new(knobs: TownKnobs) -> Town {
        let names = ["main", "cron:job", "subagent:4f", "web:direct:ann", "web:direct:bo", "web:c"];
        let count = usize::from(knobs.setup.sessions).clamp(1, names.len());
        let keys = names.iter().take(count).map(|n| format!("agent:main:{n}").into());
        let store = Store { sabotage: knobs.sabotage, ..Store::default() };
        let mut town = Town {
            now: BEGIN,
            store,
            process: process(&knobs.setup),
            knobs,
            stats: TownStats::default(),
            trace: 0xcbf2_9ce4_8422_2325,
            sent: vec![],
            next_waiter: 1,
            foreign: None,
            foreigners: 0,
            crash_at: None,
            told_torn: BTreeSet::new(),
            told: BTreeMap::new(),
            crashed: BTreeSet::new(),
            revisions: BTreeMap::new(),
            keys: keys.collect(),
            planted: false,
            finding: false,
            dice: 0,
        };
        town.boot();
        town
    }

    /// What only the sabotage of that name looks at.
    pub(super) fn throw(&mut self, dice: u64) {
        self.dice = dice;
    }

    /// What it has seen.
    #[must_use]
    pub fn stats(&self) -> TownStats {
        let keys: BTreeSet<&Key> = self.store.runs.values().map(|run| &run.key).collect();
        TownStats { sessions: keys.len() as u64, ..self.stats }
    }

    pub(super) fn is(&self, sabotage: Sabotage) -> bool {
        self.knobs.sabotage == Some(sabotage)
    }

    /// One input of the machine, and all that follows from it at once.
    pub(super) fn feed(&mut self, input: Input) -> Option<Refusal> {
        let asking = match &input {
            Input::Arrive(arrival) => Some(Known::of(arrival)),
            _ => None,
        };
        self.feed_for(input, asking)
    }

    fn feed_for(&mut self, input: Input, asking: Option<Known>) -> Option<Refusal> {
        self.stats.steps += 1;
        self.finding = matches!(input, Input::Found(..));
        let step = self.process.machine.step(input, self.now);
        for event in &step.tell {
            self.hear(event, asking.as_ref());
        }
        for (i, act) in step.act.into_iter().enumerate() {
            if self.crash_at.is_some_and(|at| i >= usize::from(at)) {
                self.kill();
                return None;
            }
            self.act(act);
        }
        if self.crash_at.take().is_some() {
            self.kill();
            return None;
        }
        self.plant();
        if self.knobs.checks {
            self.after_step();
        }
        step.refused
    }

    pub(super) fn planted_acts(&mut self, acts: Vec<Act>) {
        for act in acts {
            self.act(act);
        }
    }

    /// An input that the machine has asked for: it must not be refused.
    pub(super) fn answer(&mut self, input: Input, asking: Option<Known>) {
        let name = format!("{input:?}");
        if let Some(why) = self.feed_for(input, asking) {
            panic!("12: {why:?} refuses {name}");
        }
    }

    fn act(&mut self, act: Act) {
        let process = &mut self.process;
        match act {
            Act::Admit(op, msg, arrival) => {
                let run = arrival.run.clone();
                assert!(!process.asking.contains_key(&run), "15: {run} is admitted twice at once");
                process.asking.insert(run, Known::of(&arrival));
                process.jobs.push_back(Job::Admit(op, msg, arrival, self.now));
            }
            Act::Change(op, key, change) => {
                process.jobs.push_back(Job::Change(op, key, change, self.now));
            }
            Act::Find(op, run) => process.jobs.push_back(Job::Find(op, run)),
            Act::Open(op, key) => {
                let busy = process.actors.contains_key(&key);
                assert!(!busy, "3: {key} is opened while a run writes");
                let twice = process.opens.iter().any(|(_, k)| *k == key);
                assert!(!twice, "14: {key} is opened twice at once");
                process.opens.push((op, key));
            }
            Act::Close(key) => {
                let busy = process.actors.contains_key(&key);
                assert!(!busy, "3: {key} is closed while a run writes");
            }
            Act::Start(start) => self.begin(*start),
            Act::Steer { key, run, msg } => {
                let host = process.actors.get_mut(&key);
                assert!(host.is_some(), "3: {run} is steered into nothing");
                if let Some(actor) = host {
                    actor.mail.push((run, msg, false));
                }
            }
            Act::Unsteer { key, run, .. } => {
                if let Some(actor) = process.actors.get_mut(&key) {
                    let before = actor.mail.len();
                    actor.mail.retain(|(r, _, _)| *r != run);
                    if actor.mail.len() < before {
                        process.replies.push_back(Input::Steered { run, taken: false });
                    }
                }
            }
            Act::Abort(key, cause) => {
                let actor = process.actors.get_mut(&key);
                assert!(actor.is_some(), "3: {key}: an abort of nobody");
                if let Some(actor) = actor {
                    actor.aborted.get_or_insert(cause);
                }
            }
            Act::Supersede(key) => {
                if let Some(actor) = process.actors.get_mut(&key) {
                    actor.lose();
                }
            }
            Act::Look => {
                let seen = process.actors.iter().map(|(k, a)| (Arc::clone(k), a.activity()));
                let seen = Input::Seen(seen.collect());
                process.replies.push_back(seen);
            }
            Act::Resume { key, run, attempt, narrowed } => {
                self.resume(key, &run, attempt, narrowed)
            }
        }
    }

    fn resume(&mut self, key: Key, run: &RunId, attempt: u8, narrowed: bool) {
        let most = crate::base::limits::RECOVERY_ATTEMPTS_MAX;
        assert!(attempt <= most, "12: attempt {attempt} at resuming {run}");
        let wait = Waits { attempt, narrowed, ..waits(Mode::FollowUp, 0) };
        let id = RunId::new(format!("resume-{run}-{attempt}"));
        let arrival = self.arrival(key, id, "resume", wait, false);
        self.process.replies.push_back(Input::Arrive(Box::new(arrival)));
    }

    pub(super) fn arrival(
        &self,
        key: Key,
        run: RunId,
        request: &str,
        wait: Waits,
        interaction: bool,
    ) -> Arrival {
        let content = Content::Text(String::new());
        let body = User { content, timestamp: self.now, idempotency_key: None };
        let four = 4 * 3_600_000;
        let boundary = Millis((self.now.0 - four) / DAY_MS * DAY_MS + four);
        let (request, body) = (request.into(), Arc::new(body));
        let boundary = Some(boundary);
        Arrival { key, run, request, body, wait, interaction, boundary }
    }

    fn begin(&mut self, start: crate::engine::sessions::Start) {
        let key = Arc::clone(&start.key);
        for run in start.joined.iter().chain([&start.run]) {
            let row = self.store.runs.get(run);
            assert!(row.is_some(), "15: {run} begins and was never accepted");
            let over = row.is_some_and(|r| r.ended.is_some());
            assert!(!over, "4: {run} is over and begins");
            assert!(!row.is_some_and(|r| r.claimed), "15: {run} begins a second time");
        }
        let busy = self.process.actors.contains_key(&key);
        assert!(!busy, "3: two runs in {key}");
        let held = self.process.machine.line_held(&key);
        let fits = start.joined.iter().chain([&start.run]).any(|run| {
            let waits = self.store.runs.get(run).map(|r| &r.waits);
            waits.map(|w| (&w.lane, &w.owner)) == held.as_ref().map(|(lane, owner)| (lane, owner))
        });
        assert!(fits || self.planted, "8: {} begins on another's lane", start.run);
        self.process.actors.insert(key, Actor::new(start, self.now));
    }

    /// The store does what was handed to it first.
    pub(super) fn disk(&mut self) {
        let Some(at) = self.process.jobs.iter().position(|j| !matches!(j, Job::Done(..))) else {
            return;
        };
        let Some(job) = self.process.jobs.get_mut(at) else { return };
        let full: Arc<str> = "no space left on device".into();
        *job = match std::mem::replace(job, Job::Done(Input::Tick, None)) {
            Job::Admit(op, msg, arrival, at) => {
                let admission = self.store.admit(msg, &arrival, at);
                Job::Done(Input::Admitted(op, admission), Some(arrival))
            }
            Job::Change(op, key, change, at) => {
                let input = match self.store.change(&key, &change, at) {
                    Ok(()) => Input::Changed(op),
                    Err(No::Disk) => Input::ChangeFailed(op, full),
                    Err(No::Fence(_) | No::Over) => Input::ChangeFailed(op, "refused".into()),
                };
                Job::Done(input, None)
            }
            Job::Find(op, run) => Job::Done(Input::Found(op, self.store.outcome(&run)), None),
            done @ Job::Done(..) => done,
        };
    }

    /// The store's oldest answer arrives.
    pub(super) fn answers(&mut self) {
        if !matches!(self.process.jobs.front(), Some(Job::Done(..))) {
            return;
        }
        let Some(Job::Done(input, arrival)) = self.process.jobs.pop_front() else { return };
        let asking = arrival.map(|a| Known::of(&a));
        if let Some(known) = &asking {
            self.process.asking.remove(&known.run);
        }
        self.answer(input, asking);
    }

    /// A session is open, or cannot be.
    pub(super) fn opened(&mut self, n: u8, good: bool) {
        if self.process.opens.is_empty() {
            return;
        }
        let (op, key) = self.process.opens.remove(usize::from(n) % self.process.opens.len());
        let busy = self.process.actors.contains_key(&key);
        assert!(!busy, "3: {key} was opened while a run writes");
        if good {
            self.store.mend(&key, &self.process.torn);
        }
        self.answer(if good { Input::Opened(op) } else { Input::OpenFailed(op) }, None);
    }

    /// What else is on its way arrives.
    pub(super) fn reply(&mut self) {
        if let Some(input) = self.process.replies.pop_front() {
            if let Input::Arrive(arrival) = &input {
                *self.process.unanswered.entry(arrival.run.clone()).or_default() += 1;
            }
            self.feed(input);
        }
    }

    /// The process dies, and the next one starts from what was stored.
    pub(super) fn kill(&mut self) {
        self.stats.crashes += 1;
        self.crash_at = None;
        for (run, row) in &self.store.runs {
            let told = self.told.contains_key(run);
            if !told || row.ended.is_none() {
                self.crashed.insert(run.clone());
            }
        }
        if self.knobs.checks {
            self.messages();
        }
        self.process = process(&self.knobs.setup);
        self.boot();
    }

    fn boot(&mut self) {
        let loses = self.is(Sabotage::TownLoseQueue);
        let waiting = if loses { vec![] } else { self.store.waiting() };
        let next_msg = self.store.next_msg();
        let interrupted = self.store.interrupted();
        let dice = self.is(Sabotage::TownDice) && self.dice == 1;
        self.trace ^= u64::from(dice);
        self.answer(Input::Boot { next_msg, waiting, interrupted }, None);
    }
}

fn process(setup: &TownSetup) -> Process {
    let cap = u16::from(setup.cap);
    let caps = Caps {
        main: cap,
        subagent: cap,
        active_memory: cap,
        cron: cap,
        cron_nested: cap,
        nested: cap,
        background: cap,
        hooks_reserved: false,
    };
    let options = Options {
        caps,
        queue: setup.queue,
        reset: setup.reset,
        watch: Thresholds::default(),
        lane_wait_ms: u64::from(setup.lane_wait_s) * 1_000,
        keep_ms: 60_000,
    };
    Process {
        machine: Sessions::new(options),
        actors: BTreeMap::new(),
        jobs: VecDeque::new(),
        opens: vec![],
        replies: VecDeque::new(),
        waiters: BTreeMap::new(),
        unanswered: BTreeMap::new(),
        torn: BTreeMap::new(),
        drained: false,
        draining: false,
        carried: vec![],
        asking: BTreeMap::new(),
    }
}

/// The drop policy of a number, for setups.
pub(super) fn policy(n: u64) -> DropPolicy {
    match n {
        0 => DropPolicy::Old,
        1 => DropPolicy::New,
        _ => DropPolicy::Summarize,
    }
}
