//! Samples of a run.

use crate::base::{FailKind, Failure, Millis, MsgId, OpId, RunId};
use crate::check::bench::Bench;
use crate::check::tables::{Row, acts, events, records};
use crate::engine::{
    Assembled, Cause, Compacted, Entry, FenceRefusal, Hook, Hooks, Input, Outcome, Phase,
    QueueKind, Refusal, Run, Setup, Submit, Trigger, Verdict, batch, reply, step,
};
use crate::sim::bodies::{self, CallShape, calls, text};
use crate::transcript::{Block, Delta, ReplyBody, StopReason, ToolOutput};
use std::sync::Arc;

pub const STATES: [&str; 11] = [
    "Idle",
    "Claiming",
    "Assembling",
    "Hooking",
    "Compacting",
    "Calling",
    "Waiting",
    "Admitting",
    "Executing",
    "Settling",
    "Ended",
];

pub const INPUTS: [&str; 15] = [
    "Submit",
    "Claimed",
    "Assembled",
    "AssemblyFailed",
    "Hooked",
    "Compacted",
    "Reply",
    "Call",
    "Message",
    "Cancel",
    "Abort",
    "Superseded",
    "Fenced",
    "StoreFailed",
    "Tick",
];

fn input_kind(input: &Input) -> &'static str {
    match input {
        Input::Submit(_) => "Submit",
        Input::Claimed(_) => "Claimed",
        Input::Assembled(..) => "Assembled",
        Input::AssemblyFailed(_) => "AssemblyFailed",
        Input::Hooked(..) => "Hooked",
        Input::Compacted(..) => "Compacted",
        Input::Reply(..) => "Reply",
        Input::Call(..) => "Call",
        Input::Message { .. } => "Message",
        Input::Cancel(_) => "Cancel",
        Input::Abort(_) => "Abort",
        Input::Superseded(_) => "Superseded",
        Input::Fenced(_) => "Fenced",
        Input::StoreFailed => "StoreFailed",
        Input::Tick => "Tick",
    }
}

fn hook_word(hook: Hook) -> &'static str {
    match hook {
        Hook::PrepareContinuation => "prepareContinuation",
        Hook::TransformContext => "transformContext",
        Hook::PrepareNextTurn => "prepareNextTurn",
        Hook::ShouldStop => "shouldStop",
        Hook::WeighRequest => "weighRequest",
        Hook::WeighHistory => "weighHistory",
    }
}

/// The kind of a run's state, with what tells its samples apart.
fn state_kind(run: &Run) -> String {
    let kind = run.kind();
    let word = match &run.phase {
        Phase::Hooking(_, hook) => hook_word(*hook),
        Phase::Compacting(of) => match of.why {
            Trigger::Threshold => "threshold",
            Trigger::After => "after",
            Trigger::Overflow => "overflow",
            Trigger::Manual => "manual",
        },
        Phase::Calling(reply::State::Opening(_)) => "opening",
        Phase::Calling(reply::State::Streaming(_)) => "streaming",
        Phase::Calling(reply::State::Cancelling(_)) => "cancelling",
        Phase::Working(batch) if batch.serial => "serial",
        Phase::Working(_) => "parallel",
        Phase::Idle
        | Phase::Claiming(_)
        | Phase::Assembling(_)
        | Phase::Waiting { .. }
        | Phase::Ended(_) => return kind.to_owned(),
    };
    format!("{kind}, {word}")
}

fn two() -> Arc<ReplyBody> {
    calls(&[CallShape::default(), CallShape { args: 1, ..CallShape::default() }])
}

fn hooks(set: impl FnOnce(&mut Hooks)) -> Setup {
    let mut setup = Setup::default();
    set(&mut setup.hooks);
    setup
}

fn submitted(entry: Entry) -> Bench {
    let mut b = Bench::new();
    b.submit(Setup::default(), entry, u64::from(entry != Entry::Continue));
    b
}

fn assembling(entry: Entry) -> Bench {
    let mut b = submitted(entry);
    b.feed(Input::Claimed(OpId(1)));
    b
}

fn streaming() -> Bench {
    let mut b = Bench::calling(Setup::default());
    b.feed(bodies::start(OpId(3)));
    b
}

fn running(setup: Setup, shape: CallShape, n: usize) -> Bench {
    let mut b = Bench::replied(setup, calls(&vec![shape; n]));
    let all = if shape.sequential { 1 } else { n };
    for op in (4..).take(all) {
        b.entered(op);
    }
    b
}

fn weighing() -> Bench {
    Bench::calling(hooks(|h| h.compaction = true))
}

fn fits() -> Bench {
    then(weighing(), |b| b.feed(Input::Hooked(OpId(3), Verdict::Go)))
}

fn after_weighed() -> Bench {
    then(fits(), |b| b.feed(bodies::finish(OpId(4), text("fine"))))
}

fn overflowed() -> Bench {
    then(fits(), |b| b.feed(failed(OpId(4), FailKind::ContextOverflow)))
}

