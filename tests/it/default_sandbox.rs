//! The sandbox that commands get where nobody chose one, and the way out of it that the user is asked about.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::conversations::CONVERSATIONS;
use crate::file_edit::edit;
use crate::pty::Pty;
use crate::sandbox::{Sandbox, answer, shell};

const QUESTION: &str = "why not [n]: ";

/// A world whose config names no sandbox.
fn default() -> Sandbox {
    let sandbox = Sandbox::outside_temp();
    let text = std::fs::read_to_string(sandbox.root().join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    config.as_object_mut().unwrap().remove("sandbox");
    sandbox.config_text(&config.to_string())
}

/// A command that asks to leave the sandbox.
fn outside(commands: &str, reason: &str) -> String {
    format!("<nagent-shell sandbox=\"off\" reason=\"{reason}\">{commands}</nagent-shell>")
}

/// Runs a call on a terminal, and types an answer to each question.
fn answer_on_terminal(sandbox: &Sandbox, answers: &[&str]) -> (Pty, String) {
    let mut pty = sandbox.cmd(&["-c", "c", "task"]).on_pty(80);
    for (count, answer) in answers.iter().enumerate() {
        pty.expect_times(QUESTION, count + 1);
        pty.type_keys(&format!("{answer}\r"));
    }
    assert!(pty.wait().success(), "{}", pty.printed());
    let printed = pty.printed();
    (pty, printed)
}

#[test]
fn a_session_says_what_holds_by_default() {
    let sandbox = default();
    sandbox.repl(&["-q"]).stdin("/sandbox\n").run().assert_exit(0).stdout_is("workspace\n");
    let run = sandbox.repl(&["-q"]).folder(sandbox.home()).stdin("/sandbox\n").run();
    assert_eq!(run.assert_exit(0).stdout, "read-only\n");
}

#[test]
fn how_bwrap_works_here_is_kept_and_a_file_that_says_else_changes_nothing() {
    let sandbox = default();
    let known = sandbox.root().join("sandbox.txt");
    let run = || {
        sandbox.llm.push(shell("echo x > ~/elsewhere.txt; echo in > here.txt"));
        sandbox.llm.push(answer("ok"));
        sandbox.run(&["--new", "task"]).assert_exit(0);
        assert!(
            sandbox.read("here.txt") == "in\n" && !sandbox.home().join("elsewhere.txt").exists()
        );
        std::fs::read_to_string(&known).unwrap()
    };
    let first = run();
    // Written once: a run that tried bwrap again would write it again.
    let written = std::fs::metadata(&known).unwrap().modified().unwrap();
    assert_eq!(run(), first);
    assert_eq!(std::fs::metadata(&known).unwrap().modified().unwrap(), written);
    std::fs::write(&known, first.replace(' ', "  ")).unwrap();
    assert_eq!(run(), first);
}

#[test]
fn commands_write_in_the_working_tree_and_read_no_credential() {
    let sandbox = default().reply(shell(
        "echo in > here.txt; cat ~/.ssh/id; echo out > ~/elsewhere.txt; echo out > ../other.txt",
    ));
    let sandbox =
        sandbox.reply(shell("echo temp > \"$TMPDIR/t\" && cat \"$TMPDIR/t\"")).reply(answer("ok"));
    std::fs::create_dir(sandbox.home().join(".ssh")).unwrap();
    std::fs::write(sandbox.home().join(".ssh/id"), "the-secret").unwrap();
    sandbox.run(&["-c", "c", "task"]).assert_exit(0);
    assert_eq!(sandbox.read("here.txt"), "in\n");
    assert!(!sandbox.home().join("elsewhere.txt").exists());
    assert!(!sandbox.base().join("other.txt").exists());
    let results = sandbox.blocks_of("nagent-shell-result");
    assert_eq!(results[0].get("sandbox"), "workspace");
    assert!(!results[0].body.contains("the-secret"), "{}", results[0].body);
    for words in ["--write DIR", "only if the user agrees"] {
        assert!(results[0].body.contains(words), "{}", results[0].body);
    }
    assert_eq!(results[1].body, "temp");
    let first = sandbox.requests()[0].text();
    assert!(
        first.contains("sandbox mode workspace") && first.contains("sandbox=\\\"off\\\""),
        "{first}"
    );
}

#[test]
fn at_home_commands_only_look_and_it_is_said_once() {
    let sandbox = default();
    for _ in 0..2 {
        sandbox.llm.push(shell("echo x > file.txt"));
        sandbox.llm.push(answer("ok"));
    }
    let run = || sandbox.cmd(&["-n", "--progress", "task"]).folder(sandbox.home()).run();
    let words = "is the home folder, so commands write only where --write DIR lets them";
    run().assert_exit(0).stderr_has(&[words]);
    assert!(!run().assert_exit(0).stderr.contains(words));
    assert!(!sandbox.home().join("file.txt").exists());
    // What nagent itself wrote in its folder is not named, though the folder is below one that commands write in.
    sandbox.llm.push(shell("ls"));
    sandbox.llm.push(answer("ok"));
    let own = sandbox.cmd(&["-n", "--write", ".", "--progress", "task"]).folder(sandbox.home());
    assert!(!own.run().assert_exit(0).stderr.contains("run by tools without asking"));
    // A folder of a project can be named.
    sandbox.llm.push(shell("echo x > ../work/named.txt"));
    sandbox.llm.push(answer("ok"));
    let flags = ["-n", "--write", "../work", "task"];
    sandbox.cmd(&flags).folder(sandbox.home()).run().assert_exit(0);
    assert_eq!(sandbox.read("named.txt"), "x\n");
}

#[test]
fn a_command_leaves_the_sandbox_only_by_a_yes_to_its_reason() {
    let sandbox = default();
    let touch = |name: &str| format!("echo y > ../{name}");
    sandbox.llm.push(outside(&touch("one"), "it must") + &outside(&touch("two"), "it may"));
    sandbox.llm.push(answer("ok"));
    let (_, printed) = answer_on_terminal(&sandbox, &["y", "n not that"]);
    assert!(printed.contains("run this command outside of the sandbox in"), "{printed}");
    assert!(printed.contains("reason: it must"), "{printed}");
    assert!(sandbox.base().join("one").exists() && !sandbox.base().join("two").exists());
    let results = sandbox.blocks_of("nagent-shell-result");
    assert_eq!((results[0].get("status"), results[1].get("status")), ("ok", "error"));
    assert!(results[1].body.contains("the user said no: not that"), "{}", results[1].body);
    // An answer of always counts for the command, whatever its next reason is.
    sandbox.llm.push(outside(&touch("three"), "first"));
    sandbox.llm.push(answer("ok"));
    answer_on_terminal(&sandbox, &["a"]);
    std::fs::remove_file(sandbox.base().join("three")).unwrap();
    sandbox.llm.push(outside(&touch("three"), "second"));
    sandbox.llm.push(answer("ok"));
    sandbox.run(&["-c", "c", "task"]).assert_exit(0);
    assert!(sandbox.base().join("three").exists());
    let left = "what a command without the sandbox changed elsewhere is not known";
    sandbox.run(&["-c", "c", "--undo"]).assert_exit(1).stdout_has(&[left]);
}

#[test]
fn without_a_terminal_no_command_leaves_the_sandbox() {
    let sandbox = default().reply(outside("echo y > ../one", "it must")).reply(answer("ok"));
    sandbox.cmd(&["-c", "c", "task"]).without_terminal().run().assert_exit(0);
    assert!(!sandbox.base().join("one").exists());
    let result = sandbox.block("nagent-shell-result");
    assert_eq!(result.get("status"), "error");
    assert!(
        result.body.contains("they can run it themselves, or start nagent with --sandbox off"),
        "{}",
        result.body
    );
    // Where there is no sandbox, there is nothing to leave.
    sandbox.llm.push(outside("echo y > ../one", "it must"));
    sandbox.llm.push(answer("ok"));
    sandbox.cmd(&["-c", "c", "--sandbox", "off", "task"]).without_terminal().run().assert_exit(0);
    assert!(sandbox.base().join("one").exists());
}

#[test]
fn caches_of_tools_are_writable_but_not_the_programs_in_them() {
    let sandbox = default();
    let toolchain = "go/pkg/mod/golang.org/toolchain@1";
    for name in [".cargo/registry", ".npm/_npx", ".npm/_cacache", ".cache/pre-commit", toolchain] {
        std::fs::create_dir_all(sandbox.home().join(name)).unwrap();
    }
    for name in [".cache/p10k-instant-prompt-me.zsh", "go/pkg/mod/golang.org/x"] {
        std::fs::write(sandbox.home().join(name), "").unwrap();
    }
    let tries = ".cache/x .cargo/registry/x .cache/pre-commit/x .cargo/config.toml .npm/_cacache/x .npm/_npx/x \
                 .cache/p10k-instant-prompt-me.zsh go/pkg/mod/golang.org/toolchain@1/x go/pkg/mod/golang.org/x";
    sandbox
        .llm
        .push(shell(&format!("for f in {tries}; do echo x 2>/dev/null > ~/$f && echo $f; done")));
    sandbox.llm.push(answer("ok"));
    sandbox.run(&["-c", "c", "task"]).assert_exit(0);
    let body = sandbox.block("nagent-shell-result").body;
    let made: Vec<&str> = body.lines().filter(|line| tries.contains(line)).collect();
    // Of what `npx` runs later, a command has a folder of its own.
    let go = "go/pkg/mod/golang.org/x";
    let expect = [".cache/x", ".cargo/registry/x", ".npm/_cacache/x", ".npm/_npx/x", go];
    assert_eq!(made, expect, "{body}");
    let is_left = |name: &str| sandbox.home().join(".npm").join(name).exists();
    assert!(is_left("_cacache/x") && !is_left("_npx/x"));
    // Those of programs that are not installed are not made.
    let is_installed = ["/usr/bin/mix", "/bin/mix", "/usr/local/bin/mix"]
        .iter()
        .any(|it| std::path::Path::new(it).exists());
    assert_eq!(sandbox.home().join(".hex").exists(), is_installed);
}

#[test]
fn a_repository_is_not_removed_and_git_waits_for_no_editor() {
    let sandbox = default().env("EDITOR", "sleep 60 #");
    sandbox.program("git", &["init", "-q"]).run().assert_exit(0);
    sandbox.llm.push(shell("cd . && rm -r ./.git/"));
    sandbox.llm.push(shell("git -c user.name=a -c user.email=a@x commit --allow-empty"));
    sandbox.llm.push(answer("ok"));
    sandbox.run(&["-c", "c", "task"]).assert_exit(0);
    let results = sandbox.blocks_of("nagent-shell-result");
    assert!(results[0].body.contains("it removes the git repository"), "{results:?}");
    assert!(sandbox.work().join(".git/HEAD").exists());
    assert!(results[1].body.contains("empty commit message"), "{results:?}");
}

#[test]
fn a_question_names_the_whole_path_of_a_file_elsewhere() {
    let sandbox = Sandbox::outside_temp().file("old.txt", "four");
    let elsewhere = sandbox.tmp().canonicalize().unwrap().join("new.txt").display().to_string();
    let write = |path: &str| format!("<nagent-write path=\"{path}\">hello\n</nagent-write>");
    sandbox.llm.push("<nagent-read path=\"old.txt\"/>".to_owned());
    sandbox.llm.push(write("old.txt") + &write(&elsewhere));
    sandbox.llm.push(edit("old.txt", "hello", "bye"));
    sandbox.llm.push(answer("ok"));
    let args = ["-c", "c", "-w", "--approve", "ask", "task"];
    let mut pty = sandbox.cmd(&args).on_pty(600);
    for count in 1..=3 {
        pty.expect_times(QUESTION, count);
        pty.type_keys("y\r");
    }
    assert!(pty.wait().success());
    let (printed, folder) = (pty.printed(), sandbox.work().canonicalize().unwrap());
    for words in [
        format!("write this file (6 B, replaces 4 B) in {}?", folder.display()),
        format!("write this file (6 B, new) outside of {}: {elsewhere}?", folder.display()),
        format!("make this edit (a file of 6 B) in {}?", folder.display()),
        format!("+++ {elsewhere}"),
    ] {
        assert!(printed.contains(&words), "{words}: {printed}");
    }
}

/// The copy is in nagent's own folder, where no command of the sandbox may write; nagent named it, no model did.
#[test]
fn a_conversation_is_edited_by_tags() {
    let sandbox = default().reply("<nagent-response>\nhello web3\n</nagent-response>");
    sandbox.run(&["-c", "log", "say it"]).assert_exit(0);
    let root = sandbox.root().canonicalize().unwrap();
    let start = format!("{}/conversations/log-edit-", root.display());
    let is_shown = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_shown);
    sandbox.llm.choose(move |request| {
        let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let mut lines =
            all.filter_map(|it| std::fs::read_to_string(it.path().join("cmdline")).ok());
        seen.fetch_or(lines.any(|it| it.contains("Say db2 to")), Ordering::Relaxed);
        let text = request.text();
        let path = text.find(&start).map_or("", |at| &text[at..at + start.len() + 32]);
        let edit = "<<<<<<< SEARCH\nhello web3\n=======\nhello db2\n>>>>>>> REPLACE\n";
        let edit = format!(
            "<nagent-read path=\"{path}\"/><nagent-edit path=\"{path}\">{edit}</nagent-edit>"
        );
        let is_done = text.contains("nagent-edit-result");
        if is_done { answer("done") } else { edit }.into()
    });
    let edit = sandbox.program(CONVERSATIONS, &["edit", "Say db2 to it"]);
    edit.env("NAGENT_CONVERSATION", "log").run().assert_exit(0);
    assert!(!is_shown.load(Ordering::Relaxed), "the prompt is in the list of processes");
    let text = std::fs::read_to_string(sandbox.root().join("conversations/log")).unwrap();
    assert!(text.contains("hello db2") && !text.contains("hello web3"), "{text}");
}

