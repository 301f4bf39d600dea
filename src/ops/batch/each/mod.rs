//! `nagent-each`: one prompt over many inputs, each with a nagent of its own, side by side; results as JSON lines, in the order of
//! the inputs. A journal has every result before it is printed, so that a later call asks only about the others.

use serde_json::json;

use self::inputs::{EachArgs, EachInput, Input, expand};
use self::record::Record;
use self::work::EachBatch;
use super::child_flags::part_args;
use crate::ops::run::call::Call;
use crate::ops::run::prompt_input::refuse_check;
use crate::ops::run::run_models;
use crate::ops::setup::flags::{LimitArgs, RunArgs};
use crate::out::Report;
use conversation::approve::Approve;
use conversation::limits;
use conversation::problem::Problem;
use sys::context_files::load_named_files;
use sys::fs;
use sys::input::{InputFile, is_stream};

pub mod inputs;
mod record;
mod work;

/// Gives each input the prompt.
pub fn run_each(call: &mut Call<'_>, args: &EachArgs) -> Result<Report, Problem> {
    refuse_flags(call, args)?;
    let [prompt] = call.args.prompt.as_slice() else {
        return Err(Problem::usage(
            "no prompt given: nagent-each PROMPT FILE... (--help shows all)",
        ));
    };
    let inputs = read_inputs(call, args)?;
    for (index, input) in inputs.iter().enumerate() {
        let wrong = |error: String| Problem::usage(format!("input {}: {error}", index + 1));
        expand(prompt, input).map_err(wrong)?;
    }
    if args.own && args.files.is_empty() {
        return Err(Problem::usage("--own takes files, not lines"));
    }
    call.args.answer.read_schema(&call.interrupts)?;
    load_named_files(&call.settings.context).map_err(Problem::usage)?;
    call.root().prepare()?;
    let record = Record::open(call, args, &hash_job(call, args, prompt)?)?;
    let is_stopped = || call.interrupts.pending().is_some();
    let items = inputs.into_iter().enumerate().map(|(index, input)| {
        // A run changes the file that is its own; the file still counts as answered.
        let content = match &input {
            Input::File(path) if !args.own => fs::hash_file(path, &is_stopped),
            _ => None,
        };
        EachInput { index, key: input.key(content.as_deref()), input }
    });
    let is_ours =
        |item: &EachInput| args.shard.is_none_or(|shard| shard.contains_input(&item.input));
    let items: Vec<EachInput> = items.filter(is_ours).collect();
    // Report an error that concerns every input only once.
    if items.iter().any(|item| record.answer(item).is_none()) {
        let client = call.settings.connect_model(&call.env, &call.interrupts, true)?;
        run_models::make_asker(call, client, false)?;
    }
    let call = &*call;
    let mut work = EachBatch::new(call, args, prompt, items, record);
    work.note_known();
    work.spinner.start("inputs");
    work.show_progress();
    work.run();
    work.spinner.stop();
    work.finish()
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
    refuse_check(call)?;
    if args.own && run.check.is_some() && call.settings.config.jobs > 1 {
        return Err(Problem::usage(
            "--check with --own needs -j 1: the command would see the other files half done",
        ));
    }
    Ok(())
}

fn read_inputs(call: &Call<'_>, args: &EachArgs) -> Result<Vec<Input>, Problem> {
    let Some(path) = args.lines.as_ref().or(args.jsonl.as_ref()) else {
        if args.files.is_empty() {
            return Err(Problem::usage(
                "no inputs given: nagent-each PROMPT FILE..., or --lines or --jsonl for those on stdin (--help shows all)",
            ));
        }
        return Ok(args.files.iter().cloned().map(Input::File).collect());
    };
    let text = InputFile::open(path, &call.interrupts)?.read_text(limits::EACH_INPUTS)?;
    let text = text.ok_or_else(|| Problem::failed(format!("no such file: {}", path.display())))?;
    let wrong = |error| Problem::usage(format!("--jsonl {}: {error}", path.display()));
    inputs::read_lines(&text, args.jsonl.is_some()).map_err(wrong)
}

/// The hash of what the answers depend on. Waiting times, limits and flags of the display are not among them.
fn hash_job(call: &Call<'_>, args: &EachArgs, prompt: &str) -> Result<String, Problem> {
    let (run, folder) = (call.args, call.env.current_folder()?);
    let mut files = Vec::new();
    for path in run.read.iter().chain(&run.answer.schema).chain(&call.settings.context) {
        if is_stream(path) {
            return Err(Problem::usage(
                "a stream cannot be read once for each input; save it to a file first",
            ));
        }
        let hash = fs::hash_file(&call.env.absolute_path(path)?, &|| false);
        files.push(hash.ok_or_else(|| {
            Problem::usage(format!("--read {}: not a file that can be read", path.display()))
        })?);
    }
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
    let inputs = (args.own, args.lines.is_some(), args.jsonl.is_some());
    let words = words.to_string_lossy();
    let job = json!([prompt, folder.to_string_lossy(), words, inputs, files]);
    Ok(fs::sha256(job.to_string().as_bytes())[..12].to_owned())
}
