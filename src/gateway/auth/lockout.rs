//! Failures by address: locks for those from outside, delays for those from here.

use crate::base::Millis;
use core::net::{IpAddr, Ipv6Addr};
use std::collections::BTreeMap;

/// The time in which failures are counted, ms.
const WINDOW_MS: u64 = 60_000;
/// Failures in that time that lock an address.
const FAILURES: usize = 10;
/// How long it is locked, ms.
const LOCK_MS: u64 = 300_000;
/// The first delay of a failure from loopback, ms; doubles with each further one.
const DELAY_MS: u64 = 250;
/// The longest, ms.
const DELAY_MAX_MS: u64 = 5_000;
/// Most addresses that are remembered.
const ADDRESSES_MAX: usize = 4_096;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Seen {
    /// Times of failures in the window, at most as many as lock.
    failures: Vec<Millis>,
    locked_until: Option<Millis>,
    delay_ms: u64,
}

impl Seen {
    fn last(&self) -> Millis {
        self.failures.last().copied().unwrap_or(Millis(0))
    }
}

/// Who failed how often (H7).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lockout {
    seen: BTreeMap<IpAddr, Seen>,
}

/// The address that counts: an IPv6 network of 64 bits is one.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        other => other,
    }
}

impl Lockout {
    /// How long an address is still locked, ms; `None` if it is not.
    #[must_use]
    pub fn locked(&self, address: IpAddr, now: Millis) -> Option<u64> {
        let until = self.seen.get(&counted(address))?.locked_until?;
        Some(until.since(now)).filter(|left| *left > 0)
    }

    /// An address has failed. Gives the time after which it is answered, ms.
    pub fn failed(&mut self, address: IpAddr, now: Millis) -> u64 {
        let address = counted(address);
        self.make_room(address, now);
        let seen = self.seen.entry(address).or_default();
        let fresh = now.since(seen.last()) <= WINDOW_MS;
        seen.failures.retain(|at| now.since(*at) < WINDOW_MS);
        if seen.failures.len() == FAILURES {
            seen.failures.remove(0);
        }
        seen.failures.push(now);
        if address.is_loopback() {
            let double = (seen.delay_ms * 2).clamp(DELAY_MS, DELAY_MAX_MS);
            seen.delay_ms = if fresh { double } else { DELAY_MS };
            return seen.delay_ms;
        }
        if seen.failures.len() == FAILURES {
            seen.failures.clear();
            seen.failures.push(now);
            seen.locked_until = Some(now.plus(LOCK_MS));
        }
        0
    }

    /// An address was let in.
    pub fn succeeded(&mut self, address: IpAddr) {
        self.seen.remove(&counted(address));
    }

    fn make_room(&mut self, address: IpAddr, now: Millis) {
        if self.seen.len() < ADDRESSES_MAX || self.seen.contains_key(&address) {
            return;
        }
        let locked = |seen: &Seen| seen.locked_until.is_some_and(|until| until > now);
        let first = self.seen.iter().min_by_key(|(_, seen)| (locked(seen), seen.last()));
        if let Some(address) = first.map(|(address, _)| *address) {
            self.seen.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// H7: ten failures in a minute lock, and not one fewer or later.
    #[test]
    fn ten_failures_lock_for_five_minutes() {
        let (mut lockout, far) = (Lockout::default(), ip("192.0.2.1"));
        for n in 0..9 {
            assert_eq!(lockout.failed(far, Millis(1_000 * n)), 0);
        }
        assert_eq!(lockout.locked(far, Millis(9_000)), None);
        // The first one is a minute ago by now.
        lockout.failed(far, Millis(60_000));
        assert_eq!(lockout.locked(far, Millis(60_000)), None);
        lockout.failed(far, Millis(60_500));
        assert_eq!(lockout.locked(far, Millis(60_500)), Some(300_000));
        assert_eq!(lockout.locked(ip("::ffff:192.0.2.1"), Millis(360_499)), Some(1));
        assert_eq!(lockout.locked(far, Millis(360_500)), None);
        assert_eq!(lockout.locked(ip("192.0.2.2"), Millis(60_500)), None);
        lockout.failed(far, Millis(360_500));
        assert_eq!(lockout.locked(far, Millis(360_500)), None, "the count begins anew");
    }

    /// H7: a network of IPv6 is one address, and a success clears it.
    #[test]
    fn a_network_is_one_address() {
        let mut lockout = Lockout::default();
        for n in 0..10 {
            lockout.failed(ip(&format!("2001:db8:1:2::{n}")), Millis(n));
        }
        assert!(lockout.locked(ip("2001:db8:1:2:ffff::1"), Millis(10)).is_some());
        assert!(lockout.locked(ip("2001:db8:1:3::1"), Millis(10)).is_none());
        lockout.succeeded(ip("2001:db8:1:2::77"));
        assert!(lockout.locked(ip("2001:db8:1:2::1"), Millis(10)).is_none());
    }

    /// H7: loopback is never locked, and each failure takes longer.
    #[test]
    fn loopback_is_delayed() {
        let mut lockout = Lockout::default();
        let delays: Vec<u64> = (0..12).map(|n| lockout.failed(ip("::1"), Millis(n))).collect();
        assert_eq!(delays[..6], [250, 500, 1_000, 2_000, 4_000, 5_000]);
        assert!(delays[6..].iter().all(|delay| *delay == 5_000));
        assert_eq!(lockout.locked(ip("::1"), Millis(12)), None);
        assert_eq!(lockout.failed(ip("::1"), Millis(100_000)), 250);
        lockout.failed(ip("::1"), Millis(100_001));
        lockout.succeeded(ip("::1"));
        assert_eq!(lockout.failed(ip("::1"), Millis(100_002)), 250);
    }

    /// H7: memory is bounded, and those who are locked stay so for as long as there are others.
    #[test]
    fn addresses_are_bounded() {
        let mut lockout = Lockout::default();
        for n in 0..10 {
            lockout.failed(ip("192.0.2.1"), Millis(n));
        }
        for n in 0..10_000u32 {
            lockout.failed(IpAddr::V4((0x0a00_0000 + n).into()), Millis(10 + u64::from(n)));
        }
        assert_eq!(lockout.seen.len(), ADDRESSES_MAX);
        assert!(lockout.locked(ip("192.0.2.1"), Millis(20_000)).is_some());
        let kept = lockout.seen.values().all(|seen| seen.failures.len() <= FAILURES);
        assert!(kept);
    }
}
