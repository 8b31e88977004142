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
    /// 1: a compaction keeps a result without its call.
    CutPair,
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
    /// Town, 5: a waiting turn is forgotten, and nobody is told.
    TownDropTurn,
    /// Town, 15: the same request is accepted a second time.
    TownDoubleAdmit,
    /// Town, 4: the end of a run is told twice.
    TownEndTwice,
    /// Town, 4: the end of a run is not told.
    TownEndNever,
    /// Town, 8: a lane is never given back.
    TownLeakLane,
    /// Town, 3: two runs begin in one session.
    TownTwoRuns,
    /// Town, 15: another request under the same name is taken for the same.
    TownIgnoreIdentity,
    /// Town, 4: a turn that was given up begins all the same.
    TownRunDropped,
    /// Town, 5: a turn that was given up stays in the store's queue.
    TownKeepDropped,
    /// Town, 12: what waited is forgotten at a restart.
    TownLoseQueue,
    /// Town, 12: attempts at resuming are not counted over restarts.
    TownResumeForever,
    /// Town, 2: a reset keeps the revision.
    TownKeepRevision,
    /// Town, 5: a message that was steered into a run reaches the next session's.
    TownSteerAcross,
    /// Town, 2: the store commits for whoever asks.
    TownIgnoreFence,
    /// Town, 11: what happens depends on something that is no input.
    TownDice,
}

impl Sabotage {
    /// All of them.
    #[must_use]
    pub fn all() -> &'static [Sabotage] {
        Sabotage::value_variants()
    }

    /// Whether it is planted in the town of several sessions.
    #[must_use]
    pub fn is_town(self) -> bool {
        self >= Sabotage::TownDropTurn
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
