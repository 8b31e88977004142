//! S22 to S26, U4, U6 to U8: the gateway's own database.

use super::Synchronous;
use crate::base::Millis;
use crate::config::Secret;
use crate::gateway::audit::{Ending, Page, Query, Row, Subject, What, row};
use crate::gateway::auth::{About, Change, Device, Issuer, Scopes, Token};
use crate::store::state::{Answer, Booted, State, audit_page, state_db};
use crate::store::{StateLock, StoreError};
use rusqlite::Connection;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const DAY: u64 = 24 * 60 * 60 * 1_000;
const NOW: Millis = Millis(100 * DAY);
const PATIENCE: Duration = Duration::from_secs(30);

struct Bed {
    dir: tempfile::TempDir,
    lock: StateLock,
}

fn bed() -> Bed {
    let dir = tempfile::tempdir().unwrap();
    let lock = StateLock::take(dir.path(), "a test").unwrap();
    Bed { dir, lock }
}

impl Bed {
    fn try_open(&self) -> Result<(State, Booted, Receiver<Answer>), StoreError> {
        let (send, answers) = channel();
        let answer = move |answer| drop(send.send(answer));
        let sync = Synchronous::Normal;
        let (state, booted) = State::open(self.dir.path(), &self.lock, sync, NOW, answer)?;
        Ok((state, booted, answers))
    }

    fn open(&self) -> (State, Booted, Receiver<Answer>) {
        self.try_open().unwrap()
    }

    fn raw(&self) -> Connection {
        Connection::open(state_db(self.dir.path())).unwrap()
    }

    fn page(&self, query: &Query) -> Page {
        audit_page(&state_db(self.dir.path()), query, NOW).unwrap().unwrap()
    }
}

fn written(answers: &Receiver<Answer>, ticket: u64) -> Result<(), StoreError> {
    match answers.recv_timeout(PATIENCE).unwrap() {
        Answer::Written(of, result) if of == ticket => result,
        other => panic!("{other:?}"),
    }
}

fn device(id: &str) -> Device {
    let token = Token {
        token: Secret::new(format!("token of {id}")),
        scopes: Scopes::from_words(["operator.read"]),
        created_at: Millis(1),
        rotated_at: Some(Millis(2)),
        revoked_at: None,
        last_used_at: Some(Millis(3)),
        issuer: Some(4),
    };
    let some = |text: &str| Some(text.to_owned());
    Device {
        id: id.to_owned(),
        key: "key".to_owned(),
        about: About { display_name: some("n"), remote_ip: some("::1"), ..About::default() },
        label: some("l"),
        roles: vec!["operator".to_owned()],
        approved: Scopes::from_words(["operator.read", "operator.talk.secrets"]),
        silent: true,
        created_at: Millis(5),
        approved_at: Millis(6),
        last_seen_at: None,
        tokens: [("operator".to_owned(), token)].into(),
    }
}

fn put(id: &str) -> Change {
    Change::Device(Box::new(device(id)))
}

fn fact(run: &str, place: u64, at: Millis) -> Row {
    let subject = Subject {
        agent: "main".into(),
        key: Some("agent:main:main".into()),
        session: Some("s1".into()),
        run: run.into(),
        generation: 1,
    };
    let what = match place {
        1 => What::RunStarted,
        2 => What::ToolEnded { call: "c", name: "read", ending: Ending::Failed },
        _ => What::RunEnded(Ending::Succeeded),
    };
    row(&subject, what, place, at)
}

/// S24, S25: what was written is there after a start, also when it was handed over last.
#[test]
fn devices_and_settings_come_back() {
    let bed = bed();
    let (state, booted, answers) = bed.open();
    assert!(booted.devices.is_empty() && booted.issuer.is_none() && booted.damaged.is_empty());
    let issuer = Issuer { generation: 3, salt: "s".into(), mark: "m".into() };
    state.write(1, vec![put("a"), put("b"), Change::Issuer(issuer.clone())]).unwrap();
    written(&answers, 1).unwrap();
    let again = Device { last_seen_at: Some(Millis(9)), label: None, ..device("a") };
    let again = Device { tokens: Default::default(), ..again };
    state.write(2, vec![Change::Device(Box::new(again.clone()))]).unwrap();
    state.write(3, vec![Change::Removed("b".into()), put("c")]).unwrap();
    drop(state);
    let (_, booted, _) = bed.open();
    assert_eq!(booted.devices, [again, device("c")]);
    assert_eq!(booted.issuer, Some(issuer));
}

