//! Implements the functions of a script's API ([`crate::script::js::api`]), within the limits of the policy and the user.

mod files;
mod modules;
mod network;
mod system;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::permission::Permissions;
use super::policy::AccessRequest;
use conversation::format::harmless::escape_text;
use conversation::limits;
use sys::env::Env;
use sys::stdin;

/// Output of a script.
#[derive(Debug, Clone, Copy)]
pub enum Output<'a> {
    /// A line for stderr.
    Console(&'a str),
    /// Text for stdout.
    Stdout(&'a str),
}

/// The parent's side of a script's API.
pub struct Bridges<'a> {
    /// The permissions of the script.
    pub permissions: Permissions<'a>,
    /// The environment.
    pub env: &'a Env,
    /// The working folder.
    pub cwd: PathBuf,
    /// The text of stdin; `None` as long as nobody has read it.
    pub stdin: Option<String>,
    /// Receives the output of the script.
    pub on_output: Box<dyn FnMut(Output<'_>) + 'a>,
    /// The console output so far, within the limit.
    pub console: String,
    /// Size of the output to stdout so far, in bytes.
    pub stdout_bytes: usize,
}

impl<'a> Bridges<'a> {
    /// Creates the parent's side; `on_output` receives the output of the script.
    pub fn new(
        permissions: Permissions<'a>,
        env: &'a Env,
        cwd: PathBuf,
        on_output: Box<dyn FnMut(Output<'_>) + 'a>,
    ) -> Self {
        let (stdin, console) = (None, String::new());
        Self { permissions, env, cwd, stdin, on_output, console, stdout_bytes: 0 }
    }

    /// Resets the counts of output for the next script.
    pub(super) fn begin(&mut self) {
        self.console.clear();
        self.stdout_bytes = 0;
        self.permissions.asked = Duration::ZERO;
    }

    /// Executes a function of the API, by `deadline`.
    ///
    /// # Errors
    /// The message of the error that the script gets.
    pub(super) fn call_function(
        &mut self,
        name: &str,
        args: Vec<Value>,
        deadline: Option<Instant>,
    ) -> Result<Value, String> {
        let args = Args { name, values: args };
        let cwd = self.cwd.clone();
        let path = |at| args.path_argument(&cwd, at);
        let done = |done: Result<(), String>| done.map(|()| Value::Null);
        match name {
            "fs.readFile" => self.read_file(path(0)?, args.is_base64(1)?),
            "fs.writeFile" => done(self.write_file(&path(0)?, &args.bytes_argument(1)?)),
            "fs.appendFile" => done(self.append_file(&path(0)?, &args.bytes_argument(1)?)),
            "fs.readDir" => self.read_dir(&path(0)?),
            "fs.stat" => self.stat(&path(0)?),
            "fs.exists" => Ok(self.exists(&path(0)?).into()),
            "fs.delete" => done(self.delete(&path(0)?)),
            "fs.mkdir" => done(self.make_folder(&path(0)?)),
            "fs.copy" => done(self.copy(&path(0)?, &path(1)?)),
            "fs.move" => done(self.rename(&path(0)?, &path(1)?)),
            "fs.glob" => self.glob(&path(0)?),
            "net.fetch" => self
                .fetch(args.text_argument(0)?, args.values.get(1), deadline)
                .map_err(|why| format!("net.fetch: {why}")),
            "env.get" => self.variable(args.text_argument(0)?),
            "process.sleep" => done(self.sleep(args.values.first(), deadline)),
            "process.stdin.read" => self.read_stdin(),
            "process.stdout.write" => done(self.write_stdout(args.text_argument(0)?)),
            "console.log" | "console.error" => done(self.write_console(args.text_argument(0)?)),
            "require" => self.find_module(args.text_argument(0)?, args.text_argument(1)?),
            name if name.starts_with("sys.") => {
                system::describe(&name[4..]).ok_or_else(|| format!("there is no {name}"))
            }
            name => Err(format!("there is no {name}")),
        }
    }

    fn read_stdin(&mut self) -> Result<Value, String> {
        if self.stdin.is_none() {
            let text = stdin::read_text(self.permissions.interrupts);
            let text = text.map_err(|error| format!("process.stdin.read: {error:#}"))?;
            self.stdin = Some(text.map_err(|_| "interrupted".to_owned())?);
        }
        Ok(json!(self.stdin))
    }

    fn write_stdout(&mut self, text: &str) -> Result<(), String> {
        self.stdout_bytes += text.len();
        if self.stdout_bytes > limits::JS_STDOUT {
            return Err(format!(
                "process.stdout.write: over the limit of {} bytes",
                limits::JS_STDOUT
            ));
        }
        (self.on_output)(Output::Stdout(text));
        Ok(())
    }

    fn write_console(&mut self, text: &str) -> Result<(), String> {
        if self.console.len() + text.len() >= limits::JS_CONSOLE {
            return Err(format!("the console is full: its limit is {} bytes", limits::JS_CONSOLE));
        }
        self.console.push_str(text);
        self.console.push('\n');
        (self.on_output)(Output::Console(text));
        Ok(())
    }

    fn sleep(&self, ms: Option<&Value>, deadline: Option<Instant>) -> Result<(), String> {
        let ms =
            ms.and_then(Value::as_f64).ok_or("process.sleep: give a number of milliseconds")?;
        let time = Duration::try_from_secs_f64(ms.max(0.0) / 1000.0).unwrap_or(Duration::MAX);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        self.permissions.interrupts.wait_for_signal(Some(left.map_or(time, |left| left.min(time))));
        Ok(())
    }

    fn variable(&mut self, name: &str) -> Result<Value, String> {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(format!(
                "env.get: \"{}\" is not the name of a variable",
                escape_text(name)
            ));
        }
        let is_secret = self.env.is_secret(name);
        self.permissions.permit(AccessRequest::Variable(name, is_secret))?;
        Ok(json!(self.env.get(name).unwrap_or_default()))
    }
}

/// The arguments of a call.
struct Args<'a> {
    name: &'a str,
    values: Vec<Value>,
}

