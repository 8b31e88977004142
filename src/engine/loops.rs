//! Tool-loop detection (semantics 5): repeats that lead nowhere are first warned of, then blocked.
//!
//! A first critical finding blocks the batch and leaves the model one more reply; a second one in
//! the same prompt ends the run.

use crate::base::limits::{
    LOOP_BREAKER, LOOP_CRITICAL, LOOP_HISTORY_MAX, LOOP_UNKNOWN, LOOP_WARN, LOOP_WARNED_MAX,
};
use crate::transcript::{CallFacts, RejectKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// What a detector found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// Which detector.
    pub detector: Detector,
    /// How many repeats it counted.
    pub count: u32,
}

/// The detectors, in the order in which they are asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detector {
    /// The same missing tool again and again.
    UnknownToolRepeat,
    /// Anything without progress for very long.
    GlobalCircuitBreaker,
    /// A poll whose answer does not change.
    KnownPollNoProgress,
    /// Two calls in turn, both without change.
    PingPong,
    /// The same call with the same result.
    GenericRepeat,
    /// A few variants of one call with one outcome.
    ArgumentChurn,
}

impl Detector {
    /// Its name in messages and metadata.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Detector::UnknownToolRepeat => "unknown_tool_repeat",
            Detector::GlobalCircuitBreaker => "global_circuit_breaker",
            Detector::KnownPollNoProgress => "known_poll_no_progress",
            Detector::PingPong => "ping_pong",
            Detector::GenericRepeat => "generic_repeat",
            Detector::ArgumentChurn => "argument_churn",
        }
    }
}

/// What the detector says of one call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Level {
    /// Nothing to say.
    Fine,
    /// It may run; a note is added to its result.
    Warning(Finding),
    /// It must not run.
    Critical(Finding),
}

/// One finished call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Seen {
    tool: u64,
    args: u64,
    result: u64,
    unknown: bool,
}

impl Seen {
    fn key(&self) -> (u64, u64) {
        (self.tool, self.args)
    }
}

/// What is remembered of one run's finished calls.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct History {
    seen: VecDeque<Seen>,
    /// Per call, the highest bucket of ten for which a warning was shown.
    warned: BTreeMap<(u64, u64), u32>,
}

impl History {
    /// A call has ended with a result of this hash.
    pub fn note(&mut self, facts: &CallFacts, result: u64) {
        if self.seen.len() == LOOP_HISTORY_MAX {
            self.seen.pop_front();
        }
        let unknown = facts.rejected == Some(RejectKind::Unknown);
        self.seen.push_back(Seen { tool: facts.tool, args: facts.args, result, unknown });
    }

    /// The level of a call that is about to run. A warning counts as shown.
    pub fn judge(&mut self, facts: &CallFacts) -> Level {
        let level = self.level(facts);
        let Level::Warning(finding) = level else { return level };
        let bucket = finding.count / LOOP_WARN;
        let key = (facts.tool, facts.args);
        if self.warned.get(&key).is_some_and(|shown| *shown >= bucket) {
            return Level::Fine;
        }
        if self.warned.len() >= LOOP_WARNED_MAX {
            self.warned.pop_first();
        }
        self.warned.insert(key, bucket);
        level
    }

    fn level(&self, facts: &CallFacts) -> Level {
        let critical = |detector, count| Level::Critical(Finding { detector, count });
        let warning = |detector, count| Level::Warning(Finding { detector, count });
        let unknown = count(self.seen.iter().filter(|s| s.unknown && s.tool == facts.tool));
        if facts.rejected == Some(RejectKind::Unknown) && unknown >= LOOP_UNKNOWN {
            return critical(Detector::UnknownToolRepeat, unknown);
        }
        let streak = self.streak(facts);
        if streak >= LOOP_BREAKER {
            return critical(Detector::GlobalCircuitBreaker, streak);
        }
        if facts.poll && streak >= LOOP_CRITICAL {
            return critical(Detector::KnownPollNoProgress, streak);
        }
        if facts.poll && streak >= LOOP_WARN {
            return warning(Detector::KnownPollNoProgress, streak);
        }
        let ping_pong = self.ping_pong(facts);
        if ping_pong >= LOOP_CRITICAL {
            return critical(Detector::PingPong, ping_pong);
        }
        if ping_pong >= LOOP_WARN {
            return warning(Detector::PingPong, ping_pong);
        }
        if !facts.poll && streak >= LOOP_CRITICAL {
            return critical(Detector::GenericRepeat, streak);
        }
        if let Some(churn) = self.churn(facts) {
            return warning(Detector::ArgumentChurn, churn);
        }
        let same = count(self.seen.iter().filter(|s| s.key() == (facts.tool, facts.args)));
        if !facts.poll && same >= LOOP_WARN {
            return warning(Detector::GenericRepeat, same);
        }
        Level::Fine
    }

