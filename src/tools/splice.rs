//! Where an edit belongs and how it is put there (tools#9). All edits are located in the original
//! text; a tolerant search only locates, and what is not replaced stays as it was, byte by byte.

pub use super::diff::{Diff, diff};
use std::{fmt, ops::Range};
use unicode_normalization::{
    IsNormalized, UnicodeNormalization, char::canonical_combining_class, is_nfkc_quick,
};

/// Most matches that are counted.
const MATCHES_MAX: usize = 1_000;
/// Most nearest lines that are shown, and how alike they must be.
const NEAR_MAX: usize = 3;
const NEAR_LIKENESS: f32 = 0.45;
/// Lines that are compared when nearest ones are looked for, and the longest of them.
const NEAR_LINES_MAX: usize = 2_000;
const NEAR_CHARS_MAX: usize = 160;

/// One replacement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// What is there.
    pub old: String,
    /// What shall be there.
    pub new: String,
}

/// The edited text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spliced {
    /// The whole new text.
    pub text: String,
    /// The replaced byte ranges of the original, ascending, with the length of what is there now.
    pub ranges: Vec<(Range<usize>, usize)>,
    /// How many edits were found by the tolerant search only.
    pub tolerant: usize,
}

/// Why an edit cannot be made; indices count from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SpliceError {
    /// There is no edit.
    None,
    /// An edit's old text is empty.
    Empty(usize),
    /// An edit's old text is not there; the lines that are most like its first one.
    NotFound(usize, Vec<(usize, String)>),
    /// An edit's old text is there more than once.
    Many(usize, usize),
    /// Two edits touch the same text.
    Overlap(usize, usize),
    /// The edits change nothing.
    NoChange,
}

impl fmt::Display for SpliceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpliceError::None => f.write_str("There are no edits."),
            SpliceError::Empty(at) => {
                write!(f, "edits[{at}].oldText is empty: quote the text to replace.")
            }
            SpliceError::NotFound(at, near) => {
                write!(f, "edits[{at}].oldText was not found. It must match exactly.")?;
                for (index, (line, text)) in near.iter().enumerate() {
                    f.write_str(if index == 0 { " Nearest lines:" } else { "" })?;
                    write!(f, "\n  {line}: {text}")?;
                }
                Ok(())
            }
            SpliceError::Many(at, count) => {
                let least = if *count >= MATCHES_MAX { "at least " } else { "" };
                write!(f, "edits[{at}].oldText occurs {least}{count} times: ")?;
                f.write_str("quote more of its surroundings, so that it is unique.")
            }
            SpliceError::Overlap(a, b) => {
                write!(f, "edits[{a}] and edits[{b}] overlap: merge them into one.")
            }
            SpliceError::NoChange => {
                f.write_str("The edits change nothing: old and new are alike.")
            }
        }
    }
}

/// Makes all edits of a text at once. A byte order mark is kept out of the search.
///
/// # Errors
/// [`SpliceError`]; nothing is changed then.
pub fn splice(original: &str, edits: &[Edit]) -> Result<Spliced, SpliceError> {
    if edits.is_empty() {
        return Err(SpliceError::None);
    }
    let mut finder = Finder::new(original);
    let mut found = Vec::with_capacity(edits.len());
    let mut tolerant = 0;
    for (at, edit) in edits.iter().enumerate() {
        if edit.old.is_empty() {
            return Err(SpliceError::Empty(at));
        }
        let mut ranges = finder.exact(&edit.old);
        if ranges.is_empty() {
            ranges = finder.tolerant(&edit.old);
            tolerant += usize::from(!ranges.is_empty());
        }
        match ranges.as_slice() {
            [] => return Err(SpliceError::NotFound(at, nearest(original, &edit.old))),
            [one] => found.push((one.clone(), at)),
            many => return Err(SpliceError::Many(at, many.len())),
        }
    }
    found.sort_by_key(|(range, _)| range.start);
    if let Some(pair) = found.windows(2).find(|pair| pair[0].0.end > pair[1].0.start) {
        let (a, b) = (pair[0].1, pair[1].1);
        return Err(SpliceError::Overlap(a.min(b), a.max(b)));
    }
    let ending = Ending::of(original);
    let mut spliced = Spliced { text: String::new(), ranges: Vec::new(), tolerant };
    let mut copied = 0;
    for (range, at) in found {
        let new = ending.apply(&edits[at].new);
        spliced.text.push_str(&original[copied..range.start]);
        spliced.text.push_str(&new);
        copied = range.end;
        spliced.ranges.push((range, new.len()));
    }
    spliced.text.push_str(&original[copied..]);
    if spliced.text == original { Err(SpliceError::NoChange) } else { Ok(spliced) }
}

