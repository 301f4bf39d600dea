//! Builds the sandbox around commands: namespaces through `bwrap` where the system has it, with Landlock and seccomp inside;
//! those two alone where it has not.
//!
//! It is built before anything runs, or the run is refused. What is asked for is [`crate::sandbox`]'s; nothing here reads a
//! policy from the working tree.
//!
//! - `paths`: looks up what the policy is made of, once a run
//! - `scan`: searches a writable folder for protected names, for each command
//! - `git_config_paths`: what a repository's config names, that git reads or runs by itself
//! - `sockets`: the sockets of other programs
//! - `run`: one command, and what it left
//! - [`inner`]: what a process does to itself before it becomes the command
//! - [`worker`]: what a process with a script engine does to itself

mod git_config_paths;
pub mod inner;
mod paths;
mod run;
mod scan;
mod sockets;
pub mod worker;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use uuid::Uuid;

use self::paths::PolicyPaths;
pub use self::paths::{INNER, SandboxFolders};
pub use self::run::{NO_REASON, SandboxOutcome, SandboxedRun, pipe_stdin};
use self::scan::{TreeScan, scan_tree};
use super::env::Env;
use super::interrupt::Interrupts;
use super::process;
use super::process::job::{Job, JobOutcome, Output};
use crate::sandbox::bwrap::{self, BwrapOptions};
use crate::sandbox::inner::{Enforced, InnerPlan};
use crate::sandbox::mechanism::Mechanism;
use crate::sandbox::policy::{SandboxPolicy, WritableFolder};
use crate::sandbox::{SandboxMode, SandboxRequest, advice};

/// How long finding out whether the sandbox works may take.
const PROBE_TIME: Duration = Duration::from_secs(20);

/// Where `bwrap` may be. `PATH` is not searched: it may lead into the working tree.
const BWRAP: [&str; 3] = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"];

/// Lists the paths of credentials on this machine, without links; nagent's own folder is among them.
pub fn credential_paths(root: &Path, env: &Env) -> Vec<PathBuf> {
    let hidden = paths::hidden_paths(root, env.home_folder().as_deref(), env, &[]);
    hidden.into_iter().map(|hidden| hidden.path).collect()
}

/// A sandbox that works on this machine.
#[derive(Debug)]
pub struct Sandbox {
    /// What was asked for.
    pub request: SandboxRequest,
    /// What it is built with.
    pub mechanism: Mechanism,
    /// The path of `bwrap`, if it is used.
    pub bwrap: Option<PathBuf>,
    options: BwrapOptions,
    paths: PolicyPaths,
}

/// Checks whether a file that a model named may become the target of a conversation of its own: it must be one that commands
/// of the conversation that named it may write. `target` has no links.
///
/// # Errors
/// It may not; the message says why, and which setting would allow it. Or the folders cannot be looked up.
pub fn check_target(
    request: &SandboxRequest,
    places: SandboxFolders<'_>,
    target: &Path,
) -> Result<()> {
    if request.mode == SandboxMode::Off {
        return Ok(());
    }
    let paths = PolicyPaths::resolve(request, SandboxFolders { per_file: false, ..places })?;
    check_write(&paths.policy, target).map_err(anyhow::Error::msg)
}

/// Checks whether commands may write a file, after a scan of the writable folders. `path` has no links.
fn check_write(policy: &SandboxPolicy, path: &Path) -> Result<(), String> {
    let mut policy = policy.clone();
    let trees = scan_folders(&policy);
    complete(&mut policy, &trees);
    policy.check_write(path)
}

/// Returns the path of `bwrap` if the system has one that only the superuser can change, else why there is none.
fn find_bwrap() -> Result<PathBuf, String> {
    let path = BWRAP.map(PathBuf::from).into_iter().find(|path| path.is_file());
    let path = path.ok_or("it is not installed")?;
    match fs::metadata(&path) {
        Ok(there) if there.uid() == 0 && there.mode() & 0o022 == 0 => Ok(path),
        _ => Err(format!("{} could be changed by others than the superuser", path.display())),
    }
}

fn scan_folders(policy: &SandboxPolicy) -> Vec<(PathBuf, TreeScan)> {
    let folders = policy.writable.iter().filter(|folder| !folder.is_temp);
    let scan = |path: &Path| scan_tree(path, &|path| policy.is_writable(path));
    folders.map(|folder| (folder.path.clone(), scan(&folder.path))).collect()
}

fn complete(policy: &mut SandboxPolicy, trees: &[(PathBuf, TreeScan)]) {
    for (_, scan) in trees {
        policy.read_only.extend(scan.read_only().chain(&scan.unreadable).cloned());
        policy.missing.extend(scan.missing.iter().chain(scan.links.keys()).cloned());
        // Moved away, with another one in its place, a repository could have another config.
        let parents = scan.in_git.iter().filter_map(|path| path.parent());
        policy.pinned.extend(parents.map(Path::to_owned));
        policy.pinned.extend(scan.repositories.iter().cloned());
    }
}

