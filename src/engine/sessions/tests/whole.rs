//! Resets, deletion, drain, restart, recovery, sessions that do not get on.

use super::*;
use crate::base::limits::{RECOVERY_ATTEMPTS_MAX, RECOVERY_DELAY_MS, WATCH_TICK_MS};
use crate::engine::recovery::{Candidate, CandidateKind};
use crate::engine::watch::{Activity, WaitsFor};

fn restored(key: &str, run: &str, msg: u64) -> Restored {
    Restored {
        key: key.into(),
        run: id(run),
        request: "request".into(),
        msg: MsgId(msg),
        accepted_at: Millis(msg),
        waits: waits(),
    }
}

fn candidate(key: &str, attempts: u8) -> Candidate {
    let (session, run, kind) = (key.into(), id("old"), CandidateKind::Main);
    Candidate { session, run, kind, attempts, narrowed: true }
}

fn boot(waiting: Vec<Restored>, interrupted: Vec<Candidate>) -> Input {
    Input::Boot { next_msg: 100, waiting, interrupted }
}

fn reset(key: &str) -> Input {
    Input::Reset(key.into(), ResetReason::Reset)
}

fn resumes(bed: &Bed) -> Vec<u8> {
    let resume = |act: &Act| match act {
        Act::Resume { attempt, .. } => Some(*attempt),
        _ => None,
    };
    bed.left.iter().filter_map(resume).collect()
}

fn resume(bed: &mut Bed, run: &str, attempt: u8) {
    bed.send_with("a", run, |a| {
        (a.wait.attempt, a.interaction) = (attempt, false);
    });
}

/// O11, B209: a reset waits in no queue: what waits goes, what runs is stopped, then it is made.
#[test]
fn a_reset_does_not_wait() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.send("a", "r2");
    bed.feed(reset("a"));
    assert!(bed.has_left(|act| matches!(act, Act::Abort(..))));
    assert_eq!(bed.ended(), [("r2".into(), aborted(Cause::User), None)]);
    bed.send("a", "r3");
    bed.ends("r1", aborted(Cause::User));
    assert!(bed.has_told(|e| matches!(e, Event::Reset(_, Ok(ResetReason::Reset)))));
    assert_eq!(bed.started(), ["r1", "r3"], "what came after the reset is the new session's");
}

/// O11: a session whose run was cut off is made whole before it is changed.
#[test]
fn a_torn_session_is_opened_before_it_changes() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    let fault = Termination::Failed { fault: Fault::Store };
    bed.feed(Input::Ended { run: id("r1"), termination: fault, reload: true });
    let step = bed.raw(reset("a"));
    assert!(matches!(step.act[..], [Act::Open(..)]));
    bed.feed(Input::Opened(asked(&step)));
    assert!(bed.has_told(|e| matches!(e, Event::Reset(_, Ok(_)))));
    bed.send("a", "r2");
    let fault = Termination::Failed { fault: Fault::Store };
    bed.feed(Input::Ended { run: id("r2"), termination: fault, reload: true });
    let step = bed.raw(reset("a"));
    bed.feed(Input::OpenFailed(asked(&step)));
    assert!(bed.has_told(|e| matches!(e, Event::Reset(_, Err(_)))));
}

/// O12, B206, B207: the message that finds its session stale is the first of the new one; nothing
/// but a person's message makes a session begin anew.
#[test]
fn the_first_message_after_a_long_rest_is_kept() {
    let policy = ResetPolicy { idle_minutes: Some(10), ..ResetPolicy::default() };
    let mut bed = Bed::with(Options { reset: policy, ..options() });
    bed.facts = Facts { empty: false, ..Facts::default() };
    bed.send_with("a", "job", |a| a.interaction = false);
    bed.completes("job");
    assert!(!bed.has_told(|e| matches!(e, Event::Reset(..))));
    let step = bed.raw(Input::Arrive(Box::new(arrival("a", "r1"))));
    let step = bed.raw(Input::Admitted(asked(&step), Admission::New(bed.facts)));
    assert!(matches!(step.act[..], [Act::Change(_, _, Change::Reset(ResetReason::Idle))]));
    bed.feed(Input::Changed(asked(&step)));
    assert_eq!(bed.started(), ["job", "r1"]);
    bed.send("a", "r2");
    bed.completes("r1");
    assert_eq!(bed.started(), ["r2"], "freshness is judged once");
}

/// O11: a deletion ends all that was accepted before it; what comes later has a new session.
#[test]
fn a_deletion_takes_what_came_before() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.feed(Input::Delete("a".into()));
    bed.send("a", "r2");
    let coming = bed.raw(Input::Arrive(Box::new(arrival("a", "r3"))));
    bed.ends("r1", aborted(Cause::User));
    assert!(bed.has_told(|e| matches!(e, Event::Deleted(_, Ok(())))));
    bed.feed(Input::Admitted(asked(&coming), Admission::New(Facts::default())));
    let ends: Vec<String> = bed.ended().into_iter().map(|(run, ..)| run).collect();
    assert_eq!(ends, ["r1", "r2", "r3"]);
    bed.send("a", "r4");
    assert_eq!(bed.started(), ["r1", "r4"]);
}

