//! The commands of a session. Each is a call of an executable of the toolkit, or a value of the session.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use serde_json::{Map, Value};

use super::commands::{ReplCommand as Do, help_text};
use super::picker::pick_conversation;
use super::start::Session;
use crate::ops::conversations::Catalog;
use crate::ops::conversations::changes_diff::diff_changes;
use crate::ops::run::prompt_input::refuse_command;
use crate::ops::screen::change_report::print_diff;
use crate::ops::setup::flags::RunArgs;
use crate::out;
use conversation::approve::Approve;
use conversation::exit::Exit;
use conversation::format::harmless::quote_name;
use conversation::format::nearest::nearest;
use conversation::problem::Problem;
use models::catalog::find_model;
use sandbox::SandboxMode;
use sys::names::resolve_links;
use sys::{fs, terminal, tty};

impl Session {
    /// Runs a command of the session.
    pub(super) fn run_command(&mut self, verb: Do, argument: &str) -> Result<(), Problem> {
        match verb {
            Do::Help => self.print_text(&help_text()),
            Do::Quit => self.is_over.set(true),
            Do::Clear => {
                self.archive()?;
                self.show_text(&self.look.cleared);
            }
            Do::Model => self.run_model(argument)?,
            Do::Cost => self.print_cost(),
            Do::Diff => self.show_diff()?,
            Do::Resume => self.resume(argument)?,
            Do::Write if argument.is_empty() => self.show_write()?,
            Do::Flag(name) if argument.is_empty() => {
                let check = self.check.as_ref().filter(|_| name == "--status");
                let check = check.map(|check| format!("--check={check}"));
                let words: Vec<&str> = [name].into_iter().chain(check.as_deref()).collect();
                self.call_tool("nagent", &words)?;
            }
            Do::Flag(name) => self.call_tool("nagent", &[&format!("{name}={argument}")])?,
            Do::List => self.call_tool("nagent-conversations", &["list"])?,
            Do::EditConversation if argument.is_empty() => self.edit_conversation()?,
            Do::EditConversation => {
                self.call_tool("nagent", &["--edit-conversation", "--", argument])?;
            }
            Do::Read => self.add_read(argument)?,
            Do::Undo if argument.split_whitespace().all(is_of_runs) => {
                let words: Vec<&str> =
                    ["--undo"].into_iter().chain(argument.split_whitespace()).collect();
                self.call_tool("nagent", &words)?;
            }
            Do::Undo => self.call_tool("nagent-file-edit", &["--undo", "--", argument])?,
            Do::Check | Do::Approve | Do::Sandbox if argument.is_empty() => {
                self.show_setting(verb)?;
            }
            Do::Check | Do::Approve | Do::Sandbox | Do::Write => {
                self.change_setting(verb, argument)?;
            }
            Do::Show if !argument.is_empty() && argument.parse::<u64>().is_err() => {
                let text = format!("/show takes a number of entries, and not {argument}");
                return Err(Problem::usage(text));
            }
            Do::Show => {
                let (name, last) = (self.name.clone(), format!("--last={argument}"));
                let count = if argument.is_empty() { 2 } else { 3 };
                self.call_tool("nagent-conversations", &["show", &name, &last][..count])?;
            }
        }
        Ok(())
    }

    /// Runs a command line in the user's shell.
    pub(super) fn run_shell(&mut self, command: &str) -> Result<(), Problem> {
        let shell = self.user_env.get("SHELL").unwrap_or("/bin/sh").to_owned();
        let words: [OsString; 3] = [shell.into(), "-c".into(), command.into()];
        let ended = self.foreground.run(&words, &self.user_env)?;
        let Some(code @ 1..) = ended.code() else { return self.check_exit(ended, String::new()) };
        self.print_message(&format!("exit {code}"));
        let exit = Exit::Command(u8::try_from(code).unwrap_or(1));
        if self.is_interactive { Ok(()) } else { Err(Problem::new(exit, "")) }
    }

    /// Archives the conversation, and begins a new one.
    pub(super) fn archive(&self) -> Result<(), Problem> {
        let (ended, document) = self.read_document("nagent", &["--clear"])?;
        if ended.success() { Ok(()) } else { Err(Problem::failed(error_of(&document))) }
    }

