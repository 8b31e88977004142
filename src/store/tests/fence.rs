//! S2 to S6: who may write, and what a refusal leaves behind.

use super::*;
use crate::base::MsgId;
use crate::transcript::EntryKind;

fn puts(door: &mut Door, text: &str) -> Vec<Write> {
    door.append(said(text), Millis(2))
}

fn texts(bed: &Bed) -> Vec<String> {
    let text = |kind: &EntryKind| match kind {
        EntryKind::Message { message: Message::User(user) } => user.content.to_text(),
        other => format!("{other:?}"),
    };
    bed.load().branch.iter().map(|e| text(&e.kind)).collect()
}

/// S2: without a row only an acceptance makes one.
#[test]
fn a_missing_session_is_said_to_be_missing() {
    let mut bed = bed();
    for writes in [vec![Write::Claim], puts(&mut door(1), "x"), vec![done()], vec![]] {
        let result = bed.write(Some("r1"), writes);
        let missing = Denied::Fenced(FenceRefusal::SessionEntryMissing);
        assert_eq!(format!("{:?}", result.unwrap_err()), format!("{missing:?}"));
    }
    assert_eq!(bed.dump(), "");
    started(&mut bed, "r1");
    assert_eq!(bed.load().session.unwrap().active_run.as_deref(), Some("r1"));
}

/// S3: a reset between reading and writing is found in the writing transaction, also for writes
/// that need no writer.
#[test]
fn another_revision_is_another_session() {
    let mut bed = bed();
    started(&mut bed, "r1");
    bed.db.execute("UPDATE sessions SET revision = 1", []).unwrap();
    let before = bed.dump();
    let announcer = part(None, puts(&mut door(1), "x"));
    for part in [part(Some("r1"), vec![done()]), announcer] {
        assert_eq!(rebound(&bed.commit(part)), Some(RunId::new("r1")));
    }
    let claim = bed.commit(part(Some("r1"), vec![Write::Claim]));
    assert_eq!(refusal(&claim), FenceRefusal::RevisionChanged);
    assert_eq!(bed.dump(), before);
    let now = Commit { revision: 1, ..part(Some("r1"), vec![done()]) };
    bed.commit(now).unwrap();
}

/// S4, B053: a writer that was displaced changes nothing: no leaf, no counter, no byte.
#[test]
fn b053_a_stale_writer_is_refused_whatever_it_writes() {
    let mut bed = bed();
    started(&mut bed, "r1");
    let mut old = door(1);
    bed.write(Some("r1"), puts(&mut old, "one")).unwrap();
    bed.write(Some("r1"), old.append(Message::Assistant(reply("", &["c"]).message), Millis(2)))
        .unwrap();
    started(&mut bed, "r2");
    let before = bed.dump();
    let output = Arc::new(crate::transcript::ToolOutput::text("late"));
    let late = [
        puts(&mut old, "stale"),
        vec![Write::QueueTake(MsgId(1))],
        vec![Write::CallsOpen(vec![])],
        vec![Write::CallsLaunched(vec![0])],
        vec![Write::CallProcess { call: 0, pgid: 1, started: 1 }],
        vec![Write::CallKnown { call: 0, output }],
        vec![Write::CallStored(0)],
        vec![done()],
        // What may be written by anyone goes with the rest of its part.
        vec![accept("r3"), done()],
    ];
    for writes in late {
        let what = format!("{writes:?}");
        let by = rebound(&bed.write(Some("r1"), writes));
        assert_eq!((by, bed.dump()), (Some(RunId::new("r2")), before.clone()), "{what}");
    }
    bed.write(Some("r2"), puts(&mut door(2), "fresh")).unwrap();
}

