//! `nagent-file-split`: what comes out is what went in, whatever that is; what stands in the way is not lost.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};
use rustix::process::Signal;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::process_under_test::Run;
use crate::sandbox::{Sandbox, wait_until};

pub(crate) const SPLIT: &str = env!("CARGO_BIN_EXE_nagent-file-split");

fn split(sandbox: &Sandbox, args: &[&str]) -> Run {
    sandbox.program(SPLIT, args).run()
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Everything in a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).unwrap_or_default())
        })
        .collect()
}

/// That an index and its files say of a source what is so. Gives the index.
#[track_caller]
fn check_index(path: &Path, source: &Path) -> Value {
    let bytes = std::fs::read(source).unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let index: Value = serde_json::from_str(&text).unwrap();
    let target = index["target_bytes"].as_u64().unwrap();
    assert_eq!(index["source_path"], source.canonicalize().unwrap().to_str().unwrap());
    assert_eq!(index["source_sha256"], hash(&bytes));
    assert_eq!(index["source_size_bytes"], bytes.len());
    let feeds = |bytes: &[u8]| memchr::memchr_iter(b'\n', bytes).count();
    let lines = feeds(&bytes) + usize::from(bytes.last().is_some_and(|last| *last != b'\n'));
    assert_eq!(index["source_line_count"], lines);
    let segments = index["segments"].as_array().unwrap();
    assert_eq!(index["segment_count"], segments.len());
    let mut joined: Vec<u8> = Vec::new();
    let mut before = 0;
    for (at, segment) in segments.iter().enumerate() {
        let part = std::fs::read(segment["path"].as_str().unwrap()).unwrap();
        assert!(!part.is_empty() && part.len() as u64 <= target, "{segment}");
        assert_eq!(segment["segment_index"], at + 1);
        assert_eq!(segment["start_byte"], joined.len());
        assert_eq!(segment["start_line_num"], before + 1);
        joined.extend(&part);
        before += feeds(&part);
        assert_eq!(segment["end_byte"], joined.len());
        let open = usize::from(part.last() != Some(&b'\n'));
        assert_eq!(segment["end_line_num"], before + open);
        assert_eq!(segment["sha256"], hash(&part));
    }
    assert_eq!(joined, bytes);
    index
}

/// Splits a file of the work folder into `out`, and checks all that is to be so.
#[track_caller]
fn splits(sandbox: &Sandbox, name: &str, args: &[&str]) -> (Value, Run) {
    let args = [&["--file", name, "--output", "out"], args].concat();
    let run = split(sandbox, &args).assert_exit(0);
    let path = sandbox.work().join("out/index.json");
    assert_eq!(run.stdout, format!("{}\n", path.display()));
    (check_index(&path, &sandbox.work().join(name)), run)
}

fn lines(count: usize) -> String {
    (1..=count).map(|n| format!("line {n}\n")).collect()
}

#[test]
fn the_default_folder_is_private_and_named_after_the_file() {
    let sandbox = Sandbox::new().file("Big File.txt", lines(9000));
    let run = split(&sandbox, &["--file", "Big File.txt"]).assert_exit(0).no_stderr();
    let index = PathBuf::from(run.stdout.trim_end());
    let folder = index.parent().unwrap();
    let name = folder.file_name().unwrap().to_str().unwrap();
    assert!(folder.parent() == Some(&sandbox.tmp()) && name.starts_with("big-file-"), "{name}");
    assert_eq!(std::fs::metadata(folder).unwrap().mode() & 0o777, 0o700);
    let index = check_index(&index, &sandbox.work().join("Big File.txt"));
    assert!(index["segments"][0]["path"].as_str().unwrap().ends_with("/Big File-0001.txt"));
    assert!(index["segment_count"].as_u64().unwrap() > 2);
}