    /// A call of a tool, with the flags that the session was given.
    pub(super) fn tool_words(&self, tool: &str, more: &[&str]) -> Result<Vec<OsString>, Problem> {
        let path = self.env.tool_path(tool);
        if !path.is_absolute() {
            return Err(Problem::failed(format!(
                "{tool} not found next to nagent-repl; install both into the same folder"
            )));
        }
        let mut words = vec![path.into_os_string()];
        if tool == "nagent-conversations" {
            words.extend(["--root".into(), self.settings.root.path().into()]);
        } else {
            // The session itself is quiet.
            let args = RunArgs { quiet: false, ..self.args.clone() };
            words.extend(args.words());
        }
        if tool == "nagent" {
            words.push(format!("--conversation={}", self.name).into());
        }
        words.extend(more.iter().map(OsString::from));
        Ok(words)
    }

    /// Runs a tool on the terminal. With `--json` its document is one of the session's.
    fn call_tool(&mut self, tool: &str, more: &[&str]) -> Result<(), Problem> {
        if !self.args.json {
            let words = self.tool_words(tool, more)?;
            return self.check_exit(self.foreground.run(&words, &self.env)?, String::new());
        }
        let (ended, document) = self.read_document(tool, more)?;
        let error = error_of(&document).to_owned();
        self.documents.push(Value::Object(document));
        self.check_exit(ended, error)
    }

    /// Checks how a tool ended; it has already printed why it failed.
    pub(super) fn check_exit(&self, ended: ExitStatus, error: String) -> Result<(), Problem> {
        match ended.code() {
            Some(code @ 1..) if !self.is_interactive => {
                let exit = u64::try_from(code).ok().and_then(Exit::from_code);
                Err(Problem::new(exit.unwrap_or(Exit::Failed), error))
            }
            None if self.is_interactive && ended.signal() == Some(2) => {
                out::print_line("(interrupted)");
                Ok(())
            }
            None => Err(Problem::failed(format!("the command was ended ({ended})"))),
            Some(_) => Ok(()),
        }
    }

    /// Runs a tool for its document, which has also its error.
    fn read_document(
        &self,
        tool: &str,
        more: &[&str],
    ) -> Result<(ExitStatus, Map<String, Value>), Problem> {
        let words = self.tool_words(tool, &[&["--json"], more].concat())?;
        let output = self.foreground.read(&words, &self.env)?;
        Ok((output.status, serde_json::from_slice(&output.stdout).unwrap_or_default()))
    }

    fn run_model(&mut self, name: &str) -> Result<(), Problem> {
        if name.is_empty() {
            return self.list_models();
        }
        self.check_model(name)?;
        self.args.model.model = Some(name.to_owned());
        self.model = Some(name.to_owned());
        if self.look.model_clears {
            return self.run_command(Do::Clear, "");
        }
        self.print_message(&format!("model: {name}"));
        Ok(())
    }

    /// Refuses a model that the provider does not list. One without a list may have any.
    fn check_model(&self, name: &str) -> Result<(), Problem> {
        let is_known = |models: &[String]| models.iter().any(|model| model == name);
        if is_known(&self.models.borrow()) {
            return Ok(());
        }
        let listed = self.fetch_models().unwrap_or_default();
        let provider = self.settings.provider_name();
        let is_version = find_model(name).is_some_and(|it| listed.iter().any(|id| id == it.id));
        if listed.is_empty() || is_known(&listed) || is_version {
            return Ok(());
        }
        let near = nearest(name, listed.iter().map(String::as_str));
        let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
        Err(Problem::failed(format!("{provider} has no model {name}; {near}/model lists them")))
    }

    /// The models that the provider lists.
    fn fetch_models(&self) -> Result<Vec<String>, Problem> {
        let (_, mut document) = self.read_document("nagent", &["--list-models"])?;
        let models = document.remove("models").map(serde_json::from_value::<Vec<String>>);
        let Some(Ok(models)) = models else {
            let (error, model) = (error_of(&document), self.model.as_deref().unwrap_or("not set"));
            return Err(Problem::failed(format!("{error}; the model is {model}")));
        };
        self.models.borrow_mut().clone_from(&models);
        Ok(models)
    }

    fn list_models(&self) -> Result<(), Problem> {
        for model in self.fetch_models()? {
            let mark = if self.model.as_ref() == Some(&model) { "*" } else { " " };
            out::print_part(&format!("{mark} {model}\n"));
        }
        Ok(())
    }

    /// Shows the diff of each file that the conversation has changed.
    fn show_diff(&self) -> Result<(), Problem> {
        let diffs = diff_changes(&self.settings.root, &self.name)?;
        if diffs.is_empty() {
            self.print_text("this conversation has changed no file\n");
        }
        for (path, diff) in &diffs {
            if self.is_interactive {
                print_diff(path, None, diff, true);
            } else {
                self.print_text(&diff.text);
            }
        }
        Ok(())
    }

