//! `nagent-each`: one prompt over many inputs, each with a nagent of its own, side by side; results as JSON lines, in the order of
//! the inputs. A journal has every result before it is printed, so that a later call asks only about the others.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::args::EachArgs;
use self::inputs::{EachInput, Input, Shard, expand, short_hash};
use self::record::Record;
use self::work::EachBatch;
use super::child_flags::part_args;
use super::side_by_side::run_batch;
use crate::ops::run::call::Call;
use crate::ops::run::run_models;
use crate::ops::setup::flags::{LimitArgs, RunArgs};
use crate::out::{self, Report};
use conversation::approve::Approve;
use conversation::limits;
use conversation::problem::Problem;
use sys::context_files::load_named_files;
use sys::fs;
use sys::input::{InputFile, is_stream};

pub mod args;
pub mod inputs;
mod record;
mod result_line;
mod work;

/// Gives each input the prompt.
pub fn run_each(call: &mut Call<'_>, args: &EachArgs) -> Result<Report, Problem> {
    refuse_flags(call, args)?;
    let [prompt] = call.args.prompt.as_slice() else {
        return Err(Problem::usage(
            "no prompt given: nagent-each PROMPT FILE... (--help shows all)",
        ));
    };
    // A file has one conversation of its own, whichever of its names is given.
    let true_path = |path: &Path| {
        let real = if args.own { fs::real_path(path) } else { None };
        real.unwrap_or_else(|| path.to_owned())
    };
    // A run changes the file that is its own; the file still counts as answered.
    let content = |path: &Path| {
        if args.own { None } else { fs::hash_file(path, &|| call.interrupts.pending().is_some()) }
    };
    let items = inputs::number(read_inputs(call, args)?, &true_path, &content);
    for item in &items {
        expand(prompt, &item.input)
            .map_err(|error| Problem::usage(format!("input {}: {error}", item.index + 1)))?;
    }
    if let Some(file) = items.iter().find(|item| args.own && !matches!(item.input, Input::File(_)))
    {
        return Err(Problem::usage(format!(
            "--own takes files; input {} is not one",
            file.index + 1
        )));
    }
    check_flags(call)?;
    call.root().prepare()?;
    let record = open_record(call, args, prompt)?;
    let is_ours = |item: &EachInput| args.shard.is_none_or(|shard| shard.contains_item(item));
    let items: Vec<EachInput> = items.into_iter().filter(is_ours).collect();
    // Report an error that concerns every input only once.
    if items.iter().any(|item| record.answer(item).is_none()) {
        let client =
            call.settings.connect_model(&call.env, &call.interrupts, !call.args.show_request)?;
        run_models::make_main_asker(call, client, false)?;
    }
    let call = &*call;
    let mut work = EachBatch::new(call, args, prompt, items, record);
    work.print_known();
    work.spinner.start("inputs");
    work.show_progress();
    let jobs = call.settings.config.jobs;
    run_batch(&mut work, jobs, &call.interrupts);
    work.spinner.stop();
    work.finish()
}

/// Checks the flags for errors that every run would report.
fn check_flags(call: &Call<'_>) -> Result<(), Problem> {
    if !out::stdout_is_open() {
        return Err(Problem::failed("cannot write to stdout: it is closed"));
    }
    let run = call.args;
    run.answer.read_schema(&call.interrupts)?;
    load_named_files(&call.settings.context).map_err(Problem::usage)?;
    for path in &run.read {
        if !fs::exists(&call.env.absolute_path(path)?) {
            return Err(Problem::usage(format!("--read {}: no such file", path.display())));
        }
    }
    Ok(())
}

