//! Disks that are full or read-only, and limits on the size of files.
//!
//! Needs root, `unshare`, tmpfs, `setpriv` and strace, whose injected errors are a file system without locks.

use std::path::Path;
use std::process::Command;

use crate::answers::Answer;
use crate::figures::Figures;
use crate::ground::State;
use crate::inside::{self, Told, system};
use crate::process_under_test::Run;
use crate::sandbox::{NAGENT, Sandbox, answer, shell};

const PATCH: &str = env!("CARGO_BIN_EXE_nagent-file-patch");
const SPLIT: &str = env!("CARGO_BIN_EXE_nagent-file-split");
const EDIT: &str = env!("CARGO_BIN_EXE_nagent-file-edit");

pub(crate) fn run(figures: &mut Figures) {
    inside::run("disks", figures, work);
}

type Case = (&'static str, fn(&Sandbox) -> Result<(), String>);

const CASES: &[Case] = &[
    ("a full root refuses before the model is asked", full_at_once),
    ("a root that fills up within a run", fills_up),
    ("a read-only root refuses before the model is asked", read_only),
    ("a root of somebody else refuses before the model is asked", somebody_elses),
    ("somebody else's conversations refuse the superuser", superuser),
    ("a full disk at a replacement", |sandbox| full_work(sandbox, "apply")),
    ("a full disk at a split", |sandbox| full_work(sandbox, "split")),
    ("a full disk at a patch", |sandbox| full_work(sandbox, "patch")),
    ("a full disk at a save", full_save),
    ("a limit of file size at a replacement", |sandbox| limited(sandbox, "apply")),
    ("a limit of file size at a split", |sandbox| limited(sandbox, "split")),
    ("a limit of file size at a patch", |sandbox| limited(sandbox, "patch")),
    ("a limit of file size at an append", limited_append),
    ("a file system without locks", |sandbox| no_locks(sandbox, "ENOLCK", "No locks available")),
    ("a file system that refuses locks", |sandbox| no_locks(sandbox, "EOPNOTSUPP", "ot supported")),
];

fn work(told: &mut Told) {
    let mut wrong = 0;
    for (name, case) in CASES {
        let sandbox = Sandbox::in_folder(Path::new("/dev/shm"));
        sandbox.llm.allow_rewrites();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&sandbox)));
        let result = result.unwrap_or_else(|_| Err("a panic".to_owned()));
        for folder in [sandbox.root(), sandbox.work()] {
            while system(&["umount", folder.to_str().unwrap()]).is_ok() {}
        }
        if let Err(why) = result {
            wrong += 1;
            told.miss(&format!("{name}: {why}"));
        }
    }
    told.exactly("full, read-only and limited disks", CASES.len(), CASES.len());
    told.exactly("lost, half or not refused in time", wrong, 0);
}

fn expect(what: &str, is_so: bool) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what.to_owned()) }
}

/// Mounts a small disk over a folder, with what the folder held.
fn small(folder: &Path, size: &str) -> Result<(), String> {
    let held = State::of(folder);
    system(&[
        "mount",
        "-t",
        "tmpfs",
        "-o",
        &format!("size={size},mode=700"),
        "none",
        folder.to_str().unwrap(),
    ])?;
    held.put_back(folder);
    Ok(())
}

/// Leaves so many bytes free, about.
fn fill(folder: &Path, free: u64) {
    let stat = rustix::fs::statvfs(folder).unwrap();
    let bytes = (stat.f_bavail * stat.f_frsize).saturating_sub(free);
    std::fs::write(folder.join("filler"), vec![b'x'; usize::try_from(bytes).unwrap()]).unwrap();
}

/// Refused with one of these words, and the file named.
fn refused(run: &Run, words: &[&str]) -> Result<(), String> {
    expect(&format!("exit {}: {}", run.code, run.stderr), run.code == 1)?;
    for word in words {
        expect(&format!("no {word:?} in: {}", run.stderr), run.stderr.contains(word))?;
    }
    Ok(())
}

fn full_at_once(sandbox: &Sandbox) -> Result<(), String> {
    small(&sandbox.root(), "64k")?;
    fill(&sandbox.root(), 0);
    let run = sandbox.run(&["--conversation", "c", "task"]);
    refused(&run, &["/home/.nagent", "No space left"])?;
    expect("the model was asked", sandbox.llm.all_requests().is_empty())
}

