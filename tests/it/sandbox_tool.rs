//! `nagent-sandbox`: what it refuses before anything runs, and what becomes of protected names that a command creates. What
//! the sandbox holds against attacks is tested by `make torture`.

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
fn wrong_usage() {
    let sandbox = Sandbox::outside_temp();
    refused(&sandbox, &["--sandbox", "loose"], 2, &["off, workspace or read-only"]);
    refused(&sandbox, &["--sandbox", "off"], 2, &["restricts nothing"]);
    refused(&sandbox, &["--within", "{}"], 2, &["nagent's own use"]);
    let run = sandbox.program(SANDBOX, &["--json", "--", "touch", "ran"]).run();
    assert!(run.json()["error"].as_str().unwrap().contains("--status"));
    assert!(!sandbox.work().join("ran").exists());
    let run = sandbox.program(SANDBOX, &["--no-network"]).run();
    run.assert_exit(2).no_stdout().stderr_has(&["no command"]);
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
    refused(&sandbox, &["--write", "./sub/../build"], 1, &["leads out of the working tree"]);
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
    run.assert_exit(1).no_stdout().stderr_has(&["contains"]);
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

/// The protected names that `CREATE` made are in `outputs/`, and each command in `text` brings one of them back.
fn check_moved(sandbox: &Sandbox, text: &str) {
    assert_eq!(sandbox.read("sub/plain"), "3\n");
    assert!(
        !sandbox.work().join(".envrc").exists() && !sandbox.work().join("sub/.vscode").exists()
    );
    let back: Vec<&str> = text
        .split(['\n', ';', ']'])
        .filter_map(|part| part.split_once("mv "))
        .map(|(_, rest)| rest)
        .collect();
    assert_eq!(back.len(), 2, "{text}");
    for rest in back {
        let run = sandbox.program("sh", &["-c", &format!("mv {rest}")]).run();
        run.assert_exit(0);
    }
    assert_eq!(sandbox.read(".envrc"), "2\n");
    assert_eq!(sandbox.read("sub/.vscode/tasks.json"), "1\n");
}

#[test]
fn protected_names_that_a_command_creates_are_moved_and_the_way_back_is_printed() {
    for flags in [&[][..], &["--only-landlock"]] {
        let sandbox = Sandbox::outside_temp();
        let words = [flags, &["--", "sh", "-c", CREATE]].concat();
        let run = sandbox.program(SANDBOX, &words).run().assert_exit(0);
        check_moved(&sandbox, &run.stderr);
        // The user has put them back: now they stay, and cannot be changed, or are named when they are.
        let change = ["--", "sh", "-c", "echo evil >> .envrc"];
        let run = sandbox.program(SANDBOX, &[flags, &change].concat()).run();
        let is_kept = sandbox.read(".envrc") == "2\n";
        assert!(is_kept != run.stderr.contains("changed files that tools run"), "{run:?}");
    }
}

#[test]
fn the_model_reads_what_became_of_a_protected_name_that_its_command_created() {
    let sandbox = Sandbox::outside_temp().reply(shell(CREATE)).reply(answer("done"));
    sandbox.run(&["--sandbox", "workspace", "task"]).assert_exit(0).stdout_is("done\n");
    check_moved(&sandbox, &sandbox.block("nagent-shell-result").body);
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
fn a_repository_that_a_command_creates_stays_unless_it_runs_something() {
    let create = "git init -q sub/new; git init -q --bare sub/bare.git; git clone -q sub/new sub/clone 2>/dev/null; \
                  git init -q evil; printf '[core]\\n\\tfsmonitor = ./x\\n' >> evil/.git/config; \
                  git init -q hooked; mkdir -p hooked/.git/hooks; echo x > hooked/.git/hooks/pre-commit; \
                  git init -q far; rm far/.git/config; ln -s /dev/zero far/.git/config";
    both(create, |sandbox, run| {
        for kept in ["sub/new/.git/HEAD", "sub/bare.git/HEAD", "sub/clone/.git/HEAD"] {
            assert!(sandbox.work().join(kept).exists(), "{kept} {run:?}");
        }
        for moved in ["evil/.git", "hooked/.git", "far/.git"] {
            assert!(!sandbox.work().join(moved).exists(), "{moved} {run:?}");
        }
        for said in ["evil/.git", "hooked/.git", "To restore"] {
            assert!(run.stderr.contains(said), "{run:?}");
        }
    });
}

#[test]
fn a_flood_of_files_is_named_as_not_searched() {
    // Names of a few files: ext4 needs six times as long to make and remove as many files.
    let script = "import os
os.makedirs('sub/b/.vscode')
open('sub/b/.vscode/tasks.json', 'w').close()
os.mkdir('aaa')
for number in range(10): open(f'aaa/{number}', 'w').close()
for number in range(10, 100100): os.link(f'aaa/{number % 10}', f'aaa/{number}')";
    let sandbox = Sandbox::outside_temp();
    let run = sandbox.program(SANDBOX, &["python3", "-c", script]).run();
    assert_eq!(std::fs::read_dir(sandbox.work().join("aaa")).unwrap().count(), 100_100, "{run:?}");
    let is_said = run.stderr.contains("not searched to the end") || run.stderr.contains(".vscode");
    assert!(is_said, "{run:?}");
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
    let mut names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    names.extend([relative.display().to_string(), format!("@{abstract_name}")]);
    let connect = format!(
        "import socket\nfor name in {names:?}:\n    try: socket.socket(socket.AF_UNIX).connect(name.replace('@', chr(0))); print('reached', name)\n    except OSError: pass"
    );
    // Without the sandbox all are reached: the names are right.
    let run = sandbox.program("python3", &["-c", &connect]).run();
    assert_eq!(run.stdout.matches("reached").count(), 5, "{run:?}");
    for flags in [&[][..], &["--no-network"], &["--sandbox", "read-only"], &["--only-landlock"]] {
        let words = [flags, &["--", "python3", "-c", &connect]].concat();
        sandbox.program(SANDBOX, &words).run().no_stdout();
    }
    if has_bwrap() {
        let run = sandbox.program(SANDBOX, &["--", "python3", "-c", OWN_SOCKET]).run();
        assert_eq!(run.stdout, "hello\n[1]\n", "{run:?}");
    }
    let run =
        sandbox.program(SANDBOX, &["--only-landlock", "--", "python3", "-c", OWN_SOCKET]).run();
    assert!(run.code != 0 && run.stdout.is_empty(), "{run:?}");
    let status = sandbox.program(SANDBOX, &["--only-landlock", "--status"]).run();
    assert!(status.stdout.contains("cannot use Unix sockets"), "{status:?}");
    server.signal(Signal::KILL);
    server.wait();
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
    for mode in [&[][..], &["--sandbox", "read-only"], &["--sandbox", "off"], &["--only-landlock"]]
    {
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
    let run = sandbox.program(SANDBOX, &["--", "sh", "-c", script]).run().assert_exit(0);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("2\n", ""), "{run:?}");
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
    for new in ["commondir", "config.worktree", "worktrees/x/commondir"] {
        let make = format!("mkdir -p $(dirname .git/{new}); echo evil > .git/{new}");
        let run = sandbox.program(SANDBOX, &["--", "sh", "-c", &make]).run();
        assert!(run.stderr.contains("To restore"), "{new}: {run:?}");
        assert!(!sandbox.work().join(".git").join(new).exists(), "{new}");
    }
}

/// A folder without the right to list it hides nothing: its own repository cannot be changed, or the result names it.
#[test]
fn a_folder_that_cannot_be_listed_stays_as_it_is() {
    for flags in [&[][..], &["--only-landlock"]] {
        let sandbox = Sandbox::outside_temp().file("sub/.envrc", "fine");
        let run = |script: &str| {
            let words = [flags, &["--", "sh", "-c", script]].concat();
            // A superuser lists every folder.
            let less = "--bounding-set=-dac_override,-dac_read_search";
            let before = [less, "--inh-caps=-dac_override,-dac_read_search", SANDBOX];
            let is_root = rustix::process::geteuid().is_root();
            let program = if is_root { "setpriv" } else { SANDBOX };
            let words = [if is_root { &before[..] } else { &[] }, &words].concat();
            sandbox.program(program, &words).run()
        };
        run("chmod 111 sub").assert_exit(0);
        let change = run("echo evil > sub/.envrc");
        let text = std::fs::read_to_string(sandbox.work().join("sub/.envrc"));
        let is_named =
            change.stderr.contains("not searched to the end") && change.stderr.contains("/sub");
        assert!(is_named || text.is_ok_and(|text| text == "fine"), "{change:?}");
        assert!(is_named || flags.is_empty(), "{change:?}");
        run("chmod 755 sub");
    }
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
            "mv sub away; ln -s {at} sub; ln -s {at}/precious .git/commondir; rm -f .git/info; ln -s {at} .git/modules"
        );
        for flags in [&[][..], &["--only-landlock"]] {
            let words = [flags, &["--", "sh", "-c", &script]].concat();
            let _ = sandbox.program(SANDBOX, &words).run();
            assert_eq!(entries(&outside), [".envrc", "precious"].map(str::to_owned).into());
        }
    });
}