#[test]
fn what_the_sandbox_denied_is_explained_to_the_model_and_said_to_the_person() {
    let sandbox = default();
    for (command, is_said) in [("touch ~/x", true), ("touch ~/x || true", false)] {
        sandbox.llm.push(shell(command));
        sandbox.llm.push(answer("ok"));
        let shown = sandbox.cmd(&["-c", "c", "task"]).on_terminal(300).run().assert_exit(0).stdout;
        assert!(
            shown.contains("Read-only file system") && !shown.contains("lets commands"),
            "{shown}"
        );
        assert_eq!(shown.contains("the sandbox may have stopped it"), is_said, "{shown}");
        let results = sandbox.blocks_of("nagent-shell-result");
        let last = results.last().unwrap();
        assert!(last.body.contains("[the sandbox lets commands write only"), "{}", last.body);
        assert_eq!(last.get("reason"), "sandbox");
    }
}

#[test]
fn the_answer_goes_to_no_file_that_a_command_put_in_the_place_of_its_own() {
    let swaps =
        ["ln -s ../home/rc out/answer", "mv out old; ln -s ../home out", "mkfifo out/answer"];
    for swap in swaps {
        let sandbox = default().file("out/x", "");
        sandbox.llm.push(shell(swap));
        sandbox.llm.push(answer("evil"));
        sandbox.run(&["-o", "out/answer", "task"]).assert_exit(0).no_stdout();
        assert!(!sandbox.home().join("rc").exists() && !sandbox.home().join("answer").exists());
        let folder = if swap.starts_with("mv") { "old" } else { "out" };
        assert_eq!(sandbox.read(&format!("{folder}/answer")), "evil\n", "{swap}");
    }
}

