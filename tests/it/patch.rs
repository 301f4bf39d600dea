//! `nagent-file-patch`: edits, bad splits, sources of all kinds, kills. It is longer than other files: one table of
//! what may be wrong with a split.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};
use sys::fs::sha256 as hash;

use crate::sandbox::{Sandbox, wait_until};
use crate::split::SPLIT;
use crate::split_by_hand::{PATCH, Split, by_lines, numbered};

#[test]
fn edits_go_back_again_and_again() {
    let split = Split::new();
    split.run(&[]).assert_exit(0).no_stdout().stderr_has(&["no changes"]);
    split.edit(2, "two\n");
    let patch = split.folder.join("big.patch");
    split.run(&[]).answers(&patch.display().to_string());
    let expect = numbered(40).replace(&numbered(20)[numbered(10).len()..], "two\n");
    assert_eq!(split.source(), expect);
    split.agrees();
    let text = fs::read_to_string(&patch).unwrap();
    assert!(text.starts_with("--- a/big.txt\n+++ b/big.txt\n@@ -8,16 +8,7 @@\n"), "{text}");
    split.run(&[]).assert_exit(0).no_stdout().stderr_has(&["no changes"]);
    split.edit(2, "two\nthree\n");
    split.edit(4, "four\n");
    split.run(&[]).assert_exit(0).no_stderr();
    assert!(split.source().contains("two\nthree\nline 21\n"));
    assert!(split.source().ends_with("line 30\nfour\n"));
    split.agrees();
}

/// The public Python tool writes no offsets and no hashes.
#[test]
fn an_index_of_the_public_tool_is_refused_and_a_new_split_patches() {
    let split = Split::new();
    let mut index: Value = serde_json::from_slice(&fs::read(split.index_path()).unwrap()).unwrap();
    for segment in index["segments"].as_array_mut().unwrap() {
        for key in ["start_byte", "end_byte", "sha256"] {
            segment.as_object_mut().unwrap().remove(key);
        }
    }
    fs::write(split.index_path(), index.to_string()).unwrap();
    split.edit(2, "two\n");
    split.refuses(&[], &["was written by an older tool", "start_byte", "split the file again"]);
    let args = ["--refresh", split.folder.to_str().unwrap()];
    split.sandbox.program(SPLIT, &args).run().assert_exit(1).stderr_has(&["an older tool"]);
    let index = split.sandbox.work().join("new/index.json").display().to_string();
    split.sandbox.program(SPLIT, &["--file", "big.txt", "--output", "new"]).run().answers(&index);
}

#[test]
fn json_has_its_keys() {
    let split = Split::new();
    split.edit(3, "three\n");
    let dry = split.run(&["--dry-run", "--json"]).assert_exit(0).json();
    assert_eq!((&dry["changed"], &dry["applied"]), (&json!(true), &json!(false)));
    assert_eq!(dry["source_sha256"], hash(numbered(40).as_bytes()));
    let document = split.run(&["--json"]).assert_exit(0).json();
    let kept = document["previous_path"].as_str().unwrap();
    assert_eq!(fs::read_to_string(kept).unwrap(), numbered(40));
    let expect = json!({
        "exit_code": 0, "changed": true, "applied": true, "source_path": split.source, "index_path": split.index_path(),
        "patch_path": split.folder.join("big.patch"), "source_sha256": hash(split.source().as_bytes()),
        "edited": [3], "previous_path": kept, "notes": [],
    });
    assert_eq!(document, expect);
    let idle = split.run(&["--json"]).assert_exit(0).json();
    assert_eq!((&idle["changed"], &idle["patch_path"]), (&json!(false), &Value::Null));
    let failed = split.sandbox.program(PATCH, &["--index", "nowhere", "--json"]).run();
    assert_eq!(failed.assert_exit(1).json()["exit_code"], 1);
    split.sandbox.program(PATCH, &["--json"]).run().assert_exit(2);
}

