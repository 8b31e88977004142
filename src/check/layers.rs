//! `spec/layers.tsv`: which file may name which module and which crate. Reads the sources.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One line of the table. The longest prefix that fits a file decides.
struct Layer {
    files: String,
    kind: String,
    modules: BTreeSet<String>,
    crates: BTreeSet<String>,
}

/// What only files of a kind other than pure may name.
const IMPURE: [&str; 4] = ["Instant", "SystemTime", "HashMap", "HashSet"];

/// Modules of the standard library that pure files may not name.
const OUTSIDE: [&str; 6] = ["fs", "net", "process", "thread", "env", "os"];

/// Crates with one home each.
const HOMES: [(&str, &[&str]); 3] = [
    ("rusqlite", &["src/store/"]),
    ("ureq", &["src/model/http"]),
    // A started child's pipes are polled where it is awaited.
    ("mio", &["src/reactor/", "src/tools/run/process.rs"]),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file below a folder, as paths from the root.
pub fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    gather(&root().join(folder), &mut found);
    found.sort();
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}

fn gather(folder: &Path, found: &mut Vec<(String, String)>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() && !path.ends_with("target") {
            gather(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let name = path.strip_prefix(root()).expect("below the root");
            let text = std::fs::read_to_string(&path).expect("a readable source");
            found.push((name.to_string_lossy().into_owned(), text));
        }
    }
}

fn words(cell: &str) -> BTreeSet<String> {
    cell.split_whitespace().filter(|w| *w != "-").map(str::to_owned).collect()
}

fn table() -> Vec<Layer> {
    let text = std::fs::read_to_string(root().join("spec/layers.tsv")).expect("spec/layers.tsv");
    let mut layers = Vec::new();
    for line in text.lines().skip(1).filter(|l| !l.is_empty()) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [files, kind, modules, crates] = cells[..] else { panic!("four cells: {line}") };
        assert!(["pure", "blocking", "edge", "face", "tests"].contains(&kind), "{line}");
        layers.push(Layer {
            files: files.to_owned(),
            kind: kind.to_owned(),
            modules: words(modules),
            crates: words(crates),
        });
    }
    layers
}

fn layer<'a>(layers: &'a [Layer], file: &str) -> Option<&'a Layer> {
    layers.iter().filter(|l| file.starts_with(&l.files)).max_by_key(|l| l.files.len())
}

/// The source without comments, strings and the tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let mut quoted = false;
        let mut before = ' ';
        for (i, c) in line.char_indices() {
            if !quoted && line[i..].starts_with("//") {
                break;
            }
            if c == '"' && before != '\\' && before != '\'' {
                quoted = !quoted;
            }
            if !quoted {
                out.push(c);
            }
            before = c;
        }
        out.push('\n');
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What a source names below a root: `crate::x`, and each of `crate::{x, y}`.
fn named(code: &str, root: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(root) {
        let rest = &code[at + root.len()..];
        if let Some(list) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            let mut head = true;
            for c in list.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        found.insert(std::mem::take(&mut word));
                        head = true;
                    }
                    c if is_word(c) && depth == 0 && head => word.push(c),
                    ':' if depth == 0 => head = false,
                    _ => {}
                }
            }
            found.insert(word);
        } else {
            found.insert(rest.chars().take_while(|c| is_word(*c)).collect());
        }
    }
    found.remove("");
    found
}

/// What a file does against its line of the table.
fn faults(layers: &[Layer], crates: &BTreeSet<String>, file: &str, text: &str) -> Vec<String> {
    let Some(layer) = layer(layers, file) else { return vec![format!("{file}: in no layer")] };
    let code = code(text);
    let mut faults = Vec::new();
    let own = file.split('/').nth(1).unwrap_or_default().trim_end_matches(".rs").to_owned();
    for module in named(&code, "crate::") {
        let starts_low = module.starts_with(|c: char| c.is_lowercase());
        let fine = module == own || layer.modules.contains("*") || layer.modules.contains(&module);
        if starts_low && !fine {
            faults.push(format!("{file}: may not name crate::{module}"));
        }
    }
    for name in crates {
        let named = code.match_indices(&format!("{name}::")).any(|(at, _)| {
            let before = code[..at].chars().next_back();
            !before.is_some_and(|c| is_word(c) || c == ':')
        });
        let home = HOMES.iter().find(|(krate, _)| krate == name);
        let away = home.is_some_and(|(_, home)| !home.iter().any(|h| file.starts_with(h)));
        if named && away {
            faults.push(format!("{file}: {name} has another home"));
        } else if named && !layer.crates.contains("*") && !layer.crates.contains(name) {
            faults.push(format!("{file}: may not name the crate {name}"));
        }
    }
    let pure = layer.kind == "pure";
    for name in named(&code, "std::").iter().filter(|n| pure && OUTSIDE.contains(&n.as_str())) {
        faults.push(format!("{file}: is pure and names std::{name}"));
    }
    for name in IMPURE.iter().filter(|_| pure) {
        let whole = code.match_indices(name).any(|(at, _)| {
            let after = code[at + name.len()..].chars().next();
            let before = code[..at].chars().next_back();
            !after.is_some_and(is_word) && !before.is_some_and(is_word)
        });
        if whole {
            faults.push(format!("{file}: is pure and names {name}"));
        }
    }
    faults
}

/// Names of the crates that the package depends on, as paths spell them.
fn dependencies() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let from = text.find("[dependencies]").expect("dependencies");
    let rest = &text[from..];
    let to = rest.find("[[test]]").unwrap_or(rest.len());
    let name = |line: &str| line.split_once(" = ").map(|(n, _)| n.trim().replace('-', "_"));
    rest[..to].lines().filter_map(name).collect()
}

#[test]
fn every_arrow_is_allowed() {
    let (layers, crates) = (table(), dependencies());
    assert!(crates.contains("rusqlite") && crates.contains("serde_json"), "{crates:?}");
    let mut files = sources("src");
    files.retain(|(file, _)| !file.ends_with("/tests.rs"));
    let faults: Vec<String> =
        files.iter().flat_map(|(file, text)| faults(&layers, &crates, file, text)).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    for layer in &layers {
        let used = files.iter().any(|(file, _)| file.starts_with(&layer.files));
        assert!(used, "spec/layers.tsv: {} fits no file", layer.files);
    }
}

#[test]
fn a_wrong_arrow_is_seen() {
    let (layers, crates) = (table(), dependencies());
    let wrong = [
        ("src/engine/made_up.rs", "use crate::store::Writer;"),
        ("src/engine/made_up.rs", "use crate::{base::Millis, reactor::{Seat, x}, engine::Run};"),
        ("src/engine/made_up.rs", "fn f() { let x = std::time::Instant::now(); }"),
        ("src/engine/made_up.rs", "use std::{fmt, fs};"),
        ("src/transcript/made_up.rs", "use std::{collections::HashMap, sync::Arc};"),
        ("src/model/wire/made_up.rs", "use ureq::Agent;"),
        ("src/cli/made_up.rs", "let db = rusqlite::Connection::open(x);"),
        ("src/tools/made_up.rs", "use crate::model::http;"),
        ("src/engine/made_up.rs", "fn f() { std::fs::read(x) }"),
        ("src/nowhere/made_up.rs", ""),
    ];
    for (file, text) in wrong {
        assert!(!faults(&layers, &crates, file, text).is_empty(), "{file}: {text}");
    }
    let right = "//! crate::store\nuse crate::base::Millis; // rusqlite::x\nlet s = \"ureq::x\";";
    assert_eq!(faults(&layers, &crates, "src/engine/made_up.rs", right), Vec::<String>::new());
}
