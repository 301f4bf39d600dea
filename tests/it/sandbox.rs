//! A world of its own for each test: a home, a work folder, an empty environment, a scripted model.
//!
//! `Sandbox::new().file("a.txt", "x").reply("<nagent-response>hi</nagent-response>").run(&["task"])` runs the
//! real executable and returns a [`Run`]. The world is in a temp folder, so that no repository is above it; tests of
//! the write boundary, which allows temp folders, use [`Sandbox::outside_temp`]. A run that does not end within a
//! minute is killed and fails the test. Nothing here knows how the executables work inside.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::answers::Answer;
use crate::blocks::{Block, blocks};
use crate::fake_llm::{FakeLlm, Request};
use crate::process_under_test::{Run, Running};

/// A key that must not appear in any file, argument or message.
pub(crate) const CANARY: &str = "sk-canary-0123456789abcdef";

/// The path of `nagent`.
pub(crate) const NAGENT: &str = env!("CARGO_BIN_EXE_nagent");
/// The path of `nagent-llm-text`.
pub(crate) const LLM_TEXT: &str = env!("CARGO_BIN_EXE_nagent-llm-text");

/// The path of `nagent-llm-upload`.
pub(crate) const LLM_UPLOAD: &str = env!("CARGO_BIN_EXE_nagent-llm-upload");

/// An answer that ends a run.
pub(crate) fn answer(text: &str) -> String {
    format!("<nagent-response>{text}</nagent-response>")
}

/// A reply that runs commands.
pub(crate) fn shell(commands: &str) -> String {
    format!("<nagent-shell>{commands}</nagent-shell>")
}

/// One test's world.
pub(crate) struct Sandbox {
    base: tempfile::TempDir,
    /// The model.
    pub(crate) llm: FakeLlm,
    env: Vec<(String, String)>,
    mark: String,
}

/// Returns whether bubblewrap is installed. `.ci/run` installs it; a test that needs it passes without it elsewhere.
#[expect(clippy::print_stderr, reason = "nothing is skipped silently")]
pub(crate) fn has_bwrap() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join("bwrap").is_file());
    if !is_there {
        eprintln!("not tested: bwrap is not installed");
    }
    is_there
}