#[test]
fn a_dry_run_and_no_apply_leave_all_but_the_patch() {
    for flag in ["--dry-run", "--no-apply"] {
        let split = Split::new();
        split.edit(1, "one");
        let index = fs::read(split.index_path()).unwrap();
        let patch = split.folder.join("big.patch");
        split.run(&[flag]).assert_exit(0).stdout_is(&format!("{}\n", patch.display()));
        assert!(fs::read(split.index_path()).unwrap() == index && split.source() == numbered(40));
        assert_eq!(fs::read_to_string(split.segment(1)).unwrap(), "one");
        let apply = split.sandbox.program("git", &["apply", patch.to_str().unwrap()]).run();
        apply.assert_exit(0);
        assert!(split.source().starts_with("one\nline 11\n"));
        fs::write(&split.source, numbered(40)).unwrap();
        split.run(&[]).assert_exit(0);
        split.agrees();
    }
}

#[test]
fn the_patch_names_the_file_from_the_repositorys_top() {
    let text = numbered(40);
    let ends = by_lines(&text, 10);
    let split = Split::within(Sandbox::new().git(), "src/big.txt", text.as_bytes(), &ends);
    split.edit(4, "end");
    split.run(&["--no-apply"]).assert_exit(0);
    let patch = fs::read_to_string(split.folder.join("big.patch")).unwrap();
    assert!(patch.starts_with("--- a/src/big.txt\n"), "{patch}");
    let apply = split.sandbox.program("git", &["apply", "split/big.patch"]).run();
    apply.assert_exit(0);
    assert!(split.source().ends_with("line 30\nend"));
}

#[test]
fn line_endings_stay_what_they_are() {
    let text = "a\r\nb\x0c\r\nc\r\nddd\r\ne";
    let split = Split::of("big.txt", text.as_bytes(), &[3, 7, 10, 12, text.len()]);
    split.edit(2, "B");
    split.edit(4, "D");
    let run = split.run(&[]).assert_exit(0).stderr_has(&["segment 2 had lost the line ending"]);
    // Segment 4 was cut inside of a line.
    assert!(!run.stderr.contains("segment 4"), "{}", run.stderr);
    assert_eq!(split.source(), "a\r\nB\r\nc\r\nDd\r\ne");
    split.agrees();
}

#[test]
fn a_segment_is_emptied_and_filled_again() {
    let split = Split::new();
    split.edit(2, "");
    split.run(&[]).assert_exit(0).no_stderr();
    assert!(split.source().contains("line 10\nline 21\n"));
    split.agrees();
    // And back from nothing.
    split.edit(2, "here again\n");
    split.run(&[]).assert_exit(0);
    assert!(split.source().contains("line 10\nhere again\nline 21\n"));
    split.agrees();
}

#[test]
fn segments_that_are_not_files_are_refused() {
    let check = |make: &dyn Fn(&Path), words: &[&str]| {
        let split = Split::new();
        fs::remove_file(split.segment(3)).unwrap();
        make(&split.segment(3));
        split.refuses(&[], words);
    };
    check(&|_| (), &["segment 3 is missing", "empty the file"]);
    check(&|path| fs::create_dir(path).unwrap(), &["big-0003.txt", "folder"]);
    check(&|path| symlink("big-0002.txt", path).unwrap(), &["big-0003.txt", "symbolic link"]);
    let fifo = |path: &Path| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    check(&fifo, &["big-0003.txt", "FIFO"]);
    // Swapped files are edits.
    let split = Split::new();
    let (two, three) = (fs::read(split.segment(2)).unwrap(), fs::read(split.segment(3)).unwrap());
    split.edit(2, three);
    split.edit(3, two);
    split.run(&[]).assert_exit(0);
    assert!(split.source().contains("line 10\nline 21\n"));
    split.agrees();
}

