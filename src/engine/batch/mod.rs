//! One tool batch (semantics 2.5): admission, parallel or serial, launch checkpoint, result order.
//!
//! ```text
//! Admit -> Prepare(i) -> [checkpoint] -> Launch(i) -> Running -> results -> Tail(i) -> Returned
//!      \-> Serial(i) ------------------------------------------------------> Tail(i) -> Returned
//!      \-> Tail(0), when the batch is blocked as a whole
//! ```
//! The stage is a program counter, the calls' phases are the data; `advance` runs until it has to
//! wait. Steering is polled at the checkpoints of the table and nowhere else; the parent owns the
//! queue and tells through `Marks` whether a poll would find something.

use crate::base::OpId;
use crate::engine::io::{Act, Event, Hooks, Outcome, Record, Unstarted, Who};
use crate::engine::loops::{Finding, History, Level};
use crate::transcript::{CallFacts, RejectKind, ToolOutput};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

mod stages;

/// What the batch may know of the run around it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Marks {
    /// The run is being aborted.
    pub abort: bool,
    /// A steering poll would find something.
    pub steering: bool,
}

/// Where a call stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Not taken up.
    Fresh,
    /// Its gate was asked.
    Asking(OpId),
    /// It may be launched.
    Ready,
    /// It was launched and has not begun.
    Entering(OpId),
    /// It runs.
    Running(OpId),
    /// The hook behind calls that ran was asked.
    After(OpId),
    /// The hook behind every call was asked.
    Judging(OpId),
    /// Its outcome is final.
    Ended,
}

impl Phase {
    /// The operation whose answer the call waits for.
    #[must_use]
    pub fn op(self) -> Option<OpId> {
        match self {
            Phase::Asking(op)
            | Phase::Entering(op)
            | Phase::Running(op)
            | Phase::After(op)
            | Phase::Judging(op) => Some(op),
            Phase::Fresh | Phase::Ready | Phase::Ended => None,
        }
    }
}

/// One call of the batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Call {
    /// What may be known without reading it.
    pub facts: CallFacts,
    /// Where it stands.
    pub phase: Phase,
    /// Its implementation was entered.
    pub entered: bool,
    /// Hash of its result, for the loop detector.
    pub result: u64,
    /// Its outcome asks for the end of the run.
    pub terminate: bool,
    /// Its result is in the transcript.
    pub stored: bool,
    /// A loop warning to be added to its text.
    pub warned: Option<u32>,
}

/// Why calls that were never prepared are completed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Why {
    /// A message arrived.
    Steering,
    /// A launch was refused.
    Admission,
    /// The run is being aborted.
    Abort,
    /// The gate of the batch said no.
    Blocked(Option<Arc<str>>),
    /// The loop detector said no because of one call.
    Loop {
        /// That call.
        trigger: u16,
        /// What was found.
        finding: Finding,
        /// It is the second finding of the prompt.
        second: bool,
    },
}

/// The program counter.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// The gate of the batch was asked.
    Admit(OpId),
    /// Parallel: calls are taken up in source order.
    Prepare(u16),
    /// Parallel: calls are launched in source order.
    Launch(u16),
    /// Parallel: everything launched is awaited.
    Running,
    /// Serial: one call after another.
    Serial(u16),
    /// The rest is completed without having begun.
    Tail(u16, Why),
    /// Done.
    Returned,
}

/// A batch on its way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Batch {
    /// The next operation number; handed over by the run and handed back.
    pub ops: u32,
    /// Its calls, in source order.
    pub calls: Vec<Call>,
    /// Calls run one after another.
    pub serial: bool,
    /// Points with somebody behind them.
    pub hooks: Hooks,
    /// Where it is.
    pub stage: Stage,
    /// It has taken from the steering queue.
    pub steered: bool,
    /// The lifecycle refused a launch.
    pub fatal: bool,
    /// The run ends with this batch (second critical loop).
    pub terminate_run: bool,
}

/// What happens to a batch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// The gate answered: go, or block with a reason.
    Gated(Gate),
    /// The tool's implementation was entered.
    Entered,
    /// The tool runs as a process group of its own.
    Process {
        /// Its process group.
        pgid: u32,
        /// The start time of the group's leader.
        started: u64,
    },
    /// The lifecycle refused to start the tool.
    LaunchRefused,
    /// A preview of the result.
    Update(Arc<ToolOutput>),
    /// The tool ended; the hash is the loop detector's.
    Done(Arc<ToolOutput>, u64),
    /// A hook behind the call answered with the final outcome.
    Judged(Outcome),
}

