//! One run of one probe: starting it, with or without the sandbox, and judging it by its exit and by what became of its world.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::gaps::Mechanism;
use sandbox::{SandboxMode, SandboxRequest};

use super::names::Flavor;
use super::world::{Ground, World, secret};
use super::{Modes, Probe, THROUGH, With};

/// The longest that a run takes.
const TIME: Duration = Duration::from_secs(30);
/// How long after its end a process that was left behind is waited for.
const AFTERWARDS: Duration = Duration::from_millis(900);

/// Which sandbox is around it, and who runs it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Variant {
    /// `None`: no sandbox.
    sandbox: Option<Kind>,
    read_only: bool,
    nobody: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Bwrap,
    Landlock,
}

impl Variant {
    pub(super) const CONTROL: Self = Self { sandbox: None, read_only: false, nobody: false };
    pub(super) const CONTROL_NOBODY: Self = Self { nobody: true, ..Self::CONTROL };

    /// All with a sandbox.
    pub(super) fn within() -> impl Iterator<Item = Self> {
        let kinds = [false, true]
            .into_iter()
            .flat_map(|read_only| [Kind::Bwrap, Kind::Landlock].map(|kind| (read_only, kind)));
        kinds.flat_map(|(read_only, kind)| {
            [false, true].map(|nobody| Self { sandbox: Some(kind), read_only, nobody })
        })
    }

    /// Those in which a probe is tried.
    pub(super) fn of(modes: Modes) -> impl Iterator<Item = Self> {
        let within = Self::within().filter(move |variant| match modes {
            Modes::Both => true,
            Modes::Workspace => !variant.read_only,
            Modes::ReadOnly => variant.read_only,
        });
        [Self::CONTROL, Self::CONTROL_NOBODY].into_iter().chain(within)
    }

    pub(super) fn kind(self) -> &'static str {
        match self.sandbox {
            None => "nothing",
            Some(Kind::Bwrap) => "bwrap",
            Some(Kind::Landlock) => "Landlock alone",
        }
    }

    /// The user that it runs as.
    fn uid(self) -> u32 {
        if self.nobody { 65_534 } else { 0 }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = if self.read_only { "read-only" } else { "workspace" };
        let who = if self.nobody { "nobody" } else { "root" };
        if self.sandbox.is_none() {
            write!(f, "no sandbox, {who}")
        } else {
            write!(f, "{} {mode}, {who}", self.kind())
        }
    }
}

/// How a run went.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// How it got through; `None`: it did not.
    pub(super) through: Option<String>,
    /// Why it did not even run.
    pub(super) broken: Option<String>,
    /// What it said.
    pub(super) said: String,
}

/// What `--status` says of their gaps, in small letters.
pub(super) fn gaps(variant: Variant) -> String {
    let bwrap = (variant.sandbox == Some(Kind::Bwrap)).then(PathBuf::new);
    let mechanism = Mechanism { bwrap, landlock: 6, unix_sockets: true, ..Mechanism::default() };
    let mode = if variant.read_only { SandboxMode::ReadOnly } else { SandboxMode::Workspace };
    let request = SandboxRequest { mode, no_network: true, ..SandboxRequest::default() };
    mechanism.describe_gaps(&request).join("\n").to_lowercase()
}

fn sandbox(ground: &Ground, world: &World, variant: Variant) -> Command {
    let mut command = world.command(&ground.sandbox());
    let mode = if variant.read_only { "read-only" } else { "workspace" };
    command.args(["--sandbox", mode, "--no-network", "--root"]).arg(world.at("home/.nagent"));
    if variant.sandbox == Some(Kind::Landlock) {
        command.arg("--only-landlock");
    }
    command
}

pub(super) fn run(ground: &Ground, probe: &Probe, variant: Variant) -> Outcome {
    let mut world = World::make(ground, probe.flavor, variant.uid());
    world.begin();
    let before = world.picture(variant.read_only);
    let mut command = if variant.sandbox.is_some() {
        let mut command = sandbox(ground, &world, variant);
        command.arg("--").arg(ground.torture());
        command
    } else {
        world.command(&ground.torture())
    };
    command.args(["--probe", probe.name]).args(world.words(variant.sandbox.is_some()));
    let mut log = tempfile::tempfile().unwrap();
    command.stdout(log.try_clone().unwrap()).stderr(log.try_clone().unwrap()).stdin(Stdio::null());
    let kept = equip(&mut command, probe.with, &world);
    let child = command.spawn();
    drop(command); // with it go the descriptors meant for the child
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return Outcome { broken: Some(error.to_string()), ..Outcome::default() },
    };
    let (ended, knocked) = wait(&mut child, probe.with, &world, &mut log);
    if matches!(probe.with, With::Linger | With::Kill) {
        std::thread::sleep(AFTERWARDS);
    }
    drop(kept);
    let said = read(&log);
    let mut effects = world.effects();
    if knocked {
        effects.push("somebody could connect to it".to_owned());
    }
    let after = world.picture(variant.read_only);
    let is_control = variant.sandbox.is_none();
    effects.extend(changes(&before, &after));
    if said.contains(secret()) {
        effects.push("a secret was printed".to_owned());
    }
    let believes = ended == Some(i32::from(THROUGH)) && !probe.is_effect;
    let ran = said.lines().any(|line| line == "ran");
    let mut outcome =
        Outcome { said: said.trim().chars().take(600).collect(), ..Outcome::default() };
    if !ran && !is_refusal(probe.with, &said) {
        let why = if said.trim().is_empty() {
            format!("it ended with {ended:?} and said nothing")
        } else {
            outcome.said.clone()
        };
        outcome.broken = Some(why);
    } else if ended.is_none() && probe.with != With::Kill {
        // Its end was waited for in vain, or a signal ended it: by the sandbox or by itself.
        outcome.broken = (is_control || said.contains("TIMEOUT"))
            .then(|| format!("it did not end by itself; it said: {said}"));
    }
    if believes && ran || !effects.is_empty() {
        let mut how = effects;
        if believes && ran {
            how.insert(0, "it says so".to_owned());
        }
        outcome.through =
            Some(format!("{} [{}]", how.join("; "), outcome.said.replace('\n', " | ")));
    }
    outcome
}

