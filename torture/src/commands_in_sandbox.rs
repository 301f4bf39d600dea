//! What works in the sandbox, what does not, what is left behind them, what they cost.
//!
//! Needs root (it is also run as a plain user, by `setpriv`), bwrap, Landlock, git, python3, make, strace. Each case is a script that
//! runs in a world of its own; one that must be denied is run without the sandbox first, where it has to succeed: a dead probe
//! cannot pass for a sandbox.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::figures::Figures;

mod everyday; // commands that people type all day
mod materials; // what a sandbox is built with fails

const SANDBOX: &str = env!("CARGO_BIN_EXE_nagent-sandbox");
const NAGENT: &str = env!("CARGO_BIN_EXE_nagent");
const NOBODY: u32 = 65534;

/// Who runs, and within what.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    is_root: bool,
    alone: bool,
}

const VARIANTS: [Variant; 4] = [
    Variant { name: "root, bwrap", is_root: true, alone: false },
    Variant { name: "root, Landlock alone", is_root: true, alone: true },
    Variant { name: "plain user, bwrap", is_root: false, alone: false },
    Variant { name: "plain user, Landlock alone", is_root: false, alone: true },
];

/// A home, a repository with a commit, a temp folder, all outside of the system's temp folders.
struct World {
    base: tempfile::TempDir,
    variant: Variant,
}

