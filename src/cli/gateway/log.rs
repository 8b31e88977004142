//! The gateway's log: JSON lines in a file of its owner's, written on a thread of its own. A disk
//! that is slow or full delays nobody: what finds no room is counted and left out (Y22).

use crate::base::limits::{LOG_BYTES_MAX, LOG_CHARS_MAX, LOG_LINES_MAX};
use crate::base::{Level, Millis};
use crate::cli::logs;
use crossbeam_channel::{Receiver, Sender, bounded};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// The log, for the loop.
pub(super) struct Log {
    /// The least that is written.
    pub level: Level,
    lines: Option<Sender<Line>>,
    writer: Option<JoinHandle<()>>,
    lost: u64,
}

struct Line {
    at: Millis,
    level: Level,
    of: &'static str,
    words: String,
}

impl Log {
    /// Begins to write; without a file or a thread nothing is written, and that is said.
    pub fn open(state: &Path, level: Level) -> Log {
        Log::open_with(&logs::file(state), level, LOG_BYTES_MAX)
    }

    fn open_with(path: &Path, level: Level, most: u64) -> Log {
        let (sender, lines) = bounded(LOG_LINES_MAX);
        let started = Pen::new(path, most).and_then(|pen| {
            let work = move || pen.write_all(&lines);
            std::thread::Builder::new().name("log".into()).stack_size(256 * 1024).spawn(work)
        });
        match started {
            Ok(writer) => Log { level, lines: Some(sender), writer: Some(writer), lost: 0 },
            Err(error) => {
                eprintln!("stepclaw: there is no log: {}: {error}", path.display());
                Log { level, lines: None, writer: None, lost: 0 }
            }
        }
    }

    /// A line, if it matters enough. It never waits.
    pub fn write(&mut self, at: Millis, level: Level, of: &'static str, words: String) {
        let Some(lines) = self.lines.as_ref().filter(|_| level <= self.level) else { return };
        if self.lost > 0 {
            let words = format!("{} lines were left out: the disk is too slow", self.lost);
            let lost = Line { at, level: Level::Warn, of: "log", words };
            if lines.try_send(lost).is_ok() {
                self.lost = 0;
            }
        }
        if lines.try_send(Line { at, level, of, words }).is_err() {
            self.lost += 1;
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Who writes.
struct Pen {
    path: PathBuf,
    file: BufWriter<File>,
    size: u64,
    most: u64,
    failed: bool,
}

impl Pen {
    fn new(path: &Path, most: u64) -> std::io::Result<Pen> {
        if let Some(dir) = path.parent() {
            crate::store::create_private(dir).map_err(std::io::Error::other)?;
        }
        let file = append(path)?;
        let size = file.metadata()?.len();
        Ok(Pen { path: path.to_owned(), file: BufWriter::new(file), size, most, failed: false })
    }

    fn write_all(mut self, lines: &Receiver<Line>) {
        while let Ok(line) = lines.recv() {
            let mut done = self.line(&line);
            while let (Ok(()), Ok(line)) = (&done, lines.try_recv()) {
                done = self.line(&line);
            }
            match done.and_then(|()| self.file.flush()) {
                Ok(()) => self.failed = false,
                Err(error) if !std::mem::replace(&mut self.failed, true) => {
                    eprintln!("stepclaw: the log cannot be written: {error}");
                }
                Err(_) => {}
            }
        }
    }

    fn line(&mut self, line: &Line) -> std::io::Result<()> {
        let time = i64::try_from(line.at.0).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_millisecond(time).unwrap_or_default();
        let words: String = line.words.chars().take(LOG_CHARS_MAX).collect();
        let text = json!({"time": format!("{time:.3}"), "level": line.level.word(),
            "subsystem": line.of, "message": words});
        let text = format!("{text}\n");
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if self.size > 0 && self.size.saturating_add(bytes) > self.most {
            self.file.flush()?;
            std::fs::rename(&self.path, logs::former(&self.path))?;
            (self.file, self.size) = (BufWriter::new(append(&self.path)?), 0);
        }
        self.size += bytes;
        self.file.write_all(text.as_bytes())
    }
}

fn append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Y22: lines of the level and above are written, for the owner alone; at its limit the file is
    /// begun anew, and one former one is kept.
    #[test]
    fn lines_are_written_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/gateway.log");
        let mut log = Log::open_with(&path, Level::Info, 2_000);
        for n in 0..100 {
            log.write(Millis(n), Level::Info, "runs", format!("line {n}"));
            log.write(Millis(n), Level::Debug, "runs", "hidden".to_owned());
        }
        log.write(Millis(7), Level::Error, "x", "y".repeat(5_000));
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        let former = std::fs::read_to_string(logs::former(&path)).unwrap();
        assert!(former.len() <= 2_000 && !format!("{text}{former}").contains("hidden"));
        for line in text.lines().chain(former.lines()) {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(line["message"].as_str().unwrap().len() <= LOG_CHARS_MAX, "{line}");
        }
        assert!(former.contains("\"message\":\"line 99\""), "{former}");
        assert!(former.contains("\"time\":\"1970-01-01T00:00:00.099Z\""), "{former}");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert_eq!(std::fs::read_dir(dir.path().join("logs")).unwrap().count(), 2);
    }
}
