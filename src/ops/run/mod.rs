//! Runs the loop over a conversation: from settings to a running loop, and its report.

pub mod answer;
pub mod approval;
pub mod call;
pub mod compact;
pub mod opening;
pub mod prompt_input;
pub mod question;
pub mod run_models;
pub mod sandbox;
pub(crate) mod skills;
pub mod trust;

use std::path::Path;
use std::time::Duration;

use self::opening::gather_facts;
use crate::client::ModelClient;
use crate::drive::commands::Commands;
use crate::drive::compaction::Compactor;
use crate::drive::file_guard::FileGuard;
use crate::drive::inbox::Inbox;
use crate::drive::redaction::ResultRedactor;
use crate::drive::run_context::RunContext;
use crate::drive::{self, ProgressEvent, Runner, was_started_by};
use crate::mcp::host::RunServers;
use crate::ops::batch::child_flags;
use crate::ops::conversations::{edit_conversation, manage, undo};
use crate::ops::files::file_conversation;
use crate::ops::files::file_memory::{FileMemory, gather_memory};
use crate::ops::run::call::{Call, ScriptSetup};
use crate::ops::run::compact::checkpoint_writer;
use crate::ops::run::prompt_input::Task;
use crate::ops::run::run_models::{make_asker, start_recording};
use crate::ops::screen::change_report;
use crate::ops::screen::progress::Progress;
use crate::ops::setup::flags::RunArgs;
use crate::ops::single::one_shot::report_request;
use crate::out::{self, Report};
use ::sandbox::enforce::Sandbox;
use conversation::context::{self, Section};
use conversation::exit::Exit;
use conversation::format::code_block::find_code_block;
use conversation::format::file::{self, Block};
use conversation::format::harmless::quote_name;
use conversation::limits::CHILD_DEPTH;
use conversation::problem::Problem;
use conversation::turn::Turn;
use conversation::turn::event::{RunOutcome, RunRules, Totals};
use conversation::turn::run_limits::{Limits, Spent};
use conversation::{model, prompt};
use models::ChatRequest;
use models::error::check_window;
use models::schema::Schema;
use sys::clock::Stopwatch;
use sys::conversation_file::ConversationFile;
use sys::names::shell_word;
use sys::output_file::OutputFile;
use sys::run_note::Activity;
use sys::{fs, terminal};
use view::event::{Begin, RunEvent};
use view::overview::{self, Overview};

/// Manages the conversation as the flags say, then runs the prompt; returns one report. `needs_no_prompt`: the call does
/// something else as well.
pub fn run_call(
    call: &mut Call<'_>,
    needs_no_prompt: bool,
    usage: &str,
) -> Result<Report, Problem> {
    if call.parents.len() > CHILD_DEPTH {
        return Err(Problem::usage(format!(
            "conversations cannot be nested deeper than {CHILD_DEPTH}; do this part yourself"
        )));
    }
    call.env.current_folder()?;
    let needs_no_prompt =
        needs_no_prompt || manage::is_asked(call.args, call.which) || call.args.show_request;
    let task = prompt_input::take_task(call, needs_no_prompt, usage)?;
    // Before anything is created: without a key there is nothing to do.
    let connect =
        || call.settings.connect_model(&call.env, &call.interrupts, !call.args.show_request);
    let client = task.is_run.then(connect).transpose()?;
    let client = match client {
        Some(client) if call.args.show_request => return run_loop(call, client, task, None),
        client => client,
    };
    call.root().prepare().map_err(|error| sys::root::explain_refusal(&error))?;
    let target = file_conversation::claim(call)?;
    if let (true, Some(prompt)) = (call.which.edit_conversation, &task.prompt) {
        return edit_conversation::edit_conversation(call, prompt);
    }
    check_parent(call)?;
    let managed = manage::manage(call)?;
    let Some(client) = client else {
        return Ok(match &target {
            Some(target) => managed
                .with("source_path", target.display().to_string())
                .with("cleared", call.args.clear),
            None => managed,
        });
    };
    // Stdout belongs to the answer; what was done before is reported on stderr.
    if !call.args.json && call.shows_progress {
        managed.text.lines().for_each(out::print_line);
    }
    let managed = Report { text: String::new(), ..managed };
    Ok(managed.then_try(|| match (run_loop(call, client, task, target.as_deref()), &target) {
        (Err(problem), Some(path)) => {
            Ok(change_report::with_changes(call, path, problem.into(), None))
        }
        (ran, _) => ran,
    }))
}

