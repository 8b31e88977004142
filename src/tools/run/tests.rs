use super::*;
use crate::transcript::{Block, message::join_text};
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt, os::unix::fs::symlink, path::Path};

fn ctx(cwd: &Path) -> Ctx {
    Ctx {
        cwd: cwd.to_path_buf(),
        cancel: Cancel::new(),
        ticket: None,
        helper: None,
        exec_timeout_s: 60,
        workspace_only_patch: true,
        shell: None,
        env: vec![("HOME".into(), cwd.join("home").display().to_string())],
    }
}

fn call(dir: &Path, name: &str, args: Value) -> (String, Value, bool) {
    let output = run(name, args.as_object().unwrap(), &ctx(dir), &mut |_| {});
    (join_text(&output.content), output.details.unwrap_or_default(), output.is_error)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

/// tools#8.
#[test]
fn write_creates_replaces_and_notices() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &str| {
        call(dir.path(), "write", json!({"path": path, "content": content}))
    };
    let (text, details, _) = write("a/b/c.txt", "one\ntwo\n");
    assert_eq!(text, "Created a/b/c.txt (8 bytes).");
    assert_eq!((&details["changed"], &details["created"]), (&json!(true), &json!(true)));
    let file = dir.path().join("a/b/c.txt");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o751)).unwrap();
    let (_, details, _) = write("a/b/c.txt", "one\nTWO\n");
    assert_eq!((&details["created"], &details["firstChangedLine"]), (&json!(false), &json!(2)));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o751);
    assert_eq!(write("a/b/c.txt", "one\nTWO\n").1, json!({"changed": false}));
    assert!(write("a/b", "x").0.contains("is a directory"));
    assert!(write("a/b/c.txt/d", "x").2);
    assert!(write("", "x").2 && write("a\0b", "x").2);
    assert_eq!(names(&dir.path().join("a/b")), ["c.txt"], "nothing is left beside it");
    write("~/h", "x");
    assert!(dir.path().join("home/h").exists());
}

#[test]
fn write_goes_through_links() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("real"), "1").unwrap();
    symlink("real", path("soft")).unwrap();
    symlink("later", path("dangling")).unwrap();
    fs::write(path("x"), "1").unwrap();
    fs::hard_link(path("x"), path("y")).unwrap();
    for name in ["soft", "dangling", "x"] {
        let (text, _, error) = call(dir.path(), "write", json!({"path": name, "content": "new"}));
        assert!(!error, "{text}");
    }
    assert!(path("soft").is_symlink() && path("dangling").is_symlink());
    for name in ["real", "later", "y"] {
        assert_eq!(fs::read_to_string(path(name)).unwrap(), "new", "{name}");
    }
}

#[test]
fn read_finds_names_and_refuses_what_is_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let read = |args: Value| call(dir.path(), "read", args);
    fs::write(dir.path().join("it\u{2019}s\u{a0}me.txt"), "hello\n").unwrap();
    fs::write(dir.path().join("notes.md"), "").unwrap();
    let (text, details, error) = read(json!({"path": "it's me.txt"}));
    assert!(text.starts_with("hello\n\n[Lines 1-1 of 1.]\n[it's me.txt does not exist"), "{text}");
    assert_eq!((&details["kind"], error), (&json!("text"), false));
    fs::write(dir.path().join("it\u{2018}s\u{a0}me.txt"), "").unwrap();
    assert!(read(json!({"path": "it's me.txt"})).0.contains("is ambiguous"));
    let (text, _, error) = read(json!({"path": "note.md"}));
    assert_eq!(
        (text.as_str(), error),
        ("File not found: note.md. Close names there: notes.md", true)
    );
    let (_, details, error) = read(json!({"path": "none", "optional": true}));
    assert_eq!((details, error), (json!({"kind": "not_found"}), false));
    assert!(read(json!({"path": "."})).0.contains("is a directory"));
    assert!(read(json!({"path": "/dev/zero"})).0.contains("not a regular file"));
    assert_eq!(read(json!({"path": "notes.md"})).0, "[The file is empty.]");
    let big = fs::File::create(dir.path().join("big")).unwrap();
    big.set_len((64 << 20) + 1).unwrap();
    assert!(read(json!({"path": "big"})).0.contains("the limit is 67108864"));
    assert!(read(json!({})).2 && read(json!({"path": "big", "offset": "x"})).2);
}

