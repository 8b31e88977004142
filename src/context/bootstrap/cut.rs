//! Shortening one file so that it never exceeds its limit, in UTF-16 units (PR5 to PR7).

use super::super::units::{head, tail, units};

/// Fewest units of a file that are worth a marker of two lines.
const CONTENT_UNITS_MIN: usize = 16;
/// Longest line that is taken into a digest of rules, units.
const RULE_UNITS_MAX: usize = 240;

/// A file's text as the prompt has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cut {
    pub text: String,
    /// Units of the file that are shown.
    pub kept: usize,
}

/// A text within its limit. With `rules`, lines that read like rules are kept from the part that
/// is left out.
pub(super) fn cut(name: &str, text: &str, limit: usize, rules: bool) -> Cut {
    let total = units(text);
    if total <= limit {
        return Cut { text: text.to_owned(), kept: total };
    }
    let with_rules = if rules { with_rules(name, text, total, limit) } else { None };
    with_rules
        .or_else(|| in_two(text, limit, total, |h, t| marker(name, h, t, total)))
        .unwrap_or_else(|| short(text, total, limit))
}

fn marker(name: &str, head: usize, tail: usize, total: usize) -> String {
    format!(
        "\n\n[...truncated, read {name} for full content...]\n\
         …(truncated {name}: kept {head}+{tail} chars of {total})…\n\n"
    )
}

/// Three quarters from the beginning, the rest from the end, the marker between them; nothing if
/// too little of the file would be left.
fn in_two(
    text: &str,
    limit: usize,
    total: usize,
    marker: impl Fn(usize, usize) -> String,
) -> Option<Cut> {
    // No count is longer than the whole's, so the real marker is no longer than this one.
    let room = limit.checked_sub(units(&marker(total, total)))?;
    if room < CONTENT_UNITS_MIN {
        return None;
    }
    let head = head(text, room * 3 / 4);
    let tail = tail(text, room - room * 3 / 4);
    let (kept_head, kept_tail) = (units(head), units(tail));
    let text = format!("{head}{}{tail}", marker(kept_head, kept_tail));
    Some(Cut { text, kept: kept_head + kept_tail })
}

/// What a limit allows that is too small for anything better.
fn short(text: &str, total: usize, limit: usize) -> Cut {
    let marker = |h: usize, t: usize| format!("[…truncated {h}+{t}/{total}]");
    let Some(room) = limit.checked_sub(units(&marker(total, total))) else {
        return Cut { text: head(&marker(0, 0), limit).to_owned(), kept: 0 };
    };
    let head = head(text, room * 3 / 4);
    let tail = tail(text, room - room * 3 / 4);
    let (h, t) = (units(head), units(tail));
    Cut { text: format!("{head}{}{tail}", marker(h, t)), kept: h + t }
}

/// 45 % from the beginning, 35 % for rules from the middle, 15 % from the end; nothing if there is
/// no rule in the middle or no room.
fn with_rules(name: &str, text: &str, total: usize, limit: usize) -> Option<Cut> {
    let frame = |h: usize, d: usize, t: usize, digest: &str| {
        format!(
            "\n\n[...truncated, read {name} for full content...]\n\
             Rules from the part that is left out:\n{digest}\n\
             …(truncated {name}: kept {h}+{d}+{t} chars of {total})…\n\n"
        )
    };
    let room = limit.checked_sub(units(&frame(total, total, total, "")))?;
    if room < CONTENT_UNITS_MIN {
        return None;
    }
    let head = head(text, room * 45 / 100);
    let tail = tail(text, room * 15 / 100);
    let middle = &text[head.len()..text.len() - tail.len()];
    let digest = digest(middle, room * 35 / 100)?;
    let (h, d, t) = (units(head), units(&digest), units(tail));
    let text = format!("{head}{}{tail}", frame(h, d, t, &digest));
    Some(Cut { text, kept: h + d + t })
}

