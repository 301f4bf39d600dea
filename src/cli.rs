//! What every executable's `main` shares: `--description`, parsing, reporting, the exit code, the last resort.
//!
//! A tool is its `Args` (whose doc comment is its help), its description, and a `run` that gives a [`Report`]. All
//! printing at the end happens here, once.

use std::ffi::OsString;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::exit::Exit;
use crate::out::{self, Report};
use crate::problem::Problem;

/// What makes a tool.
pub trait Tool: Parser {
    /// The tool's name.
    const NAME: &'static str;
    /// Explains to a model when and how to call the tool. The first sentence appears alone in the first context.
    const DESCRIPTION: &'static str;

    /// Whether `--json` was given.
    fn wants_json(&self) -> bool;

    /// Does the work.
    fn run(self) -> Result<Report, Problem>;
}

/// The whole of a `main`.
pub fn main<T: Tool>() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if is_asked(&words, "--description") {
        let text = describe::<T>(&words);
        let report = Report::done(text.clone()).with("description", text);
        return ExitCode::from(out::emit(T::NAME, is_asked(&words, "--json"), &report).code());
    }
    let args = match T::try_parse_from(&words) {
        Ok(args) => args,
        Err(error) => return ExitCode::from(refuse::<T>(&words, &error).code()),
    };
    let json = args.wants_json();
    crate::sys::env::keep_private();
    // A panic is a fault of ours. It must not spill a backtrace over the user's terminal, and it must not exit 0.
    panic::set_hook(Box::new(|_| ()));
    let report = panic::catch_unwind(AssertUnwindSafe(|| args.run().unwrap_or_else(Report::from)))
    .unwrap_or_else(|cause| {
        let cause = cause
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| cause.downcast_ref::<&str>().copied())
            .unwrap_or("unknown");
        Report::failed(
            Exit::Failed,
            format!("bug in nagent: {cause}; what was appended to the conversation is safe. Please report it"),
        )
    });
    ExitCode::from(out::emit(T::NAME, json, &report).code())
}

/// Whether a flag is among the words, before any `--`.
fn is_asked(words: &[OsString], flag: &str) -> bool {
    words.iter().skip(1).take_while(|word| *word != "--").any(|word| {
        word == flag
            || word
                .to_str()
                .and_then(|word| word.strip_prefix(flag))
                .is_some_and(|rest| rest.starts_with('='))
    })
}

/// What `--description` prints: the absolute path, then prose for a model.
fn describe<T: Tool>(words: &[OsString]) -> String {
    let path = crate::sys::env::Env::read()
        .executable
        .or_else(|| words.first().map(Into::into))
        .unwrap_or_else(|| T::NAME.into());
    format!("path: {}\n{}\n", path.display(), T::DESCRIPTION.trim())
}

/// Help and version go to stdout and exit 0; anything else is wrong usage.
fn refuse<T: Tool>(words: &[OsString], error: &clap::Error) -> Exit {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let text = error.render().to_string();
        let report = Report::done(text.clone()).with("help", text);
        return out::emit(T::NAME, is_asked(words, "--json"), &report);
    }
    let rendered = error.render().to_string();
    let message = rendered.trim().strip_prefix("error: ").unwrap_or(rendered.trim());
    let message = message.split("\n\nUsage:").next().unwrap_or(message);
    let message = message.split("\n\nFor more information").next().unwrap_or(message);
    // Its paragraphs on one line.
    let message: Vec<String> = message
        .split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let report = Report::failed(Exit::Usage, format!("{} (--help shows all)", message.join("; ")));
    out::emit(T::NAME, is_asked(words, "--json"), &report)
}
