//! Every bound in the engine, with its name and unit. Nothing that a peer can fill is without one.

/// Most tool calls in one reply; a reply with more is a provider error.
pub const CALLS_MAX: usize = 128;
/// Most messages waiting in one steering or follow-up queue.
pub const QUEUE_MAX: usize = 64;
/// Most bytes of one tool call's arguments (semantics 11.2).
pub const ARGS_BYTES_MAX: usize = 256_000;
/// Most bytes of text and reasoning in one reply.
pub const REPLY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Longest line of a provider's event stream, in bytes.
pub const STREAM_LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Loop detector: how many finished calls are remembered (semantics 5).
pub const LOOP_HISTORY_MAX: usize = 30;
/// Loop detector: repeats that earn a warning.
pub const LOOP_WARN: u32 = 10;
/// Loop detector: repeats that block the batch.
pub const LOOP_CRITICAL: u32 = 20;
/// Loop detector: repeats without progress that trip the breaker whatever the tool.
pub const LOOP_BREAKER: u32 = 30;
/// Loop detector: calls of a missing tool that block the batch.
pub const LOOP_UNKNOWN: u32 = 10;
/// Loop detector: keys for which shown warnings are remembered.
pub const LOOP_WARNED_MAX: usize = 256;
/// Consecutive replies whose calls cannot be used before the run ends.
pub const UNUSABLE_MAX: u8 = 5;
/// Same-model retries of one request (semantics 12.2).
pub const RETRY_MAX: u8 = 8;
/// Same-model retries of one rate-limited request (semantics 12.2).
pub const RETRY_RATE_MAX: u8 = 9;
/// Window in which retries of one request may start, ms; rate limits are exempt.
pub const RETRY_WINDOW_MS: u64 = 90_000;
/// First retry delay, ms; doubles with each further retry.
pub const RETRY_BASE_MS: u64 = 1_000;
/// Longest retry delay, ms, unless the provider asks for more.
pub const RETRY_CAP_MS: u64 = 30_000;
/// Longest `Retry-After` that is honoured, ms (semantics 12.4).
pub const RETRY_AFTER_MAX_MS: u64 = 60_000;
/// Bytes of `details` that are stored with a tool result (semantics 3.9).
pub const DETAILS_BYTES_MAX: usize = 8_192;
/// Characters of a tool result's text that are stored for a small window (semantics 3.9).
pub const RESULT_CHARS_MAX: usize = 16_000;
