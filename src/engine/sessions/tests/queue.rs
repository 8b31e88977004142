//! Queue modes, caps, stopping, lanes.

use super::*;

fn capped(cap: u16, drop: DropPolicy) -> Bed {
    let mut options = options();
    (options.queue.cap, options.queue.drop) = (Some(cap), Some(drop));
    Bed::with(options)
}

fn steered(run: &str, taken: bool) -> Input {
    Input::Steered { run: id(run), taken }
}

fn target(run: &str) -> Target {
    Target::Run(id(run))
}

fn cap_end() -> Termination {
    Termination::PolicyStop { rule: PolicyRule::QueueCap }
}

/// O4: a steering message that is committed ends with the run that took it.
#[test]
fn a_steering_message_that_is_taken_ends_with_its_host() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.send_as(Mode::Steer, "a", "r2");
    assert!(bed.has_left(|act| matches!(act, Act::Steer { run, .. } if *run == id("r2"))));
    bed.feed(steered("r2", true));
    bed.feed(Input::Joined(id("r2")));
    bed.completes("r1");
    let ends = bed.ended();
    assert_eq!(ends[0], ("r1".into(), done(), None));
    assert_eq!(ends[1], ("r2".into(), done(), Some(id("r1"))));
    assert_eq!(bed.started(), ["r1"]);
}

/// O4, B026: refused, or left over when the run ends, it goes on as a turn of its own, in place.
#[test]
fn a_steering_message_that_is_not_taken_runs_in_its_place() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.send_as(Mode::Steer, "a", "refused");
    bed.send_as(Mode::Steer, "a", "left");
    bed.send("a", "later");
    bed.feed(steered("refused", false));
    bed.feed(steered("left", true));
    bed.ends("r1", aborted(Cause::Timeout));
    assert_eq!(bed.started(), ["r1", "refused"]);
    bed.completes("refused");
    bed.completes("left");
    bed.completes("later");
    assert_eq!(bed.started(), ["left", "later"]);
    assert_eq!(bed.ended().len(), 4);
}

/// O4: a late answer of a run that is over says nothing of the next one.
#[test]
fn a_late_steering_answer_changes_nothing() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.send_as(Mode::Steer, "a", "r2");
    bed.completes("r1");
    let before = bed.machine.clone();
    bed.feed(steered("r2", true));
    bed.feed(Input::Joined(id("r2")));
    assert_eq!(bed.machine, before);
    bed.completes("r2");
    assert_eq!(bed.started(), ["r1", "r2"]);
}

/// O4: follow-ups run one by one, in order.
#[test]
fn follow_ups_run_in_order() {
    let mut bed = Bed::new();
    for run in ["r1", "r2", "r3"] {
        bed.send("a", run);
    }
    for run in ["r1", "r2", "r3"] {
        assert_eq!(bed.started(), [run]);
        bed.completes(run);
    }
}

/// O4, B030: what is pending at a drain point is taken together, in order, of one group only.
#[test]
fn collect_takes_one_group() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.feed(Input::Settings(
        "a".into(),
        Partial { mode: Some(Mode::Collect), ..Partial::default() },
    ));
    bed.facts.queue.mode = Some(Mode::Collect);
    bed.send("a", "r2");
    bed.send("a", "r3");
    bed.send_with("a", "r4", |a| a.wait.group = Group::new("web", "default", "side", "owner"));
    bed.send("a", "r5");
    bed.completes("r1");
    assert_eq!(bed.starts()[1], ("r3".into(), vec!["r2".to_owned()]));
    bed.ended();
    bed.completes("r3");
    assert_eq!(bed.ended()[1], ("r2".into(), done(), Some(id("r3"))));
    assert_eq!(bed.started(), ["r4"]);
}

/// O5: an interrupt gives up what is older, stops what runs, and only the newest runs.
#[test]
fn an_interrupt_leaves_only_the_newest() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.send("a", "r2");
    bed.send_as(Mode::Steer, "a", "s1");
    bed.send_as(Mode::Interrupt, "a", "r3");
    let stop = Termination::PolicyStop { rule: PolicyRule::QueueInterrupt };
    assert_eq!(bed.ended(), [("r2".into(), stop.clone(), None)]);
    assert!(bed.has_left(|act| matches!(act, Act::Abort(_, Cause::User))));
    assert!(bed.has_left(|act| matches!(act, Act::Unsteer { .. })));
    bed.ends("r1", aborted(Cause::User));
    assert_eq!(bed.ended(), [("r1".into(), aborted(Cause::User), None), ("s1".into(), stop, None)]);
    assert_eq!(bed.started(), ["r1", "r3"]);
}

/// O6: the policies at the cap; senders are told.
#[test]
fn a_full_queue_tells_who_has_to_leave() {
    let mut bed = capped(1, DropPolicy::New);
    for run in ["r1", "r2", "r3"] {
        bed.send("a", run);
    }
    assert_eq!(bed.ended(), [("r3".into(), cap_end(), None)]);
    let mut bed = capped(1, DropPolicy::Old);
    for run in ["r1", "r2", "r3"] {
        bed.send("a", run);
    }
    assert_eq!(bed.ended(), [("r2".into(), cap_end(), None)]);
    bed.completes("r1");
    assert_eq!(bed.started(), ["r1", "r3"]);
}

/// O6: what was dropped is told to the model as a message of its own, before the rest.
#[test]
fn an_overflow_is_told_first() {
    let mut bed = capped(1, DropPolicy::Summarize);
    for run in ["r1", "r2", "r3"] {
        bed.send("a", run);
    }
    bed.completes("r1");
    assert_eq!(bed.started(), ["r1", "overflow-r2"]);
    bed.completes("overflow-r2");
    assert_eq!(bed.started(), ["r3"]);
}

