//! Builds the sandbox around commands: namespaces through `bwrap` where the system has it, with Landlock and seccomp;
//! otherwise only these two.
//!
//! It is built before the first command, which does not run if that fails. The request comes from [`crate`]; nothing here
//! reads a policy from the working tree.

mod landlock;
mod paths;
mod sockets;
mod tidy;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::fs::{MemfdFlags, memfd_create};
use seccompiler::sock_filter;
use tempfile::TempDir;

use self::paths::PolicyPaths;
pub use self::paths::{SandboxFolders, default_mode, hidden_paths};
use crate::automatic_files::{ChangedFiles, find_changed};
use crate::executed::{EXECUTED, executed_paths, list_own_folders};
use crate::filter::{Sockets, compile_filter};
use crate::gaps::Mechanism;
use crate::policy::SandboxPolicy;
use crate::{SandboxMode, SandboxRequest, advice, bwrap};
use sys::boundary::WritePolicy;
use sys::interrupt::Interrupts;
use sys::process;
use sys::process::job::{Job, JobOutcome, Output};
use sys::process::restriction::Restriction;

/// The possible paths of `bwrap`. `PATH` is not searched: it may lead into the working tree.
const BWRAP: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// The name of the file in nagent's root, which commands cannot write.
const KNOWN: &str = "sandbox.txt";

/// A sandbox: what it permits, and, once it was needed, what it is built with on this machine.
#[derive(Debug)]
pub struct Sandbox {
    /// The request of the user.
    pub request: SandboxRequest,
    paths: PolicyPaths,
    parts: OnceLock<Result<Parts, String>>,
    /// Sockets in the usual places of agents.
    agents: Vec<PathBuf>,
    /// The file that says how `bwrap` worked here last, which takes longer to try than a command does.
    known: PathBuf,
    built: SystemTime,
    is_used: AtomicBool,
}

/// The parts that a sandbox is built with.
#[derive(Debug)]
struct Parts {
    mechanism: Mechanism,
    /// The kernel's tables of all sockets.
    tables: Vec<PathBuf>,
}

/// A command that runs in the sandbox. Finish or drop it when the command has ended.
#[derive(Debug)]
pub struct SandboxedRun {
    /// The file in which `bwrap` reports the end of the command.
    status: Option<File>,
    /// The repositories' own folders, and the names that do not exist in them and must not be created.
    repositories: Vec<(PathBuf, Vec<&'static str>)>,
    started: SystemTime,
    /// The sockets of other programs that are covered.
    covered: BTreeSet<PathBuf>,
    _scratch: Option<TempDir>,
}

impl SandboxedRun {
    /// Returns whether a job that ended on its own ran the command. If not, `bwrap` failed before, and its output says
    /// why.
    fn has_run(&self, outcome: JobOutcome) -> bool {
        let mut report = vec![0; 4096];
        let length = self.status.as_ref().map(|status| status.read_at(&mut report, 0).unwrap_or(0));
        report.truncate(length.unwrap_or(0));
        let is_reported = serde_json::Deserializer::from_slice(&report)
            .into_iter::<serde_json::Value>()
            .any(|object| object.is_ok_and(|object| object.get("exit-code").is_some()));
        length.is_none() || is_reported || !matches!(outcome, JobOutcome::Ended { .. })
    }

    /// Undoes changes of the command that git would run. Returns notes for the reader of its result.
    pub fn tidy(&mut self) -> Vec<String> {
        let tidy = |(folder, missing): (PathBuf, Vec<&str>)| {
            tidy::tidy_repository(&folder, &missing, self.started)
        };
        std::mem::take(&mut self.repositories).into_iter().flat_map(tidy).collect()
    }
}

impl Drop for SandboxedRun {
    fn drop(&mut self) {
        self.tidy();
    }
}

/// Checks whether a file that a model named may become the target of its own conversation: commands of the conversation
/// that named it must be allowed to write it. `target` has no links.
///
/// # Errors
/// It may not; the message has the reason and the setting that would allow it. Or the folders cannot be looked up.
pub fn check_target(
    request: &SandboxRequest,
    places: SandboxFolders<'_>,
    target: &Path,
) -> Result<()> {
    if request.mode == SandboxMode::Off {
        return Ok(());
    }
    let paths = PolicyPaths::resolve(request, places)?;
    paths.policy.check_write(target).map_err(anyhow::Error::msg)
}

impl WritePolicy for Sandbox {
    fn is_writable(&self, path: &Path) -> bool {
        self.paths.policy.is_writable(path)
    }

