//! One writer, append only: the lock, edits by an editor between and during runs, forks, durability.

use crate::answers::{Answer, Latch};
use crate::sandbox::{Sandbox, answer, shell};

#[test]
fn a_second_run_waits_for_the_first_and_says_for_whom() {
    let sandbox = Sandbox::new();
    let latch = Latch::default();
    sandbox.llm.push(Answer::held(&latch, answer("first")));
    sandbox.llm.push(answer("second"));
    let first = sandbox.cmd(&["--conversation", "shared", "one"]).spawn();
    sandbox.llm.wait_for_requests(1);
    let second = sandbox.cmd(&["--conversation", "shared", "two"]).spawn();
    let pid = first.pid().to_string();
    crate::sandbox::wait_until("the second says that it waits", || {
        second.stderr_so_far().contains(&pid)
    });
    assert_eq!(sandbox.requests().len(), 1);
    latch.release();
    first.wait().answers("first");
    second.wait().assert_exit(0).stdout_is("second\n");
    let prompts: Vec<_> =
        sandbox.blocks_of("user-prompt").into_iter().map(|block| block.body).collect();
    assert_eq!(prompts, ["one", "two"]);
}

#[test]
fn upkeep_that_only_reads_takes_no_lock() {
    let sandbox = Sandbox::new().answer(Answer::StallHead);
    let _running = sandbox.cmd(&["--conversation", "shared", "one"]).spawn();
    sandbox.llm.wait_for_requests(1);
    sandbox.run(&["--conversation", "shared", "--status"]).assert_exit(0).within(2.0);
    sandbox.run(&["--list-conversations"]).assert_exit(0).within(2.0);
}

#[test]
fn runs_of_different_conversations_do_not_wait_for_each_other() {
    let sandbox = Sandbox::new().answer(Answer::StallHead).reply(answer("two"));
    let _running = sandbox.cmd(&["--conversation", "a", "one"]).spawn();
    sandbox.llm.wait_for_requests(1);
    sandbox.run(&["--conversation", "b", "two"]).answers("two");
}

#[test]
fn an_editor_that_saves_in_place_between_runs_is_followed() {
    let sandbox = Sandbox::new().reply(answer("one")).reply(answer("two"));
    sandbox.run(&["task"]).assert_exit(0);
    let path = sandbox.conversation_path();
    sandbox.edit_conversation(|text| text.replace("\ntask\n", "\nanother task\n"));
    sandbox.run(&["more"]).answers("two");
    assert_eq!(sandbox.conversation_path(), path, "no fork");
    assert!(sandbox.requests()[1].user().contains("another task"));
}

#[test]
fn an_editor_that_saves_during_a_run_makes_it_go_on_in_a_fork() {
    // Also a change that keeps the size.
    for (by_rename, prompt) in
        [(false, "an edited task"), (true, "an edited task"), (false, "tusk")]
    {
        let sandbox = Sandbox::new();
        let latch = Latch::default();
        sandbox.llm.push(Answer::held(&latch, answer("done")));
        let running = sandbox.cmd(&["--conversation", "mine", "task"]).spawn();
        sandbox.llm.wait_for_requests(1);
        let path = sandbox.root().join("conversations/mine");
        let edited = std::fs::read_to_string(&path).unwrap().replace("task", prompt);
        if by_rename {
            let other = sandbox.root().join("conversations/.mine.swp");
            std::fs::write(&other, &edited).unwrap();
            std::fs::rename(&other, &path).unwrap();
        } else {
            // At another time, by the clock of the file system, than the run's own write.
            let modified = || std::fs::metadata(&path).unwrap().modified().unwrap();
            let before = modified();
            while modified() == before {
                std::fs::write(&path, &edited).unwrap();
            }
        }
        latch.release();
        running.wait().assert_exit(0).stdout_is("done\n").stderr_has(&["mine"]);
        let fork =
            sandbox.conversation_paths().into_iter().find(|other| *other != path).expect("a fork");
        let name = fork.file_name().unwrap().to_str().unwrap().to_owned();
        // What the editor saved stays, and leads to the fork.
        let left = std::fs::read_to_string(&path).unwrap();
        let added = left.strip_prefix(&edited).expect("what the editor saved");
        assert!(added.starts_with(&format!("\n<system fork=\"{name}\"")), "{added}");
        let text = std::fs::read_to_string(fork).unwrap();
        assert!(text.contains("done") && text.contains("<user-prompt"), "{text}");
        assert!(!text.contains(prompt), "{text}");
    }
}

#[test]
fn a_reply_is_durable_before_its_actions_run() {
    let sandbox = Sandbox::new()
        .reply(shell("cat \"$HOME\"/.nagent/conversations/mine"))
        .reply(answer("done"));
    sandbox.run(&["--conversation", "mine", "task"]).assert_exit(0);
    let result = sandbox.block("nagent-shell-result");
    assert!(
        result.body.contains("<agent-response") && result.body.contains("<nagent-turn-status"),
        "{}",
        result.body
    );
}

