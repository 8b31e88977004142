//! Ends, time limits, retries: what a run owes to those who watch it, by tables.

use super::bench::Bench;
use super::samples;
use crate::base::limits::UNUSABLE_MAX;
use crate::base::{FailKind, Failure, OpId, RunId};
use crate::engine::io::{PolicyRule, Reason};
use crate::engine::{
    Cause, Entry, Event, Fault, FenceRefusal, Hooks, Input, Outcome, Record, Refusal, Setup,
    Termination, Verdict, Who, batch, reply,
};
use crate::sim::bodies::{self, CallShape, calls, text};
use crate::transcript::{Block, Delta, Message, ReplyBody, StopReason, ToolOutput};
use std::sync::Arc;

fn fails(b: &mut Bench, kind: FailKind) {
    let op = b.op();
    b.feed(Input::Reply(op, reply::Input::Failed(Failure::new(kind, "x"), None)));
}

/// Time passes until the next appointment, which is kept.
fn wait(b: &mut Bench) -> Reason {
    let (at, reason) = b.run.due().expect("something is due");
    b.now = b.now.max(at);
    b.feed(Input::Tick);
    reason
}

fn said(words: &str, stop: StopReason) -> Arc<ReplyBody> {
    let message = bodies::assistant(vec![Block::text(words)], stop);
    Arc::new(ReplyBody::new(message, vec![], vec![]))
}

fn count(b: &Bench, is: impl Fn(&Event) -> bool) -> usize {
    b.events.iter().filter(|e| is(e)).count()
}

fn resets(b: &Bench) -> usize {
    count(b, |e| matches!(e, Event::MessageReset))
}

fn hooks(set: impl FnOnce(&mut Hooks)) -> Setup {
    let mut setup = Setup::default();
    set(&mut setup.hooks);
    setup
}

fn streaming() -> Bench {
    let mut b = Bench::calling(Setup::default());
    b.feed(bodies::start(OpId(3)));
    b
}

fn running() -> Bench {
    let mut b = Bench::replied(Setup::default(), calls(&[CallShape::default()]));
    b.entered(4);
    b
}

const FAIL_KINDS: [FailKind; 21] = [
    FailKind::Auth,
    FailKind::Billing,
    FailKind::RateLimit,
    FailKind::Overloaded,
    FailKind::ServerError,
    FailKind::Timeout,
    FailKind::Network,
    FailKind::Tls,
    FailKind::Format,
    FailKind::ContextOverflow,
    FailKind::ModelNotFound,
    FailKind::Refusal,
    FailKind::Incomplete,
    FailKind::MalformedResponse,
    FailKind::MalformedCalls,
    FailKind::Empty,
    FailKind::FirstEvent,
    FailKind::Idle,
    FailKind::Length,
    FailKind::TooLarge,
    FailKind::Unknown,
];

/// B101: keep-alives serve the idle watchdog; silence does not.
#[test]
fn b101_keep_alives_serve_the_idle_watchdog() {
    let mut b = streaming();
    let idle = Setup::default().limits.idle_ms;
    for _ in 0..4 {
        b.now = b.now.plus(idle - 1);
        b.feed(Input::Reply(OpId(3), reply::Input::Alive));
        assert_eq!(b.offer(Input::Tick), Some(Refusal::Early));
    }
    assert_eq!(wait(&mut b), Reason::Idle);
    fails(&mut b, FailKind::Network);
    // The window for retries opens with the failure, however long the silence was.
    assert_eq!(count(&b, |e| matches!(e, Event::Retry { .. })), 1);
    assert_eq!(b.run.kind(), "Waiting");
}

