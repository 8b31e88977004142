//! Rules Q4 to Q10 on the queue itself.

use super::*;
use crate::base::Rng;
use std::collections::BTreeMap;

fn group(name: &str) -> Group {
    Group::new("chat", "main", name, "owner")
}

fn turn(n: u64, thread: &str, at: u64) -> Turn {
    let line = summary_line(&format!("line {n}"));
    let run = RunId::new(format!("r{n}"));
    Turn { run, msg: MsgId(n), group: group(thread), at: Millis(at), line, in_flight: false }
}

fn with(mode: Mode, cap: u16, drop: DropPolicy) -> QueueSettings {
    QueueSettings { mode, cap, drop, ..QueueSettings::default() }
}

fn filled(numbers: std::ops::RangeInclusive<u64>) -> Turns {
    let mut turns = Turns::default();
    let roomy = with(Mode::FollowUp, 100, DropPolicy::New);
    for n in numbers {
        assert_eq!(turns.arrive(turn(n, "t", 0), &roomy, Millis(0)), Arrival::Taken);
    }
    turns
}

fn numbers<'a>(turns: impl IntoIterator<Item = &'a Turn>) -> Vec<u64> {
    turns.into_iter().map(|t| t.msg.0).collect()
}

fn run(turns: &mut Turns, settings: &QueueSettings) -> (Vec<u64>, Option<Overflow>) {
    match turns.next(settings, Millis(1_000_000)) {
        Next::Run { turns, overflow, .. } => (numbers(&turns), overflow),
        other @ (Next::Nothing | Next::Quiet(_)) => panic!("{other:?}"),
    }
}

/// Q4: the three policies, at the cap.
#[test]
fn a_full_queue_follows_its_policy() {
    let mut turns = filled(1..=3);
    let new = with(Mode::FollowUp, 3, DropPolicy::New);
    assert_eq!(turns.arrive(turn(4, "t", 1), &new, Millis(1)), Arrival::Rejected);
    assert_eq!(numbers(turns.iter()), [1, 2, 3]);

    let old = with(Mode::FollowUp, 3, DropPolicy::Old);
    let gone = |n: u64| (RunId::new(format!("r{n}")), MsgId(n));
    let arrival = turns.arrive(turn(4, "t", 1), &old, Millis(1));
    assert_eq!(arrival, Arrival::TakenDropping(vec![gone(1)]));
    assert_eq!(run(&mut turns, &old), (vec![2], None), "no line is left behind");

    let fewer = with(Mode::FollowUp, 1, DropPolicy::Summarize);
    let arrival = turns.arrive(turn(5, "t", 1), &fewer, Millis(1));
    assert_eq!(arrival, Arrival::TakenDropping(vec![gone(3), gone(4)]), "the cap has shrunk");
    assert_eq!(numbers(turns.iter()), [5]);
}

/// Q4: what is on its way is never dropped; if nothing else can leave, nothing enters.
#[test]
fn what_is_on_its_way_stays() {
    let mut turns = filled(1..=2);
    let two = with(Mode::Steer, 2, DropPolicy::Old);
    assert!(turns.mark(&RunId::new("r1"), true));
    let arrival = turns.arrive(turn(3, "t", 1), &two, Millis(1));
    assert_eq!(arrival, Arrival::TakenDropping(vec![(RunId::new("r2"), MsgId(2))]));
    assert!(turns.mark(&RunId::new("r3"), true));
    assert_eq!(turns.arrive(turn(4, "t", 1), &two, Millis(1)), Arrival::Rejected);
    assert_eq!(numbers(turns.iter()), [1, 3]);
    assert!(!turns.mark(&RunId::new("r2"), true), "it is gone");
}

/// Q4: one run waits once.
#[test]
fn a_run_waits_once() {
    let mut turns = filled(1..=2);
    let settings = QueueSettings::default();
    assert_eq!(turns.arrive(turn(2, "t", 9), &settings, Millis(9)), Arrival::Doubled);
    assert_eq!(turns, filled(1..=2));
}

