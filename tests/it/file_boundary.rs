//! What a file's own conversation may write, through the executables: links, swaps, hard links,
//! forged indexes.

mod swaps;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::blocks::Block;
use crate::file_edit::{edit, write};
use crate::sandbox::{Sandbox, answer, shell};

/// What happens while the model thinks, and its reply.
pub(crate) type Step = (Box<dyn FnMut() + Send>, String);

pub(crate) fn nothing(reply: impl Into<String>) -> Step {
    (Box::new(|| ()), reply.into())
}

pub(crate) fn after(happens: impl FnMut() + Send + 'static, reply: impl Into<String>) -> Step {
    (Box::new(happens), reply.into())
}

/// Runs replies one by one on a file's conversation; before each goes out, its step happens.
pub(crate) fn run(sandbox: &Sandbox, file: &str, steps: Vec<Step>) {
    let mut steps = steps.into_iter().chain([nothing(answer("done"))]);
    sandbox.llm.choose(move |_| {
        let (mut happens, reply) = steps.next().expect("no more requests than steps");
        happens();
        reply.into()
    });
    sandbox.file_edit(&["--file", file, "--no-summaries", "task"]).run().assert_exit(0);
}

/// The results of writes, edits and patches, in order.
pub(crate) fn results(sandbox: &Sandbox) -> Vec<Block> {
    let is_one = |block: &Block| {
        ["nagent-write-result", "nagent-edit-result", "nagent-file-patch-result"]
            .contains(&block.name.as_str())
    };
    sandbox.blocks().into_iter().filter(is_one).collect()
}

pub(crate) fn statuses(sandbox: &Sandbox) -> Vec<String> {
    results(sandbox).iter().map(|block| block.get("status").to_owned()).collect()
}

#[track_caller]
pub(crate) fn refused(block: &Block, words: &str) {
    assert_eq!(block.get("status"), "error", "{block:?}");
    assert!(block.body.contains(words), "{words:?} in {block:?}");
}

/// A world with `a.txt` and, out of its reach, `out/a.txt` and `out/victim`.
pub(crate) fn world() -> Sandbox {
    Sandbox::outside_temp()
        .file("in/a.txt", "old\n")
        .file("out/a.txt", "outside\n")
        .file("out/victim", "outside\n")
}

