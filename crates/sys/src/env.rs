//! The environment as one value, read once: variables, working folder, host, the shell that started this process.
//!
//! [`Env::for_commands`] makes the environment of a command, without credentials. [`keep_private`] wipes the values of
//! credentials from the memory that `/proc/PID/environ` shows: nagent often runs as root in a container, where every command
//! could read them there.

use std::ffi::{CStr, OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit};

use self::credential::Credential;
use super::names::expand_home;
use super::{fs, names, root};
use conversation::problem::Problem;

mod credential;

/// The variable that lists the conversations that a nagent was started by: names, the oldest first, with `/` between.
pub const PARENTS: &str = "NAGENT_PARENTS";

/// The variable that lists the credentials withheld from a command: names, with `,` between.
pub const WITHHELD: &str = "NAGENT_WITHHELD";

/// The variable that identifies this child in a recording (`0.1`).
pub const LINEAGE: &str = "NAGENT_LINEAGE";

/// The variable with the run under which changes of files are recorded, and its shell's conversation, as JSON.
pub const RUN: &str = "NAGENT_RUN";

/// The variable that lists where credentials come from that nagent has set: lines of `NAME=PLACE`.
const SOURCES: &str = "NAGENT_SOURCES";

/// The environment that was read before credentials were wiped.
static READ: OnceLock<Env> = OnceLock::new();

/// The limit of core dumps that this process was started with.
static CORE: OnceLock<Rlimit> = OnceLock::new();

/// The environment of this process.
#[derive(Debug, Clone)]
pub struct Env {
    variables: Vec<(OsString, OsString)>,
    /// The working folder, or why it cannot be determined.
    pub folder: Result<PathBuf, String>,
    /// The running executable, by the path of the tool that it was called as.
    pub executable: Option<PathBuf>,
}

impl Env {
    /// Reads the environment as it was at the start, with credentials.
    pub fn read() -> Self {
        READ.get().cloned().unwrap_or_else(|| Self {
            variables: std::env::vars_os().collect(),
            folder: std::env::current_dir().map_err(|error| error.to_string()),
            executable: executable(),
        })
    }

