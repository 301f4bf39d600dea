//! The index of files: many at once, older forms, damage, the list, files refused. What makes a file the same one is
//! `file_identity`'s.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::sandbox::{NAGENT, Sandbox, answer};

/// A world whose model answers whatever it is asked.
pub(crate) fn world() -> Sandbox {
    let sandbox = Sandbox::outside_temp();
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(|_| answer("done").into());
    sandbox
}

/// Opens a file's conversation, and gives its name.
#[track_caller]
pub(crate) fn open(sandbox: &Sandbox, path: impl AsRef<Path>) -> String {
    let path = path.as_ref().to_str().unwrap();
    let run = sandbox.run(&["--json", "--file-edit", path, "task"]).assert_exit(0);
    let document = run.json();
    let conversation = document["conversation_path"].as_str().unwrap();
    conversation.rsplit('/').next().unwrap().to_owned()
}

pub(crate) fn index_path(sandbox: &Sandbox) -> PathBuf {
    sandbox.root().join("conversations/file-index.json")
}

pub(crate) fn index(sandbox: &Sandbox) -> Value {
    serde_json::from_str(&std::fs::read_to_string(index_path(sandbox)).unwrap()).unwrap()
}

pub(crate) fn put_index(sandbox: &Sandbox, name: &str, text: &str) -> PathBuf {
    let folder = sandbox.root().join("conversations");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
    folder.join(name)
}

pub(crate) fn entries(sandbox: &Sandbox) -> Vec<Value> {
    index(sandbox)["by_file_id"].as_object().unwrap().values().cloned().collect()
}

/// Device, inode and time of birth, as the index has them.
pub(crate) fn identity(path: &Path) -> String {
    let metadata = std::fs::metadata(path).unwrap();
    // The standard library has no time of birth with musl.
    let (cwd, flags) = (rustix::fs::CWD, rustix::fs::AtFlags::empty());
    let birth =
        rustix::fs::statx(cwd, path, flags, rustix::fs::StatxFlags::BTIME).unwrap().stx_btime;
    let born = i128::from(birth.tv_sec) * 1_000_000_000 + i128::from(birth.tv_nsec);
    format!("{}:{}:{born}", metadata.dev(), metadata.ino())
}

