//! `nagent-sandbox`: what it refuses before anything runs, what commands may write, read and reach, and what is said of what
//! they changed. What the sandbox holds against attacks is tested by `make torture`.

use std::collections::BTreeSet;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

use rustix::process::Signal;

use crate::sandbox::{Sandbox, answer, has_bwrap, shell, wait_until};

const SANDBOX: &str = env!("CARGO_BIN_EXE_nagent-sandbox");

/// It is refused with this code and these words, and the command does not run.
fn refused(sandbox: &Sandbox, args: &[&str], code: i32, words: &[&str]) {
    let mark = sandbox.work().join("ran");
    let mut all = args.to_vec();
    all.extend(["--", "touch", mark.to_str().unwrap()]);
    let run = sandbox.program(SANDBOX, &all).run();
    run.assert_exit(code).no_stdout().stderr_has(words);
    assert!(!mark.exists(), "{args:?}");
}

#[test]
fn what_cannot_be_started_is_not_tried_again_and_again() {
    let sandbox = Sandbox::new().file("plain.sh", "#!/bin/sh\n");
    sandbox.script("lost.sh", "#!/no/such/interpreter\n");
    let run = |word: &str| sandbox.program(SANDBOX, &[word]).run();
    run("./plain.sh").assert_exit(126).stderr_has(&["it is not executable"]);
    run("no-such-program").assert_exit(127).stderr_has(&["it is not found"]);
    let lost = run("./lost.sh");
    assert!(lost.code != 0 && lost.stderr.matches("lost.sh").count() <= 3, "{lost:?}");
}

#[test]
fn wrong_usage() {
    let sandbox = Sandbox::outside_temp();
    refused(&sandbox, &["--sandbox", "loose"], 2, &["off, workspace or read-only"]);
    refused(&sandbox, &["--sandbox", "off"], 2, &["restricts nothing"]);
    refused(&sandbox, &["--sandbox", "off", "--no-network"], 2, &["restricts nothing"]);
    let run = sandbox.program(SANDBOX, &["--no-network"]).run();
    run.assert_exit(2).no_stdout().stderr_has(&["no command"]);
}

#[test]
fn the_flags_of_a_command_are_its_own() {
    let sandbox = Sandbox::outside_temp();
    let words = ["--no-network", "echo", "--json", "--description", "-C", "--lines", "-h"];
    let run = sandbox.program(SANDBOX, &words).run().assert_exit(0);
    run.stdout_is("--json --description -C --lines -h\n");
}

#[test]
fn folders_that_cannot_be_made_writable() {
    let sandbox = Sandbox::outside_temp();
    refused(&sandbox, &["--write", "missing"], 1, &["--write missing", "mkdir"]);
    refused(&sandbox, &["--write", "/"], 1, &["root of the file system"]);
    let root = sandbox.root();
    std::fs::create_dir_all(root.join("outputs")).unwrap();
    let inside = root.join("outputs").display().to_string();
    refused(&sandbox, &["--write", &inside], 1, &["nagent's own folder"]);
    sandbox.write("file", "x");
    refused(&sandbox, &["--write", "file"], 1, &["not a folder"]);
}