/// Q5: followup and collect wait for quiet, each arrival begins the window anew, a full queue does
/// not wait; steering and interrupting never do.
#[test]
fn quiet_is_waited_for() {
    let followup = with(Mode::FollowUp, 3, DropPolicy::New);
    let mut turns = Turns::default();
    assert_eq!(turns.next(&followup, Millis(0)), Next::Nothing);
    assert_eq!(turns.arrive(turn(1, "t", 100), &followup, Millis(100)), Arrival::Taken);
    assert_eq!(turns.next(&followup, Millis(599)), Next::Quiet(Millis(600)));
    assert_eq!(turns.arrive(turn(2, "t", 599), &followup, Millis(599)), Arrival::Taken);
    assert_eq!(turns.next(&followup, Millis(600)), Next::Quiet(Millis(1_099)));
    assert_eq!(turns.due(&followup), Some(Millis(1_099)));
    let steer = with(Mode::Steer, 3, DropPolicy::New);
    assert_eq!(turns.due(&steer), Some(Millis(599)));
    assert_eq!(turns.arrive(turn(3, "t", 700), &followup, Millis(700)), Arrival::Taken);
    assert_eq!(turns.arrive(turn(4, "t", 701), &followup, Millis(701)), Arrival::Rejected);
    assert!(matches!(turns.next(&followup, Millis(701)), Next::Run { .. }), "it is full");
    assert_eq!(turns.next(&followup, Millis(1_199)), Next::Quiet(Millis(1_200)));
    assert!(matches!(turns.next(&followup, Millis(1_200)), Next::Run { .. }));
}

/// Q6: a turn that is on its way holds back what came after it, until the run is over.
#[test]
fn order_holds_behind_what_is_on_its_way() {
    let steer = with(Mode::Steer, 9, DropPolicy::New);
    let mut turns = filled(1..=3);
    assert!(turns.mark(&RunId::new("r1"), true));
    assert_eq!(turns.next(&steer, Millis(9)), Next::Nothing);
    assert_eq!(turns.due(&steer), None);
    turns.ground();
    assert_eq!(run(&mut turns, &steer).0, [1]);
}

/// Q6: what goes back is first again, in order; so is the summary.
#[test]
fn what_goes_back_is_first_again() {
    let collect = with(Mode::Collect, 3, DropPolicy::Summarize);
    let mut turns = filled(1..=3);
    let _ = turns.arrive(turn(4, "t", 0), &collect, Millis(0));
    let before = turns.clone();
    let Next::Run { turns: taken, overflow, lead } = turns.next(&collect, Millis(9_999)) else {
        panic!("nothing")
    };
    assert_eq!((numbers(&taken), lead.as_str()), (vec![2, 3, 4], "r4"));
    assert!(turns.is_empty());
    turns.put_back(taken, overflow);
    assert_eq!(turns, before);
}

/// Q7: collect takes what is of one group, from the front; other groups keep their place.
#[test]
fn groups_do_not_mix() {
    let collect = with(Mode::Collect, 20, DropPolicy::New);
    let mut turns = Turns::default();
    for (n, thread) in [(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "a")] {
        assert_eq!(turns.arrive(turn(n, thread, 0), &collect, Millis(0)), Arrival::Taken);
    }
    assert_eq!(run(&mut turns, &collect).0, [1, 2]);
    assert_eq!(run(&mut turns, &collect).0, [3]);
    assert_eq!(run(&mut turns, &collect).0, [4, 5]);
    let single = with(Mode::FollowUp, 20, DropPolicy::New);
    assert_eq!(run(&mut filled(1..=2), &single).0, [1]);
    assert_ne!(Group::new("a", "b", "c", "x"), Group::new("a", "b", "c", "y"), "permission");
    assert_ne!(Group::new("ab", "", "", "x"), Group::new("a", "b", "", "x"));
    assert_ne!(Group::new("a", "1:b", "", ""), Group::new("a", "1", ":b", ""));
}

