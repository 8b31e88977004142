//! `stepclaw replay`: a journal through the engine again.

use super::args::ReplayArgs;
use super::{Done, FAILED, Failed, USAGE, print_all};
use crate::reactor::journal::{ReplayError, replay};

pub(super) fn run(args: &ReplayArgs) -> Done {
    let path = args.journal.display();
    let bytes =
        std::fs::read(&args.journal).map_err(|e| Failed::new(USAGE, format!("{path}: {e}")))?;
    match replay(&bytes) {
        Ok(found) => {
            let end = if found.ended { "the run ended" } else { "the run had not ended" };
            let torn = found.torn_at.map_or(String::new(), |byte| {
                format!("; the last line is cut off at byte {byte} and was left out")
            });
            let text = format!(
                "replayed {} inputs ({} refused), {} transcript bytes identical, {end}{torn}\n",
                found.inputs, found.refused, found.bytes
            );
            print_all(text.as_bytes())
        }
        Err(error @ (ReplayError::NoHead(_) | ReplayError::Version(_))) => {
            Err(Failed::new(USAGE, format!("{path}: {error}")))
        }
        Err(error) => Err(Failed::new(FAILED, format!("{path}: {error}"))),
    }
}