/// A lock that somebody holds who does not let go, as a stopped process.
fn held(path: &std::path::Path) -> std::fs::File {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = std::fs::File::create(path).unwrap();
    file.lock().unwrap();
    file
}

#[test]
fn a_signal_ends_a_wait_for_an_index() {
    let (index, args) = ("file-index.json", &["--file-edit", "a.txt", "change it"]);
    let sandbox = Sandbox::new().file("a.txt", "text\n").reply(answer("one"));
    sandbox.run(&["--conversation", "c", "task"]).assert_exit(0);
    let _held = held(&sandbox.root().join("conversations/.locks").join(index));
    let running = sandbox.cmd(args).spawn();
    std::thread::sleep(std::time::Duration::from_millis(500));
    running.signal(rustix::process::Signal::TERM);
    running.wait_up_to(std::time::Duration::from_secs(5)).assert_exit(143);
}

#[test]
fn who_waits_for_a_conversation_keeps_nobody_from_saving_another() {
    let sandbox = Sandbox::new().reply(answer("one"));
    sandbox.run(&["--conversation", "c", "task"]).assert_exit(0);
    let _held = held(&sandbox.root().join("conversations/.locks/busy"));
    let save = ["--conversation", "c", "--lock-timeout", "600", "--save-conversation"];
    let waiting = sandbox.cmd(&[&save[..], &["busy"]].concat()).spawn();
    crate::sandbox::wait_until("it waits", || waiting.stderr_so_far().contains("busy"));
    sandbox.run(&[&save[..], &["free"]].concat()).assert_exit(0);
    waiting.signal(rustix::process::Signal::TERM);
    waiting.wait().assert_exit(143);
}

#[test]
fn what_others_could_read_is_made_private_when_it_is_used() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new().reply(answer("one")).reply(answer("two"));
    sandbox.run(&["--conversation", "c", "task"]).assert_exit(0);
    let root = sandbox.root();
    let set = |name: &str, mode| {
        std::fs::set_permissions(root.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir_all(root.join("outputs")).unwrap();
    let folders = ["", "conversations", "conversations/.locks", "outputs"];
    for name in folders {
        set(name, 0o755);
    }
    set("conversations/c", 0o664);
    sandbox.run(&["--conversation", "c", "again"]).assert_exit(0);
    let mode =
        |name: &str| std::fs::metadata(root.join(name)).unwrap().permissions().mode() & 0o777;
    for name in folders {
        assert_eq!(mode(name), 0o700, "{name:?}");
    }
    assert_eq!(mode("conversations/c"), 0o600);
}

#[test]
fn what_another_user_owns_is_refused_before_anything_is_sent() {
    let sandbox = Sandbox::new().reply(answer("one"));
    let owner = |path: &std::path::Path| std::os::unix::fs::chown(path, Some(12345), None);
    let refused = |args: &[&str], path: &std::path::Path| {
        let run = sandbox.run(args).assert_exit(1).no_stdout();
        run.stderr_has(&[path.to_str().unwrap(), "belongs to the user with id", "--root"]);
    };
    // A plain user can give nothing away, and finds what is root's.
    if owner(&sandbox.root()).is_err() {
        let config = sandbox.root().join("config.json");
        let link = sandbox.work().join(".nagent");
        std::os::unix::fs::symlink("/", &link).unwrap();
        let (config, root) = (config.to_str().unwrap(), link.to_str().unwrap());
        return refused(&["--config", config, "--root", root, "task"], &link);
    }
    refused(&["--conversation", "c", "task"], &sandbox.root());
    assert!(!sandbox.root().join("conversations").exists());
    std::os::unix::fs::chown(sandbox.root(), Some(0), None).unwrap();
    sandbox.run(&["--conversation", "c", "task"]).assert_exit(0);
    let path = sandbox.root().join("conversations/c");
    owner(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    refused(&["--conversation", "c", "again"], &path);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(sandbox.requests().len(), 1);
}

#[test]
fn two_scripts_of_one_name_that_come_first_at_once_share_nothing() {
    for _ in 0..5 {
        let sandbox = Sandbox::new().file("a/same.md", "Do a.").file("b/same.md", "Do b.");
        sandbox.llm.choose(|_| answer("done").into());
        for run in
            ["a/same.md", "b/same.md"].map(|it| sandbox.program(crate::think::THINK, &[it]).spawn())
        {
            run.wait().assert_exit(0);
        }
        assert_eq!(
            std::fs::read_dir(crate::think::home(&sandbox).join("thoughts")).unwrap().count(),
            2
        );
    }
}