fn compacting() -> Bench {
    then(assembling(Entry::Compact), |b| b.feed(Input::Assembled(OpId(2), Assembled::AfterUser)))
}

fn failed(op: OpId, kind: FailKind) -> Input {
    Input::Reply(op, reply::Input::Failed(Failure::new(kind, "x"), None))
}

/// A step more, after which the sample is taken.
fn then(mut b: Bench, more: impl FnOnce(&mut Bench)) -> Bench {
    more(&mut b);
    b
}

pub fn states() -> Vec<(&'static str, Bench)> {
    let off = Setup::default();
    let plain = CallShape::default();
    let lone = CallShape { sequential: true, ..plain };
    let next = hooks(|h| h.prepare_next_turn = true);
    let abort = |b: &mut Bench| b.feed(Input::Abort(Cause::User));
    let steer = |b: &mut Bench| b.steer(2);
    vec![
        ("", Bench::new()),
        ("", submitted(Entry::Prompt)),
        ("aborting", then(submitted(Entry::Prompt), abort)),
        ("prompt", assembling(Entry::Prompt)),
        ("prompt, steering waits", then(assembling(Entry::Prompt), steer)),
        ("continue", assembling(Entry::Continue)),
        ("continue, steering waits", then(assembling(Entry::Continue), steer)),
        ("aborting", then(assembling(Entry::Prompt), abort)),
        ("", Bench::calling(hooks(|h| h.prepare_continuation = true))),
        ("", Bench::calling(hooks(|h| h.transform_context = true))),
        ("", Bench::replied(next, text("fine"))),
        ("steering waits", then(Bench::replied(next, text("fine")), steer)),
        ("", Bench::replied(hooks(|h| h.should_stop = true), text("fine"))),
        ("", Bench::calling(off)),
        ("", streaming()),
        ("steering waits", then(streaming(), steer)),
        ("follow-up waits", then(streaming(), |b| b.message(2, QueueKind::FollowUp))),
        ("", then(Bench::calling(off), |b| b.feed(failed(OpId(3), FailKind::ServerError)))),
        ("shown", then(streaming(), |b| b.feed(failed(OpId(3), FailKind::ServerError)))),
        ("gate of the batch", Bench::replied(hooks(|h| h.before_batch = true), two())),
        ("gate of a call", Bench::replied(hooks(|h| h.before_call = true), two())),
        ("entering", Bench::replied(off, calls(&[plain]))),
        ("one of two", running(off, plain, 2)),
        ("last one", running(off, plain, 1)),
        ("last one, steering waits", then(running(off, plain, 1), steer)),
        (
            "hook behind the call",
            then(running(hooks(|h| h.after_call = true), plain, 1), |b| {
                b.done(4);
            }),
        ),
        ("one of two", running(off, lone, 2)),
        ("one of two, steering waits", then(running(off, lone, 2), steer)),
        ("", then(streaming(), abort)),
        ("last one", then(running(off, plain, 1), abort)),
        ("one of two", then(running(off, lone, 2), abort)),
        ("completed", Bench::replied(off, text("fine"))),
        ("compact", assembling(Entry::Compact)),
        ("", weighing()),
        ("", then(weighing(), |b| b.feed(Input::Hooked(OpId(3), Verdict::Stop)))),
        ("", after_weighed()),
        ("", then(after_weighed(), |b| b.feed(Input::Hooked(OpId(5), Verdict::Stop)))),
        ("", overflowed()),
        ("", compacting()),
        ("steering waits", then(compacting(), steer)),
    ]
}

fn said(words: &str, stop: StopReason) -> Arc<ReplyBody> {
    let message = bodies::assistant(vec![Block::text(words)], stop);
    Arc::new(ReplyBody::new(message, vec![], vec![]))
}

fn replies(op: OpId) -> Vec<(&'static str, Input)> {
    let reply = |input| Input::Reply(op, input);
    vec![
        ("alive", reply(reply::Input::Alive)),
        ("start", bodies::start(op)),
        ("text", reply(reply::Input::Delta(Delta::Text("x".into())))),
        ("done, text", bodies::finish(op, text("fine"))),
        ("done, calls", bodies::finish(op, two())),
        ("done, cut with text", bodies::finish(op, said("cut", StopReason::Length))),
        ("done, cut without text", bodies::finish(op, said("", StopReason::Length))),
        ("done, blank", bodies::finish(op, said(" ", StopReason::Stop))),
        ("failed, retryable", failed(op, FailKind::ServerError)),
        ("failed, for good", failed(op, FailKind::Auth)),
        ("failed, too large", failed(op, FailKind::ContextOverflow)),
    ]
}

fn works(op: OpId) -> Vec<(&'static str, Input)> {
    let last = ToolOutput { terminate: true, ..ToolOutput::text("last") };
    let ok = || Arc::new(ToolOutput::text("ok"));
    let all = vec![
        ("allow", batch::Input::Gated(batch::Gate::Allow)),
        ("block", batch::Input::Gated(batch::Gate::Block(None))),
        ("entered", batch::Input::Entered),
        ("process", batch::Input::Process { pgid: 7, started: 7 }),
        ("launch refused", batch::Input::LaunchRefused),
        ("update", batch::Input::Update(ok())),
        ("done", batch::Input::Done(ok(), 1)),
        ("done, terminates", batch::Input::Done(Arc::new(last), 1)),
        ("judged", batch::Input::Judged(Outcome::Tool(ok()))),
    ];
    all.into_iter().map(|(word, input)| (word, Input::Call(op, input))).collect()
}

