//! The numbers of a connection (`spec/wire.md`). "Original" means what OpenClaw's gateway does, so
//! that its clients meet the same limits; the others are our choice, with the reason beside them.

/// Longest head of a request, bytes, with its last blank line; as Node, which the original uses.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Longest target in a request line, bytes; a usual size, half of a head.
pub const TARGET_BYTES_MAX: usize = 8 * 1024;
/// Longest request line, bytes: method and version have no room for games.
pub const LINE_BYTES_MAX: usize = TARGET_BYTES_MAX + 32;
/// Most headers of a request; browsers behind two proxies send about thirty.
pub const HEADERS_MAX: usize = 64;
/// Longest body, bytes, unless a route allows less; a message may have the same.
pub const BODY_BYTES_MAX: usize = 26_214_400;
/// Bytes of chunk extensions in one body. Nobody uses them.
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 4 * 1024;
/// Digits of a chunk's size; eight say 4 GiB, which is more than any body may have.
pub const CHUNK_DIGITS_MAX: u8 = 8;
/// Bytes of the trailers of one body.
pub const TRAILER_BYTES_MAX: usize = 8 * 1024;
/// Longest message before hello, bytes (original).
pub const MESSAGE_BYTES_EARLY: usize = 65_536;
/// Longest message after hello, bytes (original: `policy.maxPayload`).
pub const MESSAGE_BYTES_MAX: usize = 26_214_400;
/// Longest reason of a close, bytes (original).
pub const REASON_BYTES_MAX: usize = 120;
/// From the connection to its first complete head, and from the upgrade to hello, ms (original).
pub const HANDSHAKE_MS: u64 = 15_000;
/// From the first byte of a head to its last, ms: an honest client sends it in one piece.
pub const HEAD_MS: u64 = 10_000;
/// What a body may take whatever its size, ms.
pub const BODY_MS: u64 = 30_000;
/// Each so many bytes of a body buy another second: a quarter of a slow mobile uplink.
pub const BODY_BYTES_PER_SECOND: u64 = 16 * 1024;
/// How long a connection without a request is kept, ms; browsers close theirs later.
pub const IDLE_MS: u64 = 60_000;
/// From a close to the end of the connection, whatever the peer does, ms (original).
pub const GRACE_MS: u64 = 1_000;
/// From one ping to the next, ms (original).
pub const PING_MS: u64 = 25_000;
/// From a ping to a sign of life, ms (original).
pub const PONG_MS: u64 = 25_000;
/// How long bytes may wait while the peer takes none of them, ms: longer than a pong may take.
pub const STALL_MS: u64 = 30_000;
/// Bytes that are read ahead while a request is being answered: some pipelined requests.
pub const AHEAD_BYTES_MAX: usize = 16 * 1024;
/// Bytes that wait to be written at which nothing more is read. Below the slow consumer's limit of
/// 52,428,800 bytes, above any usual answer.
pub const PAUSE_BYTES: usize = 4 * 1024 * 1024;
/// Size at which a piece of our own bytes is full and the next one begins.
pub const PIECE_BYTES: usize = 16 * 1024;
