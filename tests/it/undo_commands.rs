//! `nagent --undo` and the files that commands of a run changed: taken back with those of tags, or named.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::conversations::CONVERSATIONS;
use crate::file_edit::{edit, write};
use crate::process_under_test::Run;
use crate::sandbox::{Sandbox, answer, shell, wait_until};

pub(crate) fn sandbox() -> Sandbox {
    let sandbox = Sandbox::outside_temp().env("STY", "1.undo").file("a.txt", "one\ntwo\n");
    commit(&sandbox);
    sandbox
}

pub(crate) fn commit(sandbox: &Sandbox) {
    let add = "git add -A && git -c user.name=a -c user.email=a@x commit -qm x";
    sandbox.program("sh", &["-c", add]).run().assert_exit(0);
}

#[track_caller]
pub(crate) fn run(sandbox: &Sandbox, prompt: &str, reply: String) -> Run {
    sandbox.llm.push(reply);
    sandbox.llm.push(answer("done"));
    sandbox.run(&["--write", ".", prompt]).assert_exit(0)
}

pub(crate) fn take_back(sandbox: &Sandbox, more: &[&str]) -> Run {
    sandbox.run(&[&["--undo"], more].concat())
}

/// Every file below a folder: kind, mode, content. Without folders, which git does not know.
fn listing(folder: &Path) -> String {
    let list = "find . \\( -type f -o -type l \\) -printf '%y %m %T@ %p %l\\n' | sort -k4; \
                find . -type f -exec sha256sum {} + | sort -k2";
    let mut command = Command::new("sh");
    let output = command.args(["-c", list]).current_dir(folder).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The same without times, and without `.git`.
pub(crate) fn tree(sandbox: &Sandbox) -> String {
    let times = regex::Regex::new(r"(?m)^(\S+ \S+) \S+ (\./)").unwrap();
    let list = listing(&sandbox.work());
    let list = times.replace_all(&list, "$1 $2");
    list.lines().filter(|line| !line.contains("./.git/")).map(|line| format!("{line}\n")).collect()
}

const BUSY: &str = "sed -i s/two/zwei/ a.txt; echo new > two.txt; mkdir -p d && echo x > d/new; rm gone.txt; \
                    mv moved.txt d/moved.txt; rm run.sh; printf '\\000\\r\\n' >> bytes";

#[test]
fn a_file_that_a_command_made_and_a_tag_wrote_is_removed() {
    let sandbox = sandbox();
    let read = |path: &str| format!("<nagent-read path=\"{path}\"/>");
    sandbox.llm.push(
        shell("echo x > n.txt; mkdir d; echo x > d/m.txt") + &read("n.txt") + &read("d/m.txt"),
    );
    sandbox.llm.push(write("n.txt", "tag\n") + &edit("d/m.txt", "x", "tag"));
    run(&sandbox, "go", edit("d/m.txt", "tag", "again"));
    assert_eq!(sandbox.read("d/m.txt"), "again\n");
    let undone = take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!(undone.stdout.matches("\nremoved ").count(), 2, "{undone:?}");
    assert!(!sandbox.work().join("n.txt").exists() && !sandbox.work().join("d").exists());
}

#[test]
fn what_commands_changed_is_taken_back_with_what_tags_wrote() {
    let sandbox = sandbox();
    for (name, text) in [("gone.txt", "gone\n"), ("moved.txt", "moved\n")] {
        sandbox.write(name, text);
    }
    // Bytes are stored as they are, whatever git would make of them.
    sandbox.write(".gitattributes", "* text=auto eol=lf ident filter=evil\n");
    sandbox.write("bytes", b"$Id$\r\n\xff\r\n");
    sandbox.write("run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(sandbox.work().join("run.sh"), Permissions::from_mode(0o755)).unwrap();
    let evil = format!("touch {}", sandbox.base().join("evil").display());
    sandbox.program("git", &["config", "filter.evil.clean", &evil]).run().assert_exit(0);
    sandbox.program("git", &["config", "core.fsmonitor", &evil]).run().assert_exit(0);
    drop(std::fs::remove_file(sandbox.base().join("evil")));
    let before = tree(&sandbox);
    run(
        &sandbox,
        "busy",
        write("by-tag.txt", "t\n") + &shell(BUSY) + &edit("a.txt", "one", "eins"),
    );
    assert_eq!(sandbox.read("a.txt"), "eins\nzwei\n");
    let list = take_back(&sandbox, &["--list"]).assert_exit(0).stdout;
    assert!(list.contains("/two.txt  (by commands)\n") && list.contains("/by-tag.txt\n"), "{list}");
    let json = take_back(&sandbox, &["--list", "--json"]).json();
    assert_eq!(json["undoable"].as_array().unwrap().len(), 1);
    assert_eq!(json["undoable"][0]["files"].as_array().unwrap().len(), 9, "{json}");

    let git = listing(&sandbox.work().join(".git"));
    let undone = take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!(tree(&sandbox), before, "{}", undone.stdout);
    assert!(!sandbox.work().join("d").exists(), "an empty folder of the run");
    assert_eq!(listing(&sandbox.work().join(".git")), git, "nothing is written in the repository");
    take_back(&sandbox, &[]).assert_exit(1).stderr_has(&["nothing to undo"]);
    assert!(!sandbox.base().join("evil").exists(), "no filter is run");
}

#[test]
fn a_run_on_a_terminal_ends_with_the_files_that_its_commands_changed() {
    let sandbox = sandbox();
    let said = "commands changed a.txt, new.txt; undo takes that back";
    let piped = run(&sandbox, "quiet", shell("echo x > new.txt; echo y > a.txt"));
    assert!(!piped.stderr.contains("commands changed"), "{}", piped.stderr);
    let commit = "git add a.txt; git -c user.name=a -c user.email=a@x commit -qm 'Change a'";
    let linked = ("ln -s a.txt link", "; undo does not take back what commands did to link");
    for (more, stays) in [("true", ""), linked, (commit, "; commits and branches stay")] {
        sandbox.llm.push(shell(&format!("date +%N > new.txt; date +%N > a.txt; {more}")));
        sandbox.llm.push(answer("done"));
        let mut pty = sandbox.cmd(&["go"]).on_pty(160);
        assert!(pty.wait().success());
        let shown = pty.screen().join("\n");
        let line = shown.lines().find(|line| line.contains(said)).unwrap_or(&shown);
        assert!(line.ends_with(&format!("{said}{stays}")), "{shown}");
    }
}

#[test]
fn what_cannot_be_taken_back_is_named() {
    let sandbox = sandbox().file("tool.sh", "t").file("replaced", "r\n");
    symlink("a.txt", sandbox.work().join("link")).unwrap();
    symlink("nowhere", sandbox.work().join("old-link")).unwrap();
    let commands = "chmod +x tool.sh; ln -sfn b link; rm old-link; ln -s a.txt new-link; rm replaced; \
                    ln -s a.txt replaced; echo x >> a.txt";
    run(&sandbox, "odd", shell(commands));
    let names = ["/tool.sh", "/link", "/old-link", "/new-link", "/replaced"];
    let undone = take_back(&sandbox, &[]).assert_exit(1).stdout_has(&names);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n", "{}", undone.stdout);
}

#[test]
fn what_commands_changed_in_repositories_inside_is_named() {
    let sandbox = sandbox().file("inner/f", "one").file("inner/d/same", "");
    let init = "git init -q inner && cd inner && git add . && git -c user.name=a -c user.email=a@x commit -qm x";
    sandbox.program("sh", &["-c", init]).run().assert_exit(0);
    run(&sandbox, "outside", shell("echo x >> a.txt; cat inner/f; git -C inner status"));
    take_back(&sandbox, &[]).assert_exit(0);
    run(
        &sandbox,
        "inside",
        shell("echo x >> a.txt; echo two > inner/f; git init -q new; echo n > new/n"),
    );
    let undone = take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["/inner/f", "/new"]);
    assert!(!undone.stdout.contains("same"), "{}", undone.stdout);
    assert_eq!(
        (sandbox.read("a.txt"), sandbox.read("inner/f")),
        ("one\ntwo\n".into(), "two\n".into())
    );
}

#[test]
fn nothing_is_restored_through_a_link_that_a_command_made() {
    for link in ["..", "nowhere", "src"] {
        let sandbox = sandbox().file("conf/own", "one").file("src/other", "two");
        run(&sandbox, "swap", shell(&format!("rm -r conf; ln -s {link} conf; echo x >> a.txt")));
        let before = tree(&sandbox);
        let said = "conf/own is now reached by a symbolic link";
        take_back(&sandbox, &[]).assert_exit(1).stderr_has(&["nothing was undone", said]);
        take_back(&sandbox, &["--force"]).assert_exit(1).stderr_has(&[said]);
        assert_eq!(tree(&sandbox), before, "{link}");
        assert!(!sandbox.base().join("own").exists(), "{link}");
        std::fs::remove_file(sandbox.work().join("conf")).unwrap();
        take_back(&sandbox, &[]);
        assert_eq!(
            (sandbox.read("conf/own"), sandbox.read("a.txt")),
            ("one".into(), "one\ntwo\n".into())
        );
    }
}

#[test]
fn an_undo_of_many_files_is_one_line_for_the_model() {
    let sandbox = sandbox();
    run(&sandbox, "many", shell("for n in $(seq 30); do echo $n > n$n; done"));
    take_back(&sandbox, &[]).assert_exit(0);
    let blocks = sandbox.blocks();
    let undone = blocks.iter().filter(|block| block.get("change") == "undo").count();
    assert_eq!(undone, 20);
    assert!(blocks.last().unwrap().body.contains("10 more files were undone"));
    assert!(!sandbox.work().join("n30").exists());
}

#[test]
fn snapshots_write_nothing_in_the_repository() {
    let sandbox = sandbox().file("untracked", "u").file(".gitignore", "secret\n");
    sandbox.write("secret", "password");
    let git = listing(&sandbox.work().join(".git"));
    for prompt in ["first", "second"] {
        run(&sandbox, prompt, shell("echo x >> a.txt; echo more >> secret"));
    }
    assert_eq!(listing(&sandbox.work().join(".git")), git);
    assert_eq!(sandbox.read("secret"), "passwordmore\nmore\n", "what is ignored is left alone");
    take_back(&sandbox, &["2"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    let find = "find \"$0\" -type d -perm /077; grep -rl password \"$0\"";
    let root = sandbox.root().join("snapshots").display().to_string();
    let found = sandbox.program("sh", &["-c", find, &root]).run().stdout;
    assert!(found.lines().all(|line| line.contains("/objects/")), "{found}");
}

#[test]
fn a_file_that_changed_since_refuses_the_undo() {
    let sandbox = sandbox();
    run(
        &sandbox,
        "x",
        write("b.txt", "b\n") + &shell("echo c > c.txt; echo x >> a.txt; rm -f none"),
    );
    sandbox.write("c.txt", "mine\n");
    take_back(&sandbox, &[])
        .assert_exit(1)
        .stderr_has(&["nothing was undone", "c.txt was changed"]);
    assert!(sandbox.work().join("b.txt").exists() && sandbox.read("a.txt").ends_with("x\n"));
    take_back(&sandbox, &["--force"]).assert_exit(0).stdout_has(&["the replaced content is in"]);
    assert!(!sandbox.work().join("c.txt").exists() && !sandbox.work().join("b.txt").exists());
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
}

#[test]
fn a_file_that_somebody_else_changed_during_the_run_is_named() {
    let sandbox = sandbox().file("notes.md", "n\n");
    let path = sandbox.work().join("notes.md");
    sandbox.llm.push(shell("echo x >> a.txt"));
    // The user writes while the model thinks.
    sandbox.llm.choose(move |_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::fs::write(&path, "mine\n").unwrap();
        answer("done").into()
    });
    sandbox.run(&["task"]).assert_exit(0);
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["changed by something else", "notes.md"]);
    assert_eq!(
        (sandbox.read("a.txt"), sandbox.read("notes.md")),
        ("one\ntwo\n".into(), "mine\n".into())
    );
}

#[test]
fn without_a_repository_undo_names_what_commands_changed() {
    let sandbox = Sandbox::new().env("STY", "1.undo").file("CHANGELOG.md", "1\n2\n");
    run(
        &sandbox,
        "x",
        write("one.txt", "alpha\n") + &shell("echo new > two.txt; sed -i 1d CHANGELOG.md"),
    );
    let list = take_back(&sandbox, &["--list"]).assert_exit(0).stdout;
    assert!(list.contains("in no git repository"), "{list}");
    let json = take_back(&sandbox, &["--json"]).assert_exit(1).json();
    let left = json["not_undone"].as_array().unwrap();
    assert_eq!(left.len(), 1, "{json}");
    let left = left[0].as_str().unwrap();
    for name in ["in no git repository", "/two.txt", "/CHANGELOG.md"] {
        assert!(left.contains(name), "{left}");
    }
    assert!(!left.contains("one.txt"), "{left}");
    assert!(!sandbox.work().join("one.txt").exists() && sandbox.work().join("two.txt").exists());
    // A run that only ran commands is not passed over in silence.
    run(&sandbox, "y", shell("rm two.txt"));
    let folder = format!("changed while commands ran: {}\n", sandbox.work().display());
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&[folder.trim_end(), "--undo again"]);
}

