//! `stepclaw sim`: many seeds, with progress, and a verdict.

use super::replay::Replay;
use super::sabotage::Sabotage;
use super::world::Knobs;
use super::{run_seed, shrink};
use clap::Args;
use std::io::{IsTerminal, Write as _};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `sim`.
#[derive(Args, Debug)]
pub struct SimArgs {
    /// Which seeds, as FROM..TO
    #[arg(long, value_name = "FROM..TO", default_value = "0..1000", value_parser = range)]
    pub seeds: Range<u64>,
    /// Plant this fault: the run must fail
    #[arg(long, value_name = "NAME", value_enum)]
    pub sabotage: Option<Sabotage>,
    /// List the faults that can be planted, one a line
    #[arg(long)]
    pub list_sabotages: bool,
    /// Do not check invariants: only for measuring
    #[arg(long)]
    pub no_checks: bool,
    /// Play a replay file instead of seeds
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("expected FROM..TO, as 0..1000")?;
    let number = |t: &str| t.parse::<u64>().map_err(|e| format!("{t:?}: {e}"));
    let range = number(from)?..number(to)?;
    if range.is_empty() { Err("the range is empty".into()) } else { Ok(range) }
}

/// Runs the command; gives its exit status.
#[must_use]
pub fn run(args: &SimArgs) -> u8 {
    if args.list_sabotages {
        for sabotage in Sabotage::all() {
            println!("{}", sabotage.name());
        }
        return 0;
    }
    // A failing world panics by design; its words are shown once, with the replay.
    std::panic::set_hook(Box::new(|_| {}));
    match &args.replay {
        Some(path) => replay(path),
        None => seeds(args),
    }
}

fn replay(path: &std::path::Path) -> u8 {
    let read = std::fs::read_to_string(path).map_err(|e| e.to_string());
    let replay = match read.and_then(|text| Replay::read(&text)) {
        Ok(replay) => replay,
        Err(why) => {
            eprintln!("stepclaw: {}: {why}", path.display());
            return 2;
        }
    };
    match replay.play(true).failed {
        Some(why) => {
            println!("{why}\n0 passed, 1 failed");
            1
        }
        None => {
            println!("1 passed, 0 failed");
            0
        }
    }
}

fn seeds(args: &SimArgs) -> u8 {
    let start = Instant::now();
    let terminal = std::io::stderr().is_terminal();
    let total = args.seeds.end - args.seeds.start;
    let (mut steps, mut crashes, mut runs) = (0u64, 0u64, 0u64);
    let mut passed = 0u64;
    for seed in args.seeds.clone() {
        let outcome = run_seed(seed, !args.no_checks, args.sabotage);
        steps += outcome.stats.steps;
        crashes += outcome.stats.crashes;
        runs += outcome.stats.runs;
        if let Some(why) = outcome.failed {
            progress_end(terminal);
            println!("seed {seed} failed: {why}");
            let setup = outcome.setup;
            let knobs = Knobs { checks: true, sabotage: args.sabotage, setup };
            let moves = shrink(&outcome.moves, knobs, &why);
            println!("{} moves, shrunk to {}:\n", outcome.moves.len(), moves.len());
            let file = Replay { sabotage: args.sabotage, setup, moves };
            println!("{}", file.write(seed, &why));
            println!("{passed} passed, 1 failed");
            return 1;
        }
        passed += 1;
        if terminal && passed.is_multiple_of(500) {
            eprint!("\r{passed} of {total} seeds, {steps} steps, {crashes} crashes");
            let _ = std::io::stderr().flush();
        }
    }
    progress_end(terminal);
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{steps} steps, {runs} runs, {crashes} crashes in {seconds:.2} s: {:.0} steps a second",
        steps as f64 / seconds.max(1e-9)
    );
    println!("{passed} passed, 0 failed");
    0
}

fn progress_end(terminal: bool) {
    if terminal {
        eprint!("\r\x1b[K");
    }
}