    /// Continues another conversation, which the user chooses if it is not named.
    fn resume(&mut self, argument: &str) -> Result<(), Problem> {
        let catalog = Catalog::read_indexes(self.settings.root.clone(), self.env.clone());
        let can_pick = self.is_interactive && terminal::stderr_is_terminal();
        self.name = if !argument.is_empty() {
            catalog.resolve_name(Some(argument))?
        } else if can_pick && terminal::can_overwrite() {
            let picked = pick_conversation(&catalog, &self.foreground.interrupts)?;
            let Some(name) = picked else { return Ok(()) };
            name
        } else {
            return self.run_command(Do::List, "");
        };
        self.settings.root.take_up(&self.env.shell_conversation(None), &self.name)?;
        self.show_last_exchange();
        Ok(())
    }

    fn show_setting(&self, verb: Do) -> Result<(), Problem> {
        let value = match verb {
            Do::Check => self.check.clone().unwrap_or_else(|| "off".to_owned()),
            Do::Approve => self.args.approve.unwrap_or(self.settings.config.approve).name().into(),
            // The default depends on the folder.
            _ => {
                let (_, document) = self.read_document("nagent", &["--status"])?;
                let mode = document.get("sandbox").and_then(Value::as_str);
                mode.ok_or_else(|| Problem::failed(error_of(&document)))?.to_owned()
            }
        };
        self.print_text(&format!("{value}\n"));
        Ok(())
    }

    fn show_write(&self) -> Result<(), Problem> {
        let here = self.env.current_folder()?;
        let of_config = self.settings.config.write.iter().map(PathBuf::from);
        let mut text = "tags may write in temporary folders".to_owned();
        for folder in self.args.write.iter().cloned().chain(of_config) {
            text.push_str(&format!(", {}", quote_name(resolve_links(&here.join(folder)))));
        }
        self.print_text(&(text + "\n"));
        Ok(())
    }

    /// Opens the conversation's file in the editor. The next run says what it cannot read.
    fn edit_conversation(&mut self) -> Result<(), Problem> {
        let path = self.settings.root.conversation(&self.name);
        if fs::file_size(&path).is_none() {
            return Err(Problem::failed("the conversation is empty"));
        }
        Ok(tty::edit_file(&path)?)
    }

    fn add_read(&mut self, path: &str) -> Result<(), Problem> {
        let path = PathBuf::from(path);
        let (full, name) = (self.env.absolute_path(&path)?, quote_name(&path));
        if fs::file_size(&full).is_none() {
            let why = if full.is_dir() {
                format!("{name} is a folder; name it in the prompt, and the model looks into it")
            } else {
                format!("there is no file {name}")
            };
            return Err(Problem::failed(format!("/read: {why}")));
        }
        self.print_message(&format!("the model is shown {name} with the next prompt"));
        self.reads.push(path);
        Ok(())
    }

    /// Changes a setting of the runs that follow.
    fn change_setting(&mut self, verb: Do, value: &str) -> Result<(), Problem> {
        let args = &mut self.args;
        let (name, result) = match verb {
            Do::Approve => ("approve", Approve::parse(value).map(|it| args.approve = Some(it))),
            Do::Sandbox if value == "off" && self.settings.config.no_network => {
                let why = "only the sandbox keeps commands off the network; start again with --no-network=false";
                ("sandbox", Err(why.to_owned()))
            }
            Do::Sandbox => ("sandbox", SandboxMode::parse(value).map(|it| args.sandbox = Some(it))),
            Do::Write if !matches!(value, "on" | "off") => {
                ("write", Err("use on, which is -w, or off".to_owned()))
            }
            Do::Write => {
                args.write.retain(|folder| folder != Path::new("."));
                args.write.extend((value == "on").then(|| PathBuf::from(".")));
                return self.show_write();
            }
            _ => {
                if value != "off" {
                    refuse_command(&self.env, &self.foreground.interrupts, "/check", value)?;
                }
                self.check = (value != "off").then(|| value.to_owned());
                ("check", Ok(()))
            }
        };
        result.map_err(|why| Problem::failed(format!("/{name}: {why}")))?;
        self.print_message(&format!("{name}: {value}"));
        Ok(())
    }

    /// Tells a person what was done.
    pub(super) fn print_message(&self, what: &str) {
        if self.is_interactive {
            out::print_line(what);
        }
    }
}

/// Whether a word after `/undo` is one of `nagent --undo`: a number or a flag. Another one is a file.
fn is_of_runs(word: &str) -> bool {
    word.starts_with("--") || word.parse::<u64>().is_ok()
}

pub(super) fn error_of(document: &Map<String, Value>) -> &str {
    document.get("error").and_then(Value::as_str).unwrap_or_default()
}
