//! Words by which a model says nothing (A1 to A4).

use crate::base::limits::{HEARTBEAT_REST_CHARS_MAX, HELD_BACK_BYTES_MAX};

/// The whole answer is this: nothing is delivered.
pub const SILENT: &str = "NO_REPLY";
/// A heartbeat had nothing to do.
pub const HEARTBEAT: &str = "HEARTBEAT_OK";

/// Signs other than ASCII's that may stand around a token.
const MARKS: &str = "…“”‘’«»‹›。、，．！？；：「」『』（）–—";
/// Signs that end a sentence: a token right behind one is glued to it.
const ENDS: &str = ".!?…)]\"”’。！？";

/// Only blanks and punctuation: a letter of any script and a picture are something said.
fn is_edge(c: char) -> bool {
    c.is_whitespace() || c.is_ascii_punctuation() || MARKS.contains(c)
}

fn is_sign(c: char) -> bool {
    is_edge(c) && !c.is_whitespace()
}

/// What follows a token at the beginning of a text, in any case.
fn after<'a>(text: &'a str, token: &str) -> Option<&'a str> {
    let head = text.get(..token.len())?;
    head.eq_ignore_ascii_case(token).then(|| &text[token.len()..])
}

/// What precedes a token at the end of a text, in any case.
fn before<'a>(text: &'a str, token: &str) -> Option<&'a str> {
    let from = text.len().checked_sub(token.len())?;
    let tail = text.get(from..)?;
    tail.eq_ignore_ascii_case(token).then(|| &text[..from])
}

/// `{"action":"NO_REPLY"}` without blanks, in lower case.
fn envelope(token: &str) -> String {
    format!("{{\"action\":\"{}\"}}", token.to_ascii_lowercase())
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase()
}

/// Whether a text is the token and nothing else (A1).
#[must_use]
pub fn is_token(text: &str, token: &str) -> bool {
    let mut rest = text;
    let mut found = false;
    loop {
        rest = rest.trim_start_matches(is_edge);
        match after(rest, token) {
            Some(next) => (rest, found) = (next, true),
            None if rest.is_empty() => return found,
            None => break,
        }
    }
    text.len() <= HELD_BACK_BYTES_MAX && squeezed(text) == envelope(token)
}

/// The text without a token of silence that is glued to its beginning, or fills its first lines;
/// prose that begins with the word stays as it is (A2).
fn strip_head(text: &str) -> &str {
    let mut kept = text.trim_start();
    let mut cut = false;
    while let Some((line, rest)) = kept.split_once('\n')
        && is_token(line, SILENT)
    {
        (kept, cut) = (rest.trim_start(), true);
    }
    let mut rest = kept;
    while let Some(next) = rest.strip_prefix(SILENT) {
        if next.starts_with(char::is_alphanumeric) && !next.starts_with(SILENT) {
            return next;
        }
        rest = next.trim_start();
    }
    if cut { kept } else { text }
}

/// The same for the end of the text.
fn strip_tail(text: &str) -> &str {
    let mut kept = text.trim_end();
    while let Some((rest, line)) = kept.rsplit_once('\n')
        && is_token(line, SILENT)
    {
        kept = rest.trim_end();
    }
    while let Some(rest) = kept.strip_suffix(SILENT)
        && rest.ends_with(|c: char| c.is_alphanumeric() || ENDS.contains(c))
    {
        kept = rest.trim_end();
    }
    kept
}

/// The text without acknowledgements of a heartbeat at its ends, and whether there was one (A3).
fn strip_heartbeat(text: &str) -> (&str, bool) {
    let mut kept = text.trim();
    let mut found = false;
    loop {
        if let Some(rest) = after(kept.trim_start_matches(is_edge), HEARTBEAT) {
            kept = rest.trim_start_matches(is_sign).trim_start();
        } else if let Some(rest) = before(kept.trim_end_matches(is_edge), HEARTBEAT) {
            kept = rest.trim_end_matches(['*', '_', '`', '"', '\'']).trim_end();
        } else {
            return (kept, found);
        }
        found = true;
    }
}

/// What a text says once the tokens are understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said<'a> {
    /// Deliberately nothing.
    Silence,
    /// This; it may be empty.
    Text(&'a str),
}