#[test]
fn json_is_the_path_and_the_index() {
    let sandbox = Sandbox::new().file("a.csv", "a,b\n1,2\n3,4\n5,6\n");
    let args = ["--file", "a.csv", "--output", "new/deep/out", "--target-bytes", "16", "--json"];
    let document = split(&sandbox, &args).assert_exit(0).json();
    let path = sandbox.work().join("new/deep/out/index.json");
    let index = check_index(&path, &sandbox.work().join("a.csv"));
    assert_eq!(
        (&document["exit_code"], &index["split_type"]),
        (&Value::from(0), &Value::from("csv"))
    );
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let expect = [vec!["exit_code".to_owned(), "index_path".to_owned()], keys(&index)].concat();
    assert_eq!(keys(&document), expect);
    assert_eq!(document["segments"], index["segments"]);
}

#[test]
fn whatever_the_bytes_are() {
    let utf16: Vec<u8> = "text\r\n".repeat(30).encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cases: [(&str, Vec<u8>, &str, &str); 12] = [
        ("empty.txt", Vec::new(), "txt", ""),
        ("crlf.txt", "one line\r\n\r\n".repeat(20).into(), "txt", ""),
        ("mixed.txt", b"one\r\ntwo\nthree\rfour\x0cfive\r\n".repeat(20), "txt", ""),
        ("bom.md", "\u{feff}# Heading\n\ntext text\n\n".repeat(20).into(), "md", ""),
        ("no-end.jsonl", "{\"a\": 1}\n".repeat(20).trim_end().into(), "jsonl", ""),
        ("long.js", b"x=1;".repeat(100), "js", ""),
        ("wide.txt", "日本語".repeat(50).into(), "txt", ""),
        ("data.bin", (0..=255).cycle().take(1000).collect(), "txt", "binary"),
        ("utf16.py", [b"\xff\xfe".to_vec(), utf16.clone()].concat(), "txt", "UTF-16"),
        ("plain16.py", utf16, "txt", "UTF-16"),
        ("latin.txt", b"d\xe9j\xe0 vu, \xe0 propos\n".repeat(20), "txt", "not UTF-8"),
        ("open.csv", b"a,\"b\nc,d\n".repeat(30), "csv", ""),
    ];
    for (name, bytes, kind, note) in cases {
        let sandbox = Sandbox::new().file(name, bytes);
        let (index, run) = splits(&sandbox, name, &["--target-bytes", "64"]);
        assert_eq!(index["split_type"], kind, "{name}");
        // What the parser makes of a few bytes is not the matter here.
        assert!(run.stderr.contains(note), "{name}: {}", run.stderr);
        assert!(
            !note.is_empty() || name == "long.js" || run.stderr.is_empty(),
            "{name}: {}",
            run.stderr
        );
        for segment in index["segments"].as_array().unwrap() {
            let part = std::fs::read(segment["path"].as_str().unwrap()).unwrap();
            let is_text = !["data.bin", "utf16.py", "plain16.py", "latin.txt"].contains(&name);
            assert!(!is_text || std::str::from_utf8(&part).is_ok(), "{name}: a character is cut");
            assert!(!name.ends_with("16.py") || part.len() % 2 == 0);
        }
    }
}

#[test]
fn types_by_flag_by_alias_and_unknown_ones() {
    let sandbox = Sandbox::new().file("notes", "# A\n\ntext\n\n# B\n\ntext\n");
    let (index, _) = splits(&sandbox, "notes", &["--target-bytes", "16"]);
    assert_eq!(index["split_type"], "txt");
    let (index, _) = splits(&sandbox, "notes", &["--target-bytes", "16", "--type", ".MD"]);
    assert_eq!(
        (index["split_type"].as_str(), index["segment_count"].as_u64()),
        (Some("md"), Some(2))
    );
    let (index, _) = splits(&sandbox, "notes", &["--split", "markdown", "--natural"]);
    assert_eq!(
        (index["natural"].as_bool(), index["segment_count"].as_u64()),
        (Some(true), Some(2))
    );
    let run = split(&sandbox, &["--file", "notes", "--split", "cobol"]).assert_exit(2);
    run.stderr_has(&["cobol", "jsonl", "toml"]);
    for bad in [&["--target-bytes", "15"][..], &["--target-bytes", "-1"], &["--refresh", "x"]] {
        split(&sandbox, &[&["--file", "notes"], bad].concat()).assert_exit(2).no_stdout();
    }
    split(&sandbox, &[]).assert_exit(2).stderr_has(&["--file"]);
}

