//! A run: its phases, and which input goes where (semantics 2.3). What happens between two waits
//! is in `flow`.

use super::batch::{self, Batch, Ignored, Marks};
use super::close::Attempts;
use super::compact::Compacting;
use super::flow::Flow;
use super::io::{
    Act, Assembled, Cause, Entry, Event, Fault, Hook, Input, Out, Reason, Record, Refusal, Setup,
    Step, Submit, Termination, sooner,
};
use super::loops::History;
use super::reply::{self, Cut};
use super::steer::{QueueKind, Queues};
use crate::base::limits::QUEUE_MAX;
use crate::base::{FailKind, Millis, MsgId, OpId, Rng};
use crate::transcript::User;
use std::sync::Arc;

/// Whether and by whom the run is being stopped. An abort is a mark that the tables read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mark {
    /// Nobody.
    #[default]
    Clear,
    /// Somebody, and when what it stops must have ended; `warned` once observers know it is slow.
    Stopping {
        /// Who.
        cause: Cause,
        /// When it was asked.
        since: Millis,
        /// Observers were told that it takes long.
        warned: bool,
    },
}

/// How the last reply ended, as far as the termination cares.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Last {
    /// In full, or there was none.
    #[default]
    Whole,
    /// Cut at the output limit.
    Cut,
    /// It failed.
    Failed(FailKind),
}

/// What a run carries through all its phases.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Core {
    /// Fixed options.
    pub setup: Setup,
    /// With or without prompts.
    pub entry: Entry,
    /// The next operation number.
    pub ops: u32,
    /// Turns begun.
    pub turn: u32,
    /// A turn was begun and not closed.
    pub turn_open: bool,
    /// The loop has begun: observers are owed an end.
    pub started: bool,
    /// Whether the run is being stopped.
    pub mark: Mark,
    /// Waiting messages.
    pub queues: Queues,
    /// The inner loop has more to do besides pending messages.
    pub has_more: bool,
    /// The turn that is open was opened by the entry (R5, first iteration).
    pub first: bool,
    /// The loop detector's memory.
    pub loops: History,
    /// A critical loop was seen in this prompt.
    pub critical_seen: bool,
    /// Retries of the current request.
    pub attempts: Attempts,
    /// Requests that were refused as too large since the last answer.
    pub overflows: u8,
    /// How the last reply ended.
    pub last: Last,
    /// When the run budget is spent.
    pub budget_due: Option<Millis>,
    /// Jitter.
    pub rng: Rng,
}

/// Where a run is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Nothing was submitted.
    Idle,
    /// It waits to become the session's writer.
    Claiming(OpId),
    /// It waits for its context.
    Assembling(OpId),
    /// It waits for a loop-level hook.
    Hooking(OpId, Hook),
    /// The history is being compacted.
    Compacting(Compacting),
    /// A model answers.
    Calling(reply::State),
    /// It waits before the next attempt; `shown` if observers know of the message already.
    Waiting {
        /// When it is made.
        due: Millis,
        /// Observers know of the message.
        shown: bool,
    },
    /// Tools are judged and run.
    Working(Batch),
    /// Over.
    Ended(Termination),
}

/// A run.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Run {
    /// What it carries.
    pub core: Core,
    /// Where it is.
    pub phase: Phase,
}

impl Default for Run {
    fn default() -> Run {
        Run { core: Core::new(&Setup::default(), Entry::Prompt, Millis(0)), phase: Phase::Idle }
    }
}

impl Core {
    fn new(setup: &Setup, entry: Entry, now: Millis) -> Core {
        let mut queues = Queues::default();
        queues.steer_mode = setup.steer_mode;
        queues.follow_mode = setup.follow_mode;
        let budget = setup.limits.budget_ms;
        Core {
            setup: *setup,
            entry,
            ops: 1,
            turn: 0,
            turn_open: false,
            started: false,
            mark: Mark::Clear,
            queues,
            has_more: false,
            first: true,
            loops: History::default(),
            critical_seen: false,
            attempts: Attempts::default(),
            overflows: 0,
            last: Last::Whole,
            budget_due: (budget > 0).then(|| now.plus(budget)),
            rng: Rng(setup.seed),
        }
    }

    /// A new operation.
    pub fn op(&mut self) -> OpId {
        let op = OpId(self.ops);
        self.ops += 1;
        op
    }

    /// Whether the run is being stopped.
    #[must_use]
    pub fn aborted(&self) -> bool {
        matches!(self.mark, Mark::Stopping { .. })
    }

    /// What a batch may know.
    #[must_use]
    pub fn marks(&self) -> Marks {
        Marks { abort: self.aborted(), steering: self.queues.steering() }
    }
}

