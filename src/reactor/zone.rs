//! Where the local day begins (Z6). Time zones are the edge's: pure code gets an instant.

use crate::base::Millis;
use jiff::{Timestamp, ToSpan as _, civil::Date, tz::TimeZone};

/// The last instant at or before `now` at which a local day reached `hour` (0 to 23; a higher one
/// counts as 23). Where clocks skip that hour, the instant at which they skip it; where they
/// repeat it, the first of the two.
#[must_use]
pub fn daily_boundary(now: Millis, hour: u8, zone: &TimeZone) -> Millis {
    let ms = i64::try_from(now.0).unwrap_or(i64::MAX);
    let at = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
    let today = zone.to_datetime(at).date();
    // Yesterday's may still be ahead where a whole day was skipped.
    for days in 0..=3 {
        let found = today.checked_sub(days.days()).ok().and_then(|day| begins(day, hour, zone));
        if let Some(found) = found.filter(|found| *found <= at) {
            return Millis(u64::try_from(found.as_millisecond()).unwrap_or(0));
        }
    }
    Millis(0)
}

fn begins(day: Date, hour: u8, zone: &TimeZone) -> Option<Timestamp> {
    let hour = i8::try_from(hour.min(23)).ok()?;
    zone.to_ambiguous_timestamp(day.at(hour, 0, 0, 0)).compatible().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
    const SAO_PAULO_2018: &str = "<-03>3<-02>,M11.1.0/0,M2.3.0/0";

    fn millis(text: &str) -> Millis {
        let at: Timestamp = text.parse().unwrap();
        Millis(u64::try_from(at.as_millisecond()).unwrap())
    }

    fn boundary(zone: &str, now: &str, hour: u8) -> String {
        let zone = TimeZone::posix(zone).unwrap();
        let found = daily_boundary(millis(now), hour, &zone);
        Timestamp::from_millisecond(i64::try_from(found.0).unwrap()).unwrap().to_string()
    }

    /// Z6: an ordinary day, to the millisecond.
    #[test]
    fn a_day_begins_at_its_hour() {
        assert_eq!(boundary("UTC0", "2026-01-15T03:59:59.999Z", 4), "2026-01-14T04:00:00Z");
        assert_eq!(boundary("UTC0", "2026-01-15T04:00:00Z", 4), "2026-01-15T04:00:00Z");
        assert_eq!(boundary("UTC0", "2026-01-15T23:00:00Z", 0), "2026-01-15T00:00:00Z");
        assert_eq!(boundary(BERLIN, "2026-01-15T03:00:00Z", 4), "2026-01-15T03:00:00Z");
        assert_eq!(boundary(BERLIN, "2026-01-15T02:59:00Z", 4), "2026-01-14T03:00:00Z");
        assert_eq!(boundary("UTC0", "2026-01-15T22:00:00Z", 99), "2026-01-14T23:00:00Z");
    }

    /// Z6: a skipped hour begins when it is skipped: 02:00 becomes 03:00 on 29 March 2026.
    #[test]
    fn a_skipped_hour_has_its_instant() {
        assert_eq!(boundary(BERLIN, "2026-03-29T00:59:59Z", 2), "2026-03-28T01:00:00Z");
        assert_eq!(boundary(BERLIN, "2026-03-29T01:00:00Z", 2), "2026-03-29T01:00:00Z");
        assert_eq!(boundary(BERLIN, "2026-03-30T00:30:00Z", 2), "2026-03-30T00:00:00Z");
        assert_eq!(boundary(BERLIN, "2026-03-29T02:30:00Z", 4), "2026-03-29T02:00:00Z");
        assert_eq!(boundary(BERLIN, "2026-03-29T01:30:00Z", 4), "2026-03-28T03:00:00Z");
    }

    /// Z6: a repeated hour begins once, the first time: 03:00 becomes 02:00 on 25 October 2026.
    #[test]
    fn a_repeated_hour_begins_once() {
        for now in ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T12:00:00Z"] {
            assert_eq!(boundary(BERLIN, now, 2), "2026-10-25T00:00:00Z", "{now}");
        }
        assert_eq!(boundary(BERLIN, "2026-10-24T23:59:59Z", 2), "2026-10-24T00:00:00Z");
        assert_eq!(boundary(BERLIN, "2026-10-25T03:00:00Z", 4), "2026-10-25T03:00:00Z");
        assert_eq!(boundary(BERLIN, "2026-10-25T02:59:00Z", 4), "2026-10-24T02:00:00Z");
    }

    /// Z6: where midnight itself is skipped, the day begins at one o'clock.
    #[test]
    fn a_skipped_midnight_has_its_instant() {
        let zone = SAO_PAULO_2018;
        assert_eq!(boundary(zone, "2018-11-04T02:59:59Z", 0), "2018-11-03T03:00:00Z");
        assert_eq!(boundary(zone, "2018-11-04T03:00:00Z", 0), "2018-11-04T03:00:00Z");
        assert_eq!(boundary(zone, "2018-11-05T02:00:00Z", 0), "2018-11-05T02:00:00Z");
    }

    /// Z6: minute by minute over a year, boundaries never go back, there is one a day, and none is
    /// ahead of its time (B203).
    #[test]
    fn there_is_one_boundary_a_day() {
        let zone = TimeZone::posix(BERLIN).unwrap();
        let (start, step) = (millis("2026-01-01T12:00:00Z"), 600_000);
        for hour in [0, 2, 3, 4, 23] {
            let mut seen = vec![daily_boundary(start, hour, &zone)];
            for n in 0..365 * 144 {
                let now = start.plus(n * step);
                let found = daily_boundary(now, hour, &zone);
                let last = *seen.last().unwrap();
                assert!(found <= now && found >= last);
                if found > last {
                    seen.push(found);
                }
            }
            assert_eq!(seen.len(), 366, "hour {hour}: the first, and one for each of 365 days");
        }
    }

    /// Z6: times at the ends of the scale have an answer.
    #[test]
    fn odd_times_have_an_answer() {
        let zone = TimeZone::posix(BERLIN).unwrap();
        assert_eq!(daily_boundary(Millis(0), 4, &zone), Millis(0));
        assert!(daily_boundary(Millis(u64::MAX), 4, &zone) > Millis(0));
    }
}