/// Saves as many editors do: a new file takes the name.
pub(crate) fn save(path: &Path, text: &str) {
    let new = path.with_file_name(".new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, path).unwrap();
}

pub(crate) fn git(sandbox: &Sandbox, folder: &Path, args: &[&str]) {
    let mut all =
        vec!["-c", "user.name=a", "-c", "user.email=a@x", "-c", "protocol.file.allow=always"];
    all.extend(args);
    drop(sandbox.program("git", &all).folder(folder).run().assert_exit(0));
}

#[test]
fn many_at_once_lose_no_entry() {
    let sandbox = world();
    for n in 0..24 {
        sandbox.write(&format!("f{n}"), "text\n");
    }
    let start = |file: &str| sandbox.cmd(&["--json", "--file-edit", file, "task"]).spawn();
    let all: Vec<_> = (0..24).map(|n| start(&format!("f{n}"))).collect();
    for run in all {
        drop(run.wait().assert_exit(0));
    }
    let found = entries(&sandbox);
    let names: std::collections::BTreeSet<_> =
        found.iter().map(|entry| entry["conversation"].as_str().unwrap()).collect();
    assert_eq!((found.len(), names.len()), (24, 24));
    for name in names {
        assert!(sandbox.root().join("conversations").join(name).is_file());
    }
}

#[test]
fn many_of_one_file_have_one_conversation() {
    let sandbox = world().file("f", "text\n");
    let args = ["--json", "--lock-timeout", "60", "--file-edit", "f", "task"];
    let all: Vec<_> = (0..24).map(|_| sandbox.cmd(&args).spawn()).collect();
    for run in all {
        drop(run.wait().assert_exit(0));
    }
    assert_eq!(entries(&sandbox).len(), 1);
    assert_eq!(sandbox.conversation_paths().len(), 1);
    assert_eq!(sandbox.blocks_of("user-prompt").len(), 24);
}

#[test]
fn older_indexes_are_folded_in_once() {
    let sandbox = world().file("a", "a\n").file("b", "b\n").file("c", "c\n").file("d", "d\n");
    let at = |name: &str| sandbox.work().join(name).display().to_string();
    let id = |name: &str| {
        let metadata = std::fs::metadata(at(name)).unwrap();
        format!("{}:{}", metadata.dev(), metadata.ino())
    };
    let entry = |id: &str, path: String, name: &str| json!({"file_id": id, "path": path, "conversation": name});
    let first = json!({"by_file_id": {
        id("a"): entry(&id("a"), at("a"), "conv-a"),
        // Its inode is another file's now.
        id("d"): entry(&id("d"), at("gone"), "conv-gone"),
        format!("path:{}", at("b")): entry(&format!("path:{}", at("b")), at("b"), "conv-b"),
        "5:6": 7,
    }});
    put_index(&sandbox, "file-index-77.json", &first.to_string());
    let flat = json!({at("c"): "conv-c", at("x"): 5, at("a"): "late-a", at("y"): "../../evil"});
    put_index(&sandbox, "file-index-78.json", &flat.to_string());
    let damaged = put_index(&sandbox, "file-index-79.json", "{\"by_file_id\": {");
    // Of two conversations for one file the one that was used last counts.
    put_index(&sandbox, "conv-a", "");
    put_index(&sandbox, "late-a", "");
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    let file = std::fs::File::open(sandbox.root().join("conversations/late-a")).unwrap();
    file.set_modified(past).unwrap();

    // A look takes nothing over.
    let list = sandbox.run(&["--list-file-edits", "--json"]).assert_exit(0).json();
    assert_eq!(list["files"].as_array().unwrap().len(), 4, "{list}");
    assert!(!index_path(&sandbox).exists());

    let run = sandbox.run(&["--json", "--file-edit", "a", "task"]).assert_exit(0);
    let run = run.stderr_has(&["file-index-79.json", "left alone", "evil"]);
    assert!(run.json()["conversation_path"].as_str().unwrap().ends_with("/conv-a"));
    let files = std::fs::read_dir(sandbox.root().join("conversations")).unwrap();
    let mut names: Vec<_> = files
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.contains("file-index"))
        .collect();
    names.sort();
    let expect = [
        "file-index-79.json",
        "file-index.json",
        "folded-file-index-77.json",
        "folded-file-index-78.json",
    ];
    assert_eq!(names, expect);
    assert_eq!(std::fs::read_to_string(damaged).unwrap(), "{\"by_file_id\": {");
    let kept = sandbox.root().join("conversations/folded-file-index-78.json");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), flat.to_string(), "nothing is lost");

    assert_eq!(open(&sandbox, "b"), "conv-b");
    assert_eq!(open(&sandbox, "c"), "conv-c");
    assert!(open(&sandbox, "d").starts_with("d-"), "an inode alone is no identity");
    assert_eq!(open(&sandbox, "gone"), "conv-gone", "a path is");
    // An old tool that still runs is heard again; what is known counts.
    put_index(&sandbox, "file-index-77.json", &first.to_string());
    assert_eq!(open(&sandbox, "a"), "conv-a");
    assert_eq!(entries(&sandbox).len(), 5);
}

#[test]
fn a_flat_index_under_the_present_name_is_read_too() {
    let sandbox = world().file("a", "a\n");
    let path = sandbox.work().join("a");
    put_index(&sandbox, "file-index.json", &json!({path.to_str().unwrap(): "mine"}).to_string());
    assert_eq!(open(&sandbox, "a"), "mine");
    assert_eq!(entries(&sandbox)[0]["file_id"], identity(&path));
}

