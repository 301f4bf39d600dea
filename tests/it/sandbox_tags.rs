//! In the sandbox, tags read and write nothing that a command could not, credentials are hidden wherever variables say that they
//! are, and commits work in linked working trees.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sandbox::{Sandbox, answer, has_bwrap, shell};

const SANDBOX: &str = env!("CARGO_BIN_EXE_nagent-sandbox");
const SECRET: &str = "hidden-in-the-sandbox";

/// Runs one tag, and returns the block of its result.
fn act(sandbox: Sandbox, flags: &[&str], tag: &str, result: &str) -> (Sandbox, String, String) {
    let sandbox = sandbox.reply(tag).reply(answer("done"));
    let mut words = flags.to_vec();
    words.push("task");
    sandbox.run(&words).assert_exit(0);
    let block = sandbox.block(result);
    let status = block.get("status").to_owned();
    (sandbox, status, block.body)
}

#[test]
fn tags_write_only_what_commands_may_write() {
    let flags = ["--sandbox", "workspace", "--write", "."];
    for (path, is_fine) in [
        ("hook", false),
        ("hooks/pre-commit", false),
        (".envrc", true),
        ("sub/.vscode/tasks.json", true),
    ] {
        let sandbox = Sandbox::outside_temp().file("hook", "x");
        sandbox.program("git", &["init", "-q"]).run().assert_exit(0);
        let config = "[core]\nrepositoryformatversion = 0\nhooksPath = hooks\n[filter \"x\"]\nclean = ./hook\n";
        sandbox.write(".git/config", config);
        let tag =
            format!("<nagent-read path=\"hook\"/><nagent-write path=\"{path}\">new</nagent-write>");
        let (sandbox, status, text) = act(sandbox, &flags, &tag, "nagent-write-result");
        assert_eq!(status == "ok", is_fine, "{path}: {text}");
        assert!(is_fine || text.contains("git or nagent itself"), "{path}: {text}");
        let content = std::fs::read_to_string(sandbox.work().join(path)).unwrap_or_default();
        assert_eq!(content == "new", is_fine, "{path}: {content}");
    }
    let tag = "<nagent-write path=\"sub/a.txt\">fine</nagent-write>";
    let (sandbox, status, text) = act(Sandbox::outside_temp(), &flags, tag, "nagent-write-result");
    assert_eq!((status.as_str(), sandbox.read("sub/a.txt").as_str()), ("ok", "fine"), "{text}");
    let sandbox = Sandbox::outside_temp();
    let tag = format!("<nagent-write path=\"{}/x\">x</nagent-write>", sandbox.tmp().display());
    let (_, status, _) = act(sandbox, &["--sandbox", "read-only"], &tag, "nagent-write-result");
    assert_eq!(status, "error");
}

#[test]
fn a_child_writes_only_what_commands_may_write() {
    let sandbox = Sandbox::outside_temp().file("hook", "x");
    sandbox.program("git", &["init", "-q"]).run().assert_exit(0);
    sandbox.write(
        ".git/config",
        "[core]\nrepositoryformatversion = 0\n[filter \"x\"]\nclean = ./hook\n",
    );
    let tag = "<nagent-conversation file=\"hook\">change it</nagent-conversation>";
    let result = "nagent-conversation-result";
    let (sandbox, status, text) = act(sandbox, &["--sandbox", "workspace"], tag, result);
    assert!(status == "error" && text.contains("git or nagent itself"), "{text}");
    assert_eq!(sandbox.requests().len(), 2, "no child asked");
}

