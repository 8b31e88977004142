//! Makes bytes from a process or a file safe for a model: valid UTF-8, no control characters but
//! tab, line feed and carriage return, and a head and a tail where there is too much (tools#7).

/// Longest escape sequence that is recognised, in characters; a longer one is not well-formed.
const SEQUENCE_CHARS_MAX: usize = 2_048;
/// Room kept for the line that says what was omitted.
const MARK_CHARS_MAX: usize = 128;

/// Bytes turned into text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Clean {
    /// The text.
    pub text: String,
    /// How many byte sequences and control characters became U+FFFD.
    pub replaced: u64,
}

/// Cleans the output of a process: escape sequences vanish, other controls are replaced.
#[must_use]
pub fn clean(bytes: &[u8]) -> Clean {
    all(Cleaner::new(Sequences::Remove), bytes)
}

/// Cleans the text of a file: as [`clean`], but escape sequences stay visible, since a reader who
/// edits the file has to know that something is there.
#[must_use]
pub fn clean_file(bytes: &[u8]) -> Clean {
    all(Cleaner::new(Sequences::Replace), bytes)
}

fn all(mut cleaner: Cleaner, bytes: &[u8]) -> Clean {
    let mut text = String::with_capacity(bytes.len());
    cleaner.push(bytes, &mut |c| text.push(c));
    cleaner.finish(&mut |c| text.push(c));
    Clean { text, replaced: cleaner.replaced }
}

/// The note for a text in which something was replaced.
#[must_use]
pub fn note(replaced: u64) -> Option<String> {
    (replaced > 0).then(|| {
        format!("[{replaced} invalid or control bytes were replaced by the sign \u{fffd}]")
    })
}

/// The longest prefix of at most `count` characters.
#[must_use]
pub fn head(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(at, _)| &text[..at])
}