/// Where programs are searched for. The shims of version managers come last: they are scripts that need ten times as long to
/// find Python as it needs to start.
fn path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.sort_by_key(|folder| folder.ends_with("shims"));
    std::env::join_paths(folders).unwrap()
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self::in_folder(&std::env::temp_dir())
    }

    /// A world outside of all temp folders, its work folder a git repository of its own.
    pub(crate) fn outside_temp() -> Self {
        // The project may have been cloned into a temp folder, its target folder with it.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let is_outside = |folder: &&Path| {
            let folder = folder.canonicalize().unwrap_or_default();
            folder.is_dir() && !["/tmp", "/var/tmp"].iter().any(|temp| folder.starts_with(temp))
        };
        // /dev/shm only if nothing else is left: the tags do not search in /dev.
        let home = std::env::home_dir().unwrap_or_default();
        let folder = [target, &home, Path::new("/dev/shm"), Path::new("/run/user")]
            .into_iter()
            .find(is_outside);
        Self::in_folder(folder.expect("a folder outside of /tmp and /var/tmp to write in")).git()
    }

    pub(crate) fn in_folder(folder: &Path) -> Self {
        let base = tempfile::Builder::new()
            .prefix("nagent-test-")
            .tempdir_in(folder.canonicalize().unwrap())
            .unwrap();
        for name in ["home/.nagent", "work", "tmp"] {
            std::fs::create_dir_all(base.path().join(name)).unwrap();
        }
        std::fs::set_permissions(base.path().join("home/.nagent"), Permissions::from_mode(0o700))
            .unwrap();
        let llm = FakeLlm::start();
        let mark = base.path().file_name().unwrap().to_string_lossy().into_owned();
        let sandbox = Self { base, llm, env: Vec::new(), mark };
        let config = serde_json::json!({"provider": "openai", "model": "test-model", "base_url": sandbox.base_url()});
        sandbox.config(config)
    }

    pub(crate) fn base(&self) -> &Path {
        self.base.path()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.base().join("home")
    }

    /// `~/.nagent`.
    pub(crate) fn root(&self) -> PathBuf {
        self.base().join("home/.nagent")
    }

    /// The working folder of runs.
    pub(crate) fn work(&self) -> PathBuf {
        self.base().join("work")
    }

    /// `$TMPDIR`, which the write boundary allows.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.base().join("tmp")
    }

    /// The scripted model's Chat Completions address.
    pub(crate) fn base_url(&self) -> String {
        format!("{}/v1", self.llm.origin())
    }

    /// Writes a file under the work folder.
    pub(crate) fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.write(path, text);
        self
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.work().join(path)).unwrap()
    }

    /// An executable script under the work folder.
    pub(crate) fn script(&self, path: &str, text: &str) -> PathBuf {
        let path = self.write(path, text);
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Makes the work folder a git repository.
    pub(crate) fn git(self) -> Self {
        let mut command = Command::new("git");
        command.args(["init", "--quiet", "-b", "main"]).current_dir(self.work());
        self.set_environment(&mut command, &[]);
        assert!(command.status().unwrap().success(), "git init");
        self
    }

    pub(crate) fn reply(self, text: impl Into<Answer>) -> Self {
        self.llm.push(text);
        self
    }

    pub(crate) fn replies<T: Into<Answer>>(self, texts: impl IntoIterator<Item = T>) -> Self {
        for text in texts {
            self.llm.push(text);
        }
        self
    }

    /// Like [`Sandbox::reply`], for answers that are not text.
    pub(crate) fn answer(self, answer: Answer) -> Self {
        self.reply(answer)
    }

    /// The config file, whole.
    /// Writes the config. Unless it names a sandbox, there is none, so that a test of something else shows that alone.
    pub(crate) fn config(self, mut config: serde_json::Value) -> Self {
        if let Some(keys) = config.as_object_mut() {
            keys.entry("sandbox").or_insert_with(|| "off".into());
        }
        self.config_text(&config.to_string())
    }

    /// Keys beside those of the usual config.
    pub(crate) fn config_also(self, more: serde_json::Value) -> Self {
        let text = std::fs::read_to_string(self.root().join("config.json")).unwrap();
        let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (key, value) in more.as_object().unwrap() {
            config[key] = value.clone();
        }
        self.config(config)
    }

    pub(crate) fn config_text(self, text: &str) -> Self {
        std::fs::write(self.root().join("config.json"), text).unwrap();
        self
    }

    pub(crate) fn no_config(self) -> Self {
        std::fs::remove_file(self.root().join("config.json")).unwrap();
        self
    }

    /// Sets a variable for all runs, also one that the sandbox sets itself.
    pub(crate) fn env(mut self, key: &str, value: impl Into<String>) -> Self {
        self.env.push((key.to_owned(), value.into()));
        self
    }

    fn set_environment(&self, command: &mut Command, more: &[(String, String)]) {
        command
            .env_clear()
            .env("PATH", path())
            .env("HOME", self.home())
            .env("TMPDIR", self.tmp())
            .env("TZ", "UTC")
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("OPENAI_API_KEY", CANARY)
            .env("SANDBOX_MARK", &self.mark);
        for (key, value) in self.env.iter().chain(more) {
            if value.is_empty() {
                command.env_remove(key);
            } else {
                command.env(key, value);
            }
        }
    }

    /// `nagent` with arguments; add what else it needs, then run it.
    pub(crate) fn cmd<S: AsRef<str>>(&self, args: &[S]) -> Invocation<'_> {
        self.program(NAGENT, args)
    }

    /// `nagent-llm-text` with arguments.
    pub(crate) fn llm_text<S: AsRef<str>>(&self, args: &[S]) -> Invocation<'_> {
        self.program(LLM_TEXT, args)
    }

    /// `nagent-llm-upload` with arguments.
    pub(crate) fn llm_upload<S: AsRef<str>>(&self, args: &[S]) -> Invocation<'_> {
        self.program(LLM_UPLOAD, args)
    }

    /// Any program, in this world.
    pub(crate) fn program<S: AsRef<str>>(&self, program: &str, args: &[S]) -> Invocation<'_> {
        Invocation {
            sandbox: self,
            program: program.into(),
            args: args.iter().map(|arg| arg.as_ref().into()).collect(),
            env: Vec::new(),
            folder: self.work(),
            input: Input::Empty,
        }
    }

    /// Runs `nagent` to its end.
    #[must_use = "assert its exit"]
    pub(crate) fn run<S: AsRef<str>>(&self, args: &[S]) -> Run {
        self.cmd(args).run()
    }

    /// The conversation files, the one that was written last at the end.
    pub(crate) fn conversation_paths(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.root().join("conversations")) else {
            return Vec::new();
        };
        let mut paths: Vec<_> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .filter(|path| {
                let name = path.file_name().unwrap().to_string_lossy();
                !name.starts_with('.') && !name.ends_with(".run") && !name.ends_with(".json")
            })
            .collect();
        paths.sort_by_key(|path| std::fs::metadata(path).unwrap().modified().unwrap());
        paths
    }

    pub(crate) fn conversation_path(&self) -> PathBuf {
        self.conversation_paths().pop().expect("a conversation file")
    }

    /// The conversation that was written last.
    pub(crate) fn conversation(&self) -> String {
        std::fs::read_to_string(self.conversation_path()).unwrap()
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        blocks(&self.conversation())
    }

    /// The blocks of one name.
    pub(crate) fn blocks_of(&self, name: &str) -> Vec<Block> {
        self.blocks().into_iter().filter(|block| block.name == name).collect()
    }

    /// The only block of a name.
    pub(crate) fn block(&self, name: &str) -> Block {
        let mut found = self.blocks_of(name);
        assert_eq!(found.len(), 1, "one <{name}> in:\n{}", self.conversation());
        found.remove(0)
    }

    /// Replaces the text of the conversation file as an editor that saves in place does.
    /// The stored content whose hash begins with these digits.
    pub(crate) fn stored(&self, digits: &str) -> PathBuf {
        assert_eq!(digits.len(), 12, "{digits}");
        let names = std::fs::read_dir(self.root().join("outputs")).unwrap();
        let mut paths = names.map(|entry| entry.unwrap().path());
        paths.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(digits)).unwrap()
    }

    pub(crate) fn edit_conversation(&self, edit: impl FnOnce(String) -> String) {
        self.llm.allow_rewrites();
        std::fs::write(self.conversation_path(), edit(self.conversation())).unwrap();
    }

    /// The texts in the `.invalid` folder of the conversation.
    pub(crate) fn invalid(&self) -> Vec<String> {
        let mut folder = self.conversation_path().into_os_string();
        folder.push(".invalid");
        let Ok(entries) = std::fs::read_dir(PathBuf::from(folder)) else { return Vec::new() };
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
            .iter()
            .map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned())
            .collect()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.llm.requests()
    }

    /// The processes that any run of this sandbox left behind, as `pid command`.
    pub(crate) fn processes(&self) -> Vec<String> {
        let wanted = format!("SANDBOX_MARK={}", self.mark).into_bytes();
        let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        numbers
            .filter_map(|pid| {
                let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
                environ.split(|&byte| byte == 0).any(|entry| entry == wanted).then_some(())?;
                let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
                Some(format!("{pid} {}", String::from_utf8_lossy(&command).replace('\0', " ")))
            })
            .collect()
    }

    /// The same, without those that end within two seconds: nagent's own supervisors end a moment after it.
    pub(crate) fn lasting_processes(&self) -> Vec<String> {
        let end = Instant::now() + Duration::from_secs(2);
        loop {
            let left = self.processes();
            if left.is_empty() || Instant::now() > end {
                return left;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Everything under the home, as text, to look for what must not be there.
    pub(crate) fn everything_at_home(&self) -> String {
        let mut all = String::new();
        let mut folders = vec![self.home()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.is_file() {
                    all.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
                }
            }
        }
        all
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Folders that a test made read-only would stay.
        for folder in [self.home(), self.root(), self.work()] {
            drop(std::fs::set_permissions(folder, Permissions::from_mode(0o700)));
        }
    }
}

/// What stdin is.
#[derive(Clone)]
pub(crate) enum Input {
    /// `/dev/null`.
    Empty,
    /// A pipe with these bytes, then its end.
    Bytes(Vec<u8>),
    /// A pipe that nobody writes to and nobody closes.
    Silent,
}

/// A command line that is being put together.
pub(crate) struct Invocation<'a> {
    sandbox: &'a Sandbox,
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(String, String)>,
    folder: PathBuf,
    input: Input,
}