#[test]
fn tags_read_only_what_commands_may_read() {
    let world = || {
        let sandbox = Sandbox::outside_temp();
        std::fs::create_dir(sandbox.home().join(".ssh")).unwrap();
        std::fs::write(sandbox.home().join(".ssh/id"), SECRET).unwrap();
        std::fs::write(sandbox.home().join("notes"), "plain").unwrap();
        std::os::unix::fs::symlink(sandbox.home(), sandbox.work().join("way")).unwrap();
        sandbox.file("kube/config", SECRET)
    };
    for (tag, result) in [
        ("<nagent-read path=\"~/.ssh/id\"/>", "nagent-read-result"),
        ("<nagent-read path=\"way/.ssh/id\"/>", "nagent-read-result"),
        ("<nagent-file-read path=\"~/.ssh/id\"/>", "nagent-file-read-result"),
        ("<nagent-list path=\"~/.ssh\"/>", "nagent-list-result"),
        ("<nagent-glob pattern=\"*\" path=\"~/.ssh\"/>", "nagent-glob-result"),
        ("<nagent-read path=\"~/.nagent/config.json\"/>", "nagent-read-result"),
        ("<nagent-read path=\"kube/config\"/>", "nagent-read-result"),
        ("<nagent-list path=\"~/.nagent\"/>", "nagent-list-result"),
    ] {
        let sandbox = world().env("KUBECONFIG", "kube/config");
        let (_, status, text) = act(sandbox, &["--sandbox", "workspace"], tag, result);
        assert!(status == "error" && text.contains("hidden by the sandbox"), "{tag}: {text}");
        let (_, status, _) = act(world(), &[], tag, result);
        assert_eq!(status, "ok", "without a sandbox: {tag}");
    }
    for path in ["~", "way", "."] {
        let sandbox = world().env("KUBECONFIG", "kube/config");
        let tag = format!("<nagent-grep pattern=\"{SECRET}|plain\" path=\"{path}\"/>");
        let (_, status, text) =
            act(sandbox, &["--sandbox", "read-only"], &tag, "nagent-grep-result");
        assert!(status == "ok" && !text.contains(SECRET), "{path}: {text}");
        assert_eq!(text.contains("notes\n1:plain"), path != ".", "{path}: {text}");
    }
}

/// A folder of the tree and a link to the keys change places all the time, as by a command that is kept.
#[test]
fn tags_read_what_they_asked_about_while_names_change_places() {
    let sandbox = Sandbox::outside_temp().file("d/id", "inside\n");
    std::fs::create_dir(sandbox.home().join(".ssh")).unwrap();
    std::fs::write(sandbox.home().join(".ssh/id"), SECRET).unwrap();
    std::os::unix::fs::symlink(sandbox.home().join(".ssh"), sandbox.work().join("l")).unwrap();
    let grep = format!("<nagent-grep pattern=\"{SECRET}|inside\" path=\"d\"/>");
    let file = grep.replace("\"d\"", "\"d/id\"");
    let reads = "<nagent-read path=\"d/id\"/><nagent-file-read path=\"d/id\"/>";
    let sandbox =
        sandbox.reply((reads.to_owned() + &grep + &file).repeat(30)).reply(answer("done"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (one, other) = (sandbox.work().join("d"), sandbox.work().join("l"));
            while !done.load(Ordering::Relaxed) {
                let (flags, cwd) = (rustix::fs::RenameFlags::EXCHANGE, rustix::fs::CWD);
                rustix::fs::renameat_with(cwd, &one, cwd, &other, flags).unwrap();
            }
        });
        let run = sandbox.run(&["--sandbox", "read-only", "task"]);
        done.store(true, Ordering::Relaxed);
        run.assert_exit(0);
    });
    let text = sandbox.conversation();
    assert!(text.contains("inside\n") && text.contains("hidden by the sandbox"), "{text}");
    let shown = text.replace(&format!("{SECRET}|inside"), "");
    assert!(!shown.contains(SECRET), "{shown}");
}

#[test]
fn what_a_command_put_in_place_of_a_written_file_is_not_kept() {
    let sandbox = Sandbox::outside_temp();
    std::fs::create_dir(sandbox.home().join(".ssh")).unwrap();
    std::fs::write(sandbox.home().join(".ssh/id"), SECRET).unwrap();
    let link = format!("rm -r d; ln -s {} d", sandbox.home().join(".ssh").display());
    sandbox.llm.push("<nagent-write path=\"d/id\">mine</nagent-write>".to_owned() + &shell(&link));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["--sandbox", "workspace", "--write", ".", "task"]).assert_exit(0);
    assert_eq!(sandbox.read("d/id"), SECRET);
    for entry in std::fs::read_dir(sandbox.root().join("outputs")).unwrap() {
        let kept = std::fs::read(entry.unwrap().path()).unwrap();
        assert_ne!(String::from_utf8_lossy(&kept), SECRET);
    }
}

#[test]
fn a_stored_result_is_read_in_the_sandbox() {
    let sandbox = Sandbox::outside_temp().reply(shell("seq 100000")).reply(answer("done"));
    sandbox.run(&["--sandbox", "workspace", "task"]).assert_exit(0);
    let output = sandbox.block("nagent-shell-result").get("output").to_owned();
    let tag = format!("<nagent-read path=\"{output}\" offset=\"70000\" limit=\"1\"/>");
    let (_, status, text) = act(sandbox, &["--sandbox", "workspace"], &tag, "nagent-read-result");
    assert_eq!((status.as_str(), text.trim()), ("ok", "70000"));
}

