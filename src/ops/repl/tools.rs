//! The commands of a session. Each is a call of an executable of the toolkit, or a value of the session.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::commands::{Verb, help_text};
use super::{Next, Session};
use crate::approve::Approve;
use crate::exit::Exit;
use crate::out;
use crate::problem::Problem;
use crate::sandbox::SandboxMode;
use crate::sys::foreground::{Ended, Variables};
use crate::sys::names::{expand_home, shown};
use crate::sys::{fs, tty};

impl Session {
    /// Does what a command says.
    pub(super) fn run_command(&mut self, verb: Verb, argument: &str) -> Result<Next, Problem> {
        match verb {
            Verb::Help => {
                out::piece(&help_text());
                Ok(Next::Input)
            }
            Verb::Quit => Ok(Next::End),
            Verb::Clear => match self.archive() {
                Ok(()) => {
                    self.show_text(&self.look.cleared);
                    Ok(Next::Input)
                }
                Err(problem) => Ok(self.refuse(problem.message)),
            },
            Verb::Model => self.run_model(argument),
            Verb::Status => self.run_nagent(&["--status".into()]),
            Verb::Save => self.run_nagent(&[flag("--save-conversation", argument)]),
            Verb::Load => self.run_nagent(&[flag("--load-conversation", argument)]),
            Verb::Branch => self.run_nagent(&[flag("--branch-conversation", argument)]),
            Verb::List => self.run_conversations(&["list".into()]),
            Verb::Summarize => self.run_nagent(&["--summarize".into()]),
            Verb::EditConversation if argument.is_empty() => self.edit_conversation(),
            Verb::EditConversation => {
                self.run_nagent(&["--edit-conversation".into(), "--".into(), argument.into()])
            }
            Verb::EditPrompt => self.edit_prompt(),
            Verb::Read => Ok(self.add_read(argument)),
            Verb::File => self.edit_file(argument),
            Verb::Undo if argument.is_empty() => self.run_nagent(&["--undo".into()]),
            Verb::Undo => {
                let words = ["--undo".into(), "--".into(), argument.into()];
                self.run_unchecked("nagent-file-edit", &words)
            }
            Verb::Check => {
                self.args.check = (argument != "off").then(|| argument.to_owned());
                Ok(self.tell_setting("check", argument))
            }
            Verb::Approve => match Approve::parse(argument) {
                Ok(approve) => {
                    self.args.approve = Some(approve);
                    Ok(self.tell_setting("approve", argument))
                }
                Err(why) => Ok(self.refuse(format!("/approve: {why}"))),
            },
            Verb::Sandbox => match SandboxMode::parse(argument) {
                Ok(mode) => {
                    self.args.sandbox = Some(mode);
                    Ok(self.tell_setting("sandbox", argument))
                }
                Err(why) => Ok(self.refuse(format!("/sandbox: {why}"))),
            },
            Verb::Show => self.show_conversation(argument),
        }
    }

    /// Runs a command line in the user's shell.
    pub(super) fn run_shell(&mut self, command: &str) -> Next {
        let shell = self.user_env.get("SHELL").unwrap_or("/bin/sh").to_owned();
        let words: [OsString; 3] = [shell.into(), "-c".into(), command.into()];
        let ended = self.foreground.run(&words, &self.user_env.for_children(&[]));
        match ended {
            Ok(Ended::Code(0)) => Next::Input,
            Ok(Ended::Code(code)) if self.is_interactive => {
                out::line(&format!("exit {code}"));
                Next::Input
            }
            Ok(Ended::Code(code)) => {
                Next::Failed(Exit::Command(u8::try_from(code).unwrap_or(1)), None)
            }
            Ok(Ended::Signal(number)) => self.refuse(format!("signal {number} ended {command}")),
            Err(error) => self.refuse(format!("{error:#}")),
        }
    }

