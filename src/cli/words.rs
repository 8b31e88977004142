//! How runs and lengths of time are told to people.

use crate::base::Millis;
use crate::engine::io::PolicyRule;
use crate::engine::{Cause, CompactionEnd, Fault, Termination, Trigger};
use crate::records::RunRow;

/// How a run stands. `lived` says whether a process has the state directory: without one, what
/// has begun and not ended was interrupted.
pub(super) fn state(run: &RunRow, lived: bool) -> String {
    match (&run.into_run, &run.termination) {
        (Some(into), _) => format!("joined {into}"),
        (None, Some(termination)) => ended(termination),
        (None, None) if run.ended_at.is_some() => "ended".to_owned(),
        (None, None) if run.started_at.is_none() => "waiting".to_owned(),
        (None, None) if lived => "running".to_owned(),
        (None, None) => "interrupted".to_owned(),
    }
}

/// How a run ended (decisions 18).
pub(super) fn ended(termination: &Termination) -> String {
    match termination {
        Termination::Completed { cut: false } => "completed".to_owned(),
        Termination::Completed { cut: true } => "completed (cut)".to_owned(),
        Termination::Aborted { cause } => format!("aborted by {}", by(*cause)),
        Termination::ProviderError { fail } => format!("provider error {}", fail.name()),
        Termination::ToolLoop => "tool loop".to_owned(),
        Termination::PolicyStop { rule } => format!("policy stop {}", stopped(*rule)),
        Termination::Superseded { by: Some(run) } => format!("superseded by {run}"),
        Termination::Superseded { by: None } => "superseded".to_owned(),
        Termination::Failed { fault } => format!("failed {}", failed(*fault)),
    }
}

fn by(cause: Cause) -> &'static str {
    match cause {
        Cause::User => "user",
        Cause::Timeout => "timeout",
        Cause::Restart => "restart",
        Cause::Handoff => "handoff",
        Cause::Disconnect => "disconnect",
    }
}

fn stopped(rule: PolicyRule) -> &'static str {
    match rule {
        PolicyRule::PrepareNextTurn => "prepare_next_turn",
        PolicyRule::ShouldStopAfterTurn => "should_stop_after_turn",
        PolicyRule::QueueCap => "queue_cap",
        PolicyRule::QueueInterrupt => "queue_interrupt",
        PolicyRule::NotNeeded => "not_needed",
    }
}

fn failed(fault: Fault) -> &'static str {
    match fault {
        Fault::Store => "in the store",
        Fault::Assembly => "in assembling the context",
        Fault::NotContinuable => "with nothing to continue from",
        Fault::Launch => "in launching a tool",
        Fault::Broken => "in the engine",
    }
}

/// That a history is being compacted, and why.
pub(super) fn compaction(why: Trigger) -> &'static str {
    match why {
        Trigger::Threshold | Trigger::After => "the conversation is getting long: compacting it",
        Trigger::Overflow => "the conversation is too long for the model: compacting it",
        Trigger::Manual => "compacting the conversation",
    }
}

/// What became of it.
pub(super) fn compacted(end: &CompactionEnd) -> String {
    match end {
        CompactionEnd::Completed { made, .. } => {
            let (count, before, after) = (made.removed, made.tokens_before, made.tokens_after);
            let how = if made.summarized { "summed up" } else { "removed WITHOUT a summary" };
            format!("{count} earlier messages were {how}: about {before} tokens became {after}")
        }
        CompactionEnd::Skipped(why) => format!("not compacted: {why}"),
        CompactionEnd::Aborted => "the compaction was stopped".to_owned(),
        CompactionEnd::Failed(why) => format!("the conversation could not be compacted: {why}"),
    }
}