#[test]
fn a_link_out_of_the_tree_that_an_earlier_run_left_is_not_followed() {
    let sandbox = default().file("d/a", "");
    std::fs::write(sandbox.home().join("rc"), "mine\n").unwrap();
    sandbox.program("git", &["init", "-q"]).run().assert_exit(0);
    sandbox.llm.push(shell("ln -s ../home/rc rc; ln -s ../home/new new; ln -s .git/description g; ln -s d in; ln -s ../home up"));
    sandbox.llm.choose(|_| answer("evil").into());
    sandbox.run(&["task"]).assert_exit(0);
    let before = sandbox.read(".git/description");
    let said = "is reached by a link that leads out of the working tree";
    for path in ["rc", "new", "g", "up/new"] {
        for flags in [&["-o", path][..], &["--record", path]] {
            sandbox
                .run(&[flags, &["task"]].concat())
                .assert_exit(2)
                .no_stdout()
                .stderr_has(&[said]);
        }
    }
    sandbox.file_edit(&["rc", "task"]).run().assert_exit(1).no_stdout().stderr_has(&[said]);
    let home = |name: &str| std::fs::read_to_string(sandbox.home().join(name)).ok();
    assert_eq!((home("rc").as_deref(), home("new")), (Some("mine\n"), None));
    assert_eq!(sandbox.read(".git/description"), before);
    // Links inside the tree, and a file outside that is named as itself, are as the user says.
    sandbox.run(&["-o", "in/b", "task"]).assert_exit(0);
    sandbox.run(&["-o", "../home/new", "task"]).assert_exit(0);
    assert_eq!((sandbox.read("d/b"), home("new")), ("evil\n".into(), Some("evil\n".into())));
}

