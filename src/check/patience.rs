//! Limits of time on a model's answer.

use super::bench::Bench;
use crate::base::{FailKind, Failure};
use crate::engine::{Input, Setup, Termination, reply};
use crate::sim::bodies::{self, text};

/// B101: signs of life put the idle limit off, text or not; without one it trips at its moment.
#[test]
fn b101_signs_of_life_put_the_idle_limit_off() {
    let idle = Setup::default().limits.idle_ms;
    let mut b = Bench::calling(Setup::default());
    let op = b.op();
    b.feed(bodies::start(op));
    for _ in 0..4 {
        b.now = b.now.plus(idle - 1);
        assert!(b.run.due().is_some_and(|(at, _)| at > b.now), "the limit has tripped");
        b.feed(Input::Reply(op, reply::Input::Alive));
    }
    b.feed(bodies::delta(op, "hello"));
    b.feed(bodies::finish(op, text("hello")));
    assert_eq!(b.run.ended(), Some(&Termination::Completed { cut: false }));
}

/// A silent model is asked once more; a second silence has left the window for retries.
#[test]
fn a_silent_model_is_asked_once_more() {
    let idle = Setup::default().limits.idle_ms;
    let mut b = Bench::calling(Setup::default());
    for _ in 0..2 {
        let op = b.op();
        b.feed(bodies::start(op));
        b.now = b.now.plus(idle);
        b.feed(Input::Tick);
        let cut = Failure::new(FailKind::Network, "cut");
        b.feed(Input::Reply(op, reply::Input::Failed(cut, None)));
        if let Some((at, _)) = b.run.due() {
            assert_eq!(b.run.kind(), "Waiting");
            b.now = at;
            b.feed(Input::Tick);
        }
    }
    assert_eq!(b.run.ended(), Some(&Termination::ProviderError { fail: FailKind::Idle }));
}
