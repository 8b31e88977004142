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

/// Whether the system has a random source: what is to be a secret must not be made without one.
#[must_use]
pub fn can_keep_secrets() -> bool {
    let random = ring::rand::SystemRandom::new();
    is_random(|bytes| ring::rand::SecureRandom::fill(&random, bytes).is_ok())
}

/// A source that fails, or says the same twice, is none.
fn is_random(mut fill: impl FnMut(&mut [u8]) -> bool) -> bool {
    let (mut one, mut other) = ([0u8; 32], [0u8; 32]);
    fill(&mut one) && fill(&mut other) && one != other
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

#[cfg(test)]
mod tests {
    use super::*;

    /// H6: a gateway is not started on a source that is none.
    #[test]
    fn a_source_that_is_none_is_known() {
        assert!(can_keep_secrets());
        assert!(!is_random(|_| false));
        assert!(!is_random(|bytes| {
            bytes.fill(7);
            true
        }));
        let mut calls = 0;
        let fails_later = |_: &mut [u8]| {
            calls += 1;
            calls == 1
        };
        assert!(!is_random(fails_later));
    }
}