impl World {
    fn new(variant: Variant) -> Self {
        let folder = ["/srv", "/opt", "/"].into_iter().find(|folder| Path::new(folder).is_dir());
        let base =
            tempfile::Builder::new().prefix("nagent-sandbox-").tempdir_in(folder.unwrap()).unwrap();
        let world = Self { base, variant };
        fs::set_permissions(world.base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in
            ["home/.nagent", "home/.ssh", "home/.claude", "work/sub", "tmp", "bin", "outside"]
        {
            fs::create_dir_all(world.path(name)).unwrap();
        }
        fs::write(world.path("home/.ssh/id"), "secret").unwrap();
        fs::write(world.path("home/.claude/.credentials.json"), "secret").unwrap();
        let config = r#"{"pass_env": ["secret"]}"#;
        fs::write(world.path("home/.nagent/config.json"), config).unwrap();
        fs::write(world.path("outside/file"), "old").unwrap();
        fs::write(world.path("work/sub/Makefile"), "all:\n\techo made > made\n").unwrap();
        fs::copy(SANDBOX, world.path("bin/nagent-sandbox")).unwrap();
        // Under cargo the tools are small executables that become the `nagent` beside them.
        fs::copy(NAGENT, world.path("bin/nagent")).unwrap();
        let chowned = |path: &Path| {
            (!variant.is_root).then(|| chown(path, Some(NOBODY), Some(NOBODY)).unwrap())
        };
        each(world.base.path(), &mut |path| _ = chowned(path));
        let made = world.plain("git init -q -b main && git add . && git -c user.name=a -c user.email=a@x commit -qm one");
        assert!(made.status.success(), "{made:?}");
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn command(&self, program: &[&str]) -> Command {
        let mut words: Vec<String> = Vec::new();
        if !self.variant.is_root {
            words.extend(
                ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"].map(str::to_owned),
            );
        }
        words.extend(program.iter().map(|word| (*word).to_owned()));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(self.path("work")).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.path("home"));
        command
            .env("TMPDIR", self.path("tmp"))
            .env("B", self.base.path())
            .env("SECRET_TOKEN", "sk-canary-in-a-variable")
            .env("DATABASE_URL", "postgres://me:a-canary@db.example/app");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A script without the sandbox.
    fn plain(&self, script: &str) -> Output {
        self.command(&["bash", "-c", script]).output().unwrap()
    }

    fn sandboxed(&self, flags: &[&str], script: &str) -> Command {
        let sandbox = self.path("bin/nagent-sandbox").display().to_string();
        let mut words = vec![sandbox.as_str()];
        if self.variant.alone {
            words.push("--only-landlock");
        }
        words.extend(flags);
        words.extend(["--", "bash", "-c", script]);
        self.command(&words)
    }

    fn run(&self, flags: &[&str], script: &str) -> Output {
        self.sandboxed(flags, script).output().unwrap()
    }

    /// The entries of the working tree's top.
    fn top(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("work")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn each(path: &Path, what: &mut dyn FnMut(&Path)) {
    what(path);
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| each(&entry.unwrap().path(), what));
    }
}

/// A name, flags, a script.
type Case = (&'static str, &'static [&'static str], &'static str);

const NAMED_HOOKS: &str = "hooks, .git being named";

/// What must work.
const WORKS: &[Case] = &[
    (
        "files below the tree",
        &[],
        "mkdir -p sub/x && echo 1 > sub/x/f && mv sub/x/f sub/g && ln sub/g sub/h && rm -r sub/x sub/g sub/h",
    ),
    (
        "temp files",
        &[],
        "t=$(mktemp) && echo 1 > $t && [ $(cat $t) = 1 ] && rm $t && d=$(mktemp -d -p /tmp) && rmdir $d",
    ),
    (
        "git reads",
        &[],
        "[ -z \"$(git status --porcelain)\" ] && git log --oneline | grep -q one && git diff --exit-code",
    ),
    (
        "python",
        &[],
        "python3 -c 'import subprocess,tempfile; subprocess.run([\"true\"],check=True); tempfile.mkdtemp()'",
    ),
    ("make", &[], "make -C sub && cat sub/made && rm sub/made"),
    (
        "pipes, here documents, /dev",
        &[],
        "cat <(echo a) | grep -q a && echo x > /dev/null && head -c 4 /dev/urandom | wc -c | grep -q 4 && cat <<< b",
    ),
    (
        "git commits",
        &[],
        "echo n > sub/n && git add sub/n && git -c user.name=a -c user.email=a@x commit -qm two && git log --oneline | grep -q two",
    ),
    (
        "a folder that was named",
        &["--write", "../outside"],
        "echo new > ../outside/file && rm ../outside/file && echo old > ../outside/file",
    ),
    (
        "read-only has a scratch folder",
        &["--sandbox", "read-only"],
        "echo 1 > $TMPDIR/f && [ $(cat $TMPDIR/f) = 1 ] && cat sub/Makefile > /dev/null",
    ),
];

/// What must be denied, and succeeds without the sandbox.
const DENIED: &[Case] = &[
    ("a file outside", &[], "echo new > $B/outside/file"),
    ("a new file outside", &[], "touch $B/outside/new"),
    ("a link out", &[], "ln -s $B/outside sub/out && echo new > sub/out/file"),
    ("hooks", &[], "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit"),
    ("git's config", &[], "echo x >> .git/config"),
    (".git moved away", &[], "mv .git .git2"),
    (NAMED_HOOKS, &["--write", ".git"], "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit"),
    ("nagent's root", &[], "grep -q secret ~/.nagent/config.json"),
    ("a key", &[], "grep -q secret ~/.ssh/id"),
    ("an agent's login", &[], "grep -q secret ~/.claude/.credentials.json"),
    ("a password in an address in a variable", &[], "[ -n \"$DATABASE_URL\" ]"),
    ("a key in a variable", &[], "[ -n \"$SECRET_TOKEN\" ]"),
    ("the tree, read-only", &["--sandbox", "read-only"], "touch sub/new"),
    ("a set-user-id program", &[], "cp /bin/true sub/s && chmod 4755 sub/s"),
    (
        "a unix socket of another program",
        &[],
        "python3 -c 'import os, socket; socket.socket(socket.AF_UNIX).connect(os.environ[\"B\"] + \"/outside/program.sock\")'",
    ),
    (
        "the network",
        &["--no-network"],
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\",int(open(\"sub/port\").read())),2)'",
    ),
];

/// What Landlock alone does not stop in a writable folder; `--status` says so.
const NOT_ALONE: &[&str] = &[NAMED_HOOKS, "hooks", "git's config", ".git moved away"];

pub(crate) fn run(figures: &mut Figures) {
    // `SANDBOX=everyday` and `SANDBOX=materials` take these alone.
    match std::env::var("SANDBOX").as_deref() {
        Ok("everyday") => return everyday::run(figures),
        Ok("materials") => return materials::run(figures),
        _ => {}
    }
    for variant in VARIANTS {
        let works = WORKS.iter().filter(|case| works(figures, variant, case)).count();
        figures.exactly(&format!("{}: what must work", variant.name), works, WORKS.len());
        let is_promised = |case: &&Case| !(variant.alone && NOT_ALONE.contains(&case.0));
        let promised: Vec<&Case> = DENIED.iter().filter(is_promised).collect();
        let held = promised.iter().filter(|case| denied(figures, variant, case)).count();
        figures.exactly(&format!("{}: what must be denied", variant.name), held, promised.len());
        passes_through(figures, variant);
        leaves_nothing(figures, variant);
        any_name(figures, variant);
    }
    own_loopback(figures);
    killed(figures);
    everyday::run(figures);
    materials::run(figures);
    cost(figures);
}

fn works(figures: &mut Figures, variant: Variant, (name, flags, script): &Case) -> bool {
    let world = World::new(variant);
    // What Landlock cannot do is named by --status: all of .git, or nothing of it.
    let got = world.run(flags, script);
    let ok = got.status.success();
    if !ok {
        figures.miss(format!("{}: {name}: {}", variant.name, String::from_utf8_lossy(&got.stderr)));
    }
    ok
}

fn denied(figures: &mut Figures, variant: Variant, (name, flags, script): &Case) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let world = || {
        let world = World::new(variant);
        fs::write(world.path("work/sub/port"), &port).unwrap();
        let socket = world.path("outside/program.sock");
        let server = UnixListener::bind(&socket).unwrap();
        fs::set_permissions(socket, fs::Permissions::from_mode(0o666)).unwrap();
        (world, server)
    };
    let (outside, _server) = world();
    let control = outside.plain(script);
    let (world, _server) = world();
    let got = world.run(flags, script);
    if !control.status.success() {
        figures.miss(format!(
            "{}: {name}: a dead probe: {}",
            variant.name,
            String::from_utf8_lossy(&control.stderr)
        ));
    }
    let is_held = !got.status.success() && fs::read(world.path("outside/file")).unwrap() == b"old";
    if !is_held {
        figures.miss(format!("{}: {name}: it got through", variant.name));
    }
    control.status.success() && is_held
}

/// Exit codes, signals, output, what a command finds around it.
fn passes_through(figures: &mut Figures, variant: Variant) {
    let world = World::new(variant);
    let codes: Vec<Option<i32>> = ["exit 7", "kill -9 $$", "kill -TERM $$", "true"]
        .iter()
        .map(|script| world.run(&[], script).status.code())
        .collect();
    let codes = format!("{codes:?}");
    let wanted = "[Some(7), Some(137), Some(143), Some(0)]";
    figures.row(&format!("{}: exit codes", variant.name), &codes, wanted, codes == wanted);
    let got = world.run(&[], "printf 'a\\0b'; printf c >&2");
    let ok = got.stdout == b"a\0b" && got.stderr == b"c";
    figures.row(&format!("{}: output is untouched", variant.name), ok, true, ok);
    let got = world.run(
        &[],
        "grep -E '^(CapEff|CapPrm|CapInh|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status; ulimit -c",
    );
    let text = String::from_utf8_lossy(&got.stdout);
    let zeros = text.matches("0000000000000000").count();
    let ok = zeros == 4
        && text.contains("NoNewPrivs:\t1")
        && text.contains("Seccomp:\t2")
        && text.ends_with("\n0\n");
    figures.row(
        &format!("{}: no capabilities, privileges, core dumps", variant.name),
        ok,
        true,
        ok,
    );
    let mut command = world.sandboxed(&[], "echo started; sleep 30");
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    let mut first = [0; 8];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let code = child.wait().unwrap().code();
    let ok = code == Some(143) && started.elapsed() < Duration::from_secs(20);
    figures.row(
        &format!("{}: SIGTERM to nagent-sandbox", variant.name),
        format!("{code:?}"),
        "Some(143)",
        ok,
    );
}

fn leaves_nothing(figures: &mut Figures, variant: Variant) {
    let world = World::new(variant);
    let before = world.top();
    world.run(&[], "true");
    world.run(&["--sandbox", "read-only"], "mkdir -p $TMPDIR/a/b && chmod 0 $TMPDIR/a");
    let temp = fs::read_dir(world.path("tmp")).unwrap().count();
    let ok = world.top() == before && temp == 0 && !world.path("home/.nagent/outputs").exists();
    figures.row(&format!("{}: nothing is left", variant.name), ok, true, ok);
}

/// A tree whose name is no UTF-8: commands run in it, and its `.git` is kept.
fn any_name(figures: &mut Figures, variant: Variant) {
    let world = World::new(variant);
    let tree = world.base.path().join(OsStr::from_bytes(b"caf\xe9 \xff"));
    fs::rename(world.path("work"), &tree).unwrap();
    let mut script = "echo 1 > sub/new && [ $(cat sub/new) = 1 ]".to_owned();
    // Landlock alone keeps nothing in a writable folder read-only.
    script.push_str(if variant.alone { "" } else { " && ! touch .git/hooks/new" });
    let got = world.sandboxed(&[], &script).current_dir(&tree).output().unwrap();
    if !got.status.success() {
        figures.miss(format!("{}: {}", variant.name, String::from_utf8_lossy(&got.stderr)));
    }
    let ok = got.status.success() && tree.join("sub/new").exists();
    figures.row(&format!("{}: a tree whose name is no UTF-8", variant.name), ok, true, ok);
}

/// Without a network, a test suite still has its own loopback inside namespaces.
fn own_loopback(figures: &mut Figures) {
    let script = "python3 -c 'import socket; s=socket.create_server((\"127.0.0.1\",0)); c=socket.create_connection(s.getsockname()); s.accept()'";
    for variant in VARIANTS.into_iter().filter(|variant| !variant.alone) {
        let ok = World::new(variant).run(&["--no-network"], script).status.success();
        figures.row(&format!("{}: a loopback of one's own", variant.name), ok, true, ok);
    }
}

/// A kill leaves nothing of nagent's in the tree.
fn killed(figures: &mut Figures) {
    let world = World::new(VARIANTS[0]);
    let before = world.top();
    let mut clean = 0;
    for _ in 0..5 {
        let mut child = world.sandboxed(&[], "echo started; sleep 30").spawn().unwrap();
        let mut word = [0; 8];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut word).unwrap();
        let during = world.top();
        child.kill().unwrap();
        child.wait().unwrap();
        clean += usize::from(during == before && world.top() == before);
    }
    figures.exactly("killed: trees in which nothing was left", clean, 5);
}

fn cost(figures: &mut Figures) {
    for variant in &VARIANTS[..2] {
        let world = World::new(*variant);
        let mut times: Vec<Duration> = (0..20)
            .map(|_| {
                let start = Instant::now();
                assert!(world.run(&[], "true").status.success());
                start.elapsed()
            })
            .collect();
        times.sort();
        let p50 = times[times.len() / 2].as_millis();
        // The sandbox is built twice: once to see whether it works, once for the command.
        figures.row(&format!("{}: `true`, p50 in ms", variant.name), p50, "under 250", p50 < 250);
    }
}
