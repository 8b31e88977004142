//! Style as a test: widths, lengths, left-overs, orphaned snapshots, dead links.

use super::layers::sources;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const COLUMNS_MAX: usize = 100;
const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

/// Lines that a text makes wide: a part of each.
const WIDE_LINES: [(&str, &str); 3] = [
    ("src/store/error.rs", "#[error(\""),
    ("src/transcript/message.rs", "let want = r"),
    ("src/transcript/outcome.rs", "LOOP_END: &str = \""),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn is_test(file: &str) -> bool {
    file.starts_with("src/check/")
        || file.starts_with("spec/")
        || file.ends_with("/tests.rs")
        || file.contains("/tests/")
}

fn all() -> Vec<(String, String)> {
    let mut files = sources("src");
    files.extend(sources("spec"));
    if root().join("fuzz").is_dir() {
        files.extend(sources("fuzz"));
    }
    files
}

/// The part of a source before the tests at its end.
fn body(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text)
}

/// What is wrong with one source.
fn faults(file: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let wide = line.chars().count();
        let excused = WIDE_LINES.iter().any(|(f, part)| *f == file && line.contains(part));
        if wide > COLUMNS_MAX && !excused {
            faults.push(format!("{file}:{}: {wide} columns", n + 1));
        }
        if line.ends_with(' ') || line.contains('\t') {
            faults.push(format!("{file}:{}: a blank at the end, or a tabulator", n + 1));
        }
        for left in left_overs() {
            if line.contains(&left) {
                faults.push(format!("{file}:{}: {left}", n + 1));
            }
        }
    }
    let lines = body(text).lines().count();
    if lines > FILE_LINES_MAX && !is_test(file) {
        faults.push(format!("{file}: {lines} lines"));
    }
    if !is_test(file) {
        faults.extend(long_functions(file, body(text)));
    }
    faults
}

/// Words that mean that something is not done, spelled so that this file does not hold them.
fn left_overs() -> Vec<String> {
    let halves = [
        ("TO", "DO"),
        ("FIX", "ME"),
        ("XX", "X:"),
        ("todo", "!("),
        ("unimplemented", "!("),
        ("dbg", "!("),
        ("unsafe", " {"),
        ("unsafe", " fn"),
        ("unsafe", " impl"),
        ("allow(unsafe", "_code"),
    ];
    halves.iter().map(|(a, b)| format!("{a}{b}")).collect()
}

/// As rustfmt lays them out: a function ends with the brace at its own depth.
fn long_functions(file: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut open: Option<(usize, usize, String)> = None;
    for (n, line) in text.lines().enumerate() {
        let depth = line.len() - line.trim_start().len();
        let word = line.trim_start();
        let head = ["fn ", "pub fn ", "pub(super) fn ", "pub(crate) fn ", "const fn "];
        if head.iter().any(|h| word.starts_with(h)) && !word.ends_with('}') {
            open = Some((n, depth, word.chars().take(50).collect()));
        } else if let Some((from, at, name)) = &open
            && word.starts_with('}')
            && depth == *at
            && !word.ends_with('{')
        {
            let lines = n - from + 1;
            if lines > FUNCTION_LINES_MAX {
                faults.push(format!("{file}:{}: {lines} lines: {name}", from + 1));
            }
            open = None;
        }
    }
    faults
}

#[test]
fn sources_are_tidy() {
    let faults: Vec<String> = all().iter().flat_map(|(file, text)| faults(file, text)).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn what_is_untidy_is_seen() {
    let wide = "x".repeat(COLUMNS_MAX + 1);
    let long = "fn f() {}\n".repeat(FILE_LINES_MAX + 1);
    let function = format!("fn f() {{\n{}}}\n", "    a();\n".repeat(FUNCTION_LINES_MAX));
    let note = format!("// {}", left_overs()[0]);
    for text in [wide, long, function, note, "a \n".into(), "\tb".into()] {
        assert!(!faults("src/made/up.rs", &text).is_empty(), "{text}");
    }
    assert!(faults("src/made/up.rs", "fn f() {\n    a();\n}\n").is_empty());
}

/// Names that tests hand to the snapshot helper.
fn asserted() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in all() {
        for (at, call) in text.match_indices(".matches(\"") {
            let rest = &text[at + call.len()..];
            names.insert(rest.split('"').next().unwrap_or_default().to_owned());
        }
    }
    names
}

#[test]
fn snapshots_and_tests_are_the_same() {
    let folder = root().join("testdata/transcripts");
    let mut stored = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).expect("snapshots") {
        let name = entry.expect("a readable folder").file_name();
        let name = name.to_string_lossy();
        let snapshot = name.strip_suffix(".snap");
        let snapshot = snapshot.unwrap_or_else(|| panic!("{name} does not belong here"));
        stored.insert(snapshot.to_owned());
    }
    // Other uses of the same method name have no snapshot of that name and say so here.
    let asserted: BTreeSet<String> =
        asserted().into_iter().filter(|n| n.starts_with("trace_") || stored.contains(n)).collect();
    assert_eq!(stored, asserted, "a snapshot without a test, or a test without its snapshot");
}