/// B101: a line kept alive without a word of content is cut all the same, later.
#[test]
fn b101_keep_alives_alone_are_no_progress() {
    let mut b = streaming();
    let limits = Setup::default().limits;
    for _ in 0..limits.progress_ms / limits.idle_ms * 2 {
        b.now = b.now.plus(limits.idle_ms / 2);
        if b.run.due().is_some_and(|(at, _)| at <= b.now) {
            break;
        }
        b.feed(Input::Reply(OpId(3), reply::Input::Alive));
    }
    assert_eq!(wait(&mut b), Reason::Progress);
}

/// B039: an abort ends the run in every phase, though nobody answers any more.
#[test]
fn b039_an_abort_ends_every_phase() {
    let mut met = 0;
    for (word, mut b) in samples::run::states() {
        if matches!(b.run.kind(), "Idle" | "Ended") {
            continue;
        }
        let kind = b.run.kind();
        let from = b.now;
        let aborted = b.offer(Input::Abort(Cause::User));
        assert!(matches!(aborted, None | Some(Refusal::Aborting)), "{kind} {word}: {aborted:?}");
        while b.run.ended().is_none() {
            wait(&mut b);
        }
        assert!(matches!(b.run.ended(), Some(Termination::Aborted { .. })), "{kind} {word}");
        assert!(b.now.since(from) <= Setup::default().limits.settle_ms, "{kind} {word}: too late");
        assert!(crate::transcript::paired(&b.messages), "{kind} {word}");
        met += 1;
    }
    assert!(met > 20, "only {met} phases");
}

/// B108: a retried failure voids what was shown with exactly one reset, before the next attempt's
/// first words; what was not shown needs none.
#[test]
fn b108_each_retry_resets_once_before_new_deltas() {
    for kind in FAIL_KINDS {
        for shown in [true, false] {
            let mut b = if shown { streaming() } else { Bench::calling(Setup::default()) };
            if shown {
                b.feed(bodies::delta(OpId(3), "half"));
            }
            fails(&mut b, kind);
            if !kind.retryable() {
                assert_eq!(resets(&b), 0, "{kind:?} is final");
                assert_eq!(b.run.ended(), Some(&Termination::ProviderError { fail: kind }));
                continue;
            }
            assert_eq!(resets(&b), usize::from(shown), "{kind:?}, shown: {shown}");
            assert_eq!(wait(&mut b), Reason::Backoff);
            let op = b.op();
            b.feed(bodies::start(op));
            b.feed(bodies::delta(op, "whole"));
            b.feed(bodies::finish(op, text("whole")));
            assert_eq!(resets(&b), usize::from(shown), "{kind:?}: reset again");
            let at = |is: &dyn Fn(&Event) -> bool| b.events.iter().position(is);
            let words = |w: &'static str| {
                let update = Event::MessageUpdate(Delta::Text(w.to_owned()));
                move |e: &Event| *e == update
            };
            let reset = at(&|e| matches!(e, Event::MessageReset));
            assert!(!shown || at(&words("half")) < reset && reset < at(&words("whole")));
            let starts = count(&b, |e| matches!(e, Event::MessageStart(Who::Reply(_))));
            assert_eq!(starts, 1, "{kind:?}: the message begins once");
        }
    }
}

/// B109: a reply of blanks is asked for again; if it stays so, the run fails, and no reply without
/// words is kept as an answer.
#[test]
fn b109_blank_replies_are_retried_and_never_stored() {
    for words in ["", " ", "\n\t ", "\u{a0}"] {
        let mut b = Bench::calling(Setup::default());
        b.reply(said(words, StopReason::Stop));
        assert_eq!(wait(&mut b), Reason::Backoff, "{words:?}");
        b.reply(text("fine"));
        assert_eq!(b.run.ended(), Some(&Termination::Completed { cut: false }));
        let replies = b.messages.iter().filter(|m| matches!(m, Message::Assistant(_))).count();
        assert_eq!(replies, 1, "{words:?}: {:?}", b.messages);

        let mut b = Bench::calling(Setup::default());
        b.reply(said(words, StopReason::Stop));
        wait(&mut b);
        b.reply(said(words, StopReason::Stop));
        let failed = Termination::ProviderError { fail: FailKind::Empty };
        assert_eq!(b.run.ended(), Some(&failed));
        for message in &b.messages {
            if let Message::Assistant(a) = message {
                assert_eq!(a.stop_reason, StopReason::Error, "{a:?}");
                assert!(a.error_message.is_some(), "{a:?}");
            }
        }
    }
}