/// Understands the tokens of a final text. In a heartbeat's run an acknowledgement with a few
/// words is still one (A3).
#[must_use]
pub fn said(text: &str, heartbeat: bool) -> Said<'_> {
    if is_token(text, SILENT) || is_token(text, HEARTBEAT) {
        return Said::Silence;
    }
    let whole = text.trim();
    let kept = strip_tail(strip_head(whole));
    let (kept, acknowledged) = strip_heartbeat(kept);
    let empty = kept.chars().all(is_edge) && kept != whole;
    let few = || kept.chars().take(HEARTBEAT_REST_CHARS_MAX + 1).count();
    if empty || (acknowledged && heartbeat && few() <= HEARTBEAT_REST_CHARS_MAX) {
        return Said::Silence;
    }
    Said::Text(kept)
}

/// Whether a beginning text may still turn out to be nothing but a token.
fn may_be_silence(text: &str, token: &str) -> bool {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(is_edge);
        match after(rest, token) {
            Some(next) => rest = next,
            None => break,
        }
    }
    let prefix = token.get(..rest.len()).is_some_and(|head| head.eq_ignore_ascii_case(rest));
    prefix || envelope(token).starts_with(&squeezed(text))
}

/// What is shown of a beginning text: all of it, but no tokens at its head.
fn shown(held: &str) -> &str {
    let kept = strip_head(held);
    match after(kept.trim_start_matches(is_edge), HEARTBEAT) {
        Some(rest) => rest.trim_start_matches(is_sign).trim_start(),
        None => kept,
    }
}

/// Holds back the beginning of a streamed text as long as it may be a token (A4).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct HeldBack {
    held: String,
    open: bool,
}