/// A length of time, in the unit that people would choose.
pub(super) fn span(ms: u64) -> String {
    let seconds = ms / 1_000;
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{seconds}.{:02} s", ms % 1_000 / 10),
        60_000..3_600_000 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// A moment for people, to the second.
pub(super) fn moment(at: Millis) -> String {
    super::sessions::local(at, "%Y-%m-%d %H:%M:%S")
}

/// So many of something.
pub(super) fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Lines of cells in columns. Columns whose letter is `>` are aligned to the right; the last cell
/// of a line ends it.
pub(super) fn table(align: &str, rows: &[impl AsRef<[String]>]) -> String {
    let wide = |cell: &String| cell.chars().count();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (i, (cell, side)) in row.as_ref().iter().zip(align.chars()).enumerate() {
            let width = rows.iter().filter_map(|r| r.as_ref().get(i)).map(wide).max().unwrap_or(0);
            let blank = " ".repeat(width - wide(cell));
            let parts = if side == '>' { [&blank, cell] } else { [cell, &blank] };
            line.push_str(if i == 0 { "" } else { "  " });
            line.extend(parts.map(String::as_str));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{FailKind, RunId, SessionId};

    fn run() -> RunRow {
        RunRow {
            run_id: "r".into(),
            key: None,
            session_id: SessionId::new("s"),
            accepted_at: Millis(1),
            started_at: None,
            ended_at: None,
            termination: None,
            into_run: None,
            phases: None,
            turn: None,
            request: None,
        }
    }

    /// L20: every end has its words, and what has not ended too.
    #[test]
    fn ends_have_words() {
        let words = |termination| ended(&termination);
        assert_eq!(words(Termination::Completed { cut: true }), "completed (cut)");
        assert_eq!(words(Termination::Aborted { cause: Cause::Restart }), "aborted by restart");
        let fail = FailKind::RateLimit;
        assert_eq!(words(Termination::ProviderError { fail }), "provider error rate_limit");
        let rule = PolicyRule::QueueCap;
        assert_eq!(words(Termination::PolicyStop { rule }), "policy stop queue_cap");
        let by = Some(RunId::new("n"));
        assert_eq!(words(Termination::Superseded { by }), "superseded by n");
        assert_eq!(words(Termination::Failed { fault: Fault::Store }), "failed in the store");
        assert_eq!(state(&run(), true), "waiting");
        let begun = RunRow { started_at: Some(Millis(2)), ..run() };
        assert_eq!((&*state(&begun, true), &*state(&begun, false)), ("running", "interrupted"));
        let joined = RunRow { into_run: Some("host".into()), ..run() };
        assert_eq!(state(&joined, true), "joined host");
        let lost = RunRow { ended_at: Some(Millis(3)), ..begun };
        assert_eq!(state(&lost, true), "ended", "an end that cannot be read is one");
    }

    /// The stored words of a rule are the ones that are told.
    #[test]
    fn rules_are_told_as_they_are_stored() {
        use PolicyRule::{NotNeeded, PrepareNextTurn, QueueCap, QueueInterrupt};
        for rule in
            [NotNeeded, PrepareNextTurn, QueueCap, QueueInterrupt, PolicyRule::ShouldStopAfterTurn]
        {
            assert_eq!(serde_json::to_value(rule).unwrap(), stopped(rule));
        }
    }

    #[test]
    fn lengths_have_a_fitting_unit() {
        let cases = [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.00 s"),
            (59_999, "59.99 s"),
            (60_000, "1 min 00 s"),
            (3_599_999, "59 min 59 s"),
            (3_660_000, "1 h 01 min"),
        ];
        for (ms, words) in cases {
            assert_eq!(span(ms), words);
        }
    }

    #[test]
    fn columns_are_aligned() {
        let row = |a: &str, b: &str, c: &str| [a.to_owned(), b.to_owned(), c.to_owned()];
        let text = table("<><", &[row("a", "1", "x"), row("äöü", "10", ""), row("b", "2", "yyy")]);
        assert_eq!(text, "a     1  x\näöü  10\nb     2  yyy\n");
    }
}
