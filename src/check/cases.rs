//! Cases from the field: each id is named by a test that holds what it stands for.

use super::layers::sources;

const CASES: &str = "B002 B003 B004 B005 B006 B009 B010 B011 B012 B015 B016 B018 B025 B026 B027 \
    B029 B030 B032 B034 B036 B039 B045 B046 B048 B049 B050 B053 B055 B056 B057 B059 B060 B079 \
    B082 B084 B085 B086 B087 B088 B091 B092 B093 B095 B097 B098 B099 B101 B103 B106 B108 B109 \
    B110 B111 B114 B115 B116 B117 B118 B166 B170 B171 B172 B173 B175 B187 B188 \
    B191 B192 B195 B196 B200 B206 B207 B209";

/// Cases of kinds that are built, about something that is not: with their reasons. An id leaves
/// the list when its mechanism comes.
const LATER: [(&str, &str); 9] = [
    ("B194", "clients: the page itself decides whom it sends its token to"),
    ("B019", "compaction: nothing is trimmed"),
    ("B020", "compaction: nothing is trimmed"),
    ("B021", "compaction: a history is not repaired on a provider's word"),
    ("B023", "compaction: nothing is rewritten"),
    ("B038", "compaction: a reset has none to stop"),
    ("B041", "channels: there is no outbox"),
    ("B043", "channels: there is no outbox"),
    ("B044", "channels: there is no outbox"),
];

/// Not named by a test yet: to be empty. An id leaves the list with its test.
const OWED: &str = "";

/// Ids in comments and names of tests: `B002`, `b002`.
fn named(text: &str, id: &str) -> bool {
    let low = format!("_{}", id.to_lowercase());
    let cut = |line: &str| line.contains(id) || line.contains(&low) || line.contains(&low[1..]);
    text.lines().filter(|l| l.contains("//") || l.contains("fn ")).any(cut)
}

#[test]
fn every_case_has_a_test() {
    let mut files = sources("src");
    files.extend(sources("spec"));
    files.retain(|(file, text)| {
        !file.ends_with("check/cases.rs") && (text.contains("#[test]") || file.starts_with("spec"))
    });
    let mut missing = Vec::new();
    let mut paid = Vec::new();
    for id in CASES.split_whitespace() {
        let found = files.iter().any(|(_, text)| named(text, id));
        let owed = OWED.split_whitespace().any(|o| o == id);
        match (found, owed) {
            (false, false) => missing.push(id),
            (true, true) => paid.push(id),
            (true, false) | (false, true) => {}
        }
    }
    assert!(missing.is_empty(), "no test names {missing:?}");
    assert!(paid.is_empty(), "no longer owed: {paid:?}");
}

/// What is put off is put off for a reason, and is not what a test holds already.
#[test]
fn what_is_put_off_has_a_reason() {
    let due = |id: &str| CASES.split_whitespace().any(|case| case == id);
    for (id, reason) in LATER {
        assert!(!due(id), "{id} is due");
        assert!(
            ["compaction: ", "channels: ", "clients: "].iter().any(|what| reason.starts_with(what)),
            "{id}"
        );
    }
    let mut files = sources("src");
    files.extend(sources("spec"));
    files.retain(|(file, _)| !file.ends_with("check/cases.rs"));
    let held = LATER.iter().filter(|(id, _)| files.iter().any(|(_, text)| named(text, id)));
    let held: Vec<&str> = held.map(|(id, _)| *id).collect();
    assert!(held.is_empty(), "tests name {held:?}: they are due");
}

#[test]
fn naming_is_seen() {
    assert!(named("/// B002: x", "B002") && named("fn trace_b002_x() {", "B002"));
    assert!(!named("let b = \"B002\";", "B002") && !named("/// B003", "B002"));
}