#[test]
fn commands_that_change_nothing_leave_nothing() {
    let sandbox = Sandbox::new().env("STY", "1.undo").file("a.txt", "one\n");
    run(&sandbox, "look", shell("ls; cat a.txt"));
    let none = take_back(&sandbox, &[]).assert_exit(1);
    assert!(!none.stderr.contains("commands"), "{}", none.stderr);
    sandbox.llm.choose(|request| match request.user() {
        text if text.contains("shell-result") => answer("done").into(),
        text if text.contains("write-result") => {
            // The folder changed with the write, as late as the kernel's clock for files can tell.
            std::thread::sleep(std::time::Duration::from_millis(50));
            shell("ls").into()
        }
        _ => write("one.txt", "alpha\n").into(),
    });
    sandbox.run(&["-c", "c", "--write", ".", "write and look"]).assert_exit(0);
    take_back(&sandbox, &["-c", "c"]).assert_exit(0).stdout_has(&["removed "]);
}

#[test]
fn a_run_that_was_killed_says_that_nothing_remembers() {
    let sandbox = sandbox();
    sandbox.llm.push(write("b.txt", "b\n") + &shell("echo x >> a.txt; touch started; sleep 60"));
    let running = sandbox.cmd(&["--write", ".", "x"]).spawn();
    wait_until("the command runs", || sandbox.work().join("started").exists());
    running.signal(Signal::KILL);
    running.wait();
    let words = ["removed ", "not all that commands did is taken back", "killed", "/a.txt, "];
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&words);
    assert!(!sandbox.work().join("b.txt").exists());
}

