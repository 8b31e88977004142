//! Steps of the simulated engine, a second: checks off, checks on, and the bare transition
//! function.

use std::hint::black_box;
use std::time::Instant;
use stepclaw::base::{Millis, MsgId, OpId, RunId};
use stepclaw::engine::{Assembled, Entry, Input, Run, Setup, Submit, batch, step};
use stepclaw::sim::{bodies, run_seed};

fn simulated(seeds: std::ops::Range<u64>, checks: bool) -> (u64, f64) {
    let start = Instant::now();
    let mut steps = 0;
    for seed in seeds {
        let outcome = run_seed(seed, checks, None);
        assert!(outcome.failed.is_none(), "seed {seed}: {:?}", outcome.failed);
        steps += outcome.stats.steps;
    }
    (steps, start.elapsed().as_secs_f64())
}

/// A run with one batch of two tools and an answer, straight through the transition function.
fn bare(rounds: u64) -> (u64, f64) {
    let body = bodies::calls(&[bodies::CallShape::default(); 2]);
    let (fine, user) = (bodies::text("fine"), bodies::user("hi"));
    let start = Instant::now();
    let mut steps = 0;
    for _ in 0..rounds {
        let submit = Submit {
            run: RunId::new("r"),
            entry: Entry::Prompt,
            prompts: vec![(MsgId(1), user.clone())],
            waiting: vec![],
            setup: Setup::default(),
        };
        let entered = |op| Input::Call(OpId(op), batch::Input::Entered);
        let inputs = [
            Input::Submit(Box::new(submit)),
            Input::Claimed(OpId(1)),
            Input::Assembled(OpId(2), Assembled::EmptyHistory),
            bodies::start(OpId(3)),
            bodies::finish(OpId(3), body.clone()),
            entered(4),
            entered(5),
            bodies::done(OpId(4), "ok"),
            bodies::done(OpId(5), "ok"),
            bodies::start(OpId(6)),
            bodies::delta(OpId(6), "fi"),
            bodies::finish(OpId(6), fine.clone()),
        ];
        let mut run = Run::default();
        for input in inputs {
            let next = step(run, input, Millis(1));
            assert!(next.refused.is_none(), "{:?}", next.refused);
            run = black_box(next).state;
            steps += 1;
        }
        assert!(run.ended().is_some(), "the run did not end");
    }
    (steps, start.elapsed().as_secs_f64())
}

fn report(what: &str, (steps, seconds): (u64, f64), bar: &str) {
    println!("{what:44} {:>12.0} steps a second   {bar}", steps as f64 / seconds);
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    if std::env::args().any(|arg| arg == "unchecked") {
        // For a profiler: nothing but what it is to look at.
        return report("simulated world, checks off", simulated(0..100_000, false), "");
    }
    let _ = simulated(0..2_000, false);
    report("bare transition function (the baseline)", bare(200_000), "");
    report("simulated world, checks off", simulated(0..30_000, false), "bar: 1,000,000");
    report("simulated world, checks on", simulated(0..20_000, true), "bar: 200,000");
}
