//! Rules O1 to O18 on the machine of all sessions.

mod queue;
mod whole;

use super::*;
use crate::base::limits::RUNS_MAX;
use crate::engine::lanes::{Caps, Lane, Priority};
use crate::engine::reset::ResetPolicy;
use crate::engine::turns::{Arriving, DropPolicy, Group, Mode};
use crate::engine::watch::Thresholds;
use crate::engine::{Fault, ends::PolicyRule};
use crate::transcript::{Content, User};

/// The machine with a store that says yes; what it starts, stops and steers is left to the test.
struct Bed {
    machine: Sessions,
    now: Millis,
    told: Vec<Event>,
    left: Vec<Act>,
    facts: Facts,
}

fn options() -> Options {
    let one = 1;
    Options {
        caps: Caps { main: 4, cron: one, nested: one, background: one, ..Caps::for_cpus(1) },
        queue: Partial { mode: Some(Mode::FollowUp), debounce_ms: Some(0), ..Partial::default() },
        reset: ResetPolicy::default(),
        watch: Thresholds::default(),
        lane_wait_ms: 0,
        keep_ms: 60_000,
    }
}

fn waits() -> Waits {
    Waits {
        arriving: Arriving::Message,
        group: Group::new("web", "default", "", "owner"),
        line: "a line".into(),
        inline: Partial::default(),
        channel: Partial::default(),
        lane: Lane::Main,
        owner: None,
        priority: Priority::Normal,
        budget_ms: None,
        attempt: 0,
        narrowed: false,
    }
}

fn id(run: &str) -> RunId {
    RunId::new(run)
}

fn arrival(key: &str, run: &str) -> Arrival {
    let content = Content::Text(run.to_owned());
    Arrival {
        key: key.into(),
        run: id(run),
        request: "request".into(),
        body: Arc::new(User { content, timestamp: Millis(0), idempotency_key: None }),
        wait: waits(),
        interaction: true,
        boundary: None,
    }
}

fn aborted(cause: Cause) -> Termination {
    Termination::Aborted { cause }
}

fn done() -> Termination {
    Termination::Completed { cut: false }
}

impl Bed {
    fn with(options: Options) -> Bed {
        let (machine, now) = (Sessions::new(options), Millis(1_000_000));
        Bed { machine, now, told: vec![], left: vec![], facts: Facts::default() }
    }

    fn new() -> Bed {
        Bed::with(options())
    }

    /// One input without answers to what it asks for.
    fn raw(&mut self, input: Input) -> Step {
        let step = self.machine.step(input, self.now);
        self.machine.check();
        step
    }

    /// One input, and the store does what it is asked to.
    fn feed(&mut self, input: Input) {
        let step = self.raw(input);
        assert_eq!(step.refused, None);
        self.told.extend(step.tell);
        for act in step.act {
            match act {
                Act::Admit(op, _, _) => self.feed(Input::Admitted(op, Admission::New(self.facts))),
                Act::Open(op, _) => self.feed(Input::Opened(op)),
                Act::Change(op, _, _) => self.feed(Input::Changed(op)),
                Act::Find(op, _) => self.feed(Input::Found(op, None)),
                other => self.left.push(other),
            }
        }
    }

    fn send(&mut self, key: &str, run: &str) {
        self.feed(Input::Arrive(Box::new(arrival(key, run))));
    }

    fn send_with(&mut self, key: &str, run: &str, change: impl FnOnce(&mut Arrival)) {
        let mut arrival = arrival(key, run);
        change(&mut arrival);
        self.feed(Input::Arrive(Box::new(arrival)));
    }

    fn send_as(&mut self, mode: Mode, key: &str, run: &str) {
        self.send_with(key, run, |a| a.wait.inline.mode = Some(mode));
    }

    fn ends(&mut self, run: &str, termination: Termination) {
        self.feed(Input::Ended { run: id(run), termination, reload: false });
    }

    fn completes(&mut self, run: &str) {
        self.ends(run, done());
    }

    fn abort(&mut self, target: Target) {
        self.feed(Input::Abort(target, Cause::User));
    }

