//! The exhaustive walk: breadth first over `step` from an idle run, every reachable shape once.
//!
//! What is folded away, so that the walk comes to an end: operation numbers (the place in the state
//! tells them apart), turn counts, jitter and the wait it makes, the time of the first attempt, the
//! budget's due time, the distance of a due time to now beyond what the limits can make of it, and
//! the loop detector, which is off here and has tests of its own. Results of tools are all alike.
//! Message names are told apart by their place in the queues, and used again once they are free.
//! So are facts that are overwritten before anything reads them: the entry once the loop has begun,
//! the former reply's end and whether there is more to do while a reply or a batch is under way,
//! the attempts outside a request, and whether a call asks for the end of a run that is stopping.
//! Nothing else is left out: a shape that differs in a mark, a queue or a phase is another shape.

use crate::base::{FailKind, Failure, Millis, MsgId, OpId, Rng, RunId};
use crate::engine::io::Limits;
use crate::engine::run::{Core, Last, Mark};
use crate::engine::steer::Queues;
use crate::engine::{
    Act, Assembled, Cause, Compacted, Drain, Entry, Event, Fault, FenceRefusal, Hooks, Input,
    Ledger, Outcome, Phase, QueueKind, Record, Run, Setup, Step, Submit, Termination, Verdict,
    batch, loops::History, reply, step,
};
use crate::sim::bodies::{self, CallShape, calls};
use crate::transcript::{Block, RejectKind, ReplyBody, StopReason, ToolOutput};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// What a walk goes through.
struct Plan {
    setup: Setup,
    bodies: Vec<Arc<ReplyBody>>,
    steers: u64,
}

/// A shape that was reached, and how.
struct Node {
    run: Run,
    now: Millis,
    from: Option<(usize, String)>,
}

struct Walk {
    plan: Plan,
    nodes: Vec<Node>,
    seen: HashMap<Run, usize>,
    edges: Vec<(u32, u32)>,
    refused: usize,
}

const SETTLE_MS: u64 = 15;

fn setup(hooks: Hooks) -> Setup {
    let limits = Limits {
        budget_ms: 1_000_000_000,
        first_event_ms: 10,
        idle_ms: 10,
        progress_ms: 0,
        settle_ms: SETTLE_MS,
    };
    Setup { hooks, loops_off: true, limits, ..Setup::default() }
}

fn everything() -> Hooks {
    Hooks {
        prepare_continuation: true,
        transform_context: true,
        prepare_next_turn: true,
        should_stop: true,
        before_batch: true,
        before_call: true,
        after_call: true,
        after_outcome: true,
        compaction: false,
    }
}

/// A time that is left, as far as it matters.
fn left(at: Millis, now: Millis) -> Millis {
    Millis(at.since(now))
}

/// The shape of a run: what its future depends on.
fn shape(run: &Run, now: Millis) -> Run {
    let mut run = run.clone();
    let core = &mut run.core;
    core.ops = 0;
    core.turn = 0;
    core.rng = Rng(0);
    core.loops = History::default();
    core.attempts.since = Millis(0);
    core.budget_due = core.budget_due.map(|_| Millis(0));
    core.queues = queue_shape(&core.queues, &core.setup);
    if let Mark::Stopping { since, .. } = &mut core.mark {
        *since = left(since.plus(SETTLE_MS), now);
    }
    if core.started {
        core.entry = Entry::Prompt;
    }
    if matches!(run.phase, Phase::Calling(_) | Phase::Waiting { .. } | Phase::Working(_)) {
        core.last = Last::Whole;
        core.has_more = false;
    }
    if !matches!(run.phase, Phase::Calling(_) | Phase::Waiting { .. }) {
        core.attempts = Run::default().core.attempts;
    }
    let stopping = core.aborted();
    match &mut run.phase {
        Phase::Idle | Phase::Ended(_) => {}
        Phase::Claiming(op) | Phase::Assembling(op) | Phase::Hooking(op, _) => *op = OpId(0),
        Phase::Compacting(of) => {
            of.op = OpId(0);
            of.due = of.due.map(|_| Millis(0));
        }
        Phase::Calling(state) => *state = reply_shape(*state, now),
        Phase::Waiting { due, .. } => *due = Millis(0),
        Phase::Working(batch) => {
            batch.ops = 0;
            if let batch::Stage::Admit(op) = &mut batch.stage {
                *op = OpId(0);
            }
            for call in &mut batch.calls {
                call.result = 0;
                call.terminate &= !stopping;
                match &mut call.phase {
                    batch::Phase::Fresh | batch::Phase::Ready | batch::Phase::Ended => {}
                    batch::Phase::Asking(op)
                    | batch::Phase::Entering(op)
                    | batch::Phase::Running(op)
                    | batch::Phase::After(op)
                    | batch::Phase::Judging(op) => *op = OpId(0),
                }
            }
        }
    }
    // What an ended run carries decides nothing any more, but its termination and its queues do.
    if matches!(run.phase, Phase::Ended(_)) {
        let queues = std::mem::take(&mut run.core.queues);
        run.core = Core { queues, ..Run::default().core };
    }
    run
}