#[test]
fn a_credential_behind_a_link_is_sent_only_where_it_is_named_itself() {
    let sandbox = default();
    std::fs::create_dir(sandbox.home().join(".ssh")).unwrap();
    let key = sandbox.home().join(".ssh/id");
    std::fs::write(&key, "the-secret").unwrap();
    std::os::unix::fs::symlink(&key, sandbox.work().join("notes.txt")).unwrap();
    sandbox.llm.choose(|_| answer("ok").into());
    let split = env!("CARGO_BIN_EXE_nagent-file-split");
    let calls = [
        (env!("CARGO_BIN_EXE_nagent-file-summarize"), &["notes.txt"][..]),
        (split, &["notes.txt", "--output", "parts"]),
        (crate::sandbox::LLM_TEXT, &["notes.txt"]),
        (env!("CARGO_BIN_EXE_nagent-llm-upload"), &["notes.txt", "--prompt", "x"]),
        (crate::sandbox::NAGENT, &["--context", "notes.txt", "x"]),
    ];
    for (program, args) in calls {
        let run = sandbox.program(program, args).run().assert_exit(1).no_stdout();
        run.stderr_has(&["notes.txt leads through a link to", "/.ssh/id"]);
    }
    assert!(sandbox.requests().is_empty() && !sandbox.work().join("parts").exists());
    let named = key.to_str().unwrap();
    sandbox.program(crate::sandbox::LLM_TEXT, &[named]).run().assert_exit(0);
    assert!(sandbox.requests()[0].text().contains("the-secret"));
}