/// The report with nothing but the first code block of its answer.
fn keep_code(call: &Call<'_>, report: Report) -> Report {
    let found = find_code_block(&report.text);
    if found.is_none() && !report.text.is_empty() {
        call.print_note("no code block in the answer; printing all of it");
    }
    let code = found.unwrap_or_else(|| report.text.clone());
    Report { exact: true, text: code.clone(), ..report }.with("code", code)
}

/// Refuses to continue a conversation for a model that did not start it. A file's conversation is for all.
fn check_parent(call: &Call<'_>) -> Result<(), Problem> {
    let Some(parent) = call.which.parent_conversation.as_deref() else { return Ok(()) };
    if call.which.file_edit.is_some() || was_started_by(call.root(), &call.name, parent)? {
        return Ok(());
    }
    Err(Problem::failed(format!(
        "conversation {} exists and is not a child of {parent}; use another name",
        call.name
    )))
}

/// Runs the loop and does with its answer what the flags say, or shows the request that it would send first. `target` is
/// the conversation's own file.
fn run_loop(
    call: &Call<'_>,
    client: ModelClient,
    task: Task,
    target: Option<&Path>,
) -> Result<Report, Problem> {
    let watch = Stopwatch::start();
    let mut progress = Progress::new(call);
    let asker = make_asker(call, client, progress.is_streaming)?;
    let (model_id, window) = (asker.model_id.clone(), asker.window);
    let conversation = open_conversation(call)?;
    let (mut facts, mut boundary, sandbox, servers) = gather_facts(call, &mut progress)?;
    let redactor = ResultRedactor::new(&call.env, &call.settings.config.pass_env);
    let redact = |text: String| redactor.redact_text(text).0;
    let memory = gather_memory(call, Some((&conversation, &model_id)), &redact, &mut progress);
    facts.memory.clone_from(&memory.text);
    let splits = call.root().splits_folder(conversation.name());
    if fs::exists(&splits) {
        boundary.allow_splits(&splits);
    }
    if !call.args.show_request {
        progress.emit_event(|| begin_event(call, &conversation, &model_id, window));
    }
    let of_facts = || context::sections(&facts);
    let sections = call.scripts.map_or_else(of_facts, ScriptSetup::sections);
    let model = asker.client.model_id.as_deref();
    let children = child_flags::children(call, model, progress.shows_events());
    let approval = approval::approval(call, progress.asked.clone())?;
    let log = undo::start_log(call, conversation.name());
    let run = log.started_by();
    let mut on_progress = |event: ProgressEvent<'_>| progress.show_event(event);
    let mut runner = Runner {
        children,
        conversation,
        asker,
        compactor: Compactor::new(checkpoint_writer(call, &model_id, false)),
        files: FileGuard::new(boundary, call.root().outputs_folder(), log),
        commands: commands(call),
        command_changes: crate::drive::command_changes::CommandChanges::default(),
        approval,
        replaced: None,
        scripts: call.scripts.map(|scripts| scripts.make_host(&call.env, &call.interrupts)),
        schema: task.schema,
        context: RunContext {
            root: call.root().clone(),
            env: &call.env,
            folder: call.env.current_folder()?,
            run,
            interrupts: &call.interrupts,
            redactor,
            sandbox,
            tags: call.settings.tags,
            servers: RunServers::new(servers),
        },
        inbox: Inbox::default(),
        activity: Activity::default(),
        watch,
        on_progress: &mut on_progress,
    };
    runner.fit_results();
    let ran = run_turns(call, &mut runner, &sections, task.prompt, &memory);
    let output = task.output.as_ref();
    let (schema, sandbox) = (runner.schema.take(), runner.context.sandbox.take());
    let seconds = runner.watch.elapsed().as_secs_f64();
    let conversation = runner.end();
    note_changed(call, sandbox.as_deref());
    prompt_input::note_late_input(call);
    let done = ran.and_then(|(report, totals)| {
        if call.args.show_request {
            return Ok(report);
        }
        note_overrun(call, &report, &totals);
        let report = report.with("summary_requests", memory.requests);
        let last_line = progress.status(&totals, seconds, call.settings.is_billed());
        finish_report(call, &mut progress, Report { last_line, ..report }, (schema, output), target)
    });
    conversation.record_exit(done.as_ref().map_or_else(|problem| problem.exit, |it| it.exit));
    done
}