/// The same queues with their messages named after their places.
fn queue_shape(queues: &Queues, setup: &Setup) -> Queues {
    let mut named = Queues::default();
    let taken_back = queues.clone().restore();
    named.steer_mode = Drain::All;
    named.follow_mode = Drain::All;
    for (n, (id, kind)) in (1..).zip(queues.waiting()) {
        let name = MsgId(n);
        let drained = queues.in_flight(id);
        if kind == QueueKind::Prompt && drained {
            named.prompts(&[name]);
        } else {
            assert!(named.push(name, kind));
            assert!(!drained || named.poll(kind));
        }
        assert!(!taken_back.contains(&id) || named.cancel(name));
    }
    named.steer_mode = setup.steer_mode;
    named.follow_mode = setup.follow_mode;
    named
}

fn reply_shape(state: reply::State, now: Millis) -> reply::State {
    match state {
        reply::State::Opening(s) => reply::State::Opening(reply::Opening {
            op: OpId(0),
            due: s.due.map(|at| left(at, now)),
            progress_due: s.progress_due.map(|at| left(at, now)),
            ..s
        }),
        reply::State::Streaming(s) => reply::State::Streaming(reply::Streaming {
            op: OpId(0),
            idle_due: s.idle_due.map(|at| left(at, now)),
            progress_due: s.progress_due.map(|at| left(at, now)),
            ..s
        }),
        reply::State::Cancelling(s) => {
            reply::State::Cancelling(reply::Cancelling { op: OpId(0), due: left(s.due, now), ..s })
        }
    }
}

fn said(content: Vec<Block>, stop: StopReason) -> Arc<ReplyBody> {
    Arc::new(ReplyBody::new(bodies::assistant(content, stop), vec![], vec![]))
}

/// One answer of each kind that does not fit the operation.
fn misfits(op: OpId) -> Vec<Input> {
    vec![
        Input::Claimed(op),
        Input::Assembled(op, Assembled::EmptyHistory),
        Input::AssemblyFailed(op),
        Input::Hooked(op, Verdict::Go),
        Input::Reply(op, reply::Input::Alive),
        Input::Call(op, batch::Input::Entered),
    ]
}

/// Every answer that somebody could give to an open operation, and some that nobody should.
fn answers(plan: &Plan, run: &Run, op: OpId) -> Vec<Input> {
    let mut all = misfits(op);
    match run.phase {
        Phase::Calling(_) => all.extend(models(plan, op)),
        Phase::Working(_) => all.extend(tools(op)),
        Phase::Compacting(_) => all.extend(compactions(op)),
        Phase::Idle
        | Phase::Claiming(_)
        | Phase::Assembling(_)
        | Phase::Hooking(..)
        | Phase::Waiting { .. }
        | Phase::Ended(_) => all.extend([
            Input::Assembled(op, Assembled::AfterAssistant),
            Input::Assembled(op, Assembled::AfterUser),
            Input::Hooked(op, Verdict::Stop),
        ]),
    }
    all
}

