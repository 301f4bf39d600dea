//! A session: prompts one after another, each of them a run of `nagent --lines` on one conversation. It handles only
//! input and output: the executables of the toolkit do what commands ask for.

mod args;
mod commands;
mod dropped;
mod env_file;
mod picker;
mod prompt_run;
mod start;
mod state;
mod tools;
mod typed_ahead;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub use self::args::{SessionArgs, WITHOUT};
use self::commands::{COMMANDS, Input, parse_input};
use self::dropped::find_dropped_files;
pub use self::start::NAME;
use self::start::Session;
use crate::ops::conversations::Catalog;
use crate::ops::run::skills::Skills;
use crate::ops::setup::completion::newest_of_person;
use crate::out::{self, Report};
use conversation::exit::{Exit, Signal};
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use models::provider::Provider;
use sys::env::Env;
use sys::line::{LineEditor, PlainLines, Typed};
use sys::root::Root;
use sys::{fs, terminal, tty};
use view::look::expand;
use view::style::{PLAIN, Span};

/// Runs a session to its end.
pub fn run_session(args: SessionArgs) -> Result<Report, Problem> {
    let is_interactive = terminal::stdin_is_terminal();
    if args.run.json && is_interactive {
        return Err(Problem::usage("--json is for prompts on stdin, and stdin is a terminal"));
    }
    let mut session = start::start(&args)?;
    if session.look.fresh && !args.new {
        session.archive()?;
    }
    let of_look = session.look.read.iter().map(PathBuf::from);
    session.reads.extend(of_look.filter(|path| fs::file_size(path).is_some()));
    session.show_banner();
    session.show_last_exchange();
    let editor = session.open_editor(args.no_history)?;
    let first = Some(args.run.prompt.join(" ")).filter(|words| !words.is_empty());
    session.run(editor, first)
}

impl Session {
    fn run(
        mut self,
        mut editor: Option<LineEditor>,
        mut first: Option<String>,
    ) -> Result<Report, Problem> {
        let mut lines = PlainLines::default();
        let mut had_input = first.is_some();
        let mut end = Report::done("");
        while !self.is_over.get() {
            let typed = match first.take().or_else(|| self.next_waiting()) {
                Some(text) => Typed::Text(text),
                None => self.read(editor.as_mut(), &mut lines)?,
            };
            let text = match typed {
                Typed::ToEdit(text) => {
                    let edited = tty::edit_text(&text, "prompt.md").unwrap_or_else(|error| {
                        out::print_line(&format!("{NAME}: {error:#}"));
                        text
                    });
                    edited.trim_end_matches('\n').clone_into(&mut self.ahead.get_mut().line);
                    continue;
                }
                Typed::Text(text) => text,
                Typed::End => break,
                Typed::Interrupt if !self.is_interactive => {
                    end = Report::failed(Exit::Signal(Signal::Int), "interrupted by SIGINT");
                    break;
                }
                Typed::Interrupt => {
                    out::print_line("(Ctrl-D or /quit leaves)");
                    continue;
                }
            };
            had_input |= !text.trim().is_empty();
            if let Some(editor) = &mut editor
                && let Err(error) = editor.remember(&text)
            {
                out::print_line(&format!("note: cannot save the history: {error:#}"));
            }
            let done = self.take_input(&text);
            for text in self.ahead.get_mut().sent.drain(..) {
                editor.as_mut().map(|editor| editor.remember(&text));
            }
            match done {
                Ok(()) => {}
                // An error does not end an interactive session.
                Err(problem) if self.is_interactive => {
                    out::print_line(&format!("{NAME}: {problem}"));
                }
                Err(problem) => {
                    // The tool has already printed the reason.
                    let error = Some(problem.to_string()).filter(|message| !message.is_empty());
                    end = Report { exit: problem.exit, error, ..Report::done("") };
                    break;
                }
            }
        }
        if !had_input && !self.is_interactive {
            end = Report::failed(
                Exit::Usage,
                "there is no terminal and no input: nagent-repl needs one of them",
            );
        }
        if self.is_interactive {
            self.show_text(&self.look.bye);
        }
        let path = self.settings.root.conversation(&self.name);
        let runs = std::mem::take(&mut self.documents);
        Ok(end.with("conversation_path", path.display().to_string()).with("runs", runs))
    }