#[test]
fn read_gives_small_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    fs::write(dir.path().join("p.txt"), &png).unwrap();
    let args = json!({"path": "p.txt"});
    let output = run("read", args.as_object().unwrap(), &ctx(dir.path()), &mut |_| {});
    let picture = Block::Image { data: "iVBORw0KGgo=".into(), mime_type: "image/png".into() };
    assert_eq!(output.content[1], picture);
    assert_eq!(output.details.unwrap()["kind"], "image");
    png.resize((4 << 20) + 1, 0);
    fs::write(dir.path().join("p.txt"), &png).unwrap();
    let (text, _, error) = call(dir.path(), "read", args);
    assert!(error && text.contains("4194305 bytes; the limit is 4194304"), "{text}");
}

#[test]
fn ls_pages_through_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let ls = |args: Value| call(dir.path(), "ls", args).0;
    assert_eq!(ls(json!({})), "[The directory is empty.]");
    for name in ["b", "a\"q", "Z"] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    fs::create_dir(dir.path().join("d")).unwrap();
    assert_eq!(ls(json!({})), "\"Z\"\n\"a\\\"q\"\n\"b\"\n\"d/\"\n[4 of 4 entries.]");
    let first = ls(json!({"limit": 2}));
    assert!(first.ends_with("[2 of 4 entries. Continue with after=\"a\\\"q\".]"), "{first}");
    assert_eq!(ls(json!({"after": "a\"q"})), "\"b\"\n\"d/\"\n[2 of 4 entries.]");
    assert_eq!(ls(json!({"after": "d/"})), "[No entries after that name.]");
    assert_eq!(ls(json!({"path": "b"})), "b is not a directory.");
    assert!(ls(json!({"path": "none"})).contains("no such file"));
}

/// tools#9.
#[test]
fn edit_changes_files_or_says_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let edit = |path: &str, old: &str, new: &str| {
        let edits = json!([{"oldText": old, "newText": new}]);
        call(dir.path(), "edit", json!({"path": path, "edits": edits}))
    };
    let file = dir.path().join("f");
    fs::write(&file, "\u{feff}a\r\nb\r\n").unwrap();
    let (text, details, _) = edit("f", "a\nb", "a\nc");
    assert_eq!(text, "Replaced 1 place(s) in f.");
    assert_eq!((&details["changed"], &details["firstChangedLine"]), (&json!(true), &json!(2)));
    assert_eq!(fs::read(&file).unwrap(), "\u{feff}a\r\nc\r\n".as_bytes());
    let (text, _, error) = edit("f", "zzz", "x");
    assert!(error && text.starts_with("f was not changed. edits[0].oldText was not found"));
    assert_eq!(edit("f", "a", "a").1, json!({"changed": false}));
    assert!(edit("none", "a", "b").0.contains("no such file"));
    fs::write(&file, b"a\xff").unwrap();
    assert!(edit("f", "a", "b").0.contains("not valid UTF-8"));
    assert_eq!(fs::read(&file).unwrap(), b"a\xff");
    assert!(call(dir.path(), "edit", json!({"path": "f", "edits": [5]})).2);
}

