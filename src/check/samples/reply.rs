//! Samples of a response.

use crate::base::{FailKind, Failure, Millis, OpId};
use crate::check::tables::{Row, acts, events};
use crate::engine::io::Limits;
use crate::engine::reply::{Cut, Ending, Input, State, Step};
use crate::sim::bodies;
use crate::transcript::Delta;

const NOW: Millis = Millis(1_000);

pub const STATES: [&str; 3] = ["Opening", "Streaming", "Cancelling"];

pub const INPUTS: [&str; 13] = [
    "Alive",
    "Start",
    "Text",
    "Thinking",
    "CallStart",
    "CallArgs",
    "Done",
    "Failed",
    "cut Abort",
    "cut FirstEvent",
    "cut Idle",
    "cut Progress",
    "tick",
];

fn state_kind(state: &State) -> &'static str {
    match state {
        State::Opening(_) => "Opening",
        State::Streaming(_) => "Streaming",
        State::Cancelling(_) => "Cancelling",
    }
}

fn input_kind(input: &Input) -> &'static str {
    match input {
        Input::Alive => "Alive",
        Input::Delta(Delta::Start) => "Start",
        Input::Delta(Delta::Text(_)) => "Text",
        Input::Delta(Delta::Thinking(_)) => "Thinking",
        Input::Delta(Delta::CallStart { .. }) => "CallStart",
        Input::Delta(Delta::CallArgs { .. }) => "CallArgs",
        Input::Done(_) => "Done",
        Input::Failed(..) => "Failed",
    }
}

fn inputs() -> Vec<Input> {
    let text = || "x".to_owned();
    vec![
        Input::Alive,
        Input::Delta(Delta::Start),
        Input::Delta(Delta::Text(text())),
        Input::Delta(Delta::Thinking(text())),
        Input::Delta(Delta::CallStart { index: 0, id: text(), name: text() }),
        Input::Delta(Delta::CallArgs { index: 0, text: text() }),
        Input::Done(bodies::text("fine")),
        Input::Failed(Failure::new(FailKind::Network, "x"), None),
    ]
}

fn cut_kind(cut: Cut) -> &'static str {
    match cut {
        Cut::Abort => "cut Abort",
        Cut::FirstEvent => "cut FirstEvent",
        Cut::Idle => "cut Idle",
        Cut::Progress => "cut Progress",
    }
}

const CUTS: [Cut; 4] = [Cut::Abort, Cut::FirstEvent, Cut::Idle, Cut::Progress];

fn states(limits: &Limits) -> Vec<(&'static str, State)> {
    let open = State::open(OpId(3), false, limits, NOW);
    let again = State::open(OpId(3), true, limits, NOW);
    let start = || Input::Delta(Delta::Start);
    let streaming = open.step(start(), limits, NOW).state;
    let mut all = vec![("", open), ("shown before", again), ("", streaming)];
    for cut in CUTS {
        all.push((&cut_kind(cut)[4..], streaming.cut(cut, limits, NOW).state));
    }
    all
}

/// Which of its limits a time-out cut names.
fn ending(step: &Step) -> String {
    match &step.ending {
        None => state_kind(&step.state).to_owned(),
        Some(Ending::Done(_)) => "(done)".into(),
        Some(Ending::Failed(failure, _)) => format!("(failed: {})", failure.kind.name()),
        Some(Ending::Aborted(_)) => "(aborted)".into(),
    }
}

pub fn rows() -> Vec<Row> {
    let limits = Limits::default();
    let late = NOW.plus(10_000_000);
    let mut rows = Vec::new();
    for (guard, state) in states(&limits) {
        let mut stepped: Vec<(&str, &str, Step)> = Vec::new();
        for input in inputs() {
            stepped.push((input_kind(&input), "", state.step(input, &limits, NOW)));
        }
        for cut in CUTS {
            stepped.push((cut_kind(cut), "", state.cut(cut, &limits, NOW)));
        }
        stepped.push(("tick", "not due", state.tick(&limits, NOW)));
        stepped.push(("tick", "due", state.tick(&limits, late)));
        for (input, when, step) in stepped {
            if step.ignored {
                assert_eq!(step.state, state, "what is ignored changes nothing");
                assert!(step.tell.is_none() && step.act.is_none() && step.ending.is_none());
            }
            let words: Vec<&str> = [guard, when].into_iter().filter(|w| !w.is_empty()).collect();
            rows.push(Row {
                state: state_kind(&state).into(),
                input: input.into(),
                guard: words.join(", "),
                next: ending(&step),
                append: String::new(),
                tell: events(&step.tell),
                act: acts(&step.act),
                refused: if step.ignored { "ignored".into() } else { String::new() },
            });
        }
    }
    rows
}
