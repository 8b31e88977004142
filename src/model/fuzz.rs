//! Fuzzing entry of the stream decoder: however the bytes are cut, the reply is the same.

use super::wire::openai::{Decoder, Ended, Meta, Progress};
use super::wire::{Delta, End, push_delta};
use crate::base::Millis;

/// Decodes `stream`, cut after each of the given lengths in turn; a length of 0 means the rest.
#[must_use]
pub fn decode(stream: &[u8], cuts: &[usize], why: Ended) -> (Vec<Delta>, End) {
    let mut decoder = Decoder::new(Meta { provider: "p".into(), model: "m".into() });
    let (mut merged, mut deltas) = (Vec::new(), Vec::new());
    let (mut rest, mut turn) = (stream, 0);
    while !rest.is_empty() {
        let cut = cuts.get(turn % cuts.len().max(1)).copied().unwrap_or(0);
        let cut = if cut == 0 { rest.len() } else { cut.min(rest.len()) };
        let progress = decoder.feed(&rest[..cut], &mut deltas);
        deltas.drain(..).for_each(|delta| push_delta(&mut merged, delta));
        if progress == Progress::Complete {
            break;
        }
        rest = &rest[cut..];
        turn += 1;
    }
    let end = decoder.finish(why, Millis(1), &mut deltas);
    deltas.drain(..).for_each(|delta| push_delta(&mut merged, delta));
    (merged, end)
}

/// The first bytes choose the cuts and the end, the others are the stream.
///
/// # Panics
/// When a rule is broken; that is what a fuzzer looks for.
pub fn fuzz_stream(data: &[u8]) {
    let Some((head, stream)) = data.split_at_checked(5) else { return };
    let why = match head[0] % 3 {
        0 => Ended::Closed,
        1 => Ended::Cut("reset".into()),
        _ => Ended::Aborted("stop".into()),
    };
    let cuts: Vec<usize> = head[1..].iter().map(|cut| usize::from(*cut % 61) + 1).collect();
    let whole = decode(stream, &[], why.clone());
    let split = decode(stream, &cuts, why.clone());
    assert_eq!(whole, split);
    assert_eq!(whole, decode(stream, &[1], why));
    let starts = whole.0.iter().filter(|delta| **delta == Delta::Start).count();
    assert!(starts <= 1);
    assert!(starts == 0 || whole.0.first() == Some(&Delta::Start));
    match &whole.1 {
        End::Done(finished) => assert!(!finished.message.failed()),
        End::Failed(_, message) => {
            assert!(message.failed());
            assert_eq!(message.calls().count(), 0);
        }
    }
}