    fn take_input(&mut self, text: &str) -> Result<(), Problem> {
        let dropped = |text| find_dropped_files(text, self.env.home_folder().as_deref());
        let (prompt, files) = match parse_input(text) {
            Input::Prompt(prompt) => (prompt.clone(), dropped(&prompt)),
            // A path begins like a command.
            Input::Wrong(_) => (text.trim().to_owned(), dropped(text.trim())),
            _ => Default::default(),
        };
        if !files.is_empty() {
            for file in files {
                let name = file.file_name().map(quote_name).unwrap_or_default();
                self.print_message(&format!("the model is shown {name}"));
                self.reads.push(file);
            }
            return self.run_prompt(&prompt);
        }
        match parse_input(text) {
            Input::Empty => Ok(()),
            Input::Prompt(prompt) => self.run_prompt(&prompt),
            Input::Command(verb, argument) => self.run_command(verb, &argument),
            Input::Shell(command) => self.run_shell(&command),
            Input::Wrong(why) => Err(Problem::failed(why)),
        }
    }

    /// The next line that was typed during a run, shown as if it were typed now.
    fn next_waiting(&self) -> Option<String> {
        let text = self.ahead.borrow_mut().waiting.pop_front()?;
        let mut spans = expand(self.look.prompt.trim_start_matches('\n'), &self.names());
        spans.push(Span::new(text.as_str(), PLAIN));
        out::print_spans(&spans);
        Some(text)
    }

    /// The editor of the terminal, where it can do that. A history that cannot be used is reported.
    fn open_editor(&self, no_history: bool) -> Result<Option<LineEditor>, Problem> {
        if !self.is_interactive || !terminal::can_overwrite() {
            return Ok(None);
        }
        let folder = self.env.current_folder()?;
        let key = fs::sha256(folder.as_os_str().as_encoded_bytes());
        let path = self.settings.root.path().join("repl").join(format!("{key}.history"));
        let (models, root) = (Rc::clone(&self.models), self.settings.root.clone());
        let env = self.env.clone();
        let mut editor = LineEditor::new(Box::new(move |before| {
            complete(before, &env, &root, &models.borrow())
        }))?;
        if !no_history && let Err(error) = editor.use_history(path) {
            out::print_line(&format!("note: cannot read the history: {error:#}"));
        }
        Ok(Some(editor))
    }

    fn read(
        &self,
        editor: Option<&mut LineEditor>,
        lines: &mut PlainLines,
    ) -> Result<Typed, Problem> {
        if !self.is_interactive {
            return Ok(lines.read(&self.foreground.interrupts)?);
        }
        // The interrupted work has ended.
        self.foreground.interrupts.forget();
        let prompt = self.look.prompt.trim_start_matches('\n');
        // The line editor counts rows from where its prompt begins.
        for _ in prompt.len()..self.look.prompt.len() {
            out::print_line("");
        }
        let spans = expand(prompt, &self.names());
        let plain = out::style_spans(&spans, false);
        if let Some(editor) = editor {
            let styled = out::style_spans(&spans, terminal::has_colours());
            let before = std::mem::take(&mut self.ahead.borrow_mut().line);
            return Ok(editor.read(&plain, &styled, &before)?);
        }
        out::print_codes(&plain);
        let typed = lines.read(&self.foreground.interrupts)?;
        if !matches!(typed, Typed::Text(_)) {
            out::print_line("");
        }
        Ok(typed)
    }

