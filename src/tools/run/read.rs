//! `read`: a page of a text file, or a picture (tools#8).

use super::{Ctx, Outcome, count, file, order::Access, text};
use crate::{
    base::b64,
    tools::text::{clean_file, note},
    transcript::{Block, ToolOutput},
};
use serde_json::{Map, Value, json};
use std::{fs, io, path::PathBuf};

const LINES_MAX: usize = 2_000;
const BYTES_MAX: usize = 51_200;
/// Largest file that is read at all.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Largest picture that is passed on; pictures are not resized.
const IMAGE_BYTES_MAX: usize = 4 << 20;

pub(super) fn run(args: &Map<String, Value>, ctx: &Ctx) -> Outcome {
    let shown = text(args, "path")?;
    let (path, renamed) = match find(ctx, shown)? {
        Found::Here(path, renamed) => (path, renamed),
        Found::Missing(message) if args.get("optional") == Some(&json!(true)) => {
            return Ok(ToolOutput::text(message).with(json!({"kind": "not_found"})));
        }
        Found::Missing(message) => return Err(message),
    };
    let bytes = file::read(shown, &path, FILE_BYTES_MAX)?;
    if let Some(mime) = image_type(&bytes) {
        return image(shown, mime, &bytes);
    }
    let ask = Ask {
        offset: count(args, "offset")?.unwrap_or(1).max(1),
        limit: count(args, "limit")?.map(|limit| limit.max(1)),
        cursor: count(args, "cursor")?.unwrap_or(0),
    };
    let mut output = page(&bytes, &ask).map_err(|why| format!("{shown}: {why}"))?;
    if let (Some(name), Some(Block::Text { text })) = (renamed, output.content.first_mut()) {
        text.push_str(&format!("\n[{shown} does not exist; this is {name}.]"));
    }
    Ok(output)
}

enum Found {
    /// The file, and its real name where that differs in form.
    Here(PathBuf, Option<String>),
    Missing(String),
}

fn find(ctx: &Ctx, shown: &str) -> Result<Found, String> {
    let path = ctx.resolve(shown)?;
    ctx.acquire(std::slice::from_ref(&path), Access::Read)?;
    match fs::metadata(&path) {
        Ok(_) => return Ok(Found::Here(path, None)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(file::failed("read", shown, &error)),
    }
    let meant = file::meant(&path);
    if let [one] = meant.same.as_slice() {
        let name = one.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Under its real name the file has another place in the order.
        ctx.acquire(std::slice::from_ref(one), Access::Read)?;
        return Ok(Found::Here(one.clone(), Some(name)));
    }
    if meant.same.len() > 1 {
        let names: Vec<String> = meant.same.iter().map(|p| p.display().to_string()).collect();
        return Err(format!("{shown} is ambiguous; there are: {}", names.join(", ")));
    }
    let mut message = format!("File not found: {shown}");
    if !meant.close.is_empty() {
        message.push_str(&format!(". Close names there: {}", meant.close.join(", ")));
    }
    Ok(Found::Missing(message))
}

/// The media type, from the first bytes: names lie.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        // The reserved fields are zero; two letters alone could begin a text.
        [b'B', b'M', _, _, _, _, 0, 0, 0, 0, ..] => Some("image/bmp"),
        _ => None,
    }
}

fn image(shown: &str, mime: &str, bytes: &[u8]) -> Outcome {
    let size = bytes.len();
    if size > IMAGE_BYTES_MAX {
        return Err(format!(
            "{shown} is a picture ({mime}) of {size} bytes; the limit is {IMAGE_BYTES_MAX}, and \
             pictures are not resized here. Make a smaller copy of it first."
        ));
    }
    let note = format!("[Picture {shown}: {mime}, {size} bytes]");
    let picture = Block::Image { data: b64::encode(bytes), mime_type: mime.to_owned() };
    let content = vec![Block::text(note), picture];
    let details = json!({"kind": "image", "mimeType": mime, "bytes": size});
    Ok(ToolOutput { content, details: Some(details), ..ToolOutput::default() })
}

/// Which part of a file is wanted.
struct Ask {
    offset: usize,
    limit: Option<usize>,
    cursor: usize,
}

/// What of it fits.
#[derive(Default)]
struct Page {
    lines: Vec<String>,
    bytes: usize,
    replaced: u64,
    /// Characters of the first line that fit, where the whole line does not.
    partial: Option<usize>,
    by: Option<&'static str>,
}