/// S4: the old run ends as superseded in the transaction that takes its place, and only there.
#[test]
fn a_takeover_ends_the_old_run_with_it() {
    let mut bed = bed();
    started(&mut bed, "r1");
    let refused = bed.write(Some("r2"), vec![accept("r2"), Write::Claim, accept("r1")]);
    assert!(matches!(failed(refused), StoreError::DuplicateRun(run) if run == "r1"));
    assert_eq!(bed.termination("r1"), None);
    assert_eq!(bed.load().session.unwrap().active_run.as_deref(), Some("r1"));
    started(&mut bed, "r2");
    let by = Some(RunId::new("r2"));
    assert_eq!(bed.termination("r1"), Some(Termination::Superseded { by: by.clone() }));
    assert_eq!(bed.load().open_run.map(|o| o.run), by);
    // Claiming what one has already ends nobody.
    bed.write(Some("r2"), vec![Write::Claim]).unwrap();
    assert_eq!(bed.termination("r2"), None);
    // A run that has ended keeps its end.
    bed.write(Some("r2"), vec![done()]).unwrap();
    started(&mut bed, "r3");
    assert_eq!(bed.termination("r2"), Some(Termination::Completed { cut: false }));
}

/// S3a: the key was given to another session since the snapshot was read.
#[test]
fn another_session_of_the_key_is_told_apart() {
    let mut bed = bed();
    started(&mut bed, "r1");
    bed.write(Some("r1"), vec![done()]).unwrap();
    bed.db.pragma_update(None, "foreign_keys", false).unwrap();
    bed.db.execute("UPDATE sessions SET session_id = 's9'", []).unwrap();
    let before = bed.dump();
    for writes in [vec![accept("r2"), Write::Claim], vec![accept("r2")], puts(&mut door(1), "x")] {
        let result = bed.commit(part(Some("r2"), writes));
        assert_eq!(refusal(&result), FenceRefusal::SessionChanged);
    }
    assert_eq!(bed.dump(), before);
}

/// S4a: a claim rests on a snapshot; a writer that came since is not overwritten blindly, and the
/// next try, on a new snapshot, takes over.
#[test]
fn a_claim_on_an_old_snapshot_is_not_persisted() {
    let mut bed = bed();
    started(&mut bed, "r1");
    bed.write(None, vec![accept("r2"), accept("r3")]).unwrap();
    let claim = |run: &str, seen: Option<&str>| Commit {
        seen: seen.map(RunId::new),
        ..part(Some(run), vec![Write::Claim])
    };
    bed.commit(claim("r2", Some("r1"))).unwrap();
    let by = Some(RunId::new("r2"));
    for seen in [None, Some("r1"), Some("r3")] {
        let refused = bed.commit(claim("r3", seen));
        assert_eq!(refusal(&refused), FenceRefusal::ClaimNotPersisted { by: by.clone() });
    }
    assert_eq!((bed.writer(), bed.termination("r2")), (by, None));
    bed.commit(claim("r3", Some("r2"))).unwrap();
    assert_eq!(bed.writer(), Some(RunId::new("r3")));
}

/// S4b: a run that has ended, or that nobody accepted, cannot claim.
#[test]
fn a_run_that_is_over_cannot_claim() {
    let mut bed = bed();
    started(&mut bed, "r1");
    started(&mut bed, "r2");
    for run in ["r1", "r7"] {
        let refused = bed.write(Some(run), vec![Write::Claim]);
        assert_eq!(refusal(&refused), FenceRefusal::RunOver, "{run}");
    }
    bed.write(Some("r2"), vec![done()]).unwrap();
    assert_eq!(refusal(&bed.write(Some("r2"), vec![Write::Claim])), FenceRefusal::RunOver);
}

/// S4: a claim needs a name.
#[test]
fn nobody_cannot_claim() {
    let mut bed = bed();
    bed.write(None, vec![accept("r1")]).unwrap();
    assert_eq!(rebound(&bed.write(None, vec![Write::Claim])), None);
    assert_eq!(rebound(&bed.write(None, vec![done()])), None);
}

