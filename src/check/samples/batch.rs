//! Samples of a batch.

use crate::base::OpId;
use crate::check::tables::{Row, acts, events, records};
use crate::engine::batch::{
    Admission, Batch, Gate, Ignored, Input, Marks, Phase, Stage, Why, Yield,
};
use crate::engine::loops::{Detector, Finding};
use crate::engine::{Hooks, Outcome};
use crate::transcript::{CallFacts, RejectKind, ToolOutput};
use std::sync::Arc;

/// Stage, and the phase of the call that is waited for.
pub const STATES: [&str; 14] = [
    "Admit",
    "Prepare/Asking",
    "Prepare/Judging",
    "Launch/Entering",
    "Running/Running",
    "Running/After",
    "Running/Judging",
    "Serial/Asking",
    "Serial/Entering",
    "Serial/Running",
    "Serial/After",
    "Serial/Judging",
    "Tail/Judging",
    "Returned",
];

pub const INPUTS: [&str; 9] = [
    "Gated",
    "Entered",
    "Process",
    "LaunchRefused",
    "Update",
    "Done",
    "Judged",
    "abort",
    "give up",
];

const FREE: Marks = Marks { abort: false, steering: false };
const STEERED: Marks = Marks { abort: false, steering: true };
const ABORTING: Marks = Marks { abort: true, steering: false };

fn input_kind(input: &Input) -> &'static str {
    match input {
        Input::Gated(_) => "Gated",
        Input::Entered => "Entered",
        Input::Process { .. } => "Process",
        Input::LaunchRefused => "LaunchRefused",
        Input::Update(_) => "Update",
        Input::Done(..) => "Done",
        Input::Judged(_) => "Judged",
    }
}

fn stage_kind(stage: &Stage) -> &'static str {
    match stage {
        Stage::Admit(_) => "Admit",
        Stage::Prepare(_) => "Prepare",
        Stage::Launch(_) => "Launch",
        Stage::Running => "Running",
        Stage::Serial(_) => "Serial",
        Stage::Tail(..) => "Tail",
        Stage::Returned => "Returned",
    }
}

fn phase_kind(phase: Phase) -> &'static str {
    match phase {
        Phase::Fresh => "Fresh",
        Phase::Asking(_) => "Asking",
        Phase::Ready => "Ready",
        Phase::Entering(_) => "Entering",
        Phase::Running(_) => "Running",
        Phase::After(_) => "After",
        Phase::Judging(_) => "Judging",
        Phase::Ended => "Ended",
    }
}

fn waited(batch: &Batch) -> Option<(OpId, Option<u16>)> {
    batch.open_ops().first().copied()
}

fn state_kind(batch: &Batch) -> String {
    let stage = stage_kind(&batch.stage);
    match waited(batch) {
        Some((_, Some(i))) => {
            format!("{stage}/{}", phase_kind(batch.calls[usize::from(i)].phase))
        }
        Some((_, None)) | None => stage.to_owned(),
    }
}

fn done(text: &str) -> Input {
    Input::Done(Arc::new(ToolOutput::text(text)), 1)
}

fn judged() -> Input {
    Input::Judged(Outcome::Tool(Arc::new(ToolOutput::text("ok"))))
}

fn inputs() -> Vec<(&'static str, Input)> {
    let last = ToolOutput { terminate: true, ..ToolOutput::text("last") };
    vec![
        ("allow", Input::Gated(Gate::Allow)),
        ("block", Input::Gated(Gate::Block(None))),
        ("", Input::Entered),
        ("", Input::Process { pgid: 7, started: 7 }),
        ("", Input::LaunchRefused),
        ("", Input::Update(Arc::new(ToolOutput::text("..")))),
        ("ok", done("ok")),
        ("terminates", Input::Done(Arc::new(last), 1)),
        ("", judged()),
    ]
}

/// A batch of these calls, driven by these answers, each to the first who can take it.
fn driven(facts: &[CallFacts], hooks: Hooks, sequential: bool, inputs: &[Input]) -> Batch {
    let admission = Admission::Go(vec![None; facts.len()]);
    let (mut batch, _) = Batch::open(1, facts, admission, hooks, sequential, FREE);
    for input in inputs {
        let open = batch.open_ops();
        let taken = open.iter().any(|(op, _)| batch.step(*op, input.clone(), FREE).is_ok());
        assert!(taken, "nobody waits for {input:?}");
        batch.check();
    }
    batch
}