    /// Sets a variable in this value, not in the process.
    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.variables.retain(|(other, _)| other != name);
        self.variables.push((name.into(), value.as_ref().to_owned()));
    }

    /// Sets a credential that comes from elsewhere, which errors about it then name.
    pub fn set_from(&mut self, name: &str, value: &str, source: &str) {
        self.set(name, value);
        let others = self.get(SOURCES).unwrap_or_default();
        self.set(SOURCES, format!("{name}={source}\n{others}"));
    }

    /// Where the value of a variable comes from: the variable itself, unless nagent has set it.
    pub fn source_of<'a>(&'a self, name: &'a str) -> &'a str {
        let mut lines = self.get(SOURCES).unwrap_or_default().lines();
        let source = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        source.unwrap_or(name)
    }

    /// A variable's value, when it is set, not empty, and text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_os(name)?.to_str()
    }

    /// A variable's value, when it is set and not empty.
    pub fn get_os(&self, name: &str) -> Option<&OsStr> {
        let (_, value) = self.variables.iter().find(|(other, _)| other == name)?;
        Some(value.as_os_str()).filter(|value| !value.is_empty())
    }

    /// The path of one of the toolkit's executables, which are all in one folder.
    pub fn tool_path(&self, name: &str) -> PathBuf {
        let folders = [self.executable.clone(), std::env::current_exe().ok()];
        let mut paths = folders.into_iter().flatten().map(|path| path.with_file_name(name));
        paths.find(|path| fs::is_executable(path)).unwrap_or_else(|| PathBuf::from(name))
    }

    /// The program of this name, as [`program`] finds it.
    pub fn find_program(&self, name: &str) -> PathBuf {
        program(self.get_os("PATH"), name)
    }

    /// The user's home folder.
    pub fn home_folder(&self) -> Option<PathBuf> {
        let home = self.get_os("HOME").map(PathBuf::from);
        home.or_else(dirs::home_dir).filter(|home| home.is_absolute())
    }

    /// The working folder.
    pub fn current_folder(&self) -> Result<PathBuf, Problem> {
        self.folder.clone().map_err(|error| {
            Problem::failed(format!(
                "cannot determine the current directory ({error}); cd to one that exists"
            ))
        })
    }

    /// The absolute path of what the user named: relative to the working folder, or to the home folder after `~`.
    pub fn absolute_path(&self, path: &Path) -> Result<PathBuf, Problem> {
        Ok(self.current_folder()?.join(expand_home(path, self.home_folder().as_deref())))
    }

    /// The variables for commands that the model requested: without credentials, except those that the user lets
    /// through, and with those of `set`. A proxy with a password is let through, too: where a proxy is needed, commands
    /// have no network without it; `--no-network` is for those who want that.
    pub fn for_commands(
        &self,
        pass: &[String],
        set: &[(&str, String)],
    ) -> Vec<(OsString, OsString)> {
        let is_passed = |name: &OsStr| pass.iter().any(|passed| name == passed.as_str());
        let secrets = self.secret_values(is_passed);
        let (mut withheld, mut variables): (Vec<_>, Vec<_>) = self
            .variables
            .iter()
            .cloned()
            .partition(|(name, value)| !is_passed(name) && is_withheld(name, value, &secrets));
        // git refuses to run where there are fewer settings than GIT_CONFIG_COUNT says.
        if withheld.iter().any(|(name, _)| is_git_setting(name)) {
            withheld.extend(variables.extract_if(.., |(name, _)| name == GIT_SETTINGS));
        }
        variables.retain(|(name, _)| name != WITHHELD);
        if !withheld.is_empty() {
            let names: Vec<String> =
                withheld.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
            variables.push((OsString::from(WITHHELD), OsString::from(names.join(","))));
        }
        set_variables(variables, set)
    }

    /// The values of the credentials, and passwords within them, except the `passed` ones and those of proxies.
    fn secret_values(&self, is_passed: impl Fn(&OsStr) -> bool) -> Vec<&OsStr> {
        let is_secret = |(name, value): &&(OsString, OsString)| {
            !is_passed(name)
                && Credential::classify(name, value).is_withheld()
                && !self.names_a_file(name, value)
        };
        let parts = |value| credential::url_password(value).into_iter().chain([value]);
        self.variables.iter().filter(is_secret).flat_map(|(_, value)| parts(value)).collect()
    }

    /// Whether a variable is a credential by its name or its value, or contains one. A proxy's password counts, too.
    pub fn is_secret(&self, name: &str) -> bool {
        let (name, value) = (OsStr::new(name), self.get_os(name).unwrap_or_default());
        Credential::classify(name, value) != Credential::No
            || is_withheld(name, value, &self.secret_values(|_| false))
    }

    /// Whether a variable of this name is withheld from commands and masked.
    pub fn is_credential(name: &str) -> bool {
        Credential::classify(name.as_ref(), "any-value".as_ref()).is_withheld()
    }

    /// The credentials that are masked, names and values, with passwords of proxies; not those that commands get, nor
    /// binary ones.
    pub fn secrets<'a>(&'a self, pass: &'a [String]) -> impl Iterator<Item = (&'a str, &'a str)> {
        let variables = self.variables.iter();
        variables
            .filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
            .filter(|(name, _)| !pass.iter().any(|passed| passed == name))
            .flat_map(|(name, value)| {
                credential::values_to_mask(name, value).map(move |text| (name, text))
            })
            .filter(|(name, text)| !self.names_a_file(name.as_ref(), text.as_ref()))
    }

    /// Whether a credential's value is the path of a file. A secret may begin with a slash, too: one in 64 base64 texts does.
    fn names_a_file(&self, name: &OsStr, value: &OsStr) -> bool {
        let is_absolute = value.as_encoded_bytes().starts_with(b"/");
        if !is_absolute && !value.as_encoded_bytes().starts_with(b"~/") {
            return false;
        }
        let name = name.to_string_lossy().to_ascii_uppercase();
        let path = names::expand_home(value.as_ref(), self.home_folder().as_deref());
        ["PATH", "FILE", "DIR"].iter().any(|end| name.ends_with(end)) || fs::exists(&path)
    }

    /// All variables, for a child nagent, with those of `set`.
    pub fn for_children(&self, set: &[(&str, String)]) -> Vec<(OsString, OsString)> {
        set_variables(self.variables.clone(), set)
    }

    /// Identifies a shell for the name of its conversation: by `STY` and `WINDOW`, `BASHPID`, the leader of the
    /// terminal session with its start time, or the parent process with its start time.
    pub(crate) fn shell_identity(&self) -> String {
        if let Some(screen) = self.get("STY") {
            let window = self.get("WINDOW").unwrap_or_default();
            return root::name_part(&format!("{screen}-{window}"));
        }
        if let Some(pid) = self.get("BASHPID") {
            return root::name_part(pid);
        }
        identify(read_stat("self").and_then(|text| shell_process(&text)).unwrap_or_default())
    }

    /// The conversation of a shell: the one that `NAGENT_CONVERSATION` names, else its own; of this shell, or of the
    /// one with this process ID.
    pub fn shell_conversation(&self, id: Option<u64>) -> String {
        if let Some(named) = self.get("NAGENT_CONVERSATION").filter(|_| id.is_none()) {
            return named.to_owned();
        }
        let shell = id.map_or_else(|| self.shell_identity(), |id| identify(id.to_string()));
        format!("latest-{}-{shell}", root::name_part(&host_name()))
    }
}