#[test]
fn trees_that_git_does_not_know_well() {
    // Without a commit, with a merge under way, a submodule, a FIFO, an unreadable folder, and sparse.
    let sandbox = Sandbox::outside_temp().env("STY", "1.undo").file("a.txt", "one\n");
    let sh = |commands: &str| sandbox.program("sh", &["-ec", commands]).run().assert_exit(0);
    run(&sandbox, "no HEAD", shell("echo x >> a.txt; echo n > n"));
    take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\n");
    commit(&sandbox);
    sh("export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a; \
        git checkout -qb o; echo o > a.txt; git commit -qam o; git checkout -q main; echo m > a.txt; git commit -qam m; \
        ! git merge -q o; git init -q sub; cd sub; echo s > s; git add s; git commit -qm s; cd ..; mkfifo fifo; mkdir -p d/e; \
        echo d > d/f; git sparse-checkout init --no-cone >&2 || true");
    let before = sandbox.read("a.txt");
    run(&sandbox, "bad tree", shell("echo x > a.txt; echo y >> d/f; echo z >> sub/s; echo n > n"));
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["/sub/s"]);
    assert_eq!((sandbox.read("a.txt"), sandbox.read("d/f")), (before, "d\n".into()));
    assert_eq!(sandbox.read("sub/s"), "s\nz\n", "what is in a submodule stays");
}

