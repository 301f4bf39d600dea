//! What makes a file the same one, so that its conversation is found: its identity, then its path.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use serde_json::json;

use crate::file_index::{entries, git, identity, open, put_index, save, world};
use crate::sandbox::Sandbox;

/// A repository in `work/one` with `src/x.py` in its second commit.
fn repository(sandbox: &Sandbox) -> PathBuf {
    let one = sandbox.work().join("one");
    sandbox.write("one/first", "1\n");
    git(sandbox, &one, &["init", "-q", "-b", "main"]);
    for (path, text) in [("one/first", "1\n"), ("one/src/x.py", "x = 1\n")] {
        sandbox.write(path, text);
        git(sandbox, &one, &["add", "."]);
        git(sandbox, &one, &["commit", "-q", "-m", "c"]);
    }
    one
}

#[test]
fn a_file_keeps_its_conversation_under_every_name_and_a_copy_has_its_own() {
    let sandbox = world().file("a.txt", "a\n");
    let at = |name: &str| sandbox.work().join(name);
    let name = open(&sandbox, at("a.txt"));
    assert!(name.starts_with("a-"), "{name}");
    std::fs::create_dir(at("sub")).unwrap();
    std::fs::rename(at("a.txt"), at("sub/b.txt")).unwrap();
    assert_eq!(open(&sandbox, at("sub/b.txt")), name, "renamed");
    std::fs::hard_link(at("sub/b.txt"), at("link.txt")).unwrap();
    assert_eq!(open(&sandbox, at("link.txt")), name, "a hard link");
    assert_eq!(entries(&sandbox)[0]["path"], at("link.txt").to_str().unwrap());
    assert_eq!(open(&sandbox, at("sub/b.txt")), name, "and back");
    symlink("sub/b.txt", at("soft")).unwrap();
    assert_eq!(open(&sandbox, at("soft")), name, "a symbolic link");
    assert_eq!(entries(&sandbox)[0]["path"], at("sub/b.txt").to_str().unwrap());
    assert_eq!(entries(&sandbox).len(), 1);
    std::fs::copy(at("sub/b.txt"), at("copy.txt")).unwrap();
    assert_ne!(open(&sandbox, at("copy.txt")), name, "a copy");
    assert_eq!(open(&sandbox, at("sub/b.txt")), name);
    assert_eq!(entries(&sandbox).len(), 2);
}

#[test]
fn whatever_shell_asks() {
    let sandbox = world().file("a.txt", "a\n");
    let name = open(&sandbox, "a.txt");
    for id in ["1", "2"] {
        let run = sandbox.run(&["--pid", id, "--json", "--file-edit", "a.txt", "x"]).assert_exit(0);
        assert!(run.json()["conversation_path"].as_str().unwrap().ends_with(&name));
    }
}

#[test]
fn an_editor_that_saves_by_renaming_keeps_the_conversation() {
    let sandbox = world().file("a.txt", "a\n");
    let path = sandbox.work().join("a.txt");
    let name = open(&sandbox, &path);
    save(&path, "b\n");
    assert_eq!(open(&sandbox, &path), name);
    // Found by the new identity from now on.
    assert_eq!(entries(&sandbox).len(), 1);
    assert_eq!(entries(&sandbox)[0]["file_id"], identity(&path));
    std::fs::rename(&path, sandbox.work().join("b.txt")).unwrap();
    assert_eq!(open(&sandbox, "b.txt"), name);
}

