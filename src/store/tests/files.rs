//! S8 to S12: versions, strangers, damage, full and read-only disks.

use super::*;
use crate::base::MsgId;
use crate::store::{Reader, SCHEMA_VERSION, StateLock};
use crate::transcript::EntryKind;

fn untouched(path: &Path, act: impl FnOnce()) {
    let before = std::fs::read(path).unwrap();
    act();
    assert!(std::fs::read(path).unwrap() == before, "{} was touched", path.display());
}

fn refused(path: &Path) -> StoreError {
    let error = open(path, Synchronous::Full).unwrap_err();
    let read = Reader::open(path).err();
    let (a, b) = (error.to_string(), read.map(|e| e.to_string()));
    assert_eq!(Some(a), b, "reading and writing say the same");
    error
}

/// S8: a newer schema is refused by name before anything is touched.
#[test]
fn a_newer_schema_is_left_alone() {
    let Bed { _dir, path, db } = bed();
    db.pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
    db.pragma_update(None, "journal_mode", "DELETE").unwrap();
    drop(db);
    untouched(&path, || {
        let error = refused(&path);
        let (next, ours) = (SCHEMA_VERSION + 1, SCHEMA_VERSION);
        let newer = matches!(&error, StoreError::Newer { found, known, .. }
            if (*found, *known) == (next, ours));
        assert!(newer && error.to_string().contains("agent.sqlite"), "{error}");
    });
}

/// S8a: an older schema is brought up to date by the first writer; a reader says so.
#[test]
fn an_older_schema_is_migrated_by_a_writer_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sqlite");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(crate::store::schema::MIGRATIONS[0]).unwrap();
    old.execute_batch(
        "INSERT INTO sessions(session_id, session_key, version, created_at, updated_at)
         VALUES('s1', 'agent:main:main', 4, 3, 8); PRAGMA user_version = 1;",
    )
    .unwrap();
    old.pragma_update(None, "application_id", crate::store::schema::APPLICATION_ID).unwrap();
    drop(old);
    let error = Reader::open(&path).err().unwrap();
    assert!(matches!(error, StoreError::Older { found: 1, .. }), "{error}");
    drop(open(&path, Synchronous::Full).unwrap());
    let row = Reader::open(&path).unwrap().unwrap().sessions().unwrap().remove(0);
    assert_eq!((row.started_at, row.interaction_at), (Millis(3), Millis(8)));
}

/// S8b: a session that a newer program wrote is named, not read by half.
#[test]
fn a_session_of_a_newer_version_is_not_read() {
    let mut bed = bed();
    started(&mut bed, "r1");
    bed.db.execute("UPDATE sessions SET version = 99", []).unwrap();
    let error = read::load(&bed.db, KEY).unwrap_err().to_string();
    assert!(error.contains("session s1 has version 99"), "{error}");
}

/// S8: so is another program's database.
#[test]
fn a_strangers_database_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sqlite");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
    untouched(&path, || assert!(matches!(refused(&path), StoreError::Foreign { .. })));
}

/// S8: an empty file is what an interrupted first start leaves: it has no sessions, and is filled.
#[test]
fn an_empty_file_is_a_new_database() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sqlite");
    std::fs::write(&path, b"").unwrap();
    assert!(Reader::open(&path).unwrap().is_none());
    let mut bed = Bed { db: open(&path, Synchronous::Full).unwrap(), path, _dir: dir };
    started(&mut bed, "r1");
    assert_eq!(Reader::open(&bed.path).unwrap().unwrap().sessions().unwrap().len(), 1);
}

/// S9: what is no database, and what is a damaged one, is said to be that and kept as it is.
#[test]
fn damage_is_named_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sqlite");
    std::fs::write(&path, "dear diary\n".repeat(500)).unwrap();
    untouched(&path, || {
        let error = refused(&path);
        assert!(matches!(&error, StoreError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains("restore it"), "{error}");
    });
    let mut bed = bed();
    started(&mut bed, "r1");
    bed.db.pragma_update(None, "journal_mode", "DELETE").unwrap();
    let Bed { _dir, path, db } = bed;
    drop(db);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[105..2_000].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    untouched(&path, || assert!(matches!(refused(&path), StoreError::Corrupt { .. })));
}

/// S9: a pipe in place of a database is named, and nobody waits for it.
#[test]
fn what_is_no_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sqlite");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    for error in [open(&path, Synchronous::Full).unwrap_err(), Reader::open(&path).unwrap_err()] {
        assert!(matches!(&error, StoreError::NoFile { .. }), "{error:?}");
        assert!(error.to_string().contains("agent.sqlite is not a regular file"), "{error}");
    }
    assert!(matches!(open(dir.path(), Synchronous::Full), Err(StoreError::NoFile { .. })));
}

/// S10: what cannot be written is said to be that. The kernel's own directories refuse everybody.
#[test]
fn a_place_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    for dir in [file.as_path(), &file.join("below"), Path::new("/sys/stepclaw")] {
        for error in [
            open(&dir.join("agent.sqlite"), Synchronous::Full).unwrap_err(),
            StateLock::take(dir, "me").unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(matches!(&error, StoreError::ReadOnly { .. }), "{error:?}");
            assert!(text.contains(&*dir.to_string_lossy()), "{text}");
        }
    }
    // Through a connection that may not write, a commit fails by name and half of nothing stays.
    let mut bed = bed();
    started(&mut bed, "r1");
    bed.db.pragma_update(None, "query_only", true).unwrap();
    let writes = door(1).append(said("x"), Millis(2));
    let error = failed(bed.write(Some("r1"), writes));
    assert!(matches!(&error, StoreError::ReadOnly { .. }), "{error:?}");
}

