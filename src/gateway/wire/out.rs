//! What waits to be written: own bytes in pieces, and shared ones that are not copied.

use super::limits::PIECE_BYTES;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug)]
enum Piece {
    Own(Vec<u8>),
    Shared(Arc<[u8]>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Own(bytes) => bytes,
            Piece::Shared(bytes) => bytes,
        }
    }
}

/// A queue of bytes. No piece in it is empty.
#[derive(Debug, Default)]
pub(super) struct Out {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that have been written.
    at: usize,
    /// Bytes that wait.
    len: usize,
    /// Bytes that were ever written.
    written: u64,
}

impl Out {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the queue ends, counted from the connection's first byte.
    pub(super) fn end(&self) -> u64 {
        self.written + self.len as u64
    }

    /// How far it has been written, counted likewise.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn copy(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.len += bytes.len();
        if let Some(Piece::Own(last)) = self.pieces.back_mut()
            && last.len() + bytes.len() <= PIECE_BYTES
        {
            // Twice as much each time, but never more than a piece.
            if last.capacity() - last.len() < bytes.len() {
                last.reserve_exact(last.len().max(bytes.len()).min(PIECE_BYTES - last.len()));
            }
            last.extend_from_slice(bytes);
            return;
        }
        self.pieces.push_back(Piece::Own(bytes.to_vec()));
    }

    pub(super) fn share(&mut self, bytes: &Arc<[u8]>) {
        if !bytes.is_empty() {
            self.len += bytes.len();
            self.pieces.push_back(Piece::Shared(Arc::clone(bytes)));
        }
    }

    pub(super) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let at = self.at;
        let bytes = self.pieces.iter().map(Piece::bytes);
        bytes.enumerate().map(move |(i, bytes)| if i == 0 { &bytes[at..] } else { bytes })
    }

    /// The first `n` bytes are gone.
    pub(super) fn advance(&mut self, mut n: usize) {
        assert!(n <= self.len, "{n} bytes written of {}", self.len);
        self.len -= n;
        self.written += n as u64;
        while let Some(first) = self.pieces.front() {
            let left = first.bytes().len() - self.at;
            if n < left {
                self.at += n;
                return;
            }
            n -= left;
            self.at = 0;
            self.pieces.pop_front();
        }
        // Nothing waits: an idle connection keeps no memory for it.
        self.pieces = VecDeque::new();
    }

    /// Gives everything up.
    pub(super) fn clear(&mut self) {
        *self = Out { written: self.written, ..Out::default() };
    }

    /// Bytes of memory that this connection alone holds.
    #[cfg(any(test, fuzzing, feature = "sim"))]
    pub(super) fn heap(&self) -> usize {
        let own = |piece: &Piece| match piece {
            Piece::Own(bytes) => bytes.capacity(),
            Piece::Shared(_) => 0,
        };
        self.pieces.iter().map(own).sum::<usize>()
            + self.pieces.capacity() * std::mem::size_of::<Piece>()
    }
}