fn blocked(hooks: Hooks) -> Batch {
    let finding = Finding { detector: Detector::GenericRepeat, count: 20 };
    let why = Why::Loop { trigger: 0, finding, second: false };
    Batch::open(1, &[CallFacts::default(); 2], Admission::Block(why), hooks, false, FREE).0
}

fn states() -> Vec<(&'static str, Batch)> {
    let two = [CallFacts::default(); 2];
    let wrong = CallFacts { rejected: Some(RejectKind::Unknown), ..CallFacts::default() };
    let rejected = [wrong, CallFacts::default()];
    let off = Hooks::default();
    let gate = Hooks { before_batch: true, ..off };
    let call = Hooks { before_call: true, ..off };
    let after = Hooks { after_call: true, ..off };
    let judge = Hooks { after_outcome: true, ..off };
    let allow = || Input::Gated(Gate::Allow);
    let entered = || Input::Entered;
    let both = [entered(), entered()];
    let lone = |n| [entered(), done("ok"), entered()][..n].to_vec();
    vec![
        ("parallel", driven(&two, gate, false, &[])),
        ("serial", driven(&two, gate, true, &[])),
        ("first call", driven(&two, call, false, &[])),
        ("last call", driven(&two, call, false, &[allow()])),
        ("first rejected", driven(&rejected, judge, false, &[])),
        ("first call", driven(&two, off, false, &[])),
        ("one of two", driven(&two, off, false, &both)),
        ("last one", driven(&two, off, false, &[both.to_vec(), vec![done("ok")]].concat())),
        ("one of two", driven(&two, after, false, &[both.to_vec(), vec![done("ok")]].concat())),
        ("one of two", driven(&two, judge, false, &[both.to_vec(), vec![done("ok")]].concat())),
        ("first call", driven(&two, call, true, &[])),
        ("first call", driven(&two, off, true, &[])),
        ("last call", driven(&two, off, true, &lone(2))),
        ("first call", driven(&two, off, true, &lone(1))),
        ("last call", driven(&two, off, true, &lone(3))),
        ("first call", driven(&two, after, true, &lone(2))),
        ("first call", driven(&two, judge, true, &lone(2))),
        ("blocked by the loop detector", blocked(judge)),
        ("", blocked(off)),
    ]
}

fn row(batch: &Batch, input: &str, guard: &str, after: &Batch, out: &Yield) -> Row {
    after.check();
    let polled = if out.polled { " (polls steering)" } else { "" };
    Row {
        state: state_kind(batch),
        input: input.into(),
        guard: guard.into(),
        next: format!("{}{polled}", state_kind(after)),
        append: records(&out.append),
        tell: events(&out.tell),
        act: acts(&out.act),
        refused: String::new(),
    }
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (guard, batch) in states() {
        let op = waited(&batch).map_or(OpId(99), |(op, _)| op);
        let words = |more: &[&str]| {
            let all = [&[guard], more].concat();
            all.into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>().join(", ")
        };
        for (what, input) in inputs() {
            let kind = input_kind(&input);
            for (when, marks) in [("", FREE), ("steering waits", STEERED), ("aborting", ABORTING)] {
                let mut after = batch.clone();
                let (input, words) = (input.clone(), words(&[what, when]));
                match after.step(op, input, marks) {
                    Ok(out) => rows.push(row(&batch, kind, &words, &after, &out)),
                    Err(why) => {
                        assert_eq!(after, batch, "what is ignored changes nothing");
                        if when.is_empty() {
                            let row = row(&batch, kind, &words, &after, &Yield::default());
                            let refused = match why {
                                Ignored::Stale => "stale",
                                Ignored::Mismatch => "mismatch",
                            };
                            rows.push(Row { refused: refused.into(), ..row });
                        }
                    }
                }
            }
        }
        let (mut after, mut out) = (batch.clone(), Yield::default());
        after.abort(&mut out);
        rows.push(row(&batch, "abort", &words(&[]), &after, &out));
        let (mut after, mut out) = (batch.clone(), Yield::default());
        after.give_up(&mut out);
        assert!(after.returned(), "what is given up is over");
        rows.push(row(&batch, "give up", &words(&[]), &after, &out));
    }
    rows
}