/// Says that the reply with the answer passed a limit: they are checked between turns.
fn note_overrun(call: &Call<'_>, report: &Report, totals: &Totals) {
    let limits = Limits { max_turns: u64::MAX, max_seconds: None, ..call.settings.config.limits };
    let tokens = totals.all.input.saturating_add(totals.all.output);
    let spent = Spent { turns: 0, seconds: 0.0, tokens, cost: totals.cost };
    if let Some(limit) = limits.find_reached(spent).filter(|_| report.exit == Exit::Done) {
        call.print_note(&format!("{limit}, in the reply with the answer"));
    }
}

/// Handles the answer of a run as the flags say.
fn finish_report(
    call: &Call<'_>,
    progress: &mut Progress<'_>,
    mut report: Report,
    (schema, output): (Option<Schema>, Option<&OutputFile>),
    target: Option<&Path>,
) -> Result<Report, Problem> {
    report.is_markdown = call.settings.config.markdown && schema.is_none() && !call.args.code;
    if report.exit == Exit::Done {
        if let Some(Ok((text, value))) = schema.map(|schema| schema.check(&report.text)) {
            report = Report { text, ..report }.with("data", value);
        }
        progress.show_accepted(call, &report.text);
    }
    let rest = progress.unstreamed(&report.text).to_owned();
    if report.exit == Exit::Done && !rest.is_empty() && rest.len() == report.text.len() {
        progress.print_gap();
    }
    report.text = rest;
    if call.args.code {
        report = keep_code(call, report);
    }
    if let Some(path) = target {
        file_conversation::update_index(call);
        report = change_report::with_changes(call, path, report, progress.shown_diff.as_deref());
    }
    let written = answer::write_output(report, output);
    written.map_err(|problem| {
        Problem::new(problem.exit, format!("{problem}; {}", out::answer_again(&call.name)))
    })
}

/// Runs the loop of a runner that is complete.
fn run_turns(
    call: &Call<'_>,
    runner: &mut Runner<'_>,
    sections: &[Section],
    text: Option<Vec<u8>>,
    memory: &FileMemory,
) -> Result<(Report, Totals), Problem> {
    start_recording(call, runner)?;
    let opening = opening::make_blocks(call, runner, sections, text)?;
    if call.args.show_request {
        return Ok((show_request(runner, &opening)?, Totals::default()));
    }
    check_room(runner, &opening)?;
    let (mut turn, first) = Turn::start(rules(call, runner), opening);
    if memory.requests > 0 {
        turn.add_spending(&memory.usage, runner.asker.cost(&memory.usage));
    }
    let outcome = drive::run(runner, &mut turn, first);
    let report = finish_run(call, runner, outcome, turn.totals());
    Ok((report, turn.totals().clone()))
}

/// Says which files that tools run by themselves the commands of the run have changed. A parent says it for its children.
fn note_changed(call: &Call<'_>, sandbox: Option<&Sandbox>) {
    let changed = sandbox.filter(|_| !call.delegated).map(Sandbox::find_changed);
    if let Some(note) = changed.as_ref().and_then(sandbox::describe_changed) {
        call.print_note(&note);
    }
}