/// Answer of a gate.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Gate {
    /// It may go on.
    Allow,
    /// It may not.
    Block(Option<Arc<str>>),
}

/// What one step of a batch gives.
#[derive(Debug, Default)]
pub struct Yield {
    /// Records.
    pub append: Vec<Record>,
    /// Events.
    pub tell: Vec<Event>,
    /// Acts.
    pub act: Vec<Act>,
    /// The batch has taken from the steering queue: the parent polls it now.
    pub polled: bool,
}

/// Why a batch did not take an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ignored {
    /// No call of this batch waits for that operation.
    Stale,
    /// One does, but not for this.
    Mismatch,
}

/// What the loop detector decided about a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It may run; some calls carry a warning.
    Go(Vec<Option<u32>>),
    /// It must not.
    Block(Why),
}

/// Asks the loop detector about a batch, in source order; the first critical finding blocks it.
pub fn admit(history: &mut History, calls: &[CallFacts], critical_seen: bool) -> Admission {
    let mut warned = Vec::with_capacity(calls.len());
    for (i, facts) in calls.iter().enumerate() {
        match history.judge(facts) {
            Level::Fine => warned.push(None),
            Level::Warning(finding) => warned.push(Some(finding.count)),
            Level::Critical(finding) => {
                let trigger = index(i);
                return Admission::Block(Why::Loop { trigger, finding, second: critical_seen });
            }
        }
    }
    Admission::Go(warned)
}

fn index(i: usize) -> u16 {
    u16::try_from(i).unwrap_or(u16::MAX)
}

impl Batch {
    /// Opens a batch; it runs until it has to wait.
    pub fn open(
        ops: u32,
        facts: &[CallFacts],
        admission: Admission,
        hooks: Hooks,
        sequential: bool,
        marks: Marks,
    ) -> (Batch, Yield) {
        let fresh = |facts: &CallFacts| Call {
            facts: *facts,
            phase: Phase::Fresh,
            entered: false,
            result: 0,
            terminate: false,
            stored: false,
            warned: None,
        };
        // B2: one sequential tool makes the whole batch sequential; unknown ones do not.
        let serial = sequential
            || facts.iter().any(|f| f.sequential && f.rejected != Some(RejectKind::Unknown));
        let stage = if serial { Stage::Serial(0) } else { Stage::Prepare(0) };
        let calls: Vec<Call> = facts.iter().map(fresh).collect();
        let mut batch = Batch {
            ops,
            calls,
            serial,
            hooks,
            stage,
            steered: false,
            fatal: false,
            terminate_run: false,
        };
        let mut out = Yield::default();
        match admission {
            Admission::Block(why) => {
                batch.terminate_run = matches!(why, Why::Loop { second: true, .. });
                batch.stage = Stage::Tail(0, why);
            }
            Admission::Go(warned) => {
                for (call, count) in batch.calls.iter_mut().zip(warned) {
                    call.warned = count;
                }
                let any_valid = facts.iter().any(|f| f.rejected.is_none());
                if hooks.before_batch && any_valid && !marks.abort {
                    let op = batch.op();
                    batch.stage = Stage::Admit(op);
                    out.act.push(Act::AskBatch(op));
                }
            }
        }
        batch.advance(marks, &mut out);
        (batch, out)
    }

    fn op(&mut self) -> OpId {
        let op = OpId(self.ops);
        self.ops += 1;
        op
    }

    fn len(&self) -> u16 {
        index(self.calls.len())
    }

    fn call(&mut self, i: u16) -> &mut Call {
        &mut self.calls[usize::from(i)]
    }

    fn phase(&self, i: u16) -> Phase {
        self.calls[usize::from(i)].phase
    }

    /// Whether everything is done.
    #[must_use]
    pub fn returned(&self) -> bool {
        self.stage == Stage::Returned
    }

    /// At least one call, and every call, asks for the end of the run (semantics 3.6).
    #[must_use]
    pub fn terminate(&self) -> bool {
        !self.calls.is_empty() && self.calls.iter().all(|c| c.terminate)
    }

    /// Whether calls run, in contrast to being judged.
    #[must_use]
    pub fn executing(&self) -> bool {
        let busy =
            |c: &Call| matches!(c.phase, Phase::Entering(_) | Phase::Running(_) | Phase::After(_));
        self.calls.iter().any(busy)
    }

