//! `apply_patch`: the envelope, and how its chunks are laid over a file (tools#10).

use super::splice::{Ending, fold};
use std::fmt;

/// What to do with one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Section {
    /// Make a file.
    Add {
        /// Where.
        path: String,
        /// Its text.
        text: String,
    },
    /// Remove a file.
    Delete {
        /// Which.
        path: String,
    },
    /// Change a file, move it, or both.
    Update {
        /// Which.
        path: String,
        /// Where it goes.
        to: Option<String>,
        /// The changes, in the order of the file.
        chunks: Vec<Chunk>,
    },
}

/// One place of change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chunk {
    /// A line above the place, from `@@ line`.
    pub context: Option<String>,
    /// The lines.
    pub lines: Vec<Line>,
    /// The place is the end of the file.
    pub at_end: bool,
}

/// One line of a chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// It stays.
    Keep(String),
    /// It goes.
    Remove(String),
    /// It is new.
    Add(String),
}

impl Line {
    /// The line as it is looked for in the file; none for a new one.
    fn old(&self) -> Option<&str> {
        match self {
            Line::Keep(text) | Line::Remove(text) => Some(text),
            Line::Add(_) => None,
        }
    }
}

/// Why a patch cannot be read or laid over a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PatchError(pub String);

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const EOF: &str = "*** End of File";

/// Reads a patch.
///
/// # Errors
/// [`PatchError`] with the number of the line that is wrong.
pub fn parse(input: &str) -> Result<Vec<Section>, PatchError> {
    let all: Vec<&str> = input.lines().collect();
    let (first, last) = envelope(&all)?;
    let mut reader = Reader { lines: &all[..last], at: first };
    let mut sections = Vec::new();
    while let Some(line) = reader.peek() {
        if line.trim().is_empty() {
            reader.at += 1;
        } else {
            sections.push(reader.section()?);
        }
    }
    if sections.is_empty() {
        return Err(PatchError("The patch is empty: it names no file.".into()));
    }
    Ok(sections)
}

/// The range of lines between the markers. A heredoc around them is tolerated.
fn envelope(all: &[&str]) -> Result<(usize, usize), PatchError> {
    let blank = |line: &&&str| line.trim().is_empty();
    let mut first = all.iter().take_while(blank).count();
    let mut last = all.len() - all[first..].iter().rev().take_while(blank).count();
    if let Some((_, word)) = all.get(first).and_then(|line| line.split_once("<<")) {
        let word = word.trim_matches(|c: char| c.is_whitespace() || "-'\"".contains(c));
        if !word.is_empty() && last > first + 1 && all[last - 1].trim() == word {
            (first, last) = (first + 1, last - 1);
        }
    }
    if all.get(first).map(|line| line.trim()) != Some(BEGIN) {
        return Err(PatchError(format!("The patch must begin with the line '{BEGIN}'.")));
    }
    if last <= first + 1 || all[last - 1].trim() != END {
        return Err(PatchError(format!("The patch must end with the line '{END}'.")));
    }
    Ok((first + 1, last - 1))
}

struct Reader<'l> {
    lines: &'l [&'l str],
    at: usize,
}