    fn tick(&mut self, ms: u64) {
        self.now = self.now.plus(ms);
        self.feed(Input::Tick);
    }

    /// The runs that were started since the last question, with those that share each.
    fn starts(&mut self) -> Vec<(String, Vec<String>)> {
        let mut found = vec![];
        self.left.retain(|act| {
            let Act::Start(start) = act else { return true };
            let joined = start.joined.iter().map(ToString::to_string).collect();
            found.push((start.run.to_string(), joined));
            false
        });
        found
    }

    fn started(&mut self) -> Vec<String> {
        self.starts().into_iter().map(|(run, _)| run).collect()
    }

    /// The ends that were told since the last question.
    fn ended(&mut self) -> Vec<(String, Termination, Option<RunId>)> {
        let mut found = vec![];
        self.told.retain(|event| {
            let Event::Ended { run, termination, into, .. } = event else { return true };
            found.push((run.to_string(), termination.clone(), into.clone()));
            false
        });
        found
    }

    fn waited(&mut self) -> Vec<(u64, Option<Outcome>, bool)> {
        let mut found = vec![];
        self.told.retain(|event| {
            let Event::Waited { waiter, outcome, queued } = event else { return true };
            found.push((*waiter, outcome.clone(), *queued));
            false
        });
        found
    }

    fn has_left(&self, find: impl Fn(&Act) -> bool) -> bool {
        self.left.iter().any(find)
    }

    fn has_told(&self, find: impl Fn(&Event) -> bool) -> bool {
        self.told.iter().any(find)
    }
}

fn asked(step: &Step) -> OpId {
    let op = step.act.iter().find_map(|act| match act {
        Act::Admit(op, ..) | Act::Open(op, _) | Act::Change(op, ..) | Act::Find(op, _) => Some(*op),
        _ => None,
    });
    op.expect("something is asked")
}

/// O1: accepted is what is stored; before that nobody is told, and nothing begins.
#[test]
fn a_message_is_accepted_when_it_is_stored() {
    let mut bed = Bed::new();
    let step = bed.raw(Input::Arrive(Box::new(arrival("a", "r1"))));
    assert_eq!((step.tell.len(), step.act.len()), (0, 1));
    let facts = Facts::default();
    bed.feed(Input::Admitted(asked(&step), Admission::New(facts)));
    assert!(bed.has_told(|e| matches!(e, Event::Accepted { run, .. } if *run == id("r1"))));
    assert_eq!(bed.started(), ["r1"]);
    let step = bed.raw(Input::Arrive(Box::new(arrival("a", "r2"))));
    bed.feed(Input::Admitted(asked(&step), Admission::Failed("full".into())));
    assert!(bed.has_told(|e| matches!(e, Event::Refused(_, Why::Store(_)))));
    assert_eq!(bed.machine.unfinished(), 1);
}

/// O2: one request under one name, whether it is on its way, under way or over.
#[test]
fn a_name_stands_for_one_request() {
    let mut bed = Bed::new();
    let first = bed.raw(Input::Arrive(Box::new(arrival("a", "r1"))));
    let again = bed.raw(Input::Arrive(Box::new(arrival("a", "r1"))));
    assert!(matches!(again.tell[..], [Event::Known(..)]) && again.act.is_empty());
    bed.feed(Input::Admitted(asked(&first), Admission::New(Facts::default())));
    let mut other = arrival("a", "r1");
    other.request = "another".into();
    let step = bed.raw(Input::Arrive(Box::new(other)));
    assert_eq!(step.tell, [Event::Conflict(id("r1"))]);
    let step = bed.raw(Input::Arrive(Box::new(arrival("b", "r1"))));
    assert_eq!(step.tell, [Event::Conflict(id("r1"))], "for another conversation");
    bed.completes("r1");
    bed.told.clear();
    let step = bed.raw(Input::Arrive(Box::new(arrival("a", "r1"))));
    let (at, end) = (Some(bed.now), Some(done()));
    let stored = Outcome {
        accepted_at: bed.now,
        started_at: at,
        ended_at: at,
        termination: end,
        into: None,
    };
    bed.feed(Input::Admitted(asked(&step), Admission::Known(stored.clone())));
    assert_eq!(bed.told, [Event::Known(id("r1"), stored)]);
    assert_eq!(bed.started(), ["r1"], "once");
}

