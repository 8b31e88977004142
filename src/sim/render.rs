//! Transcripts for people: one line per committed record, told event and started act.

use crate::engine::{
    Act, CompactionEnd, Event, Hook, Outcome, Record, Termination, Unstarted, Who,
};
use crate::transcript::Delta;

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Tool(output) if output.is_error => "failed".into(),
        Outcome::Tool(output) if output.terminate => "ok, terminates".into(),
        Outcome::Tool(_) => "ok".into(),
        Outcome::Unstarted(why) => match why {
            Unstarted::Rejected => "rejected".into(),
            Unstarted::Blocked { .. } => "blocked".into(),
            Unstarted::Steering => "skipped, steering".into(),
            Unstarted::Admission => "blocked before launch".into(),
            Unstarted::Aborted => "aborted before start".into(),
            Unstarted::Loop { finding, second } => {
                let last = if *second { ", second" } else { "" };
                format!("looping: {} x{}{last}", finding.detector.name(), finding.count)
            }
            Unstarted::LoopOther { .. } => "blocked, another call loops".into(),
        },
        Outcome::Unsettled => "unknown, did not stop".into(),
        Outcome::Kept => "as recorded".into(),
        Outcome::UnknownAfterStop => "unknown, process stopped".into(),
        Outcome::NotStartedBeforeStop => "not started, process stopped".into(),
        Outcome::UnknownAfterTakeover => "unknown, taken over".into(),
        Outcome::NotStartedBeforeTakeover => "not started, taken over".into(),
    }
}

fn letter(call: u16) -> char {
    char::from(b'A' + u8::try_from(call % 26).unwrap_or(0))
}

/// A termination in a few words.
#[must_use]
pub fn termination(termination: &Termination) -> String {
    match termination {
        Termination::Completed { cut: false } => "completed".into(),
        Termination::Completed { cut: true } => "completed, cut".into(),
        Termination::Aborted { cause } => format!("aborted, {cause:?}").to_lowercase(),
        Termination::ProviderError { fail } => format!("provider error, {}", fail.name()),
        Termination::ToolLoop => "tool loop".into(),
        Termination::PolicyStop { rule } => format!("policy stop, {rule:?}"),
        Termination::Superseded { by: Some(by) } => format!("superseded by {by}"),
        Termination::Superseded { by: None } => "superseded".into(),
        Termination::Failed { fault } => format!("failed, {fault:?}").to_lowercase(),
    }
}

fn who(who: &Who) -> String {
    match who {
        Who::User(id) => format!("u{}", id.0),
        Who::Reply(_) => "a".into(),
        Who::Failed(failure) => format!("a(error: {})", failure.kind.name()),
        Who::Stopped(_) => "a(aborted)".into(),
        Who::Result(call) => format!("r{}", letter(*call)),
        Who::LoopEnd => "a(loop end)".into(),
        Who::Note => "note".into(),
    }
}

/// One record.
#[must_use]
pub fn record(record: &Record) -> String {
    match record {
        Record::Accepted { prompts, .. } => format!("accepted, {} prompts", prompts.len()),
        Record::Claim => "claim".into(),
        Record::Queued { id, kind, .. } => format!("queued u{} {kind:?}", id.0),
        Record::Dropped(id) => format!("dropped u{}", id.0),
        Record::Committed(id) => format!("entry u{}", id.0),
        Record::Reply(body) => format!("entry a, {} calls", body.facts.len()),
        Record::Failed { failure, .. } => format!("entry a(error: {})", failure.kind.name()),
        Record::Stopped { .. } => "entry a(aborted)".into(),
        Record::Launch(calls) => {
            format!("launch {}", calls.iter().map(|c| letter(*c)).collect::<String>())
        }
        Record::Process { call, pgid, .. } => format!("process {} {pgid}", letter(*call)),
        Record::Outcome { call, outcome: o, warned } => {
            let warned = warned.map_or(String::new(), |n| format!(", warned x{n}"));
            format!("outcome {}: {}{warned}", letter(*call), outcome(o))
        }
        Record::Result(call) => format!("entry r{}", letter(*call)),
        Record::LoopEnd => "entry a(loop end)".into(),
        Record::Compacted(made) => format!("entry compaction, {} gone", made.removed),
        Record::Note => "entry note".into(),
        Record::Ended(t) => format!("ended: {}", termination(t)),
    }
}