/// B116: calls that cannot be used end the run after a few requests, and none of them is run.
#[test]
fn b116_unusable_calls_end_the_run() {
    let mut b = Bench::calling(Setup::default());
    let mut asked = 1;
    fails(&mut b, FailKind::MalformedCalls);
    while b.run.ended().is_none() {
        assert_eq!(wait(&mut b), Reason::Backoff);
        asked += 1;
        fails(&mut b, FailKind::MalformedCalls);
    }
    assert_eq!(asked, UNUSABLE_MAX);
    let fail = FailKind::MalformedCalls;
    assert_eq!(b.run.ended(), Some(&Termination::ProviderError { fail }));
    assert_eq!(count(&b, |e| matches!(e, Event::ToolStart(_))), 0);
}

#[test]
fn an_abort_that_is_not_heeded_is_given_up() {
    let mut b = running();
    let from = b.now;
    b.feed(Input::Abort(Cause::User));
    assert_eq!(wait(&mut b), Reason::AbortSlow);
    assert_eq!(count(&b, |e| matches!(e, Event::AbortSlow)), 1);
    assert_eq!(wait(&mut b), Reason::Settle);
    assert_eq!(b.now.since(from), Setup::default().limits.settle_ms);
    assert_eq!(b.run.ended(), Some(&Termination::Aborted { cause: Cause::Timeout }));
    let unknown = |e: &Event| matches!(e, Event::ToolEnd { outcome: Outcome::Unsettled, .. });
    assert_eq!(count(&b, unknown), 1);
    assert_eq!(b.offer(bodies::done(OpId(4), "late")), Some(Refusal::Stale(OpId(4))));
}

#[test]
fn the_budget_stops_the_run() {
    let mut setup = Setup::default();
    setup.limits.budget_ms = 1_000;
    let mut b = Bench::calling(setup);
    assert_eq!(wait(&mut b), Reason::Budget);
    fails(&mut b, FailKind::Network);
    assert_eq!(b.run.ended(), Some(&Termination::Aborted { cause: Cause::Timeout }));
}

/// Drives a run of identical rounds to its second critical finding.
fn loops() -> Bench {
    let mut b = Bench::calling(Setup::default());
    let same = || calls(&[CallShape::default()]);
    for _ in 0..20 {
        b.reply(same());
        let op = b.op();
        b.feed(Input::Call(op, batch::Input::Entered));
        b.feed(bodies::done(op, "same"));
    }
    b.reply(same());
    b.reply(same());
    b
}

fn replied(words: &str, stop: StopReason) -> Bench {
    Bench::replied(Setup::default(), said(words, stop))
}

fn stopped(setup: Setup) -> Bench {
    let mut b = Bench::replied(setup, text("fine"));
    let op = b.op();
    b.feed(Input::Hooked(op, Verdict::Stop));
    b
}

fn fed(mut b: Bench, inputs: &[Input]) -> Bench {
    for input in inputs {
        b.feed(input.clone());
    }
    b
}

fn aborted(cause: Cause) -> (Bench, Termination) {
    let end = reply::Input::Failed(Failure::new(FailKind::Network, "cut"), None);
    let b = fed(streaming(), &[Input::Abort(cause), Input::Reply(OpId(3), end)]);
    (b, Termination::Aborted { cause })
}

fn terminal() -> Bench {
    let output = ToolOutput { terminate: true, ..ToolOutput::text("final") };
    fed(running(), &[Input::Call(OpId(4), batch::Input::Done(Arc::new(output), 0))])
}