/// Lines that read like rules, the strict ones first, as many as fit; nothing if none does.
fn digest(middle: &str, most: usize) -> Option<String> {
    let mut strict = Vec::new();
    let mut other = Vec::new();
    for line in middle.lines().map(str::trim) {
        let length = units(line);
        if length > RULE_UNITS_MAX {
            continue;
        }
        match weight(line) {
            Weight::Strict => strict.push((line, length)),
            Weight::Listed => other.push((line, length)),
            Weight::None => {}
        }
    }
    let mut digest = String::new();
    let mut left = most;
    for (line, length) in strict.into_iter().chain(other) {
        let needed = length + usize::from(!digest.is_empty());
        if let Some(rest) = left.checked_sub(needed) {
            if !digest.is_empty() {
                digest.push('\n');
            }
            digest.push_str(line);
            left = rest;
        }
    }
    (!digest.is_empty()).then_some(digest)
}

enum Weight {
    /// It forbids or demands.
    Strict,
    /// It stands in a list, or advises.
    Listed,
    None,
}

const STRICT: [&str; 12] = [
    "never",
    "always",
    "must",
    "do not",
    "don't",
    "required",
    "forbidden",
    "important",
    "critical",
    "not allowed",
    "under no",
    "without asking",
];
const ADVICE: [&str; 6] = ["should", "avoid", "prefer", "only", "ensure", "before you"];

fn weight(line: &str) -> Weight {
    let lower = line.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| has_word(&lower, word));
    // A heading says what rules are about, and is none.
    if line.is_empty() || line.starts_with('#') {
        Weight::None
    } else if has(&STRICT) {
        Weight::Strict
    } else if is_item(line) || has(&ADVICE) {
        Weight::Listed
    } else {
        Weight::None
    }
}

/// Whether a word stands in a text, and not inside of another word.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let edge = |c: Option<char>| !c.is_some_and(char::is_alphanumeric);
        edge(text[..at].chars().next_back()) && edge(text[at + word.len()..].chars().next())
    })
}

fn is_item(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = rest.len() < line.len() && (rest.starts_with(". ") || rest.starts_with(") "));
    numbered || ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PR6: the shapes, by what the limit allows.
    #[test]
    fn a_limit_decides_the_shape() {
        let text = "x".repeat(500);
        let cut = |limit| cut("SOUL.md", &text, limit, false);
        assert_eq!(cut(500), Cut { text: text.clone(), kept: 500 });
        let two = cut(300);
        let marker = "\n\n[...truncated, read SOUL.md for full content...]\n\
                      …(truncated SOUL.md: kept 149+50 chars of 500)…\n\n";
        assert_eq!(two.text, format!("{}{marker}{}", "x".repeat(149), "x".repeat(50)));
        assert_eq!(two.kept, 199);
        assert_eq!(cut(40).text, format!("{}[…truncated 12+4/500]{}", "x".repeat(12), "xxxx"));
        assert_eq!(cut(10), Cut { text: "[…truncate".into(), kept: 0 });
        assert_eq!(cut(0).text, "");
    }

    /// PR7: rules survive from the middle, the strict ones first; headings and long lines do not.
    #[test]
    fn rules_survive_from_the_middle() {
        let filler = "Prose that says nothing of note.\n".repeat(60);
        let rules = format!(
            "# Never a heading\n- a listed thing\nYou must ask first.\n- {} never\nneverland\n",
            "long ".repeat(60)
        );
        let text = format!("{filler}{rules}{filler}");
        let got = cut("AGENTS.md", &text, 1_200, true);
        let digest =
            "Rules from the part that is left out:\nYou must ask first.\n- a listed thing\n";
        assert!(got.text.contains(digest), "{}", got.text);
        assert!(!got.text.contains("neverland") && units(&got.text) <= 1_200);
        let plain = cut("AGENTS.md", &filler.repeat(2), 1_200, true);
        assert!(!plain.text.contains("Rules from"), "no rule, no digest");
    }
}