/// The number of a process with its start time: a later process may have the same number.
fn identify(pid: String) -> String {
    let stat = read_stat(&pid).unwrap_or_default();
    field(&stat, 22).map(|time| format!("{pid}-{time}")).unwrap_or(pid)
}

/// Adds `set` to the variables for a process that is started, and removes the name of this run's conversation.
fn set_variables(
    mut variables: Vec<(OsString, OsString)>,
    set: &[(&str, String)],
) -> Vec<(OsString, OsString)> {
    let is_replaced = |name: &OsStr| set.iter().any(|(other, _)| name == *other);
    variables.retain(|(name, _)| name != "NAGENT_CONVERSATION" && !is_replaced(name));
    variables.extend(set.iter().map(|(name, value)| (name.into(), value.into())));
    variables
}

/// Ends the process at a panic, from whatever thread, with the exit code of `report`, which gets the message. A release cannot
/// return from a panic.
pub fn exit_at_panic(report: impl Fn(&str) -> u8 + Send + Sync + 'static) {
    std::panic::set_hook(Box::new(move |panic| {
        let code = report(panic.payload_as_str().unwrap_or("unknown"));
        std::process::exit(code.into());
    }));
}

/// The name that this executable was called by: the tool that it acts as.
pub fn invoked_name() -> Option<String> {
    let words = std::env::args_os().next()?;
    Some(Path::new(&words).file_name()?.to_str()?.to_owned())
}

/// The running executable by the path of the tool that it acts as. All tools are links to one file, or small
/// executables next to it that exec it with their own path as its name.
fn executable() -> Option<PathBuf> {
    let running = std::env::current_exe().ok()?;
    let called = PathBuf::from(std::env::args_os().next()?);
    let name = called.file_name().filter(|name| name.as_encoded_bytes().starts_with(b"nagent"));
    let paths = name.map(|name| [running.with_file_name(name), called.clone()]);
    let mut tools = paths.into_iter().flatten().filter(|path| path.is_absolute());
    Some(tools.find(|path| fs::is_executable(path)).unwrap_or(running))
}

/// The variable with the number of git settings in the environment, in `GIT_CONFIG_KEY_n` and `GIT_CONFIG_VALUE_n`.
const GIT_SETTINGS: &str = "GIT_CONFIG_COUNT";

fn is_git_setting(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"GIT_CONFIG_KEY_") || name.starts_with(b"GIT_CONFIG_VALUE_")
}

/// Whether a variable is a credential, or contains one of the `secrets`.
fn is_withheld(name: &OsStr, value: &OsStr, secrets: &[&OsStr]) -> bool {
    let bytes = value.as_encoded_bytes();
    let is_within = |secret: &[u8]| bytes.windows(secret.len()).any(|part| part == secret);
    // Short secrets are skipped: they are in too many other values by chance.
    let mut long = secrets.iter().map(|it| it.as_encoded_bytes()).filter(|it| it.len() >= 16);
    Credential::classify(name, value).is_withheld() || long.any(is_within)
}

/// The program of this name in a folder of `PATH` that is absolute. A name with a slash is returned unchanged; a name
/// that is not found is taken to be in `/usr/bin`. A `.` or an empty entry in `PATH` is the working folder, whose files
/// anybody may have written, so nothing that nagent starts on its own is looked for there.
pub fn program(path: Option<&OsStr>, name: &str) -> PathBuf {
    if name.contains('/') {
        return PathBuf::from(name);
    }
    let folders = path.into_iter().flat_map(std::env::split_paths);
    let mut paths = folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(name));
    let found = paths.find(|path| fs::is_executable(path));
    found.unwrap_or_else(|| Path::new("/usr/bin").join(name))
}

/// The shell of a process with this `/proc/PID/stat`: the leader of its terminal session, or its parent. In a container
/// either may be a process outside it, whose number is 0 there.
fn shell_process(stat: &str) -> Option<String> {
    let (parent, session, terminal) = (field(stat, 4)?, field(stat, 6)?, field(stat, 7)?);
    let has_leader = session != "0" && terminal != "0";
    Some(if has_leader { session } else { parent }.to_owned())
}

/// The start time of a process, in the kernel's ticks since boot; `None` for a zombie, which is still listed.
pub(super) fn start_time_if_alive(pid: &str) -> Option<String> {
    let stat = read_stat(pid)?;
    let has_ended = matches!(field(&stat, 3), Some("Z" | "X"));
    field(&stat, 22).filter(|_| !has_ended).map(str::to_owned)
}

fn read_stat(pid: &str) -> Option<String> {
    read_proc(&format!("/proc/{pid}/stat"))
}

