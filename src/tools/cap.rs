//! Caps for a result before it is stored (semantics 3.9, tools#6).

use super::text::{head, tail};
use crate::base::limits::{DETAILS_BYTES_MAX, RESULT_CHARS_MAX};
use crate::transcript::{Block, ToolOutput, message::join_text};
use serde_json::{Map, Value, json};

/// Characters of text that are kept whatever the window.
const KEPT_CHARS_MIN: usize = 2_000;
/// Characters a token stands for on average.
const TOKEN_CHARS: u64 = 4;
/// Longest text of a detail that survives in a summary, in bytes.
const DETAIL_BYTES_MAX: usize = 256;
/// Longest line that says what was cut.
const MARK_CHARS_MAX: usize = 128;

/// Most characters of one result for a context window of so many tokens.
#[must_use]
pub fn text_chars_max(window_tokens: u64) -> usize {
    let tier = match window_tokens {
        200_000.. => RESULT_CHARS_MAX * 4,
        100_000.. => RESULT_CHARS_MAX * 2,
        _ => RESULT_CHARS_MAX,
    };
    let share = window_tokens.saturating_mul(TOKEN_CHARS).saturating_mul(3) / 10;
    tier.min(usize::try_from(share).unwrap_or(usize::MAX)).max(KEPT_CHARS_MIN)
}

/// Most characters of all results of one turn for a context window of so many tokens.
#[must_use]
pub fn turn_chars_max(window_tokens: u64) -> usize {
    let half = window_tokens.saturating_mul(TOKEN_CHARS) / 2;
    (text_chars_max(window_tokens) * 4).max(usize::try_from(half).unwrap_or(usize::MAX))
}

/// A result as it is stored: its text within `chars_max`, its details within their limit.
#[must_use]
pub fn cap(mut output: ToolOutput, chars_max: usize) -> ToolOutput {
    cap_content(&mut output.content, chars_max);
    output.details = output.details.map(cap_details);
    output
}

/// Text blocks that together are too long become one, cut in the middle; pictures stay.
fn cap_content(content: &mut Vec<Block>, chars_max: usize) {
    let text = join_text(content);
    // Bytes bound characters from above: most results need no count.
    if text.len() <= chars_max || text.chars().count() <= chars_max {
        return;
    }
    let cut = cut(&text, chars_max);
    let first = content.iter().position(|b| matches!(b, Block::Text { .. })).unwrap_or(0);
    content.retain(|block| !matches!(block, Block::Text { .. }));
    content.insert(first.min(content.len()), Block::text(cut));
}

/// At most `chars_max` characters of a text: three quarters of them from its head, the rest from
/// its tail, and between them a line that says how much is missing.
#[must_use]
pub fn cut(text: &str, chars_max: usize) -> String {
    let count = text.chars().count();
    if count <= chars_max {
        return text.to_owned();
    }
    if chars_max < MARK_CHARS_MAX * 2 {
        return head(text, chars_max).to_owned();
    }
    let kept = chars_max - MARK_CHARS_MAX;
    let tail_chars = kept / 4;
    let (start, end) = (head(text, kept - tail_chars), tail(text, tail_chars));
    format!("{start}\n[{} of {count} characters cut here, {kept} kept]\n{end}", count - kept)
}

/// Details within their limit; larger ones become a summary that keeps the small plain fields.
#[must_use]
pub fn cap_details(details: Value) -> Value {
    let bytes = details.to_string().len();
    if bytes <= DETAILS_BYTES_MAX {
        return details;
    }
    let mut summary = Map::new();
    let mut room = DETAILS_BYTES_MAX / 2;
    if let Value::Object(fields) = details {
        for (key, value) in fields {
            let plain = !matches!(value, Value::Object(_) | Value::Array(_));
            let size = key.len() * 6 + value.to_string().len() + 8;
            if plain && size <= DETAIL_BYTES_MAX + key.len() * 6 && size <= room {
                room -= size;
                summary.insert(key, value);
            }
        }
    }
    summary.insert("persistedDetailsTruncated".into(), json!(true));
    summary.insert("originalBytes".into(), json!(bytes));
    Value::Object(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tools#6.
    #[test]
    fn caps_follow_the_window() {
        assert_eq!(text_chars_max(0), 2_000);
        assert_eq!(text_chars_max(8_000), 9_600);
        assert_eq!(text_chars_max(64_000), 16_000);
        assert_eq!(text_chars_max(99_999), 16_000);
        assert_eq!(text_chars_max(100_000), 32_000);
        assert_eq!(text_chars_max(200_000), 64_000);
        assert_eq!(text_chars_max(u64::MAX), 64_000);
        assert_eq!(turn_chars_max(1_000_000), 2_000_000);
        assert_eq!(turn_chars_max(8_000), 38_400);
    }

    /// B200, B170: every N gives valid text of at most N characters, and the counts add up.
    #[test]
    fn b200_cuts_hold_for_every_n() {
        let text: String = "a漢😀é".chars().cycle().take(900).collect();
        for n in 0..=text.len() {
            let cut = cut(&text, n);
            assert!(cut.chars().count() <= n);
            if let Some(at) = cut.find(" of 900 characters cut here, ") {
                let number = |t: &str| {
                    t.chars().filter(char::is_ascii_digit).collect::<String>().parse::<usize>()
                };
                let gone = number(cut[..at].rsplit('[').next().unwrap()).unwrap();
                let rest = &cut[at + 29..];
                let kept = number(rest.split(" kept").next().unwrap()).unwrap();
                assert_eq!(gone + kept, 900);
            } else {
                assert!(text.starts_with(&cut));
            }
        }
    }

    #[test]
    fn long_blocks_become_one_and_pictures_stay() {
        let image = Block::Image { data: "AA==".into(), mime_type: "image/png".into() };
        let content =
            vec![Block::text("a".repeat(3_000)), image.clone(), Block::text("b".repeat(3_000))];
        let output = ToolOutput { content, ..ToolOutput::default() };
        let capped = cap(output.clone(), 4_000);
        assert_eq!(capped.content.len(), 2);
        assert_eq!(capped.content[1], image);
        let text = join_text(&capped.content);
        assert!(text.chars().count() <= 4_000 && text.starts_with('a') && text.ends_with('b'));
        assert!(text.contains("of 6001 characters cut here"));
        assert_eq!(cap(output.clone(), 6_001), output);
    }

    #[test]
    fn large_details_become_a_summary() {
        let small = json!({"status": "completed", "aggregated": "x"});
        assert_eq!(cap_details(small.clone()), small);
        let text = "漢".repeat(9_000);
        let large = json!({"status": "completed", "exitCode": 3, "aggregated": text});
        let summary = cap_details(large);
        assert_eq!(summary["persistedDetailsTruncated"], true);
        assert_eq!((&summary["status"], &summary["exitCode"]), (&json!("completed"), &json!(3)));
        assert!(summary.get("aggregated").is_none());
        let mut many = Map::new();
        for i in 0..10_000 {
            many.insert(format!("\u{1}key{i}"), json!(i));
        }
        assert!(cap_details(Value::Object(many)).to_string().len() <= DETAILS_BYTES_MAX);
        assert_eq!(cap_details(json!("x".repeat(9_000)))["originalBytes"], 9_002);
    }
}
