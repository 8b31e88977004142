//! The target of a request: its path, decoded once, and what makes a path ambiguous (H6).

use super::fault::Refused;

/// A target in its parts.
pub(super) struct Target<'a> {
    pub(super) path: String,
    pub(super) query: Option<&'a str>,
    /// The host of an absolute target.
    pub(super) authority: Option<&'a str>,
}

/// Takes a target apart. `options`: the method is OPTIONS, which may ask about `*`.
pub(super) fn parse(raw: &str, options: bool) -> Result<Target<'_>, Refused> {
    if !raw.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Refused::Target("has characters that are not printable ASCII"));
    }
    if raw.contains('#') {
        return Err(Refused::Target("has a fragment"));
    }
    if raw == "*" && options {
        return Ok(Target { path: raw.to_owned(), query: None, authority: None });
    }
    let (authority, rest) = origin(raw)?;
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (rest, None),
    };
    let path = if path.is_empty() { "/" } else { path };
    Ok(Target { path: decode(path)?, query, authority })
}

/// The host of an absolute target, and what follows it.
fn origin(raw: &str) -> Result<(Option<&str>, &str), Refused> {
    if raw.starts_with('/') {
        return Ok((None, raw));
    }
    let Some((scheme, rest)) = raw.split_once("://") else {
        return Err(Refused::Target("is neither a path nor an address"));
    };
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(Refused::Target("has a scheme other than http"));
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    Ok((Some(&rest[..end]), &rest[end..]))
}

/// The path with its escapes resolved once.
fn decode(raw: &str) -> Result<String, Refused> {
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(Refused::Target("has a % without two hex digits"));
        };
        match (high * 16 + low) as u8 {
            b'/' => return Err(Refused::Target("has an encoded slash")),
            decoded => out.push(decoded),
        }
    }
    let path = String::from_utf8(out).map_err(|_| Refused::Target("is not UTF-8"))?;
    if path.chars().any(char::is_control) {
        return Err(Refused::Target("has a control character"));
    }
    if path.contains('\\') {
        return Err(Refused::Target("has a backslash"));
    }
    if path.split('/').any(|segment| segment == "." || segment == "..") {
        return Err(Refused::Target("has a segment that is . or .."));
    }
    Ok(path)
}