#[test]
fn an_editors_backup_takes_no_memory_away_and_a_renamed_file_takes_its_along() {
    let sandbox = world().file("a.txt", "a\n");
    let at = |name: &str| sandbox.work().join(name);
    let name = open(&sandbox, "a.txt");
    std::fs::rename(at("a.txt"), at("a.txt~")).unwrap();
    sandbox.write("a.txt", "b\n");
    assert_eq!(open(&sandbox, "a.txt"), name);
    assert_ne!(open(&sandbox, "a.txt~"), name);
    std::fs::rename(at("a.txt"), at("b.txt")).unwrap();
    sandbox.write("a.txt", "c\n");
    assert_ne!(open(&sandbox, "a.txt"), name, "its own file is b.txt now");
    let path = |name: &str| at(name).to_str().unwrap().to_owned();
    let of = |name: &str| {
        let mut all = entries(&sandbox).into_iter();
        all.find(|e| e["conversation"] == name).unwrap()["path"].clone()
    };
    assert_eq!(of(&name), path("b.txt"), "before anybody opens it");
    assert_eq!(open(&sandbox, "b.txt"), name);
}

#[test]
fn a_file_that_took_anothers_path_leaves_one_entry_there() {
    let sandbox = world().file("a.txt", "a\n").file("sub/x", "x\n");
    let at = |name: &str| sandbox.work().join(name);
    let name = open(&sandbox, "a.txt");
    std::fs::rename(at("a.txt"), at("sub/b.txt")).unwrap();
    assert_eq!(open(&sandbox, "sub/b.txt"), name);
    sandbox.write("a.txt", "other\n");
    assert_ne!(open(&sandbox, "a.txt"), name);
    std::fs::rename(at("sub/b.txt"), at("a.txt")).unwrap();
    let run = sandbox.run(&["--json", "--file-edit", "a.txt", "task"]).assert_exit(0);
    run.stderr_has(&["a.txt is another file now", "--load-conversation a-"]);
    assert_eq!(open(&sandbox, "a.txt"), name);
    // The entry of the file that was replaced stays, and does not stand in the way.
    let gone = |entry: &serde_json::Value| entry["gone"] == true;
    assert_eq!(entries(&sandbox).iter().map(gone).filter(|gone| *gone).count(), 1);
    assert_eq!(entries(&sandbox).len(), 2);
    save(&at("a.txt"), "new\n");
    assert_eq!(open(&sandbox, "a.txt"), name);
    let list = sandbox.run(&["--list-file-edits", "--json"]).assert_exit(0).json();
    let files = list["files"].as_array().unwrap();
    assert_eq!(files.iter().filter(|file| file["exists"] == false).count(), 1, "{list}");
}

#[test]
fn no_entry_is_dropped_whatever_is_renamed() {
    let sandbox = world().file("f", "f\n").file("b", "b\n");
    let at = |name: &str| sandbox.work().join(name);
    let rename = |from: &str, to: &str| std::fs::rename(at(from), at(to)).unwrap();
    let (f, b) = (open(&sandbox, "f"), open(&sandbox, "b"));
    rename("b", "f");
    assert_eq!(open(&sandbox, "f"), b);
    let mut names: Vec<String> =
        entries(&sandbox).iter().map(|e| e["conversation"].as_str().unwrap().into()).collect();
    names.sort();
    let mut expect = [f, b];
    expect.sort();
    assert_eq!(names, expect);
    // As an editor or a script does it: the copy takes the name of the original.
    let sandbox = world().file("f", "f\n");
    let at = |name: &str| sandbox.work().join(name);
    let rename = |from: &str, to: &str| std::fs::rename(at(from), at(to)).unwrap();
    let first = open(&sandbox, "f");
    rename("f", "g");
    std::fs::copy(at("g"), at("t")).unwrap();
    rename("t", "g");
    let second = open(&sandbox, "g");
    assert_ne!(first, second);
    rename("g", "f");
    assert_eq!(open(&sandbox, "f"), second);
    assert!(entries(&sandbox).iter().any(|entry| entry["conversation"] == first.as_str()));
    // A file that never existed, and whose path another one takes.
    let never = open(&sandbox, "never");
    rename("f", "never");
    assert_eq!(open(&sandbox, "never"), second);
    assert!(entries(&sandbox).iter().any(|entry| entry["conversation"] == never.as_str()));
    // Once the path is free again, it leads to the last one that had it.
    rename("never", "f");
    assert_eq!(open(&sandbox, "f"), second);
    assert_eq!(open(&sandbox, "never"), never);
}