    /// The operations that are open, with the call each belongs to.
    #[must_use]
    pub fn open_ops(&self) -> Vec<(OpId, Option<u16>)> {
        let gate = match self.stage {
            Stage::Admit(op) => Some((op, None)),
            Stage::Prepare(_)
            | Stage::Launch(_)
            | Stage::Running
            | Stage::Serial(_)
            | Stage::Tail(..)
            | Stage::Returned => None,
        };
        let calls = self.calls.iter().enumerate();
        let calls = calls.filter_map(|(i, c)| Some((c.phase.op()?, Some(index(i)))));
        gate.into_iter().chain(calls).collect()
    }

    /// Whether an answer to this operation is awaited.
    #[must_use]
    pub fn is_open(&self, op: OpId) -> bool {
        self.stage == Stage::Admit(op) || self.calls.iter().any(|c| c.phase.op() == Some(op))
    }

    /// One input for one open operation.
    ///
    /// # Errors
    /// Why the batch did not take it; nothing has changed then.
    pub fn step(&mut self, op: OpId, input: Input, marks: Marks) -> Result<Yield, Ignored> {
        let mut out = Yield::default();
        if self.stage == Stage::Admit(op) {
            self.admitted(input)?;
            self.advance(marks, &mut out);
            return Ok(out);
        }
        let Some(i) = self.calls.iter().position(|c| c.phase.op() == Some(op)) else {
            return Err(Ignored::Stale);
        };
        let i = index(i);
        match (self.phase(i), input) {
            (Phase::Asking(_), Input::Gated(gate)) => self.gated(i, gate, marks, &mut out),
            (Phase::Entering(_), Input::Entered) => {
                self.call(i).entered = true;
                self.call(i).phase = Phase::Running(op);
            }
            (Phase::Entering(_), Input::LaunchRefused) => self.refused(i, &mut out),
            (Phase::Running(_), Input::Process { pgid, started }) => {
                out.append.push(Record::Process { call: i, pgid, started });
            }
            (Phase::Running(_), Input::Update(preview)) => {
                out.tell.push(Event::ToolUpdate(i, preview));
            }
            // An answer without having entered is an outcome of the preparation.
            (Phase::Entering(_), Input::Done(output, hash)) => {
                self.call(i).result = hash;
                self.conclude(i, Outcome::Tool(output), &mut out);
            }
            (Phase::Running(_), Input::Done(output, hash)) => {
                self.call(i).result = hash;
                self.ran(i, output, &mut out);
            }
            (Phase::After(_), Input::Judged(outcome)) => self.conclude(i, outcome, &mut out),
            (Phase::Judging(_), Input::Judged(outcome)) => self.end(i, &outcome, &mut out),
            (
                Phase::Fresh
                | Phase::Asking(_)
                | Phase::Ready
                | Phase::Entering(_)
                | Phase::Running(_)
                | Phase::After(_)
                | Phase::Judging(_)
                | Phase::Ended,
                Input::Gated(_)
                | Input::Entered
                | Input::Process { .. }
                | Input::LaunchRefused
                | Input::Update(_)
                | Input::Done(..)
                | Input::Judged(_),
            ) => return Err(Ignored::Mismatch),
        }
        self.advance(marks, &mut out);
        Ok(out)
    }

    fn admitted(&mut self, input: Input) -> Result<(), Ignored> {
        let Input::Gated(gate) = input else { return Err(Ignored::Mismatch) };
        self.stage = match gate {
            Gate::Block(reason) => Stage::Tail(0, Why::Blocked(reason)),
            Gate::Allow if self.serial => Stage::Serial(0),
            Gate::Allow => Stage::Prepare(0),
        };
        Ok(())
    }

    fn gated(&mut self, i: u16, gate: Gate, marks: Marks, out: &mut Yield) {
        match gate {
            Gate::Block(reason) => {
                self.conclude(i, Outcome::Unstarted(Unstarted::Blocked { reason }), out);
            }
            Gate::Allow if marks.abort => {
                self.conclude(i, Outcome::Unstarted(Unstarted::Aborted), out);
            }
            Gate::Allow => self.call(i).phase = Phase::Ready,
        }
    }

