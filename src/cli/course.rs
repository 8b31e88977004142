//! The course of a run, stretch by stretch: what it waited for, how long, and what ended that.

use super::words::{span, table};
use crate::base::Millis;
use serde_json::{Value, json};

/// A stretch of time in which a run waited for one thing.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stretch {
    phase: String,
    at: Millis,
    /// Its length; none while it goes on.
    ms: Option<u64>,
    /// What ended it.
    until: String,
}

/// What is stored of the course of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Course {
    stretches: Vec<Stretch>,
    left_out: u64,
}

/// The time of all stretches with one name.
struct Total<'c> {
    phase: &'c str,
    ms: u64,
    times: u64,
}

impl Course {
    /// Reads it; `None` where nothing that is known is stored. `end` are the words for how the run
    /// ended.
    pub fn read(phases: &Value, ended_at: Option<Millis>, end: &str) -> Option<Course> {
        let stretch = |value: &Value| {
            Some((value["phase"].as_str()?.to_owned(), Millis(value["at"].as_u64()?)))
        };
        let read: Vec<(String, Millis)> =
            phases["stretches"].as_array()?.iter().filter_map(stretch).collect();
        let next = |i: usize| read.get(i + 1);
        let made = |(i, (phase, at)): (usize, &(String, Millis))| Stretch {
            phase: phase.clone(),
            at: *at,
            ms: next(i).map(|(_, at)| *at).or(ended_at).map(|end| end.since(*at)),
            until: match next(i) {
                Some((next, _)) => until(phase, next, end),
                None if ended_at.is_some() => until(phase, "ended", end),
                None => "(not ended)".to_owned(),
            },
        };
        let stretches: Vec<Stretch> = read.iter().enumerate().map(made).collect();
        let left_out = phases["leftOut"].as_u64().unwrap_or(0);
        (!stretches.is_empty()).then_some(Course { stretches, left_out })
    }

    /// The sums, the longest first.
    fn totals(&self) -> Vec<Total<'_>> {
        let mut totals: Vec<Total<'_>> = Vec::new();
        for stretch in &self.stretches {
            let ms = stretch.ms.unwrap_or(0);
            match totals.iter_mut().find(|t| t.phase == stretch.phase) {
                Some(total) => {
                    total.ms = total.ms.saturating_add(ms);
                    total.times += 1;
                }
                None => totals.push(Total { phase: &stretch.phase, ms, times: 1 }),
            }
        }
        totals.sort_by_key(|total| std::cmp::Reverse(total.ms));
        totals
    }

    /// For people: the sums, then every stretch.
    pub fn text(&self) -> String {
        let totals = self.totals();
        let all: u64 = totals.iter().fold(0, |all, total| all.saturating_add(total.ms));
        let mut rows =
            vec![["IN ALL", "TIME", "PART", "TIMES", "IT WAITED FOR"].map(str::to_owned)];
        rows.extend(totals.iter().filter(|t| !silent(t.phase, t.ms)).map(|total| {
            let part = total.ms.saturating_mul(100).checked_div(all).unwrap_or(0);
            let (time, times) = (span(total.ms), total.times.to_string());
            [total.phase.to_owned(), time, format!("{part}%"), times, waited_for(total.phase)]
        }));
        let mut text = table("<>>><", &rows);
        text.push('\n');
        let start = self.stretches.first().map_or(Millis(0), |s| s.at);
        let mut rows = vec![["AFTER", "PHASE", "TIME", "UNTIL"].map(str::to_owned)];
        for (i, stretch) in self.stretches.iter().enumerate() {
            let time = stretch.ms.map_or_else(|| "-".to_owned(), span);
            if self.left_out > 0 && i + 1 == self.stretches.len() {
                let note = format!(
                    "({} more are not kept: their time is in the line above)",
                    self.left_out
                );
                rows.push([String::new(), "...".to_owned(), String::new(), note]);
            }
            if !silent(&stretch.phase, stretch.ms.unwrap_or(1)) {
                let after = span(stretch.at.since(start));
                rows.push([after, stretch.phase.clone(), time, stretch.until.clone()]);
            }
        }
        text.push_str(&table("><><", &rows));
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let total = |t: &Total<'_>| json!({"phase": t.phase, "ms": t.ms, "times": t.times});
        let stretch =
            |s: &Stretch| json!({"phase": s.phase, "at": s.at, "ms": s.ms, "until": s.until});
        json!({
            "totals": self.totals().iter().map(total).collect::<Vec<_>>(),
            "stretches": self.stretches.iter().map(stretch).collect::<Vec<_>>(),
            "leftOut": self.left_out,
        })
    }
}

