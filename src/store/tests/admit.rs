//! S17 to S21: admission, resets, deletion, joined ends, what a start finds.

use super::*;
use crate::base::MsgId;
use crate::store::{Admit, Admitted, Change, Fact, Manage, Part, PartResult, execute_all};

impl Bed {
    fn part(&mut self, part: Part) -> PartResult {
        execute_all(&mut self.db, &self.path, &[part]).remove(0)
    }

    fn admit(&mut self, admit: Admit) -> Admitted {
        match self.part(Part::Admit(Box::new(admit))).unwrap() {
            Fact::Admitted(admitted) => admitted,
            Fact::Written => panic!("no answer"),
        }
    }

    fn manage(&mut self, what: Change) -> Committed {
        let manage = Manage { key: KEY.into(), at: Millis(50), what };
        self.part(Part::Manage(Box::new(manage))).map(|_| ())
    }

    fn boot(&self) -> crate::store::Boot {
        crate::store::boot::boot(&self.db).unwrap()
    }
}

fn asks(run: &str, msg: u64) -> Admit {
    Admit {
        key: KEY.into(),
        fresh: SessionId::new("s1"),
        cwd: "/w".into(),
        run: RunId::new(run),
        request: format!("hash of {run}"),
        turn: "{}".into(),
        msg: MsgId(msg),
        body: Arc::new(user(&format!("m{msg}"))),
        interaction: true,
        at: Millis(10 + msg),
    }
}

fn ended(bed: &mut Bed, run: &str, more: Vec<Write>) {
    bed.write(Some(run), vec![accept(run), Write::Claim]).unwrap();
    bed.write(Some(run), [more, vec![done()]].concat()).unwrap();
}

/// S17, B045, B046: one key is one run, whatever comes between.
#[test]
fn b045_b046_a_key_is_admitted_once() {
    let mut bed = bed();
    let Admitted::New(seen) = bed.admit(asks("k", 1)) else { panic!("not new") };
    assert!(seen.empty && seen.session == SessionId::new("s1"));
    let before = bed.dump();
    // Twice at once: the second finds it in flight.
    let Admitted::Known(row) = bed.admit(asks("k", 2)) else { panic!("not known") };
    assert_eq!((row.ended_at, row.accepted_at), (None, Millis(11)));
    let other = Admit { request: "another".into(), ..asks("k", 3) };
    assert_eq!(bed.admit(other), Admitted::Conflict);
    let elsewhere = Admit { key: "agent:main:else".into(), ..asks("k", 4) };
    assert_eq!(bed.admit(elsewhere), Admitted::Conflict);
    assert_eq!(bed.dump(), before, "an answer writes nothing");
    ended(&mut bed, "k", vec![Write::QueueTake(MsgId(1))]);
    // After the end, after a restart, after the session is gone.
    for round in 0..3 {
        let Admitted::Known(row) = bed.admit(asks("k", 5)) else { panic!("round {round}") };
        assert_eq!(row.termination, Some(Termination::Completed { cut: false }));
        match round {
            0 => bed.db = open(&bed.path, Synchronous::Normal).unwrap(),
            _ => drop(bed.manage(Change::Delete)),
        }
    }
    assert_eq!(bed.count("entries") + bed.count("queue"), 0);
    assert_eq!(bed.count("runs"), 1);
}

/// S17, B206: whether a session is fresh is judged by the times before the message.
#[test]
fn b206_activity_is_read_before_it_is_recorded() {
    let mut bed = bed();
    bed.admit(asks("a", 1));
    let Admitted::New(seen) = bed.admit(Admit { interaction: false, ..asks("b", 7) }) else {
        panic!("not new")
    };
    assert_eq!((seen.started_at, seen.interaction_at), (Millis(11), Millis(11)));
    let Admitted::New(seen) = bed.admit(asks("c", 8)) else { panic!("not new") };
    assert_eq!(seen.interaction_at, Millis(11), "what nobody did is no activity");
    let Admitted::New(seen) = bed.admit(asks("d", 9)) else { panic!("not new") };
    assert_eq!(seen.interaction_at, Millis(18));
}