#[test]
fn what_is_no_regular_file_is_refused_and_leaves_nothing() {
    let sandbox = Sandbox::new().file("folder/x", "");
    let fifo = sandbox.work().join("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let check = |path: &str, expect: &str| {
        let run = split(&sandbox, &["--file", path, "--output", "out"]).assert_exit(1);
        run.no_stdout().stderr_has(&[expect, path]);
        assert!(!sandbox.work().join("out").exists());
    };
    check("folder", "is a folder");
    check("fifo", "is a FIFO");
    check("/dev/zero", "is a device");
    check("missing.txt", "no such file");
    check("/proc/self/status", "procfs");
    let run = split(&sandbox, &["--refresh", "index.json"]).assert_exit(1);
    run.stderr_has(&["index not found"]);
}

#[test]
fn names_are_those_of_the_link_and_paths_those_of_its_target() {
    let sandbox = Sandbox::new().file("real.dat", lines(20));
    symlink("real.dat", sandbox.work().join("link.txt")).unwrap();
    let (index, _) = splits(&sandbox, "link.txt", &["--target-bytes", "64"]);
    let expect = sandbox.work().join("real.dat").canonicalize().unwrap();
    assert_eq!(index["source_path"], expect.to_str().unwrap());
    assert!(index["segments"][0]["path"].as_str().unwrap().ends_with("/out/link-0001.txt"));
    // Split again by its index, they are named after the target.
    split(&sandbox, &["--refresh", "out/index.json"]).assert_exit(0);
    let again = check_index(&sandbox.work().join("out/index.json"), &expect);
    assert!(again["segments"][0]["path"].as_str().unwrap().ends_with("/out/real-0001.dat"));
}

#[test]
fn a_name_that_is_no_utf8_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let sandbox = Sandbox::new();
    let name = std::ffi::OsStr::from_bytes(b"a\xff.txt");
    std::fs::write(sandbox.work().join(name), "x").unwrap();
    let run = sandbox.program("/bin/sh", &["-c", &format!("exec '{SPLIT}' --file ./a*.txt")]).run();
    run.assert_exit(1).stderr_has(&["not UTF-8", "rename it"]);
    assert!(files(&sandbox.tmp()).is_empty());
}

#[test]
fn segments_are_readable_to_nobody_who_cannot_read_the_source() {
    let sandbox = Sandbox::new().file("a.txt", lines(20));
    for (mode, expect) in [(0o600, 0o600), (0o440, 0o600), (0o755, 0o644), (0o640, 0o600)] {
        _ = std::fs::remove_dir_all(sandbox.work().join("out"));
        std::fs::set_permissions(sandbox.work().join("a.txt"), Permissions::from_mode(mode))
            .unwrap();
        let (index, _) = splits(&sandbox, "a.txt", &["--target-bytes", "64"]);
        let path = index["segments"][0]["path"].as_str().unwrap();
        for path in [path, "out/index.json"] {
            let got = std::fs::metadata(sandbox.work().join(path)).unwrap().mode() & 0o777;
            assert_eq!(got, expect, "{path}: {got:o}");
        }
        let folder = std::fs::metadata(sandbox.work().join("out")).unwrap().mode() & 0o777;
        assert_eq!(folder == 0o700, mode & 0o004 == 0, "{folder:o}");
    }
}

