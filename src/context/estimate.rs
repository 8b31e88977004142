//! How large a context is, in tokens (`spec/compaction.md` F1, F2; semantics 8.2).

use crate::transcript::project::as_user;
use crate::transcript::{Assistant, Block, Content, Message, Usage};

/// What an image counts, tokens.
pub const IMAGE_TOKENS: u64 = 2_000;
/// Characters a token, where a script is alphabetic.
const CHARS_A_TOKEN: u64 = 4;

/// The tokens of one message as a model is given it, rounded up: a quarter of its characters, one
/// for each character of a script that has no alphabet.
#[must_use]
pub fn tokens(message: &Message) -> u64 {
    let mut weight = Weight::default();
    match message {
        Message::Assistant(reply) => weight.blocks(&reply.content),
        Message::ToolResult(result) => weight.blocks(&result.content),
        Message::User(_)
        | Message::Custom(_)
        | Message::BashExecution(_)
        | Message::BranchSummary(_)
        | Message::CompactionSummary(_) => match as_user(message).as_deref() {
            Some(Content::Text(text)) => weight.text(text),
            Some(Content::Blocks(blocks)) => weight.blocks(blocks),
            None => {}
        },
    }
    weight.total()
}

/// The tokens of a text, rounded up.
#[must_use]
pub fn text_tokens(text: &str) -> u64 {
    let mut weight = Weight::default();
    weight.text(text);
    weight.total()
}

#[derive(Default)]
struct Weight {
    chars: u64,
    images: u64,
}

impl Weight {
    fn total(&self) -> u64 {
        self.chars.div_ceil(CHARS_A_TOKEN) + self.images * IMAGE_TOKENS
    }

    fn text(&mut self, text: &str) {
        // Most texts are plain: their length is known without looking at each character.
        self.chars += if text.is_ascii() {
            text.len() as u64
        } else {
            text.chars().map(|c| if dense(c) { CHARS_A_TOKEN } else { 1 }).sum()
        };
    }

    fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            match block {
                Block::Text { text } => self.text(text),
                Block::Thinking { thinking, .. } => self.text(thinking),
                Block::Image { .. } => self.images += 1,
                Block::ToolCall { name, arguments, .. } => {
                    self.text(name);
                    self.text(&serde_json::to_string(arguments).unwrap_or_default());
                }
            }
        }
    }
}

/// Scripts of which models need about a token a character.
fn dense(c: char) -> bool {
    matches!(u32::from(c),
        0x1100..=0x11FF | 0x2E80..=0x9FFF | 0xA960..=0xA97F | 0xAC00..=0xD7FF | 0xF900..=0xFAFF
        | 0xFF00..=0xFFEF | 0x2_0000..=0x3_FFFF)
}

/// The size of a context that grows message by message: what the provider counted last, and an
/// estimate of everything after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gauge {
    counted: Option<u64>,
    after: u64,
    all: u64,
}

impl Gauge {
    /// One more message. What was counted before the history was compacted is `stale` and is
    /// estimated like everything else.
    pub fn push(&mut self, message: &Message, stale: bool) {
        let tokens = tokens(message);
        self.all += tokens;
        match message {
            Message::Assistant(reply) if !stale && usage(reply).is_some() => {
                (self.counted, self.after) = (usage(reply), 0);
            }
            _ => self.after += tokens,
        }
    }

    /// The whole context, tokens. `overhead` is the estimate of what goes with every request beside
    /// the messages; a provider's count has it in it.
    #[must_use]
    pub fn total(&self, overhead: u64) -> u64 {
        self.counted.map_or(self.all + overhead, |counted| counted + self.after)
    }

    /// How many times more the provider counts than we estimate, in thousandths, and at least as
    /// much as we do.
    #[must_use]
    pub fn ratio(&self, overhead: u64) -> u64 {
        let estimate = (self.all + overhead).max(1);
        (self.total(overhead) * 1_000 / estimate).clamp(1_000, 100_000)
    }
}

fn usage(reply: &Assistant) -> Option<u64> {
    let total = |usage: Usage| match usage.total_tokens {
        0 => usage.input + usage.output + usage.cache_read + usage.cache_write,
        total => total,
    };
    reply.usage.filter(|_| !reply.failed()).map(total).filter(|total| *total > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Millis;
    use crate::transcript::{StopReason, User};

    fn user(text: &str) -> Message {
        let content = Content::Text(text.to_owned());
        Message::User(User { content, timestamp: Millis(1), idempotency_key: None })
    }

    fn reply(total: u64, stop_reason: StopReason) -> Message {
        Message::Assistant(Assistant {
            content: vec![Block::text("12345678")],
            api: String::new(),
            provider: String::new(),
            model: String::new(),
            response_model: None,
            response_id: None,
            usage: Some(Usage { total_tokens: total, ..Usage::default() }),
            stop_reason,
            error_message: None,
            error_code: None,
            timestamp: Millis(2),
        })
    }

    /// F1.
    #[test]
    fn a_message_is_rounded_up_by_itself() {
        assert_eq!(tokens(&user("")), 0);
        assert_eq!(tokens(&user("a")), 1);
        assert_eq!(tokens(&user("abcde")), 2);
        let image = Block::Image { data: String::new(), mime_type: "image/png".into() };
        let content = Content::Blocks(vec![Block::text("abc"), image]);
        let message = User { content, timestamp: Millis(1), idempotency_key: None };
        assert_eq!(tokens(&Message::User(message)), 1 + IMAGE_TOKENS);
    }

    /// B074: a character of a script without an alphabet is a token.
    #[test]
    fn b074_dense_scripts_weigh_more() {
        assert_eq!(tokens(&user(&"漢".repeat(400))), 400);
        assert_eq!(tokens(&user(&"한".repeat(8))), 8);
        assert_eq!(tokens(&user(&"ä".repeat(8))), 2);
    }

    /// F2.
    #[test]
    fn what_the_provider_counted_comes_first() {
        let mut gauge = Gauge::default();
        gauge.push(&user("abcd"), false);
        assert_eq!(gauge.total(100), 101);
        gauge.push(&reply(500, StopReason::Stop), false);
        gauge.push(&user("abcdefgh"), false);
        assert_eq!(gauge.total(100), 502);
        gauge.push(&reply(900, StopReason::Error), false);
        assert_eq!(gauge.total(100), 504, "a failed reply counts nothing");
        gauge.push(&reply(0, StopReason::Stop), false);
        assert_eq!(gauge.total(100), 506, "nor does one without a count");
        let mut stale = Gauge::default();
        stale.push(&reply(500, StopReason::Stop), true);
        assert_eq!(stale.total(0), 2);
        assert_eq!(gauge.ratio(100), 506 * 1_000 / 109);
        assert_eq!(stale.ratio(0), 1_000);
    }
}