/// A run that has ended waits no more: its last stretch says something only if it took time.
fn silent(phase: &str, ms: u64) -> bool {
    phase == "ended" && ms == 0
}

/// What a run waits for in a phase.
fn waited_for(phase: &str) -> String {
    match phase {
        "queued" => "its turn",
        "claiming" => "the store: to become the conversation's writer",
        "assembling" => "its context",
        "hooking" => "a hook",
        "calling" => "the model",
        "waiting" => "the time to try again",
        "executing" => "tools",
        "admitting" => "tool calls to be checked and let in",
        "ended" => "its end to be stored",
        _ => "",
    }
    .to_owned()
}

/// What ended a stretch, told by what came next.
fn until(phase: &str, next: &str, end: &str) -> String {
    if waited_for(next).is_empty() {
        return format!("{next} began");
    }
    match (phase, next) {
        ("ended", _) => "its end was stored",
        (_, "ended") => return end.to_owned(),
        ("queued", _) => "its turn came",
        ("claiming", _) => "it was the writer",
        ("assembling", _) => "the context was ready",
        ("hooking", _) => "the hook answered",
        ("calling", "admitting" | "executing") => "the model asked for tools",
        ("calling", "waiting") => "the call failed",
        ("calling", _) => "the model answered",
        ("waiting", _) => "it was time to try again",
        ("executing", "admitting") => "the next calls were to be checked",
        ("executing", _) => "the tools had ended",
        ("admitting", "executing") => "the calls were let in",
        ("admitting", _) => "nothing was left to run",
        _ => return format!("{next} began"),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(stretches: &[(&str, u64)], left_out: u64, ended: Option<u64>) -> Course {
        let list: Vec<Value> =
            stretches.iter().map(|(phase, at)| json!({"phase": phase, "at": at})).collect();
        let value = json!({"stretches": list, "leftOut": left_out});
        Course::read(&value, ended.map(Millis), "completed").unwrap()
    }

    /// L20: sums first, then every stretch with its length and what ended it.
    #[test]
    fn a_course_is_told_phase_by_phase() {
        let course = course(
            &[
                ("queued", 1_000),
                ("claiming", 1_040),
                ("assembling", 1_041),
                ("calling", 1_041),
                ("admitting", 3_041),
                ("executing", 3_042),
                ("calling", 3_542),
                ("ended", 4_999),
            ],
            0,
            Some(4_999),
        );
        let want = "\
IN ALL        TIME  PART  TIMES  IT WAITED FOR
calling     3.45 s   86%      2  the model
executing   500 ms   12%      1  tools
queued       40 ms    1%      1  its turn
claiming      1 ms    0%      1  the store: to become the conversation's writer
admitting     1 ms    0%      1  tool calls to be checked and let in
assembling    0 ms    0%      1  its context

 AFTER  PHASE         TIME  UNTIL
  0 ms  queued       40 ms  its turn came
 40 ms  claiming      1 ms  it was the writer
 41 ms  assembling    0 ms  the context was ready
 41 ms  calling     2.00 s  the model asked for tools
2.04 s  admitting     1 ms  the calls were let in
2.04 s  executing   500 ms  the tools had ended
2.54 s  calling     1.45 s  completed
";
        assert_eq!(course.text(), want);
        let json = course.json();
        assert_eq!(json["totals"][0], json!({"phase": "calling", "ms": 3_457, "times": 2}));
        let third = json!({"phase": "calling", "at": 1_041, "ms": 2_000,
                           "until": "the model asked for tools"});
        assert_eq!(json["stretches"][3], third);
    }

    #[test]
    fn what_is_not_known_is_said() {
        let open = course(&[("queued", 5), ("dreaming", 9)], 7, None);
        let text = open.text();
        assert!(text.contains("dreaming began") && text.contains("(not ended)"), "{text}");
        assert!(text.contains("...") && text.contains("(7 more are not kept"), "{text}");
        for nothing in [json!([]), json!({}), json!({"stretches": [1, {"phase": 2}]})] {
            assert_eq!(Course::read(&nothing, None, ""), None);
        }
        // A clock that went back makes no length below nothing.
        let back = course(&[("queued", 9), ("calling", 5)], 0, Some(1));
        assert_eq!(back.json()["stretches"][0]["ms"], 0);
    }
}