#[test]
fn settings_of_every_kind_that_runs_by_itself_are_kept() {
    if !has_bwrap() {
        return;
    }
    let names = [
        ".hg/hgrc",
        ".jj/config.toml",
        ".helix/languages.toml",
        "mise.toml",
        ".config/mise/config.toml",
        ".yarn/releases/yarn.cjs",
        "lefthook.yml",
        ".aider.conf.yml",
        ".mvn/extensions.xml",
        ".iex.exs",
    ];
    let sandbox =
        names.iter().fold(Sandbox::outside_temp(), |sandbox, name| sandbox.file(name, "fine"));
    let sandbox = sandbox.file("tools/up", "fine");
    let config = "[core]\nrepositoryformatversion = 0\n[remote \"o\"]\nuploadpack = tools/up\n[lfs \"customtransfer.x\"]\npath = tools/up\n";
    sandbox.program("git", &["init", "-q"]).run().assert_exit(0);
    sandbox.write(".git/config", config);
    for name in names.iter().chain([&"tools/up"]) {
        let script = format!("echo evil > {name}; mkdir -p new; cp -r --parents {name} new");
        let run = sandbox.program(SANDBOX, &["--", "sh", "-c", &script]).run();
        assert_eq!(sandbox.read(name), "fine", "{run:?}");
        let is_moved = !sandbox.work().join("new").join(name).exists();
        assert_eq!(is_moved, *name != "tools/up", "{name}: {run:?}");
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
fn links_with_protected_names_and_long_paths_refuse_no_command() {
    let sandbox = Sandbox::outside_temp();
    let name = "x".repeat(200);
    let deep = [name.as_str(); 12].join("/");
    for number in 0..120 {
        let folder = sandbox.work().join(&deep).join(number.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(&name, folder.join(".envrc")).unwrap();
    }
    let run = sandbox.program(SANDBOX, &["--", "echo", "fine"]).run().assert_exit(0);
    run.stdout_is("fine\n");
}

#[test]
fn a_hard_link_in_the_tree_is_named_by_status_and_to_the_model() {
    let sandbox = Sandbox::outside_temp().file("a", "x");
    let status = || sandbox.program(SANDBOX, &["--status"]).run().assert_exit(0).stdout;
    assert!(!status().contains("has another name"));
    std::fs::hard_link(sandbox.work().join("a"), sandbox.home().join("b")).unwrap();
    assert!(status().contains("work/a has another name (a hard link)"));
    let sandbox = sandbox.reply(answer("done"));
    sandbox.run(&["--sandbox", "workspace", "task"]).assert_exit(0);
    let context = sandbox.block("initial_context").body;
    assert!(context.contains("work/a has another name (a hard link)"), "{context}");
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
    let run = sandbox.program(SANDBOX, &["--status"]).run();
    run.assert_exit(1).stderr_has(&["belongs to the user with id 65534"]);
}