impl<'l> Reader<'l> {
    fn peek(&self) -> Option<&'l str> {
        self.lines.get(self.at).copied()
    }

    fn error<T>(&self, what: &str) -> Result<T, PatchError> {
        let line = super::text::head(self.peek().unwrap_or("end of the patch"), 80);
        Err(PatchError(format!("Line {} of the patch ('{line}'): {what}", self.at + 1)))
    }

    /// The path after a marker, if the line has it.
    fn marked(&self, marker: &str) -> Option<&'l str> {
        self.peek()?.trim().strip_prefix(marker).map(str::trim)
    }

    fn path(&mut self, path: &str) -> Result<String, PatchError> {
        if path.is_empty() {
            return self.error("the path is missing.");
        }
        self.at += 1;
        Ok(path.to_owned())
    }

    fn section(&mut self) -> Result<Section, PatchError> {
        if let Some(path) = self.marked(ADD) {
            let path = self.path(path)?;
            return Ok(Section::Add { path, text: self.added()? });
        }
        if let Some(path) = self.marked(DELETE) {
            return Ok(Section::Delete { path: self.path(path)? });
        }
        let Some(path) = self.marked(UPDATE) else {
            return self
                .error("expected '*** Add File:', '*** Delete File:' or '*** Update File:'.");
        };
        let path = self.path(path)?;
        let to = self.marked(MOVE).map(|to| self.path(to)).transpose()?;
        let mut chunks = Vec::new();
        while let Some(line) = self.peek() {
            if section_starts(line) {
                break;
            }
            if line.trim().is_empty() && self.rest_is_blank() {
                self.at += 1;
                continue;
            }
            chunks.push(self.chunk(chunks.is_empty())?);
        }
        if chunks.is_empty() && to.is_none() {
            return self.error("the update of a file has no changes.");
        }
        Ok(Section::Update { path, to, chunks })
    }

    /// Whether only blank lines follow up to the next section.
    fn rest_is_blank(&self) -> bool {
        let mut rest = self.lines[self.at..].iter().take_while(|line| !section_starts(line));
        rest.all(|line| line.trim().is_empty())
    }

    fn added(&mut self) -> Result<String, PatchError> {
        let mut text = String::new();
        while let Some(line) = self.peek() {
            if section_starts(line) || (line.trim().is_empty() && self.rest_is_blank()) {
                break;
            }
            let Some(line) = line.strip_prefix('+') else {
                return self.error("every line of a new file begins with '+'.");
            };
            text.push_str(line);
            text.push('\n');
            self.at += 1;
        }
        Ok(text)
    }

    fn chunk(&mut self, first: bool) -> Result<Chunk, PatchError> {
        let mut chunk = Chunk::default();
        let line = self.peek().unwrap_or_default();
        if let Some(context) = line.strip_prefix("@@") {
            let context = context.strip_prefix(' ').unwrap_or(context);
            chunk.context = (!context.trim().is_empty()).then(|| context.to_owned());
            self.at += 1;
        } else if !first {
            return self.error("a further chunk begins with '@@'.");
        }
        while let Some(line) = self.peek() {
            if line.trim() == EOF {
                chunk.at_end = true;
                self.at += 1;
                break;
            }
            let blank_end = line.trim().is_empty() && self.rest_is_blank();
            if section_starts(line) || line.starts_with("@@") || blank_end {
                break;
            }
            let Some(read) = read_line(line) else {
                return self.error("a line of a chunk begins with a space, '-' or '+'.");
            };
            chunk.lines.push(read);
            self.at += 1;
        }
        if chunk.lines.is_empty() {
            return self.error("the chunk has no lines.");
        }
        Ok(chunk)
    }
}

fn section_starts(line: &str) -> bool {
    [ADD, DELETE, UPDATE].iter().any(|marker| line.starts_with(marker))
}

/// A line without any sign is an empty line that lost its blank.
fn read_line(line: &str) -> Option<Line> {
    let rest = || line[1..].to_owned();
    match line.as_bytes().first() {
        None => Some(Line::Keep(String::new())),
        Some(b' ') => Some(Line::Keep(rest())),
        Some(b'-') => Some(Line::Remove(rest())),
        Some(b'+') => Some(Line::Add(rest())),
        Some(_) => None,
    }
}