impl HeldBack {
    /// Takes a piece; gives what may be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        if self.open {
            return piece.to_owned();
        }
        self.held.push_str(piece);
        let silence = [SILENT, HEARTBEAT].iter().any(|token| may_be_silence(&self.held, token));
        if silence && self.held.len() <= HELD_BACK_BYTES_MAX {
            return String::new();
        }
        self.open = true;
        shown(&std::mem::take(&mut self.held)).to_owned()
    }

    /// The text has ended: gives what was held back and is text after all.
    pub fn finish(&mut self) -> String {
        self.open = true;
        let held = std::mem::take(&mut self.held);
        match said(&held, false) {
            Said::Silence => String::new(),
            Said::Text(_) => shown(&held).to_owned(),
        }
    }

    /// Whether something is held back.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streamed(pieces: &[&str]) -> String {
        let mut held = HeldBack::default();
        let mut shown: String = pieces.iter().map(|piece| held.push(piece)).collect();
        shown.push_str(&held.finish());
        assert!(!held.holds());
        shown
    }

    /// A1: the token in all the shapes in which models write it.
    #[test]
    fn the_token_is_known() {
        for text in [
            "NO_REPLY",
            "no_reply",
            "  No_Reply.\n",
            "**NO_REPLY**",
            "`NO_REPLY`",
            "\"NO_REPLY\"",
            "NO_REPLY NO_REPLY\nNO_REPLY",
            "NO_REPLYNO_REPLY",
            "“NO_REPLY”…",
            "{\"action\":\"NO_REPLY\"}",
            "{ \"action\" : \"no_reply\" }\n",
            "```\nNO_REPLY\n```",
        ] {
            assert_eq!(said(text, false), Said::Silence, "{text}");
        }
    }

    /// A1, A2: what says more than the token is text; the word in prose stays.
    #[test]
    fn text_is_not_silence() {
        for text in [
            "",
            "NO",
            "NO_REPL",
            "NO_REPLY is the word for silence",
            "Answer with NO_REPLY",
            "Say `NO_REPLY`",
            "no_replying is no word",
            "沉默 NO_REPLY",
            "NO_REPLY 👍",
            "{\"action\":\"reply\"}",
            "{\"action\":\"NO_REPLY\",\"text\":\"x\"}",
            "...",
        ] {
            assert_eq!(said(text, false), Said::Text(text), "{text}");
        }
    }

    /// A2: glued to real text, or on lines of its own, the token goes and the text stays.
    #[test]
    fn a_glued_token_is_stripped() {
        for (text, want) in [
            ("NO_REPLYThe user is away", "The user is away"),
            ("NO_REPLY NO_REPLYThe user", "The user"),
            ("NO_REPLYNO_REPLY中文", "中文"),
            ("All done.NO_REPLY", "All done."),
            ("Done.\n\nNO_REPLY", "Done."),
            ("Done.\n**NO_REPLY**\nno_reply", "Done."),
            ("no_reply\n\nHello\nthere", "Hello\nthere"),
        ] {
            assert_eq!(said(text, false), Said::Text(want), "{text}");
        }
        assert_eq!(said("NO_REPLY\n---\nNO_REPLY", false), Said::Silence);
    }

    /// A3: a heartbeat's acknowledgement, at the ends only; in its run a few words do not matter.
    #[test]
    fn a_heartbeat_is_acknowledged() {
        for text in
            ["HEARTBEAT_OK", "heartbeat_ok.", "**HEARTBEAT_OK**", "{\"action\":\"HEARTBEAT_OK\"}"]
        {
            assert_eq!(said(text, true), Said::Silence, "{text}");
            assert_eq!(said(text, false), Said::Silence, "{text}");
        }
        let note = "HEARTBEAT_OK. Nothing to *do*.";
        assert_eq!(said(note, true), Said::Silence);
        assert_eq!(said(note, false), Said::Text("Nothing to *do*."));
        assert_eq!(said("**Disk** full\nHEARTBEAT_OK", false), Said::Text("**Disk** full"));
        let alert = format!("{} HEARTBEAT_OK", "é".repeat(HEARTBEAT_REST_CHARS_MAX + 1));
        assert!(matches!(said(&alert, true), Said::Text(text) if !text.contains("HEART")));
        let exact = format!("{} HEARTBEAT_OK", "é".repeat(HEARTBEAT_REST_CHARS_MAX));
        assert_eq!(said(&exact, true), Said::Silence);
        let middle = "It said HEARTBEAT_OK today";
        assert_eq!(said(middle, true), Said::Text(middle));
    }

    /// A4: a streamed token never shows, in whatever pieces it comes.
    #[test]
    fn a_streamed_token_never_shows() {
        for text in ["NO_REPLY", "**no_reply**", "HEARTBEAT_OK\n", "{\"action\": \"NO_REPLY\"}"] {
            for size in 1..=text.len() {
                let bytes: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
                let pieces: Vec<&str> =
                    bytes.iter().map(|b| std::str::from_utf8(b).unwrap()).collect();
                assert_eq!(streamed(&pieces), "", "{pieces:?}");
            }
        }
        assert_eq!(streamed(&["NO_RE", "PLYThe", " user"]), "The user");
        assert_eq!(streamed(&["NO_REPLY\n", "He", "llo"]), "Hello");
        assert_eq!(streamed(&["HEARTBEAT", "_OK. ", "But look"]), "But look");
        assert_eq!(streamed(&["NO_REPLY\n", "NO"]), "NO", "the end came before it was a token");
    }

    /// A4: text shows as soon as it is text, unchanged.
    #[test]
    fn text_shows_unchanged() {
        let mut held = HeldBack::default();
        assert_eq!(held.push("No"), "");
        assert!(held.holds());
        assert_eq!(held.push(", thanks. "), "No, thanks. ");
        assert_eq!(held.push("NO_"), "NO_", "later pieces pass");
        for text in
            ["No", "  Heart of stone", "**bold**", "NO_REPLY is a word", "", "¿Qué?", "{\"a\":1}"]
        {
            let pieces: Vec<String> = text.chars().map(String::from).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            assert_eq!(streamed(&pieces), text);
        }
    }

    /// A4: what is held back is bounded.
    #[test]
    fn what_is_held_back_is_bounded() {
        let mut held = HeldBack::default();
        let mut shown = 0;
        for _ in 0..10_000 {
            shown += held.push("-").len();
            assert!(held.held.len() <= HELD_BACK_BYTES_MAX);
        }
        assert_eq!(shown, 10_000);
    }
}