fn models(plan: &Plan, op: OpId) -> Vec<Input> {
    let failed = |kind| {
        let partial = bodies::assistant(vec![Block::text("so far")], StopReason::Error);
        Input::Reply(op, reply::Input::Failed(Failure::new(kind, "x"), Some(Arc::new(partial))))
    };
    let mut all = vec![
        bodies::start(op),
        bodies::delta(op, "x"),
        failed(FailKind::Empty),
        failed(FailKind::Auth),
    ];
    if plan.setup.hooks.compaction {
        all.push(failed(FailKind::ContextOverflow));
    }
    all.extend(plan.bodies.iter().map(|body| bodies::finish(op, Arc::clone(body))));
    all
}

/// What a worker says of a history.
fn compactions(op: OpId) -> Vec<Input> {
    let all = [
        Compacted::Done(bodies::compaction()),
        Compacted::Nothing("x".into()),
        Compacted::Failed("x".into()),
    ];
    all.into_iter().map(|what| Input::Compacted(op, what)).collect()
}

fn tools(op: OpId) -> Vec<Input> {
    let done = |output| batch::Input::Done(Arc::new(output), 0);
    let all = vec![
        batch::Input::Gated(batch::Gate::Allow),
        batch::Input::Gated(batch::Gate::Block(None)),
        batch::Input::Process { pgid: 7, started: 7 },
        batch::Input::LaunchRefused,
        batch::Input::Update(Arc::new(ToolOutput::text(".."))),
        done(ToolOutput::text("ok")),
        done(ToolOutput { terminate: true, ..ToolOutput::text("last") }),
        batch::Input::Judged(Outcome::Tool(Arc::new(ToolOutput::text("ok")))),
    ];
    all.into_iter().map(|input| Input::Call(op, input)).collect()
}

/// Everything that can happen to a run in this state, with the time at which it does.
fn inputs(plan: &Plan, run: &Run, now: Millis) -> Vec<(Input, Millis)> {
    let mut all = Vec::new();
    let submit = |entry, prompts: &[u64]| {
        let prompts = prompts.iter().map(|n| (MsgId(*n), bodies::user("hi"))).collect();
        let (run, setup) = (RunId::new("r1"), plan.setup);
        Input::Submit(Box::new(Submit { run, entry, prompts, waiting: vec![], setup }))
    };
    all.push(submit(Entry::Prompt, &[1]));
    all.push(submit(Entry::Continue, &[]));
    all.push(submit(Entry::Prompt, &[]));
    if plan.setup.hooks.compaction {
        all.push(submit(Entry::Compact, &[1]));
    }
    for op in run.open_ops() {
        all.extend(answers(plan, run, op));
    }
    all.extend(misfits(OpId(9_999)));
    let body = bodies::user("more");
    let free = |ids: std::ops::Range<u64>| ids.map(MsgId).find(|id| !run.core.queues.holds(*id));
    for (kind, ids) in [(QueueKind::Steer, 10..10 + plan.steers), (QueueKind::FollowUp, 20..21)] {
        if let Some(id) = free(ids) {
            all.push(Input::Message { id, kind, body: Arc::clone(&body) });
        }
    }
    for (id, kind) in run.core.queues.waiting() {
        all.push(Input::Cancel(id));
        all.push(Input::Message { id, kind, body: Arc::clone(&body) });
    }
    all.push(Input::Cancel(MsgId(99)));
    all.push(Input::Abort(Cause::User));
    all.push(Input::Abort(Cause::Handoff));
    all.push(Input::Superseded(RunId::new("r2")));
    all.push(Input::Fenced(FenceRefusal::SessionEntryMissing));
    all.push(Input::StoreFailed);
    let mut timed: Vec<_> = all.into_iter().map(|input| (input, now)).collect();
    timed.push((Input::Tick, now));
    if let Some((at, _)) = run.due().filter(|(at, _)| *at > now) {
        timed.push((Input::Tick, at));
    }
    timed
}

