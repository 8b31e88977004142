//! Lengths and parts of texts in UTF-16 units, in which OpenClaw counts characters.

/// Length of a text in UTF-16 units.
pub(super) fn units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char::len_utf16).sum() }
}

/// The longest beginning of at most `most` units; no character is split.
pub(super) fn head(text: &str, most: usize) -> &str {
    let mut left = most;
    let end = text.char_indices().find_map(|(at, c)| match left.checked_sub(c.len_utf16()) {
        Some(rest) => {
            left = rest;
            None
        }
        None => Some(at),
    });
    &text[..end.unwrap_or(text.len())]
}

/// The longest end of at most `most` units; no character is split.
pub(super) fn tail(text: &str, most: usize) -> &str {
    let mut left = most;
    let start =
        text.char_indices().rev().find_map(|(at, c)| match left.checked_sub(c.len_utf16()) {
            Some(rest) => {
                left = rest;
                None
            }
            None => Some(at + c.len_utf8()),
        });
    &text[start.unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PR5: a surrogate pair is never split, from either end.
    #[test]
    fn characters_stay_whole() {
        let text = "a😀b😀c";
        assert_eq!(units(text), 7);
        let heads: Vec<&str> = (0..=7).map(|n| head(text, n)).collect();
        assert_eq!(heads, ["", "a", "a", "a😀", "a😀b", "a😀b", "a😀b😀", text]);
        let tails: Vec<&str> = (0..=7).map(|n| tail(text, n)).collect();
        assert_eq!(tails, ["", "c", "c", "😀c", "b😀c", "b😀c", "😀b😀c", text]);
    }
}