/// S24: a row that cannot be read is left out and named; the others load.
#[test]
fn a_damaged_row_is_left_out() {
    let bed = bed();
    let (state, _, answers) = bed.open();
    state.write(1, vec![put("a"), put("b")]).unwrap();
    written(&answers, 1).unwrap();
    drop(state);
    let raw = bed.raw();
    let broken = "UPDATE devices SET display_name = cast(x'ff41' AS TEXT) WHERE device_id = 'a'";
    raw.execute(broken, []).unwrap();
    raw.execute("INSERT INTO settings VALUES('issuer', '{\"generation\":-1}')", []).unwrap();
    drop(raw);
    let (_, booted, _) = bed.open();
    assert_eq!(booted.devices, [device("b")]);
    assert_eq!(booted.damaged.len(), 2, "{:?}", booted.damaged);
    assert!(booted.issuer.is_none());
}

/// S23: the file is its owner's alone, also one that was not.
#[test]
fn the_file_is_private() {
    let bed = bed();
    let path = state_db(bed.dir.path());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (state, _, answers) = bed.open();
    state.write(1, vec![put("a")]).unwrap();
    written(&answers, 1).unwrap();
    let log = bed.dir.path().join("state.sqlite-wal");
    assert_eq!((mode(&path), mode(&log)), (0o600, 0o600));
    drop(state);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    bed.open();
    assert_eq!(mode(&path), 0o600);
}

/// S22: a newer schema, an agent's database and a damaged file are refused and left as they are.
#[test]
fn what_is_not_ours_is_refused() {
    let bed = bed();
    let path = state_db(bed.dir.path());
    drop(bed.open());
    let raw = bed.raw();
    raw.pragma_update(None, "user_version", 2).unwrap();
    raw.pragma_update(None, "journal_mode", "DELETE").unwrap();
    drop(raw);
    let before = std::fs::read(&path).unwrap();
    let error = bed.try_open().err().unwrap();
    let newer = matches!(&error, StoreError::Newer { found: 2, known: 1, .. });
    assert!(newer && error.to_string().contains("state.sqlite"), "{error}");
    let error = audit_page(&path, &Query::default(), NOW).err().unwrap();
    assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    assert!(std::fs::read(&path).unwrap() == before);
    std::fs::remove_file(&path).unwrap();
    drop(super::open(&path, Synchronous::Full).unwrap());
    let error = bed.try_open().err().unwrap();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    std::fs::write(&path, "not a database, not at all".repeat(9)).unwrap();
    let error = bed.try_open().err().unwrap();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    std::fs::remove_file(&path).unwrap();
    assert!(audit_page(&path, &Query::default(), NOW).unwrap().is_none());
    let agent = bed.dir.path().join("agent.sqlite");
    drop(bed.open());
    std::fs::copy(&path, &agent).unwrap();
    let error = super::open(&agent, Synchronous::Full).unwrap_err();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
}

/// S25: a failed write is answered, and nothing of it is stored.
#[test]
fn a_failed_write_is_answered() {
    let bed = bed();
    let (state, _, answers) = bed.open();
    bed.raw().execute_batch("DROP TABLE device_tokens").unwrap();
    state.write(1, vec![put("a")]).unwrap();
    let error = written(&answers, 1).unwrap_err();
    assert!(error.to_string().contains("device_tokens"), "{error}");
    drop(state);
    let count: i64 = bed.raw().query_row("SELECT count(*) FROM devices", [], |r| r.get(0)).unwrap();
    assert_eq!(count, 0);
}