/// The longest suffix of at most `count` characters.
#[must_use]
pub fn tail(text: &str, count: usize) -> &str {
    if count == 0 {
        return "";
    }
    text.char_indices().rev().nth(count - 1).map_or(text, |(at, _)| &text[at..])
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sequences {
    Remove,
    Replace,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Text,
    /// After ESC.
    Escape,
    /// Inside `ESC [`; set once an intermediate byte was seen, after which no parameter may come.
    Csi(bool),
    /// Inside `ESC ]`.
    Osc,
    /// Inside `ESC ]`, after an ESC that may begin its terminator.
    OscEscape,
}

/// The cleaner as a machine that is fed piece by piece. How the bytes are cut into pieces never
/// changes what comes out.
#[derive(Debug)]
struct Cleaner {
    sequences: Sequences,
    state: State,
    /// What an unfinished sequence has held so far, without its ESC.
    held: String,
    held_chars: usize,
    /// An unfinished character at the end of the last piece.
    carry: Vec<u8>,
    replaced: u64,
}

impl Cleaner {
    fn new(sequences: Sequences) -> Cleaner {
        Cleaner {
            sequences,
            state: State::Text,
            held: String::new(),
            held_chars: 0,
            carry: Vec::new(),
            replaced: 0,
        }
    }

    fn push(&mut self, bytes: &[u8], out: &mut dyn FnMut(char)) {
        if self.carry.is_empty() {
            self.decode(bytes, out);
        } else {
            let mut joined = std::mem::take(&mut self.carry);
            joined.extend_from_slice(bytes);
            self.decode(&joined, out);
        }
    }

    /// Everything decodable; an unfinished character at the end waits for the next piece.
    fn decode(&mut self, mut bytes: &[u8], out: &mut dyn FnMut(char)) {
        loop {
            let error = match std::str::from_utf8(bytes) {
                Ok(text) => return text.chars().for_each(|c| self.put(c, out)),
                Err(error) => error,
            };
            let (good, rest) = bytes.split_at(error.valid_up_to());
            for c in std::str::from_utf8(good).unwrap_or_default().chars() {
                self.put(c, out);
            }
            let Some(bad) = error.error_len() else {
                self.carry = rest.to_vec();
                return;
            };
            self.invalid(out);
            bytes = &rest[bad..];
        }
    }

    fn invalid(&mut self, out: &mut dyn FnMut(char)) {
        while self.state != State::Text {
            self.give_up(out);
        }
        self.replace(out);
    }

    fn replace(&mut self, out: &mut dyn FnMut(char)) {
        self.replaced += 1;
        out(char::REPLACEMENT_CHARACTER);
    }

    /// The bytes that waited turn out not to be a well-formed sequence: its ESC is replaced, the
    /// rest is text.
    fn give_up(&mut self, out: &mut dyn FnMut(char)) {
        let state = std::mem::replace(&mut self.state, State::Text);
        if state == State::Text {
            return;
        }
        self.replace(out);
        for c in std::mem::take(&mut self.held).chars() {
            out(c);
        }
        self.held_chars = 0;
        if state == State::OscEscape {
            self.state = State::Escape;
        }
    }

    fn end_sequence(&mut self) {
        self.state = State::Text;
        self.held.clear();
        self.held_chars = 0;
    }

    fn hold(&mut self, c: char, next: State) {
        self.held.push(c);
        self.held_chars += 1;
        self.state = next;
    }

    fn put(&mut self, c: char, out: &mut dyn FnMut(char)) {
        // A sequence that is given up may leave an ESC that begins another: hence the loop.
        loop {
            let fits = self.held_chars < SEQUENCE_CHARS_MAX;
            match (self.state, c) {
                (State::Text, '\x1b') if self.sequences == Sequences::Remove => {
                    self.state = State::Escape;
                }
                (State::Text, '\t' | '\n' | '\r') => out(c),
                (State::Text, _) if c.is_control() => self.replace(out),
                (State::Text, _) => out(c),
                (State::Escape, '[') => self.hold(c, State::Csi(false)),
                (State::Escape, ']') => self.hold(c, State::Osc),
                (State::Csi(false), '\x30'..='\x3f') if fits => self.hold(c, State::Csi(false)),
                (State::Csi(_), '\x20'..='\x2f') if fits => self.hold(c, State::Csi(true)),
                (State::Csi(_), '\x40'..='\x7e') => self.end_sequence(),
                (State::Osc, '\x07') | (State::OscEscape, '\\') => self.end_sequence(),
                (State::Osc, '\x1b') => self.state = State::OscEscape,
                (State::Osc, _) if fits && !c.is_control() => self.hold(c, State::Osc),
                (State::Escape | State::Csi(_) | State::Osc | State::OscEscape, _) => {
                    self.give_up(out);
                    continue;
                }
            }
            return;
        }
    }

    fn finish(&mut self, out: &mut dyn FnMut(char)) {
        if !std::mem::take(&mut self.carry).is_empty() {
            self.invalid(out);
        }
        while self.state != State::Text {
            self.give_up(out);
        }
    }
}

/// Cleaned output of a process, of which a head and a tail are kept. Its memory is bounded by the
/// budget, whatever the process writes.
#[derive(Debug)]
pub struct Capture {
    cleaner: Cleaner,
    kept: Kept,
}

#[derive(Debug)]
struct Kept {
    budget: usize,
    head: String,
    head_chars: usize,
    tail: std::collections::VecDeque<char>,
    observed: u64,
}

impl Kept {
    fn put(&mut self, c: char) {
        self.observed += 1;
        let head_max = self.budget / 2;
        if self.head_chars < head_max {
            self.head.push(c);
            self.head_chars += 1;
            return;
        }
        if self.tail.len() >= self.budget - head_max {
            self.tail.pop_front();
        }
        if self.budget > head_max {
            self.tail.push_back(c);
        }
    }
}

/// What a [`Capture`] kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Captured {
    /// The text, with a line at the place of what was omitted.
    pub text: String,
    /// Characters seen, after cleaning.
    pub observed: u64,
    /// Characters of them in `text`.
    pub kept: u64,
    /// Characters of them left out: always `observed - kept`.
    pub omitted: u64,
    /// How many byte sequences and control characters became U+FFFD.
    pub replaced: u64,
}

