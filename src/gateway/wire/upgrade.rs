//! From HTTP to a WebSocket: what a client must ask for, and the answer's key (H7).

use super::fault::Refused;
use super::http::{Headers, Method, Request};
use crate::base::b64;
use ring::digest;

/// What RFC 6455, 1.3 has a server append to the client's key.
const SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether a list of words, over all headers of that name, holds the word.
pub(super) fn lists(headers: &Headers, name: &str, word: &str) -> bool {
    let mut words = headers.all(name).flat_map(|value| value.split(','));
    words.any(|w| w.trim_matches([' ', '\t']).eq_ignore_ascii_case(word))
}

/// Whether a request asks for a WebSocket, in every way it must.
pub(super) fn check(request: &Request, body: bool) -> Result<bool, Refused> {
    let headers = &request.headers;
    if !lists(headers, "upgrade", "websocket") {
        return Ok(false);
    }
    if request.method != Method::Get {
        return Err(Refused::Upgrade("must be asked for with GET"));
    }
    if request.minor == 0 {
        return Err(Refused::Upgrade("needs HTTP/1.1"));
    }
    if !lists(headers, "connection", "upgrade") {
        return Err(Refused::Upgrade("must be named by Connection"));
    }
    if body {
        return Err(Refused::Upgrade("may have no body"));
    }
    if headers.get("sec-websocket-version") != Some("13") {
        return Err(Refused::UpgradeVersion);
    }
    let key = headers.get("sec-websocket-key").unwrap_or_default().as_bytes();
    let is_sign = |b: &u8| b.is_ascii_alphanumeric() || *b == b'+' || *b == b'/';
    // Sixteen bytes as base64.
    if key.len() != 24 || !key[..22].iter().all(is_sign) || !key.ends_with(b"==") {
        return Err(Refused::Upgrade("needs a Sec-WebSocket-Key of 16 bytes"));
    }
    Ok(true)
}

/// `Sec-WebSocket-Accept` for a client's key.
pub(super) fn accept(key: &str) -> String {
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key.as_bytes());
    hash.update(SUFFIX);
    b64::encode(hash.finish().as_ref())
}
