//! SHA-256 over named parts: what stands for a thing where the thing itself is too long.

use super::id::hex;

/// A digest that is being made. Parts are told apart by their lengths: two lists of parts have the
/// same digest only if they are the same list.
pub struct Digest(ring::digest::Context);

impl Default for Digest {
    fn default() -> Digest {
        Digest::new()
    }
}

impl Digest {
    /// Of nothing yet.
    #[must_use]
    pub fn new() -> Digest {
        Digest(ring::digest::Context::new(&ring::digest::SHA256))
    }

    /// With one more part.
    #[must_use]
    pub fn part(mut self, bytes: impl AsRef<[u8]>) -> Digest {
        let bytes = bytes.as_ref();
        self.0.update(&(bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
        self
    }

    /// All 64 hexadecimal digits.
    #[must_use]
    pub fn hex(self) -> String {
        hex(self.0.finish().as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart() {
        let of = |parts: &[&str]| parts.iter().fold(Digest::new(), Digest::part).hex();
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        let others: [&[&str]; 4] = [&["a", "bc"], &["abc"], &["ab", "c", ""], &[]];
        assert!(others.iter().all(|other| of(other) != of(&["ab", "c"])));
        assert_eq!(of(&["ab"]).len(), 64);
    }
}