fn fills_up(sandbox: &Sandbox) -> Result<(), String> {
    small(&sandbox.root(), "64k")?;
    // Short enough to stand in the conversation: it is what fills the disk.
    sandbox.llm.choose(|_| shell("echo ran >> log; head -c 12000 /dev/zero | tr '\\0' x").into());
    let run = sandbox.run(&["--conversation", "c", "--max-turns", "20", "task"]);
    refused(&run, &["conversations/c", "No space left", "nothing of it was kept"])?;
    let ran = sandbox.read("log").lines().count();
    expect(&format!("the command ran {ran} times"), (1..=6).contains(&ran))?;
    let text = std::fs::read_to_string(sandbox.root().join("conversations/c")).unwrap();
    let parsed = conversation::format::file::parse(&text);
    expect("the conversation does not load", parsed.trouble.is_none())?;
    system(&["mount", "-o", "remount,size=10m", sandbox.root().to_str().unwrap()])?;
    sandbox.llm.choose(|_| answer("done").into());
    let run = sandbox.run(&["--conversation", "c", "again"]);
    expect(&format!("once there is room: {}", run.stderr), run.code == 0)?;
    let now = sandbox.read("log").lines().count();
    expect(&format!("the command ran {now} times, {ran} before"), now == ran)
}

fn read_only(sandbox: &Sandbox) -> Result<(), String> {
    sandbox.llm.push(answer("one"));
    sandbox.run(&["--conversation", "c", "task"]).assert_exit(0);
    let root = sandbox.root();
    let root = root.to_str().unwrap();
    system(&["mount", "--bind", root, root])?;
    system(&["mount", "-o", "remount,ro,bind", root])?;
    let asked = sandbox.llm.all_requests().len();
    for name in ["c", "new"] {
        let run = sandbox.run(&["--conversation", name, "task"]);
        refused(&run, &["/home/.nagent", "Read-only"])?;
    }
    expect("the model was asked", sandbox.llm.all_requests().len() == asked)
}