impl Run {
    /// The name of the phase, as in `spec/run.tsv` and in listings.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        let settling = self.core.aborted();
        match &self.phase {
            Phase::Idle => "Idle",
            Phase::Claiming(_) => "Claiming",
            Phase::Assembling(_) => "Assembling",
            Phase::Hooking(..) => "Hooking",
            Phase::Compacting(_) => "Compacting",
            Phase::Calling(_) | Phase::Working(_) if settling => "Settling",
            Phase::Calling(_) => "Calling",
            Phase::Waiting { .. } => "Waiting",
            Phase::Working(batch) if batch.executing() => "Executing",
            Phase::Working(_) => "Admitting",
            Phase::Ended(_) => "Ended",
        }
    }

    /// How it ended, once it has.
    #[must_use]
    pub fn ended(&self) -> Option<&Termination> {
        match &self.phase {
            Phase::Ended(termination) => Some(termination),
            Phase::Idle
            | Phase::Claiming(_)
            | Phase::Assembling(_)
            | Phase::Hooking(..)
            | Phase::Compacting(_)
            | Phase::Calling(_)
            | Phase::Waiting { .. }
            | Phase::Working(_) => None,
        }
    }

    /// When it wants to be woken, and why.
    #[must_use]
    pub fn due(&self) -> Option<(Millis, Reason)> {
        let phase = match &self.phase {
            Phase::Idle | Phase::Ended(_) => return None,
            Phase::Calling(reply) => reply.due(),
            Phase::Waiting { due, .. } => Some((*due, Reason::Backoff)),
            Phase::Compacting(of) => of.due.map(|at| (at, Reason::Summary)),
            Phase::Claiming(_) | Phase::Assembling(_) | Phase::Hooking(..) | Phase::Working(_) => {
                None
            }
        };
        match self.core.mark {
            Mark::Clear => sooner(self.core.budget_due.map(|at| (at, Reason::Budget)), phase),
            Mark::Stopping { since, warned, .. } => {
                let settle = self.core.setup.limits.settle_ms;
                let slow = (!warned).then(|| (since.plus(settle * 2 / 3), Reason::AbortSlow));
                sooner(slow, sooner(Some((since.plus(settle), Reason::Settle)), phase))
            }
        }
    }

    /// Every operation that is open: an answer to one of these is awaited.
    #[must_use]
    pub fn open_ops(&self) -> Vec<OpId> {
        match &self.phase {
            Phase::Idle | Phase::Waiting { .. } | Phase::Ended(_) => vec![],
            Phase::Claiming(op) | Phase::Assembling(op) | Phase::Hooking(op, _) => vec![*op],
            Phase::Compacting(of) => vec![of.op],
            Phase::Calling(reply) => vec![reply.op()],
            Phase::Working(batch) => batch.open_ops().into_iter().map(|(op, _)| op).collect(),
        }
    }

    /// Whether an answer to this operation is awaited.
    #[must_use]
    pub fn is_open(&self, op: OpId) -> bool {
        match &self.phase {
            Phase::Idle | Phase::Waiting { .. } | Phase::Ended(_) => false,
            Phase::Claiming(open) | Phase::Assembling(open) | Phase::Hooking(open, _) => {
                *open == op
            }
            Phase::Compacting(of) => of.op == op,
            Phase::Calling(reply) => reply.op() == op,
            Phase::Working(batch) => batch.is_open(op),
        }
    }

    /// Asserts what must hold of a run whatever happens.
    pub fn check(&self) {
        self.core.queues.check();
        self.core.loops.check();
        let ops = if let Phase::Working(batch) = &self.phase {
            batch.check();
            assert!(!batch.returned(), "a returned batch was kept");
            batch.ops
        } else {
            self.core.ops
        };
        for op in self.open_ops() {
            assert!(op.0 < ops, "an operation from the future");
        }
        match &self.phase {
            Phase::Idle | Phase::Ended(_) => {
                assert!(!self.core.queues.has_pending(), "drained messages were left behind");
            }
            Phase::Calling(_) | Phase::Waiting { .. } | Phase::Working(_) => {
                assert!(self.core.started && self.core.turn_open, "work outside a turn");
            }
            Phase::Claiming(_) | Phase::Assembling(_) => {
                assert!(!self.core.started, "the loop began before its context");
            }
            Phase::Hooking(..) | Phase::Compacting(_) => {
                assert!(self.core.started, "a hook outside the loop");
            }
        }
    }
}

