//! Time as a number that comes in from outside.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Milliseconds since the Unix epoch. The edge reads the clock and makes it never go back; pure
/// code only compares and adds.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// The instant `ms` milliseconds later; saturates at the end of time.
    #[must_use]
    pub fn plus(self, ms: u64) -> Millis {
        Millis(self.0.saturating_add(ms))
    }

    /// How many milliseconds lie between `earlier` and this instant; 0 if it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Millis) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
