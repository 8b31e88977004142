//! Dedupe windows: what was seen a short while ago is not taken again (Q9).

use crate::base::Millis;
use crate::base::limits::{
    SEEN_INBOUND_MAX, SEEN_INBOUND_MS, SEEN_KEY_BYTES_MAX, SEEN_PROVIDER_MAX, SEEN_PROVIDER_MS,
};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Keys of a time window, oldest first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Seen {
    ttl: u64,
    most: usize,
    order: VecDeque<(Arc<str>, Millis)>,
    keys: BTreeSet<Arc<str>>,
}

impl Seen {
    /// A window of `ttl` ms and `most` keys.
    #[must_use]
    pub fn new(ttl: u64, most: usize) -> Seen {
        Seen { ttl, most, order: VecDeque::new(), keys: BTreeSet::new() }
    }

    /// The window for providers' message ids.
    #[must_use]
    pub fn provider() -> Seen {
        Seen::new(SEEN_PROVIDER_MS, SEEN_PROVIDER_MAX)
    }

    /// The window for inbound messages.
    #[must_use]
    pub fn inbound() -> Seen {
        Seen::new(SEEN_INBOUND_MS, SEEN_INBOUND_MAX)
    }

    /// Whether the key was seen within the window; it is remembered from its first sight. An empty
    /// key and one that is too long are never remembered: taking a message twice is better than
    /// mistaking two for one.
    pub fn seen(&mut self, key: &str, now: Millis) -> bool {
        self.expire(now);
        if key.is_empty() || key.len() > SEEN_KEY_BYTES_MAX {
            return false;
        }
        if self.keys.contains(key) {
            return true;
        }
        while self.order.len() >= self.most.max(1) {
            self.forget_oldest();
        }
        let key: Arc<str> = key.into();
        self.keys.insert(Arc::clone(&key));
        self.order.push_back((key, now));
        false
    }

    fn expire(&mut self, now: Millis) {
        while self.order.front().is_some_and(|(_, at)| now.since(*at) >= self.ttl) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((key, _)) = self.order.pop_front() {
            self.keys.remove(&key);
        }
    }

    /// How many keys are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Q9: a key is known for the length of the window, from its first sight.
    #[test]
    fn a_key_is_known_for_a_while() {
        let mut seen = Seen::new(100, 10);
        assert!(!seen.seen("a", Millis(0)));
        assert!(seen.seen("a", Millis(60)));
        assert!(seen.seen("a", Millis(99)));
        assert!(!seen.seen("a", Millis(100)));
        assert!(seen.seen("a", Millis(101)));
        assert_eq!(seen.len(), 1);
    }

    /// Q9: the window is bounded, and the oldest leaves first.
    #[test]
    fn the_oldest_leaves_first() {
        let mut seen = Seen::new(1_000, 3);
        for (at, key) in ["a", "b", "c", "d"].iter().enumerate() {
            assert!(!seen.seen(key, Millis(at as u64)));
            assert!(seen.len() <= 3);
        }
        assert!(seen.seen("b", Millis(5)));
        assert!(!seen.seen("a", Millis(5)), "it had left");
        assert!(!seen.seen("b", Millis(5)), "now this one had to leave");
        assert_eq!(Seen::provider().most, 10_000);
        assert_eq!(Seen::inbound().ttl, 20 * 60_000);
    }

    /// Q9: no key and too long a key are no keys.
    #[test]
    fn odd_keys_are_not_remembered() {
        let mut seen = Seen::provider();
        let long = "x".repeat(SEEN_KEY_BYTES_MAX + 1);
        for _ in 0..2 {
            assert!(!seen.seen("", Millis(1)));
            assert!(!seen.seen(&long, Millis(1)));
        }
        assert!(seen.is_empty());
    }
}