#[test]
fn an_index_that_is_damaged_is_refused() {
    let check = |change: &dyn Fn(&mut Value), words: &[&str]| {
        let split = Split::new();
        split.edit(2, "two\n");
        let mut value: Value =
            serde_json::from_slice(&fs::read(split.index_path()).unwrap()).unwrap();
        change(&mut value);
        fs::write(split.index_path(), serde_json::to_string_pretty(&value).unwrap()).unwrap();
        split.refuses(&[], words);
        split.refuses(&["--dry-run"], words);
    };
    let segments = |value: &mut Value, change: &dyn Fn(&mut Vec<Value>)| {
        change(value["segments"].as_array_mut().unwrap());
        value["segment_count"] = json!(value["segments"].as_array().unwrap().len());
    };
    check(&|index| *index = json!([]), &["index.json", "not an index"]);
    check(&|index| *index = json!({}), &["missing field"]);
    check(&|index| index["segments"] = json!("all"), &["invalid type"]);
    check(&|index| index["segments"][1] = json!(null), &["invalid"]);
    check(&|index| index["segments"][1]["start_byte"] = json!(-1), &["invalid value"]);
    check(&|index| index["segments"][1]["end_byte"] = json!(u64::MAX), &["segment 3 begins"]);
    check(&|index| index["segments"][1]["path"] = json!("/"), &["does not name a file"]);
    check(&|index| index["segments"][1]["path"] = json!(".."), &["does not name a file"]);
    check(&|index| index["segments"][1]["path"] = json!("index.json"), &["twice"]);
    check(&|index| index["segments"][1]["path"] = index["segments"][2]["path"].clone(), &["twice"]);
    check(&|index| index["segment_count"] = json!(3), &["segment_count is 3"]);
    check(&|index| segments(index, &|all| drop(all.remove(0))), &["segment 2 is listed where"]);
    check(&|index| segments(index, &|all| drop(all.pop())), &["segments end at byte"]);
    check(&|index| segments(index, &|all| all.swap(1, 2)), &["segment 3 is listed where"]);
    check(&|index| index["source_path"] = json!("big.txt"), &["not absolute"]);
    check(&|index| index["source_path"] = json!("/nowhere/big.txt"), &["not found"]);
    check(&|index| index["source_path"] = json!("/dev/null"), &["/dev/null"]);
    check(&|index| index["source_path"] = json!("/proc/self/status"), &["/status"]);
    check(
        &|index| {
            index["source_path"] = index["segments"][0]["path"].clone();
        },
        &["has changed since it was split"],
    );
    let split = Split::new();
    let text = fs::read(split.index_path()).unwrap();
    for length in [0, 1, text.len() / 2, text.len() - 3] {
        fs::write(split.index_path(), &text[..length]).unwrap();
        split.refuses(&[], &["index.json", "not an index"]);
    }
    fs::write(split.index_path(), b"\xff\xfe").unwrap();
    split.refuses(&[], &["index.json"]);
    fs::write(split.index_path(), "[".repeat(100_000)).unwrap();
    split.refuses(&[], &["index.json"]);
}

#[test]
fn an_index_with_other_hashes_or_ranges_is_refused() {
    let split = Split::new();
    let mut index = split.index();
    // The ranges no longer are those of the segments, but cover the source.
    index.segments[0].end_byte -= 1;
    index.segments[1].start_byte -= 1;
    split.put_index(&index);
    split.run(&[]).assert_exit(0).stderr_has(&["no changes"]);
    split.edit(2, "two\n");
    split.refuses(&[], &["the index is inconsistent"]);
    let split = Split::new();
    let mut index = split.index();
    index.segments[1].sha256 = "00".repeat(32);
    split.put_index(&index);
    // The segments are the source all the same, as after a run that was killed.
    split.run(&[]).assert_exit(0).stderr_has(&["the source has these edits already"]);
    split.agrees();
    split.edit(1, "x\n");
    index.segments[0].sha256 = "00".repeat(32);
    split.put_index(&index);
    split.refuses(&[], &["the index is inconsistent"]);
    // The source of another split.
    let split = Split::new();
    split.edit(1, "x\n");
    let other = split.sandbox.write("other.txt", numbered(41));
    let mut index = split.index();
    other.to_str().unwrap().clone_into(&mut index.source_path);
    split.put_index(&index);
    split.refuses(&[], &["other.txt", "has changed since it was split"]);
    assert_eq!(fs::read_to_string(other).unwrap(), numbered(41));
}