/// S11, B055: a full disk fails the commit by name, nothing of it is written, and what was there
/// is whole.
#[test]
fn b055_a_full_disk_writes_nothing() {
    let mut bed = bed();
    started(&mut bed, "r1");
    let mut door = door(1);
    bed.write(Some("r1"), door.append(said("kept"), Millis(2))).unwrap();
    let pages: i64 = bed.db.pragma_query_value(None, "page_count", |r| r.get(0)).unwrap();
    bed.db.pragma_update(None, "max_page_count", pages + 3).unwrap();
    let before = bed.dump();
    let big =
        [door.append(said("small"), Millis(3)), door.append(said(&"b".repeat(100_000)), Millis(3))];
    let error = failed(bed.write(Some("r1"), big.concat()));
    assert!(matches!(&error, StoreError::Full { .. }), "{error:?}");
    assert!(error.to_string().contains("full; the last step was not stored"), "{error}");
    assert_eq!(bed.dump(), before);
    // In a group only the part that does not fit is lost, or all of them are: never a half.
    let group =
        [part(Some("r1"), door.append(said("fits"), Millis(4))), part(Some("r1"), big.concat())];
    let results = commit_all(&mut bed.db, &bed.path, &group);
    assert!(matches!(failed(results[1].clone()), StoreError::Full { .. }));
    let kept = 1 + usize::from(results[0].is_ok());
    bed.whole();
    let db = open(&bed.path, Synchronous::Full).unwrap();
    assert_eq!(read::load(&db, KEY).unwrap().branch.len(), kept);
    bed.db.pragma_update(None, "max_page_count", 1_000_000).unwrap();
    bed.write(Some("r1"), door.append(said("after"), Millis(5))).unwrap();
}

fn texts(loaded: &super::super::Loaded) -> Vec<String> {
    let text = |kind: &EntryKind| match kind {
        EntryKind::Message { message: Message::User(user) } => user.content.to_text(),
        other => format!("{other:?}"),
    };
    loaded.branch.iter().map(|e| text(&e.kind)).collect()
}

/// S12, B048 B049 B050 B200: one bad row is left out or mended, and reported; the others load and
/// the chain goes on.
#[test]
fn b048_b049_b050_b200_one_bad_row_spoils_no_other() {
    let body = |text: &str| {
        let kind = EntryKind::Message { message: said(text) };
        serde_json::to_string(&kind).unwrap().into_bytes()
    };
    let mut cut = body("雪雪");
    let at = cut.windows(3).rposition(|w| w == "雪".as_bytes()).unwrap();
    cut.truncate(at + 2);
    let glued = [&body("half")[..40], &body("next")].concat();
    let lone = String::from_utf8(body("ok X cut")).unwrap().replace('X', "\\ud83d").into_bytes();
    let damages: [(Vec<u8>, Option<&str>); 7] = [
        (cut, None),
        (glued, None),
        (vec![0; 300], None),
        ([body("x"), vec![0; 300]].concat(), None),
        (Vec::new(), None),
        (lone, Some("ok \u{fffd} cut")),
        (b"\xff\xfe{}".to_vec(), None),
    ];
    for (damage, mended) in damages {
        let mut bed = bed();
        started(&mut bed, "r1");
        let mut door = door(1);
        for text in ["a", "b", "c"] {
            bed.write(Some("r1"), door.append(said(text), Millis(2))).unwrap();
        }
        let sql = "UPDATE entries SET body = CAST(?1 AS TEXT) WHERE n = 2";
        bed.db.execute(sql, [damage]).unwrap();
        let loaded = bed.load();
        let want: Vec<&str> = ["a"].into_iter().chain(mended).chain(["c"]).collect();
        assert_eq!(texts(&loaded), want);
        assert_eq!(loaded.damaged.len(), 1, "{:?}", loaded.damaged);
        // The person's view and the model's are the same reading.
        let shown = Reader::open(&bed.path).unwrap().unwrap().session(KEY).unwrap().unwrap();
        assert_eq!(shown, loaded);
        bed.write(Some("r1"), door.append(said("d"), Millis(3))).unwrap();
        assert_eq!(texts(&bed.load()).last().unwrap(), "d");
    }
}

/// S12: the same for the rows beside the transcript.
#[test]
fn bad_calls_and_waiting_messages_spoil_no_session() {
    let mut bed = bed();
    started(&mut bed, "r1");
    let mut door = door(1);
    let asked = Record::Reply(Arc::new(reply("x", &["c1", "c2"])));
    bed.write(Some("r1"), door.apply(&asked, Millis(2)).unwrap()).unwrap();
    let launched = Record::Launch(vec![0, 1]);
    bed.write(Some("r1"), door.apply(&launched, Millis(2)).unwrap()).unwrap();
    for id in [1, 2] {
        let body = Arc::new(user("waits"));
        let put = Write::QueuePut { id: MsgId(id), kind: QueueKind::Steer, body };
        bed.write(Some("r1"), vec![put]).unwrap();
    }
    let bad = "CAST(x'ff00e9' AS TEXT)";
    for sql in [
        format!("UPDATE calls SET checked = {bad}, call_id = {bad} WHERE idx = 0"),
        format!("UPDATE calls SET output = {bad}, name = {bad} WHERE idx = 1"),
        format!("UPDATE queue SET body = {bad} WHERE msg_id = 1"),
    ] {
        bed.db.execute_batch(&sql).unwrap();
    }
    let loaded = bed.load();
    assert_eq!(loaded.queue.len(), 1);
    assert!(matches!(loaded.calls[0].check, Check::Rejected(_)));
    assert_eq!((loaded.calls.len(), &loaded.calls[1].output), (2, &None));
    assert_eq!(loaded.damaged.len(), 3, "{:?}", loaded.damaged);
}