/// O11: what was told to end otherwise does not end with the deletion: that waits for it.
#[test]
fn a_deletion_waits_for_ends_before_it() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.send("a", "r2");
    let step = bed.raw(Input::Abort(Target::Run(id("r2")), Cause::Disconnect));
    bed.feed(Input::ChangeFailed(asked(&step), "full".into()));
    bed.completes("r1");
    bed.feed(Input::Delete("a".into()));
    assert!(!bed.has_told(|e| matches!(e, Event::Deleted(..))));
    bed.tick(crate::base::limits::DROP_RETRY_MS);
    assert_eq!(bed.ended()[1], ("r2".into(), aborted(Cause::Disconnect), None));
    assert!(bed.has_told(|e| matches!(e, Event::Deleted(..))));
}

/// O13: a session that cannot be opened fails who is first, and nobody else; it is opened once.
#[test]
fn a_session_that_cannot_be_opened_fails_the_first() {
    let mut bed = Bed::new();
    let step = bed.raw(Input::Arrive(Box::new(arrival("a", "r1"))));
    let opens = bed.raw(Input::Admitted(asked(&step), Admission::New(Facts::default())));
    let step = bed.raw(Input::Arrive(Box::new(arrival("a", "r2"))));
    let none = bed.raw(Input::Admitted(asked(&step), Admission::New(Facts::default())));
    assert!(none.act.is_empty());
    bed.feed(Input::OpenFailed(asked(&opens)));
    assert_eq!(bed.ended(), [("r1".into(), Termination::Failed { fault: Fault::Store }, None)]);
    assert_eq!(bed.started(), ["r2"]);
}

/// O14: nothing more begins; what runs has its time and is then stopped; the end is told once all
/// that was asked is answered.
#[test]
fn a_drain_comes_to_its_end() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.send("a", "r2");
    let coming = bed.raw(Input::Arrive(Box::new(arrival("b", "r3"))));
    bed.feed(Input::Drain(bed.now.plus(1_000)));
    bed.tick(1_000);
    assert!(bed.has_left(|act| matches!(act, Act::Abort(_, Cause::Restart))));
    bed.ends("r1", aborted(Cause::Restart));
    assert!(!bed.has_told(|e| *e == Event::Drained), "the store still owes an answer");
    bed.feed(Input::Admitted(asked(&coming), Admission::New(Facts::default())));
    assert!(bed.has_told(|e| *e == Event::Drained));
    assert_eq!(bed.started(), ["r1"]);
}

/// O15, B029, B032: what waited waits again, in the order of its acceptance, under its name.
#[test]
fn a_start_goes_on_in_the_order_of_acceptance() {
    let mut options = options();
    options.caps.main = 1;
    let mut bed = Bed::with(options);
    bed.feed(boot(vec![restored("z", "r1", 1), restored("a", "r2", 2)], vec![]));
    assert_eq!(bed.started(), ["r1"]);
    let step = bed.raw(Input::Arrive(Box::new(arrival("a", "r2"))));
    assert!(matches!(step.tell[..], [Event::Known(..)]), "O2 holds over a restart");
    bed.completes("r1");
    assert_eq!(bed.started(), ["r2"]);
    assert_eq!(bed.raw(boot(vec![], vec![])).refused, Some(Refusal::Booted));
}

/// O15: a session that was cut off is not settled before it is open; nobody may leave until then.
#[test]
fn what_is_torn_is_not_settled() {
    let mut bed = Bed::new();
    let step = bed.raw(boot(vec![], vec![candidate("a", 0)]));
    assert_eq!((bed.machine.unfinished(), bed.machine.is_settled()), (0, false));
    let open = step.act.iter().find_map(|act| match act {
        Act::Open(op, _) => Some(*op),
        _ => None,
    });
    bed.feed(Input::Opened(open.unwrap()));
    assert!(bed.machine.is_settled());
}

/// O16, B032: an interrupted run is taken up after a while, a few times, and then given up.
#[test]
fn resuming_is_bounded() {
    let mut bed = Bed::new();
    bed.feed(boot(vec![], vec![candidate("a", 0)]));
    bed.tick(RECOVERY_DELAY_MS);
    for attempt in 1..=RECOVERY_ATTEMPTS_MAX {
        assert_eq!(resumes(&bed).last(), Some(&attempt));
        let run = format!("again-{attempt}");
        resume(&mut bed, &run, attempt);
        bed.ends(&run, Termination::Failed { fault: Fault::Store });
        bed.tick(600_000);
    }
    assert_eq!(resumes(&bed).len(), usize::from(RECOVERY_ATTEMPTS_MAX));
    let given = |e: &Event| matches!(e, Event::GivenUp(_, _, RECOVERY_ATTEMPTS_MAX));
    assert!(bed.has_told(given));
    let mut bed = Bed::new();
    bed.feed(boot(vec![], vec![candidate("a", RECOVERY_ATTEMPTS_MAX)]));
    assert!(bed.has_told(given), "what was counted before the restart counts");
}