/// S18, B034: a reset keeps the id, raises the revision, and refuses the late.
#[test]
fn b034_a_reset_is_a_boundary_for_context_and_writers() {
    let mut bed = bed();
    started(&mut bed, "r1");
    let mut door = door(1);
    bed.write(Some("r1"), door.append(said("old"), Millis(2))).unwrap();
    let entry = |door: &mut Door| Box::new(door.reset_entry("reset", Millis(50)));
    let refused = bed.manage(Change::Reset { entry: entry(&mut door) });
    assert_eq!(rebound(&refused), Some(RunId::new("r1")), "a run writes");
    bed.write(Some("r1"), vec![done()]).unwrap();
    bed.manage(Change::Reset { entry: entry(&mut door) }).unwrap();
    let before = bed.dump();
    let late = bed.write(Some("r1"), door.append(said("late"), Millis(3)));
    assert_eq!(rebound(&late), None);
    let late = bed.write(Some("r2"), vec![accept("r2"), Write::Claim]);
    assert_eq!(refusal(&late), FenceRefusal::RevisionChanged);
    assert_eq!(bed.dump(), before, "nothing of the late is in the session");
    let loaded = bed.load();
    let session = loaded.session.unwrap();
    assert_eq!((session.revision, session.entries), (1, 2));
    assert_eq!((session.session_id.as_str(), session.started_at), ("s1", Millis(50)));
    assert_eq!(crate::transcript::visible(&loaded.branch), vec![]);
}

/// S19: deletion takes the content and leaves no way back for late writers.
#[test]
fn a_deleted_session_is_gone() {
    let mut bed = bed();
    bed.admit(asks("w", 1));
    started(&mut bed, "r1");
    bed.write(Some("r1"), door(1).append(said("secret"), Millis(2))).unwrap();
    assert_eq!(rebound(&bed.manage(Change::Delete)), Some(RunId::new("r1")));
    bed.write(Some("r1"), vec![done()]).unwrap();
    bed.manage(Change::Delete).unwrap();
    assert!(!bed.dump().contains("secret") && !bed.dump().contains("m1"));
    assert!(bed.load().session.is_none());
    let gone = Termination::Aborted { cause: Cause::User };
    assert_eq!(bed.termination("w"), Some(gone.clone()));
    let runs = vec![(RunId::new("w"), MsgId(1))];
    let termination = Termination::Aborted { cause: Cause::Timeout };
    bed.manage(Change::Drop { runs, termination }).unwrap();
    assert_eq!(bed.termination("w"), Some(gone), "a late drop has nothing left to end");
    assert_eq!(refusal(&bed.manage(Change::Delete)), FenceRefusal::SessionEntryMissing);
    assert!(bed.write(Some("r1"), door(2).append(said("late"), Millis(2))).is_err());
    let Admitted::New(seen) = bed.admit(Admit { fresh: SessionId::new("s2"), ..asks("x", 3) })
    else {
        panic!("the key is free again")
    };
    assert!(seen.empty && seen.session == SessionId::new("s2"));
    bed.whole();
}

/// S20: what one run answered ends with it, once.
#[test]
fn joined_runs_end_with_their_host() {
    let mut bed = bed();
    bed.admit(asks("a", 1));
    bed.admit(asks("b", 2));
    bed.admit(asks("c", 3));
    let dropped = Termination::Aborted { cause: Cause::User };
    let runs = vec![(RunId::new("c"), MsgId(3))];
    bed.manage(Change::Drop { runs, termination: dropped.clone() }).unwrap();
    let termination = Termination::Completed { cut: false };
    let join = |run: &str| Write::EndJoined {
        run: RunId::new(run),
        termination: termination.clone(),
        at: Millis(9),
    };
    let refused = bed.write(Some("a"), vec![join("b")]);
    assert_eq!(rebound(&refused), None, "only the active writer ends others");
    ended(&mut bed, "a", vec![join("b"), join("c")]);
    assert_eq!(bed.termination("b"), Some(termination));
    assert_eq!(bed.termination("c"), Some(dropped), "an end is kept");
    let run = read::run(&bed.db, "b").unwrap().unwrap();
    assert_eq!(run.into_run.as_deref(), Some("a"));
}