    /// Latest calls in a row that are this call and have one result.
    fn streak(&self, facts: &CallFacts) -> u32 {
        let Some(last) = self.seen.back() else { return 0 };
        let same = |s: &&Seen| s.key() == (facts.tool, facts.args) && s.result == last.result;
        count(self.seen.iter().rev().take_while(same))
    }

    /// Length of the strict alternation of two calls that this call would continue, each side with
    /// an unchanged result.
    fn ping_pong(&self, facts: &CallFacts) -> u32 {
        let mut latest = self.seen.iter().rev();
        let (Some(other), Some(mine)) = (latest.next(), latest.next()) else { return 0 };
        if mine.key() != (facts.tool, facts.args) || other.key() == mine.key() {
            return 0;
        }
        let expected = |i: usize| if i.is_multiple_of(2) { other } else { mine };
        count(self.seen.iter().rev().enumerate().take_while(|(i, s)| *s == expected(*i)))
    }

    /// Calls of this tool in a few variants with one outcome: at least ten over at least two
    /// variants, each at least three times.
    fn churn(&self, facts: &CallFacts) -> Option<u32> {
        let result = self.seen.iter().rev().find(|s| s.tool == facts.tool)?.result;
        let mut variants: BTreeMap<u64, u32> = BTreeMap::new();
        for s in self.seen.iter().filter(|s| s.tool == facts.tool) {
            if s.result != result {
                return None;
            }
            *variants.entry(s.args).or_default() += 1;
        }
        let total = variants.values().sum();
        let each = variants.values().all(|n| *n >= 3);
        (variants.len() >= 2 && each && total >= LOOP_WARN).then_some(total)
    }

    /// Asserts the bounds of this part of the state.
    pub fn check(&self) {
        assert!(self.seen.len() <= LOOP_HISTORY_MAX, "the loop history passed its limit");
        assert!(self.warned.len() <= LOOP_WARNED_MAX, "the warned keys passed their limit");
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(tool: u64, args: u64) -> CallFacts {
        CallFacts { tool, args, ..CallFacts::default() }
    }

    fn critical(level: Level) -> Option<(Detector, u32)> {
        match level {
            Level::Critical(f) => Some((f.detector, f.count)),
            Level::Fine | Level::Warning(_) => None,
        }
    }

    /// B118: identical calls with identical results are warned of at 10 and blocked at 20.
    #[test]
    fn b118_identical_calls_are_warned_then_blocked() {
        let mut history = History::default();
        let call = facts(1, 1);
        let mut warnings = Vec::new();
        for n in 0..LOOP_CRITICAL {
            match history.judge(&call) {
                Level::Fine => {}
                Level::Warning(f) => warnings.push((n, f.detector)),
                Level::Critical(f) => panic!("blocked after {n}: {f:?}"),
            }
            history.note(&call, 7);
        }
        assert_eq!(warnings, [(10, Detector::GenericRepeat)]);
        assert_eq!(critical(history.judge(&call)), Some((Detector::GenericRepeat, 20)));
    }

    /// B118: a poll whose answers change goes on for ever.
    #[test]
    fn b118_changing_results_are_progress() {
        let mut history = History::default();
        let call = CallFacts { poll: true, ..facts(1, 1) };
        for n in 0..200 {
            assert_eq!(history.judge(&call), Level::Fine, "after {n}");
            history.note(&call, n);
        }
    }

    #[test]
    fn a_missing_tool_is_blocked_after_ten() {
        let mut history = History::default();
        for n in 0..10 {
            let call = CallFacts { rejected: Some(RejectKind::Unknown), ..facts(3, n) };
            assert_eq!(critical(history.judge(&call)), None);
            history.note(&call, n);
        }
        let call = CallFacts { rejected: Some(RejectKind::Unknown), ..facts(3, 99) };
        assert_eq!(critical(history.judge(&call)), Some((Detector::UnknownToolRepeat, 10)));
    }

    #[test]
    fn ping_pong_is_seen_and_a_change_ends_it() {
        let mut history = History::default();
        let (a, b) = (facts(1, 1), facts(2, 2));
        for _ in 0..10 {
            history.note(&a, 1);
            history.note(&b, 2);
        }
        assert_eq!(critical(history.judge(&a)), Some((Detector::PingPong, 20)));
        history.note(&a, 5);
        assert_eq!(critical(history.judge(&b)), None);
    }

    #[test]
    fn churn_is_only_warned_of() {
        let mut history = History::default();
        for n in 0..12 {
            history.note(&facts(1, n % 3), 9);
        }
        let level = history.judge(&facts(1, 77));
        let Level::Warning(finding) = level else { panic!("{level:?}") };
        assert_eq!((finding.detector, finding.count), (Detector::ArgumentChurn, 12));
    }

    #[test]
    fn a_warning_is_shown_once_a_bucket() {
        let mut history = History::default();
        let call = facts(1, 1);
        let mut shown = 0;
        for n in 0..30 {
            if matches!(history.judge(&call), Level::Warning(_)) {
                shown += 1;
            }
            history.note(&call, n);
        }
        assert_eq!(shown, 2, "once at 10 and once at 20");
    }
}
