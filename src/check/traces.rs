//! The 25 traces of semantics 2.6, each a snapshot named after its number.

use super::bench::Bench;
use crate::base::{FailKind, Failure, OpId, RunId};
use crate::engine::replay::Interruption;
use crate::engine::{
    Assembled, Cause, Entry, Hook, Hooks, Input, QueueKind, Setup, Termination, Verdict, batch,
    reply,
};
use crate::sim::bodies::{self, CallShape, calls, text};
use crate::transcript::{RejectKind, ToolOutput};
use std::sync::Arc;

fn parallel(n: usize) -> Arc<crate::transcript::ReplyBody> {
    let shapes: Vec<CallShape> =
        (0..n).map(|i| CallShape { args: i as u64, ..CallShape::default() }).collect();
    calls(&shapes)
}

fn serial(n: usize) -> Arc<crate::transcript::ReplyBody> {
    calls(&vec![CallShape { sequential: true, ..CallShape::default() }; n])
}

fn hooks(set: impl FnOnce(&mut Hooks)) -> Setup {
    let mut setup = Setup::default();
    set(&mut setup.hooks);
    setup
}

/// Enters every launched tool of a parallel batch whose operations are these, in order.
fn enter_all(bench: &mut Bench, ops: std::ops::RangeInclusive<u32>) {
    for op in ops {
        bench.entered(op);
    }
}

#[test]
fn trace_01_plain_reply() {
    let mut b = Bench::calling(Setup::default());
    let op = b.op();
    b.feed(bodies::start(op));
    b.feed(bodies::delta(op, "hel"));
    b.feed(bodies::delta(op, "lo"));
    b.feed(bodies::finish(op, text("hello")));
    b.matches("trace_01_plain_reply");
}

#[test]
fn trace_02_one_tool() {
    let mut b = Bench::replied(Setup::default(), parallel(1));
    b.entered(4);
    b.feed(Input::Call(OpId(4), batch::Input::Update(Arc::new(ToolOutput::text("..")))));
    b.done(4);
    b.reply(text("done"));
    b.matches("trace_02_one_tool");
}

#[test]
fn trace_03_parallel_completion_order() {
    let mut b = Bench::replied(Setup::default(), parallel(3));
    enter_all(&mut b, 4..=6);
    for op in [6, 4, 5] {
        b.done(op);
    }
    b.matches("trace_03_parallel_completion_order");
}

/// B117: an unknown tool beside valid calls has its own error result, and the loop goes on.
#[test]
fn trace_04_b117_parallel_with_unknown_tool() {
    let unknown = CallShape { rejected: Some(RejectKind::Unknown), ..CallShape::default() };
    let shapes = [CallShape::default(), unknown, CallShape::default()];
    let mut b = Bench::replied(Setup::default(), calls(&shapes));
    enter_all(&mut b, 4..=5);
    b.done(4);
    b.done(5);
    b.matches("trace_04_parallel_with_unknown_tool");
}

#[test]
fn trace_05_sequential() {
    let mut b = Bench::replied(Setup::default(), serial(2));
    b.entered(4);
    b.done(4);
    b.entered(5);
    b.done(5);
    b.matches("trace_05_sequential");
}

#[test]
fn trace_06_steering_before_the_round() {
    let mut b = Bench::new();
    b.submit(Setup::default(), Entry::Prompt, 1);
    b.steer(2);
    b.feed(Input::Claimed(OpId(1)));
    b.feed(Input::Assembled(OpId(2), Assembled::EmptyHistory));
    b.matches("trace_06_steering_before_the_round");
}

#[test]
fn trace_07_steering_before_a_parallel_launch() {
    let mut b = Bench::calling(Setup::default());
    b.feed(bodies::start(OpId(3)));
    b.steer(2);
    b.feed(bodies::finish(OpId(3), parallel(2)));
    b.matches("trace_07_steering_before_a_parallel_launch");
}

/// B025: what has been launched runs on; the message comes after every result.
#[test]
fn trace_08_b025_steering_mid_batch_parallel() {
    let mut b = Bench::replied(Setup::default(), parallel(3));
    enter_all(&mut b, 4..=6);
    b.steer(2);
    for op in 4..=6 {
        b.done(op);
    }
    b.matches("trace_08_steering_mid_batch_parallel");
}