/// Dotfiles are kept elsewhere, with links to them, and nagent's own folder may be another one than the default.
#[test]
fn what_links_in_hidden_folders_lead_to_and_every_root_are_hidden() {
    let sandbox = Sandbox::outside_temp();
    let home = sandbox.home();
    let files = [
        ".thinkingscript/agents/a.json",
        "dotfiles/creds",
        ".nagent/config.json",
        "other/config.json",
        "scripts/agents/b.json",
    ];
    for name in files {
        std::fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        std::fs::write(home.join(name), SECRET).unwrap();
    }
    std::fs::create_dir(home.join(".aws")).unwrap();
    std::os::unix::fs::symlink(home.join("dotfiles/creds"), home.join(".aws/credentials")).unwrap();
    let at = |name: &str| home.join(name).display().to_string();
    let sandbox = sandbox.env("NAGENT_ROOT", at("other")).env("THINKINGSCRIPT_HOME", at("scripts"));
    rustix::fs::chmod(home.join("other"), rustix::fs::Mode::RWXU).unwrap();
    let script = format!("cd {}; cat {}; true", home.display(), files.join(" "));
    assert_eq!(sandbox.program("sh", &["-c", &script]).run().stdout.matches(SECRET).count(), 5);
    for flags in [&[][..], &["--only-landlock"], &["--sandbox", "read-only"]] {
        let run = sandbox.program(SANDBOX, &[flags, &["--", "sh", "-c", &script]].concat()).run();
        assert!(run.code == 0 && !run.stdout.contains(SECRET), "{run:?}");
    }
}

#[test]
fn credentials_are_hidden_where_variables_say_they_are() {
    let sandbox = Sandbox::outside_temp();
    let base = sandbox.base().to_owned();
    let names =
        ["a/hosts.yml", "gh/hosts.yml", "cargo/credentials.toml", "kube", "docker/config.json"];
    for name in names {
        let path = base.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, SECRET).unwrap();
    }
    std::fs::write(base.join("cargo/config.toml"), "plain").unwrap();
    let at = |name: &str| base.join(name).display().to_string();
    let sandbox = sandbox
        .env("XDG_CONFIG_HOME", at(""))
        .env("CARGO_HOME", at("cargo"))
        .env("KUBECONFIG", format!("{}:{}", at("none"), at("kube")))
        .env("DOCKER_CONFIG", at("docker"));
    let script = format!(
        "cd {}; cat gh/hosts.yml cargo/c* cargo/config.toml kube docker/config.json",
        base.display()
    );
    for flags in [&[][..], &["--only-landlock"]] {
        let words = [flags, &["--", "sh", "-c", &script]].concat();
        let run = sandbox.program(SANDBOX, &words).run();
        assert!(run.stdout.contains("plain") && !run.stdout.contains(SECRET), "{run:?}");
    }
}
/// Git writes for a linked working tree in its repository, whose config and hooks stay as they are; a `.git` that a repository
/// does not know makes nothing writable.
#[test]
fn a_linked_working_tree_can_be_committed_in() {
    if !has_bwrap() {
        return;
    }
    let sandbox = Sandbox::outside_temp();
    let setup = "git init -q -b main .; git commit -qm one --allow-empty; git worktree add -q ../linked -b two; \
                 mkdir ../forged; cp ../linked/.git ../forged/.git";
    crate::sandbox_tool::git(&sandbox, setup).assert_exit(0);
    let script = "echo 1 > f; git add f; git -c user.name=a -c user.email=a@x commit -qm two; git log --format=%s -2; \
                  git config user.name b && echo changed; echo x > $0/hooks/post-commit && echo made; rm -fr $0/objects; ls $0";
    let own = sandbox.work().join(".git").display().to_string();
    let run = |folder: &str| {
        let words = ["--", "bash", "-c", script, &own];
        let linked = sandbox.work().parent().unwrap().join(folder);
        sandbox.program(SANDBOX, &words).folder(linked).run()
    };
    assert!(!run("forged").stdout.contains("two"));
    assert!(sandbox.work().join(".git/objects").exists());
    let run = run("linked");
    assert!(run.stdout.starts_with("two\none\n"), "{run:?}");
    assert!(!run.stdout.contains("changed") && !run.stdout.contains("made"), "{run:?}");
}