#[test]
fn another_folder_or_nothing_is_no_index() {
    let split = Split::new();
    let folder = split.folder.parent().unwrap().to_str().unwrap();
    split.sandbox.program(PATCH, &["--index", folder]).run().assert_exit(1).no_stdout();
    let run = split.sandbox.program(PATCH, &["--index", "nowhere/index.json"]).run();
    run.assert_exit(1).stderr_has(&["index not found", "nowhere/index.json"]);
    split.sandbox.program(PATCH, &[] as &[&str]).run().assert_exit(2);
}

#[test]
fn a_home_folder_is_expanded_and_a_split_can_be_moved() {
    let mut split = Split::new();
    split.edit(2, "two\n");
    let moved = split.sandbox.home().join("moved");
    fs::rename(&split.folder, &moved).unwrap();
    split.folder = moved;
    let run = split.sandbox.program(PATCH, &["--index", "~/moved/index.json"]).run();
    run.answers(&split.folder.join("big.patch").display().to_string());
    split.agrees();
    let index = split.index();
    assert_eq!(index.segments[0].path, split.segment(1).to_str().unwrap());
}

#[test]
fn the_patch_overwrites_no_file_of_ours() {
    let text = numbered(20);
    let mut split = Split::of("big.patch", text.as_bytes(), &by_lines(&text, 10));
    // Source and split in one folder.
    let beside = split.folder.join("big.patch");
    fs::rename(&split.source, &beside).unwrap();
    let mut index = split.index();
    beside.to_str().unwrap().clone_into(&mut index.source_path);
    split.put_index(&index);
    split.source = beside;
    split.edit(1, "x\n");
    split.refuses(&[], &["would overwrite", "move the folder of the split"]);
}

#[test]
fn modes_links_and_owners_survive() {
    let split = Split::new();
    fs::set_permissions(&split.source, Permissions::from_mode(0o751)).unwrap();
    let link = split.sandbox.work().join("link.txt");
    symlink("big.txt", &link).unwrap();
    let mut index = split.index();
    link.to_str().unwrap().clone_into(&mut index.source_path);
    split.put_index(&index);
    split.edit(1, "one\n");
    let run = split.run(&["--json"]).assert_exit(0).json();
    assert_eq!(run["source_path"], json!(split.source));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(split.source().starts_with("one\nline 11\n"));
    assert_eq!(fs::metadata(&split.source).unwrap().mode() & 0o7777, 0o751);

    let split = Split::new();
    let other = split.sandbox.work().join("other.txt");
    fs::hard_link(&split.source, &other).unwrap();
    for text in ["a longer first segment\n".repeat(20), "x\n".to_owned()] {
        let before = split.source();
        split.edit(1, text);
        let run = split.run(&["--json"]).assert_exit(0).json();
        let kept = fs::read_to_string(run["previous_path"].as_str().unwrap()).unwrap();
        assert_eq!(kept, before);
        assert_eq!(fs::read_to_string(&other).unwrap(), split.source());
        assert_eq!(fs::metadata(&other).unwrap().nlink(), 2);
        split.agrees();
    }
}

#[test]
fn a_source_that_is_read_only_is_left_alone() {
    let split = Split::new();
    fs::set_permissions(&split.source, Permissions::from_mode(0o444)).unwrap();
    split.edit(1, "one\n");
    split.refuses(&[], &["big.txt", "read-only"]);
    split.run(&["--dry-run"]).assert_exit(0);
}