/// B025: in a serial batch the calls that had not begun get explicit skipped results.
#[test]
fn trace_09_b025_steering_mid_batch_sequential() {
    let mut b = Bench::replied(Setup::default(), serial(3));
    b.entered(4);
    b.steer(2);
    b.done(4);
    b.matches("trace_09_steering_mid_batch_sequential");
}

#[test]
fn trace_10_steering_after_the_batch() {
    let mut b = Bench::replied(hooks(|h| h.prepare_next_turn = true), parallel(1));
    b.entered(4);
    b.done(4);
    b.steer(2);
    let op = b.op();
    b.feed(Input::Hooked(op, Verdict::Go));
    b.matches("trace_10_steering_after_the_batch");
}

#[test]
fn trace_11_steering_after_a_final_reply() {
    let mut b = Bench::calling(Setup::default());
    b.feed(bodies::start(OpId(3)));
    b.steer(2);
    b.feed(bodies::finish(OpId(3), text("answer")));
    b.reply(text("answer to the second"));
    b.matches("trace_11_steering_after_a_final_reply");
}

#[test]
fn trace_12_follow_up() {
    let mut b = Bench::calling(Setup::default());
    b.message(2, QueueKind::FollowUp);
    b.reply(text("first"));
    b.reply(text("second"));
    b.matches("trace_12_follow_up");
}

#[test]
fn trace_13_abort_during_stream() {
    let mut b = Bench::calling(Setup::default());
    b.feed(bodies::start(OpId(3)));
    b.feed(bodies::delta(OpId(3), "half an ans"));
    b.feed(Input::Abort(Cause::User));
    let partial = Arc::new(text("half an ans").message.clone());
    let failure = Failure::new(FailKind::Network, "cut");
    b.feed(Input::Reply(OpId(3), reply::Input::Failed(failure, Some(partial))));
    b.matches("trace_13_abort_during_stream");
}

/// B015: the cancelled call has its result, so the history can be continued.
#[test]
fn trace_14_b015_abort_during_tools_parallel() {
    let mut b = Bench::replied(Setup::default(), parallel(3));
    b.entered(4);
    b.feed(Input::Abort(Cause::User));
    b.feed(Input::Call(
        OpId(5),
        batch::Input::Done(Arc::new(ToolOutput::error("Operation aborted")), 0),
    ));
    b.done(4);
    b.matches("trace_14_abort_during_tools_parallel");
}

#[test]
fn trace_15_abort_between_turns() {
    let mut b = Bench::replied(hooks(|h| h.prepare_next_turn = true), parallel(1));
    b.entered(4);
    b.done(4);
    b.feed(Input::Abort(Cause::User));
    b.matches("trace_15_abort_between_turns");
}

#[test]
fn trace_16_abort_before_the_first_model_call() {
    let mut b = Bench::new();
    b.submit(Setup::default(), Entry::Prompt, 1);
    b.feed(Input::Abort(Cause::User));
    b.feed(Input::Claimed(OpId(1)));
    b.feed(Input::Assembled(OpId(2), Assembled::EmptyHistory));
    b.matches("trace_16_abort_before_the_first_model_call");
}

#[test]
fn trace_17_provider_error_before_the_first_token() {
    let mut b = Bench::calling(Setup::default());
    let failure = Failure::new(FailKind::Auth, "bad key");
    b.feed(Input::Reply(OpId(3), reply::Input::Failed(failure, None)));
    b.matches("trace_17_provider_error_before_the_first_token");
}

#[test]
fn trace_18_provider_error_mid_stream() {
    let mut b = Bench::calling(Setup::default());
    b.feed(bodies::start(OpId(3)));
    b.feed(bodies::delta(OpId(3), "so far"));
    let failure = Failure::new(FailKind::Format, "bad frame");
    let partial = Some(Arc::new(parallel(1).message.clone()));
    b.feed(Input::Reply(OpId(3), reply::Input::Failed(failure, partial)));
    b.matches("trace_18_provider_error_mid_stream");
    let stored = format!("{:?}", b.messages);
    assert!(!stored.contains("ToolCall"), "a failed message kept its calls");
}

