//! What a messaging tool has said already is not said again (A5).

use crate::base::limits::DUPLICATE_CHARS_MIN;

/// Where something is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Target<'a> {
    /// The channel, as `telegram`.
    pub channel: &'a str,
    /// The account, where known.
    pub account: Option<&'a str>,
    /// The conversation.
    pub to: &'a str,
    /// The thread in it.
    pub thread: Option<&'a str>,
}

impl Target<'_> {
    /// Whether both are one place. An account that is not known may be any.
    #[must_use]
    pub fn same(&self, other: &Target<'_>) -> bool {
        let accounts = match (self.account, other.account) {
            (Some(a), Some(b)) => a == b,
            (None, _) | (_, None) => true,
        };
        let channels = self.channel.eq_ignore_ascii_case(other.channel);
        channels && accounts && self.to == other.to && self.thread == other.thread
    }
}

/// What a messaging tool delivered during the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent<'a> {
    /// Where to.
    pub target: Target<'a>,
    /// The text.
    pub text: &'a str,
    /// URLs of its media.
    pub media: &'a [&'a str],
}

/// A text as it is compared: lower case, no emoji, blanks collapsed.
#[must_use]
pub fn normalised(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !is_emoji(*c)).collect();
    let lower = plain.to_lowercase();
    lower.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Pictures, and the invisible signs that join and colour them.
fn is_emoji(c: char) -> bool {
    matches!(u32::from(c),
        0xa9 | 0xae | 0x203c | 0x2049 | 0x2122 | 0x2139 | 0x200d | 0x20e3
        | 0x2194..=0x2199 | 0x21a9..=0x21aa | 0x231a..=0x231b | 0x2328 | 0x23cf
        | 0x23e9..=0x23f3 | 0x23f8..=0x23fa | 0x24c2 | 0x25aa..=0x25ab | 0x25b6 | 0x25c0
        | 0x25fb..=0x25fe | 0x2600..=0x27bf | 0x2934..=0x2935 | 0x2b05..=0x2b07
        | 0x2b1b..=0x2b1c | 0x2b50 | 0x2b55 | 0x3030 | 0x303d | 0x3297 | 0x3299
        | 0xfe0e..=0xfe0f | 0x1f000..=0x1faff | 0xe0020..=0xe007f)
}

/// Whether two normalised texts say the same: both long enough, and equal, or one part of the
/// other and at least half of it.
#[must_use]
pub fn alike(a: &str, b: &str) -> bool {
    let (long, short) = if a.chars().count() >= b.chars().count() { (a, b) } else { (b, a) };
    let (most, least) = (long.chars().count(), short.chars().count());
    least >= DUPLICATE_CHARS_MIN && (long == short || (2 * least >= most && long.contains(short)))
}

/// Whether a text was said at `home` by one of these.
#[must_use]
pub fn was_sent(text: &str, home: &Target<'_>, sends: &[Sent<'_>]) -> bool {
    let text = normalised(text);
    let here = |sent: &&Sent<'_>| sent.target.same(home);
    sends.iter().filter(here).any(|sent| alike(&text, &normalised(sent.text)))
}

/// Whether a medium was sent to `home` by one of these.
#[must_use]
pub fn medium_was_sent(url: &str, home: &Target<'_>, sends: &[Sent<'_>]) -> bool {
    sends.iter().any(|sent| sent.target.same(home) && sent.media.contains(&url))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Target<'_> =
        Target { channel: "telegram", account: Some("main"), to: "42", thread: None };

    fn sent<'a>(target: Target<'a>, text: &'a str) -> [Sent<'a>; 1] {
        [Sent { target, text, media: &["https://x/1.png"] }]
    }

    /// A5: case, emoji and blanks do not make a text another one.
    #[test]
    fn texts_are_compared_without_ornaments() {
        assert_eq!(normalised("  Hello 👋🏽  WORLD\n❤️ ok "), "hello world ok");
        assert_eq!(normalised("1 + 1 = 2 # *"), "1 + 1 = 2 # *", "digits and signs are text");
        let sends = sent(HOME, "The build is green ✅");
        assert!(was_sent("the  BUILD is green", &HOME, &sends));
        assert!(!was_sent("The build is red", &HOME, &sends));
    }

    /// A5: a part counts if it is at least half of the longer text, and texts have ten characters.
    #[test]
    fn parts_count_from_a_half_on() {
        assert!(alike("0123456789", "0123456789"));
        assert!(!alike("012345678", "012345678"), "too short");
        assert!(alike("0123456789", "01234567890123456789"));
        assert!(!alike("0123456789", "012345678901234567890"), "less than half");
        assert!(alike("xx0123456789", "0123456789"), "in both directions");
        assert!(!alike("", ""));
        let umlauts = "ä".repeat(DUPLICATE_CHARS_MIN);
        assert!(alike(&umlauts, &umlauts), "characters, not bytes");
    }

    /// A5: only what was said in the same place counts.
    #[test]
    fn the_place_counts() {
        let text = "The build is green";
        let elsewhere = [
            Target { channel: "slack", ..HOME },
            Target { account: Some("other"), ..HOME },
            Target { to: "43", ..HOME },
            Target { thread: Some("7"), ..HOME },
        ];
        for target in elsewhere {
            assert!(!was_sent(text, &HOME, &sent(target, text)), "{target:?}");
            assert!(!medium_was_sent("https://x/1.png", &HOME, &sent(target, text)));
        }
        assert!(was_sent(text, &HOME, &sent(Target { account: None, ..HOME }, text)));
        assert!(medium_was_sent("https://x/1.png", &HOME, &sent(HOME, "")));
        assert!(!medium_was_sent("https://x/2.png", &HOME, &sent(HOME, "")));
    }
}