/// The one transition function: total, pure, and without effect on refusal.
pub fn step(state: Run, input: Input, now: Millis) -> Step {
    match (&state.phase, &input) {
        (Phase::Idle, Input::Submit(_)) => return submit(state, input, now),
        (Phase::Idle, _) => return Step::refuse(state, Refusal::NotStarted),
        // The commit that carried the end was refused: the end is another one, and is told now.
        (Phase::Ended(end), Input::Fenced(_) | Input::StoreFailed) if stored(end) => {}
        (Phase::Ended(_), _) => return Step::refuse(state, over(&input)),
        (_, Input::Submit(_)) => return Step::refuse(state, Refusal::Busy),
        (_, _) => {}
    }
    match input {
        Input::Submit(_) => Step::refuse(state, Refusal::Busy),
        Input::Claimed(op) => on_claimed(state, op, now),
        Input::Assembled(op, facts) => on_assembled(state, op, facts, now),
        Input::AssemblyFailed(op) => on_assembly_failed(state, op, now),
        Input::Hooked(op, verdict) => match state.phase {
            Phase::Hooking(open, hook) if open == op => {
                flow(state, now, |flow| flow.hooked(hook, verdict))
            }
            _ => stale(state, op),
        },
        Input::Compacted(op, what) => match state.phase {
            Phase::Compacting(of) if of.op == op => {
                flow(state, now, |flow| flow.compacted(of, what))
            }
            _ => stale(state, op),
        },
        Input::Reply(op, input) => on_reply(state, op, input, now),
        Input::Call(op, input) => on_call(state, op, input, now),
        Input::Message { id, kind, body } => on_message(state, id, kind, body),
        Input::Cancel(id) => on_cancel(state, id),
        Input::Abort(cause) => on_abort(state, cause, now),
        Input::Superseded(by) => {
            flow(state, now, |flow| flow.displaced(Termination::Superseded { by: Some(by) }))
        }
        Input::Fenced(why) => flow(state, now, |flow| flow.fenced(why)),
        Input::StoreFailed => {
            flow(state, now, |flow| flow.displaced(Termination::Failed { fault: Fault::Store }))
        }
        Input::Tick => on_tick(state, now),
    }
}

/// Whether an end was to be committed by the run itself.
fn stored(end: &Termination) -> bool {
    !matches!(end, Termination::Superseded { .. } | Termination::Failed { fault: Fault::Store })
}

fn over(input: &Input) -> Refusal {
    match input {
        Input::Claimed(op)
        | Input::Assembled(op, _)
        | Input::AssemblyFailed(op)
        | Input::Hooked(op, _)
        | Input::Compacted(op, _)
        | Input::Reply(op, _)
        | Input::Call(op, _) => Refusal::Stale(*op),
        Input::Submit(_)
        | Input::Message { .. }
        | Input::Cancel(_)
        | Input::Abort(_)
        | Input::Superseded(_)
        | Input::Fenced(_)
        | Input::StoreFailed
        | Input::Tick => Refusal::Over,
    }
}

/// An answer nobody waits for; a waiting one to another question is told apart.
fn stale(state: Run, op: OpId) -> Step {
    let open = state.is_open(op);
    Step::refuse(state, if open { Refusal::Mismatch(op) } else { Refusal::Stale(op) })
}

/// Runs the loop from where it is until it has to wait again.
fn flow(state: Run, now: Millis, go: impl FnOnce(Flow) -> (Run, Out)) -> Step {
    let (state, out) = go(Flow { core: state.core, phase: state.phase, out: Out::default(), now });
    Step { state, append: out.append, tell: out.tell, act: out.act, refused: None }
}

fn submit(state: Run, input: Input, now: Millis) -> Step {
    let Input::Submit(submit) = input else { return Step::refuse(state, Refusal::Busy) };
    let Submit { run, entry, prompts, waiting, setup } = *submit;
    let fits = prompts.len() <= QUEUE_MAX && waiting.len() <= QUEUE_MAX;
    if !fits || (entry == Entry::Continue) != prompts.is_empty() {
        return Step::refuse(state, Refusal::BadPrompts);
    }
    let mut core = Core::new(&setup, entry, now);
    let ids: Vec<MsgId> = prompts.iter().map(|(id, _)| *id).collect();
    core.queues.prompts(&ids);
    for (id, kind) in waiting {
        // What a former process accepted was within the limit then, and is checked above.
        let _fits = core.queues.push(id, kind);
    }
    let op = core.op();
    Step {
        state: Run { core, phase: Phase::Claiming(op) },
        append: vec![Record::Accepted { run, entry, prompts }, Record::Claim],
        tell: vec![Event::Accepted],
        act: vec![],
        refused: None,
    }
}

fn on_claimed(mut state: Run, op: OpId, _now: Millis) -> Step {
    if state.phase != Phase::Claiming(op) {
        return stale(state, op);
    }
    let next = state.core.op();
    state.phase = Phase::Assembling(next);
    let act = vec![Act::Assemble(next)];
    Step { state, append: vec![], tell: vec![], act, refused: None }
}