/// S25: many writers at once; all is written, in order, and nobody is forgotten.
#[test]
fn writes_from_many_threads_are_all_answered() {
    let bed = bed();
    let (state, _, answers) = bed.open();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let state = &state;
            scope.spawn(move || {
                for n in 0..100 {
                    let ticket = thread * 1_000 + n;
                    state.write(ticket, vec![put(&format!("{thread}"))]).unwrap();
                }
            });
        }
    });
    let mut last = [None; 4];
    for _ in 0..400 {
        let Answer::Written(ticket, Ok(())) = answers.recv_timeout(PATIENCE).unwrap() else {
            panic!("not written")
        };
        let of = &mut last[(ticket / 1_000) as usize];
        assert!(of.is_none_or(|before| before < ticket), "in order");
        *of = Some(ticket);
    }
}

/// U4, U6: a fact is stored once; pages go from the newest row to the oldest, by every filter.
#[test]
fn the_ledger_is_paged() {
    let bed = bed();
    let (state, _, answers) = bed.open();
    for n in 0..30u64 {
        let run = format!("r{}", n / 3);
        let row = fact(&run, n % 3 + 1, Millis(NOW.0 - 1_000 + n));
        state.audit(row.clone(), NOW);
        state.audit(row, NOW);
    }
    drop(state);
    let all = bed.page(&Query { limit: 500, ..Query::default() });
    let places: Vec<u64> = all.rows.iter().map(|row| row.sequence).collect();
    assert_eq!(places, (1..=30).rev().collect::<Vec<u64>>());
    assert_eq!(all.next, None);
    let mut seen = Vec::new();
    let mut query = Query { limit: 7, ..Query::default() };
    loop {
        let page = bed.page(&query);
        seen.extend(page.rows);
        query.cursor = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(seen, all.rows);
    let count = |equal: &[(&'static str, &str)], after: Option<u64>, before: Option<u64>| {
        let equal = equal.iter().map(|(column, value)| (*column, (*value).to_owned())).collect();
        let (after, before) = (after.map(Millis), before.map(Millis));
        bed.page(&Query { equal, after, before, cursor: None, limit: 500 }).rows.len()
    };
    assert_eq!(count(&[("run_id", "r4")], None, None), 3);
    assert_eq!(count(&[("kind", "tool_action")], None, None), 10);
    assert_eq!(count(&[("status", "failed"), ("run_id", "r4")], None, None), 1);
    assert_eq!(count(&[("session_key", "agent:main:main"), ("agent_id", "main")], None, None), 30);
    assert_eq!(count(&[("direction", "inbound")], None, None), 0);
    assert_eq!(count(&[("channel", "' OR 1=1 --")], None, None), 0);
    assert_eq!(count(&[], Some(NOW.0 - 980), Some(NOW.0 - 975)), 6);
    let (state, _, answers) = {
        drop(answers);
        bed.open()
    };
    state.page(5, Query { limit: 2, ..Query::default() }, NOW).unwrap();
    match answers.recv_timeout(PATIENCE).unwrap() {
        Answer::Page(5, Ok(page)) => assert_eq!((page.rows.len(), page.next), (2, Some(29))),
        other => panic!("{other:?}"),
    }
}

/// U7: what is old goes, at a start, hourly and with a write, and is not shown before it is gone.
#[test]
fn old_rows_go() {
    let bed = bed();
    let (state, _, answers) = bed.open();
    let old = Millis(NOW.0 - 30 * DAY - 1);
    let kept = Millis(NOW.0 - 30 * DAY);
    for n in 1..=3 {
        // At its own time nothing was old yet.
        state.audit(fact(&format!("old{n}"), 1, old), old);
    }
    state.audit(fact("kept", 1, kept), old);
    state.page(1, Query { limit: 9, ..Query::default() }, NOW).unwrap();
    let Answer::Page(1, Ok(page)) = answers.recv_timeout(PATIENCE).unwrap() else { panic!("1") };
    assert_eq!(page.rows.iter().map(|r| r.run_id.as_str()).collect::<Vec<_>>(), ["kept"]);
    let count =
        || -> i64 { bed.raw().query_row("SELECT count(*) FROM audit", [], |r| r.get(0)).unwrap() };
    assert_eq!(count(), 4);
    state.prune(NOW).unwrap();
    drop(state);
    assert_eq!(count(), 1, "hourly");
    let (state, _, _) = bed.open();
    state.audit(fact("old", 1, old), old);
    drop(state);
    assert_eq!(count(), 2);
    let (state, _, _) = bed.open();
    assert_eq!(count(), 1, "at a start");
    state.audit(fact("new", 1, NOW), Millis(NOW.0 + 1));
    drop(state);
    assert_eq!(count(), 1, "with a write");
    // Places are not used again, so that a cursor stays good.
    assert_eq!(bed.page(&Query { limit: 1, ..Query::default() }).rows[0].sequence, 6);
}

/// U7: more than 100,000 rows never stay, and one transaction drops 1,024 of them at most.
#[test]
fn rows_are_bounded() {
    let bed = bed();
    drop(bed.open());
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) \
                INSERT INTO audit(event_id, source_id, schema_version, source_sequence, \
                occurred_at, kind, action, status, actor_type, actor_id, agent_id, run_id) \
                SELECT 'e', 's' || i, 1, 1, ?2, 'agent_run', 'agent.run.started', 'started', \
                'agent', 'main', 'main', 'r' FROM n";
    bed.raw().execute(fill, [103_000, i64::try_from(NOW.0).unwrap()]).unwrap();
    let ends = || -> (i64, i64) {
        let sql = "SELECT count(*), min(sequence) FROM audit";
        bed.raw().query_row(sql, [], |r| Ok((r.get(0)?, r.get(1)?))).unwrap()
    };
    let (state, _, _) = bed.open();
    assert_eq!(ends(), (100_000, 3_001));
    state.audit(fact("r1", 1, NOW), NOW);
    state.audit(fact("r1", 2, NOW), NOW);
    drop(state);
    assert_eq!(ends(), (100_000, 3_003));
}

/// U8: who writes the ledger never waits; what does not fit is counted, and so is what fails.
#[test]
fn the_ledger_holds_nobody_back() {
    let bed = bed();
    let (state, _, _) = bed.open();
    // Somebody else writes meanwhile, so that nothing gets on.
    let other = bed.raw();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for n in 0..6_000u64 {
        state.audit(fact(&format!("r{n}"), 1, NOW), NOW);
    }
    let dropped = state.dropped();
    assert!((1_000..2_000).contains(&dropped), "{dropped}");
    other.execute_batch("COMMIT").unwrap();
    drop(state);
    let stored = bed.page(&Query { limit: 500, ..Query::default() }).rows[0].sequence;
    assert_eq!(stored + dropped, 6_000);
    bed.raw().execute_batch("DROP TABLE audit").unwrap();
    let raw = bed.raw();
    raw.execute_batch("CREATE TABLE audit(sequence INTEGER PRIMARY KEY, occurred_at INTEGER)")
        .unwrap();
    drop(raw);
    let (state, _, answers) = bed.open();
    state.audit(fact("r", 1, NOW), NOW);
    state.write(1, vec![put("a")]).unwrap();
    written(&answers, 1).unwrap();
    state.prune(NOW).unwrap();
    state.write(2, vec![]).unwrap();
    written(&answers, 2).unwrap();
    let waited = std::time::Instant::now();
    while state.dropped() == 0 && waited.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    assert_eq!(state.dropped(), 1);
}

/// U1: a secret in what a model and its tools say is nowhere in the file.
#[test]
fn no_secret_is_in_the_file() {
    let bed = bed();
    let (state, _, _) = bed.open();
    let canary = "sk-canary-0815";
    let of =
        Subject { agent: "main".into(), key: None, session: None, run: "r".into(), generation: 1 };
    let name = format!("exec {canary}");
    let call = format!("call_{canary}");
    let what = [
        What::ToolStarted { call: &call, name: &name },
        What::ToolEnded { call: &call, name: &name, ending: Ending::Failed },
    ];
    for (place, what) in (1..).zip(what) {
        state.audit(row(&of, what, place, NOW), NOW);
    }
    drop(state);
    assert_eq!(bed.page(&Query { limit: 9, ..Query::default() }).rows.len(), 2);
    for file in ["state.sqlite", "state.sqlite-wal"] {
        let bytes = std::fs::read(bed.dir.path().join(file)).unwrap_or_default();
        let found = bytes.windows(canary.len()).any(|part| part == canary.as_bytes());
        assert!(!found, "{file}");
    }
}