impl Capture {
    /// A capture that keeps at most `budget` characters, the omission line included.
    #[must_use]
    pub fn new(budget: usize) -> Capture {
        let kept = Kept {
            budget,
            head: String::new(),
            head_chars: 0,
            tail: std::collections::VecDeque::new(),
            observed: 0,
        };
        Capture { cleaner: Cleaner::new(Sequences::Remove), kept }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let kept = &mut self.kept;
        self.cleaner.push(bytes, &mut |c| kept.put(c));
    }

    /// The last `count` characters seen so far.
    #[must_use]
    pub fn tail(&self, count: usize) -> String {
        let from_tail = self.kept.tail.len().min(count);
        let mut text = tail(&self.kept.head, count - from_tail).to_owned();
        text.extend(self.kept.tail.range(self.kept.tail.len() - from_tail..));
        text
    }

    /// Ends the capture.
    #[must_use]
    pub fn finish(mut self) -> Captured {
        let kept = &mut self.kept;
        self.cleaner.finish(&mut |c| kept.put(c));
        let Kept { budget, head, head_chars, tail, observed } = self.kept;
        let held = head_chars + tail.len();
        let replaced = self.cleaner.replaced;
        if observed == held as u64 {
            let text = head.chars().chain(tail).collect();
            return Captured { text, observed, kept: observed, omitted: 0, replaced };
        }
        let tail_max = budget.saturating_sub(head_chars + MARK_CHARS_MAX);
        let drop = tail.len().saturating_sub(tail_max);
        let kept = (held - drop) as u64;
        let omitted = observed - kept;
        let mark = format!("\n[{omitted} of {observed} characters omitted, {kept} kept]\n");
        let text = head.chars().chain(mark.chars()).chain(tail.into_iter().skip(drop)).collect();
        Captured { text, observed, kept, omitted, replaced }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Rng;

    /// tools#7. B171: a binary dump must not reach a provider as control characters.
    #[test]
    fn b171_controls_and_sequences() {
        let seen = clean(b"a\0b\x1b[31mred\x1b[0m\x1b]0;title\x07\xff\n");
        assert_eq!(seen.text, "a\u{fffd}bred\u{fffd}\n");
        assert_eq!(seen.replaced, 2);
        assert!(note(seen.replaced).unwrap().contains("2 invalid"));
        assert_eq!(note(0), None);
    }

    #[test]
    fn b171_sequences_that_are_not_well_formed_stay_visible() {
        let cases = [
            (&b"\x1b[31"[..], "\u{fffd}[31"),
            (b"\x1b[3\n1m", "\u{fffd}[3\n1m"),
            (b"\x1b(B", "\u{fffd}(B"),
            (b"\x1b\x1b[0mx", "\u{fffd}x"),
            (b"\x1b]0;t\x1b\\x", "x"),
            (b"\x1b]0;t\x1b[0mx", "\u{fffd}]0;tx"),
            (b"\x1b]0;t\x1b", "\u{fffd}]0;t\u{fffd}"),
            (b"\xc2\x9b31m", "\u{fffd}31m"),
            (b"\x1b[1\xffm", "\u{fffd}[1\u{fffd}m"),
            (b"\x1b[ 1m", "\u{fffd}[ 1m"),
            (b"\x7f\x08\t\r\n", "\u{fffd}\u{fffd}\t\r\n"),
        ];
        for (bytes, want) in cases {
            assert_eq!(clean(bytes).text, want, "{bytes:?}");
        }
        assert_eq!(clean_file(b"\x1b[31m").text, "\u{fffd}[31m");
    }

    /// B172: a lone lead byte, at the end and before the cap.
    #[test]
    fn b172_lone_lead_bytes_are_replaced() {
        assert_eq!(clean(b"\xc2").text, "\u{fffd}");
        assert_eq!(clean(b"x\xe6\xbc").text, "x\u{fffd}");
        assert_eq!(clean(b"\xe6\xbcx").text, "\u{fffd}x");
        let mut capture = Capture::new(600);
        capture.push(&[b'a'; 599]);
        capture.push(b"\xc2");
        capture.push(b"\xc2");
        let seen = capture.finish();
        assert_eq!((seen.observed, seen.replaced), (601, 2));
        assert!(seen.text.ends_with("a\u{fffd}\u{fffd}"), "{}", seen.text);
    }

    /// B170, B172: where the pieces are cut changes nothing, and invalid bytes follow the rule of
    /// the standard library (one sign for each maximal invalid part).
    #[test]
    fn b170_pieces_change_nothing() {
        let alphabet: [&[u8]; 12] = [
            "漢".as_bytes(),
            "é".as_bytes(),
            "😀".as_bytes(),
            b"\xff",
            b"\xe6",
            b"\xbc",
            b"a",
            b"\x1b[",
            b"1m",
            b"\x1b]",
            b"\x07",
            b"\n",
        ];
        let mut rng = Rng(1);
        for _ in 0..500 {
            let mut bytes = Vec::new();
            for _ in 0..rng.below(40) {
                bytes.extend_from_slice(alphabet[rng.below(12) as usize]);
            }
            let whole = clean(&bytes);
            let mut capture = Capture::new(4_000);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(1 + rng.below(rest.len() as u64) as usize);
                capture.push(piece);
                rest = after;
            }
            let pieces = capture.finish();
            assert_eq!((&pieces.text, pieces.replaced), (&whole.text, whole.replaced));
            assert_eq!(clean(whole.text.as_bytes()).text, whole.text, "stable");
            assert!(!whole.text.contains('\x1b'));
            let plain: Vec<u8> = bytes.iter().copied().filter(|b| *b >= 0x20).collect();
            assert_eq!(clean(&plain).text, String::from_utf8_lossy(&plain));
        }
    }