impl Invocation<'_> {
    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Input::Bytes(bytes.into());
        self
    }

    pub(crate) fn silent_stdin(mut self) -> Self {
        self.input = Input::Silent;
        self
    }

    /// A variable for this run; an empty value takes it away.
    pub(crate) fn env(mut self, key: &str, value: impl Into<String>) -> Self {
        self.env.push((key.to_owned(), value.into()));
        self
    }

    pub(crate) fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = folder.into();
        self
    }

    /// The same without the terminal that the tests may have been started from: nobody is there to ask.
    pub(crate) fn without_terminal(mut self) -> Self {
        self.args
            .splice(0..0, ["-w".into(), std::mem::replace(&mut self.program, "setsid".into())]);
        self
    }

    /// Starts it and returns while it runs.
    pub(crate) fn spawn(self) -> Running {
        let shown =
            format!("{} {:?}", Path::new(&self.program).file_name().unwrap().display(), self.args);
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(&self.folder);
        self.sandbox.set_environment(&mut command, &self.env);
        command.stdin(match self.input {
            Input::Empty => Stdio::null(),
            Input::Bytes(_) | Input::Silent => Stdio::piped(),
        });
        let mut running = Running::start(command, shown);
        if let Input::Bytes(bytes) = self.input {
            let mut pipe = running.take_stdin();
            // In a thread: the pipe holds 64 KiB, and the program may end without reading.
            std::thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        running
    }

    /// Runs it to its end.
    #[must_use = "assert its exit"]
    pub(crate) fn run(self) -> Run {
        self.spawn().wait()
    }

    /// The same with stdout and stderr on a terminal of its own, with this many columns. What the terminal got is stdout.
    pub(crate) fn on_terminal(mut self, columns: u16) -> Self {
        let words = self.quoted();
        let line = format!("stty cols {columns} < /dev/tty; exec {words} < /dev/null");
        self.program = "script".into();
        self.args = ["-q", "-e", "-f", "-c", &line, "/dev/null"].map(OsString::from).to_vec();
        if !self.env.iter().any(|(name, _)| name == "TERM") {
            self = self.env("TERM", "xterm");
        }
        self.env("SHELL", "/bin/sh").silent_stdin()
    }

    /// The command that it starts, with the variables of its world.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(&self.folder);
        self.sandbox.set_environment(&mut command, &self.env);
        if command.get_envs().all(|(name, _)| name != "TERM") {
            command.env("TERM", "xterm");
        }
        command
    }

    /// The command line as a shell reads it.
    fn quoted(&self) -> String {
        let quote =
            |word: &OsString| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"));
        let words: Vec<_> = std::iter::once(&self.program).chain(&self.args).map(quote).collect();
        words.join(" ")
    }

    /// Runs it with stderr on a terminal of its own, made by `script` of util-linux: what the terminal got is
    /// `stderr`, and `stdout` is a file.
    #[must_use = "assert its exit"]
    pub(crate) fn run_on_terminal(mut self) -> Run {
        let out = self.sandbox.base().join("stdout-of-terminal-run");
        let line = format!("{} > '{}' < /dev/null", self.quoted(), out.display());
        self.program = "script".into();
        self.args = ["-q", "-e", "-f", "-c", &line, "/dev/null"].map(OsString::from).to_vec();
        let mut run = self.env("SHELL", "/bin/sh").env("TERM", "xterm").silent_stdin().run();
        run.stderr = std::mem::take(&mut run.stdout);
        run.stdout = std::fs::read_to_string(out).unwrap();
        run
    }
}

/// Waits until `is_so`, up to half a minute: machines that run tests are busy.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited 30 s in vain until {what}");
        // Looked at more seldom the longer it takes, as some looks are at a whole screen.
        let pause = start.elapsed() / 32;
        std::thread::sleep(pause.clamp(Duration::from_millis(2), Duration::from_millis(20)));
    }
}