fn quotes(input: &Input) -> Option<OpId> {
    match input {
        Input::Claimed(op)
        | Input::Assembled(op, _)
        | Input::AssemblyFailed(op)
        | Input::Hooked(op, _)
        | Input::Compacted(op, _)
        | Input::Reply(op, _)
        | Input::Call(op, _) => Some(*op),
        Input::Submit(_)
        | Input::Message { .. }
        | Input::Cancel(_)
        | Input::Abort(_)
        | Input::Superseded(_)
        | Input::Fenced(_)
        | Input::StoreFailed
        | Input::Tick => None,
    }
}

impl Walk {
    fn new(plan: Plan) -> Walk {
        let run = Run::default();
        let now = Millis(1_000);
        let seen = HashMap::from([(shape(&run, now), 0)]);
        let nodes = vec![Node { run, now, from: None }];
        Walk { plan, nodes, seen, edges: vec![], refused: 0 }
    }

    fn path(&self, at: usize) -> String {
        let mut lines = Vec::new();
        let mut at = at;
        while let Some((before, input)) = &self.nodes[at].from {
            lines.push(format!("  {input}\n    -> {}", self.nodes[at].run.kind()));
            at = *before;
        }
        lines.reverse();
        lines.join("\n")
    }

    /// Walks until there is nothing new.
    fn run(&mut self) {
        let mut next = VecDeque::from([0]);
        while let Some(at) = next.pop_front() {
            let before = self.nodes[at].run.clone();
            let now = self.nodes[at].now;
            let mut answered = Vec::new();
            for (input, time) in inputs(&self.plan, &before, now) {
                let told = brief(&input, time.since(now));
                let quoted = quotes(&input);
                let tick = input == Input::Tick;
                let checked = std::panic::catch_unwind(|| {
                    let stepped = step(before.clone(), input, time);
                    judge(&before, &stepped, tick.then_some(time));
                    stepped
                });
                let Ok(stepped) = checked else {
                    panic!("the last of these breaks it:\n{}\n  {told}", self.path(at));
                };
                if stepped.refused.is_some() {
                    self.refused += 1;
                    continue;
                }
                answered.extend(quoted);
                let key = shape(&stepped.state, time);
                let fresh = self.nodes.len();
                let to = *self.seen.entry(key).or_insert(fresh);
                if to == fresh {
                    let from = Some((at, told));
                    self.nodes.push(Node { run: stepped.state, now: time, from });
                    next.push_back(fresh);
                }
                self.edges.push((small(at), small(to)));
            }
            for op in before.open_ops() {
                assert!(answered.contains(&op), "nobody can answer {op:?}:\n{}", self.path(at));
            }
        }
    }

    /// From every shape the run can come to its end.
    fn ends(&self) {
        let mut back = vec![Vec::new(); self.nodes.len()];
        for (from, to) in &self.edges {
            back[*to as usize].push(*from);
        }
        let ended = |n: &usize| self.nodes[*n].run.ended().is_some();
        let mut todo: Vec<usize> = (0..self.nodes.len()).filter(ended).collect();
        let mut good = vec![false; self.nodes.len()];
        while let Some(at) = todo.pop() {
            if !std::mem::replace(&mut good[at], true) {
                todo.extend(back[at].iter().map(|n| *n as usize));
            }
        }
        if let Some(stuck) = good.iter().position(|g| !g) {
            panic!("no way to an end from here:\n{}", self.path(stuck));
        }
    }

    /// Says how far it went; every phase, stage and termination in reach was met.
    fn report(&self, name: &str) -> (usize, usize) {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for node in &self.nodes {
            *kinds.entry(node.run.kind()).or_default() += 1;
        }
        let (shapes, edges) = (self.nodes.len(), self.edges.len());
        eprintln!("walk {name}: {shapes} shapes, {edges} edges, {} refusals", self.refused);
        eprintln!("  {kinds:?}");
        (shapes, edges)
    }

    fn terminations(&self) -> Vec<Termination> {
        let mut all: Vec<Termination> = Vec::new();
        for end in self.nodes.iter().filter_map(|n| n.run.ended()) {
            if !all.contains(end) {
                all.push(end.clone());
            }
        }
        all
    }
}