/// How a text ends its lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Line feed.
    Lf,
    /// Carriage return and line feed.
    CrLf,
}

impl Ending {
    /// The ending of most lines.
    #[must_use]
    pub fn of(text: &str) -> Ending {
        let all = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        let with = memchr::memmem::find_iter(text.as_bytes(), b"\r\n").count();
        if with * 2 > all { Ending::CrLf } else { Ending::Lf }
    }

    /// The ending as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Ending::Lf => "\n",
            Ending::CrLf => "\r\n",
        }
    }

    /// The text with this ending on every line.
    #[must_use]
    pub fn apply(self, text: &str) -> String {
        let lf = text.replace("\r\n", "\n");
        match self {
            Ending::Lf => lf,
            Ending::CrLf => lf.replace('\n', "\r\n"),
        }
    }
}

/// The text in the forms in which it is searched, each made when first wanted.
struct Finder<'t> {
    original: &'t str,
    /// Where the search begins: after a byte order mark.
    start: usize,
    lf: Lf,
    folded: Option<Folded>,
}

/// A text with line feeds only, and where in it a carriage return was taken out.
struct Lf {
    text: String,
    removed: Vec<usize>,
}

impl Lf {
    fn of(text: &str) -> Lf {
        let mut lf = Lf { text: String::with_capacity(text.len()), removed: Vec::new() };
        let mut copied = 0;
        for at in memchr::memmem::find_iter(text.as_bytes(), b"\r\n") {
            lf.text.push_str(&text[copied..at]);
            lf.removed.push(lf.text.len());
            copied = at + 1;
        }
        lf.text.push_str(&text[copied..]);
        lf
    }

    /// The offset in the original; a line feed's own offset is that of its carriage return.
    fn origin(&self, at: usize) -> usize {
        at + self.removed.partition_point(|removed| *removed < at)
    }
}

impl<'t> Finder<'t> {
    fn new(original: &'t str) -> Finder<'t> {
        let start = if original.starts_with('\u{feff}') { 3 } else { 0 };
        Finder { original, start, lf: Lf::of(&original[start..]), folded: None }
    }

    fn exact(&self, old: &str) -> Vec<Range<usize>> {
        let old = Lf::of(old).text;
        let origin = |at: usize| self.start + self.lf.origin(at);
        matches(&self.lf.text, &old, |range| Some(origin(range.start)..origin(range.end)))
    }

    fn tolerant(&mut self, old: &str) -> Vec<Range<usize>> {
        let (text, start) = (&self.original[self.start..], self.start);
        let folded = self.folded.get_or_insert_with(|| Folded::of(text));
        let old = Folded::of(old).text;
        let shifted = |range: Range<usize>| {
            folded.origin(&range).map(|origin| start + origin.start..start + origin.end)
        };
        let found =
            if old.trim().is_empty() { Vec::new() } else { matches(&folded.text, &old, shifted) };
        // Blanks at the very end of the quote may be missing in the file, where the line ends.
        let short = old.trim_end_matches([' ', '\t']);
        if !found.is_empty() || short.len() == old.len() || short.trim().is_empty() {
            return found;
        }
        matches(&folded.text, short, |range| {
            let after = folded.text.as_bytes().get(range.end);
            after.is_none_or(|byte| *byte == b'\n').then(|| shifted(range)).flatten()
        })
    }
}

/// All matches, overlapping ones too (they are as ambiguous as others), for which `map` has a
/// place.
fn matches(
    text: &str,
    old: &str,
    map: impl Fn(Range<usize>) -> Option<Range<usize>>,
) -> Vec<Range<usize>> {
    let finder = memchr::memmem::Finder::new(old.as_bytes());
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(at) = finder.find(&text.as_bytes()[from..]) {
        let start = from + at;
        found.extend(map(start..start + old.len()));
        if found.len() >= MATCHES_MAX {
            break;
        }
        from = start + text[start..].chars().next().map_or(1, char::len_utf8);
    }
    found
}

/// A text in the form of the tolerant search, and where each piece of it came from.
struct Folded {
    text: String,
    /// Start in `text`, start and end in the original, ascending.
    pieces: Vec<(u32, u32, u32)>,
}

impl Folded {
    fn of(text: &str) -> Folded {
        let mut folded = Folded { text: String::with_capacity(text.len()), pieces: Vec::new() };
        for (start, piece) in pieces(text) {
            if piece == "\r\n" || piece == "\n" {
                folded.trim_blanks();
            }
            let at = folded.text.len();
            fold_into(piece, &mut folded.text);
            // Texts of 4 GiB do not reach this point: files are read up to a much lower limit.
            let end = u32::try_from(start + piece.len()).unwrap_or(u32::MAX);
            folded.pieces.push((at as u32, start as u32, end));
        }
        folded
    }