#[test]
fn a_full_disk_leaves_all_as_it_was() {
    let text = numbered(20_000);
    let other = Path::new("other.txt");
    for linked in [false, true] {
        let split = Split::of("big.txt", text.as_bytes(), &by_lines(&text, 5_000));
        if linked {
            fs::hard_link(&split.source, split.sandbox.work().join(other)).unwrap();
        }
        split.edit(2, format!("{}{}", numbered(9_000), "more\n".repeat(3_000)));
        let before = split.source();
        let index = split.index_path().display().to_string();
        // In blocks of 512 or 1024 bytes, by the shell: room for the patch, not for the source.
        for blocks in [0, 1, 130, 180] {
            let line = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
            let args = ["-c", &line, PATCH, "--index", &index];
            split.sandbox.program("bash", &args).run().assert_exit(1).no_stdout();
            assert!(split.source() == before);
        }
        split.run(&[]).assert_exit(0);
        split.agrees();
        assert!(split.source().contains("line 5000\nline 1\n"));
    }
}

#[test]
fn a_source_that_changed_is_refused() {
    let split = Split::new();
    split.edit(2, "mine\n");
    fs::write(&split.source, numbered(40).replace("line 35\n", "")).unwrap();
    let words = ["has changed since it was split", "split it again", "the edits of big-0002.txt"];
    split.refuses(&[], &words);
    split.refuses(&["--dry-run"], &words);
    assert!(!split.folder.join("big.patch").exists());
    // As it was split, it takes the edit.
    fs::write(&split.source, numbered(40)).unwrap();
    split.run(&[]).assert_exit(0);
    split.agrees();
    for gone in ["--merge", "--force"] {
        split.run(&[gone]).assert_exit(2);
    }
}

#[test]
fn a_change_of_the_source_that_keeps_its_size_is_seen() {
    for (edited, changed) in [(2, "line 15"), (2, "line 35"), (3, "line 1\n")] {
        let split = Split::new();
        split.edit(edited, "mine\n");
        fs::write(&split.source, numbered(40).replace(changed, &changed.to_uppercase())).unwrap();
        split.refuses(&[], &["has changed since it was split"]);
        split.refuses(&["--dry-run"], &["has changed since it was split"]);
    }
}

#[test]
fn a_source_that_is_too_large_to_be_held_is_refused() {
    let split = Split::new();
    split.edit(2, "two\n");
    let most = conversation::limits::PATCHED_FILE;
    fs::File::options().write(true).open(&split.source).unwrap().set_len(most + 1).unwrap();
    let index = split.index_path().display().to_string();
    let run = |args: &[&str]| split.sandbox.program(PATCH, args).run().assert_exit(1);
    run(&["--index", &index]).stderr_has(&["up to 256 MiB"]);
    run(&["--index", &index, "--dry-run"]).stderr_has(&["big.txt", "268435456"]);
    fs::write(&split.source, numbered(40)).unwrap();
    fs::File::options().write(true).open(split.segment(3)).unwrap().set_len(most + 1).unwrap();
    split.refuses(&[], &["up to 256 MiB"]);
}

#[test]
fn the_lock_is_waited_for_and_signals_are_heard() {
    let split = Split::new();
    split.edit(1, "one\n");
    // The folder's own lock, which a split takes too.
    let lock = fs::canonicalize(&split.folder).unwrap();
    let file = fs::File::open(&lock).unwrap();
    let start = || {
        let running = split.cmd(&[]).spawn();
        let folder = format!("/proc/{}/fd", running.pid());
        let has_it = |path: PathBuf| fs::read_link(path).is_ok_and(|target| target == lock);
        wait_until("it waits for the lock", || {
            fs::read_dir(&folder).unwrap().any(|entry| has_it(entry.unwrap().path()))
        });
        running
    };
    file.lock().unwrap();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let running = start();
        running.signal(signal);
        running.wait().within(1.0).assert_exit(code).no_stdout().stderr_has(&["interrupted"]);
        assert_eq!(split.source(), numbered(40));
    }
    let running = start();
    file.unlock().unwrap();
    running.wait().assert_exit(0);
    split.agrees();
}