    /// B170: the counts add up and the budget holds for every size.
    #[test]
    fn b170_head_and_tail_add_up() {
        for budget in [0usize, 1, 2, 127, 128, 300, 1_000] {
            for count in [0usize, 1, 2, 128, 299, 300, 301, 1_000, 5_000] {
                let mut capture = Capture::new(budget);
                for i in 0..count {
                    capture.push(if i % 2 == 0 { "漢".as_bytes() } else { b"x" });
                }
                let seen = capture.finish();
                assert_eq!(seen.observed, count as u64);
                assert_eq!(seen.kept + seen.omitted, seen.observed);
                assert!(seen.kept <= budget as u64);
                if budget >= 300 {
                    assert!(seen.text.chars().count() <= budget);
                }
                if seen.omitted > 0 {
                    let mark = format!("[{} of {} characters", seen.omitted, seen.observed);
                    assert!(seen.text.contains(&mark));
                }
            }
        }
    }

    #[test]
    fn b170_order_of_head_and_tail_is_kept() {
        let mut capture = Capture::new(400);
        let text: String = (0..1_000).map(|i| format!("{i},")).collect();
        capture.push(text.as_bytes());
        assert_eq!(capture.tail(8), "998,999,");
        let seen = capture.finish();
        assert!(seen.text.starts_with("0,1,2,"));
        assert!(seen.text.ends_with("998,999,"));
    }

    /// B200: cuts are on characters for every length.
    #[test]
    fn b200_head_and_tail_cut_on_characters() {
        let text = "a漢😀é\u{301}z";
        for n in 0..=text.len() {
            assert_eq!(head(text, n).chars().count(), n.min(6));
            assert_eq!(tail(text, n).chars().count(), n.min(6));
            assert!(text.starts_with(head(text, n)) && text.ends_with(tail(text, n)));
        }
    }
}