    fn check_write(&self, path: &Path) -> Result<(), String> {
        self.paths.policy.check_write(path)
    }
}

fn memory_file(content: &[u8]) -> io::Result<File> {
    let file = File::from(memfd_create("nagent-sandbox", MemfdFlags::CLOEXEC)?);
    file.write_all_at(content, 0)?;
    Ok(file)
}

impl Sandbox {
    /// Decides what the requested sandbox permits; `None` if none is requested. It is built when it is needed first.
    ///
    /// # Errors
    /// The working tree holds too much to be writable, or a folder to write in is missing or leads elsewhere.
    pub fn prepare(request: &SandboxRequest, places: SandboxFolders<'_>) -> Result<Option<Self>> {
        if request.mode == SandboxMode::Off {
            return Ok(None);
        }
        Ok(Some(Self {
            request: request.clone(),
            paths: PolicyPaths::resolve(request, places)?,
            parts: OnceLock::new(),
            agents: sockets::find_in_places(places.env),
            known: places.root.join(KNOWN),
            built: SystemTime::now(),
            is_used: AtomicBool::new(false),
        }))
    }

    /// The parts that it is built with. The first call builds it.
    ///
    /// # Errors
    /// It cannot be built on this system; the message says what is missing, and what to do.
    pub fn mechanism(&self) -> Result<&Mechanism> {
        Ok(&self.parts()?.mechanism)
    }

    fn parts(&self) -> Result<&Parts> {
        let build = || self.try_bwrap().or_else(|why| self.try_alone(why));
        let parts = self.parts.get_or_init(build);
        parts.as_ref().map_err(|why| anyhow!("{why}"))
    }

    /// Tries `bwrap`, with a user namespace if it needs one.
    fn try_bwrap(&self) -> Result<Parts, String> {
        if self.request.only_landlock {
            return Err("it is turned off".to_owned());
        }
        let path = BWRAP.iter().map(PathBuf::from).find(|path| path.is_file());
        let path = path.ok_or("it is not installed")?;
        let is_safe = |there: &fs::Metadata| there.uid() == 0 && there.mode() & 0o022 == 0;
        let Some(there) = fs::metadata(&path).ok().filter(is_safe) else {
            return Err(format!(
                "{} could be changed by others than the superuser",
                path.display()
            ));
        };
        let landlock = landlock::version();
        // Sockets without a path are in the namespace of the network, or are stopped by Landlock 6.
        let unix_sockets = self.request.no_network || landlock >= 6;
        let bwrap = Some(path.clone());
        let mechanism = Mechanism { bwrap, landlock, unix_sockets, ..Mechanism::default() };
        let mut parts = Parts { mechanism, tables: sockets::find_tables() };
        let mut why = String::new();
        let known = fs::read_to_string(&self.known).unwrap_or_default();
        let here = self.describe_here(&there).unwrap_or_default();
        let works = |user_namespace| format!("{here} {user_namespace}\n");
        if !here.is_empty()
            && let Some(user_namespace) = [false, true].into_iter().find(|it| known == works(*it))
        {
            parts.mechanism.user_namespace = user_namespace;
            return Ok(parts);
        }
        // Only root can go without a user namespace.
        let is_root = rustix::process::geteuid().is_root();
        for user_namespace in [false, true].into_iter().skip(usize::from(!is_root)) {
            parts.mechanism.user_namespace = user_namespace;
            match self.probe(&parts) {
                Ok(()) => {
                    // If it cannot be written, it is tried again next time.
                    _ = fs::write(&self.known, works(user_namespace));
                    return Ok(parts);
                }
                Err(failed) => why = format!("{failed:#}"),
            }
        }
        Err(format!("{} does not work here ({why})", path.display()))
    }

    /// Says on one line where `bwrap` was tried: which one, since which start of the system, in which namespaces, by whom.
    fn describe_here(&self, bwrap: &fs::Metadata) -> Option<String> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let space = |name: &str| fs::read_link(Path::new("/proc/self/ns").join(name)).ok();
        let spaces = [space("mnt")?, space("user")?, space("net")?];
        let user = rustix::process::geteuid().as_raw();
        let bwrap = (bwrap.dev(), bwrap.ino(), bwrap.ctime());
        Some(format!("{} {spaces:?} {user} {bwrap:?} {}", boot.trim(), self.request.no_network))
    }

    /// Tries Landlock and seccomp alone. Landlock 3 is the first version that prevents truncation of files.
    fn try_alone(&self, no_bwrap: String) -> Result<Parts, String> {
        let landlock = landlock::version();
        let mechanism = Mechanism { no_bwrap, landlock, ..Mechanism::default() };
        let parts = Parts { mechanism, tables: Vec::new() };
        let works = if landlock >= 3 {
            self.probe(&parts)
        } else {
            Err(anyhow!(
                "this kernel's Landlock has version {landlock} (0: none, or not enabled by lsm=landlock), and 3 is needed"
            ))
        };
        let no_bwrap = &parts.mechanism.no_bwrap;
        works.map_err(|alone| format!("the sandbox cannot be built here; with bwrap: {no_bwrap}; without: {alone:#}; install bubblewrap, or boot a kernel with Landlock (Linux 6.2 or newer, lsm=landlock), or use --sandbox off"))?;
        Ok(parts)
    }

