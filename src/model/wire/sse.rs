//! Server-sent events: bytes in, events out (spec/model.md M1).
//!
//! ```text
//! bytes -> lines (CR, LF, CRLF) -> fields (data, event, id, retry, comment) -> events
//! ```
//!
//! Lines that lie whole in the fed slice are read in place; only a line cut by the end of a slice
//! is kept. Nothing is scanned twice, and text is never decoded before its line is complete.

use crate::base::limits::STREAM_LINE_BYTES_MAX;

/// What the splitter found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// A comment: the peer lives, but nothing was said.
    Alive,
    /// An event.
    Event {
        /// Value of its `event` field; empty where there was none.
        name: &'a [u8],
        /// Its `data` lines, joined by line feeds.
        data: &'a [u8],
    },
    /// A line that belongs to no event stream.
    Foreign(&'a [u8]),
}

/// A line, or the data of one event, longer than [`STREAM_LINE_BYTES_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a line of the event stream is longer than {STREAM_LINE_BYTES_MAX} bytes")]
pub struct TooLong;

/// The splitter's state between two slices.
#[derive(Debug, Default)]
pub struct Splitter {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// Data lines of the open event.
    data: Vec<u8>,
    /// `event` field of the open event.
    name: Vec<u8>,
    /// Whether the open event has any field.
    open: bool,
    /// Whether the open event has a data line.
    has_data: bool,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    /// A line has been read, so a byte order mark can no longer come.
    begun: bool,
    /// A data line with exactly this content is an event of its own, at once: a peer that says
    /// its last word need not send the blank line behind it.
    last_word: &'static [u8],
}

impl Splitter {
    /// A splitter at the start of a stream. `last_word` is a data line that ends it.
    #[must_use]
    pub fn new(last_word: &'static [u8]) -> Splitter {
        Splitter { last_word, ..Splitter::default() }
    }