fn somebody_elses(sandbox: &Sandbox) -> Result<(), String> {
    sandbox.run(&["--version"]).assert_exit(0);
    for path in [sandbox.base().to_owned(), sandbox.home(), sandbox.work()] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    std::fs::set_permissions(sandbox.root(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let args =
        ["--reuid=65534", "--regid=65534", "--clear-groups", NAGENT, "--conversation", "c", "task"];
    let run = sandbox.program("setpriv", &args).run();
    refused(&run, &["/home/.nagent", "belongs to the user with id 0"])?;
    expect("the model was asked", sandbox.llm.all_requests().is_empty())
}

/// What it wrote there would be out of its owner's reach.
fn superuser(sandbox: &Sandbox) -> Result<(), String> {
    sandbox.llm.push(answer("one"));
    sandbox.run(&["-q", "--conversation", "c", "hi"]).assert_exit(0);
    let asked = sandbox.llm.all_requests().len();
    for owned in [sandbox.root(), sandbox.root().join("conversations/c")] {
        let path = owned.to_str().unwrap();
        system(&["chown", "65534", path])?;
        let run = sandbox.run(&["-q", "--conversation", "c", "more"]);
        refused(&run, &["belongs to the user with id 65534"])?;
        system(&["chown", "0", path])?;
    }
    expect("the model was asked", sandbox.llm.all_requests().len() == asked)
}

fn source(sandbox: &Sandbox) -> String {
    let text: String = (1..=2000).map(|n| format!("line {n}\n")).collect();
    sandbox.write("big.txt", &text);
    text
}

/// The words of a tool that writes in the work folder, after what it needs is there.
fn tool(sandbox: &Sandbox, what: &str) -> (String, Vec<String>, String) {
    let path = |name: &str| sandbox.work().join(name).to_str().unwrap().to_owned();
    let split = ["--file", &path("big.txt"), "--output", &path("split"), "--target-bytes", "4000"];
    let split = split.map(str::to_owned).to_vec();
    let long = "x".repeat(9000);
    match what {
        "apply" => {
            let (program, words) = crate::put::words(&sandbox.work().join("big.txt"));
            (program, words, source(sandbox).replace("line 7\n", &format!("{long}\n")))
        }
        "split" => (SPLIT.to_owned(), split, String::new()),
        _ => {
            sandbox.program(SPLIT, &split).run().assert_exit(0);
            sandbox.write("split/big-0002.txt", format!("{long}\n"));
            (PATCH.to_owned(), vec!["--index".to_owned(), path("split/index.json")], String::new())
        }
    }
}

fn unchanged(sandbox: &Sandbox, before: &State) -> Result<(), String> {
    let now = State::of(&sandbox.work());
    let changed: Vec<_> =
        before.0.iter().filter(|(path, thing)| now.0.get(*path) != Some(thing)).collect();
    expect(
        &format!("changed: {:?}", changed.iter().map(|(path, _)| path).collect::<Vec<_>>()),
        changed.is_empty(),
    )?;
    let new: Vec<_> = now.0.keys().filter(|path| !before.0.contains_key(*path)).collect();
    expect(&format!("left behind: {new:?}"), new.is_empty())
}

fn full_work(sandbox: &Sandbox, what: &str) -> Result<(), String> {
    source(sandbox);
    small(&sandbox.work(), "256k")?;
    let (program, args, stdin) = tool(sandbox, what);
    fill(&sandbox.work(), 8000);
    let before = State::of(&sandbox.work());
    let run = sandbox.program(&program, &args).stdin(stdin.clone()).run();
    refused(&run, &["/nagent-test-", "No space left"])?;
    unchanged(sandbox, &before)?;
    system(&["mount", "-o", "remount,size=10m", sandbox.work().to_str().unwrap()])?;
    let run = sandbox.program(&program, &args).stdin(stdin).run();
    expect(&format!("once there is room: {}", run.stderr), run.code == 0)
}

fn full_save(sandbox: &Sandbox) -> Result<(), String> {
    small(&sandbox.root(), "128k")?;
    sandbox.llm.push(answer(&"long answer ".repeat(2000)));
    sandbox.run(&["--conversation", "c", "task"]).assert_exit(0);
    fill(&sandbox.root(), 9000);
    let conversation = std::fs::read(sandbox.root().join("conversations/c")).unwrap();
    for args in [["--save-conversation", "s"].as_slice(), &["--clear"]] {
        let run = sandbox.run(&[&["--conversation", "c"], args].concat());
        refused(&run, &["/conversations/", "No space left"])?;
        let now = std::fs::read(sandbox.root().join("conversations/c")).unwrap();
        expect("the conversation was changed", now == conversation)?;
        let names = State::of(&sandbox.root()).names("conversations");
        expect(
            &format!("left behind: {names:?}"),
            !names
                .iter()
                .any(|name| name.starts_with(".nagent-") || name.starts_with("c-") || name == "s"),
        )?;
    }
    Ok(())
}

fn with_limit(sandbox: &Sandbox, blocks: u32, program: &str, args: &[String], stdin: &str) -> Run {
    let line = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let words = [&["-c".to_owned(), line, program.to_owned()], args].concat();
    sandbox.program("bash", &words).stdin(stdin).run()
}

fn limited(sandbox: &Sandbox, what: &str) -> Result<(), String> {
    source(sandbox);
    let (program, args, stdin) = tool(sandbox, what);
    let before = State::of(&sandbox.work());
    // Segments are smaller than the source.
    let blocks = if what == "split" { 1 } else { 4 };
    let run = with_limit(sandbox, blocks, &program, &args, &stdin);
    refused(&run, &["large"])?;
    unchanged(sandbox, &before)
}

fn limited_append(sandbox: &Sandbox) -> Result<(), String> {
    sandbox.llm.push(shell(&format!("touch ran; : {}", "x".repeat(40_000))));
    let args = ["--conversation", "c", "task"].map(str::to_owned);
    let run = with_limit(sandbox, 20, NAGENT, &args, "");
    refused(&run, &["conversations/c", "nothing of it was kept"])?;
    expect("an action ran after an append that failed", !sandbox.work().join("ran").exists())?;
    sandbox.llm.push(answer("done"));
    let run = sandbox.run(&["--conversation", "c", "again"]);
    expect(&format!("afterwards: {}", run.stderr), run.code == 0)
}

/// Refused before anything is written or asked, in an old conversation, a new one, and that of a file.
fn no_locks(sandbox: &Sandbox, error: &str, words: &str) -> Result<(), String> {
    sandbox.llm.choose(|_| answer("one").into());
    sandbox.write("a.txt", "a\n");
    sandbox.run(&["--conversation", "c", "task"]).assert_exit(0);
    sandbox.program(EDIT, &["--file", "a.txt", "task"]).run().assert_exit(0);
    sandbox.write("b.txt", "b\n");
    let (asked, before) = (sandbox.llm.all_requests().len(), State::of(&sandbox.root()));
    let inject = format!("inject=flock:error={error}");
    let commands: [&[&str]; 5] = [
        &[NAGENT, "--conversation", "c", "again"],
        &[NAGENT, "--conversation", "new", "task"],
        &[NAGENT, "--conversation", "c", "--clear"],
        &[EDIT, "--file", "a.txt", "again"],
        &[EDIT, "--file", "b.txt", "task"],
    ];
    for command in commands {
        let strace = ["-f", "-qq", "-o", "/dev/null", "-e", "trace=flock", "-e", &inject];
        let run = sandbox.program("strace", &[&strace, command].concat()).run();
        refused(&run, &["cannot lock", "/conversations/.locks/", words, "--root"])
            .map_err(|why| format!("{command:?}: {why}"))?;
        let asked_now = sandbox.llm.all_requests().len();
        expect(&format!("{command:?}: the model was asked"), asked_now == asked)?;
        let mut now = State::of(&sandbox.root());
        // A lock's file stays where it was made.
        now.0.retain(|path, _| {
            before.0.contains_key(path) || !path.starts_with("conversations/.locks")
        });
        let is_same = now == before;
        expect(&format!("{command:?}: something was changed: {:?}", now.0.keys()), is_same)?;
    }
    for command in commands {
        let run = sandbox.program(command[0], &command[1..]).run();
        expect(&format!("with locks, {command:?}: {}", run.stderr), run.code == 0)?;
    }
    Ok(())
}
