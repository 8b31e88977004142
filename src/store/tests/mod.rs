//! The store by itself: schema, fence, group commit, damage, death (spec/store.md).

mod admit;
mod contract;
mod death;
mod fence;
mod files;
mod state;

use super::{Commit, Committed, Denied, StoreError, Synchronous, commit_all, open, read};
use crate::base::{Millis, RunId, SessionId};
use crate::engine::{Cause, Entry as RunEntry, FenceRefusal, QueueKind, Record, Termination};
use crate::transcript::{
    Assistant, Block, Check, Content, Door, Message, ModelName, ReplyBody, StopReason, User, Write,
};
use rusqlite::Connection;
use serde_json::{Map, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KEY: &str = "agent:main:main";

/// A database in a directory of its own, removed with it.
struct Bed {
    _dir: tempfile::TempDir,
    path: PathBuf,
    db: Connection,
}

fn bed() -> Bed {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a").join("agent.sqlite");
    let db = open(&path, Synchronous::Normal).unwrap();
    Bed { _dir: dir, path, db }
}

impl Bed {
    fn commit(&mut self, part: Commit) -> Committed {
        commit_all(&mut self.db, &self.path, &[part]).remove(0)
    }

    /// A commit on a snapshot that was read just now.
    fn write(&mut self, by: Option<&str>, writes: Vec<Write>) -> Committed {
        let seen = self.writer();
        self.commit(Commit { seen, ..part(by, writes) })
    }

    /// The session's active writer.
    fn writer(&self) -> Option<RunId> {
        let sql = "SELECT active_run FROM sessions WHERE session_id = 's1'";
        let run: rusqlite::Result<Option<String>> = self.db.query_row(sql, [], |r| r.get(0));
        run.ok().flatten().map(RunId::new)
    }

    fn load(&self) -> super::Loaded {
        read::load(&self.db, KEY).unwrap()
    }

    /// Everything that is stored, as text: two equal dumps are two equal databases.
    fn dump(&self) -> String {
        let mut out = String::new();
        for table in ["sessions", "entries", "runs", "calls", "queue"] {
            let mut statement = self.db.prepare(&format!("SELECT * FROM {table}")).unwrap();
            let columns = statement.column_count();
            let mut rows = statement.query([]).unwrap();
            while let Some(row) = rows.next().unwrap() {
                let cells: Vec<_> = (0..columns).map(|i| row.get_ref(i).unwrap()).collect();
                out.push_str(&format!("{table} {cells:?}\n"));
            }
        }
        out
    }

    fn count(&self, table: &str) -> i64 {
        self.db.query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get(0)).unwrap()
    }

    fn termination(&self, run: &str) -> Option<Termination> {
        let sql = "SELECT termination FROM runs WHERE run_id = ?1";
        let text: Option<String> = self.db.query_row(sql, [run], |r| r.get(0)).unwrap();
        text.map(|t| serde_json::from_str(&t).unwrap())
    }

    fn whole(&self) {
        let say: String = self.db.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
        assert_eq!(say, "ok");
    }
}

fn part(by: Option<&str>, writes: Vec<Write>) -> Commit {
    Commit {
        session: SessionId::new("s1"),
        key: KEY.into(),
        cwd: "/w".into(),
        revision: 0,
        writer: by.map(RunId::new),
        seen: None,
        writes,
        at: Millis(7),
    }
}

fn door(seed: u64) -> Door {
    Door::new(ModelName::default(), seed)
}

fn user(text: &str) -> User {
    User { content: Content::Text(text.into()), timestamp: Millis(5), idempotency_key: None }
}

fn said(text: &str) -> Message {
    Message::User(user(text))
}

fn reply(text: &str, calls: &[&str]) -> ReplyBody {
    let mut content = vec![Block::text(text)];
    let name = "read".to_owned();
    content.extend(calls.iter().map(|id| Block::ToolCall {
        id: (*id).to_owned(),
        name: name.clone(),
        arguments: Map::new(),
    }));
    let stop = if calls.is_empty() { StopReason::Stop } else { StopReason::ToolUse };
    let message = Assistant {
        content,
        api: "a".into(),
        provider: "p".into(),
        model: "m".into(),
        response_model: None,
        response_id: None,
        usage: None,
        stop_reason: stop,
        error_message: None,
        error_code: None,
        timestamp: Millis(6),
    };
    let checks = calls.iter().map(|id| Check::Ready(Map::from_iter([("p".into(), json!(id))])));
    ReplyBody::new(message, checks.collect(), vec![Default::default(); calls.len()])
}

fn accept(run: &str) -> Write {
    Write::Accept { run: RunId::new(run), entry: RunEntry::Prompt, at: Millis(1) }
}

fn done() -> Write {
    Write::End { termination: Termination::Completed { cut: false }, at: Millis(9) }
}

/// A run that is accepted and writes.
fn started(bed: &mut Bed, run: &str) {
    bed.write(Some(run), vec![accept(run), Write::Claim]).unwrap();
}

fn rebound(result: &Committed) -> Option<RunId> {
    match result {
        Err(Denied::Fenced(FenceRefusal::SessionRebound { by })) => by.clone(),
        other => panic!("expected a refusal by the fence, got {other:?}"),
    }
}

fn refusal(result: &Committed) -> FenceRefusal {
    match result {
        Err(Denied::Fenced(why)) => why.clone(),
        other => panic!("expected a refusal by the fence, got {other:?}"),
    }
}

fn failed(result: Committed) -> StoreError {
    match result {
        Err(Denied::Failed(error)) => error,
        other => panic!("expected a failure, got {other:?}"),
    }
}

/// Runs one test of this binary in a process of its own, with its input and output at hand.
fn child(test: &str, dir: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("store::tests::{test}"), "--nocapture", "--test-threads=1"]);
    command.env("STEPCLAW_TEST_CHILD", dir);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    command.stderr(std::process::Stdio::null());
    command
}

/// The directory a child was given; none in the test run itself.
fn child_dir() -> Option<PathBuf> {
    std::env::var_os("STEPCLAW_TEST_CHILD").map(PathBuf::from)
}