/// O16: an attempt that is refused, known already or dropped lets the next one begin.
#[test]
fn an_attempt_always_has_an_outcome() {
    let mut bed = Bed::new();
    let other = Candidate { run: id("other"), ..candidate("b", 0) };
    bed.feed(boot(vec![], vec![candidate("a", 0), other]));
    bed.tick(RECOVERY_DELAY_MS);
    let mut again = arrival("a", "again");
    (again.wait.attempt, again.interaction) = (1, false);
    let step = bed.raw(Input::Arrive(Box::new(again)));
    bed.feed(Input::Admitted(asked(&step), Admission::Conflict));
    assert!(bed.has_left(|act| matches!(act, Act::Resume { run, .. } if *run == id("other"))));
}

/// O16: a person's message takes the conversation over, and so does what waited over the restart.
#[test]
fn whoever_speaks_takes_over() {
    let mut bed = Bed::new();
    bed.feed(boot(vec![], vec![candidate("a", 0)]));
    bed.send("a", "r1");
    bed.tick(RECOVERY_DELAY_MS);
    assert!(resumes(&bed).is_empty());
    let mut late = arrival("a", "late");
    (late.wait.attempt, late.interaction) = (1, false);
    let step = bed.raw(Input::Arrive(Box::new(late)));
    assert_eq!(step.tell, [Event::Refused(id("late"), Why::NotNeeded)]);
    let mut bed = Bed::new();
    bed.feed(boot(vec![restored("a", "r1", 1)], vec![candidate("a", 0)]));
    bed.tick(RECOVERY_DELAY_MS);
    assert_eq!((resumes(&bed), bed.started()), (vec![], vec!["r1".to_owned()]));
    let mut bed = Bed::new();
    bed.feed(boot(vec![], vec![candidate("a", 0)]));
    bed.send_with("a", "job", |a| a.interaction = false);
    bed.completes("job");
    bed.tick(RECOVERY_DELAY_MS);
    assert_eq!(resumes(&bed), [1], "a job does not take over");
}

/// O17, B036: a run that does not hear that it was stopped loses the session.
#[test]
fn a_deaf_run_loses_its_session() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.send("a", "r2");
    let began = bed.now;
    let hung = || Activity {
        active: true,
        queued: 0,
        owner: true,
        waits_for: WaitsFor::Tool,
        last_progress: began,
        started: began,
        repeats_since: None,
    };
    let mut done = vec![];
    for _ in 0..20 {
        bed.tick(WATCH_TICK_MS);
        bed.feed(Input::Seen(vec![("a".into(), hung())]));
        done.extend(bed.left.drain(..).filter_map(|act| match act {
            Act::Abort(_, Cause::Timeout) => Some("abort"),
            Act::Supersede(_) => Some("supersede"),
            _ => None,
        }));
        if done.last() == Some(&"supersede") {
            break;
        }
    }
    assert_eq!(done, ["abort", "supersede"]);
    bed.ends("r1", Termination::Superseded { by: None });
    assert_eq!(bed.started(), ["r2"], "B026: what waited goes on");
}

/// O20: other options hold at once for what begins after them; what runs goes on, and what is in
/// memory is read again before the next run.
#[test]
fn other_options_hold_from_now_on() {
    let mut bed = Bed::with(Options { caps: Caps { main: 1, ..options().caps }, ..options() });
    bed.send("a", "r1");
    bed.send("b", "r2");
    bed.send("c", "r3");
    assert_eq!(bed.started(), ["r1"]);
    let queue = Partial { mode: Some(Mode::Collect), ..options().queue };
    let caps = Caps { main: 2, ..options().caps };
    bed.feed(Input::Configure(Box::new(Options { caps, queue, ..options() })));
    assert_eq!(bed.started(), ["r2"], "there is room for one more");
    assert_eq!(bed.machine.queue_settings("a").mode, Mode::Collect);
    assert!(!bed.has_left(|act| matches!(act, Act::Close(_))), "nothing that runs is closed");
    bed.completes("r1");
    let closed = |act: &Act| matches!(act, Act::Close(key) if &**key == "a");
    assert!(bed.has_left(closed), "what was read before goes with its run");
    assert_eq!(bed.started(), ["r3"]);
    let options = Options { caps, lane_wait_ms: 5_000, ..options() };
    bed.send("d", "r4");
    bed.feed(Input::Configure(Box::new(options)));
    bed.completes("r2");
    bed.completes("r3");
    assert_eq!(bed.started(), ["r4"]);
    bed.completes("r4");
    assert_eq!(bed.ended().len(), 4, "every run has its end");
}

/// O20: a session at rest lets go of what it has read.
#[test]
fn what_rests_is_read_again() {
    let mut bed = Bed::new();
    bed.send("a", "r1");
    bed.completes("r1");
    bed.feed(Input::Configure(Box::new(options())));
    assert!(bed.has_left(|act| matches!(act, Act::Close(_))));
    let step = bed.raw(Input::Arrive(Box::new(arrival("a", "r2"))));
    let step = bed.raw(Input::Admitted(asked(&step), Admission::New(bed.facts)));
    assert!(matches!(step.act[..], [Act::Open(..)]), "{:?}", step.act);
}