impl Sandbox {
    /// Builds the sandbox that is asked for; `None` if none is.
    ///
    /// # Errors
    /// It cannot be built here: the message says what is missing and what to do.
    pub fn build(request: &SandboxRequest, places: SandboxFolders<'_>) -> Result<Option<Self>> {
        if !request.is_needed() {
            return Ok(None);
        }
        let mut sandbox = Self {
            request: request.clone(),
            paths: PolicyPaths::resolve(request, places)?,
            bwrap: None,
            options: BwrapOptions::default(),
            mechanism: Mechanism::default(),
        };
        sandbox.mechanism = sandbox.find_mechanism()?;
        // bwrap makes one of its own. Semaphores are in it.
        if sandbox.is_alone() && request.mode == SandboxMode::Workspace {
            let path = PathBuf::from("/dev/shm");
            sandbox.paths.policy.writable.push(WritableFolder { path, is_temp: true });
        }
        Ok(Some(sandbox))
    }

    /// Tries what there is: `bwrap`, with a user namespace where it needs one, or else Landlock alone.
    fn find_mechanism(&mut self) -> Result<Mechanism> {
        let why = match self.try_bwrap() {
            Ok(enforced) => return Ok(Mechanism { no_bwrap: None, enforced }),
            Err(why) => why,
        };
        self.bwrap = None;
        match self.probe() {
            Ok(enforced) => Ok(Mechanism { no_bwrap: Some(why), enforced }),
            Err(alone) => bail!(
                "the sandbox cannot be built here; with bwrap: {why}; without: {alone:#}; install bubblewrap, or boot a kernel with Landlock (Linux 6.2 or newer, lsm=landlock), or use --sandbox off without --no-network"
            ),
        }
    }

    fn try_bwrap(&mut self) -> Result<Enforced, String> {
        if self.request.only_landlock {
            return Err("it was not wanted".to_owned());
        }
        let path = find_bwrap()?;
        let mut why = String::new();
        self.bwrap = Some(path.clone());
        // Only root can go without a user namespace. A set-user-id bwrap gives a plain user no capabilities.
        let is_root = rustix::process::geteuid().is_root();
        let ways = [(false, true), (true, true), (true, false)];
        for (user_namespace, capabilities) in ways.into_iter().skip(usize::from(!is_root)) {
            self.options = BwrapOptions { user_namespace, capabilities };
            match self.probe() {
                Ok(enforced) => return Ok(enforced),
                Err(failed) => why = format!("{failed:#}"),
            }
        }
        Err(format!("{} does not work here ({why})", path.display()))
    }

    /// Tries the sandbox without a command. Returns what is enforced in it, or why it does not work.
    fn probe(&self) -> Result<Enforced> {
        let policy = &self.paths.policy;
        let plan = InnerPlan { probe: true, ..self.make_inner_plan(policy) };
        let mut job = Job::new(vec!["true".into()], PathBuf::from("/"), Vec::new());
        job.output = Output::Separate;
        job.timeout = Some(PROBE_TIME);
        let control = run::memory_file(&serde_json::to_vec(&plan)?)?;
        self.prepend_sandbox(&mut job, policy, control)?;
        let finished = process::run(job, &Interrupts::without_handlers()?)?;
        if finished.outcome == (JobOutcome::Ended { code: 0 })
            && let Ok(enforced) = serde_json::from_slice(&finished.stdout)
        {
            return Ok(enforced);
        }
        let error = String::from_utf8_lossy(&finished.stderr);
        let error = error.lines().next().unwrap_or_default().trim();
        let error = error.strip_prefix("nagent-sandbox: ").unwrap_or(error);
        ensure!(!error.is_empty(), "{:?}", finished.outcome);
        bail!("{error}")
    }

    fn make_inner_plan(&self, policy: &SandboxPolicy) -> InnerPlan {
        let mut plan = InnerPlan::new(policy, self.is_alone());
        if self.options.capabilities && plan.restricts_files && !plan.alone {
            let sockets = sockets::list_sockets();
            plan.sockets = sockets.map(|paths| paths.into_iter().map(OsString::from).collect());
        }
        plan
    }

