//! The base of all tools: parsing, `--description`, `--json`, panics, and the [`Report`] of `run` with its exit code.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, ArgAction, Command, Parser, ValueHint};
use clap_complete::CompleteEnv;

use crate::out::{self, Form, Report};
use conversation::exit::Exit;
use conversation::problem::Problem;

/// A tool: its name, its description and its work. The flags are its fields.
pub trait Tool: Parser {
    /// The tool's name.
    const NAME: &'static str;
    /// Explains to a model when and how to call the tool.
    const DESCRIPTION: &'static str;
    /// Examples and exit codes, shown below the flags.
    const AFTER_HELP: &'static str;
    /// Whether `--lines` prints events, the last of them the report.
    const HAS_EVENTS: bool = true;
    /// The text of `-h`, where a screen cannot hold all flags.
    const SHORT_HELP: Option<&'static str> = None;

    /// Whether the words from the first one that is neither a flag nor its value are for a script or a command.
    const LEAVES_WORDS: bool = false;

    /// Does the work.
    fn run(self) -> Result<Report, Problem>;
}

/// The arguments with words for a model, which no list of processes shall show.
const PROMPTS: [&str; 3] = ["prompt", "text", "words"];

/// Flags of other programs, and what does the same here.
const FOREIGN: [(&[&str], &str); 14] = [
    (&["-p", "--print"], "nagent \"task\" prints the answer and ends"),
    (&["--resume", "-r"], "nagent --continue goes on with the last conversation of this folder"),
    (&["--effort"], "--reasoning low, medium, high or max"),
    (&["--system", "--system-prompt", "--append-system-prompt"], "begin with --context FILE"),
    (&["--color", "--no-color"], "NO_COLOR=1 nagent ... turns colours off"),
    (&["--yolo", "--dangerously-skip-permissions"], "-w --sandbox off lifts the restrictions"),
    (&["--full-auto"], "-w lets the model write here; commands run in a sandbox"),
    (&["--add-dir"], "--write DIR"),
    (&["--cd"], "-C DIR"),
    (
        &["--allowedTools", "--allowed-tools"],
        "--tags LIST limits what the model may do, and --approve asks you",
    ),
    (&["--image", "-i"], "-f FILE shows the model a picture"),
    (&["--json-schema"], "--schema FILE"),
    (&["--stream"], "an answer is streamed to a terminal; --lines prints events"),
    (&["--api-key"], "a key comes from the environment (--list-providers names the variables)"),
];

/// The command line of a tool: its own flags, and what all tools have.
pub fn command<T: Tool>() -> Command {
    let flag = |name, help| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let description = flag("description", "Print where this program is and what it is for");
    let json = flag("json", "Print one JSON document instead of text");
    // In a tool with verbs, the flag may come before or after the verb.
    let has_verbs = T::command().has_subcommands();
    let json = json.global(has_verbs);
    let folder = Arg::new("run-in").short('C').value_name("DIR").global(has_verbs);
    let folder = folder.value_parser(clap::value_parser!(PathBuf)).help("Run in this folder");
    let command = T::command().name(T::NAME).after_help(T::AFTER_HELP);
    let command = command.version(env!("CARGO_PKG_VERSION")).max_term_width(100);
    // A tool that needs the value of --json declares the flag itself.
    let has_json = command.get_arguments().any(|arg| arg.get_id() == "json");
    let folder = folder.value_hint(ValueHint::DirPath).display_order(900);
    command
        .args((!has_json).then_some(json))
        .arg(folder)
        .arg(description.help_heading("Information"))
}

/// Does all that a tool's `main` does.
pub fn main<T: Tool>() -> ExitCode {
    // A shell that completes a command line sets the variable; the rest is then between it and clap.
    CompleteEnv::with_factory(command::<T>).var("NAGENT_COMPLETE").completer(T::NAME).complete();
    let words: Vec<OsString> = std::env::args_os().collect();
    let words = if T::LEAVES_WORDS { leave_words::<T>(words) } else { words };
    let form = match () {
        () if T::HAS_EVENTS && is_asked(&words, "--lines") => Form::Lines,
        () if is_asked(&words, "--json") => Form::Json,
        () => Form::Text,
    };
    let report = if is_asked(&words, "--description") {
        Report::keyed("description", describe::<T>(&words))
    } else if let Some(text) = T::SHORT_HELP.filter(|_| is_asked(&words, "-h")) {
        Report::wrapped(text).with("help", text)
    } else {
        let matches = command::<T>().try_get_matches_from(&words);
        let parsed = matches.and_then(|matches| {
            let folder = matches.get_one::<PathBuf>("run-in").cloned();
            let of_verb = matches.subcommand().map_or(&matches, |(_, of_verb)| of_verb);
            let prompts = PROMPTS.iter().filter_map(|id| of_verb.try_get_raw(id).ok().flatten());
            sys::env::wipe_arguments(&prompts.flatten().collect::<Vec<_>>());
            T::from_arg_matches(&matches).map(|args| (args, folder))
        });
        match parsed {
            Ok((args, folder)) => {
                report_panics::<T>(form);
                run_tool(args, folder.as_deref())
            }
            Err(error) => report_usage::<T>(&error, &words),
        }
    };
    ExitCode::from(out::print_report(T::NAME, form, report).code())
}

/// Reports a panic, which is a bug of nagent, like any other error instead of by a backtrace.
fn report_panics<T: Tool>(form: Form) {
    sys::env::exit_at_panic(move |cause| {
        let problem = format!(
            "bug in nagent: {cause}; what was appended to the conversation is safe. Please report it"
        );
        let report = Report::failed(Exit::Failed, problem);
        out::print_report(T::NAME, form, report).code()
    });
}