/// O6, O7: a stop while the summary is on its way to the store does not leave the session waiting
/// for it.
#[test]
fn a_stop_reaches_an_overflow_on_its_way() {
    let mut bed = capped(1, DropPolicy::Summarize);
    for run in ["r1", "r2", "r3"] {
        bed.send("a", run);
    }
    let step = bed.raw(Input::Ended { run: id("r1"), termination: done(), reload: false });
    bed.abort(Target::Session("a".into()));
    bed.feed(Input::Admitted(asked(&step), Admission::New(Facts::default())));
    let ends: Vec<String> = bed.ended().into_iter().map(|(run, ..)| run).collect();
    assert_eq!(ends, ["r2", "r3", "overflow-r2"]);
    bed.send("a", "r4");
    assert_eq!(bed.started(), ["r1", "r4"]);
}

/// O7: what waits is cancelled before what runs is stopped, and nothing slips in between.
#[test]
fn a_stop_takes_what_waits_first() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.send("a", "r2");
    bed.send_as(Mode::Steer, "a", "r3");
    let coming = bed.raw(Input::Arrive(Box::new(arrival("a", "r4"))));
    let step = bed.raw(Input::Abort(Target::Session("a".into()), Cause::User));
    let order: Vec<&str> = step
        .act
        .iter()
        .map(|act| match act {
            Act::Change(..) => "drop",
            Act::Abort(..) => "abort",
            Act::Unsteer { .. } => "unsteer",
            _ => "other",
        })
        .collect();
    assert_eq!(order, ["unsteer", "drop", "abort"]);
    bed.feed(Input::Changed(asked(&step)));
    bed.feed(Input::Admitted(asked(&coming), Admission::New(Facts::default())));
    bed.feed(steered("r3", false));
    let gone = aborted(Cause::User);
    let ends: Vec<String> = bed.ended().into_iter().map(|(run, ..)| run).collect();
    assert_eq!(ends, ["r2", "r4", "r3"]);
    bed.ends("r1", gone);
    assert_eq!(bed.started(), ["r1"]);
    assert_eq!(bed.machine.unfinished(), 0);
}

/// O7: a message that was committed before it could be taken back ends with its host.
#[test]
fn what_was_committed_cannot_be_taken_back() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.send_as(Mode::Steer, "a", "r2");
    bed.abort(target("r2"));
    assert!(bed.has_left(|act| matches!(act, Act::Unsteer { .. })));
    bed.feed(steered("r2", true));
    bed.feed(Input::Joined(id("r2")));
    bed.completes("r1");
    assert_eq!(bed.ended()[1], ("r2".into(), done(), Some(id("r1"))));
}

/// O8: an end that cannot be stored is not told, and tried again.
#[test]
fn an_end_is_told_once_it_is_stored() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.send("a", "r2");
    let step = bed.raw(Input::Abort(target("r2"), Cause::User));
    bed.feed(Input::ChangeFailed(asked(&step), "full".into()));
    assert_eq!(bed.ended(), []);
    bed.tick(crate::base::limits::DROP_RETRY_MS);
    assert_eq!(bed.ended(), [("r2".into(), aborted(Cause::User), None)]);
}

/// O10: a lane takes no more than it may, in the order of coming; and it is given back.
#[test]
fn lanes_are_taken_in_order() {
    let mut bed = Bed::new();
    let cron = |a: &mut Arrival| a.wait.lane = Lane::Cron;
    for key in ["c", "b", "a"] {
        bed.send_with(key, key, cron);
    }
    bed.send("d", "d");
    assert_eq!(bed.started(), ["c", "d"]);
    bed.completes("c");
    bed.completes("b");
    assert_eq!(bed.started(), ["b", "a"]);
}

/// O10: the lanes are those of who is first; if that one leaves, the next asks for its own.
#[test]
fn lanes_are_for_who_is_first() {
    let mut bed = Bed::new();
    let cron = |a: &mut Arrival| a.wait.lane = Lane::Cron;
    bed.send_with("a", "busy", cron);
    bed.send_with("b", "first", cron);
    bed.send("b", "second");
    assert_eq!(bed.started(), ["busy"]);
    bed.abort(target("first"));
    assert_eq!(bed.started(), ["second"]);
    assert_eq!(bed.machine.line_held("b"), Some((Lane::Main, None)));
}

/// O10: who has waited too long for its lanes is told so, and who comes after it goes on.
#[test]
fn waiting_for_lanes_has_a_limit() {
    let mut bed = Bed::with(Options { lane_wait_ms: 30_000, ..options() });
    let cron = |a: &mut Arrival| a.wait.lane = Lane::Cron;
    bed.send_with("a", "busy", cron);
    bed.send_with("b", "r1", cron);
    bed.send("b", "r2");
    bed.tick(2_000);
    assert!(bed.has_told(|e| matches!(e, Event::Waiting(run, _) if *run == id("r1"))));
    bed.tick(28_000);
    assert_eq!(bed.ended(), [("r1".into(), aborted(Cause::Timeout), None)]);
    assert_eq!(bed.started(), ["busy", "r2"]);
}

/// B027: a message that comes while the run's end is on its way is not left lying.
#[test]
fn a_message_at_the_end_of_a_run_runs() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    let coming = bed.raw(Input::Arrive(Box::new(arrival("a", "r2"))));
    bed.completes("r1");
    bed.feed(Input::Admitted(asked(&coming), Admission::New(Facts::default())));
    assert_eq!(bed.started(), ["r1", "r2"]);
}
