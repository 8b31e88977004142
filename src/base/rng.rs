//! A seeded source of choices. Seeds flow down: each part derives its own stream.

use serde::{Deserialize, Serialize};

/// SplitMix64: small, fast, good enough for jitter, ids and simulated worlds; not for secrets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rng(pub u64);

impl Rng {
    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)] // An iterator would have to be endless.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 for `n` of 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // The high half of a product: a division would be most of what a draw costs.
        let product = u128::from(self.next()) * u128::from(n);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A stream of its own for a part, so that one part's draws do not shift another's.
    pub fn derive(&mut self, part: u64) -> Rng {
        Rng(self.next() ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }
}