/// Lays the chunks over a text. Lines that stay keep their bytes, also where they were found by
/// a tolerant pass only; new lines get the file's line ending.
///
/// # Errors
/// [`PatchError`] naming the chunk that has no place, or more than one.
pub fn apply(original: &str, chunks: &[Chunk]) -> Result<String, PatchError> {
    let (mark, body) = match original.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", original),
    };
    let raw: Vec<&str> = body.split_inclusive('\n').collect();
    let lines: Vec<&str> = raw.iter().map(|line| bare(line)).collect();
    let ending = Ending::of(body).as_str();
    let mut out: Vec<(&str, bool)> = Vec::new();
    let mut copied = 0;
    for (index, chunk) in chunks.iter().enumerate() {
        let start = place(&lines, chunk, copied)
            .map_err(|what| PatchError(format!("Chunk {}: {what}", index + 1)))?;
        out.extend(raw[copied..start].iter().map(|line| (*line, false)));
        let mut at = start;
        for line in &chunk.lines {
            match line {
                Line::Keep(_) => out.push((raw[at], false)),
                Line::Remove(_) => {}
                Line::Add(text) => out.push((text, true)),
            }
            at += usize::from(line.old().is_some());
        }
        copied = at;
    }
    out.extend(raw[copied..].iter().map(|line| (*line, false)));
    let open_end = raw.last().is_some_and(|line| !line.ends_with('\n'));
    let mut text = mark.to_owned();
    let count = out.len();
    for (index, (line, new)) in out.into_iter().enumerate() {
        text.push_str(line);
        let last = index + 1 == count;
        if (new || !line.ends_with('\n')) && !(last && open_end) {
            text.push_str(ending);
        }
    }
    Ok(text)
}

fn bare(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

type Pass = fn(&str, &str) -> bool;

/// From strict to lenient; the first pass that finds anything decides.
const PASSES: [Pass; 4] = [
    |a, b| a == b,
    |a, b| a.trim_end() == b.trim_end(),
    |a, b| a.trim() == b.trim(),
    |a, b| fold(a).trim() == fold(b).trim(),
];

/// The line at which a chunk begins, not before `from`.
fn place(lines: &[&str], chunk: &Chunk, from: usize) -> Result<usize, String> {
    let old: Vec<&str> = chunk.lines.iter().filter_map(Line::old).collect();
    let mut from = from;
    if let Some(context) = &chunk.context {
        let at = only(lines, &[context], from, "context")?;
        // The context line may be repeated as the first line of the chunk.
        let repeated = old.first().is_some_and(|first| PASSES[1](first, context));
        let fits = |start: usize| PASSES.iter().any(|pass| fits(lines, &old, start, *pass));
        if old.is_empty() || (repeated && fits(at)) {
            return Ok(if old.is_empty() { at + 1 } else { at });
        }
        from = at + 1;
    }
    if old.is_empty() {
        return Ok(lines.len());
    }
    if chunk.at_end {
        let start = lines.len().checked_sub(old.len()).filter(|start| *start >= from);
        let found = start.filter(|at| PASSES.iter().any(|pass| fits(lines, &old, *at, *pass)));
        return found.ok_or_else(|| missing(&old, "at the end of the file"));
    }
    if chunk.context.is_some() {
        // The context made the place unique: the first match after it is meant.
        let first = PASSES
            .iter()
            .find_map(|pass| (from..lines.len()).find(|start| fits(lines, &old, *start, *pass)));
        return first.ok_or_else(|| missing(&old, "after its context line"));
    }
    only(lines, &old, from, "lines")
}

fn fits(lines: &[&str], old: &[&str], start: usize, same: Pass) -> bool {
    lines
        .get(start..start + old.len())
        .is_some_and(|there| there.iter().zip(old).all(|(a, b)| same(a, b)))
}

fn only(lines: &[&str], old: &[&str], from: usize, what: &str) -> Result<usize, String> {
    for pass in PASSES {
        let mut found = (from..lines.len()).filter(|start| fits(lines, old, *start, pass));
        if let Some(first) = found.next() {
            let more = found.count();
            if more == 0 {
                return Ok(first);
            }
            return Err(format!(
                "its {what} ('{}') fit {} places: give more of the surroundings.",
                super::text::head(old[0], 80),
                more + 1
            ));
        }
    }
    Err(missing(old, "in the file"))
}

fn missing(old: &[&str], place: &str) -> String {
    let shown: Vec<&str> = old.iter().take(5).map(|line| super::text::head(line, 120)).collect();
    format!("these lines are not {place}:\n{}", shown.join("\n"))
}

#[cfg(test)]
mod tests;
