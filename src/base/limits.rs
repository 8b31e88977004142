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
/// Waiting turns of a session unless settings say otherwise (semantics 6.1).
pub const TURNS_CAP: u16 = 20;
/// Most waiting turns of a session that settings may ask for.
pub const TURNS_CAP_MAX: u16 = 1_000;
/// Characters of the line that stands for a dropped message in the overflow summary.
pub const SUMMARY_LINE_CHARS_MAX: usize = 160;
/// Routes of one session whose overflow is summarised at the same time.
pub const OVERFLOW_GROUPS_MAX: usize = 16;
/// Quiet window before waiting turns are run, ms, unless settings say otherwise.
pub const QUIET_MS: u32 = 500;
/// Longest quiet window that a command may ask for, ms.
pub const QUIET_MAX_MS: u32 = 86_400_000;
/// How long a provider's message id is remembered, ms.
pub const SEEN_PROVIDER_MS: u64 = 300_000;
/// How many of a provider's message ids are remembered.
pub const SEEN_PROVIDER_MAX: usize = 10_000;
/// How long an inbound message is remembered, ms.
pub const SEEN_INBOUND_MS: u64 = 1_200_000;
/// How many inbound messages are remembered.
pub const SEEN_INBOUND_MAX: usize = 5_000;
/// Longest key that a dedupe window remembers, in bytes.
pub const SEEN_KEY_BYTES_MAX: usize = 512;
/// Characters of a sender's name in a combined turn.
pub const SENDER_CHARS_MAX: usize = 80;
/// Longest message that can be one of the plain stop phrases, in bytes.
pub const STOP_PHRASE_BYTES_MAX: usize = 128;
/// Characters of a word that are repeated to the user who mistyped it.
pub const BAD_WORD_CHARS_MAX: usize = 40;
/// The local hour of a daily reset, unless settings say otherwise (semantics 7.5).
pub const RESET_HOUR: u8 = 4;
/// Time without progress after which a session is looked at, ms (semantics 13).
pub const STUCK_WARN_MS: u64 = 120_000;
/// Least time without progress before a stalled run is aborted, ms.
pub const STUCK_ABORT_MIN_MS: u64 = 300_000;
/// The abort limit is at least so many times the warning limit.
pub const STUCK_ABORT_FACTOR: u64 = 3;
/// How often sessions are looked at, ms; the first pause between two attempts at a recovery.
pub const WATCH_TICK_MS: u64 = 30_000;
/// Sessions whose warnings are remembered.
pub const WATCHED_MAX: usize = 4_096;
/// Longest agent id, characters (semantics 7.2).
pub const AGENT_CHARS_MAX: usize = 64;
/// Longest session key, bytes.
pub const KEY_BYTES_MAX: usize = 512;
/// Most peers that identity links name in all.
pub const IDENTITY_LINKS_MAX: usize = 10_000;
/// Most pieces of work that wait or run in the lanes at once.
pub const LANE_TICKETS_MAX: usize = 100_000;
/// Longest name of a lane, bytes.
pub const LANE_NAME_BYTES_MAX: usize = 64;
/// Longest name of a conversation's lane, or of an owner, bytes: a key and its prefix.
pub const LANE_SESSION_BYTES_MAX: usize = KEY_BYTES_MAX + 8;
/// How long work waits in a lane before that is worth a note, ms (semantics 6.2).
pub const LANE_NOTICE_MS: u64 = 2_000;
/// Least runs at once in the lane `main`; more on machines with more than two processors.
pub const LANE_MAIN_MIN: u16 = 8;
/// Runs at once in the lane `main` for each processor, if that is more.
pub const LANE_MAIN_PER_CPU: u16 = 4;
/// Runs at once in `cron`, in `subagent` for each owner, in `active-memory`, and in the budget that
/// `cron:nested` and `hook-dispatch` share.
pub const LANE_WIDE: u16 = 8;
/// Runs at once in the lane `background`.
pub const LANE_BACKGROUND: u16 = 3;
/// Candidates of one boot that are resumed; what is beyond gets its notice at once.
pub const RECOVERY_CANDIDATES_MAX: usize = 10_000;
/// From boot to the first resumed run, ms (semantics 7.7).
pub const RECOVERY_DELAY_MS: u64 = 5_000;
/// How often one interrupted run is resumed, over all boots (semantics 7.7).
pub const RECOVERY_ATTEMPTS_MAX: u8 = 3;
/// From the first failed attempt to the second, ms; doubles with each further one.
pub const RECOVERY_BACKOFF_MS: u64 = 5_000;
/// Longest wait between two attempts, ms.
pub const RECOVERY_BACKOFF_MAX_MS: u64 = 60_000;
/// How long a resumed run is watched before the next one begins, ms (semantics 7.7).
pub const RECOVERY_OBSERVE_MS: u64 = 10_000;
/// Most runs that are accepted and have not ended.
pub const RUNS_MAX: usize = 65_536;
/// Most of those who wait for a run at once.
pub const WAITERS_MAX: usize = 4_096;
/// After a refusal by full lanes, when a session asks again, ms.
pub const LANE_RETRY_MS: u64 = 1_000;
/// After a failed commit of ends of runs that never began, when it is tried again, ms.
pub const DROP_RETRY_MS: u64 = 5_000;
/// Characters after an acknowledged heartbeat that are still no news.
pub const HEARTBEAT_REST_CHARS_MAX: usize = 300;
/// Bytes of a beginning reply that are held back because they may be the token of silence.
pub const HELD_BACK_BYTES_MAX: usize = 256;
/// Shortest text, in characters, that is compared with what a messaging tool has sent.
pub const DUPLICATE_CHARS_MIN: usize = 10;
/// Characters of a tool's name in a warning.
pub const WARNING_NAME_CHARS_MAX: usize = 64;
/// Characters of a tool's failure in a warning.
pub const WARNING_DETAIL_CHARS_MAX: usize = 400;
/// What a message may wait for its lanes beyond its run's budget, ms (semantics 13).
pub const LANE_GRACE_MS: u64 = 30_000;
/// How long a session at rest is kept in memory, ms.
pub const KEEP_MS: u64 = 60_000;
/// Most texts of one run that are delivered as its answers; the oldest leave first.
pub const SEGMENTS_MAX: usize = 256;
/// Most requests of one client that wait for their answers.
pub const REQUESTS_MAX: usize = 16_384;
/// Most answers of runs that have ended that one client is told again in words.
pub const ANSWERS_MAX: usize = 1_000;
/// How long a stop in good order lets runs end by themselves, ms (semantics 13).
pub const DRAIN_MS: u64 = 300_000;
/// Bytes of the gateway's log before it is begun anew; as much of the former one is kept.
pub const LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Lines of the log that wait for the disk; what comes beyond is counted and left out.
pub const LOG_LINES_MAX: usize = 4_096;
/// Characters of one line's words.
pub const LOG_CHARS_MAX: usize = 1_000;
/// Longest frame, bytes.
pub const FRAME_BYTES_MAX: usize = 25 * 1024 * 1024;

/// How long a summary is waited for, ms.
pub const SUMMARY_MS_MAX: u64 = 180_000;
/// How often one request is made again after the history was compacted because of it.
pub const OVERFLOWS_MAX: u8 = 3;
