//! The body of a request as it comes in: of a known length, or chunked (H5).

use super::fault::Refused;
use super::limits::{
    CHUNK_DIGITS_MAX, CHUNK_EXTENSION_BYTES_MAX as EXTENSION_MAX, TRAILER_BYTES_MAX,
};

/// What the head says about the body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Length {
    Known(usize),
    Chunked,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Bytes whose number the head has told.
    Plain,
    /// Digits of a chunk's size.
    Size {
        digits: u8,
    },
    Extension,
    SizeEnd,
    Data,
    /// CR, then LF behind a chunk.
    DataEnd {
        cr: bool,
    },
    /// The start of a line behind the last chunk.
    Trailer,
    TrailerName,
    TrailerValue,
    TrailerEnd,
    /// LF of the blank line.
    LastEnd,
    Done,
}

/// A body that is coming in.
#[derive(Debug)]
pub(super) struct Body {
    data: Vec<u8>,
    part: Part,
    /// Bytes that are missing from what is being read, or the size that is being read.
    left: usize,
    /// Bytes of extensions, and of trailers.
    extra: usize,
    /// Most bytes of data.
    max: usize,
    /// Bytes read, as they are on the wire.
    read: u64,
}

impl Body {
    pub(super) fn new(length: Length, max: usize) -> Body {
        let (part, left) = match length {
            Length::Known(0) => (Part::Done, 0),
            Length::Known(left) => (Part::Plain, left),
            Length::Chunked => (Part::Size { digits: 0 }, 0),
        };
        Body { data: Vec::new(), part, left, extra: 0, max, read: 0 }
    }

    /// Lowers what the body may have.
    pub(super) fn lower(&mut self, max: usize) {
        self.max = self.max.min(max);
    }

    pub(super) fn read(&self) -> u64 {
        self.read
    }

    pub(super) fn is_done(&self) -> bool {
        self.part == Part::Done
    }

    pub(super) fn into_data(self) -> Vec<u8> {
        self.data
    }

    #[cfg(any(test, fuzzing, feature = "sim"))]
    pub(super) fn heap(&self) -> usize {
        self.data.capacity()
    }

    /// What is announced fits.
    pub(super) fn check(&self) -> Result<(), Refused> {
        let announced = matches!(self.part, Part::Plain | Part::Data);
        if announced && self.data.len().saturating_add(self.left) > self.max {
            return Err(Refused::BodyLong { max: self.max });
        }
        Ok(())
    }

    /// Takes what belongs to the body; says how many bytes those were.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, Refused> {
        let mut at = 0;
        while at < bytes.len() && self.part != Part::Done {
            if matches!(self.part, Part::Plain | Part::Data) {
                let n = self.left.min(bytes.len() - at);
                self.data.extend_from_slice(&bytes[at..at + n]);
                self.left -= n;
                self.read += n as u64;
                at += n;
                if self.left == 0 {
                    let chunked = self.part == Part::Data;
                    self.part = if chunked { Part::DataEnd { cr: false } } else { Part::Done };
                }
            } else {
                self.part = self.step(bytes[at])?;
                self.read += 1;
                at += 1;
                self.check()?;
            }
        }
        Ok(at)
    }

    /// One byte between the data.
    fn step(&mut self, byte: u8) -> Result<Part, Refused> {
        self.count()?;
        match (self.part, byte) {
            (Part::Size { digits }, _) if byte.is_ascii_hexdigit() => {
                if digits == CHUNK_DIGITS_MAX {
                    return self.bad("a size with too many digits");
                }
                let digit = char::from(byte).to_digit(16).unwrap_or(0) as usize;
                self.left = self.left * 16 + digit;
                Ok(Part::Size { digits: digits + 1 })
            }
            (Part::Size { digits: 1.. } | Part::Extension, b'\r') => Ok(Part::SizeEnd),
            (Part::Size { digits: 1.. }, b';') => Ok(Part::Extension),
            (Part::Size { .. }, _) => self.bad("no size"),
            (Part::SizeEnd, b'\n') if self.left == 0 => {
                self.extra = 0;
                Ok(Part::Trailer)
            }
            (Part::SizeEnd, b'\n') => Ok(Part::Data),
            (Part::DataEnd { cr: false }, b'\r') => Ok(Part::DataEnd { cr: true }),
            (Part::DataEnd { cr: true }, b'\n') => Ok(Part::Size { digits: 0 }),
            (Part::DataEnd { .. }, _) => self.bad("a chunk that is longer than its size"),
            (Part::Trailer, b'\r') => Ok(Part::LastEnd),
            (Part::LastEnd, b'\n') => Ok(Part::Done),
            (Part::TrailerName, b':') => Ok(Part::TrailerValue),
            (Part::TrailerValue, b'\r') => Ok(Part::TrailerEnd),
            (Part::TrailerEnd, b'\n') => Ok(Part::Trailer),
            (Part::SizeEnd | Part::TrailerEnd | Part::LastEnd, _) => {
                self.bad("a line break that is not CR LF")
            }
            (Part::Extension | Part::TrailerValue, _) if byte == b'\t' || is_text(byte) => {
                Ok(self.part)
            }
            (Part::Trailer | Part::TrailerName, _) if is_token(byte) => Ok(Part::TrailerName),
            (Part::Extension, _) => self.bad("a control character in an extension"),
            (Part::Trailer | Part::TrailerName | Part::TrailerValue, _) => self.bad("no trailer"),
            (Part::Plain | Part::Data | Part::Done, _) => Ok(self.part),
        }
    }

    /// Counts what is read and forgotten.
    fn count(&mut self) -> Result<(), Refused> {
        match self.part {
            Part::Extension => {
                self.extra += 1;
                if self.extra > EXTENSION_MAX {
                    return self.bad("too long extensions").map(|_| ());
                }
            }
            Part::Trailer | Part::TrailerName | Part::TrailerValue | Part::TrailerEnd => {
                self.extra += 1;
                if self.extra > TRAILER_BYTES_MAX {
                    return Err(Refused::TrailersLong);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn bad(&self, what: &'static str) -> Result<Part, Refused> {
        Err(Refused::Chunk { what, at: self.read })
    }
}

fn is_text(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f
}

/// What names are made of (RFC 9110, 5.6.2).
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