/// Q4, Q7: turns that come back again and again while others arrive do not pile up.
#[test]
fn what_comes_back_does_not_pile_up() {
    let most = with(Mode::Collect, u16::MAX, DropPolicy::Old);
    let (mut turns, mut n) = (Turns::default(), 0);
    for _ in 0..5 {
        let taken = turns.next(&most, Millis(1_000_000));
        for _ in 0..TURNS_CAP_MAX {
            let _ = turns.arrive(turn(n, "t", 0), &most, Millis(0));
            n += 1;
        }
        if let Next::Run { turns: taken, overflow, .. } = taken {
            assert!(taken.len() <= TURNS_CAP_MAX.into());
            turns.put_back(taken, overflow);
        }
    }
    assert_eq!(turns.len(), 2 * usize::from(TURNS_CAP_MAX));
}

/// Q8: the summary comes before what remains: in a collected turn of the same group, or as a turn
/// of its own; it is told to nobody but its group.
#[test]
fn the_summary_comes_first() {
    let followup = with(Mode::FollowUp, 2, DropPolicy::Summarize);
    let mut turns = filled(1..=2);
    for n in 3..=4 {
        let _ = turns.arrive(turn(n, "t", 0), &followup, Millis(0));
    }
    let copy = turns.clone();
    let (none, overflow) = run(&mut turns, &followup);
    let overflow = overflow.expect("a summary");
    assert_eq!((none.len(), overflow.count), (0, 2));
    let want = "[Queue overflow] Dropped 2 messages due to cap.\nSummary:\n- line 1\n- line 2";
    assert_eq!(overflow.prompt(), want);
    assert!(after_overflow(&overflow, "x").ends_with("- line 2\n\nx"));
    assert_eq!(run(&mut turns, &followup), (vec![3], None));

    let collect = with(Mode::Collect, 2, DropPolicy::Summarize);
    let mut turns = copy;
    assert_eq!(run(&mut turns.clone(), &collect).0, [3, 4], "with its summary");
    for n in 5..=6 {
        let _ = turns.arrive(turn(n, "other", 0), &collect, Millis(0));
    }
    let (none, overflow) = run(&mut turns, &collect);
    assert_eq!((none.len(), overflow.map(|o| (o.count, o.lines.len()))), (0, Some((4, 2))));
    assert_eq!(run(&mut turns, &collect), (vec![5, 6], None));
}

/// Q8: a dropped turn that is taken back is not told.
#[test]
fn a_dropped_turn_can_be_taken_back() {
    let settings = with(Mode::FollowUp, 2, DropPolicy::Summarize);
    let mut turns = filled(1..=2);
    for n in 3..=4 {
        let _ = turns.arrive(turn(n, "t", 0), &settings, Millis(0));
    }
    assert!(turns.forget(&RunId::new("r1")));
    assert!(!turns.forget(&RunId::new("r1")));
    assert!(!turns.forget(&RunId::new("r3")), "it waits");
    let (_, overflow) = run(&mut turns.clone(), &settings);
    assert_eq!(overflow.map(|o| o.count), Some(1));
    assert!(turns.forget(&RunId::new("r2")));
    assert_eq!(run(&mut turns, &settings), (vec![3], None));
}

/// Q8: however many routes overflow, the state stays small.
#[test]
fn routes_that_overflow_are_bounded() {
    let settings = with(Mode::FollowUp, 1, DropPolicy::Summarize);
    let mut turns = Turns::default();
    for n in 0..100 {
        let _ = turns.arrive(turn(n, &format!("t{n}"), 0), &settings, Millis(0));
    }
    let mut told = 0;
    while let Next::Run { turns: waiting, .. } = turns.next(&settings, Millis(9_999)) {
        told += usize::from(waiting.is_empty());
    }
    assert_eq!(told, OVERFLOW_GROUPS_MAX);
}