/// Every page of documentation.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md"].map(|p| root().join(p)).into_iter().collect();
    for folder in ["docs", "spec"] {
        let Ok(entries) = std::fs::read_dir(root().join(folder)) else { continue };
        pages.extend(entries.map(|e| e.expect("a readable folder").path()));
    }
    pages.retain(|p| p.extension().is_some_and(|e| e == "md") && p.exists());
    assert!(!pages.is_empty(), "no pages");
    pages
}

/// Targets of the links of a page that lead to files.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        for (at, _) in line.match_indices("](").filter(|_| !fenced) {
            let target = line[at + 2..].split(')').next().unwrap_or_default();
            let target = target.split('#').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push(target.to_owned());
            }
        }
    }
    found
}

#[test]
fn links_lead_somewhere() {
    let mut dead = Vec::new();
    for page in pages() {
        let folder = page.parent().expect("a folder");
        for target in links(&read(&page)) {
            if !folder.join(&target).exists() {
                dead.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "\n{}", dead.join("\n"));
    assert_eq!(links("a [b](c.md#d) [e](https://f)\n```\n[g](h)\n```"), ["c.md"]);
}

/// Ids of rules: `**M12**` on the pages, and the first cell of the tables.
fn rules() -> BTreeSet<String> {
    let mut rules = BTreeSet::new();
    for page in pages() {
        for part in read(&page).split("**").skip(1).step_by(2) {
            if is_rule(part) {
                rules.insert(part.to_owned());
            }
        }
    }
    rules
}

/// Rules of the pages that number theirs in a list, as `tools#5`; rows of the tables, `run#R011`.
fn numbered() -> BTreeSet<String> {
    let mut rules = BTreeSet::new();
    for page in pages() {
        let name = page.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = read(&page);
        let numbers = text.lines().filter_map(|l| l.split_once(". **"));
        rules.extend(numbers.map(|(n, _)| format!("{name}#{n}")));
    }
    for table in ["run", "reply", "batch"] {
        let text = read(&root().join("spec").join(format!("{table}.tsv")));
        let id = |l: &str| format!("{table}#{}", l.split('\t').next().unwrap_or_default());
        rules.extend(text.lines().skip(1).map(id));
    }
    rules
}

fn hashed(text: &str, names: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('#') {
        let head: String = text[..at].chars().rev().take_while(char::is_ascii_alphabetic).collect();
        let head: String = head.chars().rev().collect();
        let id: String = text[at + 1..].chars().take_while(char::is_ascii_alphanumeric).collect();
        if names.contains(&head) && id.chars().any(|c| c.is_ascii_digit()) {
            found.push(format!("{head}#{id}"));
        }
    }
    found
}

fn is_rule(word: &str) -> bool {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_uppercase());
    let letters = word.len() - digits.len();
    (1..=2).contains(&letters)
        && (1..=3).contains(&digits.len())
        && digits.chars().all(|c| c.is_ascii_digit())
}

/// A test cites a rule at the head of its comment: `/// M12: ...` or `/// M12, T3: ...`.
fn cited(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let Some(words) = line.trim_start().strip_prefix("///") else { continue };
        let Some((head, _)) = words.split_once(": ") else { continue };
        let ids: Vec<&str> = head.split([',', ' ']).filter(|w| !w.is_empty()).collect();
        if !ids.is_empty() && ids.iter().all(|id| is_rule(id)) {
            found.extend(ids.into_iter().map(str::to_owned));
        }
    }
    found
}

/// Letters of the pages' rules. Others, as R11 or B025, name rows of the design and field cases.
#[test]
fn cited_rules_exist() {
    let rules = rules();
    let letters: BTreeSet<&str> =
        rules.iter().map(|r| r.trim_end_matches(|c: char| c.is_ascii_digit())).collect();
    let numbered = numbered();
    let names: BTreeSet<String> =
        numbered.iter().filter_map(|r| r.split_once('#')).map(|(n, _)| n.to_owned()).collect();
    let mut unknown = Vec::new();
    for (file, text) in all().into_iter().filter(|(f, _)| f != "src/check/tidy.rs") {
        let hashed = hashed(&text, &names);
        unknown.extend(hashed.into_iter().filter(|h| !numbered.contains(h)));
        for id in cited(&text) {
            let letter = id.trim_end_matches(|c: char| c.is_ascii_digit());
            let case = id.len() == 4 && letter == "B";
            if letters.contains(letter) && !case && !rules.contains(&id) {
                unknown.push(format!("{file}: {id}"));
            }
        }
    }
    assert!(unknown.is_empty(), "\n{}", unknown.join("\n"));
    assert_eq!(cited("/// M1, B002: x\n/// Not this: x\n// M2: y"), ["M1", "B002"]);
}
