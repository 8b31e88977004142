//! The built program as a user starts it, from exec to exit, beside a program that does nothing;
//! turns against a model server on this machine; warm turns in a short and a long conversation.
//! Sync mode and number of syncs stand beside each figure.

#[path = "mock.rs"]
mod mock;
#[path = "warm.rs"]
mod warm;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const PROGRAM: &str = env!("CARGO_BIN_EXE_stepclaw");
const ROUNDS: usize = 40;

fn median(mut times: Vec<f64>) -> (f64, f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[0], times[times.len() / 2], times[times.len() - 1])
}

fn report(what: &str, times: Vec<f64>, bar: &str) {
    let (min, median, max) = median(times);
    println!("{what:52} {median:8.2} ms (min {min:.2}, max {max:.2})   {bar}");
}

/// Milliseconds from start to exit.
fn once(command: &mut Command) -> f64 {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().expect("the program starts");
    let ms = start.elapsed().as_secs_f64() * 1_000.0;
    assert!(status.success(), "{command:?}: {status}");
    ms
}

fn program(state: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).env("STEPCLAW_STATE_DIR", state).env_remove("STEPCLAW_CONFIG_PATH");
    command
}

fn config(state: &Path, sync: &str, url: Option<&str>) {
    let models = url.map_or(String::new(), |url| {
        format!(
            "models: {{ providers: {{ mock: {{
               baseUrl: \"{url}\", models: [{{ id: \"m\" }}] }} }} }},
             agents: {{ defaults: {{ model: \"mock/m\" }} }},"
        )
    });
    let text = format!("{{ {models} store: {{ synchronous: \"{sync}\" }} }}");
    std::fs::write(state.join("stepclaw.json"), text).expect("the config is written");
}

fn rounds(mut one: impl FnMut() -> f64) -> Vec<f64> {
    one();
    (0..ROUNDS).map(|_| one()).collect()
}

/// Peak memory in KiB, through the shell's `time`, where it is installed.
fn peak_kib(state: &Path, args: &[&str]) -> Option<u64> {
    let mut command = Command::new("/usr/bin/time");
    command.args(["-f", "%M", PROGRAM]).args(args).env("STEPCLAW_STATE_DIR", state);
    let output = command.stdout(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&output.stderr).lines().last()?.trim().parse().ok()
}

/// How often the program asked the disk to keep what it has, where `strace` is installed.
fn syncs(state: &Path, args: &[&str]) -> Option<usize> {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=fsync,fdatasync", PROGRAM]).args(args);
    let output = command.env("STEPCLAW_STATE_DIR", state).output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(text.lines().filter(|l| l.contains("sync(")).count())
}

fn known<T: std::fmt::Display>(value: Option<T>, unit: &str) -> String {
    value.map_or("not measured here".into(), |v| format!("{v} {unit}"))
}

fn starts() {
    report(
        "a program that does nothing (the baseline)",
        rounds(|| once(&mut Command::new("true"))),
        "",
    );
    let state = tempfile::tempdir().expect("a directory");
    let state = state.path();
    report("--version", rounds(|| once(&mut program(state, &["--version"]))), "bar: 2 ms");
    let say = ["agent", "--local", "-m", "say 5 words"];
    for (sync, bar) in [("normal", "bar: 5 ms"), ("full", "reported")] {
        config(state, sync, None);
        let what = format!("offline turn, existing directory, {}", sync.to_uppercase());
        report(&what, rounds(|| once(&mut program(state, &say))), bar);
        println!("    syncs: {}", known(syncs(state, &say), ""));
        let fresh = || {
            let state = tempfile::tempdir().expect("a directory");
            config(state.path(), sync, None);
            once(&mut program(state.path(), &say))
        };
        report(
            &format!("offline turn, fresh directory, {}", sync.to_uppercase()),
            rounds(fresh),
            "reported",
        );
    }
    println!("peak memory, offline turn: {}   bar: 8192 KiB", known(peak_kib(state, &say), "KiB"));
}

fn served() {
    let server = mock::Server::start();
    let state = tempfile::tempdir().expect("a directory");
    let state = state.path();
    for sync in ["normal", "full"] {
        config(state, sync, Some(&server.url()));
        let mode = sync.to_uppercase();
        let text = ["agent", "-m", "hello"];
        let bar = if sync == "normal" { "bar: 10 ms" } else { "reported" };
        report(
            &format!("text turn over HTTP, {mode}"),
            rounds(|| once(&mut program(state, &text))),
            bar,
        );
        let tool = ["agent", "-m", "TOOL"];
        let bar = if sync == "normal" { "bar: 18 ms" } else { "reported" };
        server.forget();
        report(
            &format!("tool turn over HTTP, {mode}"),
            rounds(|| once(&mut program(state, &tool))),
            bar,
        );
        let bar = if sync == "normal" { "bar: 1 ms" } else { "syncs included" };
        report(&format!("last byte to next request, {mode} (read)"), server.gaps_ms(), bar);
    }
    println!(
        "peak memory, HTTP turn: {}",
        known(peak_kib(state, &["agent", "-m", "hello"]), "KiB")
    );
}

fn main() {
    starts();
    served();
    warm::main();
}