/// Q10: an interrupt leaves the newest turn, and what is on its way.
#[test]
fn an_interrupt_leaves_the_newest() {
    let mut turns = filled(1..=4);
    assert!(turns.mark(&RunId::new("r2"), true));
    assert_eq!(numbers(&turns.interrupt()), [1, 3]);
    assert_eq!(numbers(turns.iter()), [2, 4]);
    assert_eq!(numbers(&turns.interrupt()), Vec::<u64>::new());
    assert_eq!(numbers(&turns.clear()), [2, 4]);
    assert_eq!(Turns::default().interrupt(), []);
}

/// Where a turn is, by the test's own books.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Place {
    Waiting,
    Ran,
    Dropped,
    Removed,
}

fn any_settings(rng: &mut Rng) -> QueueSettings {
    let mode = [Mode::Steer, Mode::FollowUp, Mode::Collect, Mode::Interrupt][rng.below(4) as usize];
    let drop = [DropPolicy::Old, DropPolicy::New, DropPolicy::Summarize][rng.below(3) as usize];
    QueueSettings { mode, drop, cap: rng.below(6) as u16, debounce_ms: rng.below(40) as u32 }
}

/// One move of the random walk; the books say where each turn has gone.
fn walk(turns: &mut Turns, rng: &mut Rng, books: &mut BTreeMap<u64, Place>, now: Millis) {
    let settings = any_settings(rng);
    let some = RunId::new(format!("r{}", rng.below(books.len() as u64 + 1)));
    match rng.below(9) {
        0..=3 => {
            let n = books.len() as u64;
            let name = ["a", "b"][rng.below(2) as usize];
            let arrival = turns.arrive(turn(n, name, now.0), &settings, now);
            let rejected = arrival == Arrival::Rejected;
            books.insert(n, if rejected { Place::Dropped } else { Place::Waiting });
            if let Arrival::TakenDropping(gone) = arrival {
                assert!(gone.is_sorted_by_key(|(_, msg)| msg.0), "oldest first");
                for (_, msg) in gone {
                    assert_eq!(books.insert(msg.0, Place::Dropped), Some(Place::Waiting));
                }
            }
            assert!(rejected || turns.len() <= settings.limit(), "Q4: the cap");
        }
        4..=5 => {
            let Next::Run { turns: ran, overflow, .. } = turns.next(&settings, now) else { return };
            if rng.below(4) == 0 {
                return turns.put_back(ran, overflow);
            }
            assert!(ran.iter().all(|t| t.group == ran[0].group), "Q7: one group");
            for t in ran {
                assert_eq!(books.insert(t.msg.0, Place::Ran), Some(Place::Waiting));
            }
        }
        6 => {
            if let Some(t) = turns.remove(&some) {
                assert_eq!(books.insert(t.msg.0, Place::Removed), Some(Place::Waiting));
            }
        }
        7 if rng.below(4) == 0 => {
            for t in turns.interrupt() {
                assert_eq!(books.insert(t.msg.0, Place::Dropped), Some(Place::Waiting));
            }
        }
        7 => turns.ground(),
        _ => drop(turns.mark(&some, true)),
    }
}

/// Q4, Q6, Q7: no turn is lost or doubled, the order of arrival holds, the cap holds.
#[test]
fn nothing_is_lost_in_random_histories() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let (mut turns, mut books) = (Turns::default(), BTreeMap::new());
        for now in 0..200 {
            walk(&mut turns, &mut rng, &mut books, Millis(now * 7));
            let waiting = numbers(turns.iter());
            let booked = books.iter().filter(|(_, place)| **place == Place::Waiting);
            let booked: Vec<u64> = booked.map(|(n, _)| *n).collect();
            assert_eq!(waiting, booked, "seed {seed}, at {now}");
        }
        let ran = books.values().filter(|p| **p == Place::Ran).count();
        assert!(ran > 0, "seed {seed} has run nothing");
    }
}
