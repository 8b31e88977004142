//! The transition tables `spec/run.tsv`, `spec/reply.tsv`, `spec/batch.tsv`: every kind of state
//! with every kind of input, refusals included, printed from the code and compared with the file.
//! `UPDATE=1` writes the files anew; a row keeps its id as long as its state, input and guard stay.

use super::samples;
use crate::engine::{Act, Event, Record};
use crate::sim::render;
use std::collections::{BTreeMap, BTreeSet};

/// One row.
pub struct Row {
    pub state: String,
    pub input: String,
    pub guard: String,
    pub next: String,
    pub append: String,
    pub tell: String,
    pub act: String,
    pub refused: String,
}

impl Row {
    fn key(&self) -> [&str; 3] {
        [&self.state, &self.input, &self.guard]
    }

    fn line(&self, id: &str) -> String {
        let cells = [
            id,
            &self.state,
            &self.input,
            &self.guard,
            &self.next,
            &self.append,
            &self.tell,
            &self.act,
            &self.refused,
        ];
        cells.map(|c| if c.is_empty() { "-" } else { c }).join("\t")
    }
}

fn joined(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join("; ")
}

pub fn records(records: &[Record]) -> String {
    joined(records.iter().map(render::record))
}

pub fn events<'a>(events: impl IntoIterator<Item = &'a Event>) -> String {
    joined(events.into_iter().map(render::event))
}

pub fn acts<'a>(acts: impl IntoIterator<Item = &'a Act>) -> String {
    joined(acts.into_iter().map(render::act))
}

const HEAD: &str = "id\tstate\tinput\tguard\tnext\tappend\ttell\tact\trefused";

/// Prints the rows, keeping the ids of an older print.
fn print(rows: &[Row], prefix: char, old: &str) -> String {
    let mut ids: BTreeMap<[&str; 3], &str> = BTreeMap::new();
    let mut last = 0;
    for line in old.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        if let [id, state, input, guard, ..] = cells[..] {
            let dash = |c| if c == "-" { "" } else { c };
            ids.insert([state, input, dash(guard)], id);
            last = last.max(id[1..].parse().unwrap_or(0));
        }
    }
    let mut text = format!("{HEAD}\n");
    let mut printed = BTreeSet::new();
    for row in rows {
        assert!(printed.insert(row.key()), "two rows for {:?}", row.key());
        let id = ids.get(&row.key()).map_or_else(
            || {
                last += 1;
                format!("{prefix}{last:03}")
            },
            |id| (*id).to_owned(),
        );
        text.push_str(&row.line(&id));
        text.push('\n');
    }
    text
}

fn compare(name: &str, prefix: char, rows: &[Row]) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("spec").join(name);
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    let new = print(rows, prefix, &old);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &new).expect("the table can be written");
        return;
    }
    let pairs = old.lines().zip(new.lines());
    if let Some((before, now)) = pairs.into_iter().find(|(a, b)| a != b) {
        panic!("{name} is not what the code does.\nfile: {before}\ncode: {now}\nUPDATE=1 rewrites");
    }
    assert_eq!(old.lines().count(), new.lines().count(), "{name}: rows; UPDATE=1 rewrites it");
    eprintln!("{name}: {} rows", rows.len());
}

/// Every kind of state meets every kind of input.
fn complete(rows: &[Row], states: &[&str], inputs: &[&str]) {
    let head = |text: &str| text.split(',').next().unwrap_or(text).to_owned();
    let met: BTreeSet<(String, String)> =
        rows.iter().map(|r| (head(&r.state), r.input.clone())).collect();
    for state in states {
        for input in inputs {
            let pair = ((*state).to_owned(), (*input).to_owned());
            assert!(met.contains(&pair), "no row for {state} and {input}");
        }
    }
    for (state, input) in &met {
        assert!(states.contains(&state.as_str()), "{state} is no kind of state");
        assert!(inputs.contains(&input.as_str()), "{input} is no kind of input");
    }
}

#[test]
fn run_table() {
    let rows = samples::run::rows();
    complete(&rows, &samples::run::STATES, &samples::run::INPUTS);
    compare("run.tsv", 'R', &rows);
}

#[test]
fn reply_table() {
    let rows = samples::reply::rows();
    complete(&rows, &samples::reply::STATES, &samples::reply::INPUTS);
    compare("reply.tsv", 'A', &rows);
}

#[test]
fn batch_table() {
    let rows = samples::batch::rows();
    complete(&rows, &samples::batch::STATES, &samples::batch::INPUTS);
    compare("batch.tsv", 'T', &rows);
}

#[test]
fn ids_are_kept_by_key() {
    let row = |state: &str| Row {
        state: state.into(),
        input: "Tick".into(),
        guard: String::new(),
        next: "Idle".into(),
        append: String::new(),
        tell: String::new(),
        act: String::new(),
        refused: String::new(),
    };
    let first = print(&[row("A"), row("B")], 'R', "");
    assert_eq!(first.lines().nth(2).map(|l| &l[..4]), Some("R002"));
    let again = print(&[row("C"), row("B")], 'R', &first);
    let ids: Vec<&str> = again.lines().skip(1).map(|l| &l[..4]).collect();
    assert_eq!(ids, ["R003", "R002"]);
}