fn refused_launch() -> Bench {
    let b = Bench::replied(Setup::default(), calls(&[CallShape::default()]));
    fed(b, &[Input::Call(OpId(4), batch::Input::LaunchRefused)])
}

fn assembling(entry: Entry) -> Bench {
    let mut b = Bench::new();
    b.submit(Setup::default(), entry, u64::from(entry == Entry::Prompt));
    fed(b, &[Input::Claimed(OpId(1))])
}

fn failing(kind: FailKind) -> (Bench, Termination) {
    let mut b = Bench::calling(Setup::default());
    fails(&mut b, kind);
    (b, Termination::ProviderError { fail: kind })
}

/// One row an ending: how a run is brought there, and what it must be called.
fn endings() -> Vec<(Bench, Termination)> {
    let policy = |rule| Termination::PolicyStop { rule };
    let failed = |fault| Termination::Failed { fault };
    let empty = crate::engine::Assembled::EmptyHistory;
    let rebound = FenceRefusal::SessionRebound { by: Some(RunId::new("r3")) };
    let length = Termination::ProviderError { fail: FailKind::Length };
    let mut rows = vec![
        (replied("whole", StopReason::Stop), Termination::Completed { cut: false }),
        (replied("cut", StopReason::Length), Termination::Completed { cut: true }),
        (replied("", StopReason::Length), length),
        (terminal(), Termination::Completed { cut: false }),
        (loops(), Termination::ToolLoop),
        (stopped(hooks(|h| h.prepare_next_turn = true)), policy(PolicyRule::PrepareNextTurn)),
        (stopped(hooks(|h| h.should_stop = true)), policy(PolicyRule::ShouldStopAfterTurn)),
        (
            fed(running(), &[Input::Superseded(RunId::new("r2"))]),
            Termination::Superseded { by: Some(RunId::new("r2")) },
        ),
        (
            fed(running(), &[Input::Fenced(rebound)]),
            Termination::Superseded { by: Some(RunId::new("r3")) },
        ),
        (
            fed(running(), &[Input::Fenced(FenceRefusal::SessionEntryMissing)]),
            Termination::Superseded { by: None },
        ),
        (fed(running(), &[Input::StoreFailed]), failed(Fault::Store)),
        (refused_launch(), failed(Fault::Launch)),
        (
            fed(assembling(Entry::Prompt), &[Input::AssemblyFailed(OpId(2))]),
            failed(Fault::Assembly),
        ),
        (
            fed(assembling(Entry::Continue), &[Input::Assembled(OpId(2), empty)]),
            failed(Fault::NotContinuable),
        ),
        failing(FailKind::Refusal),
        failing(FailKind::ContextOverflow),
        failing(FailKind::Auth),
    ];
    let causes = [Cause::User, Cause::Timeout, Cause::Restart, Cause::Handoff, Cause::Disconnect];
    rows.extend(causes.map(aborted));
    rows
}

/// Each ending is reached, told once and last, and recorded once, unless another one writes now.
#[test]
fn every_ending_is_reached_and_told_once() {
    for (b, end) in endings() {
        assert_eq!(b.run.ended(), Some(&end));
        assert_eq!(count(&b, |e| matches!(e, Event::Ended(_))), 1, "{end:?}");
        let records = b.log.iter().filter(|r| matches!(r, Record::Ended(_))).count();
        let silent = matches!(
            end,
            Termination::Superseded { .. } | Termination::Failed { fault: Fault::Store }
        );
        assert_eq!(records, usize::from(!silent), "{end:?}");
        let note = b.log.iter().any(|r| matches!(r, Record::Note));
        let noted = matches!(&end, Termination::Aborted { cause } if *cause != Cause::Handoff);
        assert_eq!(note, noted, "{end:?}");
        assert!(b.run.open_ops().is_empty() && b.run.due().is_none());
    }
}