#[test]
fn two_at_once_lose_nothing() {
    let text = numbered(60_000);
    let split = Split::of("big.txt", text.as_bytes(), &by_lines(&text, 1_000));
    split.edit(7, "seven\n");
    let runs: Vec<_> = (0..4).map(|_| split.cmd(&[]).spawn()).collect();
    for run in runs {
        run.wait().assert_exit(0);
    }
    split.agrees();
    assert!(split.source().contains("line 6000\nseven\nline 7001\n"));
}

/// Kills runs at times that go from the start to the end of one, each with another edit: source and index agree after
/// the next run, and no edit is lost.
#[test]
fn a_kill_at_any_time_loses_nothing() {
    let text = numbered(90_000);
    let split = Split::of("big.txt", text.as_bytes(), &by_lines(&text, 15_000));
    split.edit(1, "first\n");
    split.run(&[]).assert_exit(0);
    split.edit(2, "second\n");
    let whole = split.run(&[]).assert_exit(0).seconds;
    let mut expect = split.source();
    let mut was = "first\n".to_owned();
    let mut killed = 0;
    // Five times, and on where too few kills came before the end: a busy machine is late.
    for n in 0..80u32 {
        if n >= 5 && killed >= 2 {
            break;
        }
        let now = format!("edit {n}\n").repeat(100 - n as usize);
        split.edit(1, &now);
        expect = expect.replacen(&was, &now, 1);
        was = now;
        let running = split.cmd(&[]).spawn();
        let part = f64::from(n % 5) / 4.0;
        std::thread::sleep(std::time::Duration::from_secs_f64(whole * part));
        running.signal(Signal::KILL);
        killed += u32::from(running.wait().code == -9);
        let document = split.run(&["--json"]).assert_exit(0).json();
        assert!(split.source() == expect, "kill {n}, {document}");
        split.agrees();
    }
    assert!(killed >= 2, "{killed} were killed");
}

#[test]
fn an_index_that_lost_its_last_entries_removes_nothing() {
    for left in [3, 1, 0] {
        let split = Split::new();
        let mut index = split.index();
        index.segments.truncate(left);
        index.segment_count = left;
        index.source_size_bytes = index.segments.last().map_or(0, |last| last.end_byte);
        split.put_index(&index);
        split.refuses(&[], &["the index is inconsistent"]);
        // The source has changed too.
        fs::write(&split.source, numbered(41)).unwrap();
        split.refuses(&[], &["has changed since it was split"]);
    }
}

#[test]
fn only_a_patch_of_this_source_is_overwritten() {
    let split = Split::new();
    let notes = split.folder.join("big.patch");
    split.edit(1, "x\n");
    for text in ["my own notes", "--- a/other.txt\n+++ b/other.txt\n"] {
        fs::write(&notes, text).unwrap();
        split.refuses(&[], &["big.patch", "not a patch of this source"]);
        assert_eq!(fs::read_to_string(&notes).unwrap(), text);
    }
    fs::write(&notes, "").unwrap();
    split.run(&[]).assert_exit(0);
    split.edit(1, "y\n");
    split.run(&[]).assert_exit(0);
    assert!(fs::read_to_string(&notes).unwrap().contains("+y"));
    split.agrees();
}

#[test]
fn files_of_the_user_stay() {
    let split = Split::new();
    let names = ["big-0001.txt.new", "big-0001.txt.ours", "index.json.new", "big.txt.orig"];
    for name in names {
        fs::write(split.folder.join(name), "precious").unwrap();
    }
    split.run(&[]).assert_exit(0);
    split.edit(1, "x");
    split.run(&[]).assert_exit(0);
    for name in names {
        assert_eq!(fs::read_to_string(split.folder.join(name)).unwrap(), "precious");
    }
    split.agrees();
}

#[test]
fn a_source_with_the_longest_name_is_patched() {
    let name = format!("{}.txt", "n".repeat(246));
    let text = numbered(40);
    let split = Split::of(&name, text.as_bytes(), &by_lines(&text, 10));
    split.edit(1, "x");
    split.run(&[]).assert_exit(0);
    split.agrees();
}