fn page(bytes: &[u8], ask: &Ask) -> Outcome {
    let body = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if body.is_empty() {
        return Ok(ToolOutput::text("[The file is empty.]").with(json!({"kind": "text"})));
    }
    let total = memchr::memchr_iter(b'\n', body).count() + usize::from(!body.ends_with(b"\n"));
    if ask.offset > total {
        return Err(format!("offset {} is past the end: it has {total} lines.", ask.offset));
    }
    let page = fill(body, ask)?;
    let last = ask.offset + page.lines.len() - 1;
    let left = ask.limit.map(|limit| limit - page.lines.len()).filter(|left| *left > 0);
    let next = match page.partial {
        Some(shown) => {
            let cursor = ask.cursor + shown;
            Some(json!({"kind": "cursor", "offset": ask.offset, "cursor": cursor}))
        }
        None if last < total => Some(json!({"kind": "line", "offset": last + 1})),
        None => None,
    };
    let mut text = page.lines.join("\n");
    text.push_str("\n\n");
    text.push_str(&match page.partial {
        Some(shown) => {
            let (offset, from, to) = (ask.offset, ask.cursor, ask.cursor + shown);
            format!(
                "[Line {offset} of {total}, characters {from} to {to}. Continue with \
                 offset={offset} cursor={to}.]"
            )
        }
        None if last < total => {
            let (offset, next) = (ask.offset, last + 1);
            format!("[Lines {offset}-{last} of {total}. Continue with offset={next}.]")
        }
        None => format!("[Lines {}-{last} of {total}.]", ask.offset),
    });
    if let Some(note) = note(page.replaced) {
        text.push('\n');
        text.push_str(&note);
    }
    let mut details = json!({
        "kind": if page.by.is_some() { "truncated" } else { "text" },
        "truncation": {
            "truncated": page.by.is_some(), "truncatedBy": page.by,
            "totalLines": total, "totalBytes": body.len(),
            "outputLines": page.lines.len(), "outputBytes": page.bytes,
            "lastLinePartial": page.partial.is_some(),
            "firstLineExceedsLimit": page.partial.is_some(),
            "maxLines": LINES_MAX, "maxBytes": BYTES_MAX,
        },
    });
    if let Some(mut next) = next {
        if let Some(left) = left {
            next["limit"] = json!(left);
        }
        details["continuation"] = next;
    }
    Ok(ToolOutput::text(text).with(details))
}

fn fill(body: &[u8], ask: &Ask) -> Result<Page, String> {
    let mut page = Page::default();
    let wanted = ask.limit.unwrap_or(usize::MAX);
    for raw in body.split_inclusive(|byte| *byte == b'\n').skip(ask.offset - 1) {
        if page.lines.len() >= wanted {
            break;
        }
        if page.lines.len() == LINES_MAX {
            page.by = Some("lines");
            break;
        }
        let raw = raw.strip_suffix(b"\n").unwrap_or(raw);
        let clean = clean_file(raw.strip_suffix(b"\r").unwrap_or(raw));
        let mut line = clean.text.as_str();
        if page.lines.is_empty() && ask.cursor > 0 {
            let Some((at, _)) = line.char_indices().nth(ask.cursor) else {
                let count = line.chars().count();
                return Err(format!("cursor is past the end of the line of {count} characters."));
            };
            line = &line[at..];
        }
        if page.bytes + line.len() + 1 > BYTES_MAX {
            page.by = Some("bytes");
            if !page.lines.is_empty() {
                break;
            }
            line = &line[..line.floor_char_boundary(BYTES_MAX)];
            page.partial = Some(line.chars().count());
        }
        page.bytes += line.len() + 1;
        page.replaced += clean.replaced;
        page.lines.push(line.to_owned());
        if page.partial.is_some() {
            break;
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tools#8: following the continuations gives the whole text.
    #[test]
    fn pages_join_to_the_whole() {
        let mut text = String::new();
        for i in 0..4_500 {
            text.push_str(&format!("line {i} 漢字\n"));
        }
        text.push_str(&"漢".repeat(60_000));
        text.push_str("\nend\n");
        let mut ask = Ask { offset: 1, limit: None, cursor: 0 };
        let (mut seen, mut rounds) = (String::new(), 0);
        loop {
            rounds += 1;
            let output = page(text.as_bytes(), &ask).unwrap();
            let Block::Text { text: shown } = &output.content[0] else { panic!() };
            let (body, tail) = shown.rsplit_once("\n\n[").unwrap();
            assert!(body.len() <= BYTES_MAX && body.lines().count() <= LINES_MAX);
            seen.push_str(body);
            let details = output.details.unwrap();
            let Some(next) = details.get("continuation") else { break };
            let number = |key: &str| next.get(key).and_then(Value::as_u64).map(|n| n as usize);
            ask.offset = number("offset").unwrap();
            ask.cursor = number("cursor").unwrap_or(0);
            assert!(tail.contains(&format!("Continue with offset={}", ask.offset)), "{tail}");
            if details["truncation"]["lastLinePartial"] == false {
                seen.push('\n');
            }
        }
        assert_eq!(seen + "\n", text);
        assert!(rounds >= 6);
    }

    #[test]
    fn small_cases_have_their_own_words() {
        let say = |bytes: &[u8], offset, limit, cursor| {
            let output = page(bytes, &Ask { offset, limit, cursor });
            output.map_or_else(|e| e, |o| crate::transcript::message::join_text(&o.content))
        };
        assert_eq!(say(b"", 1, None, 0), "[The file is empty.]");
        assert_eq!(say(b"\xef\xbb\xbfa\r\nb", 1, None, 0), "a\nb\n\n[Lines 1-2 of 2.]");
        assert_eq!(say(b"a\nb\n", 3, None, 0), "offset 3 is past the end: it has 2 lines.");
        let one = say(b"a\nb\nc\n", 2, Some(1), 0);
        assert_eq!(one, "b\n\n[Lines 2-2 of 3. Continue with offset=3.]");
        assert!(say(b"ab", 1, None, 2).contains("cursor is past the end of the line of 2"));
        assert!(say(b"a\0\x1b[1m\xff", 1, None, 0).contains("[3 invalid or control bytes"));
    }
}
