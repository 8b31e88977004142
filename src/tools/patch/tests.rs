use super::*;

fn sections(body: &str) -> Result<Vec<Section>, String> {
    parse(&format!("*** Begin Patch\n{body}\n*** End Patch")).map_err(|e| e.0)
}

fn changed(original: &str, chunks: &str) -> String {
    match sections(&format!("*** Update File: f\n{chunks}")) {
        Ok(list) => match &list[0] {
            Section::Update { chunks, .. } => {
                apply(original, chunks).unwrap_or_else(|e| format!("error: {e}"))
            }
            other => panic!("{other:?}"),
        },
        Err(error) => format!("error: {error}"),
    }
}

/// tools#10.
#[test]
fn every_kind_of_section_is_read() {
    let body = "*** Add File: a/b.txt\n+one\n+\n+two\n*** Delete File: gone\n\
                *** Update File: x\n*** Move to: y\n@@ fn f()\n keep\n-old\n+new\n*** End of File";
    let list = sections(body).unwrap();
    let text = "one\n\ntwo\n".to_owned();
    assert_eq!(list[0], Section::Add { path: "a/b.txt".into(), text });
    assert_eq!(list[1], Section::Delete { path: "gone".into() });
    let lines =
        vec![Line::Keep("keep".into()), Line::Remove("old".into()), Line::Add("new".into())];
    let chunks = vec![Chunk { context: Some("fn f()".into()), lines, at_end: true }];
    assert_eq!(list[2], Section::Update { path: "x".into(), to: Some("y".into()), chunks });
    assert!(sections("*** Update File: x\n*** Move to: y").is_ok());
}

#[test]
fn wrappers_are_tolerated() {
    let inner = "*** Begin Patch\n*** Delete File: x\n*** End Patch";
    for text in [
        format!("\n{inner}\n\n"),
        format!("<<'EOF'\n{inner}\nEOF\n"),
        format!("apply_patch <<\"PATCH\"\n{inner}\nPATCH"),
        inner.replace('\n', "\r\n"),
    ] {
        assert_eq!(parse(&text).unwrap(), [Section::Delete { path: "x".into() }], "{text}");
    }
}

#[test]
fn errors_name_the_line() {
    for (body, want) in [
        ("", "names no file"),
        ("nonsense", "Line 2 of the patch ('nonsense'): expected"),
        ("*** Add File: a\n+x\ny", "Line 4 of the patch ('y'): every line of a new file"),
        ("*** Add File:", "the path is missing"),
        ("*** Update File: a", "has no changes"),
        ("*** Update File: a\n@@\n", "the chunk has no lines"),
        ("*** Update File: a\n@@\n+x\n*** End of File\n+y", "a further chunk begins with '@@'"),
        ("*** Update File: a\n@@\n?x", "begins with a space"),
    ] {
        let error = sections(body).unwrap_err();
        assert!(error.contains(want), "{body:?}: {error}");
    }
    assert!(parse("*** Delete File: x").unwrap_err().0.contains("must begin"));
    assert!(parse("*** Begin Patch\n*** Delete File: x").unwrap_err().0.contains("must end"));
    assert!(parse("").is_err() && parse("*** Begin Patch").is_err());
}

#[test]
fn passes_from_strict_to_lenient() {
    assert_eq!(changed("a\nb\nc\n", " a\n-b\n+B"), "a\nB\nc\n");
    assert_eq!(changed("a  \nb\n", " a\n-b\n+B"), "a  \nB\n", "kept lines keep their bytes");
    assert_eq!(changed("\ta\n  b\n", " a\n-b\n+B"), "\ta\nB\n");
    assert_eq!(changed("a\u{2019}s\nb\n", " a's\n-b\n+B"), "a\u{2019}s\nB\n");
    assert_eq!(changed("x \nx\n", "-x\n+y"), "x \ny\n", "a strict match beats a lenient one");
}

#[test]
fn places_must_be_unique() {
    assert!(changed("a\na\n", "-a\n+b").contains("fit 2 places"));
    assert!(changed("a\n", "-z\n+b").contains("not in the file:\nz"));
    let twice = "fn f()\n  x\nfn g()\n  x\n";
    assert_eq!(changed(twice, "@@ fn g()\n-  x\n+  y"), "fn f()\n  x\nfn g()\n  y\n");
    assert_eq!(changed(twice, "@@ fn f()\n-  x\n+  y"), "fn f()\n  y\nfn g()\n  x\n");
    assert_eq!(changed(twice, "@@ fn g()\n fn g()\n-  x\n+  y"), "fn f()\n  x\nfn g()\n  y\n");
    assert!(changed("k\nk\nx\n", "@@ k\n-x\n+y").contains("its context ('k') fit 2 places"));
    assert_eq!(changed("a\nb\na\n", "-a\n+z\n*** End of File"), "a\nb\nz\n");
    assert!(changed("a\nb\n", "-a\n+z\n*** End of File").contains("at the end of the file"));
    assert_eq!(changed("1\n2\n1\n", "-2\n+b\n@@\n-1\n+c"), "1\nb\nc\n", "chunks go forward only");
}

#[test]
fn insertions_without_context_go_to_the_end() {
    assert_eq!(changed("a\n", "+b"), "a\nb\n");
    assert_eq!(changed("", "+b"), "b\n");
    assert_eq!(changed("a\nc\n", "@@ a\n+b"), "a\nb\nc\n");
}

#[test]
fn endings_are_kept() {
    assert_eq!(changed("a\r\nb\r\n", " a\n-b\n+B\n+C"), "a\r\nB\r\nC\r\n");
    assert_eq!(changed("a\nb", " a\n b\n+c"), "a\nb\nc");
    assert_eq!(changed("a\nb", "-b\n+B"), "a\nB");
    assert_eq!(changed("a\nb", " a\n-b"), "a\n");
    assert_eq!(changed("\u{feff}a\n", "-a\n+b"), "\u{feff}b\n");
    assert_eq!(changed("a\n\nb\n", " a\n\n-b\n+c"), "a\n\nc\n");
}