#[test]
fn trace_19_terminal_tools() {
    let mut b = Bench::replied(Setup::default(), parallel(2));
    enter_all(&mut b, 4..=5);
    for op in [4, 5] {
        let output = ToolOutput { terminate: true, ..ToolOutput::text("final") };
        b.feed(Input::Call(OpId(op), batch::Input::Done(Arc::new(output), 0)));
    }
    b.matches("trace_19_terminal_tools");
}

#[test]
fn trace_20_should_stop_after_turn() {
    let mut b = Bench::calling(hooks(|h| h.should_stop = true));
    b.message(2, QueueKind::FollowUp);
    b.reply(text("enough"));
    b.steer(3);
    let op = b.op();
    b.feed(Input::Hooked(op, Verdict::Stop));
    b.matches("trace_20_should_stop_after_turn");
    assert_eq!(b.run.core.queues.waiting().len(), 2, "both stay queued");
}

#[test]
fn trace_21_prepare_next_turn_stops() {
    let mut b = Bench::calling(hooks(|h| h.prepare_next_turn = true));
    b.message(2, QueueKind::FollowUp);
    b.reply(text("enough"));
    b.steer(3);
    let op = b.op();
    b.feed(Input::Hooked(op, Verdict::Stop));
    b.matches("trace_21_prepare_next_turn_stops");
    assert_eq!(b.run.core.queues.waiting().len(), 1, "the follow-up stays queued");
}

/// Drives a run through twenty identical rounds, quietly, and starts the lines anew.
fn looping() -> Bench {
    let mut b = Bench::calling(Setup::default());
    for _ in 0..20 {
        b.reply(parallel(1));
        let op = b.op();
        b.feed(Input::Call(op, batch::Input::Entered));
        b.feed(bodies::done(op, "same"));
    }
    b.quiet();
    b
}

#[test]
fn trace_22_first_critical_tool_loop() {
    let mut b = looping();
    b.reply(parallel(2));
    b.reply(text("I see"));
    b.matches("trace_22_first_critical_tool_loop");
}

#[test]
fn trace_23_second_critical_tool_loop() {
    let mut b = looping();
    b.reply(parallel(1));
    b.quiet();
    b.reply(parallel(1));
    b.matches("trace_23_second_critical_tool_loop");
    assert_eq!(b.run.ended(), Some(&Termination::ToolLoop));
}

#[test]
fn trace_24_superseded() {
    let mut b = Bench::replied(Setup::default(), parallel(2));
    b.entered(4);
    b.quiet();
    b.feed(Input::Superseded(RunId::new("r2")));
    b.close_interrupted(Interruption::TakenOver);
    b.matches("trace_24_superseded");
}

#[test]
fn trace_25_fatal_launch_refusal() {
    let mut b = Bench::replied(Setup::default(), parallel(3));
    b.entered(4);
    b.feed(Input::Call(OpId(5), batch::Input::LaunchRefused));
    b.done(4);
    b.matches("trace_25_fatal_launch_refusal");
}

/// The hook points are asked in the order of the tables, each once.
#[test]
fn every_hook_point_is_asked() {
    let all = Hooks {
        prepare_continuation: true,
        transform_context: true,
        prepare_next_turn: true,
        compaction: false,
        should_stop: true,
        before_batch: true,
        before_call: true,
        after_call: true,
        after_outcome: true,
    };
    let mut b = Bench::calling(Setup { hooks: all, ..Setup::default() });
    for hook in [Hook::PrepareContinuation, Hook::TransformContext] {
        assert!(matches!(b.run.phase, crate::engine::Phase::Hooking(_, h) if h == hook));
        let op = b.op();
        b.feed(Input::Hooked(op, Verdict::Go));
    }
    b.reply(parallel(1));
    for _ in 0..2 {
        let op = b.op();
        b.feed(Input::Call(op, batch::Input::Gated(batch::Gate::Allow)));
    }
    let op = b.op();
    b.feed(Input::Call(op, batch::Input::Entered));
    b.done(op.0);
    for text in ["after", "outcome"] {
        let op = b.op();
        let outcome = crate::engine::Outcome::Tool(Arc::new(ToolOutput::text(text)));
        b.feed(Input::Call(op, batch::Input::Judged(outcome)));
    }
    for _ in 0..2 {
        let op = b.op();
        b.feed(Input::Hooked(op, Verdict::Go));
    }
    b.matches("every_hook_point");
}