fn run_tool<T: Tool>(args: T, folder: Option<&Path>) -> Report {
    if let Some(folder) = folder
        && let Err(error) = sys::env::enter_folder(folder)
    {
        let folder = folder.display();
        return Report::failed(Exit::Usage, format!("-C {folder}: {error}; name a folder"));
    }
    sys::env::keep_private();
    args.run().unwrap_or_else(Report::from)
}

fn is_asked(words: &[OsString], flag: &str) -> bool {
    words.iter().skip(1).take_while(|word| *word != "--").any(|word| word == flag)
}

/// The text of `--description`: the absolute path, then prose for a model.
fn describe<T: Tool>(words: &[OsString]) -> String {
    let path = sys::env::Env::read()
        .executable
        .or_else(|| words.first().map(Into::into))
        .unwrap_or_else(|| T::NAME.into());
    format!("path: {}\n{}\n", path.display(), T::DESCRIPTION.trim())
}

/// Puts `--` before the first word that is neither a flag nor its value.
fn leave_words<T: Tool>(words: Vec<OsString>) -> Vec<OsString> {
    let command = command::<T>();
    let valued = || command.get_arguments().filter(|arg| arg.get_action().takes_values());
    let takes_value = |word: &str| match word.strip_prefix("--") {
        Some(long) => valued().any(|arg| arg.get_long() == Some(long)),
        // Of several letters, the first with a value has what follows it.
        None => word
            .find(|letter| valued().any(|arg| arg.get_short() == Some(letter)))
            .is_some_and(|at| at + 1 == word.len()),
    };
    let mut at = 1;
    while let Some(word) = words.get(at).map(|word| word.to_string_lossy()) {
        if word == "--" {
            return words;
        }
        if !word.starts_with('-') || word == "-" {
            let (before, after) = words.split_at(at);
            return [before, &[OsString::from("--")], after].concat();
        }
        at += if takes_value(&word) { 2 } else { 1 };
    }
    words
}

/// Help and version go to stdout and exit 0; anything else is wrong usage.
fn report_usage<T: Tool>(error: &clap::Error, words: &[OsString]) -> Report {
    let rendered = error.render().to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Report::keyed("help", rendered);
    }
    let invalid = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    let mut given = words.iter().filter_map(|word| word.to_str()?.split('=').next());
    let foreign = FOREIGN.iter().find(|(flags, _)| flags.contains(&&*invalid));
    if let Some((_, hint)) = foreign.filter(|_| given.any(|flag| flag == invalid)) {
        let message = format!("there is no {invalid}: {hint} (--help shows all)");
        return Report::failed(Exit::Usage, message);
    }
    // A word like -notes.txt reads as several short flags.
    let is_short = invalid.starts_with('-') && !invalid.starts_with("--");
    let flags = words.iter().map(|word| word.to_string_lossy());
    let flags = flags.filter(|word| word.starts_with('-') && !word.starts_with("--"));
    let mut within = flags.clone().filter(|word| word.contains(invalid.trim_start_matches('-')));
    let word = flags.clone().find(|word| word.starts_with(&invalid)).or_else(|| within.next());
    let before = words.windows(2).find(|pair| word.as_deref() == pair[1].to_str());
    let flag = before.and_then(|pair| pair[0].to_str()).filter(|flag| flag.starts_with("--"));
    if let (Some(flag), Some(number)) = (flag, &word)
        && number.parse::<f64>().is_ok()
    {
        return Report::failed(Exit::Usage, format!("{flag} takes no number below zero: {number}"));
    }
    if let (ErrorKind::UnknownArgument, true, Some(word)) = (error.kind(), is_short, word) {
        let hint = match flag {
            Some(flag) => format!("if {word} is the value of {flag}, write {flag}={word}"),
            None => format!("words that begin with - come after --: {} -- \"{word}\"", T::NAME),
        };
        let message = format!("there is no {}; {hint} (--help shows all)", invalid.trim());
        return Report::failed(Exit::Usage, message);
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Report::failed(Exit::Usage, "no command given (--help lists them)");
    }
    let message = rendered.trim().strip_prefix("error: ").unwrap_or(rendered.trim());
    let message = message.split("\n\nUsage:").next().unwrap_or(message);
    let near = error.get(ContextKind::SuggestedArg).map(ToString::to_string).unwrap_or_default();
    // One that begins otherwise is far-fetched: --root for --prompt.
    let is_near = near.get(..3) == invalid.get(..3);
    let message =
        if is_near { message } else { message.split("\n\n  tip:").next().unwrap_or(message) };
    let message = message.split("\n\nFor more information").next().unwrap_or(message);
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    let file = if is_missing { "FILE (or --file FILE)" } else { "FILE" };
    let message = message
        .replace("<FILE>", file)
        .replace("the following required arguments were not provided:", "missing:")
        .replace("missing:\n  --undo [<N>]", "--list and --force go with --undo: --undo --list")
        .replace(
            &format!("unexpected argument '{invalid}' found"),
            &format!("unexpected argument {invalid}"),
        )
        .replace("tip: a similar argument exists: ", "did you mean ")
        .replace("invalid digit found in string", "give a whole number");
    // `0 is not in 1..=20`
    let range = message.rsplit_once(": ").and_then(|(head, why)| {
        let (low, high) = why.split_once(" is not in ")?.1.split_once("..")?;
        Some(format!("{head}: give {low} to {}", high.trim_start_matches('=')))
    });
    let message = range.unwrap_or(message);
    // Joins its paragraphs into one line.
    let message: Vec<String> = message
        .split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    Report::failed(Exit::Usage, format!("{} (--help shows all)", message.join("; ")))
}