/// All that stands in `out`, by name and content.
fn outside(sandbox: &Sandbox) -> Vec<(String, String)> {
    let mut all: Vec<_> = fs::read_dir(sandbox.work().join("out"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    all.sort();
    all
}

#[track_caller]
fn nothing_outside_was_written(sandbox: &Sandbox) {
    let expect = ["a.txt", "victim"].map(|name| (name.to_owned(), "outside\n".to_owned()));
    assert_eq!(outside(sandbox), expect);
}

// Which files.

#[test]
fn the_target_is_written_and_nothing_beside_it() {
    let sandbox = world().file("in/b.txt", "b\n");
    let tmp = sandbox.tmp().join("x.txt");
    let root = sandbox.root().join("context.md");
    let git = sandbox.work().join(".git/config");
    let before = fs::read_to_string(&git).unwrap();
    let mut steps = vec![nothing(edit("in/a.txt", "old", "new"))];
    let others = [
        ("in/b.txt", "outside of the write boundary"),
        ("in/new.txt", "outside of the write boundary"),
        ("in/../out/victim", "outside of the write boundary"),
        (tmp.to_str().unwrap(), "outside of the write boundary"),
        (root.to_str().unwrap(), "nagent's own folder"),
        (git.to_str().unwrap(), "repository's own data"),
        (".git/hooks/pre-commit", "repository's own data"),
    ];
    steps.extend(others.iter().map(|(path, _)| nothing(write(path, "new\n"))));
    run(&sandbox, "in/a.txt", steps);
    let results = results(&sandbox);
    assert_eq!((results[0].get("status"), sandbox.read("in/a.txt").as_str()), ("ok", "new\n"));
    for (block, (_, words)) in results[1..].iter().zip(others) {
        refused(block, words);
    }
    assert_eq!(sandbox.read("in/b.txt"), "b\n");
    assert!(!tmp.exists() && !root.exists());
    assert_eq!(fs::read_to_string(git).unwrap(), before);
    nothing_outside_was_written(&sandbox);
}

#[test]
fn a_folder_that_the_user_names_may_be_written_too() {
    let sandbox = world();
    sandbox.llm.push(write("out/new.txt", "new\n"));
    sandbox.llm.push(answer("done"));
    let args = ["--file", "in/a.txt", "--write", "out", "task"];
    sandbox.file_edit(&args).run().assert_exit(0);
    assert_eq!(sandbox.read("out/new.txt"), "new\n");
}

#[test]
fn what_cannot_be_a_target_is_refused_before_a_model_is_asked() {
    let sandbox = world();
    symlink("nowhere", sandbox.work().join("broken")).unwrap();
    fs::set_permissions(sandbox.work().join("in/a.txt"), fs::Permissions::from_mode(0o444))
        .unwrap();
    let fifo = sandbox.work().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    for (file, words) in [
        (".git/config", "repository's own data"),
        (".git/new", "repository's own data"),
        ("in", "folder"),
        ("fifo", "FIFO"),
        ("/dev/null", "device"),
        ("/proc/self/status", "proc"),
        ("in/a.txt", "read-only"),
        ("no/such/folder/a.txt", "no such folder"),
    ] {
        let run = sandbox.file_edit(&["--file", file, "task"]).run().assert_exit(1).no_stdout();
        run.stderr_has(&[words]);
    }
    assert_eq!(sandbox.requests().len(), 0);
}

#[test]
fn a_target_in_the_root_that_the_user_named_may_be_written() {
    let sandbox = world();
    let path = sandbox.root().join("context.md");
    fs::write(&path, "old\n").unwrap();
    let path = path.to_str().unwrap();
    run(&sandbox, path, vec![nothing(edit(path, "old", "new"))]);
    assert_eq!(fs::read_to_string(path).unwrap(), "new\n");
}

// Links.

#[test]
fn links_that_the_user_names_lead_to_the_target_and_stay_links() {
    let sandbox = world();
    symlink("in/a.txt", sandbox.work().join("link")).unwrap();
    symlink("in", sandbox.work().join("folder")).unwrap();
    for (file, old, new) in
        [("link", "old", "1"), ("folder/a.txt", "1", "2"), ("folder/../link", "2", "3")]
    {
        sandbox.llm.allow_rewrites();
        run(&sandbox, file, vec![nothing(edit(file, old, new))]);
        assert_eq!(sandbox.read("in/a.txt"), format!("{new}\n"), "{file}");
    }
    assert_eq!(statuses(&sandbox), ["ok", "ok", "ok"], "one conversation for all names");
    for link in ["link", "folder"] {
        assert!(fs::symlink_metadata(sandbox.work().join(link)).unwrap().is_symlink());
    }
}

#[test]
fn a_link_that_is_planted_at_the_targets_path_leads_nowhere() {
    let sandbox = world();
    let (path, victim) = (sandbox.work().join("in/a.txt"), sandbox.work().join("out/victim"));
    let plant = move || {
        fs::remove_file(&path).unwrap();
        symlink(&victim, &path).unwrap();
    };
    let steps =
        vec![after(plant, write("in/a.txt", "new\n")), nothing(edit("in/a.txt", "outside", "new"))];
    run(&sandbox, "in/a.txt", steps);
    for block in results(&sandbox) {
        refused(&block, "outside of the write boundary");
    }
    nothing_outside_was_written(&sandbox);
}

#[test]
fn a_folder_that_becomes_a_link_leads_nowhere() {
    let sandbox = world();
    let work = sandbox.work();
    let plant = move || {
        fs::rename(work.join("in"), work.join("aside")).unwrap();
        symlink("out", work.join("in")).unwrap();
    };
    let steps = vec![
        after(plant, write("in/a.txt", "new\n")),
        nothing(edit("in/a.txt", "outside", "new")),
        // The target is still the target where it was moved to.
        nothing(edit("aside/a.txt", "old", "new")),
    ];
    run(&sandbox, "in/a.txt", steps);
    let results = results(&sandbox);
    refused(&results[0], "outside of the write boundary");
    refused(&results[1], "outside of the write boundary");
    assert_eq!(results[2].get("status"), "ok", "{:?}", results[2]);
    assert_eq!(sandbox.read("aside/a.txt"), "new\n");
    nothing_outside_was_written(&sandbox);
}

#[test]
fn hard_links_are_written_in_place_and_a_planted_one_is_not() {
    let sandbox = world();
    let (path, other) = (sandbox.work().join("in/a.txt"), sandbox.work().join("in/other"));
    fs::hard_link(&path, &other).unwrap();
    let inode = fs::metadata(&other).unwrap().ino();
    run(&sandbox, "in/a.txt", vec![nothing(edit("in/a.txt", "old", "both"))]);
    assert_eq!(
        (sandbox.read("in/a.txt"), sandbox.read("in/other")),
        ("both\n".into(), "both\n".into())
    );
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    let kept = sandbox.stored(results(&sandbox)[0].get("previous"));
    assert_eq!(fs::read_to_string(kept).unwrap(), "old\n", "what it held is kept first");

    let victim = sandbox.work().join("out/victim");
    let plant = move || {
        fs::remove_file(&path).unwrap();
        fs::hard_link(&victim, &path).unwrap();
    };
    sandbox.llm.allow_rewrites();
    let steps =
        vec![after(plant, write("in/a.txt", "new\n")), nothing(edit("in/a.txt", "outside", "new"))];
    run(&sandbox, "in/a.txt", steps);
    for block in &results(&sandbox)[1..] {
        refused(block, "several hard links");
    }
    nothing_outside_was_written(&sandbox);
}

// Written in place, as it was once, the link would carry the text out of the temp folder.
#[test]
fn a_hard_link_that_a_command_plants_in_a_temp_folder_carries_no_write_out() {
    let sandbox = world().file("in/big.py", large());
    let victims = ["victim", "edited"];
    sandbox.write("out/edited", "outside\n");
    let (tmp, work) = (sandbox.tmp(), sandbox.work());
    let plant = format!(
        "cd '{}' && ln '{work}/out/victim' one && ln '{work}/out/edited' two && ln '{work}/in/big.py' three.py && echo y",
        tmp.display(),
        work = work.display()
    );
    let at = |name: &str| tmp.join(name).display().to_string();
    let replies = [
        shell(&plant) + &format!("<nagent-read path=\"{}\"/>", at("one")),
        write(&at("one"), "new\n"),
        edit(&at("two"), "outside", "new"),
        format!("<nagent-file-read path=\"{}\"/>", at("three.py")),
    ];
    sandbox.llm.allow_rewrites();
    let (root, mut replies) = (sandbox.root(), replies.into_iter());
    let mut patched = false;
    sandbox.llm.choose(move |_| match replies.next() {
        Some(reply) => reply.into(),
        None if patched => answer("done").into(),
        None => {
            patched = true;
            let index = find_index(&root.join("splits"));
            let segment = index.parent().unwrap().join("three-0001.py");
            let text = fs::read_to_string(&segment).unwrap();
            fs::write(&segment, text.replacen("def f0", "def forged", 1)).unwrap();
            format!("<nagent-file-patch index=\"{}\"/>", index.display()).into()
        }
    });
    sandbox.run(&["--no-summaries", "task"]).assert_exit(0);
    let results = results(&sandbox);
    assert_eq!(results.len(), 3);
    for block in &results {
        assert_eq!(block.get("status"), "ok", "{block:?}");
        assert!(block.body.contains("hard link"), "it is said: {block:?}");
    }
    for victim in victims {
        assert_eq!(sandbox.read(&format!("out/{victim}")), "outside\n");
    }
    assert_eq!(sandbox.read("in/big.py"), large());
    assert_eq!(fs::read_to_string(tmp.join("one")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(tmp.join("two")).unwrap(), "new\n");
    assert!(fs::read_to_string(tmp.join("three.py")).unwrap().starts_with("def forged"));
}

// Indexes.

/// A source of three segments.
fn large() -> String {
    (0..200).map(|n| format!("def f{n}():\n    return \"{}\"\n\n\n", "x".repeat(370))).collect()
}

/// The index of the only split.
fn find_index(splits: &Path) -> PathBuf {
    let mut folder = splits.to_owned();
    loop {
        let index = folder.join("index.json");
        if index.exists() {
            return index;
        }
        folder = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    }
}

/// Reads a large target by segments, edits one, forges the index, patches. Gives the patch's result.
fn patch_with(sandbox: &Sandbox, forge: impl Fn(&str) -> String + Send + 'static) -> Block {
    let splits = sandbox.root().join("splits");
    let find = move || find_index(&splits);
    let mut request = 0;
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(move |_| {
        request += 1;
        match request {
            1 => "<nagent-file-read path=\"in/big.py\"/>".into(),
            2 => {
                let index = find();
                let segment = index.parent().unwrap().join("big-0001.py");
                let text = fs::read_to_string(&segment).unwrap();
                fs::write(&segment, text.replacen("def f0", "def forged", 1)).unwrap();
                fs::write(&index, forge(&fs::read_to_string(&index).unwrap())).unwrap();
                format!("<nagent-file-patch index=\"{}\"/>", index.display()).into()
            }
            _ => answer("done").into(),
        }
    });
    sandbox.file_edit(&["--file", "in/big.py", "--no-summaries", "task"]).run().assert_exit(0);
    results(sandbox).pop().unwrap()
}

/// A world whose target is large, with the same text wherever a forged index could lead.
fn large_world() -> (Sandbox, Vec<PathBuf>) {
    let sandbox = Sandbox::outside_temp().file("in/big.py", large()).file("out/big.py", large());
    fs::write(sandbox.root().join("context.md"), large()).unwrap();
    fs::write(sandbox.tmp().join("big.py"), large()).unwrap();
    fs::write(sandbox.work().join(".git/big.py"), large()).unwrap();
    symlink("../out/big.py", sandbox.work().join("in/link.py")).unwrap();
    let others = vec![
        sandbox.work().join("out/big.py"),
        sandbox.root().join("context.md"),
        sandbox.tmp().join("big.py"),
        sandbox.work().join(".git/big.py"),
    ];
    (sandbox, others)
}

#[test]
fn a_patch_of_the_target_itself_is_applied() {
    let (sandbox, _) = large_world();
    let block = patch_with(&sandbox, str::to_owned);
    assert_eq!(block.get("status"), "ok", "{block:?}");
    assert_eq!(sandbox.read("in/big.py"), large().replacen("def f0", "def forged", 1));
}

#[test]
fn an_index_that_names_another_file_patches_nothing() {
    let sources = |sandbox: &Sandbox, others: &[PathBuf]| {
        let mut sources: Vec<PathBuf> = others.to_vec();
        sources.extend(["in/../out/big.py", "in/link.py"].map(|path| sandbox.work().join(path)));
        sources
    };
    let count = {
        let (sandbox, others) = large_world();
        sources(&sandbox, &others).len()
    };
    for at in 0..count {
        let (sandbox, others) = large_world();
        let source = sources(&sandbox, &others).swap_remove(at);
        let target = sandbox.work().canonicalize().unwrap().join("in/big.py");
        let (from, to) = (target.display().to_string(), source.display().to_string());
        let block = patch_with(&sandbox, move |index| {
            let forged = index.replace(&format!("\"{from}\""), &format!("\"{to}\""));
            assert_ne!(forged, index);
            forged
        });
        refused(&block, "");
        for other in others.iter().chain([&target]) {
            assert_eq!(fs::read_to_string(other).unwrap(), large(), "{}", other.display());
        }
    }
}

#[test]
fn an_index_that_names_segments_of_another_split_writes_none_of_them() {
    let (sandbox, _) = large_world();
    let foreign = sandbox.work().join("foreign");
    let split = ["--file", "out/big.py", "--output", foreign.to_str().unwrap()];
    sandbox.program(env!("CARGO_BIN_EXE_nagent-file-split"), &split).run().assert_exit(0);
    let files = |folder: &Path| -> Vec<(PathBuf, Vec<u8>)> {
        let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        files.sort();
        files
    };
    let before = files(&foreign);
    let to = format!("\"{}/big-000", foreign.display());
    let block = patch_with(&sandbox, move |index| {
        let forged = regex::Regex::new("\"[^\"]*/big-000").unwrap().replace_all(index, &to);
        assert_ne!(forged, index);
        forged.into_owned()
    });
    // By their names they are taken for the split's own, beside its index.
    assert_eq!((block.get("status"), block.get("edited")), ("ok", "1"), "{block:?}");
    assert_eq!(files(&foreign), before);
}

/// Who does not know of `-w` pays five times the requests.
#[test]
fn the_flag_that_lets_a_conversation_write_is_named_once_in_a_project() {
    const NOTE: &str = "-w lets this conversation write files here; without it each file gets its own conversation";
    let write = "<nagent-write path=\"a.txt\">x</nagent-write>";
    let child = "<nagent-conversation file=\"a.txt\">do</nagent-conversation>";
    for first in [write, child] {
        let sandbox = Sandbox::outside_temp().file("a.txt", "a\n");
        let (mut turn, first) = (0, first.to_owned());
        let reply = first.clone();
        sandbox.llm.choose(move |request| match request.system() {
            text if text.contains("belongs to one file") => answer("done").into(),
            _ => {
                turn += 1;
                if turn % 2 == 1 { reply.clone().into() } else { answer("done").into() }
            }
        });
        let count = |args: &[&str]| sandbox.run(args).assert_exit(0).stderr.matches(NOTE).count();
        assert_eq!((count(&["-q", "task"]), count(&["task"])), (0, 1), "{first}");
        assert_eq!((count(&["-n", "task"]), count(&["--new", "task"])), (0, 0), "{first}");
    }
    let sandbox = Sandbox::outside_temp().reply(write).reply(answer("done"));
    assert!(!sandbox.run(&["-w", "task"]).assert_exit(0).stderr.contains(NOTE));
}