    fn trim_blanks(&mut self) {
        let kept = self.text.trim_end_matches([' ', '\t']).len();
        self.text.truncate(kept);
        while self.pieces.last().is_some_and(|piece| piece.0 as usize >= kept) {
            self.pieces.pop();
        }
    }

    /// The range in the original; none where it would begin or end inside a piece.
    fn origin(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let first = self.pieces.binary_search_by_key(&(range.start as u32), |p| p.0).ok()?;
        let end = if range.end == self.text.len() {
            self.pieces.len()
        } else {
            self.pieces.binary_search_by_key(&(range.end as u32), |p| p.0).ok()?
        };
        let last = self.pieces.get(end.checked_sub(1)?)?;
        Some(self.pieces[first].1 as usize..last.2 as usize)
    }
}

/// The text in the pieces that normalisation treats alone: a character with all that may combine
/// with it. CR LF is one piece.
fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &text[at..];
        let mut chars = rest.char_indices();
        let (_, first) = chars.next()?;
        let len = match chars.next() {
            Some((end, '\n')) if first == '\r' => end + 1,
            Some((end, next)) if next.is_ascii() => end,
            Some((end, next)) if !joins(next) => end,
            Some(_) => {
                let mut after = rest.char_indices().skip(2);
                after.find(|(_, c)| !joins(*c)).map_or(rest.len(), |(end, _)| end)
            }
            None => rest.len(),
        };
        let piece = (at, &rest[..len]);
        at += len;
        Some(piece)
    })
}

/// Whether a character may combine with the one before it under NFKC.
fn joins(c: char) -> bool {
    if c.is_ascii() {
        return false;
    }
    let first = std::iter::once(c).nfkd().next().unwrap_or(c);
    canonical_combining_class(first) != 0
        || is_nfkc_quick(std::iter::once(first)) == IsNormalized::Maybe
}

fn fold_into(piece: &str, out: &mut String) {
    if piece == "\r\n" {
        out.push('\n');
    } else if piece.is_ascii() {
        out.push_str(piece);
    } else {
        out.extend(piece.nfkc().map(plain));
    }
}

/// Typographic signs as a keyboard has them.
#[must_use]
pub fn plain(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' | '\u{2032}' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
            ' '
        }
        _ => c,
    }
}

/// The whole text in the form of the tolerant search, for names and lines.
#[must_use]
pub fn fold(text: &str) -> String {
    text.nfkc().map(plain).collect()
}

/// The lines that are most like the first line of a quote, with their numbers from 1.
fn nearest(original: &str, old: &str) -> Vec<(usize, String)> {
    let wanted = old.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    if wanted.is_empty() || wanted.chars().count() > NEAR_CHARS_MAX {
        return Vec::new();
    }
    let lines: Vec<&str> = original.lines().map(str::trim).take(NEAR_LINES_MAX).collect();
    let mut candidates: Vec<&str> = lines.clone();
    candidates.retain(|line| !line.is_empty() && line.len() <= NEAR_CHARS_MAX);
    candidates.sort_unstable();
    candidates.dedup();
    let close = super::diff::close(wanted, &candidates, NEAR_MAX, NEAR_LIKENESS);
    let numbered = close.into_iter().map(|text| {
        let index = lines.iter().position(|line| *line == text).unwrap_or(0);
        (index + 1, text.to_owned())
    });
    numbered.collect()
}

#[cfg(test)]
mod tests;