/// One event, in the notation of semantics 2.6.
#[must_use]
pub fn event(event: &Event) -> String {
    match event {
        Event::Accepted => "accepted".into(),
        Event::AgentStart => "AS".into(),
        Event::TurnStart => "TS".into(),
        Event::MessageStart(w) => format!("m+{}", who(w)),
        Event::MessageUpdate(Delta::Text(text)) => format!("m~ {text}"),
        Event::MessageUpdate(_) => "m~".into(),
        Event::MessageReset => "m! reset".into(),
        Event::MessageEnd(w) => format!("m-{}", who(w)),
        Event::ToolStart(call) => format!("x+{}", letter(*call)),
        Event::ToolUpdate(call, _) => format!("x~{}", letter(*call)),
        Event::ToolEnd { call, outcome: o, started } => {
            let never = if *started { "" } else { ", never began" };
            format!("x-{} ({}{never})", letter(*call), outcome(o))
        }
        Event::TurnEnd { results } => format!("TE[{results}]"),
        Event::Retry { attempt, max, delay_ms, failure } => {
            format!("retry {attempt}/{max} in {delay_ms} ms, {}", failure.kind.name())
        }
        Event::CompactionStart(why) => format!("c+ {why:?}"),
        Event::CompactionEnd(CompactionEnd::Completed { retry: false, .. }) => "c- done".into(),
        Event::CompactionEnd(CompactionEnd::Completed { retry: true, .. }) => {
            "c- done, again".into()
        }
        Event::CompactionEnd(CompactionEnd::Skipped(_)) => "c- skipped".into(),
        Event::CompactionEnd(CompactionEnd::Aborted) => "c- aborted".into(),
        Event::CompactionEnd(CompactionEnd::Failed(_)) => "c- failed".into(),
        Event::AbortSlow => "abort is slow".into(),
        Event::AgentEnd => "AE".into(),
        Event::Ended(t) => format!("ended: {}", termination(t)),
    }
}

/// One act.
#[must_use]
pub fn act(act: &Act) -> String {
    match act {
        Act::Assemble(op) => format!("assemble op{}", op.0),
        Act::AskHook(op, hook) => format!("ask {} op{}", hook_name(*hook), op.0),
        Act::Compact(op, why) => format!("compact {why:?} op{}", op.0),
        Act::CancelCompact(op) => format!("drop compaction op{}", op.0),
        Act::CutSummary(op) => format!("cut summary op{}", op.0),
        Act::CallModel(op) => format!("call model op{}", op.0),
        Act::CancelModel(op) => format!("cut model op{}", op.0),
        Act::AskBatch(op) => format!("ask beforeToolBatch op{}", op.0),
        Act::AskCall(op, call) => format!("ask beforeToolCall {} op{}", letter(*call), op.0),
        Act::RunTool(op, call) => format!("run {} op{}", letter(*call), op.0),
        Act::CancelTool(op) => format!("cancel op{}", op.0),
        Act::AskAfter(op, call, _) => format!("ask afterToolCall {} op{}", letter(*call), op.0),
        Act::AskOutcome(op, call, _) => {
            format!("ask afterToolOutcome {} op{}", letter(*call), op.0)
        }
    }
}

fn hook_name(hook: Hook) -> &'static str {
    match hook {
        Hook::PrepareContinuation => "prepareContinuation",
        Hook::TransformContext => "transformContext",
        Hook::PrepareNextTurn => "prepareNextTurn",
        Hook::ShouldStop => "shouldStopAfterTurn",
        Hook::WeighRequest => "whether the request fits",
        Hook::WeighHistory => "whether the history fits",
    }
}
