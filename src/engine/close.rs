//! Retries of the same request, and what a failure means (semantics 4.1, 12.2).

use crate::base::limits::{
    RETRY_AFTER_MAX_MS, RETRY_BASE_MS, RETRY_CAP_MS, RETRY_MAX, RETRY_RATE_MAX, RETRY_WINDOW_MS,
    UNUSABLE_MAX,
};
use crate::base::{FailKind, Failure, Millis, Rng};

/// Retries of one request so far.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Attempts {
    /// Retries made.
    pub made: u8,
    /// When the first attempt failed.
    pub since: Millis,
}

/// A retry that may be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// Which it is, from 1.
    pub attempt: u8,
    /// How many there may be.
    pub max: u8,
    /// How long to wait first, ms.
    pub delay_ms: u64,
}

fn retry_max(kind: FailKind) -> u8 {
    match kind {
        FailKind::RateLimit => RETRY_RATE_MAX,
        FailKind::Empty => 1,
        FailKind::MalformedCalls => UNUSABLE_MAX - 1,
        kind if kind.retryable() => RETRY_MAX,
        _ => 0,
    }
}

/// Whether a failed request is sent again, and when. Delays double from one second to a cap of
/// thirty, spread by half in both directions; what the provider asks for is a floor, up to a
/// minute. A retry that would leave the window of ninety seconds is not made.
pub fn retry(
    attempts: Attempts,
    failure: &Failure,
    budget_due: Option<Millis>,
    rng: &mut Rng,
    now: Millis,
) -> Option<Retry> {
    let max = retry_max(failure.kind);
    if attempts.made >= max {
        return None;
    }
    let doubled = RETRY_BASE_MS << attempts.made.min(10);
    let spread = doubled.min(RETRY_CAP_MS) * (500 + rng.below(1_001)) / 1_000;
    let asked = failure.retry_after_ms.unwrap_or(0).min(RETRY_AFTER_MAX_MS);
    let delay_ms = spread.min(RETRY_CAP_MS).max(asked);
    let end = now.plus(delay_ms);
    let windowed = failure.kind != FailKind::RateLimit;
    if windowed && end.since(attempts.since) > RETRY_WINDOW_MS {
        return None;
    }
    // A run whose budget ends before the wait does fails now, with the provider's words.
    if budget_due.is_some_and(|due| end >= due) {
        return None;
    }
    Some(Retry { attempt: attempts.made + 1, max, delay_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(kind: FailKind, asked: Option<u64>) -> Vec<u64> {
        let mut rng = Rng(7);
        let mut now = Millis(1_000_000);
        let mut attempts = Attempts { made: 0, since: now };
        let failure = Failure { retry_after_ms: asked, ..Failure::new(kind, "x") };
        let mut delays = Vec::new();
        while let Some(retry) = retry(attempts, &failure, None, &mut rng, now) {
            delays.push(retry.delay_ms);
            now = now.plus(retry.delay_ms);
            attempts.made = retry.attempt;
        }
        delays
    }

    #[test]
    fn delays_double_within_the_window() {
        let delays = delays(FailKind::ServerError, None);
        assert!(delays.len() >= 6 && delays.len() <= 8, "{delays:?}");
        assert!(delays.iter().sum::<u64>() <= RETRY_WINDOW_MS, "{delays:?}");
        for (n, delay) in delays.iter().enumerate() {
            let middle = (1_000u64 << n).min(30_000);
            assert!((middle / 2..=middle * 3 / 2).contains(delay), "{n}: {delay}");
        }
    }

    #[test]
    fn retry_after_is_a_floor_with_a_cap() {
        assert!(delays(FailKind::RateLimit, Some(5_000)).iter().all(|d| *d >= 5_000));
        let long = delays(FailKind::RateLimit, Some(3_600_000));
        assert_eq!(long, vec![60_000; 9]);
    }

    #[test]
    fn a_wait_beyond_the_budget_is_not_begun() {
        let failure =
            Failure { retry_after_ms: Some(30_000), ..Failure::new(FailKind::RateLimit, "x") };
        let ask = |due| retry(Attempts::default(), &failure, due, &mut Rng(1), Millis(50_000));
        assert!(ask(Some(Millis(60_000))).is_none());
        assert!(ask(Some(Millis(90_000))).is_some());
    }

    /// B010, B079: what the provider refuses as malformed is asked once.
    #[test]
    fn b010_b079_definite_failures_are_not_retried() {
        for kind in [FailKind::Format, FailKind::Auth, FailKind::ContextOverflow] {
            assert!(delays(kind, None).is_empty(), "{kind:?}");
        }
    }

    /// B116: calls that cannot be used end the run after five in a row, of whatever kind.
    #[test]
    fn b116_unusable_calls_are_asked_five_times() {
        assert_eq!(delays(FailKind::MalformedCalls, None).len() + 1, usize::from(UNUSABLE_MAX));
    }
}