    /// Reads the next bytes. `sink` is called for each frame and says whether to go on.
    ///
    /// # Errors
    /// [`TooLong`] when a bound is passed; the stream cannot be read any further.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        sink: &mut dyn FnMut(Frame<'_>) -> bool,
    ) -> Result<(), TooLong> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            if bytes[0] == b'\n' {
                bytes = &bytes[1..];
            }
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            let cr = bytes[end] == b'\r';
            bytes = match rest.first() {
                Some(b'\n') if cr => &rest[1..],
                Some(_) => rest,
                None => {
                    self.after_cr = cr;
                    rest
                }
            };
            if !self.take(line, sink)? {
                return Ok(());
            }
        }
        self.keep(bytes)
    }

    /// Reads what is left when the stream has ended: a last line and event without their ends.
    ///
    /// # Errors
    /// [`TooLong`] when a bound is passed.
    pub fn close(&mut self, sink: &mut dyn FnMut(Frame<'_>) -> bool) -> Result<(), TooLong> {
        if !self.line.is_empty() && !self.take(&[], sink)? {
            return Ok(());
        }
        self.dispatch(sink);
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > STREAM_LINE_BYTES_MAX {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// One line whose end has come; its beginning may have been kept.
    fn take(
        &mut self,
        tail: &[u8],
        sink: &mut dyn FnMut(Frame<'_>) -> bool,
    ) -> Result<bool, TooLong> {
        if self.line.is_empty() {
            if tail.len() > STREAM_LINE_BYTES_MAX {
                return Err(TooLong);
            }
            return self.on_line(tail, sink);
        }
        self.keep(tail)?;
        let mut whole = std::mem::take(&mut self.line);
        let more = self.on_line(&whole, sink)?;
        // The buffer is used again, unless one huge line made it huge.
        if whole.capacity() <= 64 * 1024 {
            whole.clear();
            self.line = whole;
        }
        Ok(more)
    }

    fn on_line(
        &mut self,
        line: &[u8],
        sink: &mut dyn FnMut(Frame<'_>) -> bool,
    ) -> Result<bool, TooLong> {
        let line = match line.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) if !self.begun => rest,
            _ => line,
        };
        self.begun = true;
        if line.is_empty() {
            return Ok(self.dispatch(sink));
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"" => return Ok(sink(Frame::Alive)),
            b"data" if value == self.last_word && !value.is_empty() && !self.has_data => {
                self.reset();
                return Ok(sink(Frame::Event { name: b"", data: value }));
            }
            b"data" => {
                if self.data.len() + value.len() >= STREAM_LINE_BYTES_MAX {
                    return Err(TooLong);
                }
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            b"id" | b"retry" => {}
            _ => return Ok(sink(Frame::Foreign(line))),
        }
        self.open = true;
        Ok(true)
    }

    fn dispatch(&mut self, sink: &mut dyn FnMut(Frame<'_>) -> bool) -> bool {
        if !self.open {
            return true;
        }
        let more = sink(Frame::Event { name: &self.name, data: &self.data });
        self.reset();
        more
    }

    fn reset(&mut self) {
        if self.data.capacity() > 64 * 1024 {
            self.data = Vec::new();
        }
        self.data.clear();
        self.name.clear();
        self.open = false;
        self.has_data = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<String> {
        let mut splitter = Splitter::new(b"[DONE]");
        let mut seen = Vec::new();
        let mut sink = |frame: Frame<'_>| {
            seen.push(match frame {
                Frame::Alive => "alive".to_owned(),
                Frame::Foreign(line) => format!("foreign {}", String::from_utf8_lossy(line)),
                Frame::Event { name, data } => {
                    let (name, data) =
                        (String::from_utf8_lossy(name), String::from_utf8_lossy(data));
                    format!("{name}|{data}")
                }
            });
            true
        };
        for chunk in chunks {
            splitter.feed(chunk, &mut sink).unwrap();
        }
        splitter.close(&mut sink).unwrap();
        seen
    }

    /// M1, B082: CRLF pairs end lines, whole and byte by byte, and an event is out as soon as its
    /// blank line is complete.
    #[test]
    fn b082_crlf_splits_like_lf() {
        let bytes = b"data: {\"n\":1}\r\n\r\ndata: {\"n\":2}\r\n\r\n";
        let want = ["|{\"n\":1}", "|{\"n\":2}"];
        assert_eq!(split(&[bytes]), want);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(split(&single), want);
        // A pair cut in two is one line end, not a blank line.
        let lines: Vec<&[u8]> = b"data: a\r\ndata: b\r\n\r\n".chunks(1).collect();
        assert_eq!(split(&lines), ["|a\nb"]);
        let mut splitter = Splitter::new(b"[DONE]");
        let mut count = 0;
        splitter
            .feed(b"data: x\r\n\r", &mut |_| {
                count += 1;
                true
            })
            .unwrap();
        assert_eq!(count, 1);
    }

    /// M1, B084: the blank behind the colon is optional; comments and bare fields do no harm.
    #[test]
    fn b084_fields_without_a_blank() {
        let seen = split(&[b"event:delta\ndata:{\"x\":1}\n\n: keep-alive\n\ndata\n\n"]);
        assert_eq!(seen, ["delta|{\"x\":1}", "alive", "|"]);
    }

    /// M1, B097: an event without a data line is still an event.
    #[test]
    fn b097_event_without_data() {
        assert_eq!(split(&[b"event: error\nid: 77\nretry: 500\n\n"]), ["error|"]);
    }

    /// M1: byte order mark, lone CRs, several data lines, a missing end, foreign lines.
    #[test]
    fn odd_streams_split_the_same_everywhere() {
        let bytes = b"\xef\xbb\xbfdata: a\rdata: b\r\r<html>\n\ndata: [DONE]\n";
        let want = ["|a\nb", "foreign <html>", "|[DONE]"];
        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            assert_eq!(split(&[left, right]), want, "cut at {cut}");
        }
        assert_eq!(split(&[b"data: tail"]), ["|tail"]);
    }

    /// M1: a line over the bound is an error, however it is cut.
    #[test]
    fn a_line_over_the_bound_is_refused() {
        let line = vec![b'x'; STREAM_LINE_BYTES_MAX + 1];
        let mut splitter = Splitter::new(b"[DONE]");
        let mut result = Ok(());
        for piece in line.chunks(1 << 20) {
            result = result.and_then(|()| splitter.feed(piece, &mut |_| true));
        }
        assert_eq!(result, Err(TooLong));
    }
}
