//! Reads the prompt: from words, stdin, or both. Stdin is read only when asked for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::call::Call;
use crate::ops::setup::flags::RunArgs;
use conversation::exit::Exit;
use conversation::problem::Problem;
use models::schema::{Schema, describe_form};
use sys::env::Env;
use sys::input::is_stdin;
use sys::interrupt::Interrupts;
use sys::output_file::OutputFile;
use sys::process::job::{Job, JobOutcome};
use sys::{process, stdin, terminal};

/// The time within which a pipe on stdin must have data.
const FIRST_BYTE: Duration = Duration::from_millis(500);

/// The text that `--code` adds to the prompt.
const CODE_ONLY: &str =
    "\n\nAnswer with a single fenced code block. Only what is in it is printed.";

/// The task of a run.
pub(crate) struct Task {
    /// The prompt, with what flags add to it.
    pub(crate) prompt: Option<Vec<u8>>,
    /// The schema that the answer must match.
    pub(crate) schema: Option<Schema>,
    /// The file that gets the answer.
    pub(crate) output: Option<OutputFile>,
    /// Whether the model is asked.
    pub(crate) is_run: bool,
}

/// Reads the prompt of a call, which may be a line with files to read, and the schema of its answer. `usage` is the
/// error of a call that asks for nothing, unless it `needs_no_prompt`.
pub(crate) fn take_task(
    call: &mut Call<'_>,
    needs_no_prompt: bool,
    usage: &str,
) -> Result<Task, Problem> {
    let args = call.args;
    refuse_check(call)?;
    if has_unread_input(call, FIRST_BYTE)? {
        return Err(Problem::usage(
            "stdin has data: end the prompt with - to add it, or give < /dev/null",
        ));
    }
    let mut prompt =
        if args.lines && args.prompt.is_empty() && args.read.is_empty() && !needs_no_prompt {
            let line = read_prompt_line(&call.interrupts)?;
            call.reads.extend(line.read);
            call.typed.clone_from(&line.prompt);
            Some(line.prompt.into_bytes())
        } else {
            read_prompt(args, needs_no_prompt, &call.interrupts)?
        };
    if let Some((_, words)) = args.prompt.split_last().filter(|(last, _)| *last == "-")
        && prompt.as_deref().is_some_and(|prompt| prompt == words.join(" ").as_bytes())
    {
        call.print_note("stdin is empty");
    }
    let schema = args.answer.read_schema(&call.interrupts)?;
    let output = args.answer.open_output()?;
    if let Some(text) = &mut prompt {
        let form = schema.as_ref().map(|schema| format!("\n\n{}", describe_form(&schema.value)));
        text.extend(form.unwrap_or_default().as_bytes());
        text.extend(if args.code { CODE_ONLY.as_bytes() } else { b"" });
    }
    if prompt.is_none() && args.read.is_empty() && !needs_no_prompt {
        return Err(Problem::usage(usage));
    }
    let is_run = prompt.is_some() || !args.read.is_empty() || args.show_request;
    Ok(Task { prompt, schema, output, is_run })
}

/// Reads the prompt; `None` where there is none or only blanks. `needs_no_prompt`: the call does something without one.
pub fn read_prompt(
    args: &RunArgs,
    needs_no_prompt: bool,
    interrupts: &Interrupts,
) -> Result<Option<Vec<u8>>, Problem> {
    let dash = args.prompt.last().is_some_and(|last| last == "-");
    if args.read.iter().filter(|path| is_stdin(path)).count() + usize::from(dash) > 1 {
        return Err(Problem::usage(
            "stdin can be read once: for --read, or with - at the end for the prompt",
        ));
    }
    read_words(&args.prompt, args.read.is_empty() && !needs_no_prompt, interrupts)
}

