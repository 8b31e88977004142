//! The journal: an optional file of every input with its time, for replay and bug reports
//! (decisions 9). One JSON value a line: a head, then inputs, each followed by what it made the
//! door write. Credentials never enter an input; everything else may be in it.

use crate::base::{Millis, MsgId, SessionId};
use crate::engine::{Input, QueueKind, Run, step};
use crate::transcript::{Door, ModelName, User, Write};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// The format this program writes.
pub const VERSION: u32 = 1;

/// The first line: everything a replay needs beside the inputs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// The format.
    pub journal: u32,
    /// The session.
    pub session: SessionId,
    /// Its key.
    pub key: String,
    /// The model that closing messages name.
    pub model: ModelName,
    /// Where entry ids are drawn from.
    pub seed: u64,
    /// Messages that waited when the run began.
    pub waiting: Vec<(MsgId, QueueKind, Arc<User>)>,
    /// The program's version.
    pub program: String,
}

impl Head {
    /// The door as the run found it.
    #[must_use]
    pub fn door(&self) -> Door {
        Door::resume(self.model.clone(), self.seed, vec![], self.waiting.clone())
    }
}

/// A line behind the head.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    /// An input and its time.
    In(Millis, Box<Input>),
    /// What the last input made the door write.
    Out(Vec<Write>),
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    file: BufWriter<File>,
}

impl Journal {
    /// Creates the file, readable by its owner alone; an existing one is not overwritten.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> std::io::Result<Journal> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Journal { file: BufWriter::new(file) })
    }

    pub(super) fn head(&mut self, head: &Head) -> std::io::Result<()> {
        self.line(head)
    }

    /// Written before the input is taken.
    pub(super) fn input(&mut self, at: Millis, input: &Input) -> std::io::Result<()> {
        self.line(&Line::In(at, Box::new(input.clone())))
    }

    pub(super) fn writes(&mut self, writes: &[Write]) -> std::io::Result<()> {
        if writes.is_empty() {
            return Ok(());
        }
        self.line(&Line::Out(writes.to_vec()))
    }

    fn line(&mut self, value: &impl Serialize) -> std::io::Result<()> {
        serde_json::to_writer(&mut self.file, value)?;
        self.file.write_all(b"\n")?;
        self.file.flush()
    }
}

/// What a replay found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Inputs taken.
    pub inputs: u64,
    /// Inputs that were refused, as they were then.
    pub refused: u64,
    /// Transcript bytes compared.
    pub bytes: u64,
    /// The run came to its end.
    pub ended: bool,
    /// The last line was cut off in the middle, at this byte.
    pub torn_at: Option<u64>,
}

/// Why a journal cannot be replayed, or was replayed to something else.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReplayError {
    /// There is no head.
    #[error("line 1 is not the head of a journal: {0}")]
    NoHead(String),
    /// Another format.
    #[error("the journal has format {0}, this program reads {VERSION}")]
    Version(u32),
    /// A line in the middle is damaged: what follows cannot be trusted.
    #[error("line {line} (byte {byte}) is damaged: {detail}")]
    Damaged {
        /// The line, from 1.
        line: usize,
        /// Where it starts.
        byte: u64,
        /// The reader's words.
        detail: String,
    },
    /// The engine wrote something else than it did then.
    #[error("line {line}: replay differs\n  then: {then}\n  now:  {now}")]
    Differs {
        /// The line, from 1.
        line: usize,
        /// What was written then.
        then: String,
        /// What is written now.
        now: String,
    },
    /// The door did not take what the engine recorded.
    #[error("line {line}: {detail}")]
    Door {
        /// The line, from 1.
        line: usize,
        /// The door's words.
        detail: String,
    },
}

/// Replays a journal's bytes through the engine and compares the transcript byte by byte.
///
/// # Errors
/// What is wrong with the journal, or where the replay differs.
pub fn replay(bytes: &[u8]) -> Result<Replayed, ReplayError> {
    let mut lines = Lines { bytes, at: 0, number: 0 };
    let head = lines.next().unwrap_or_default();
    let head: Head =
        serde_json::from_slice(head).map_err(|e| ReplayError::NoHead(e.to_string()))?;
    if head.journal != VERSION {
        return Err(ReplayError::Version(head.journal));
    }
    let mut player = Player {
        run: Run::default(),
        door: head.door(),
        made: Vec::new(),
        found: Replayed::default(),
    };
    while let Some(line) = lines.next() {
        match serde_json::from_slice::<Line>(line) {
            Ok(Line::In(at, input)) => {
                player.nothing_missing(lines.number)?;
                player.input(at, *input, lines.number)?;
            }
            Ok(Line::Out(_)) => player.compare(line, lines.number)?,
            // A writer that was killed leaves half a line at the end, and only there.
            Err(_) if lines.unterminated() => player.found.torn_at = Some(lines.start(line)),
            Err(error) => {
                let (byte, detail) = (lines.start(line), error.to_string());
                return Err(ReplayError::Damaged { line: lines.number, byte, detail });
            }
        }
    }
    player.found.ended = player.run.ended().is_some();
    Ok(player.found)
}

struct Player {
    run: Run,
    door: Door,
    made: Vec<Write>,
    found: Replayed,
}

impl Player {
    fn input(&mut self, at: Millis, input: Input, line: usize) -> Result<(), ReplayError> {
        let run = std::mem::take(&mut self.run);
        // Inputs that were changed afterwards may be such as never occur.
        let Ok(stepped) = catch_unwind(AssertUnwindSafe(|| step(run, input, at))) else {
            let detail = "this input breaks an invariant of the engine".to_owned();
            return Err(ReplayError::Door { line, detail });
        };
        self.run = stepped.state;
        self.found.inputs += 1;
        self.found.refused += u64::from(stepped.refused.is_some());
        self.made.clear();
        for record in &stepped.append {
            let made = self.door.apply(record, at);
            let made = made.map_err(|e| ReplayError::Door { line, detail: e.to_string() })?;
            self.made.extend(made);
        }
        Ok(())
    }

    /// What the last input made must have stood behind it. Only at the very end may it be missing,
    /// where the writer was killed between the two lines.
    fn nothing_missing(&mut self, line: usize) -> Result<(), ReplayError> {
        if self.made.is_empty() {
            return Ok(());
        }
        let made = Line::Out(std::mem::take(&mut self.made));
        let now = serde_json::to_string(&made).unwrap_or_default();
        Err(ReplayError::Differs { line, then: "nothing".to_owned(), now })
    }

    fn compare(&mut self, then: &[u8], line: usize) -> Result<(), ReplayError> {
        let made = Line::Out(std::mem::take(&mut self.made));
        let now = serde_json::to_string(&made).unwrap_or_default();
        if now.as_bytes() != then {
            let then = String::from_utf8_lossy(then).into_owned();
            return Err(ReplayError::Differs { line, then, now });
        }
        self.found.bytes += then.len() as u64;
        Ok(())
    }
}

/// Lines of bytes, so that one bad byte spoils one line and not the file.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    number: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        self.at += end + 1;
        self.number += 1;
        Some(&rest[..end])
    }

    /// Whether the line just given had no line feed.
    fn unterminated(&self) -> bool {
        self.at > self.bytes.len()
    }

    /// Where the line just given starts.
    fn start(&self, line: &[u8]) -> u64 {
        (self.at - 1 - line.len()) as u64
    }
}