fn submit(prompts: &[u64], entry: Entry) -> Input {
    let prompts = prompts.iter().map(|n| (MsgId(*n), bodies::user("hi"))).collect();
    let (run, setup) = (RunId::new("r1"), Setup::default());
    Input::Submit(Box::new(Submit { run, entry, prompts, waiting: vec![], setup }))
}

fn inputs(op: OpId) -> Vec<(&'static str, Input)> {
    let body = bodies::user("more");
    let message = |id, kind| Input::Message { id: MsgId(id), kind, body: Arc::clone(&body) };
    let mut all = vec![
        ("with a prompt", submit(&[1], Entry::Prompt)),
        ("to continue", submit(&[], Entry::Continue)),
        ("without the prompt", submit(&[], Entry::Prompt)),
        ("to compact", submit(&[1], Entry::Compact)),
        ("", Input::Claimed(op)),
        ("empty history", Input::Assembled(op, Assembled::EmptyHistory)),
        ("after the model", Input::Assembled(op, Assembled::AfterAssistant)),
        ("after a result", Input::Assembled(op, Assembled::AfterResult)),
        ("after a person", Input::Assembled(op, Assembled::AfterUser)),
        ("", Input::AssemblyFailed(op)),
        ("go", Input::Hooked(op, Verdict::Go)),
        ("stop", Input::Hooked(op, Verdict::Stop)),
        ("done", Input::Compacted(op, Compacted::Done(bodies::compaction()))),
        ("nothing to do", Input::Compacted(op, Compacted::Nothing("x".into()))),
        ("failed", Input::Compacted(op, Compacted::Failed("x".into()))),
    ];
    all.extend(replies(op));
    all.extend(works(op));
    all.extend([
        ("steering", message(8, QueueKind::Steer)),
        ("follow-up", message(9, QueueKind::FollowUp)),
        ("known already", message(2, QueueKind::Steer)),
        ("waiting", Input::Cancel(MsgId(2))),
        ("unknown", Input::Cancel(MsgId(77))),
        ("", Input::Abort(Cause::User)),
        ("", Input::Superseded(RunId::new("r2"))),
        ("entry missing", Input::Fenced(FenceRefusal::SessionEntryMissing)),
        ("rebound", Input::Fenced(FenceRefusal::SessionRebound { by: Some(RunId::new("r3")) })),
        ("", Input::StoreFailed),
    ]);
    all
}

fn refusal(why: &Refusal) -> String {
    match why {
        Refusal::Busy => "busy".into(),
        Refusal::Stale(_) => "stale".into(),
        Refusal::Over => "over".into(),
        Refusal::NotStarted => "not started".into(),
        Refusal::Early => "early".into(),
        Refusal::UnknownMessage(id) => format!("unknown message u{}", id.0),
        Refusal::DuplicateMessage(id) => format!("duplicate message u{}", id.0),
        Refusal::QueueFull => "queue full".into(),
        Refusal::Mismatch(_) => "mismatch".into(),
        Refusal::Aborting => "aborting".into(),
        Refusal::BadPrompts => "bad prompts".into(),
    }
}

fn row(run: &Run, guard: &str, input: Input, now: Millis) -> Row {
    let kind = input_kind(&input);
    let stepped = step(run.clone(), input, now);
    if stepped.refused.is_some() {
        assert_eq!(&stepped.state, run, "a refusal changes nothing");
        let (append, tell, act) = (&stepped.append, &stepped.tell, &stepped.act);
        assert!(append.is_empty() && tell.is_empty() && act.is_empty(), "a loud refusal");
    }
    stepped.state.check();
    Row {
        state: state_kind(run),
        input: kind.into(),
        guard: guard.into(),
        next: state_kind(&stepped.state),
        append: records(&stepped.append),
        tell: events(&stepped.tell),
        act: acts(&stepped.act),
        refused: stepped.refused.as_ref().map(refusal).unwrap_or_default(),
    }
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (guard, bench) in states() {
        let (run, now) = (&bench.run, bench.now);
        let words = |more: &str| {
            let all = [guard, more];
            all.into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>().join(", ")
        };
        let op = run.open_ops().first().copied().unwrap_or(OpId(99));
        for (word, input) in inputs(op) {
            rows.push(row(run, &words(word), input, now));
        }
        if !run.open_ops().is_empty() {
            rows.push(row(run, &words("no such operation"), Input::Claimed(OpId(99)), now));
        }
        rows.push(row(run, &words("not due"), Input::Tick, now));
        if let Some((at, reason)) = run.due() {
            rows.push(row(run, &words(&format!("due, {reason:?}")), Input::Tick, at));
        }
    }
    rows
}