    /// Changes a job so that it runs in the sandbox.
    ///
    /// # Errors
    /// A folder that the sandbox needs is gone, or what it needs cannot be made.
    pub fn sandbox_job(&self, job: &mut Job) -> Result<SandboxedRun> {
        job.cwd = fs::canonicalize(&job.cwd)
            .with_context(|| format!("cannot find the folder {}", job.cwd.display()))?;
        let mut policy = self.paths.policy.clone();
        for folder in policy.writable.iter().map(|folder| &folder.path) {
            ensure!(
                fs::canonicalize(folder).is_ok_and(|path| path == *folder),
                "the folder {}, which commands may write in, is gone or is a link now; start again",
                folder.display()
            );
        }
        // A path that did not exist when the run began and does now.
        let appeared = policy.missing.iter().filter_map(|path| fs::canonicalize(path).ok());
        policy.read_only.extend(appeared.filter(|path| self.paths.policy.is_writable(path)));
        let trees = scan_folders(&policy);
        complete(&mut policy, &trees);
        let scratch = self.scratch_folder();
        if let Some(path) = scratch.clone() {
            job.env.retain(|(name, _)| name != "TMPDIR");
            job.env.push(("TMPDIR".into(), path.clone().into()));
            policy.writable.push(WritableFolder { path, is_temp: true });
        }
        let outputs = self.paths.root.join("outputs");
        let is_new =
            |path: &&PathBuf| policy.is_writable(path) && fs::symlink_metadata(path).is_err();
        let missing = policy.missing.iter().filter(is_new).cloned().collect();
        let plan = self.make_inner_plan(&policy);
        let run = SandboxedRun::new(&plan, outputs, scratch, trees, missing)
            .context("cannot prepare the sandbox")?;
        self.prepend_sandbox(job, &policy, run.control()?).context("cannot prepare the sandbox")?;
        Ok(run)
    }

    /// Returns the path of a scratch folder, if there is no temp folder in which something new can be made.
    fn scratch_folder(&self) -> Option<PathBuf> {
        // Landlock alone cannot permit a folder and hide something in it.
        let policy = &self.paths.policy;
        let has_hidden = |folder: &WritableFolder| {
            folder.is_temp
                && policy.hidden.iter().any(|hidden| hidden.path.starts_with(&folder.path))
        };
        let is_needed = self.request.mode != SandboxMode::Off
            && (!self.paths.is_tmpdir_writable
                || self.is_alone() && policy.writable.iter().any(has_hidden));
        let temp = self.paths.temp.as_ref().filter(|_| is_needed)?;
        Some(temp.join(format!("nagent-scratch-{}", Uuid::new_v4().simple())))
    }

    /// Puts `bwrap` and the inner stage before the job's program. Their instructions are files in memory that they inherit.
    fn prepend_sandbox(
        &self,
        job: &mut Job,
        policy: &SandboxPolicy,
        control: File,
    ) -> io::Result<()> {
        let mut inherit = |file: File| -> RawFd {
            let number = file.as_raw_fd();
            job.inherit.push(OwnedFd::from(file));
            number
        };
        let mut argv: Vec<OsString> = Vec::new();
        if let Some(bwrap) = &self.bwrap {
            let files = policy.hidden.iter().filter(|hidden| !hidden.is_folder);
            let empty: io::Result<Vec<RawFd>> =
                files.map(|_| Ok(inherit(File::open("/dev/null")?))).collect();
            let words = bwrap::arguments(policy, self.options, &job.cwd, &empty?);
            let bytes = words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat());
            let bytes: Vec<u8> = bytes.collect();
            let number = inherit(run::memory_file(&bytes)?).to_string();
            argv.extend([bwrap.into(), "--args".into(), number.into(), "--".into()]);
            job.names_left = false;
        }
        let number = inherit(control).to_string();
        let inner = self.paths.inner.clone().into();
        argv.extend([inner, "--within".into(), number.into(), "--".into()]);
        argv.append(&mut job.argv);
        job.argv = argv;
        Ok(())
    }

    fn is_alone(&self) -> bool {
        self.bwrap.is_none()
    }

    /// Checks whether commands may write a file. `path` has no links.
    ///
    /// # Errors
    /// They may not: why, and which setting would allow it.
    pub fn check_write(&self, path: &Path) -> Result<(), String> {
        check_write(&self.paths.policy, path)
    }

    /// The policy for commands, without what a scan of the writable folders finds.
    pub fn policy(&self) -> &SandboxPolicy {
        &self.paths.policy
    }

    /// The name of the mechanism: `bwrap` or `landlock`.
    pub fn mechanism_name(&self) -> &'static str {
        if self.is_alone() { "landlock" } else { "bwrap" }
    }

    /// The folders that commands may write in, without links. Empty with mode off: then everywhere.
    pub fn writable(&self) -> Vec<String> {
        let folders = self.paths.policy.writable.iter();
        folders.map(|folder| folder.path.display().to_string()).collect()
    }

    /// Describes what this sandbox leaves open, one sentence each.
    pub fn describe_gaps(&self) -> Vec<String> {
        let mut gaps = self.mechanism.describe_gaps(&self.request);
        gaps.extend(self.describe_hard_link());
        gaps
    }

    /// Names a file in a writable folder that has another name, if there is one. The search ends after 0.2 s.
    pub fn describe_hard_link(&self) -> Option<String> {
        let mut trees = self.paths.policy.writable.iter().filter(|folder| !folder.is_temp);
        let link = trees.find_map(|folder| scan::find_hard_link(&folder.path))?;
        Some(format!("{} has another name (a hard link), which may be outside", link.display()))
    }

    /// Guesses from a failed command's output which setting would allow what the sandbox denied. `None` if nothing in it
    /// looks like a denial.
    pub fn advise(&self, output: &str) -> Option<String> {
        advice::advise(&self.request, self.mechanism.enforced.unix_sockets, output)
    }
}
