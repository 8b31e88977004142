//! Frames on standard input.

use crate::base::limits::FRAME_BYTES_MAX;
use std::io::{BufRead, Read};

/// The thread that reads frames; the loop's full channel holds it back.
pub(super) fn read_frames(take: impl Fn(Option<String>) -> bool + Send + 'static) {
    let read = move || {
        let mut input = std::io::stdin().lock();
        let most = u64::try_from(FRAME_BYTES_MAX).unwrap_or(u64::MAX);
        loop {
            let mut line = Vec::new();
            match input.by_ref().take(most).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(n) if n == FRAME_BYTES_MAX && line.last() != Some(&b'\n') => {
                    // Where a frame ends is not known any more: nothing after it can be read.
                    eprintln!("stepclaw: a frame has more than {FRAME_BYTES_MAX} bytes");
                    break;
                }
                Ok(_) => {}
            }
            if !take(Some(String::from_utf8_lossy(&line).into_owned())) {
                return;
            }
        }
        take(None);
    };
    let _ = std::thread::Builder::new().name("stdin".into()).stack_size(256 * 1024).spawn(read);
}