#[test]
fn a_damaged_index_is_named_and_left_alone() {
    for text in
        ["{\"by_file_id\": {\"1:2", "[]", "{\"by_file_id\": {\"1:2:3\": {\"path\": 5}}}", "\u{0}"]
    {
        let sandbox = world().file("a", "a\n");
        let path = put_index(&sandbox, "file-index.json", text);
        for args in [&["--file-edit", "a", "task"] as &[&str], &["--list-file-edits"]] {
            let run = sandbox.run(args).assert_exit(1).no_stdout();
            drop(run.stderr_has(&["file-index.json", "is not an index of files", "move it away"]));
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), text);
        assert_eq!((sandbox.requests().len(), sandbox.conversation_paths().len()), (0, 0));
    }
}

#[test]
fn keys_that_nobody_knows_stay() {
    let sandbox = world().file("a", "a\n").file("b", "b\n");
    open(&sandbox, "a");
    let mut changed = index(&sandbox);
    let id = entries(&sandbox)[0]["file_id"].as_str().unwrap().to_owned();
    changed["by_file_id"][&id]["note"] = json!({"x": [1]});
    changed["version"] = json!(7);
    put_index(&sandbox, "file-index.json", &changed.to_string());
    save(&sandbox.work().join("a"), "new\n");
    open(&sandbox, "a");
    open(&sandbox, "b");
    let now = index(&sandbox);
    assert_eq!(now["version"], 7);
    let id = identity(&sandbox.work().join("a"));
    assert_eq!(now["by_file_id"][&id]["note"], json!({"x": [1]}));
}

#[test]
fn a_forged_name_leads_nowhere() {
    for name in ["../../evil", "/etc/passwd", "", "x.run", "a\nb"] {
        let sandbox = world().file("a", "a\n");
        let path = sandbox.work().join("a");
        let forge = |id: &str| {
            let entry = json!({"file_id": id, "path": path, "conversation": name});
            put_index(&sandbox, "file-index.json", &json!({"by_file_id": {id: entry}}).to_string());
        };
        forge("1:2:3");
        assert!(open(&sandbox, "a").starts_with("a-"));
        forge(&identity(&path));
        let list = sandbox.run(&["--list-file-edits", "--json"]).assert_exit(0).json();
        assert!(list["files"][0]["conversation_path"].is_null(), "{list}");
        assert!(open(&sandbox, "a").starts_with("a-"));
        assert_eq!(entries(&sandbox).len(), 1);
    }
}

#[test]
fn the_list_names_each_file_once_and_harmlessly() {
    let sandbox = world();
    let list = sandbox.run(&["--list-file-edits", "--json"]).assert_exit(0).json();
    assert_eq!(list["files"], json!([]));
    assert_eq!(list["file_index_path"], index_path(&sandbox).to_str().unwrap());
    let head = format!("file_index:{}\n", index_path(&sandbox).display());
    sandbox.run(&["--list-file-edits"]).assert_exit(0).stdout_is(&head).no_stderr();

    sandbox.write("a\nb\t\u{1b}[31m\"'.txt", "a\n");
    sandbox.write("-n", "b\n");
    let odd = sandbox.work().join(std::ffi::OsStr::from_bytes(b"x\xff.txt"));
    std::fs::write(&odd, "c\n").unwrap();
    let first = open(&sandbox, "a\nb\t\u{1b}[31m\"'.txt");
    let run = sandbox.run(&["--file-edit=-n", "task"]).assert_exit(0);
    drop(run.stdout_is("done\n"));
    for _ in 0..2 {
        let script = format!("'{NAGENT}' --file-edit $'x\\xff.txt' task");
        drop(sandbox.program("bash", &["-c", &script]).run().assert_exit(0).stdout_is("done\n"));
    }
    let text = sandbox.run(&["--list-file-edits"]).assert_exit(0).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(
        lines[1..].iter().all(|line| line.split('\t').count() == 3 && !line.contains('\u{1b}'))
    );
    assert!(lines[1..].is_sorted(), "{text}");
    let list = sandbox.run(&["--list-file-edits", "--json"]).assert_exit(0).json();
    let files = list["files"].as_array().unwrap();
    let strange = files.iter().find(|file| file["path_bytes"].is_string()).unwrap();
    assert!(strange["path_bytes"].as_str().unwrap().ends_with("2f78ff2e747874"), "{strange}");
    assert_eq!(strange["exists"], true);
    let named = files.iter().find(|file| file["conversation"] == first.as_str()).unwrap();
    assert!(named["path"].as_str().unwrap().ends_with("a\nb\t\u{1b}[31m\"'.txt"));
    assert!(Path::new(named["conversation_path"].as_str().unwrap()).is_file());
    std::fs::remove_file(odd).unwrap();
    let list = sandbox.run(&["--list-file-edits", "--json"]).assert_exit(0).json();
    let gone = list["files"].as_array().unwrap().iter().filter(|file| file["exists"] == false);
    assert_eq!(gone.count(), 1);
}

