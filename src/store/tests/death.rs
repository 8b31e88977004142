//! S13 to S15: owners that die, and what is known to be stored when they do.

use super::*;
use crate::base::{Rng, id};
use crate::store::Reader;
use crate::store::{Answer, Job, StateLock, Worker};
use crate::transcript::EntryKind;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::time::{Duration, Instant};

const WORDS: &str = "stepclaw agent (process 77)";

/// The first line a child prints behind the harness's own.
fn line(out: &mut impl BufRead) -> String {
    let mut text = String::new();
    loop {
        text.clear();
        assert!(out.read_line(&mut text).unwrap() > 0, "the child has ended");
        if let Some(at) = text.find("child ") {
            return text[at + 6..].trim().to_owned();
        }
    }
}

/// S13: a second process is told who has the directory, and a dead owner's lock is gone with it.
#[test]
fn the_lock_names_its_owner_and_dies_with_it() {
    if let Some(dir) = child_dir() {
        let _lock = StateLock::take(&dir, WORDS).unwrap();
        println!("child locked");
        std::io::stdin().lines().next();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut owner =
        child("death::the_lock_names_its_owner_and_dies_with_it", dir.path()).spawn().unwrap();
    let mut out = BufReader::new(owner.stdout.take().unwrap());
    assert_eq!(line(&mut out), "locked");
    let error = StateLock::take(dir.path(), "me").unwrap_err();
    assert!(matches!(&error, StoreError::Locked { owner, .. } if owner == WORDS), "{error:?}");
    assert_eq!(StateLock::owner(dir.path()).as_deref(), Some(WORDS));
    // A contender does not take the words away.
    assert!(StateLock::take(dir.path(), "me").unwrap_err().to_string().ends_with(WORDS));
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert_eq!(StateLock::owner(dir.path()), None, "its words are still there, and it is not");
    let lock = StateLock::take(dir.path(), "me").unwrap();
    assert_eq!(std::fs::read_to_string(lock.path()).unwrap(), "me\n");
    drop(lock);
    StateLock::take(dir.path(), "again").unwrap();
}

/// S13: asking for the owner makes nothing, and keeps nobody out.
#[test]
fn whoever_asks_is_in_nobodys_way() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(StateLock::owner(dir.path()), None);
    assert!(!dir.path().join("stepclaw.lock").exists());
    let at = dir.path().to_owned();
    let asked = std::thread::spawn(move || {
        for _ in 0..2_000 {
            let _ = StateLock::owner(&at);
        }
    });
    for _ in 0..200 {
        drop(StateLock::take(dir.path(), "me").unwrap());
    }
    asked.join().unwrap();
}

/// S13, B060: a file without words locks nothing by itself, and a held lock whose words are not
/// there yet is held all the same. There is nothing to reclaim and no time after which one may.
#[test]
fn b060_the_words_are_not_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("stepclaw.lock");
    for words in [&b""[..], b"\xff\xfe", b"a dead one's words\n"] {
        std::fs::write(&file, words).unwrap();
        drop(StateLock::take(dir.path(), "me").unwrap());
    }
    let _lock = StateLock::take(dir.path(), "me").unwrap();
    for (words, owner) in [(&b""[..], "another process"), (b"\xffx", "\u{fffd}x")] {
        std::fs::write(&file, words).unwrap();
        let error = StateLock::take(dir.path(), "you").unwrap_err();
        assert!(matches!(&error, StoreError::Locked { owner: o, .. } if o == owner), "{error:?}");
    }
}

/// Appends for ever, and names what the store has acknowledged.
fn append_for_ever(dir: &Path) {
    let path = dir.join("agent.sqlite");
    let (sender, answers) = std::sync::mpsc::channel();
    let worker = Worker::start(&path, Synchronous::Normal, move |answer| {
        let _ = sender.send(answer);
    })
    .unwrap();
    let run = id::uuid_v7(
        Millis(1),
        std::process::id().to_be_bytes().repeat(3)[..10].try_into().unwrap(),
    );
    let mut door = door(u64::from(std::process::id()));
    let mut writes = vec![accept(&run), Write::Claim];
    let before = Reader::open(&path).unwrap().and_then(|r| r.sessions().unwrap().pop());
    let seen = before.and_then(|row| row.active_run).map(RunId::new);
    for n in 0u64.. {
        let text = format!("{run} {n}");
        writes.extend(door.append(said(&text), Millis(n)));
        let part = part(Some(&run), std::mem::take(&mut writes));
        worker.send(Job::commit(n, Commit { seen: seen.clone(), ..part }));
        // A few are under way at any time.
        if n < 4 {
            continue;
        }
        match answers.recv().unwrap() {
            Answer::Written(ticket, Ok(_)) => {
                let mut out = std::io::stdout().lock();
                writeln!(out, "child {run} {ticket}").unwrap();
                out.flush().unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
}

/// S14: whenever the process is killed, everything it acknowledged is there, and the database is
/// whole.
#[test]
fn killed_at_any_moment_nothing_acknowledged_is_lost() {
    if let Some(dir) = child_dir() {
        return append_for_ever(&dir);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sqlite");
    let mut rng = Rng(u64::from(std::process::id()));
    let mut acknowledged: BTreeSet<String> = BTreeSet::new();
    for round in 0..6 {
        let name = "death::killed_at_any_moment_nothing_acknowledged_is_lost";
        let mut writer = child(name, dir.path()).spawn().unwrap();
        let mut out = BufReader::new(writer.stdout.take().unwrap());
        acknowledged.insert(line(&mut out));
        let until = Instant::now() + Duration::from_micros(rng.below(60_000));
        while Instant::now() < until {
            acknowledged.insert(line(&mut out));
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        // What it had printed before it died counts too.
        for text in out.lines().map_while(Result::ok) {
            if let Some(text) = text.strip_prefix("child ")
                && text.split(' ').nth(1).is_some_and(|n| !n.is_empty())
            {
                acknowledged.insert(text.to_owned());
            }
        }
        let db = open(&path, Synchronous::Normal).unwrap();
        let say: String = db.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
        assert_eq!(say, "ok", "round {round}");
        let loaded = read::load(&db, KEY).unwrap();
        assert_eq!(loaded.damaged, Vec::<String>::new());
        let stored: BTreeSet<String> = loaded
            .branch
            .iter()
            .map(|e| match &e.kind {
                EntryKind::Message { message: Message::User(user) } => user.content.to_text(),
                other => panic!("{other:?}"),
            })
            .collect();
        let lost: Vec<_> = acknowledged.difference(&stored).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?}");
        assert_eq!(u64::try_from(stored.len()).unwrap(), loaded.session.unwrap().entries);
    }
    assert!(acknowledged.len() > 20, "{}", acknowledged.len());
}

/// S15: what was handed over before the store is let go of is written.
#[test]
fn letting_go_writes_what_was_handed_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sqlite");
    let worker = Worker::start(&path, Synchronous::Normal, |_| {}).unwrap();
    let mut door = door(1);
    worker.send(Job::commit(0, part(Some("r1"), vec![accept("r1"), Write::Claim])));
    for n in 1..200 {
        let writes = door.append(said(&n.to_string()), Millis(n));
        assert!(worker.send(Job::commit(n, part(Some("r1"), writes))));
    }
    drop(worker);
    let db = open(&path, Synchronous::Normal).unwrap();
    assert_eq!(read::load(&db, KEY).unwrap().branch.len(), 199);
}