#[test]
fn a_bare_repository_is_no_working_tree() {
    let sandbox = Sandbox::new().env("STY", "1.undo").file("HEAD.txt", "h\n");
    sandbox.program("git", &["init", "-q", "--bare", "."]).run().assert_exit(0);
    run(&sandbox, "bare", shell("echo x >> HEAD.txt"));
    let words = ["nothing was undone", "in no git repository", "/HEAD.txt"];
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&words);
}

#[test]
fn a_repository_that_cannot_be_read_is_said_at_once() {
    let sandbox = sandbox();
    sandbox.write(".git/config", "[core]\n\trepositoryformatversion = 99\n");
    let said = run(&sandbox, "x", shell("echo x >> a.txt; ls") + &shell("ls"));
    let note = "undo will not take back what commands change here";
    assert_eq!(said.stderr.matches(note).count(), 1, "{}", said.stderr);
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["nothing was undone", "/a.txt"]);
    sandbox.write(".git/config", "");
    if std::os::unix::fs::chown(sandbox.work().join(".git"), Some(65534), None).is_ok() {
        run(&sandbox, "y", shell("ls")).stderr_has(&[note, "another user"]);
    }
}

#[test]
fn rules_that_a_command_wrote_hide_and_show_nothing() {
    let sandbox = sandbox().file(".gitignore", "data\nenv\n").file("data", "precious\n");
    run(&sandbox, "x", shell("echo a.txt > .gitignore; echo x >> a.txt; echo n > n"));
    take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!(
        (sandbox.read(".gitignore"), sandbox.read("a.txt")),
        ("data\nenv\n".into(), "one\ntwo\n".into())
    );
    let sandbox = self::sandbox().file(".gitignore", "data\nenv\n").file("data", "precious\n");
    run(&sandbox, "y", shell("rm .gitignore; echo more >> data"));
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["/data"]);
    assert_eq!(sandbox.read("data"), "precious\nmore\n");
    // What was ignored and is not any more cannot be put back.
    sandbox.write("env", "secret\n");
    run(&sandbox, "z", shell("mv env shown; echo x >> a.txt"));
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["/shown"]);
    assert_eq!(
        (sandbox.read("shown"), sandbox.read("a.txt")),
        ("secret\n".into(), "one\ntwo\n".into())
    );
}