/// What a command wrote into the tree, or what came with it, makes no other folder writable.
#[test]
fn files_in_the_tree_make_no_other_folder_writable() {
    let sandbox = Sandbox::outside_temp();
    let (work, base) = (sandbox.work(), sandbox.base().to_owned());
    let victim = base.join("victim");
    std::fs::create_dir_all(victim.join("objects")).unwrap();
    std::fs::write(victim.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let named = victim.display().to_string();
    sandbox.write(".git/commondir", &named);
    let write = format!("echo x > {named}/HEAD; echo x > .git/refs/x");
    let run = sandbox.program(SANDBOX, &["--write", ".git", "--", "sh", "-c", &write]).run();
    run.stderr_has(&["victim/HEAD"]);
    assert!(work.join(".git/refs/x").exists());
    std::fs::remove_file(work.join(".git/commondir")).unwrap();
    sandbox.write("sub/.git", format!("gitdir: {named}\n"));
    refused(&sandbox, &["--write", "sub/.git"], 1, &["names the repository's folder"]);
    std::os::unix::fs::symlink(&victim, work.join("build")).unwrap();
    refused(&sandbox, &["--write", "build"], 1, &["leads out of the working tree", &named]);
    for spelling in ["./sub/../build", "build/", "build//", "./build/."] {
        refused(&sandbox, &["--write", spelling], 1, &["leads out of the working tree"]);
    }
}

#[test]
fn a_tree_that_holds_too_much() {
    let sandbox = Sandbox::outside_temp();
    let work = sandbox.work();
    let inside = work.join("own").display().to_string();
    refused(
        &sandbox,
        &["--root", &inside],
        1,
        &["contains nagent's own folder", "--sandbox read-only"],
    );
    let sandbox = Sandbox::outside_temp().env("HOME", work.display().to_string());
    let run = sandbox.program(SANDBOX, &["--root", &inside, "--", "true"]).folder(&work).run();
    run.assert_exit(1).no_stdout().stderr_has(&["is the home folder"]);
}

/// All paths below a folder, from there; of git's own folder only the name.
fn entries(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut ahead = vec![folder.to_owned()];
    while let Some(at) = ahead.pop() {
        for entry in std::fs::read_dir(&at).unwrap().flatten() {
            found.insert(entry.path().strip_prefix(folder).unwrap().display().to_string());
            let is_folder = entry.file_type().unwrap().is_dir();
            ahead.extend((is_folder && entry.file_name() != ".git").then(|| entry.path()));
        }
    }
    found
}

const CREATE: &str = "mkdir -p sub/.vscode && echo 1 > sub/.vscode/tasks.json && echo 2 > .envrc && echo 3 > sub/plain";

/// What `CREATE` made is where it was put, and the text names what of it tools run.
fn check_told(sandbox: &Sandbox, text: &str) {
    for (name, content) in
        [(".envrc", "2\n"), ("sub/.vscode/tasks.json", "1\n"), ("sub/plain", "3\n")]
    {
        assert_eq!(sandbox.read(name), content);
    }
    let line =
        text.lines().find(|line| line.contains("run by tools without asking")).unwrap_or_default();
    assert!(
        line.contains("/.envrc") && line.contains("sub/.vscode") && !line.contains("plain"),
        "{text}"
    );
    assert_eq!(text.matches(".envrc").count(), 1, "once: {text}");
}

#[test]
fn files_that_tools_run_belong_to_the_command_and_are_named_at_its_end() {
    for flags in [&[][..], &["--only-landlock"]] {
        let sandbox =
            Sandbox::outside_temp().file("old/.npmrc", "x").file("node_modules/a/.npmrc", "x");
        // What was there before is not named: a file's time of change cannot be set, and the kernel counts it in ticks.
        std::thread::sleep(std::time::Duration::from_millis(60));
        let words = [flags, &["--", "sh", "-c", CREATE]].concat();
        let run = sandbox.program(SANDBOX, &words).run().assert_exit(0);
        check_told(&sandbox, &run.stderr);
        assert!(!run.stderr.contains(".npmrc"), "{run:?}");
        let change =
            ["--", "sh", "-c", "echo evil >> old/.npmrc; ln -s sub/rc .zshrc; echo x > sub/rc"];
        let run = sandbox.program(SANDBOX, &[flags, &change].concat()).run().assert_exit(0);
        assert_eq!(sandbox.read("old/.npmrc"), "xevil\n");
        assert!(run.stderr.contains("old/.npmrc") && run.stderr.contains("/.zshrc"), "{run:?}");
    }
}

/// Also what a link leads to that was moved away and made again, and what starts things in a home that commands may write.
#[test]
fn what_links_lead_to_and_what_starts_things_in_the_home_is_named() {
    let sandbox = Sandbox::outside_temp().file("conf/x", "fine");
    std::os::unix::fs::symlink("conf/x", sandbox.work().join(".envrc")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(60));
    let script = "mv conf c2; mkdir conf; echo evil > conf/x; echo x > rust-toolchain.toml; echo x > opencode.json; \
                  mkdir ~/.ssh; echo key > ~/.ssh/authorized_keys";
    let home = sandbox.home().display().to_string();
    let run = sandbox
        .program(SANDBOX, &["--write", &home, "--", "sh", "-c", script])
        .run()
        .assert_exit(0);
    for name in ["/.envrc", "/rust-toolchain.toml", "/opencode.json", "/.ssh"] {
        assert!(run.stderr.contains(name), "{name}: {run:?}");
    }
}

/// Four files make a folder look like a repository's own: nothing in it is left out, nothing is moved.
#[test]
fn a_folder_that_looks_like_a_repository_hides_nothing_and_stays() {
    let disguise = "mkdir -p src/objects src/refs; echo x > src/HEAD; echo x > src/commondir; echo '[core]' > src/config; \
                    echo evil > src/app/.envrc";
    both(disguise, |_, _| ());
    let sandbox = Sandbox::outside_temp().file("src/app/precious.txt", "work");
    let run = sandbox.program(SANDBOX, &["--", "sh", "-c", disguise]).run().assert_exit(0);
    assert_eq!(sandbox.read("src/app/precious.txt"), "work");
    assert!(run.stderr.contains("src/app/.envrc"), "{run:?}");
}

#[test]
fn the_person_reads_once_what_a_runs_commands_made_that_tools_run() {
    let sandbox =
        Sandbox::outside_temp().reply(shell(CREATE)).reply(shell("true")).reply(answer("done"));
    let run = sandbox.run(&["--sandbox", "workspace", "task"]).assert_exit(0);
    check_told(&sandbox, &run.stderr);
    assert!(!sandbox.conversation().contains("run by tools"), "the model is not told");
    // Without a command there is no look.
    let sandbox = sandbox.reply(answer("done"));
    let run = sandbox.run(&["--sandbox", "workspace", "task"]).assert_exit(0);
    assert!(!run.stderr.contains("run by tools"), "{run:?}");
}

#[test]
fn nothing_of_ours_is_in_the_tree_while_a_command_runs_and_after_a_kill() {
    let sandbox = Sandbox::outside_temp();
    sandbox.write("file", "x");
    let before = entries(&sandbox.work());
    let running = sandbox
        .program(SANDBOX, &["--", "sh", "-c", "echo $$ > /dev/stderr; exec sleep 60"])
        .spawn();
    wait_until("the command runs", || !running.stderr_so_far().is_empty());
    assert_eq!(entries(&sandbox.work()), before);
    running.signal(Signal::KILL);
    running.wait();
    wait_until("all processes have ended", || sandbox.processes().is_empty());
    assert_eq!(entries(&sandbox.work()), before);
    assert!(!sandbox.root().join("sandbox").exists() && !sandbox.root().join("outputs").exists());
}

/// Runs a script in both kinds of sandbox, each in a new world.
fn both(script: &str, mut check: impl FnMut(&Sandbox, &crate::process_under_test::Run)) {
    for flags in [&[][..], &["--only-landlock"]] {
        let sandbox = Sandbox::outside_temp();
        let words = [flags, &["--", "sh", "-c", script]].concat();
        let run = sandbox.program(SANDBOX, &words).run();
        check(&sandbox, &run);
    }
}

#[test]
fn a_command_sets_no_set_user_id_bits() {
    let script = "cp /bin/true s; chmod 4755 s; chmod 2755 s; chmod 1777 .; python3 -c '
import os
os.close(os.open(\"t\", os.O_CREAT | os.O_WRONLY, 0o4755))'; cp -p s u; chmod 755 u && ./u && echo fine";
    both(script, |sandbox, run| {
        use std::os::unix::fs::PermissionsExt;
        assert!(run.stdout.ends_with("fine\n") && run.stderr.contains("not permitted"), "{run:?}");
        for entry in std::fs::read_dir(sandbox.work()).unwrap().flatten() {
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o6000, 0, "{entry:?}");
        }
    });
}

#[test]
fn a_repository_that_a_command_creates_stays_and_is_named() {
    let create = "git init -q sub/new; git clone -q sub/new sub/clone 2>/dev/null; git init -q evil; \
                  printf '[core]\\n\\tfsmonitor = ./x\\n' >> evil/.git/config";
    both(create, |sandbox, run| {
        for kept in ["sub/new/.git/HEAD", "sub/clone/.git/HEAD", "evil/.git/config"] {
            assert!(sandbox.work().join(kept).exists(), "{kept} {run:?}");
        }
        assert!(run.stderr.contains("evil/.git"), "{run:?}");
    });
}

/// They were once blocked for every command under bwrap, so that `timeout` and `kill` did nothing there.
#[test]
fn signals_reach_commands() {
    let sandbox = Sandbox::outside_temp();
    for flags in [&[][..], &["--only-landlock"]] {
        for (script, code) in [("kill -TERM $$; echo later", 143), ("timeout 0.1 sleep 60", 124)] {
            let args: Vec<&str> = flags.iter().copied().chain(["--", "sh", "-c", script]).collect();
            sandbox.program(SANDBOX, &args).run().assert_exit(code).no_stdout();
        }
    }
}

#[test]
fn a_descriptor_for_reading_changes_no_file() {
    let change = "import os\nfor call in (lambda: os.fchmod(0, 0o777), lambda: os.utime(0, (0, 0))):\n    try: call()\n    except OSError: pass";
    let sandbox = Sandbox::outside_temp();
    let outside = sandbox.base().join("outside");
    std::fs::write(&outside, "text").unwrap();
    let before = std::fs::metadata(&outside).unwrap();
    for flag in ["--sandbox=workspace", "--only-landlock"] {
        let script = format!(
            "{SANDBOX} {flag} -- python3 -c '{change}' < {0}; {SANDBOX} {flag} -- cat < {0}",
            outside.display()
        );
        let run = sandbox.program("bash", &["-c", &script]).run().assert_exit(0);
        assert_eq!(run.stdout, "text");
        let after = std::fs::metadata(&outside).unwrap();
        assert_eq!(after.permissions(), before.permissions());
        assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    }
}

/// Listens at a path, and connects to it from another thread.
const OWN_SOCKET: &str = "import socket, threading
server = socket.socket(socket.AF_UNIX)
server.bind('own.sock')
server.listen()
client = socket.socket(socket.AF_UNIX)
client.connect('own.sock')
server.accept()[0].sendall(b'hello')
print(client.recv(5).decode())
from multiprocessing import Manager
print(Manager().list([1]))";

#[test]
fn a_command_opens_sockets_and_reaches_none_of_another_program() {
    let sandbox = Sandbox::outside_temp();
    let work = sandbox.work();
    let paths =
        [sandbox.home().join("home.sock"), sandbox.tmp().join("temp.sock"), work.join("tree.sock")];
    let mut servers: Vec<_> = paths.iter().map(|path| UnixListener::bind(path).unwrap()).collect();
    let abstract_name = format!("nagent-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
    servers.push(UnixListener::bind_addr(&address).unwrap());
    let relative = sandbox.home().join("relative.sock");
    let serve = "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('relative.sock'); s.listen(); print('up', flush=True); time.sleep(60)";
    let server = sandbox.program("python3", &["-c", serve]).folder(sandbox.home()).spawn();
    wait_until("it listens", || relative.exists());
    // As ssh makes them: bound to another name, linked, the first name removed; and one in another network namespace.
    let (bound, linked) = (sandbox.home().join("mux.12345"), sandbox.home().join("mux"));
    servers.push(UnixListener::bind(&bound).unwrap());
    std::fs::hard_link(&bound, &linked).unwrap();
    std::fs::remove_file(&bound).unwrap();
    let elsewhere = sandbox.home().join("elsewhere.sock");
    let serve = format!(
        "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind({:?}); s.listen(); time.sleep(60)",
        elsewhere.display().to_string()
    );
    let other = sandbox.program("unshare", &["-rn", "python3", "-c", &serve]).spawn();
    wait_until("it listens", || elsewhere.exists());
    let mut names: Vec<String> =
        paths.iter().chain([&linked, &elsewhere]).map(|path| path.display().to_string()).collect();
    names.extend([relative.display().to_string(), format!("@{abstract_name}")]);
    let connect = format!(
        "import socket\nfor name in {names:?}:\n    try: socket.socket(socket.AF_UNIX).connect(name.replace('@', chr(0))); print('reached', name)\n    except OSError: pass"
    );
    // Without the sandbox all are reached: the names are right.
    let run = sandbox.program("python3", &["-c", &connect]).run();
    assert_eq!(run.stdout.matches("reached").count(), 7, "{run:?}");
    for flags in [&[][..], &["--no-network"], &["--sandbox", "read-only"], &["--only-landlock"]] {
        let words = [flags, &["--", "python3", "-c", &connect]].concat();
        sandbox.program(SANDBOX, &words).run().no_stdout();
    }
    // A socket's path has at most 107 bytes, and one in the test's own folder may have more.
    let own = ["--only-landlock", "--", "python3", "-c", OWN_SOCKET];
    let run = |words| sandbox.program(SANDBOX, words).env("TMPDIR", "/tmp").run();
    if has_bwrap() {
        assert_eq!(run(&own[1..]).stdout, "hello\n[1]\n");
    }
    let run = run(&own);
    assert!(run.code != 0 && run.stdout.is_empty(), "{run:?}");
    for server in [server, other] {
        server.signal(Signal::KILL);
        server.wait();
    }
}

#[test]
fn without_network_a_command_reaches_no_address() {
    let sandbox = Sandbox::outside_temp();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let connect = format!(
        "import socket\nsocket.create_connection(('{}', {}), 2)\nprint('reached')",
        address.ip(),
        address.port()
    );
    let reaches = |flags: &[&str]| {
        let words = [flags, &["--", "python3", "-c", &connect]].concat();
        sandbox.program(SANDBOX, &words).run().stdout == "reached\n"
    };
    assert!(reaches(&[]), "the server is there");
    for mode in [&[][..], &["--sandbox", "read-only"], &["--only-landlock"]] {
        assert!(!reaches(&[mode, &["--no-network"]].concat()), "{mode:?}");
    }
}

#[test]
fn git_commits_and_its_config_and_hooks_stay() {
    if !has_bwrap() {
        return;
    }
    let sandbox = Sandbox::outside_temp();
    let script = "set -e; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x
        echo 1 > f; git add f; git commit -qm one; git branch b; git checkout -q -b c; echo 2 > f
        git stash -q; git stash pop -q; git commit -qam two; git checkout -q main; git merge -q c; git tag t; git gc -q
        git log --oneline | wc -l";
    let run = sandbox
        .program("sh", &["-c", "git init -q -b main .; echo '#!/bin/sh' > .git/hooks/post-commit; chmod 755 .git/hooks/post-commit"])
        .run();
    run.assert_exit(0);
    std::thread::sleep(std::time::Duration::from_millis(60));
    let run = sandbox.program(SANDBOX, &["--", "sh", "-c", script]).run().assert_exit(0);
    // If a socket of another test vanishes meanwhile, bwrap says so, and the sandbox is built again.
    let own = run.stderr.lines().filter(|line| !line.starts_with("bwrap: Can't mkdir parents"));
    assert_eq!((run.stdout.as_str(), own.count()), ("2\n", 0), "{run:?}");
    let config = sandbox.read(".git/config");
    for (change, is_there) in [
        ("git config core.fsmonitor ./evil", ".git/config"),
        ("echo evil > .git/hooks/post-commit", ".git/hooks/post-commit"),
        ("mv .git .git2; git init -q .", ".git/HEAD"),
        ("mv .git/info .git/info2", ".git/HEAD"),
        ("rm .git/config; mv .git/hooks .git/h", ".git/hooks/post-commit"),
    ] {
        let run = sandbox.program(SANDBOX, &["--", "sh", "-c", change]).run();
        assert!(run.code != 0 || change.contains("info"), "{run:?}");
        assert!(sandbox.work().join(is_there).exists(), "{change}: {run:?}");
        assert_eq!(sandbox.read(".git/config"), config, "{change}");
        assert_eq!(sandbox.read(".git/hooks/post-commit"), "#!/bin/sh\n", "{change}");
    }
    for new in ["commondir", "config.worktree", "info/attributes", "objects/info/alternates"] {
        let make = format!("mkdir -p $(dirname .git/{new}); echo evil > .git/{new}");
        let run = sandbox.program(SANDBOX, &["--", "sh", "-c", &make]).run();
        assert!(run.stderr.contains(".from-command-"), "{new}: {run:?}");
        assert!(!sandbox.work().join(".git").join(new).exists(), "{new}");
        let renamed = run.stderr.split_once("it is ").unwrap().1.split(" now").next().unwrap();
        assert_eq!(std::fs::read_to_string(renamed).unwrap(), "evil\n", "{new}");
    }
}

pub(crate) fn git(sandbox: &Sandbox, script: &str) -> crate::process_under_test::Run {
    let name = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x; set -e\n";
    sandbox.program("sh", &["-c", &format!("{name}{script}")]).run()
}

/// git follows links in its own folder when it writes: `git commit` would write its message over a start-up file.
#[test]
fn links_that_lead_out_of_gits_own_folder_are_removed() {
    let sandbox = Sandbox::outside_temp();
    let outside = sandbox.home().join(".bashrc");
    std::fs::write(&outside, "mine").unwrap();
    let old = sandbox.home().join("old");
    std::fs::write(&old, "mine").unwrap();
    git(&sandbox, "git init -q -b main .; echo 1 > f; git add f; git commit -qm one")
        .assert_exit(0);
    std::os::unix::fs::symlink(&old, sandbox.work().join(".git/OLD_LINK")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(60));
    let script = format!(
        "mkdir -p .git/worktrees .git/logs/refs/heads/objects; rm -fr .git/objects/info .git/objects/ff; \
         for name in COMMIT_EDITMSG FETCH_HEAD logs/HEAD logs/refs/heads/main logs/refs/heads/objects/x worktrees/w objects/info objects/ff; \
         do ln -sf {0} .git/$name; done; \
         ln -s {0}_new .git/SQUASH_MSG; ln -sf refs/heads/main .git/INSIDE",
        outside.display()
    );
    for flags in [&[][..], &["--only-landlock"]] {
        let run = sandbox
            .program(SANDBOX, &[flags, &["--", "sh", "-c", &script]].concat())
            .run()
            .assert_exit(0);
        assert_eq!(run.stderr.matches("removed ").count(), 9, "{run:?}");
        git(&sandbox, "echo 2 >> f; git commit -qam two").assert_exit(0);
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
        assert!(!sandbox.home().join(".bashrc_new").exists());
        // Links that the user made, and those that stay inside, are left alone.
        for name in ["OLD_LINK", "INSIDE"] {
            assert!(sandbox.work().join(".git").join(name).is_symlink(), "{name}");
        }
    }
}

/// Branches that differ in settings are merged, switched and rebased as outside: half of a merge would be committed later.
#[test]
fn git_changes_tracked_settings() {
    let sandbox = Sandbox::outside_temp();
    let setup = "git init -q -b main .; echo 1 > .npmrc; echo 1 > f; git add .; git commit -qm one; git checkout -q -b other; \
                 echo 2 > .npmrc; mkdir .cargo; echo '[build]' > .cargo/config.toml; echo 2 > f; git add .; git commit -qm two; \
                 git checkout -q main; echo 1 > g; git add g; git commit -qm three";
    git(&sandbox, setup).assert_exit(0);
    let script = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x; set -e
        git switch -q other; git switch -q main; git merge -q -m m other; git reset -q --hard HEAD~1; git rebase -q other
        git worktree add -q ../work/wt -b third; git status --porcelain | grep -v wt/ || true";
    let run = sandbox.program(SANDBOX, &["--", "sh", "-c", script]).run().assert_exit(0);
    assert_eq!((run.stdout.as_str(), sandbox.read(".npmrc").as_str()), ("", "2\n"), "{run:?}");
    assert!(
        sandbox.work().join(".cargo/config.toml").exists() && run.stderr.contains(".npmrc"),
        "{run:?}"
    );
}

/// What a submodule's own folder and config name is protected as the top's is.
#[test]
fn submodules_and_what_their_config_names_stay() {
    if !has_bwrap() {
        return;
    }
    let sandbox = Sandbox::outside_temp();
    let setup = "git init -q -b main lib; cd lib; mkdir hooks; echo fine > hooks/pre-commit; git add .; git commit -qm one; cd ..
        git init -q -b main .; git -c protocol.file.allow=always submodule add -q ./lib sub; git commit -qm one
        git -C sub config core.hooksPath hooks; rm -rf lib";
    git(&sandbox, setup).assert_exit(0);
    for change in [
        "echo evil > sub/hooks/pre-commit",
        "echo evil >> .git/modules/sub/config",
        "mkdir x; echo 'gitdir: ../x' > sub/.git",
        "mv sub sub2",
        "mv .git/modules .git/m",
    ] {
        let run = sandbox.program(SANDBOX, &["--", "sh", "-c", change]).run();
        assert!(run.code != 0, "{change}: {run:?}");
    }
    assert_eq!(sandbox.read("sub/hooks/pre-commit"), "fine\n");
    let script = "cd sub && echo 1 > f && git add f && git -c core.hooksPath=/dev/null -c user.name=a -c user.email=a@x commit -qm two && \
                  mkdir -p ../.git/modules/new && cd ../.git/modules/new && echo x > HEAD && mkdir objects refs && echo x > config";
    let run = sandbox.program(SANDBOX, &["--", "sh", "-c", script]).run().assert_exit(0);
    assert!(run.stderr.contains(".git/modules/new/config"), "a new one is named: {run:?}");
}

/// A toplevel of somebody else, as `/srv/shared/.git`, would make all below it writable.
#[test]
fn a_toplevel_of_another_user_is_not_the_tree() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let sandbox = Sandbox::outside_temp();
    git(&sandbox, "git init -q .; mkdir deep").assert_exit(0);
    std::os::unix::fs::chown(sandbox.work().join(".git"), Some(65534), Some(65534)).unwrap();
    let run = sandbox
        .program(SANDBOX, &["--", "sh", "-c", "echo 1 > own; echo 1 > ../f"])
        .folder(sandbox.work().join("deep"))
        .run();
    assert!(run.code != 0 && sandbox.work().join("deep/own").exists(), "{run:?}");
    assert!(!sandbox.work().join("f").exists());
}

/// Neither folders deeper than the longest path nor thousands without any right keep later commands from running.
#[test]
fn odd_folders_refuse_no_later_command() {
    let script = "python3 -c '
import os
for number in range(3000): os.makedirs(f\"locked/{number}\"); os.chmod(f\"locked/{number}\", 0)
for number in range(60):
    os.mkdir(\"x\" * 200); os.chdir(\"x\" * 200)'";
    let sandbox = Sandbox::outside_temp();
    sandbox.program(SANDBOX, &["--", "sh", "-c", script]).run().assert_exit(0);
    sandbox.program(SANDBOX, &["--", "echo", "fine"]).run().assert_exit(0).stdout_is("fine\n");
    let _ = sandbox.program("sh", &["-c", "chmod -R 755 locked; rm -rf locked x*"]).run();
}

/// What a command puts in the place of a folder or a name leads the clean-up nowhere else.
#[test]
fn clean_up_after_a_command_changes_nothing_outside() {
    both("true", |sandbox, _| {
        let outside = sandbox.home().join("outside");
        std::fs::create_dir(&outside).unwrap();
        for name in ["precious", ".envrc"] {
            std::fs::write(outside.join(name), "precious").unwrap();
        }
        std::fs::create_dir(sandbox.work().join("sub")).unwrap();
        for name in [".zshrc", ".envrc"] {
            std::os::unix::fs::symlink("rc", sandbox.work().join("sub").join(name)).unwrap();
        }
        sandbox.program("git", &["init", "-q"]).run().assert_exit(0);
        let at = outside.display();
        let script = format!(
            "mv sub away; ln -s {at} sub; ln -s {at}/precious .git/commondir; mv .git/info .git/i; ln -s {at} .git/info; ln -s {at} .git/modules"
        );
        for flags in [&[][..], &["--only-landlock"]] {
            let words = [flags, &["--", "sh", "-c", &script]].concat();
            let _ = sandbox.program(SANDBOX, &words).run();
            assert_eq!(entries(&outside), [".envrc", "precious"].map(str::to_owned).into());
        }
    });
}

#[test]
fn programs_that_the_config_names_are_kept() {
    if !has_bwrap() {
        return;
    }
    let sandbox = Sandbox::outside_temp().file("tools/up", "fine");
    let config = "[core]\nrepositoryformatversion = 0\n[remote \"o\"]\nuploadpack = tools/up\n[lfs \"customtransfer.x\"]\npath = tools/up\n";
    sandbox.program("git", &["init", "-q"]).run().assert_exit(0);
    sandbox.write(".git/config", config);
    for script in ["echo evil > tools/up", "mv tools old; mkdir tools; echo evil > tools/up"] {
        let run = sandbox.program(SANDBOX, &["--", "sh", "-c", script]).run();
        assert!(run.code != 0 && sandbox.read("tools/up") == "fine", "{run:?}");
    }
}

#[test]
fn a_lock_of_another_program_on_the_tree_keeps_no_command_waiting() {
    let sandbox = Sandbox::outside_temp();
    let folder = std::fs::File::open(sandbox.work()).unwrap();
    folder.lock().unwrap();
    let run = sandbox.program(SANDBOX, &["--", "echo", "fine"]).run().assert_exit(0);
    run.stdout_is("fine\n");
}

#[test]
fn everyday_commands_work() {
    let script = "set -e; mkdir -p d; echo 'int main(void){return 0;}' > m.c; cc -o m m.c && ./m; printf 'all:\\n\\techo made > made\\n' > Makefile; \
                  make -s; cp m.c d/; tar cf a.tar d; tar xf a.tar; mv d e; ln e/m.c f; rm -r e f; \
                  python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, 2]))'; python3 -m venv --without-pip v; \
                  touch \"$(mktemp)\"; git status > /dev/null; git log > /dev/null 2>&1 || true";
    both(script, |_, run| assert!(run.code == 0 && run.stdout == "[1, 2]\n", "{run:?}"));
}

/// A record in the root of another user could lead a superuser anywhere.
#[test]
fn the_root_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let sandbox = Sandbox::outside_temp();
    std::os::unix::fs::chown(sandbox.root(), Some(65534), Some(65534)).unwrap();
    refused(&sandbox, &[], 1, &["belongs to the user with id 65534"]);
}
