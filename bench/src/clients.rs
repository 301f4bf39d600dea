//! The three clients: nagent, `curl`, and the bare loop. Each gets a world of its own below one folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::process::{Sample, run};
use crate::server::{Server, render};

/// Where everything lies, and what is measured.
pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) folder: PathBuf,
    pub(crate) nagent: PathBuf,
    /// The shell of the bare loop: the one that nagent uses.
    shell: String,
}

/// The replies of a run: as many commands as turns, then an answer.
pub(crate) fn script(turns: usize, deltas: usize) -> Arc<Vec<Vec<u8>>> {
    let command = render("<nagent-shell>true</nagent-shell>", 3);
    // 25,000 letters, so that a delta is about five of them when there are 5,000.
    let text = if deltas > 1 { "word ".repeat(5000) } else { "done".to_owned() };
    let answer = render(&format!("<nagent-response>{text}</nagent-response>"), deltas);
    let mut replies = vec![command; turns];
    replies.push(answer);
    Arc::new(replies)
}

impl Bench {
    /// Makes the folders and the config, and runs nagent once, so that its caches are as in daily use.
    pub(crate) fn new(nagent: &Path, folder: &Path, shell: Option<&str>) -> Result<Self, String> {
        let say = |error: std::io::Error| format!("{}: {error}", folder.display());
        let server = Server::start().map_err(say)?;
        let root = folder.join("home/.nagent");
        std::fs::create_dir_all(&root).map_err(say)?;
        std::fs::create_dir_all(folder.join("work")).map_err(say)?;
        // Without the sandbox, as the bare loop has none.
        // nagent's own choice: bash where there is one.
        let has_bash = Path::new("/bin/bash").exists() || Path::new("/usr/bin/bash").exists();
        let loop_shell = shell.unwrap_or(if has_bash { "bash" } else { "sh" }).to_owned();
        let shell = shell.map(|shell| format!(",\"shell\":\"{shell}\"")).unwrap_or_default();
        let config = format!(
            "{{\"provider\":\"openai\",\"model\":\"bench\",\"context_window_tokens\":100000000,\"sandbox\":\"off\",\"base_url\":\"http://127.0.0.1:{}/v1\"{shell}}}",
            server.port
        );
        std::fs::write(root.join("config.json"), config).map_err(say)?;
        let nagent =
            nagent.canonicalize().map_err(|error| format!("{}: {error}", nagent.display()))?;
        let bench = Self { server, folder: folder.to_owned(), nagent, shell: loop_shell };
        bench.nagent(&script(0, 1), "warm-up", &["warm up"])?;
        Ok(bench)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .current_dir(self.folder.join("work"))
            .env("HOME", self.folder.join("home"));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("OPENAI_API_KEY", "bench").env("TZ", "UTC").env("LC_ALL", "C");
        command
    }

    pub(crate) fn conversation(&self, name: &str) -> PathBuf {
        self.folder.join("home/.nagent/conversations").join(name)
    }

    /// One run of nagent in the conversation `name`.
    pub(crate) fn nagent(
        &self,
        replies: &Arc<Vec<Vec<u8>>>,
        name: &str,
        words: &[&str],
    ) -> Result<Sample, String> {
        self.server.script(replies);
        let mut command = self.command(&self.nagent);
        command.args(["--conversation", name, "--max-turns", "100000"]).args(words);
        run(&self.server, command, replies.len())
    }

    /// One post of `body` by curl.
    pub(crate) fn curl(&self, replies: &Arc<Vec<Vec<u8>>>, body: &Path) -> Result<Sample, String> {
        self.server.script(replies);
        let mut command = self.command("curl");
        command.args([
            "-sS",
            "-N",
            "-o",
            "/dev/null",
            "-H",
            "content-type: application/json",
            "-H",
            "Expect:",
        ]);
        command.arg("--data-binary").arg(format!("@{}", body.display()));
        command.arg(format!("http://127.0.0.1:{}/v1/chat/completions", self.server.port));
        run(&self.server, command, 1)
    }

    /// One run of the bare loop with bodies as large as those of `like`.
    pub(crate) fn floor(
        &self,
        replies: &Arc<Vec<Vec<u8>>>,
        like: &Sample,
    ) -> Result<Sample, String> {
        let turns = replies.len() - 1;
        let grow = like.last_bytes.saturating_sub(like.first_bytes).checked_div(turns).unwrap_or(0);
        self.server.script(replies);
        let mut command = self.command(std::env::current_exe().map_err(|error| error.to_string())?);
        let file = self.folder.join("floor.txt");
        let _ = std::fs::remove_file(&file);
        command.arg("floor");
        command.args(
            [usize::from(self.server.port), turns, like.first_bytes, grow].map(|n| n.to_string()),
        );
        command.arg(file).arg(&self.shell);
        run(&self.server, command, replies.len())
    }

    /// A conversation of about `size` bytes, made by nagent itself from prompts of 60 KiB: longer ones are kept beside it.
    pub(crate) fn make_conversation(&self, name: &str, size: usize) -> Result<usize, String> {
        const PROMPT: usize = 60 << 10;
        let line = "A line of a log, with \"quotes\", a \\ and a tab\tin it, as logs have.\n";
        let prompt = line.repeat(PROMPT / line.len());
        let source = self.folder.join("prompt.txt");
        std::fs::write(&source, prompt).map_err(|error| error.to_string())?;
        let replies = script(0, 1);
        for _ in 0..size.div_ceil(PROMPT) {
            self.server.script(&replies);
            let mut command = self.command(&self.nagent);
            command
                .args(["--conversation", name, "-"])
                .stdin(std::fs::File::open(&source).map_err(|e| e.to_string())?);
            let output = command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .output()
                .map_err(|e| e.to_string())?;
            if !output.status.success() {
                return Err(format!(
                    "a long prompt: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                ));
            }
        }
        let length =
            std::fs::metadata(self.conversation(name)).map_err(|error| error.to_string())?.len();
        usize::try_from(length).map_err(|error| error.to_string())
    }

    /// A fresh copy of the conversation `from`, on disk before it is used.
    pub(crate) fn copy(&self, from: &str, to: &str) -> Result<(), String> {
        let (from, to) = (self.conversation(from), self.conversation(to));
        let copied = std::fs::copy(from, &to).and_then(|_| std::fs::File::open(&to)?.sync_all());
        copied.map_err(|error| format!("{}: {error}", to.display()))
    }

    /// What one append of 300 bytes with `fdatasync` costs here, in milliseconds.
    pub(crate) fn sync_cost(&self) -> Vec<f64> {
        use std::io::Write;
        let Ok(mut file) = std::fs::File::create(self.folder.join("sync.txt")) else {
            return Vec::new();
        };
        let mut times = Vec::new();
        for _ in 0..50 {
            let begin = std::time::Instant::now();
            if file.write_all(&[b'x'; 300]).and_then(|()| file.sync_data()).is_err() {
                break;
            }
            times.push(begin.elapsed().as_secs_f64() * 1000.0);
        }
        times
    }
}