/// S5, B059: an announcer between any two steps of a run only makes the chain longer.
#[test]
fn b059_announcements_do_not_disturb_a_run() {
    let mut bed = bed();
    let (mut door, mut other) = (door(1), door(2));
    let body = Arc::new(user("do it"));
    let records = [
        Record::Accepted {
            run: RunId::new("r1"),
            entry: RunEntry::Prompt,
            prompts: vec![(MsgId(1), body)],
        },
        Record::Claim,
        Record::Committed(MsgId(1)),
        Record::Reply(Arc::new(reply("done", &[]))),
        Record::Ended(Termination::Completed { cut: false }),
    ];
    for (i, record) in records.iter().enumerate() {
        let writes = door.apply(record, Millis(3)).unwrap();
        bed.write(Some("r1"), writes).unwrap();
        bed.write(None, puts(&mut other, &format!("news {i}"))).unwrap();
    }
    assert_eq!(bed.termination("r1"), Some(Termination::Completed { cut: false }));
    let loaded = bed.load();
    assert_eq!(loaded.branch.len(), 7);
    for pair in loaded.branch.windows(2) {
        assert_eq!(pair[1].parent_id.as_ref(), Some(&pair[0].id), "one straight chain");
    }
}

/// S5, B057: two writers that both read before either wrote lose nothing of each other.
#[test]
fn b057_no_update_is_lost() {
    let mut bed = bed();
    started(&mut bed, "r1");
    let (a, b) = (puts(&mut door(1), "a"), puts(&mut door(2), "b"));
    let mut second = open(&bed.path, Synchronous::Normal).unwrap();
    bed.write(None, a).unwrap();
    commit_all(&mut second, &bed.path, &[part(None, b)]).remove(0).unwrap();
    assert_eq!(texts(&bed), ["a", "b"]);
    assert_eq!(bed.load().session.unwrap().entries, 2);
}

/// S6: a part that is refused is rolled back alone.
#[test]
fn a_group_commits_all_but_the_refused() {
    let mut bed = bed();
    started(&mut bed, "r1");
    let other = |writes| Commit {
        session: SessionId::new("s2"),
        key: "agent:main:two".into(),
        ..part(Some("q1"), writes)
    };
    let parts = [
        part(Some("r1"), puts(&mut door(1), "one")),
        part(Some("stale"), [vec![accept("r8")], puts(&mut door(2), "never")].concat()),
        other(vec![accept("q1"), Write::Claim]),
        part(Some("r1"), vec![accept("r1")]),
        part(Some("r1"), puts(&mut door(3), "two")),
    ];
    let results = commit_all(&mut bed.db, &bed.path, &parts);
    let good: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(good, [true, false, true, false, true]);
    assert_eq!(rebound(&results[1]), Some(RunId::new("r1")));
    assert_eq!(texts(&bed), ["one", "two"]);
    assert_eq!(bed.count("runs"), 2);
    assert_eq!(read::load(&bed.db, "agent:main:two").unwrap().open_run.unwrap().run.as_str(), "q1");
}

/// S7: one key, one message (semantics 7.3).
#[test]
fn a_key_is_stored_once() {
    let mut bed = bed();
    started(&mut bed, "r1");
    let keyed = |text: &str, at| {
        let idempotency_key = Some("k".into());
        Message::User(User { idempotency_key, timestamp: Millis(at), ..user(text) })
    };
    let mut door = door(1);
    for at in [5, 6] {
        bed.write(Some("r1"), door.append(keyed("same", at), Millis(2))).unwrap();
    }
    let before = bed.dump();
    let refused = bed.write(Some("r1"), door.append(keyed("other", 5), Millis(2)));
    assert!(matches!(failed(refused), StoreError::KeyConflict(key) if key == "k"));
    assert_eq!((texts(&bed), bed.dump()), (vec!["same".to_owned()], before));
    bed.write(Some("r1"), puts(&mut door, "same")).unwrap();
    assert_eq!(texts(&bed), ["same", "same"], "without a key a text may come twice");
}