#[test]
fn two_runs_at_once_do_not_take_back_each_others_changes() {
    let sandbox = sandbox();
    let wait = "until [ -e go ]; do sleep 0.01; done";
    sandbox.llm.choose(move |request| match request.user() {
        text if text.contains("shell-result") => answer("done").into(),
        text if text.contains("first") => {
            shell(&format!("echo 1 > first; touch ready; {wait}; echo x >> a.txt")).into()
        }
        _ => shell("echo 2 > second; echo y >> a.txt; touch go; sleep 0.3").into(),
    });
    let first = sandbox.cmd(&["-c", "one", "first"]).spawn();
    wait_until("the first run waits", || sandbox.work().join("ready").exists());
    sandbox.run(&["-c", "two", "second"]).assert_exit(0);
    first.wait().assert_exit(0);
    for name in ["one", "two"] {
        let words = ["nothing was undone", "another run was at work there"];
        take_back(&sandbox, &["-c", name]).assert_exit(1).stdout_has(&words);
    }
    assert!(sandbox.work().join("first").exists() && sandbox.work().join("second").exists());
}

#[test]
fn a_run_that_ends_while_another_one_works_takes_back_nothing_of_it() {
    let sandbox = sandbox();
    let wait = "until [ -e go ]; do sleep 0.01; done";
    sandbox.llm.choose(move |request| match request.user() {
        text if text.contains("shell-result") => answer("done").into(),
        text if text.contains("first") => shell(&format!(
            "touch ready; until [ -e second ]; do sleep 0.01; done; echo 1 > first; {wait}"
        ))
        .into(),
        _ => shell("echo 2 > second; until [ -e first ]; do sleep 0.01; done").into(),
    });
    let first = sandbox.cmd(&["-c", "one", "first"]).spawn();
    wait_until("the first run waits", || sandbox.work().join("ready").exists());
    sandbox.run(&["-c", "two", "second"]).assert_exit(0);
    sandbox.write("go", "");
    first.wait().assert_exit(0);
    let words = ["nothing was undone", "another run was at work there", "/second"];
    take_back(&sandbox, &["-c", "two"]).assert_exit(1).stdout_has(&words);
}