impl Args<'_> {
    fn text_argument(&self, at: usize) -> Result<&str, String> {
        self.values
            .get(at)
            .and_then(Value::as_str)
            .ok_or_else(|| format!("{}: argument {} must be a string", self.name, at + 1))
    }

    /// An absolute path, relative to the working folder if necessary.
    fn path_argument(&self, cwd: &Path, at: usize) -> Result<PathBuf, String> {
        let text = self.text_argument(at)?;
        if text.is_empty() || text.contains('\0') {
            return Err(format!("{}: the path is empty, or contains a NUL byte", self.name));
        }
        Ok(cwd.join(text))
    }

    fn is_base64(&self, at: usize) -> Result<bool, String> {
        let encoding = self.values.get(at).unwrap_or(&Value::Null);
        let is_utf8 = |word: &str| matches!(&*word.to_ascii_lowercase(), "utf8" | "utf-8");
        match encoding.as_str() {
            Some("base64") => Ok(true),
            None if encoding.is_null() => Ok(false),
            Some(word) if is_utf8(word) => Ok(false),
            _ => Err(format!("{}: the encoding is \"base64\", or is left out", self.name)),
        }
    }

    /// The text of an argument, decoded from base64 if the next argument is `"base64"`.
    fn bytes_argument(&self, at: usize) -> Result<Vec<u8>, String> {
        use base64::Engine;
        let text = self.text_argument(at)?;
        let bytes = if self.is_base64(at + 1)? {
            base64::engine::general_purpose::STANDARD
                .decode(text)
                .map_err(|error| format!("{}: that is not base64: {error}", self.name))?
        } else {
            text.as_bytes().to_vec()
        };
        if bytes.len() > limits::JS_WRITE {
            return Err(format!(
                "{}: {} bytes are over the limit of {}",
                self.name,
                bytes.len(),
                limits::JS_WRITE
            ));
        }
        Ok(bytes)
    }
}
