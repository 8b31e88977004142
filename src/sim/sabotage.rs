//! Faults that the simulator plants on purpose: each must be caught by the invariant it breaks.
//! A check that no sabotage trips is not a check.

use clap::ValueEnum;

/// A planted fault, named after what it does. The comment names the invariant that it breaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum Sabotage {
    /// 1: a tool result is not stored.
    SkipResult,
    /// 1: results are stored in the wrong order.
    ReorderResults,
    /// 2: the store commits for whoever asks.
    IgnoreFence,
    /// 3: an act of a superseded run is carried out.
    ActAfterEnd,
    /// 4: the terminal event is told twice.
    EndTwice,
    /// 4: the terminal event is not told.
    EndNever,
    /// 5: waiting messages are forgotten at a restart.
    LoseQueue,
    /// 5: a committed message stays in its queue.
    DoubleMessage,
    /// 6: acts are started before the commit.
    ActBeforeCommit,
    /// 6: what was running at a crash is run again.
    RunAgain,
    /// 7: steering skips a call that has begun.
    SkipStarted,
    /// 10: a blocked call is allowed.
    Unblock,
    /// 11: a step depends on something that is not in its inputs.
    Dice,
    /// 11: the log misses a record.
    LoseRecord,
    /// 12: recovery leaves the interrupted run open.
    HalfRecovery,
    /// 13: a part of what was sent to the model is sent differently the next time.
    RewritePrefix,
    /// 14: the bound of a queue is not kept.
    Overfill,
    /// 15: a known outcome is forgotten at a restart.
    ForgetOutcome,
}

impl Sabotage {
    /// All of them.
    #[must_use]
    pub fn all() -> &'static [Sabotage] {
        Sabotage::value_variants()
    }

    /// Its name on the command line and in replay files.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
    }

    /// The one with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Sabotage> {
        Sabotage::all().iter().copied().find(|s| s.name() == name)
    }
}