#[test]
fn what_commands_of_children_changed_belongs_to_the_run() {
    let sandbox = sandbox();
    sandbox.llm.choose(|request| {
        let user = request.user();
        match () {
            () if user.contains("shell-result") && user.contains("part") => {
                answer("child done").into()
            }
            () if user.contains("conversation-result") => answer("done").into(),
            () if user.contains("part") => shell("echo z >> a.txt; echo c > child.txt").into(),
            () if user.contains("shell-result") => {
                "<nagent-conversation>part</nagent-conversation>".into()
            }
            () => shell("echo y >> a.txt").into(),
        }
    });
    sandbox.run(&["-c", "c", "task"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\ny\nz\n");
    take_back(&sandbox, &["-c", "c"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    assert!(!sandbox.work().join("child.txt").exists());
}

#[test]
fn an_old_snapshot_is_pruned_and_the_undo_still_works() {
    let sandbox = sandbox();
    run(&sandbox, "x", shell("echo x >> a.txt"));
    let folder = std::fs::read_dir(sandbox.root().join("snapshots"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let prune = || sandbox.program(CONVERSATIONS, &["prune", "--older", "0"]).run().assert_exit(0);
    prune();
    assert!(folder.exists(), "used within the last hour");
    let age = "find \"$0\" -exec touch -h -d '3 days ago' {} +";
    sandbox.program("sh", &["-c", age, &folder.display().to_string()]).run().assert_exit(0);
    prune();
    assert!(!folder.exists());
    take_back(&sandbox, &[]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
    run(&sandbox, "y", shell("echo y >> a.txt"));
    take_back(&sandbox, &[]).assert_exit(0);
}

#[test]
fn undo_is_about_this_folder_and_a_conversation_about_itself() {
    let sandbox = Sandbox::outside_temp().env("STY", "1.here");
    for folder in ["one", "two"] {
        sandbox.program("git", &["init", "-q", folder]).run().assert_exit(0);
    }
    sandbox.llm.push(write("a.txt", "new"));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["-C", "one", "-n", "--write", ".", "task"]).assert_exit(0);
    let here =
        |folder: &str, more: &[&str]| sandbox.run(&[&["-C", folder, "--undo"], more].concat());
    here("two", &[]).assert_exit(1).stderr_has(&["nothing to undo in ", "two by this shell"]);
    here("two", &["--list"]).assert_exit(0).stdout_has(&["nothing to undo"]);
    // The run had a conversation of its own.
    here("one", &["-c", "other"]).assert_exit(1);
    assert_eq!(sandbox.read("one/a.txt"), "new");
    here("one", &[]).assert_exit(0);
    assert!(!sandbox.work().join("one/a.txt").exists());
}

#[test]
fn commits_of_a_run_stay_and_undo_says_so() {
    let sandbox = sandbox();
    let commands =
        "echo x > b.txt; git add b.txt; git -c user.name=a -c user.email=a@x commit -qm 'Add b'";
    run(&sandbox, "task", shell(commands));
    let undone = take_back(&sandbox, &[]).assert_exit(1);
    assert!(!sandbox.work().join("b.txt").exists());
    undone.stdout_has(&["commits, branches and git's index stay (commit: Add b)"]);
    // Once is enough.
    run(&sandbox, "task", shell("echo y > c.txt"));
    let undone = take_back(&sandbox, &[]).assert_exit(0);
    assert!(!undone.stdout.contains("Add b") && !sandbox.work().join("c.txt").exists());
    let nothing = take_back(&sandbox, &[]).assert_exit(1);
    assert!(!nothing.stderr.contains("Add b"), "{}", nothing.stderr);
    // git status renews the times in the index.
    run(&sandbox, "look", shell("echo d > d.txt; touch a.txt; git status"));
    take_back(&sandbox, &[]).assert_exit(0);
    run(&sandbox, "stage", shell("echo d > d.txt; git add d.txt"));
    take_back(&sandbox, &[]).assert_exit(1).stdout_has(&["/d.txt\n", "/.git/index"]);
}