fn commands(call: &Call<'_>) -> Commands {
    let (settings, check) = (&call.settings, call.args.check.clone());
    let mut commands = Commands::new(settings.shell(), settings.config.after_write.clone(), check);
    let time = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    commands.ends = settings.config.limits.max_seconds.map(|it| (Stopwatch::start(), time(it)));
    commands
}

fn open_conversation(call: &Call<'_>) -> Result<ConversationFile, Problem> {
    if call.args.show_request {
        return Ok(ConversationFile::read_only(call.root(), &call.name)?);
    }
    if call.which.continue_.is_some() {
        call.root().take_up(&call.env.shell_conversation(None), &call.name)?;
    }
    call.open_conversation(&call.name)
}

/// The event that begins a run, with the state of the conversation before it.
fn begin_event(
    call: &Call<'_>,
    conversation: &ConversationFile,
    model_id: &str,
    window: Option<u64>,
) -> RunEvent {
    let folder = call.env.current_folder();
    RunEvent::Begin(Begin {
        conversation: conversation.name().to_owned(),
        conversation_path: conversation.path().display().to_string(),
        provider: Some(call.settings.provider_name().to_owned()),
        model: Some(model_id.to_owned()).filter(|model| !model.is_empty()),
        cwd: folder.map(|folder| folder.display().to_string()).unwrap_or_default(),
        prompts: Overview::read(conversation.text(), conversation.pieces()).prompts,
        tokens: model::estimate(conversation.text()),
        window,
    })
}

/// Refuses a prompt that does not fit the file or the model, before anything is stored. Older text can be compacted.
fn check_room(runner: &Runner<'_>, opening: &[Block]) -> Result<(), Problem> {
    let bodies = opening.iter().filter_map(|block| block.body.as_ref());
    let added: usize = bodies.map(String::len).sum();
    let conversation = &runner.conversation;
    conversation.check_room(added)?;
    let context = conversation.pieces().first().map_or(0, |piece| piece.span.len());
    match check_window(context + added, &runner.asker.model_id, runner.asker.window) {
        Some(error) => Err(Problem::new(Exit::Provider, runner.asker.with_advice(error).message)),
        None => Ok(()),
    }
}

fn rules(call: &Call<'_>, runner: &Runner<'_>) -> RunRules {
    let settings = &call.settings;
    let turns = overview::last_turn(runner.conversation.pieces());
    RunRules {
        limits: settings.config.limits,
        tags: settings.tags,
        approve: runner.approval.approve,
        has_stop_list: runner.approval.has_stop_list,
        has_schema: call.args.answer.schema.is_some(),
        after_write: settings.config.after_write.is_some(),
        ends_with_writes: call.which.file_edit.is_some(),
        check: call.args.check.clone().or_else(|| {
            let schema = call.args.answer.schema.as_ref()?;
            Some(format!("valid against {}", schema.display()))
        }),
        patience: settings.retry_patience(),
        model: runner.asker.model_id.clone(),
        run: runner.files.log.facts.run.clone(),
        first_turn: turns,
    }
}

/// The command that continues the conversation of a call in the same shell, with the same flags.
fn command_to_continue(call: &Call<'_>) -> String {
    let mut command =
        match (&call.which.file_edit, call.which.new || call.which.conversation.is_some()) {
            (Some(file), _) => format!("nagent-file-edit {}", quote_name(shell_word(file))),
            (None, true) => format!("nagent -c {}", call.name),
            (None, false) => "nagent".to_owned(),
        };
    let kept = RunArgs { read: Vec::new(), clear: false, ..call.args.clone() };
    for word in kept.words() {
        let word = if word == "--write=." { "-w".to_owned() } else { quote_name(shell_word(word)) };
        command.push_str(&format!(" {word}"));
    }
    command
}