    /// Tests the sandbox with a command that only checks whether it has capabilities.
    fn probe(&self, parts: &Parts) -> Result<()> {
        let script = "while read -r name value; do test $name != CapEff: || { test $value = 0000000000000000; exit; }; done < /proc/self/status";
        let words = ["/bin/sh", "-c", script].map(OsString::from);
        let mut job = Job::new(words.into(), PathBuf::from("/"), Vec::new());
        job.output = Output::Separate;
        job.timeout = Some(Duration::from_secs(20));
        self.put_around(&mut job, &self.paths.policy, parts, false)?;
        let finished = process::run(job, &Interrupts::without_handlers()?)?;
        let error = String::from_utf8_lossy(&finished.stderr);
        let error = error.lines().next().unwrap_or("commands have capabilities in it");
        ensure!(finished.outcome == JobOutcome::Ended { code: 0 }, "{error}");
        Ok(())
    }

    /// Runs a job in the sandbox. Returns the sandboxed command, whether it ran, and the result of `run`. Building the
    /// sandbox fails if a socket that is to be covered vanishes meanwhile: then it is tried again. Fails as
    /// [`Self::sandbox_job`] does.
    pub fn run<T>(
        &self,
        make: impl Fn() -> Job,
        mut run: impl FnMut(Job) -> T,
        outcome: impl Fn(&T) -> Option<JobOutcome>,
    ) -> Result<(SandboxedRun, bool, T)> {
        let mut tries = 0;
        loop {
            let mut job = make();
            let sandboxed = self.sandbox_job(&mut job)?;
            let ran = run(job);
            tries += 1;
            let has_run = outcome(&ran).is_none_or(|outcome| sandboxed.has_run(outcome));
            let has_vanished = |socket: &PathBuf| fs::symlink_metadata(socket).is_err();
            let may_work = tries < 3 || sandboxed.covered.iter().any(has_vanished);
            if !has_run {
                // What was known of this system may be so no longer.
                _ = fs::remove_file(&self.known);
            }
            if has_run || tries == 20 || !may_work {
                return Ok((sandboxed, has_run, ran));
            }
        }
    }

    /// Changes a job so that it runs in the sandbox.
    ///
    /// # Errors
    /// It cannot be built here, a folder that it needs is gone, or a part of it cannot be made.
    pub fn sandbox_job(&self, job: &mut Job) -> Result<SandboxedRun> {
        let parts = self.parts()?;
        job.cwd = fs::canonicalize(&job.cwd)
            .with_context(|| format!("cannot find the folder {}", job.cwd.display()))?;
        let mut policy = self.paths.policy.clone();
        for folder in &policy.writable {
            ensure!(
                fs::canonicalize(folder).is_ok_and(|path| path == *folder),
                "the folder {}, which commands may write in, is gone or is a link now; start again",
                folder.display()
            );
        }
        self.paths.add_folders(&mut policy);
        // A command may have added a submodule or a working tree.
        policy.read_only.extend(executed_paths(&self.paths.repositories));
        let missing = |folder: &Path| {
            let names = EXECUTED.into_iter();
            names.filter(|name| fs::symlink_metadata(folder.join(name)).is_err()).collect()
        };
        let folders = list_own_folders(&self.paths.repositories).into_iter();
        let folders = folders.filter(|folder| policy.is_writable(folder));
        let repositories = folders.map(|folder| (folder.clone(), missing(&folder))).collect();
        let scratch = self
            .make_scratch(&parts.mechanism)
            .context("cannot make a folder for temporary files")?;
        if let Some(scratch) = &scratch {
            job.env.retain(|(name, _)| name != "TMPDIR");
            job.env.push(("TMPDIR".into(), scratch.path().into()));
            policy.writable.push(scratch.path().to_owned());
        }
        let (status, covered) =
            self.put_around(job, &policy, parts, true).context("cannot prepare the sandbox")?;
        self.is_used.store(true, Ordering::Relaxed);
        let started = SystemTime::now();
        Ok(SandboxedRun { status, repositories, started, covered, _scratch: scratch })
    }

    /// Makes a scratch folder if there is no temp folder in which new files can be made.
    fn make_scratch(&self, mechanism: &Mechanism) -> io::Result<Option<TempDir>> {
        // Landlock alone cannot permit a folder and hide something in it.
        let hides = |temp: &Path| {
            let mut hidden = self.paths.policy.hidden.iter();
            mechanism.bwrap.is_none() && hidden.any(|hidden| hidden.path.starts_with(temp))
        };
        let temp = self.paths.temp.as_ref();
        let temp = temp.filter(|temp| !self.paths.is_tmpdir_writable || hides(temp));
        temp.map(|temp| tempfile::Builder::new().prefix("nagent-scratch-").tempdir_in(temp))
            .transpose()
    }