/// Reads a file of `/proc`. The kernel reports no size for it, which makes [`std::fs::read_to_string`] read it in small
/// pieces.
pub(super) fn read_proc(path: &str) -> Option<String> {
    let mut text = String::with_capacity(4096);
    std::fs::File::open(path).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

/// A field of `/proc/PID/stat`, counted from 1 as proc(5) does.
pub(super) fn field(stat: &str, number: usize) -> Option<&str> {
    // The second field is the name in brackets, which may hold blanks and brackets.
    let rest = stat.rsplit_once(") ")?.1;
    rest.split(' ').nth(number.checked_sub(3)?)
}

/// Changes the working folder of this process, for all that reads its environment from here on. Call it before
/// [`keep_private`].
///
/// # Errors
/// The folder does not exist, or may not be entered.
pub fn enter_folder(folder: &Path) -> std::io::Result<()> {
    // The path of this executable may be relative.
    let before = Env::read();
    std::env::set_current_dir(folder)?;
    let folder = std::env::current_dir()?;
    let mut env = Env { folder: Ok(folder.clone()), ..before };
    env.set("PWD", folder);
    READ.get_or_init(|| env);
    Ok(())
}

/// Protects this process's environment and memory, where the credentials are, from other processes of the same user,
/// including those that the model runs, and from core dumps. The superuser's processes can still read the memory, but
/// find no credential in `/proc/PID/environ`: [`Env::read`] has the only copy from here on.
///
/// Call it once, at the start, before there is a second thread.
pub fn keep_private() {
    // If it fails, there is nothing to do about it.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let core = rustix::process::getrlimit(Resource::Core);
    let none = Rlimit { current: Some(0), maximum: core.maximum };
    let _ = rustix::process::setrlimit(Resource::Core, none);
    CORE.get_or_init(|| core);
    let env = READ.get_or_init(Env::read);
    wipe_credentials(&env.secret_values(|_| false));
}

/// Overwrites these words in the memory where `/proc/PID/cmdline` shows this process's arguments: other users could read a
/// prompt there, and a command `pkill -f` with a word of the prompt would end the run. Call it before [`keep_private`],
/// while there is one thread; [`std::env::args_os`] has empty words in their place from then on. Without /proc they stay.
pub fn wipe_arguments(words: &[&OsStr]) {
    if words.is_empty() {
        return;
    }
    let wipe = || {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let mut at = field(&stat, 48)?.parse::<u64>().ok()?;
        let memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem").ok()?;
        for word in std::env::args_os() {
            if words.contains(&word.as_os_str()) {
                memory.write_all_at(&vec![0; word.len()], at).ok()?;
            }
            at += word.len() as u64 + 1;
        }
        Some(())
    };
    // If it fails, there is nothing to do about it.
    let _ = wipe();
}

/// The limit of core dumps that this process was started with, for commands; `None` when it never changed.
pub(super) fn core_limit() -> Option<Rlimit> {
    CORE.get().copied()
}

/// Overwrites the values of credentials in this process's environment block, where `/proc/PID/environ` shows them.
#[expect(unsafe_code, reason = "the block can be reached by the C library's pointer alone")]
fn wipe_credentials(secrets: &[&OsStr]) {
    unsafe extern "C" {
        static environ: *mut *mut std::ffi::c_char;
    }
    // SAFETY: nothing in this process changes the environment, there is one thread, and `environ` is a list of strings
    // with a null pointer at its end, or null.
    let mut entry = unsafe { environ };
    // SAFETY: as for `environ` itself; `entry` never goes beyond the null pointer.
    while let Some(start) = unsafe { entry.as_ref() }.filter(|start| !start.is_null()).copied() {
        // SAFETY: the entry is a string that ends with NUL. The borrow is over before the bytes are written.
        let text = unsafe { CStr::from_ptr(start) }.to_bytes();
        if let Some(at) = text.iter().position(|byte| *byte == b'=') {
            let (name, value) = (&text[..at], &text[at + 1..]);
            // The HTTP client reads these from the environment.
            let is_read = name.to_ascii_uppercase().ends_with(b"_PROXY");
            if !is_read && is_withheld(OsStr::from_bytes(name), OsStr::from_bytes(value), secrets) {
                let (from, length) = (at + 1, value.len());
                // SAFETY: within the string, its NUL untouched. The block belongs to this process, which may write it.
                unsafe { start.add(from).write_bytes(0, length) };
            }
        }
        // SAFETY: `entry` is not the null pointer at the end.
        entry = unsafe { entry.add(1) };
    }
}

/// The host's name.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// System, host name, release and machine, as `uname` prints them.
pub fn describe_host() -> String {
    let uname = rustix::system::uname();
    [uname.sysname(), uname.nodename(), uname.release(), uname.machine()]
        .map(|part| part.to_string_lossy().into_owned())
        .join(" ")
}

#[cfg(test)]
mod tests;