#[test]
fn an_inode_that_another_file_got_inherits_nothing() {
    let sandbox = world().file("old.txt", "a\n");
    let name = open(&sandbox, "old.txt");
    std::fs::remove_file(sandbox.work().join("old.txt")).unwrap();
    let new = sandbox.write("new.txt", "b\n");
    // As if the file system had given the inode away: the same but for the time of birth.
    let metadata = std::fs::metadata(&new).unwrap();
    let id = format!("{}:{}:1790000000000000001", metadata.dev(), metadata.ino());
    let old = sandbox.work().join("old.txt");
    let entry = json!({"file_id": id, "path": old, "conversation": name});
    put_index(&sandbox, "file-index.json", &json!({"by_file_id": {&id: entry}}).to_string());
    assert_ne!(open(&sandbox, "new.txt"), name);
    // Without a time of birth nobody knows, so that only the path counts.
    let id = format!("{}:{}:0", metadata.dev(), metadata.ino());
    let entry = json!({"file_id": id, "path": old, "conversation": name});
    put_index(&sandbox, "file-index.json", &json!({"by_file_id": {&id: entry}}).to_string());
    assert_ne!(open(&sandbox, "new.txt"), name);
    sandbox.write("old.txt", "c\n");
    assert_eq!(open(&sandbox, "old.txt"), name, "the same path, anew");
}

#[test]
fn two_clones_and_worktrees_are_as_many_files() {
    let sandbox = world();
    let one = repository(&sandbox);
    let name = open(&sandbox, one.join("src/x.py"));
    git(&sandbox, &sandbox.work(), &["clone", "-q", "one", "two"]);
    git(&sandbox, &one, &["worktree", "add", "-q", "../three"]);
    // An editor that saves leaves its own path's file there: no clone may take it for gone.
    save(&one.join("src/x.py"), "x = 2\n");
    let two = open(&sandbox, "two/src/x.py");
    let three = open(&sandbox, "three/src/x.py");
    assert!(two != name && three != name && two != three, "{name} {two} {three}");
    assert_eq!(open(&sandbox, one.join("src/x.py")), name);
    assert_eq!(open(&sandbox, "two/src/x.py"), two);
    assert_eq!(entries(&sandbox).len(), 3);
}

#[test]
fn a_file_that_does_not_exist_yet_is_made_by_the_first_write() {
    let sandbox = world();
    let path = sandbox.work().join("new.txt");
    let name = open(&sandbox, &path);
    assert!(!path.exists());
    assert_eq!(open(&sandbox, &path), name, "still not there");
    sandbox.llm.push("<nagent-write path=\"new.txt\">text\n</nagent-write>");
    assert_eq!(open(&sandbox, &path), name);
    assert_eq!(sandbox.read("new.txt"), "text\n");
    assert_eq!(entries(&sandbox).len(), 1);
    assert_eq!(entries(&sandbox)[0]["file_id"], identity(&path));
    // Known by its identity before anybody opens it again.
    std::fs::create_dir(sandbox.work().join("sub")).unwrap();
    std::fs::rename(&path, sandbox.work().join("sub/other.txt")).unwrap();
    assert_eq!(open(&sandbox, "sub/other.txt"), name);
}

#[test]
fn a_file_that_the_run_wrote_is_known_by_its_new_identity() {
    let sandbox = world().file("a.txt", "a\n");
    sandbox.llm.push("<nagent-write path=\"a.txt\">b\n</nagent-write>");
    let name = open(&sandbox, "a.txt");
    std::fs::rename(sandbox.work().join("a.txt"), sandbox.work().join("b.txt")).unwrap();
    assert_eq!(open(&sandbox, "b.txt"), name);
    assert_eq!(entries(&sandbox).len(), 1);
}