fn on_assembled(state: Run, op: OpId, facts: Assembled, now: Millis) -> Step {
    if state.phase != Phase::Assembling(op) {
        return stale(state, op);
    }
    if state.core.entry == Entry::Compact {
        return flow(state, now, Flow::enter_compact);
    }
    flow(state, now, |flow| flow.enter(facts))
}

fn on_assembly_failed(state: Run, op: OpId, now: Millis) -> Step {
    if state.phase != Phase::Assembling(op) {
        return stale(state, op);
    }
    flow(state, now, |flow| flow.displaced(Termination::Failed { fault: Fault::Assembly }))
}

fn on_reply(state: Run, op: OpId, input: reply::Input, now: Millis) -> Step {
    let Phase::Calling(reply) = state.phase else { return stale(state, op) };
    if reply.op() != op {
        return stale(state, op);
    }
    let stepped = reply.step(input, &state.core.setup.limits, now);
    if stepped.ignored {
        return Step::refuse(state, Refusal::Mismatch(op));
    }
    flow(state, now, |flow| flow.replied(stepped))
}

fn on_call(state: Run, op: OpId, input: batch::Input, now: Millis) -> Step {
    let Run { core, phase } = state;
    let mut batch = match phase {
        Phase::Working(batch) => batch,
        phase => return stale(Run { core, phase }, op),
    };
    // A batch that does not take an input has not changed.
    let stepped = batch.step(op, input, core.marks());
    let state = Run { core, phase: Phase::Idle };
    match stepped {
        Err(why) => {
            let refusal = match why {
                Ignored::Stale => Refusal::Stale(op),
                Ignored::Mismatch => Refusal::Mismatch(op),
            };
            Step::refuse(Run { phase: Phase::Working(batch), ..state }, refusal)
        }
        Ok(yielded) => flow(state, now, |flow| flow.worked(batch, yielded)),
    }
}

fn on_message(mut state: Run, id: MsgId, kind: QueueKind, body: Arc<User>) -> Step {
    if state.core.queues.holds(id) {
        return Step::refuse(state, Refusal::DuplicateMessage(id));
    }
    if !state.core.queues.push(id, kind) {
        return Step::refuse(state, Refusal::QueueFull);
    }
    let append = vec![Record::Queued { id, kind, body }];
    Step { state, append, tell: vec![], act: vec![], refused: None }
}

/// A waiting message goes at once; one that was drained is marked, and the next check drops it.
fn on_cancel(mut state: Run, id: MsgId) -> Step {
    let drained = state.core.queues.waiting().iter().any(|(m, _)| *m == id);
    let in_flight = state.core.queues.in_flight(id);
    if !drained || !state.core.queues.cancel(id) {
        return Step::refuse(state, Refusal::UnknownMessage(id));
    }
    let append = if in_flight { vec![] } else { vec![Record::Dropped(id)] };
    Step { state, append, tell: vec![], act: vec![], refused: None }
}

fn on_abort(mut state: Run, cause: Cause, now: Millis) -> Step {
    if state.core.aborted() {
        return Step::refuse(state, Refusal::Aborting);
    }
    state.core.mark = Mark::Stopping { cause, since: now, warned: false };
    flow(state, now, Flow::abort)
}

fn on_tick(mut state: Run, now: Millis) -> Step {
    let Some((_, reason)) = state.due().filter(|(at, _)| *at <= now) else {
        return Step::refuse(state, Refusal::Early);
    };
    match reason {
        Reason::Budget => {
            state.core.mark = Mark::Stopping { cause: Cause::Timeout, since: now, warned: false };
            flow(state, now, Flow::abort)
        }
        Reason::AbortSlow => {
            if let Mark::Stopping { warned, .. } = &mut state.core.mark {
                *warned = true;
            }
            let tell = vec![Event::AbortSlow];
            Step { state, append: vec![], tell, act: vec![], refused: None }
        }
        Reason::Settle => flow(state, now, Flow::give_up),
        Reason::Summary => match state.phase {
            Phase::Compacting(of) => flow(state, now, |flow| flow.cut_summary(of)),
            _ => Step::refuse(state, Refusal::Early),
        },
        Reason::Backoff => flow(state, now, Flow::call_again),
        Reason::FirstEvent | Reason::Idle | Reason::Progress => {
            let Phase::Calling(reply) = state.phase else {
                return Step::refuse(state, Refusal::Early);
            };
            let stepped = reply.tick(&state.core.setup.limits, now);
            flow(state, now, |flow| flow.replied(stepped))
        }
    }
}

/// The cut that an abort makes in a reply.
pub(super) fn abort_cut(reply: reply::State, setup: &Setup, now: Millis) -> reply::Step {
    reply.cut(Cut::Abort, &setup.limits, now)
}