    /// The values of the placeholders in the texts of a look.
    fn names(&self) -> BTreeMap<&'static str, String> {
        let settings = &self.settings;
        let provider = settings.provider_name();
        let model = self.model.clone().unwrap_or_else(|| provider.to_owned());
        let base_url = settings.config.base_url.as_deref();
        let endpoint = settings.provider.endpoint(base_url, None);
        let server = endpoint.map_or_else(|| provider.to_owned(), |endpoint| endpoint.base_url);
        let is_claude = matches!(settings.provider, Provider::Anthropic | Provider::ClaudeCode);
        let folder = self.env.current_folder();
        BTreeMap::from([
            ("who", if is_claude { "Claude".to_owned() } else { model.clone() }),
            ("model", model),
            ("provider", provider.to_owned()),
            ("server", server),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("conversation", self.name.clone()),
            ("cwd", folder.map(|folder| folder.display().to_string()).unwrap_or_default()),
        ])
    }

    fn show_banner(&self) {
        if !self.is_interactive || self.args.quiet {
            return;
        }
        let text = self.look.banner.strip_suffix('\n').unwrap_or(&self.look.banner);
        self.show_text(text);
        if self.args.dangerous {
            out::print_line("note: --dangerous: commands like rm -rf / are not stopped");
        }
    }

    /// Shows a text of the look, on a line or several.
    fn show_text(&self, text: &str) {
        let spans = expand(text, &self.names());
        if !spans.is_empty() && !self.args.quiet {
            out::print_spans(&spans);
        }
    }
}

/// Completes the text before the cursor: the name of a command, its argument, a skill, or a path.
fn complete(before: &str, env: &Env, root: &Root, models: &[String]) -> (usize, Vec<String>) {
    let word = before.rfind([' ', '\n', '"', '\'', '(']).map_or(0, |at| at + 1);
    if let Some(begun) = before[word..].strip_prefix('$') {
        let skills = Skills::find_here(root, env);
        let skills = skills.usable(|name| name.starts_with(begun));
        let names: Vec<String> = skills.map(|(skill, _)| format!("${}", skill.name)).collect();
        if !names.is_empty() {
            return (word, names);
        }
    }
    let (start, mut words) = match before.split_once(' ') {
        Some(("/load" | "/branch" | "/save" | "/resume", argument)) => {
            let catalog = Catalog::read_indexes(root.clone(), env.clone());
            (before.len() - argument.len(), newest_of_person(&catalog, argument))
        }
        Some(("/model", _)) => (before.rfind(' ').map_or(0, |at| at + 1), models.to_vec()),
        Some((name @ ("/approve" | "/sandbox" | "/write"), _)) => {
            let of_name = COMMANDS.iter().find(|(_, names, ..)| names.contains(&&name[1..]));
            let words = of_name.map_or("", |(_, _, words, _)| words).trim_matches(['[', ']']);
            (name.len() + 1, words.split('|').map(str::to_owned).collect())
        }
        None if before.starts_with('/') => {
            let names = COMMANDS.iter().flat_map(|(_, names, ..)| names.iter());
            (0, names.map(|name| format!("/{name}")).collect())
        }
        _ => return complete_path(before, env),
    };
    words.retain(|word| word.starts_with(&before[start..]));
    if words.is_empty() && start == 0 {
        // `/etc/ho` is not a command.
        return complete_path(before, env);
    }
    (start, words)
}

/// The paths that begin with the last word.
fn complete_path(before: &str, env: &Env) -> (usize, Vec<String>) {
    let start = before.rfind([' ', '\n', '"', '\'']).map_or(0, |at| at + 1);
    let word = &before[start..];
    let (parent, name) = word.split_at(word.rfind('/').map_or(0, |at| at + 1));
    let folder = env.absolute_path(Path::new(parent)).unwrap_or_default();
    let names = fs::list_names(&folder).unwrap_or_default().into_iter();
    let names = names.filter(|other| other.starts_with(name));
    let names = names.filter(|other| name.starts_with('.') || !other.starts_with('.'));
    let whole = |other: String| {
        let end = if folder.join(&other).is_dir() { "/" } else { "" };
        format!("{parent}{other}{end}")
    };
    (start, names.map(whole).collect())
}