#[test]
fn a_foreign_index_and_foreign_files_are_not_overwritten() {
    let sandbox = Sandbox::new().file("a.txt", lines(20)).file("b.txt", lines(30));
    sandbox.write("out/index.json", "{\"mine\": true}");
    let refused = |name: &str, words: &[&str]| {
        let before = files(&sandbox.work().join("out"));
        let args = ["--file", name, "--output", "out", "--target-bytes", "64"];
        let run = split(&sandbox, &args).assert_exit(1).no_stdout();
        run.stderr_has(words).stderr_has(&["--output"]);
        assert_eq!(files(&sandbox.work().join("out")), before);
    };
    refused(
        "a.txt",
        &["will not replace /", "index.json cannot be used: it is not an index of a split"],
    );
    std::fs::remove_file(sandbox.work().join("out/index.json")).unwrap();
    let path = sandbox.write("out/a-0002.txt", "mine");
    refused("a.txt", &["will not replace", "neither empty nor a split"]);
    std::fs::remove_file(path).unwrap();
    splits(&sandbox, "a.txt", &["--target-bytes", "64"]);
    refused("b.txt", &["is the index of", "a.txt"]);
}

#[test]
fn a_folder_with_the_source_in_it_is_refused() {
    let sandbox = Sandbox::new().file("out/a.txt", lines(20)).file("own/index.json", "{}\n");
    for (file, output) in [("out/a.txt", "out"), ("own/index.json", "own"), ("out/a.txt", ".")] {
        let before = files(&sandbox.work().join(output));
        let run = split(&sandbox, &["--file", file, "--output", output]).assert_exit(1);
        run.stderr_has(&["the file that is to be split is in it", "--output"]);
        assert_eq!(files(&sandbox.work().join(output)), before);
    }
    // An index that lists the source itself as one of its segments.
    let source = sandbox.write("trap/s-0001.txt", lines(20));
    let path = |name: &str| sandbox.work().join("trap").join(name).to_str().unwrap().to_owned();
    let index = serde_json::json!({
        "source_path": source.canonicalize().unwrap(), "source_sha256": "", "source_size_bytes": 1, "source_line_count": 1,
        "split_type": "txt", "target_bytes": 64, "natural": false, "created_at": "",
        "segment_count": 1, "segments": [{"segment_index": 1, "path": path("s-0001.txt"), "start_line_num": 1,
        "end_line_num": 1, "start_byte": 0, "end_byte": 1, "sha256": hash(lines(20).as_bytes())}],
    });
    sandbox.write("trap/index.json", index.to_string());
    split(&sandbox, &["--file", "trap/s-0001.txt", "--output", "trap"]).assert_exit(1);
    split(&sandbox, &["--refresh", "trap/index.json"]).assert_exit(1);
    assert_eq!(sandbox.read("trap/s-0001.txt"), lines(20));
}

#[test]
fn edited_segments_are_named_and_stay() {
    let sandbox = Sandbox::new().file("a.txt", lines(40));
    splits(&sandbox, "a.txt", &["--target-bytes", "64"]);
    let count = files(&sandbox.work().join("out")).len();
    let three = sandbox.read("out/a-0003.txt");
    sandbox.write("out/a-0002.txt", "edited\n");
    sandbox.write("out/a-0005.txt", "edited too\n");
    std::fs::remove_file(sandbox.work().join("out/a-0003.txt")).unwrap();
    sandbox.write("a.txt", lines(12));
    let before = files(&sandbox.work().join("out"));
    for args in [
        &["--refresh", "out/index.json"][..],
        &["--file", "a.txt", "--output", "out", "--target-bytes", "64"],
    ] {
        let run = split(&sandbox, args).assert_exit(1).no_stdout();
        run.stderr_has(&["a-0002.txt, a-0005.txt", "choose another folder", "nagent-file-patch"]);
        assert_eq!(files(&sandbox.work().join("out")), before);
    }
    split(&sandbox, &["--refresh", "out/index.json", "--force"]).assert_exit(2);
    // As they were split, they are replaced.
    sandbox.write("a.txt", lines(40));
    for (number, text) in [(2, None), (3, Some(three)), (5, None)] {
        let name = format!("out/a-{number:04}.txt");
        let all = lines(40);
        let index: Value = serde_json::from_str(&sandbox.read("out/index.json")).unwrap();
        let place = |key: &str| {
            usize::try_from(index["segments"][number - 1][key].as_u64().unwrap()).unwrap()
        };
        let old = String::from_utf8_lossy(&all.as_bytes()[place("start_byte")..place("end_byte")]);
        sandbox.write(&name, text.unwrap_or_else(|| old.into_owned()));
    }
    sandbox.write("a.txt", lines(12));
    split(&sandbox, &["--refresh", "out/index.json"]).assert_exit(0).no_stderr();
    let index = check_index(&sandbox.work().join("out/index.json"), &sandbox.work().join("a.txt"));
    let segments = usize::try_from(index["segment_count"].as_u64().unwrap()).unwrap();
    let names: Vec<_> = files(&sandbox.work().join("out")).into_keys().collect();
    assert!(segments + 1 < count && names.len() == segments + 1, "{names:?}");
}

