//! Base64 as keys and tokens need it: written in the alphabet for URLs, read in both.

const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The text of some bytes in the alphabet for URLs, without padding.
#[must_use]
pub fn encode_url(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let group = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for at in 0..=chunk.len() {
            let index = (group >> (18 - 6 * at)) & 63;
            text.push(char::from(URL[index as usize]));
        }
    }
    text
}

/// The text of some bytes in the usual alphabet, with padding.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text: String = encode_url(bytes)
        .chars()
        .map(|c| match c {
            '-' => '+',
            '_' => '/',
            c => c,
        })
        .collect();
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

/// The bytes of a text in either alphabet, with or without padding; `None` if it is none, or if
/// bits are left over that are not zero, so that two texts never stand for the same bytes but for
/// alphabet and padding.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let stripped = text.trim_end_matches('=');
    if text.len() - stripped.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(stripped.len() * 3 / 4);
    let (mut bits, mut held) = (0u32, 0u32);
    for byte in stripped.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from((bits >> held) & 255).ok()?);
        }
    }
    (held < 6 && bits & ((1 << held) - 1) == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for len in 0..70u8 {
            let bytes: Vec<u8> = (0..len).map(|n| n.wrapping_mul(37).wrapping_add(len)).collect();
            assert_eq!(decode(&encode_url(&bytes)), Some(bytes));
        }
        assert_eq!(encode_url(&[0xfb, 0xff, 0xfe]), "-__-");
        assert_eq!(decode("+//+"), decode("-__-"));
        assert_eq!(decode("Zg=="), Some(b"f".to_vec()));
        for bad in ["Z", "Zh", "Z g=", "Zg===", "Zg\n", "\u{e4}bcd", "Zg=a"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }

    /// The vectors of RFC 4648.
    #[test]
    fn base64_of_the_rfc() {
        for (bytes, want) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), want);
        }
        assert_eq!(encode(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