/// Refuses flags that make sense for a single run only.
fn refuse_flags(call: &Call<'_>, args: &EachArgs) -> Result<(), Problem> {
    let run = call.args;
    let refused = [
        ("--clear", run.clear),
        ("--show-request", run.show_request),
        ("--output", run.answer.output.is_some()),
        ("--record", run.record.is_some()),
    ];
    if let Some((flag, _)) = refused.iter().find(|(_, is_set)| *is_set) {
        return Err(Problem::usage(format!(
            "{flag} works with a single run only: use nagent, not nagent-each"
        )));
    }
    if call.settings.config.approve != Approve::None {
        return Err(Problem::usage(
            "--approve works with one run at a time; use --approve none, and --sandbox or --tags to limit what runs may do",
        ));
    }
    if args.own && run.check.is_some() && call.settings.config.jobs > 1 {
        return Err(Problem::usage(
            "--check with --own needs -j 1: the command would see the other files half done",
        ));
    }
    if run.read.iter().chain(&run.answer.schema).any(|path| is_stream(path)) {
        return Err(Problem::usage(
            "a stream cannot be read once for each input; save it to a file first",
        ));
    }
    Ok(())
}

fn read_inputs(call: &Call<'_>, args: &EachArgs) -> Result<Vec<Input>, Problem> {
    let read = |path: &PathBuf| -> Result<Vec<u8>, Problem> {
        let input = InputFile::open(path, &call.interrupts)?;
        let bytes = fs::read_bytes(input.path(), limits::EACH_INPUTS)?;
        bytes.ok_or_else(|| Problem::failed(format!("no such file: {}", path.display())))
    };
    match (&args.lines, &args.jsonl) {
        (Some(path), _) => Ok(inputs::read_lines(&read(path)?)),
        (None, Some(path)) => {
            let wrong = |error| Problem::usage(format!("--jsonl {}: {error}", path.display()));
            inputs::read_json_lines(&read(path)?).map_err(wrong)
        }
        (None, None) if args.files.is_empty() => Err(Problem::usage(
            "no inputs given: nagent-each PROMPT FILE..., or --lines or --jsonl for those on stdin (--help shows all)",
        )),
        (None, None) => Ok(args.files.iter().cloned().map(Input::File).collect()),
    }
}

/// The journal of this job: the one that the user names, else one for the prompt, the folder and the shard.
fn open_record(call: &Call<'_>, args: &EachArgs, prompt: &str) -> Result<Record, Problem> {
    let folder = call.env.current_folder()?;
    let job = describe_job(call, args, prompt)?;
    let hash = short_hash(&[job.to_string().as_bytes()]);
    let part = args.shard.map(|Shard { part, of }| format!(".{part}-of-{of}")).unwrap_or_default();
    let path = if let Some(path) = &args.journal {
        folder.join(path)
    } else {
        fs::create_private_folder(&call.root().journals_folder())?;
        call.root().journals_folder().join(format!("{hash}{part}.jsonl"))
    };
    Record::open(call, args, &path, &job)
}

/// The hashes of what the answers depend on. Waiting times, limits and flags of the display are not among them.
fn describe_job(call: &Call<'_>, args: &EachArgs, prompt: &str) -> Result<Value, Problem> {
    let (run, folder) = (call.args, call.env.current_folder()?);
    let mut asked = RunArgs {
        verbose: false,
        lock_timeout: None,
        limits: LimitArgs::default(),
        check: run.check.clone(),
        code: run.code,
        answer: run.answer.clone(),
        ..part_args(call)
    };
    asked.model.patience = None;
    let words = asked.words().join("\n".as_ref());
    let what = format!("{:?}", (args.own, args.lines.is_some(), args.jsonl.is_some()));
    let mut files = Vec::new();
    for path in run.read.iter().chain(&run.answer.schema).chain(&call.settings.context) {
        let hash = fs::hash_file(&call.env.absolute_path(path)?, &|| false);
        files.extend(hash.unwrap_or_default().into_bytes());
    }
    // Journals of older versions have these keys.
    Ok(json!({
        "prompt": short_hash(&[prompt.as_bytes()]),
        "folder": short_hash(&[folder.as_os_str().as_encoded_bytes()]),
        "set of flags": short_hash(&[words.as_encoded_bytes(), what.as_bytes()]),
        "content of the files of its flags": short_hash(&[&files]),
    }))
}