#[test]
fn a_folder_with_other_files_in_it_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let sandbox = Sandbox::new().file("a.txt", lines(40));
    let name = std::ffi::OsStr::from_bytes(b"\xff");
    splits(&sandbox, "a.txt", &["--target-bytes", "64"]);
    // What a patch writes can be made again.
    sandbox.write("out/a.patch", "--- a/a.txt\n");
    for name in [Path::new("notes.md"), Path::new("sub/x"), Path::new(name)] {
        let path = sandbox.work().join("out").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "mine").unwrap();
        let before = files(&sandbox.work().join("out"));
        let run = split(&sandbox, &["--refresh", "out"]).assert_exit(1).no_stdout();
        run.stderr_has(&["files that the split did not make", "choose another folder"]);
        assert_eq!(files(&sandbox.work().join("out")), before);
        std::fs::remove_file(&path).unwrap();
        if path.ends_with("x") {
            std::fs::remove_dir(path.parent().unwrap()).unwrap();
        }
    }
    splits(&sandbox, "a.txt", &["--target-bytes", "32"]).1.no_stderr();
}

#[test]
fn what_a_killed_run_left_is_removed_or_refused() {
    let sandbox = Sandbox::new().file("a.txt", lines(40));
    let stage = sandbox.work().join(".nagent-split-out");
    // Killed before its index was written.
    sandbox.write(".nagent-split-out/a-0001.txt", "half");
    splits(&sandbox, "a.txt", &["--target-bytes", "64"]);
    assert!(!stage.exists());
    // Killed after the exchange: the replaced split, without edits and with one.
    std::fs::rename(sandbox.work().join("out"), &stage).unwrap();
    splits(&sandbox, "a.txt", &["--target-bytes", "64"]);
    assert!(!stage.exists());
    std::fs::rename(sandbox.work().join("out"), &stage).unwrap();
    sandbox.write(".nagent-split-out/a-0002.txt", "edited\n");
    let run = split(&sandbox, &["--file", "a.txt", "--output", "out"]).assert_exit(1);
    run.stderr_has(&[".nagent-split-out has edits", "move it away"]);
    assert_eq!(sandbox.read(".nagent-split-out/a-0002.txt"), "edited\n");
}

#[test]
fn a_kill_at_any_time_leaves_the_old_split_or_the_new_one() {
    let sandbox = Sandbox::new().file("a.txt", lines(6_000));
    let args = ["--file", "a.txt", "--output", "out", "--target-bytes", "256"];
    let whole = split(&sandbox, &args).assert_exit(0).seconds;
    for n in 0..6_u32 {
        let running = sandbox.program(SPLIT, &args).spawn();
        std::thread::sleep(std::time::Duration::from_secs_f64(whole * 1.2 * f64::from(n) / 5.0));
        running.signal(Signal::KILL);
        running.wait();
        let index = std::fs::read_to_string(sandbox.work().join("out/index.json")).unwrap();
        let index: Value = serde_json::from_str(&index).unwrap();
        let count = index["segment_count"].as_u64().unwrap();
        assert_eq!(files(&sandbox.work().join("out")).len() as u64, count + 1, "{n}");
    }
    split(&sandbox, &args).assert_exit(0);
    check_index(&sandbox.work().join("out/index.json"), &sandbox.work().join("a.txt"));
    assert!(!sandbox.work().join(".nagent-split-out").exists());
}