#[test]
fn clear_puts_the_files_conversation_aside_and_keeps_its_name() {
    let sandbox = world().file("a.txt", "a\n");
    let name = open(&sandbox, "a.txt");
    let old = sandbox.conversation();
    let run = sandbox.run(&["--file-edit", "a.txt", "--clear", "--json"]).assert_exit(0);
    let document = run.json();
    let archived = document["archived_path"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(archived).unwrap(), old);
    assert!(document["conversation_path"].as_str().unwrap().ends_with(&name));
    assert_eq!(open(&sandbox, "a.txt"), name);
    assert!(!sandbox.requests().pop().unwrap().text().contains("assistant"));
    assert_eq!(entries(&sandbox).len(), 1);
}

#[test]
fn what_no_tag_could_write_is_refused_before_a_model_is_asked() {
    let sandbox = world().file("plain", "a\n").file("read-only", "a\n").file("sub/x", "x\n");
    let at = |name: &str| sandbox.work().join(name);
    let mode = std::fs::Permissions::from_mode(0o444);
    std::fs::set_permissions(at("read-only"), mode).unwrap();
    drop(sandbox.program("mkfifo", &["fifo"]).run().assert_exit(0));
    git(&sandbox, &sandbox.work(), &["init", "-q", "--bare", "bare"]);
    sandbox.write("bare/x", "x\n");
    symlink("/dev/null", at("to-device")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink("loop", at("loop")).unwrap();
    for (path, word) in [
        ("sub", "is a folder"),
        (".", "is a folder"),
        ("fifo", "FIFO"),
        ("/dev/null", "device"),
        ("to-device", "device"),
        ("/proc/self/status", "procfs"),
        ("read-only", "read-only"),
        (".git/config", "repository's own data"),
        ("bare/x", "repository's own data"),
        ("dangling", "symbolic link"),
        ("loop", "symbolic link"),
        ("no/such/folder/x", "no such folder"),
        ("plain/x", "no such folder"),
    ] {
        let flag = format!("--file-edit={path}");
        let run = sandbox.run(&[flag.as_str(), "--json", "task"]).assert_exit(1);
        let document = run.json();
        assert!(document["error"].as_str().unwrap().contains(word), "{path}: {document}");
        drop(run.within(5.0));
    }
    assert_eq!((sandbox.requests().len(), sandbox.conversation_paths().len()), (0, 0));
    assert!(!index_path(&sandbox).exists());
}

#[test]
fn a_binary_file_and_one_on_another_device_have_conversations() {
    let sandbox = world().file("binary", b"\0\x01\xff");
    open(&sandbox, "binary");
    let shm = Path::new("/dev/shm");
    if shm.is_dir() {
        let folder = tempfile::Builder::new().prefix("nagent-test-").tempdir_in(shm).unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "a\n").unwrap();
        symlink(&path, folder.path().join("link")).unwrap();
        let name = open(&sandbox, &path);
        assert_eq!(open(&sandbox, folder.path().join("link")), name);
    }
}
