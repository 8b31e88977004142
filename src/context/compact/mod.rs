//! Compaction: what is kept of a history, and what stands for the rest (`spec/compaction.md`,
//! semantics 8). Pure: a plan is made of the stored entries, its questions are put to a model by
//! somebody else, and the answers become one entry.
//!
//! ```text
//! entries --plan--> what is kept + what goes --Summarizer--> questions, answers --> Compaction
//! ```

mod ask;
mod cut;
mod files;
mod text;

#[cfg(test)]
mod tests;

pub use ask::{Ask, Summarizer};
pub use cut::{NoPlan, Plan, plan};
pub use files::Files;

use serde_json::Value;

/// What a compaction goes by, tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The model's window.
    pub window: u64,
    /// Kept free for the answer.
    pub reserve: u64,
    /// Kept of the newest messages.
    pub keep: u64,
    /// The most the model writes in one answer.
    pub max_output: u64,
    /// What goes with every request beside the messages.
    pub overhead: u64,
    /// How many times more the provider counts than we estimate, in thousandths.
    pub ratio: u64,
}

impl Budget {
    /// The numbers of a model: a reserve that a small window can bear (decisions 19), and a tail
    /// that leaves room for what is still to come.
    #[must_use]
    pub fn new(window: u64, max_output: u64, reserve: u64, keep: u64) -> Budget {
        let small = window < SMALL_WINDOW;
        let reserve = if small { reserve.min(window / 4) } else { reserve };
        let keep = keep.min(window.saturating_sub(reserve) / 2);
        Budget { window, reserve, keep, max_output, overhead: 0, ratio: 1_000 }
    }

    /// What a context must not pass.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.window.saturating_sub(self.reserve)
    }

    /// Whether a context of so many tokens has to be compacted.
    #[must_use]
    pub fn is_full(&self, tokens: u64) -> bool {
        self.window > 0 && tokens > self.limit()
    }
}

/// Below this window the reserve is at most a quarter of it.
pub const SMALL_WINDOW: u64 = 65_536;
/// Most characters of what stands for the compacted part, without the lists of files.
pub const SUMMARY_CHARS_MAX: usize = 16_000;

/// What the details of a compaction say to the next one.
fn detail<'v>(details: Option<&'v Value>, name: &str) -> impl Iterator<Item = &'v str> {
    let list = details.and_then(|details| details.get(name)).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}