#[test]
fn long_names_are_cut() {
    for length in [184, 185, 255] {
        let name = format!("{}.txt", "n".repeat(length - 4));
        let sandbox = Sandbox::new().file(&name, lines(40));
        splits(&sandbox, &name, &["--target-bytes", "64"]);
        let names: Vec<_> = files(&sandbox.work().join("out")).into_keys().collect();
        assert!(names.iter().all(|name| name.len() <= 190), "{names:?}");
        sandbox.write(&name, lines(30));
        split(&sandbox, &["--refresh", "out"]).assert_exit(0);
        let index = sandbox.work().join("out/index.json");
        let index = check_index(&index, &sandbox.work().join(&name));
        let count = files(&sandbox.work().join("out")).len() as u64;
        assert_eq!(index["segment_count"].as_u64().unwrap() + 1, count);
    }
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    let sandbox = Sandbox::new().file("a.txt", lines(40));
    splits(&sandbox, "a.txt", &["--target-bytes", "64"]);
    let before = files(&sandbox.work().join("out"));
    sandbox.write("a.txt", lines(40_000));
    let limited = |folder: &str| {
        let command = format!("ulimit -f 16; exec '{SPLIT}' --file a.txt --output {folder}");
        sandbox.program("/bin/sh", &["-c", &command]).run().assert_exit(1).no_stdout()
    };
    limited("out").stderr_has(&["cannot write", "nothing was changed"]);
    assert_eq!(files(&sandbox.work().join("out")), before);
    limited("fresh/deep").stderr_has(&["cannot write"]);
    assert_eq!(std::fs::read_dir(sandbox.work().join("fresh")).unwrap().count(), 0);
}

#[test]
fn a_signal_ends_it_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    // 400 MB of nothing, which takes a while to write.
    let file = std::fs::File::create(sandbox.work().join("a.txt")).unwrap();
    file.set_len(400_000_000).unwrap();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let args = ["--file", "a.txt", "--output", "out", "--target-bytes", "4096"];
        let running = sandbox.program(SPLIT, &args).spawn();
        let out = sandbox.work().join("out");
        let stage = sandbox.work().join(".nagent-split-out");
        wait_until("it has begun", || std::fs::read_dir(&stage).is_ok_and(|all| all.count() > 0));
        running.signal(signal);
        let run = running.wait().assert_exit(code).within(1.0).no_stdout();
        run.stderr_has(&["interrupted by"]);
        assert!(!out.exists() && !stage.exists());
    }
}

#[test]
fn a_source_that_changes_meanwhile_is_an_error() {
    let sandbox = Sandbox::new();
    let path = sandbox.work().join("a.txt");
    std::fs::File::create(&path).unwrap().set_len(60_000_000).unwrap();
    let args = ["--file", "a.txt", "--output", "out", "--target-bytes", "4096"];
    let running = sandbox.program(SPLIT, &args).spawn();
    let out = sandbox.work().join("out");
    wait_until("it has begun", || sandbox.work().join(".nagent-split-out").exists());
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(60_000_001).unwrap();
    running.wait().assert_exit(1).stderr_has(&["it changed while"]);
    assert!(!out.exists());
}

#[test]
fn progress_is_for_terminals_and_long_work_only() {
    let sandbox = Sandbox::new().file("a.txt", lines(4000));
    let args = ["--file", "a.txt", "--output", "out"];
    let run = sandbox.program(SPLIT, &args).run_on_terminal().assert_exit(0);
    assert_eq!((run.stderr.as_str(), run.stdout.ends_with("/out/index.json\n")), ("", true));
}