/// Joins words, and adds stdin after a `-` at their end; without words it is all of the text, if that `may_read` it. `None`
/// where there is nothing but blanks.
pub(crate) fn read_words(
    words: &[String],
    may_read: bool,
    interrupts: &Interrupts,
) -> Result<Option<Vec<u8>>, Problem> {
    let (words, reads) = match words.split_last() {
        Some((last, words)) if last == "-" => (words, true),
        _ => (words, may_read && words.is_empty() && !terminal::stdin_is_terminal()),
    };
    let mut text = words.join(" ").into_bytes();
    if reads {
        let input = stdin::read_to_end(interrupts)?.map_err(|signal| {
            let message = format!("interrupted by {} while reading stdin", signal.name());
            Problem::new(Exit::Signal(signal), message)
        })?;
        if !text.is_empty() && !input.is_empty() {
            text.push(b'\n');
        }
        text.extend(input);
    }
    Ok(Some(text).filter(|text| !text.iter().all(u8::is_ascii_whitespace)))
}

/// Reads `{"prompt": TEXT}`, the first line of the input of `--lines`. Nothing is asked, so there is nothing to decide.
fn read_prompt_line(interrupts: &Interrupts) -> Result<PromptLine, Problem> {
    let input = stdin::read_line(interrupts)?.map_err(Problem::interrupted)?;
    let mut lines = input.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let read = |line: &[u8]| {
        serde_json::from_slice::<PromptLine>(line).map_err(|error| {
            Problem::usage(format!(
                "--lines expects {{\"prompt\": TEXT}} as the first line on stdin, or a prompt as words: {error}"
            ))
        })
    };
    let line = read(lines.next().unwrap_or_default())?;
    if lines.next().is_some() {
        return Err(Problem::usage(
            "--lines: unexpected decision before a question; the first line must be the prompt",
        ));
    }
    if line.prompt.trim().is_empty() {
        return Err(Problem::usage("--lines: the prompt is empty"));
    }
    Ok(line)
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct PromptLine {
    prompt: String,
    /// Files that the model is shown before the prompt.
    #[serde(default)]
    read: Vec<PathBuf>,
}

/// Whether there is a prompt in words, and stdin has data that no flag asks for. Waits as long for the first byte of a pipe,
/// whose writer may have been started together with this process.
fn has_unread_input(call: &Call<'_>, longest: Duration) -> Result<bool, Problem> {
    let args = call.args;
    if args.lines
        || args.prompt.iter().all(|word| word == "-")
        || args.prompt.last().is_some_and(|last| last == "-")
        || args.read.iter().any(|path| is_stdin(path))
        || args.answer.schema.as_deref().is_some_and(is_stdin)
    {
        return Ok(false);
    }
    let given = stdin::has_data_within(longest, &call.interrupts)?;
    given.map_err(Problem::interrupted)
}

/// Says at the end of a run that stdin had data after all, which the model was not sent.
pub(crate) fn note_late_input(call: &Call<'_>) {
    if matches!(has_unread_input(call, Duration::ZERO), Ok(true)) {
        call.print_note("stdin had data, but late: end the prompt with - to wait for it");
    }
}

/// Refuses a check that cannot pass: an empty one, or one that begins with a name that the shell does not know. A path may
/// be written by the run.
pub(crate) fn refuse_check(call: &Call<'_>) -> Result<(), Problem> {
    let commands = [("--check", &call.args.check), ("--after-write", &call.args.after_write)];
    for (flag, command) in commands {
        let refuse = |command: &String| refuse_command(&call.env, &call.interrupts, flag, command);
        command.as_ref().map_or(Ok(()), refuse)?;
    }
    Ok(())
}

/// Refuses the command of a flag that cannot be run.
pub(crate) fn refuse_command(
    env: &Env,
    interrupts: &Interrupts,
    flag: &str,
    command: &str,
) -> Result<(), Problem> {
    let Some(name) = command.split_whitespace().next() else {
        let message = format!("{flag} is empty: give a command, as in {flag} 'make test'");
        return Err(Problem::usage(message));
    };
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte));
    if !is_name {
        return Ok(());
    }
    let mut argv = vec![env.find_program("bash").into_os_string()];
    argv.extend(["-c", "type -- \"$0\"", name].map(OsString::from));
    let job = Job::new(argv, env.current_folder()?, env.for_commands(&[], &[]));
    let outcome = process::run(job, interrupts).map(|finished| finished.outcome);
    if matches!(outcome, Ok(JobOutcome::Ended { code: 1 })) {
        return Err(Problem::usage(format!("{flag}: {name}: command not found")));
    }
    Ok(())
}