    /// Puts the sandbox around a job: restricts its process, and lets `bwrap` start it, which reports to the returned
    /// file. Returns also the sockets that it covers. `covers`: whether to cover sockets of other programs, which may vanish
    /// at that instant.
    fn put_around(
        &self,
        job: &mut Job,
        policy: &SandboxPolicy,
        parts: &Parts,
        covers: bool,
    ) -> Result<(Option<File>, BTreeSet<PathBuf>)> {
        let mechanism = &parts.mechanism;
        let alone = mechanism.bwrap.is_none();
        let (no_network, mut unix) = (policy.no_network, mechanism.unix_sockets);
        let tables = Some(&parts.tables).filter(|_| unix && covers);
        let listed = tables.map_or(Some(BTreeSet::new()), |tables| sockets::list_sockets(tables));
        unix &= listed.is_some();
        let agents = self.agents.iter().filter(|_| unix && covers).cloned();
        let covered = listed.into_iter().flatten().chain(agents);
        let covered: BTreeSet<PathBuf> =
            covered.filter(|path| fs::symlink_metadata(path).is_ok()).collect();
        let sockets = Sockets { no_internet: no_network && alone, no_netlink: no_network, unix };
        let filter = compile_filter(sockets).map_err(anyhow::Error::msg)?;
        let ruleset = landlock::build(policy, alone, mechanism.landlock)?;
        let new_privileges = alone || !rustix::process::geteuid().is_root();
        let restriction = Restriction { capabilities: alone, new_privileges, ruleset, filter };
        let Some(bwrap) = &mechanism.bwrap else {
            job.restriction = Some(restriction);
            return Ok((None, BTreeSet::new()));
        };
        let mut inherit = |file: File| {
            let number = file.as_raw_fd();
            job.inherit.push(OwnedFd::from(file));
            number
        };
        let status = memory_file(b"")?;
        let report = status.try_clone()?;
        let kernel_form = |step: &sock_filter| {
            let [low, high] = step.code.to_ne_bytes();
            [&[low, high, step.jt, step.jf], &step.k.to_ne_bytes()[..]].concat()
        };
        let program: Vec<u8> = restriction.filter.iter().flat_map(kernel_form).collect();
        let files = policy.hidden.iter().filter(|hidden| !hidden.is_folder);
        let empty =
            files.map(|_| Ok(inherit(File::open("/dev/null")?))).collect::<io::Result<Vec<_>>>()?;
        // Nothing can be mounted over a link, so mount over its target.
        let real = policy.read_only.iter().filter_map(|path| fs::canonicalize(path).ok());
        let read_only = real.filter(|path| policy.is_writable(path)).collect();
        let policy = SandboxPolicy { read_only, ..policy.clone() };
        let mut words =
            bwrap::arguments(&policy, mechanism.user_namespace, &job.cwd, &covered, &empty);
        for (flag, file) in [("--seccomp", memory_file(&program)?), ("--json-status-fd", status)] {
            words.extend([flag.into(), inherit(file).to_string().into()]);
        }
        let words: Vec<u8> =
            words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
        let number = inherit(memory_file(&words)?).to_string();
        let mut argv: Vec<OsString> =
            vec![bwrap.into(), "--args".into(), number.into(), "--".into()];
        argv.append(&mut job.argv);
        job.argv = argv;
        job.is_bwrap = true;
        // bwrap drops capabilities itself, and applies the filter last.
        job.restriction =
            Some(Restriction { capabilities: false, filter: Vec::new(), ..restriction });
        Ok((Some(report), covered))
    }

    /// Finds files that changed since the sandbox was built and that tools run without being asked. Empty if no command
    /// ran.
    pub fn find_changed(&self) -> ChangedFiles {
        if !self.is_used.load(Ordering::Relaxed) {
            return ChangedFiles::default();
        }
        let in_git = executed_paths(&self.paths.repositories);
        let others = [in_git, self.paths.policy.read_only.clone()].concat();
        find_changed(&self.paths.trees, &others, self.paths.home.as_deref(), self.built)
    }

    /// The policy for commands.
    pub fn policy(&self) -> &SandboxPolicy {
        &self.paths.policy
    }

    /// Guesses from a command's output which setting would allow an action that the sandbox denied. `None` if nothing in
    /// it looks like a denial.
    pub fn advise(&self, output: &str, has_failed: bool) -> Option<String> {
        let sockets = self.mechanism().is_ok_and(|it| it.unix_sockets);
        advice::advise(&self.request, sockets, output, has_failed)
    }
}