    /// Archives the conversation, and begins a new one.
    pub(super) fn archive(&self) -> Result<(), Problem> {
        let mut words = self.nagent_words("nagent")?;
        words.extend([self.conversation_flag(), "--clear".into(), "--json".into()]);
        let (ended, output) = self.foreground.read(&words, &self.variables())?;
        if ended == Ended::Code(0) {
            return Ok(());
        }
        let document: Map<String, Value> = serde_json::from_slice(&output).unwrap_or_default();
        let error =
            document.get("error").and_then(Value::as_str).unwrap_or("nagent --clear failed");
        Err(Problem::failed(error))
    }

    /// The beginning of a call of a tool: its path, and the flags that the session was given.
    pub(super) fn nagent_words(&self, tool: &str) -> Result<Vec<OsString>, Problem> {
        let path = self.env.tool(tool);
        if !path.is_absolute() {
            return Err(Problem::failed(format!(
                "{tool} is not beside this program; install both into the same folder"
            )));
        }
        Ok([path.into_os_string()].into_iter().chain(self.args.words()).collect())
    }

    pub(super) fn conversation_flag(&self) -> OsString {
        flag("--conversation", &self.name)
    }

    /// The variables of tools.
    pub(super) fn variables(&self) -> Variables {
        self.env.for_children(&[])
    }

    /// Calls nagent on the conversation.
    fn run_nagent(&mut self, more: &[OsString]) -> Result<Next, Problem> {
        let flag = self.conversation_flag();
        self.run_unchecked("nagent", &[&[flag], more].concat())
    }

    /// Runs a tool without the session's check, which is for prompts.
    fn run_unchecked(&mut self, tool: &str, more: &[OsString]) -> Result<Next, Problem> {
        let check = self.args.check.take();
        let next = self.run_tool(tool, more);
        self.args.check = check;
        next
    }

    fn run_conversations(&mut self, more: &[OsString]) -> Result<Next, Problem> {
        let mut words = vec![self.tool_path("nagent-conversations")?];
        words.push(flag_path("--root", self.settings.root.path().to_owned()));
        words.extend_from_slice(more);
        self.call(words)
    }

    fn run_tool(&mut self, tool: &str, more: &[OsString]) -> Result<Next, Problem> {
        let mut words = self.nagent_words(tool)?;
        words.extend_from_slice(more);
        self.call(words)
    }

    fn tool_path(&self, tool: &str) -> Result<OsString, Problem> {
        self.nagent_words(tool).map(|mut words| words.swap_remove(0))
    }

    /// Runs a tool on the terminal. With `--json` its document is one of the session's.
    fn call(&mut self, mut words: Vec<OsString>) -> Result<Next, Problem> {
        let variables = self.variables();
        let ended = if self.args.json {
            words.insert(1, "--json".into());
            let (ended, output) = self.foreground.read(&words, &variables)?;
            self.documents.extend(serde_json::from_slice::<Value>(&output));
            ended
        } else {
            self.foreground.run(&words, &variables)?
        };
        Ok(match ended {
            Ended::Code(0) => Next::Input,
            Ended::Code(code) if !self.is_interactive => {
                let exit = u64::try_from(code).ok().and_then(Exit::from_code);
                Next::Failed(exit.unwrap_or(Exit::Failed), None)
            }
            Ended::Signal(number) => self.refuse(format!("signal {number} ended the tool")),
            // It has said why.
            Ended::Code(_) => Next::Input,
        })
    }

    fn run_model(&mut self, argument: &str) -> Result<Next, Problem> {
        let (keeps, name) = match argument.strip_prefix("--keep") {
            Some(name) if name.is_empty() || name.starts_with(' ') => (true, name.trim()),
            _ => (false, argument),
        };
        if name.is_empty() {
            return self.list_models();
        }
        self.args.model.model = Some(name.to_owned());
        self.settings.config.model = Some(name.to_owned());
        if !keeps {
            return self.run_command(Verb::Clear, "");
        }
        Ok(self.tell_setting("model", name))
    }