fn small(n: usize) -> u32 {
    u32::try_from(n).expect("fewer shapes than that")
}

fn brief(input: &Input, waited: u64) -> String {
    let text: String = format!("{input:?}").chars().take(90).collect();
    if waited > 0 { format!("{text} after {waited} ms") } else { text }
}

/// What holds of every step.
fn judge(before: &Run, stepped: &Step, tick: Option<Millis>) {
    let Step { state, append, tell, act, refused } = stepped;
    state.check();
    match (state.due(), &state.phase) {
        (None, Phase::Idle | Phase::Ended(_)) => {}
        (None, phase) => panic!("{phase:?} is never woken"),
        (Some(_), phase) => assert!(!matches!(phase, Phase::Idle | Phase::Ended(_)), "woken"),
    }
    if let Some(at) = tick {
        let due = before.due().is_some_and(|(due, _)| due <= at);
        assert_eq!(due, refused.is_none(), "a tick is taken when something is due, not else");
    }
    if refused.is_some() {
        assert!(append.is_empty() && tell.is_empty() && act.is_empty(), "a loud refusal");
        assert!(state == before, "a refusal changed the state");
        return;
    }
    told(before, state, append, tell);
    let open = state.open_ops();
    for act in act {
        match act {
            Act::CancelModel(_)
            | Act::CancelTool(_)
            | Act::CancelCompact(_)
            | Act::CutSummary(_) => {}
            Act::Assemble(op)
            | Act::Compact(op, _)
            | Act::AskHook(op, _)
            | Act::CallModel(op)
            | Act::AskBatch(op)
            | Act::AskCall(op, _)
            | Act::RunTool(op, _)
            | Act::AskAfter(op, ..)
            | Act::AskOutcome(op, ..) => assert!(open.contains(op), "nobody waits for {act:?}"),
        }
    }
    recorded(before, state, append);
}

/// Turns and the run itself are told in balance. Semantics leave two turns unbalanced: one whose
/// every message was taken back (R2x, R6), and one whose launch was refused (R21).
fn told(before: &Run, state: &Run, append: &[Record], tell: &[Event]) {
    let count = |is: fn(&Event) -> bool| tell.iter().filter(|e| is(e)).count();
    let starts = count(|e| matches!(e, Event::TurnStart));
    let ends = count(|e| matches!(e, Event::TurnEnd { .. }));
    let open = |run: &Run| usize::from(run.core.turn_open && run.ended().is_none());
    let dropped = append.iter().any(|r| matches!(r, Record::Dropped(_)));
    let refused = state.ended() == Some(&Termination::Failed { fault: Fault::Launch });
    // An end whose commit was refused takes its words with it; only the other end is told.
    let anew = before.ended().is_some();
    if !dropped && !refused && !anew {
        assert_eq!(open(before) + starts, open(state) + ends, "turns are told out of balance");
    }
    let over = usize::from(state.ended().is_some());
    assert_eq!(count(|e| matches!(e, Event::Ended(_))), over, "the end is told once");
    let started = state.core.started;
    assert_eq!(count(|e| matches!(e, Event::AgentEnd)), over * usize::from(started));
    let begins = usize::from(started && !before.core.started);
    assert_eq!(count(|e| matches!(e, Event::AgentStart)), begins);
}

/// 11: what the log tells is what the run is.
fn recorded(before: &Run, state: &Run, append: &[Record]) {
    let silent =
        matches!(state.ended(), Some(Termination::Superseded { .. } | Termination::Failed { .. }));
    let mut ledger = Ledger::of(before);
    for record in append {
        ledger.apply(record);
    }
    let now = Ledger::of(state);
    assert!(silent || ledger.agrees(&now), "the log says {ledger:?}, the run is {now:?}");
}

fn shapes(calls: &[(bool, bool)]) -> Vec<CallShape> {
    let shape = |(sequential, rejected): &(bool, bool)| CallShape {
        sequential: *sequential,
        rejected: rejected.then_some(RejectKind::Unknown),
        ..CallShape::default()
    };
    calls.iter().map(shape).collect()
}