/// Ends the run on the conversation's file, and reports its outcome.
fn finish_run(
    call: &Call<'_>,
    runner: &mut Runner<'_>,
    outcome: anyhow::Result<RunOutcome>,
    totals: &Totals,
) -> Report {
    runner.note_waiting_messages();
    let change = if outcome.is_ok() { runner.finish() } else { Ok(None) };
    let is_seen = call.args.lines || terminal::stderr_is_terminal();
    if let Some(note) = runner.command_changes.describe().filter(|_| is_seen && !call.delegated) {
        runner.note(&note);
    }
    let mut outcome = outcome.unwrap_or_else(|error| {
        let problem = Problem::from(error);
        RunOutcome { exit: problem.exit, responses: Vec::new(), error: Some(problem.message) }
    });
    let change = change.unwrap_or_else(|failure| {
        if outcome.exit == Exit::Done {
            (outcome.exit, outcome.error) = (Exit::Failed, Some(format!("{failure:#}")));
        }
        None
    });
    let is_resumable = !call.delegated && call.scripts.is_none();
    if let (Exit::Signal(_), true, Some(error)) = (outcome.exit, is_resumable, &mut outcome.error) {
        error.push_str(&format!("; {} \"go on\" continues it", command_to_continue(call)));
    }
    let seconds = runner.watch.elapsed().as_secs_f64();
    let report = make_report(outcome, totals, runner.conversation.path(), seconds);
    if call.which.file_edit.is_none() {
        return report;
    }
    let (before, after) = change.map(|change| (change.before, change.after)).unzip();
    report
        .with("changed", after.is_some())
        .with("before_sha256", before)
        .with("after_sha256", after)
}

/// Prints the request that the conversation with its opening blocks would make.
fn show_request(runner: &mut Runner<'_>, opening: &[Block]) -> Result<Report, Problem> {
    let mut text = runner.conversation.text().to_owned();
    for block in opening {
        text.push_str(if text.is_empty() || text.ends_with('\n') { "\n" } else { "\n\n" });
        text.push_str(&drive::format_block(block));
    }
    let pieces = file::parse(&text).pieces;
    let (system, messages, shown) = prompt::messages(&text, &pieces);
    let (client, model) = (&mut runner.asker.client, &runner.asker.model_id);
    let outputs = runner.context.root.outputs_folder();
    let files = client
        .attach_files(&shown, model, &outputs, None)
        .map_err(|error| Problem::failed(error.to_string()))?;
    for note in client.notes.drain(..) {
        (runner.on_progress)(ProgressEvent::Note(&note));
    }
    let ask = ChatRequest {
        model: &runner.asker.model_id,
        system,
        messages,
        files,
        cache_key: Some(runner.conversation.name()),
        max_output: runner.asker.max_output,
        window: runner.asker.window,
        options: &runner.asker.options,
    };
    report_request(runner.asker.client.show_request(&ask))
}

/// Makes the report of a run.
fn make_report(outcome: RunOutcome, totals: &Totals, path: &Path, seconds: f64) -> Report {
    let RunOutcome { exit, responses, error } = outcome;
    let all = &totals.all;
    let text =
        responses.iter().map(|text| text.trim_end_matches('\n')).collect::<Vec<_>>().join("\n");
    Report { exit, error, ..Report::done(text) }
        .with("conversation_path", path.display().to_string())
        .with("responses", responses)
        .with("notes", totals.notes.clone())
        .with("turn_count", totals.turns)
        .with("recursive_turn_count", totals.all_turns)
        .with("conversation_input_tokens", totals.own.input)
        .with("recursive_input_tokens", all.input)
        .with("recursive_output_tokens", all.output)
        .with("recursive_cache_read_tokens", all.cached)
        .with("recursive_cache_write_tokens", all.cache_written)
        .with("reasoning_tokens", all.reasoning)
        .with("tokens_in", all.input)
        .with("tokens_out", all.output)
        .with("estimated", all.estimated)
        .with("cost", (!totals.unpriced || totals.cost > 0.0).then_some(totals.cost))
        .with("seconds", (seconds * 1000.0).round() / 1000.0)
}