    fn list_models(&mut self) -> Result<Next, Problem> {
        let mut words = self.nagent_words("nagent")?;
        words.extend(["--list-models".into(), "--json".into()]);
        let (_, output) = self.foreground.read(&words, &self.variables())?;
        let document: Map<String, Value> = serde_json::from_slice(&output).unwrap_or_default();
        if let Some(error) = document.get("error").and_then(Value::as_str) {
            let model = self.settings.config.model.as_deref().unwrap_or("(none)");
            return Ok(self.refuse(format!("{error}; the model is {model}")));
        }
        let models = document.get("models").and_then(Value::as_array).into_iter().flatten();
        let models: Vec<String> = models.filter_map(Value::as_str).map(str::to_owned).collect();
        let current = self.settings.config.model.as_deref();
        for model in &models {
            let mark = if current == Some(model) { "*" } else { " " };
            out::piece(&format!("{mark} {model}\n"));
        }
        *self.models.borrow_mut() = models;
        Ok(Next::Input)
    }

    /// Opens the conversation's file in the editor. What cannot be read afterwards is reported.
    fn edit_conversation(&mut self) -> Result<Next, Problem> {
        let path = self.settings.root.conversation(&self.name);
        if fs::file_size(&path).is_none() {
            return Ok(self.refuse("the conversation is empty"));
        }
        let editor = tty::editor(&self.user_env);
        let words = [
            "/bin/sh".into(),
            "-c".into(),
            format!("{editor} \"$1\"").into(),
            "sh".into(),
            path.into_os_string(),
        ];
        let ended = self.foreground.run(&words, &self.user_env.for_children(&[]))?;
        if ended != Ended::Code(0) {
            return Ok(self.refuse(format!("the editor {editor} failed")));
        }
        let name = self.name.clone();
        let words = [
            self.tool_path("nagent-conversations")?,
            flag_path("--root", self.settings.root.path().to_owned()),
            "--json".into(),
            "lint".into(),
            name.into(),
        ];
        let (_, output) = self.foreground.read(&words, &self.variables())?;
        let document: Map<String, Value> = serde_json::from_slice(&output).unwrap_or_default();
        let findings = document.get("findings").and_then(Value::as_array).into_iter().flatten();
        for finding in findings {
            let message = finding["message"].as_str().unwrap_or_default();
            out::line(&format!("line {}: {message}", finding["line"]));
        }
        Ok(Next::Input)
    }

    fn edit_prompt(&mut self) -> Result<Next, Problem> {
        match tty::edit_text("") {
            Ok(text) if text.trim().is_empty() => Ok(self.refuse("nothing was written")),
            Ok(text) => {
                out::line(text.trim());
                self.run_prompt(text.trim())
            }
            Err(error) => Ok(self.refuse(format!("{error:#}"))),
        }
    }

    fn add_read(&mut self, path: &str) -> Next {
        let path = PathBuf::from(path);
        let folder = self.env.current_folder().unwrap_or_default();
        let full = folder.join(expand_home(&path, self.env.home().as_deref()));
        if fs::file_size(&full).is_none() {
            return self.refuse(format!("/read: there is no file {}", shown(&path)));
        }
        if self.is_interactive {
            out::line(&format!("the model is shown {} with the next prompt", shown(&path)));
        }
        self.reads.push(path);
        Next::Input
    }

    fn edit_file(&mut self, argument: &str) -> Result<Next, Problem> {
        let Some((path, words)) = argument.split_once(char::is_whitespace) else {
            return Ok(self.refuse("/file needs a file and what to change in it: FILE WORDS"));
        };
        let words = ["--".into(), path.into(), words.trim().into()];
        self.run_tool("nagent-file-edit", &words)
    }

    fn show_conversation(&mut self, argument: &str) -> Result<Next, Problem> {
        let mut words: Vec<OsString> = vec!["show".into()];
        if !argument.is_empty() {
            words.push(flag("--last", argument));
        }
        words.push(self.name.clone().into());
        self.run_conversations(&words)
    }

    fn tell_setting(&self, name: &str, value: &str) -> Next {
        if self.is_interactive {
            out::line(&format!("{name}: {value}"));
        }
        Next::Input
    }
}

fn flag(name: &str, value: &str) -> OsString {
    OsString::from(format!("{name}={value}"))
}

fn flag_path(name: &str, path: PathBuf) -> OsString {
    let mut word = OsString::from(format!("{name}="));
    word.push(path);
    word
}