/// O3: what is refused costs the store nothing.
#[test]
fn some_messages_are_refused_at_once() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    let mut beat = arrival("a", "h1");
    beat.wait.arriving = Arriving::Heartbeat;
    let step = bed.raw(Input::Arrive(Box::new(beat.clone())));
    assert_eq!(step.tell, [Event::Refused(id("h1"), Why::NotNeeded)]);
    bed.completes("r1");
    bed.feed(Input::Arrive(Box::new(beat)));
    assert_eq!(bed.started(), ["r1", "h1"]);
    bed.feed(Input::Drain(bed.now.plus(1)));
    let step = bed.raw(Input::Arrive(Box::new(arrival("a", "r2"))));
    assert_eq!(step.tell, [Event::Refused(id("r2"), Why::Draining)]);
    let mut full = Bed::new();
    for n in 0..RUNS_MAX {
        let _ =
            full.machine.step(Input::Arrive(Box::new(arrival("a", &format!("r{n}")))), full.now);
    }
    let step = full.machine.step(Input::Arrive(Box::new(arrival("a", "more"))), full.now);
    assert_eq!(step.tell, [Event::Refused(id("more"), Why::Busy)]);
}

/// O9: who waits is told what became of the run; its own time may be over first.
#[test]
fn waiting_never_stops_a_run() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.send("a", "r2");
    let until = bed.now.plus(5_000);
    let wait = |waiter, run| Input::Wait { waiter, run: id(run), until };
    bed.feed(wait(1, "r1"));
    bed.feed(wait(2, "r2"));
    bed.tick(5_000);
    let waited = bed.waited();
    let of = |n: usize| (waited[n].0, waited[n].1.as_ref().map(Outcome::status), waited[n].2);
    assert_eq!(of(0), (1, Some(Status::Timeout), false));
    assert_eq!(of(1), (2, Some(Status::Timeout), true), "it waits in its queue");
    let until = bed.now.plus(60_000);
    bed.feed(Input::Wait { waiter: 3, run: id("r1"), until });
    bed.feed(Input::Wait { waiter: 4, run: id("r1"), until });
    bed.feed(Input::Unwait(4));
    bed.completes("r1");
    let waited = bed.waited();
    assert_eq!(waited.len(), 1);
    assert_eq!(waited[0].1.as_ref().map(Outcome::status), Some(Status::Ok));
    bed.feed(Input::Wait { waiter: 5, run: id("nobody"), until });
    assert_eq!(bed.waited(), [(5, None, false)], "the records know of none");
}

/// O9: a run that is not accepted after all leaves nobody waiting for it; the records are asked.
#[test]
fn who_waits_for_what_is_not_accepted_is_told() {
    let mut bed = Bed::new();
    let step = bed.raw(Input::Arrive(Box::new(arrival("a", "r1"))));
    let until = bed.now.plus(60_000);
    bed.feed(Input::Wait { waiter: 1, run: id("r1"), until });
    bed.feed(Input::Admitted(asked(&step), Admission::Failed("full".into())));
    assert_eq!(bed.waited(), [(1, None, false)]);
}

/// O18: one alarm a session, and a session at rest is let go.
#[test]
fn a_session_at_rest_is_let_go() {
    let mut bed = Bed::new();
    for n in 0..50 {
        bed.send("a", &format!("r{n}"));
        bed.completes(&format!("r{n}"));
    }
    assert_eq!(bed.machine.alarms.len(), 1);
    bed.tick(59_999);
    assert_eq!(bed.machine.in_use(), 1);
    bed.tick(1);
    assert!(bed.has_left(|act| matches!(act, Act::Close(_))));
    assert!(bed.machine.is_at_rest() && bed.machine.due().is_none());
}