/// tools#10.
#[test]
fn patches_go_file_by_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let patch = |body: &str| {
        let input = format!("*** Begin Patch\n{body}\n*** End Patch");
        call(dir.path(), "apply_patch", json!({"input": input}))
    };
    fs::write(path("m"), "1\n2\n").unwrap();
    fs::write(path("d"), "").unwrap();
    fs::set_permissions(path("m"), fs::Permissions::from_mode(0o750)).unwrap();
    let (text, details, error) = patch(
        "*** Add File: n/a\n+x\n*** Delete File: d\n*** Update File: m\n*** Move to: q/m2\n-2\n+3",
    );
    assert_eq!((text.as_str(), error), ("Done:\nA n/a\nD d\nM q/m2", false));
    let summary = json!({"added": ["n/a"], "modified": ["q/m2"], "deleted": ["d"]});
    assert_eq!(details["summary"], summary);
    assert_eq!(fs::read_to_string(path("q/m2")).unwrap(), "1\n3\n");
    assert_eq!(fs::metadata(path("q/m2")).unwrap().permissions().mode() & 0o777, 0o750);
    assert!(!path("m").exists() && !path("d").exists());
    let (text, details, error) =
        patch("*** Add File: b\n+1\n*** Add File: n/a\n+y\n*** Add File: c");
    assert!(error && text.contains("n/a exists already.\nWhat came before it is done"), "{text}");
    assert_eq!(details["summary"]["added"], json!(["b"]));
    assert!(!path("c").exists());
    let again = patch("*** Delete File: b\n*** Add File: b\n+2");
    assert!(!again.2, "removed earlier in the same patch: {}", again.0);
    assert!(patch("*** Update File: b\n-9\n+8").0.contains("b: Chunk 1: these lines are not"));
    assert!(patch("*** Delete File: n").0.contains("is a directory"));
}

#[test]
fn patches_keep_to_the_workspace() {
    let outside = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    symlink(outside.path(), dir.path().join("out")).unwrap();
    let far = outside.path().join("far").display().to_string();
    for path in ["../x", "out/x", &far] {
        let input = format!(
            "*** Begin Patch\n*** Add File: in\n+1\n*** Add File: {path}\n+1\n*** End Patch"
        );
        let args = json!({"input": input});
        let (text, _, error) = call(dir.path(), "apply_patch", args.clone());
        assert!(error && text.contains("outside the workspace"), "{text}");
        assert!(!dir.path().join("in").exists(), "refused as a whole");
    }
    let free = Ctx { workspace_only_patch: false, ..ctx(dir.path()) };
    let input = format!("*** Begin Patch\n*** Add File: {far}\n+1\n*** End Patch");
    let args = json!({"input": input});
    assert!(!run("apply_patch", args.as_object().unwrap(), &free, &mut |_| {}).is_error);
}

/// B025: edits of one file that are launched together all run, in call order.
#[test]
fn b025_a_batch_of_edits_runs_in_call_order() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), "0").unwrap();
    let order = FileOrder::new();
    let jobs: Vec<Ctx> =
        (0..6).map(|_| Ctx { ticket: Some(order.take()), ..ctx(dir.path()) }).collect();
    let results: Vec<ToolOutput> = std::thread::scope(|scope| {
        let start = |(i, job): (usize, Ctx)| {
            scope.spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(3 * (6 - i as u64)));
                let (old, new) = (i.to_string(), (i + 1).to_string());
                let edits = json!([{"oldText": old, "newText": new}]);
                let args = json!({"path": "f", "edits": edits});
                run("edit", args.as_object().unwrap(), &job, &mut |_| {})
            })
        };
        let running: Vec<_> = jobs.into_iter().enumerate().map(start).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(results.iter().all(|result| !result.is_error), "{results:?}");
    assert_eq!(fs::read_to_string(dir.path().join("f")).unwrap(), "6");
}

/// B117, at the last line of defence; and a call that was stopped before it began.
#[test]
fn b117_unknown_tools_and_stopped_calls_are_results() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(call(dir.path(), "nope", json!({})).0, "Tool nope not found");
    let ctx = ctx(dir.path());
    ctx.cancel.cancel();
    let args = json!({"path": "f", "content": "x"});
    let output = run("write", args.as_object().unwrap(), &ctx, &mut |_| {});
    assert_eq!(output, ToolOutput::error("Operation aborted"));
    assert!(!dir.path().join("f").exists());
}