/// A descriptor that would be inherited may also be refused.
fn is_refusal(with: With, said: &str) -> bool {
    matches!(with, With::OpenFile | With::OpenFolder | With::OpenSecret | With::OpenSocket)
        && said.contains("descriptor 7")
}

/// All that stands in the log. By places, not by the file's position, which the child writes at.
fn read(log: &File) -> String {
    let (mut all, mut bytes) = (Vec::new(), [0_u8; 8192]);
    while let Ok(count @ 1..) = log.read_at(&mut bytes, all.len() as u64) {
        all.extend_from_slice(&bytes[..count]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Gives the child what the probe asks for. What is handed back is to live until it has ended.
fn equip(command: &mut Command, with: With, world: &World) -> Vec<OwnedFd> {
    let open: Option<OwnedFd> = match with {
        With::OpenFile => {
            Some(File::options().append(true).open(world.at("outside/victim.txt")).unwrap().into())
        }
        With::OpenFolder => Some(File::open(world.at("outside")).unwrap().into()),
        With::OpenSecret => Some(File::open(world.at("home/.nagent/config.json")).unwrap().into()),
        With::OpenSocket => {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            world.watch(ours);
            Some(theirs.into())
        }
        _ => None,
    };
    if let Some(open) = open {
        let fd = open.as_raw_fd();
        // SAFETY: only dup2, which is safe between fork and exec.
        unsafe {
            command.pre_exec(move || {
                if libc::dup2(fd, 7) < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
            });
        }
        return vec![open];
    }
    if with == With::Terminal {
        command.stdin(world.terminal());
        // SAFETY: only two system calls.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                if libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    Err(std::io::Error::last_os_error())
                } else {
                    Ok(())
                }
            });
        }
    }
    Vec::new()
}

/// Waits for the child's end, and does what the probe asks for meanwhile. Its exit code, and whether a connection was made.
fn wait(child: &mut Child, with: With, world: &World, log: &mut File) -> (Option<i32>, bool) {
    let start = Instant::now();
    let mut knocked = false;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return (status.code(), knocked);
        }
        match with {
            With::Knock if !knocked => {
                let said = read(log);
                let chosen =
                    said.lines().find_map(|line| line.strip_prefix("knock ")?.parse().ok());
                let address = ([127, 0, 0, 1], chosen.unwrap_or(world.knock)).into();
                if let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(50))
                {
                    let _ = (&stream)
                        .write_all(b"knock")
                        .and_then(|()| stream.shutdown(Shutdown::Both));
                    knocked = true;
                }
            }
            With::Kill if read(log).lines().any(|line| line == "ready") => {
                let _ = child.kill();
            }
            _ => {}
        }
        if start.elapsed() > TIME {
            let _ = writeln!(log, "TIMEOUT");
            let _ = child.kill();
            let _ = child.wait();
            return (None, knocked);
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// What nagent itself makes before the first command: caches, which are empty, and what it knows of `bwrap`.
const MADE: [&str; 11] = [
    "home/.cache",
    "home/.m2",
    "home/.m2/repository",
    "home/.cargo",
    "home/.cargo/registry",
    "home/.cargo/git",
    "home/.npm",
    "home/.npm/_cacache",
    "home/.npm/_logs",
    "home/.npm/_npx",
    "home/.nagent/sandbox.txt",
];

/// What differs between two pictures of a world.
fn changes(before: &super::world::Picture, after: &super::world::Picture) -> Vec<String> {
    let mut changes = Vec::new();
    for (path, was) in before {
        match after.get(path) {
            None => changes.push(format!("{} is gone", path.display())),
            Some(is) if is != was => {
                changes.push(format!("{} has changed ({was} -> {is})", path.display()));
            }
            Some(_) => {}
        }
    }
    changes.extend(
        after
            .keys()
            .filter(|path| !before.contains_key(*path) && !MADE.iter().any(|made| path.ends_with(made)))
            .map(|path| format!("{} is new", path.display())),
    );
    changes.truncate(4);
    changes
}