    /// Trace 25: from the refused call on, nothing is launched.
    fn refused(&mut self, i: u16, out: &mut Yield) {
        self.fatal = true;
        self.conclude(i, Outcome::Unstarted(Unstarted::Admission), out);
        for k in i + 1..self.len() {
            if self.phase(k) == Phase::Ready {
                self.conclude(k, Outcome::Unstarted(Unstarted::Admission), out);
            }
        }
    }

    fn ran(&mut self, i: u16, output: Arc<ToolOutput>, out: &mut Yield) {
        if !self.hooks.after_call {
            return self.conclude(i, Outcome::Tool(output), out);
        }
        let op = self.op();
        self.call(i).phase = Phase::After(op);
        // What is known is stored before a hook may change it, so that a crash cannot lose it.
        self.record(i, Outcome::Tool(Arc::clone(&output)), out);
        out.act.push(Act::AskAfter(op, i, Outcome::Tool(output)));
    }

    /// A call has an outcome; the hook behind every call sees it first.
    fn conclude(&mut self, i: u16, outcome: Outcome, out: &mut Yield) {
        if !self.hooks.after_outcome {
            return self.end(i, &outcome, out);
        }
        let op = self.op();
        self.call(i).phase = Phase::Judging(op);
        self.record(i, outcome.clone(), out);
        out.act.push(Act::AskOutcome(op, i, outcome));
    }

    fn record(&mut self, i: u16, outcome: Outcome, out: &mut Yield) {
        let warned = self.call(i).warned;
        out.append.push(Record::Outcome { call: i, outcome, warned });
    }

    fn end(&mut self, i: u16, outcome: &Outcome, out: &mut Yield) {
        self.record(i, outcome.clone(), out);
        let call = self.call(i);
        call.phase = Phase::Ended;
        call.terminate = outcome.terminates();
        let started = call.entered;
        out.tell.push(Event::ToolEnd { call: i, outcome: outcome.clone(), started });
    }

    fn store(&mut self, i: u16, out: &mut Yield) {
        if !self.calls[usize::from(i)].stored {
            self.call(i).stored = true;
            out.append.push(Record::Result(i));
            out.tell.push(Event::MessageStart(Who::Result(i)));
            out.tell.push(Event::MessageEnd(Who::Result(i)));
        }
    }

    /// Takes a call up: announced, judged, its gate asked.
    fn take_up(&mut self, i: u16, out: &mut Yield) {
        out.tell.push(Event::ToolStart(i));
        if self.calls[usize::from(i)].facts.rejected.is_some() {
            return self.conclude(i, Outcome::Unstarted(Unstarted::Rejected), out);
        }
        if self.hooks.before_call {
            let op = self.op();
            self.call(i).phase = Phase::Asking(op);
            out.act.push(Act::AskCall(op, i));
        } else {
            self.call(i).phase = Phase::Ready;
        }
    }

    fn launch(&mut self, i: u16, out: &mut Yield) {
        let op = self.op();
        self.call(i).phase = Phase::Entering(op);
        out.act.push(Act::RunTool(op, i));
    }

    /// Asserts what must hold of a batch whatever happens.
    pub fn check(&self) {
        assert!(!self.calls.is_empty(), "a batch without calls");
        for (i, call) in self.calls.iter().enumerate() {
            assert!(!call.stored || call.phase == Phase::Ended, "result before outcome");
            assert!(!call.entered || call.facts.rejected.is_none(), "a rejected call ran");
            if !self.serial {
                continue;
            }
            let later_busy = self.calls[i + 1..].iter().any(|c| c.phase != Phase::Fresh);
            let here_open = !matches!(call.phase, Phase::Ended);
            assert!(!(here_open && later_busy), "a serial batch ran two calls at once");
        }
        for (op, _) in self.open_ops() {
            assert!(op.0 < self.ops, "an operation from the future");
        }
        if self.returned() {
            assert!(self.calls.iter().all(|c| c.stored), "a batch returned without every result");
        }
    }
}

impl Why {
    fn unstarted(&self, i: u16) -> Unstarted {
        match self {
            Why::Steering => Unstarted::Steering,
            Why::Admission => Unstarted::Admission,
            Why::Abort => Unstarted::Aborted,
            Why::Blocked(reason) => Unstarted::Blocked { reason: reason.clone() },
            Why::Loop { trigger, finding, second } if *trigger == i => {
                Unstarted::Loop { finding: *finding, second: *second }
            }
            Why::Loop { second, .. } => Unstarted::LoopOther { second: *second },
        }
    }
}
