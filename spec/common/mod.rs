//! The built program in a state directory of its own.

#![allow(dead_code)] // Each test target uses its own part of this.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The default conversation.
pub const KEY: &str = "agent:main:main";

/// A state directory, removed with its owner.
pub struct Home {
    dir: tempfile::TempDir,
}

/// What a program left behind.
#[derive(Debug)]
pub struct Left {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Home {
    pub fn new() -> Home {
        Home { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// A file where tools work.
    pub fn work(&self, name: &str) -> PathBuf {
        self.state().join("workspace").join(name)
    }

    pub fn config(&self, text: &str) {
        std::fs::create_dir_all(self.state()).unwrap();
        std::fs::write(self.state().join("stepclaw.json"), text).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepclaw"));
        command.args(args).env_clear().envs(std::env::vars().filter(|(name, _)| name == "PATH"));
        command.env("STEPCLAW_STATE_DIR", self.state()).env("HOME", self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.current_dir(self.dir.path());
        command
    }

    pub fn start(&self, args: &[&str]) -> Running {
        Running(self.command(args).spawn().unwrap())
    }

    pub fn run(&self, args: &[&str]) -> Left {
        self.start(args).end(20_000)
    }

    /// One message; the run must complete.
    pub fn say(&self, message: &str) -> String {
        let left = self.run(&["agent", "-m", message]);
        assert_eq!(left.status, Some(0), "{left:?}");
        left.out
    }

    /// The stored messages.
    pub fn messages(&self) -> Vec<Value> {
        let left = self.run(&["sessions", "export", KEY, "--format", "jsonl"]);
        assert_eq!(left.status, Some(0), "{left:?}");
        let lines = left.out.lines().skip(1);
        let message = |line: &str| serde_json::from_str::<Value>(line).unwrap()["message"].clone();
        lines.map(message).filter(|m| !m.is_null()).collect()
    }

    /// Results among the stored messages.
    pub fn results(&self) -> Vec<Value> {
        self.messages().into_iter().filter(|m| m["role"] == "toolResult").collect()
    }

    /// Waits until a query on the database gives a row.
    pub fn until_row(&self, sql: &str) {
        let path = self.state().join("agents/main/agent.sqlite");
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        until(sql, || {
            let db = rusqlite::Connection::open_with_flags(&path, flags).ok();
            db.and_then(|db| db.query_row(sql, [], |_| Ok(())).ok()).is_some()
        });
    }

    /// Waits until a run writes.
    pub fn until_active(&self) {
        self.until_row("SELECT 1 FROM sessions WHERE active_run IS NOT NULL");
    }
}

/// A program under way; it is killed with its owner.
pub struct Running(pub Child);

impl Running {
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    pub fn type_in(&mut self, line: &str) {
        let stdin = self.0.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Waits for the end, for so many milliseconds at most.
    pub fn end(mut self, most_ms: u64) -> Left {
        drop(self.0.stdin.take());
        let out = drain(self.0.stdout.take());
        let err = drain(self.0.stderr.take());
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < Duration::from_millis(most_ms), "not ended in {most_ms} ms");
            std::thread::sleep(Duration::from_millis(2));
        };
        Left { status: status.code(), out: out(), err: err() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads a stream to its end beside the test; a stream that a survivor holds open is not waited
/// for longer than a moment.
fn drain(stream: Option<impl Read + Send + 'static>) -> impl FnOnce() -> String {
    let (sender, receiver) = std::sync::mpsc::channel();
    if let Some(mut stream) = stream {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        });
    }
    move || receiver.recv_timeout(Duration::from_secs(2)).unwrap_or_default()
}

/// Waits for something, ten seconds at most.
pub fn until(what: &str, mut there: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !there() {
        assert!(begin.elapsed() < Duration::from_secs(10), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// A number of seconds that no other process sleeps.
pub fn nap() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(100);
    format!("7{}{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether a process with that word among its arguments is alive.
pub fn alive(word: &str) -> bool {
    let word = word.as_bytes();
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    processes.flatten().any(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let sleeps = line.split(|b| *b == 0).next().is_some_and(|name| name.ends_with(b"sleep"));
        sleeps && line.split(|b| *b == 0).any(|part| part == word)
    })
}

pub fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