/// Every shape of a run without hooks: batches of three, parallel and serial, one call rejected.
#[test]
fn every_shape_without_hooks() {
    const PLAIN: (bool, bool) = (false, false);
    const LONE: (bool, bool) = (true, false);
    const WRONG: (bool, bool) = (false, true);
    let bodies = vec![
        bodies::text("fine"),
        said(vec![Block::text("cut")], StopReason::Length),
        said(vec![], StopReason::Length),
        said(vec![Block::text(" ")], StopReason::Stop),
        calls(&shapes(&[PLAIN, PLAIN, PLAIN])),
        calls(&shapes(&[PLAIN, WRONG, PLAIN, PLAIN])),
        calls(&shapes(&[LONE, PLAIN, WRONG])),
        calls(&shapes(&[LONE, LONE, LONE])),
    ];
    let mut walk = Walk::new(Plan { setup: setup(Hooks::default()), bodies, steers: 2 });
    walk.run();
    walk.ends();
    let (shapes, edges) = walk.report("without hooks");
    assert!(shapes > 1_000 && edges > 10_000, "{shapes} shapes, {edges} edges: it fell short");
    let ends = walk.terminations();
    for end in [
        Termination::Completed { cut: false },
        Termination::Completed { cut: true },
        Termination::Aborted { cause: Cause::User },
        Termination::Aborted { cause: Cause::Handoff },
        Termination::Aborted { cause: Cause::Timeout },
        Termination::ProviderError { fail: FailKind::Auth },
        Termination::ProviderError { fail: FailKind::Empty },
        Termination::ProviderError { fail: FailKind::Length },
        Termination::Superseded { by: Some(RunId::new("r2")) },
        Termination::Superseded { by: None },
        Termination::Failed { fault: Fault::Store },
        Termination::Failed { fault: Fault::Assembly },
        Termination::Failed { fault: Fault::NotContinuable },
        Termination::Failed { fault: Fault::Launch },
    ] {
        assert!(ends.contains(&end), "{end:?} was not reached");
    }
}

/// Every shape of a run with every hook asked: batches of two and three.
#[test]
fn every_shape_with_all_hooks() {
    let bodies = vec![
        bodies::text("fine"),
        calls(&shapes(&[(false, false), (false, true)])),
        calls(&shapes(&[(false, false), (false, false), (false, false)])),
        calls(&shapes(&[(true, false), (false, false)])),
    ];
    let mut walk = Walk::new(Plan { setup: setup(everything()), bodies, steers: 2 });
    walk.run();
    walk.ends();
    let (shapes, edges) = walk.report("with all hooks");
    assert!(shapes > 1_000 && edges > 10_000, "{shapes} shapes, {edges} edges: it fell short");
    let rules = walk.terminations();
    let stops = rules.iter().filter(|t| matches!(t, Termination::PolicyStop { .. })).count();
    assert_eq!(stops, 2, "both rules end a run: {rules:?}");
}

/// Every shape of a run whose history is compacted: before a request, after the run, because of an
/// overflow, on demand.
#[test]
fn every_shape_with_compaction() {
    let bodies = vec![bodies::text("fine"), calls(&shapes(&[(false, false), (false, false)]))];
    let hooks = Hooks { compaction: true, ..Hooks::default() };
    let mut walk = Walk::new(Plan { setup: setup(hooks), bodies, steers: 2 });
    walk.run();
    walk.ends();
    let (shapes, edges) = walk.report("with compaction");
    assert!(shapes > 1_000 && edges > 10_000, "{shapes} shapes, {edges} edges: it fell short");
    let ends = walk.terminations();
    for end in [
        Termination::Completed { cut: false },
        Termination::Aborted { cause: Cause::User },
        Termination::ProviderError { fail: FailKind::ContextOverflow },
        Termination::Failed { fault: Fault::Assembly },
    ] {
        assert!(ends.contains(&end), "{end:?} was not reached");
    }
}
