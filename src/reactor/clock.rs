//! The one clock of the process.

use crate::base::Millis;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Wall time at the start plus monotonic time since: it never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall_ms: u64,
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Clock {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        Clock { wall_ms, start: Instant::now() }
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Millis {
        let since = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        Millis(self.wall_ms.saturating_add(since))
    }
}

/// Bytes from the system's random source.
#[must_use]
pub fn entropy<const N: usize>() -> [u8; N] {
    let mut bytes = [0u8; N];
    let random = ring::rand::SystemRandom::new();
    if ring::rand::SecureRandom::fill(&random, &mut bytes).is_err() {
        // Without a random source, time and process must do: ids need to differ, not to be secret.
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let mut rng = crate::base::Rng(u64::try_from(seed & u128::from(u64::MAX)).unwrap_or(1));
        for byte in &mut bytes {
            *byte = u8::try_from(rng.below(256)).unwrap_or(0);
        }
    }
    bytes
}