/// S21, B032: a start finds what waits and what was cut off, in order.
#[test]
fn b032_a_start_finds_what_was_under_way() {
    let mut bed = bed();
    for n in 1..4 {
        bed.admit(asks(&format!("w{n}"), n));
    }
    bed.write(Some("w1"), vec![Write::Claim, Write::QueueTake(MsgId(1))]).unwrap();
    let boot = bed.boot();
    let waiting: Vec<_> = boot.waiting.iter().map(|w| (w.run.as_str(), w.msg.0)).collect();
    assert_eq!((waiting, boot.next_msg), (vec![("w2", 2), ("w3", 3)], 4));
    let [cut] = &boot.interrupted[..] else { panic!("{:?}", boot.interrupted) };
    assert!((cut.run.as_str(), cut.open, cut.began, cut.unsure) == ("w1", true, false, false));
    // Stopped in good order, by a restart: it is taken up again all the same.
    let restart = Termination::Aborted { cause: Cause::Restart };
    let entry = door(1).append(Message::Assistant(reply("hi", &[]).message), Millis(3));
    let end = vec![Write::End { termination: restart, at: Millis(4) }];
    bed.write(Some("w1"), [entry, end].concat()).unwrap();
    let boot = bed.boot();
    let [cut] = &boot.interrupted[..] else { panic!("{:?}", boot.interrupted) };
    assert!((cut.run.as_str(), cut.open, cut.began) == ("w1", false, true));
    bed.manage(Change::GivenUp).unwrap();
    assert_eq!(bed.boot().interrupted, vec![]);
}

/// L20, S16: runs are found by conversation, by name and by the beginning of a name.
#[test]
fn runs_are_found() {
    let mut bed = bed();
    for (n, run) in ["ab_cd-1", "ab_cd-2", "abXcd-3", "b"].into_iter().enumerate() {
        bed.admit(asks(run, n as u64 + 1));
    }
    bed.admit(Admit { key: "agent:main:x".into(), fresh: SessionId::new("s2"), ..asks("é-x", 9) });
    let reader = crate::store::Reader::open(&bed.path).unwrap().unwrap();
    let ids =
        |rows: Vec<crate::records::RunRow>| rows.into_iter().map(|r| r.run_id).collect::<Vec<_>>();
    assert_eq!(ids(reader.runs_of(KEY, 2).unwrap()), ["b", "abXcd-3"]);
    assert_eq!(ids(reader.runs_of("agent:main:x", 9).unwrap()), ["é-x"]);
    let named = |name: &str| ids(reader.runs_named(name, 9).unwrap());
    assert_eq!(named("ab_cd-"), ["ab_cd-1", "ab_cd-2"], "nothing in a name is a pattern");
    assert_eq!(named("ab_cd-2"), ["ab_cd-2"]);
    assert_eq!((named("é"), named("a%"), named("c").len()), (vec!["é-x".to_owned()], vec![], 0));
    bed.write(Some("b"), vec![Write::Claim, Write::QueueTake(MsgId(4))]).unwrap();
    let waits = reader.not_begun(&SessionId::new("s1")).unwrap();
    let waits: Vec<_> = waits.iter().map(|(run, msg)| (run.as_str(), msg.0)).collect();
    assert_eq!(waits, [("ab_cd-1", 1), ("ab_cd-2", 2), ("abXcd-3", 3)]);
    assert_eq!(bed.load().waiting, 3);
}
