//! From settings to a running loop: opens the conversation, gathers the first context, makes the opening blocks,
//! runs, and reports.

use std::path::Path;
use std::time::Duration;

use super::children::children;
use super::progress::Progress;
use super::{Call, file_edit, file_memory, sandbox};
use crate::client::{ModelClient, RequestError};
use crate::cmd::TOOLS;
use crate::cmd::settings::pick;
use crate::context::{self, Facts, Part, Section};
use crate::drive::asker::Asker;
use crate::drive::commands::Commands;
use crate::drive::file_guard::FileGuard;
use crate::drive::redaction::ResultRedactor;
use crate::drive::run_context::RunContext;
use crate::drive::{self, ProgressEvent, Runner};
use crate::exit::Exit;
use crate::format::conversation::{self, Block, Piece};
use crate::llm::ChatRequest;
use crate::llm::error::check_window;
use crate::llm::price;
use crate::llm::provider::Provider;
use crate::out::{self, Report};
use crate::problem::Problem;
use crate::prompt;
use crate::protocol::{Action, tags};
use crate::sys::boundary::{Boundary, Places};
use crate::sys::clock::{self, Stopwatch};
use crate::sys::conversation_file::ConversationFile;
use crate::sys::interrupt::Interrupts;
use crate::sys::lock::IndexWait;
use crate::sys::sandbox::Sandbox;
use crate::sys::{context_files, env, fs, git, tools};
use crate::turn::Turn;
use crate::turn::event::{Limits, Rules, Totals};
use crate::turn::unfinished::unfinished_results;

/// Runs the loop, or shows what it would send.
pub(super) fn run(call: &mut Call<'_>, text: Option<Vec<u8>>) -> Result<Report, Problem> {
    let watch = Stopwatch::start();
    let args = call.args;
    let folder = call.env.folder.clone().map_err(Problem::usage)?;
    let source = source(call, &folder)?;
    let model_id = source.model_id.clone().unwrap_or_default();
    let limits = limits(call);
    let price = call.settings.price(&model_id);
    if limits.cost.is_some() && price.is_none() {
        return Err(Problem::usage(format!(
            "--max-cost needs the price of model {model_id}: \"prices\": {{\"{model_id}\": {{\"input\": 1.25, \"output\": 10}}}} \
             (US dollars per million tokens) in {}",
            call.settings.config_path.value.display()
        )));
    }
    let conversation = open(call)?;
    let mut progress = Progress::new(call.quiet);
    let (mut facts, mut boundary, sandbox) = gather(call, &folder, &mut progress)?;
    let memory = file_memory::gather(call, Some((&conversation, &model_id)), &mut progress);
    let redactor = ResultRedactor::new(
        call.env,
        &call.settings.config.pass_env,
        &call.settings.root.value,
        call.redacts(),
        args.show_request,
    )?;
    facts.memory = redactor.redact_text(memory.text).0;
    let splits = call.settings.root.value.splits(conversation.name());
    if fs::exists(&splits) {
        boundary.allow_splits(&splits);
    }
    let mut on_progress = |event: ProgressEvent<'_>| progress.see(event);
    let root = call.settings.root.value.clone();
    let mut runner = Runner {
        children: children(call, &source),
        conversation,
        asker: Asker {
            client: source,
            window: call.settings.window(&model_id),
            max_output: call.settings.config.max_output_tokens,
            model_id,
            price,
        },
        files: FileGuard::new(boundary, root.outputs()),
        commands: Commands { rules: call.settings.shell(), sandbox, check: args.check.clone() },
        context: RunContext { root, env: call.env, folder, interrupts: call.interrupts, redactor },
        watch,
        on_progress: &mut on_progress,
    };
    if let Some(path) = &args.record
        && !args.show_request
    {
        let path = runner.context.folder.join(path);
        let is_child = call.env.get(env::LINEAGE).is_some();
        if !is_child && fs::file_size(&path).is_some_and(|size| size > 0) {
            return Err(Problem::usage(holds_a_recording(&path)));
        }
        fs::append_text(&path, "")?;
        let lineage = call.env.get(env::LINEAGE).unwrap_or("0").to_owned();
        runner.asker.client.record(path, lineage);
    }
    let opening = opening(call, &mut runner, &context::sections(&facts), text)?;
    if args.show_request {
        return show_request(&runner, &opening);
    }
    // Told before anything is stored: the conversation stays one that fits.
    let added: usize =
        opening.iter().filter_map(|block| block.body.as_ref()).map(String::len).sum();
    runner.conversation.check_room(added)?;
    let bytes = runner.conversation.text().len() + added;
    if let Some(error) = check_window(bytes, &runner.asker.model_id, runner.asker.window) {
        return Err(Problem::new(Exit::Provider, error.message));
    }
    let rules = Rules {
        limits,
        check: args.check.clone(),
        patience: call.settings.patience.value,
        first_turn: count(runner.conversation.pieces(), "nagent-turn-status"),
    };
    let (mut turn, first) = Turn::start(rules, opening);
    if memory.requests > 0 {
        let cost =
            runner.asker.price.as_ref().map(|price| price::compute_cost(price, &memory.usage));
        turn.spend(&memory.usage, cost);
    }
    let outcome = drive::run(&mut runner, &mut turn, first);
    let change = if outcome.is_ok() { runner.finish() } else { Ok(None) };
    let path = runner.conversation.path().to_owned();
    let seconds = runner.watch.elapsed().as_secs_f64();
    drop(runner);
    let last_line = progress.status(turn.totals(), seconds);
    let (exit, responses, error) = match outcome {
        Ok(outcome) => (outcome.exit, outcome.responses, outcome.error),
        Err(error) => (Exit::Failed, Vec::new(), Some(format!("{error:#}"))),
    };
    let (exit, error, change) = match (change, exit) {
        (Ok(change), _) => (exit, error, change),
        (Err(failure), Exit::Done) => (Exit::Failed, Some(format!("{failure:#}")), None),
        (Err(_), _) => (exit, error, None),
    };
    let mut report = report(exit, responses, error, turn.totals(), &path, seconds)
        .with("summary_requests", memory.requests);
    if args.file_edit.is_some() {
        let (before, after) = change.map(|change| (change.before, change.after)).unzip();
        report = report
            .with("changed", after.is_some())
            .with("before_sha256", before.map(|content| content.as_str().to_owned()))
            .with("after_sha256", after.map(|content| content.as_str().to_owned()));
    }
    Ok(Report { last_line, ..report })
}

/// The refusal to mix two runs in one recording.
pub(crate) fn holds_a_recording(path: &Path) -> String {
    let path = path.display();
    format!("--record {path}: it holds a recording already, and one file holds one run")
}

/// The model's connection. Where no provider was chosen and no credential is set, Ollama is tried.
fn source(call: &mut Call<'_>, folder: &Path) -> Result<ModelClient, Problem> {
    if call.settings.provider.is_none() && call.args.show_request {
        return Err(call
            .settings
            .provider()
            .err()
            .unwrap_or_else(|| Problem::usage("no provider")));
    }
    let guessed = call.settings.provider.is_none();
    if guessed {
        call.settings.try_provider(Provider::Ollama, &call.args.model, call.env);
    }
    let mut source = call.settings.source(call.env, folder, !call.args.show_request)?;
    if source.model_id.is_none() && call.settings.provider()? == Provider::Ollama {
        if call.args.show_request {
            return Err(Problem::usage(
                "--show-request sends nothing, so it cannot ask Ollama which models it has: give --model NAME",
            ));
        }
        match source.list_models(call.interrupts) {
            Ok(models) => match models.as_slice() {
                [only] => source.model_id = Some(only.id.clone()),
                [] => {
                    return Err(Problem::usage(
                        "Ollama answers and has no model: pull one (ollama pull NAME), then --model NAME",
                    ));
                }
                several => {
                    let names: Vec<&str> = several.iter().map(|model| model.id.as_str()).collect();
                    return Err(Problem::usage(format!(
                        "Ollama has several models, choose one with --model: {}",
                        names.join(", ")
                    )));
                }
            },
            Err(RequestError::Interrupted(signal)) => {
                return Err(Problem::interrupted(signal));
            }
            Err(RequestError::Api(_)) if guessed => {
                call.settings.provider = None;
                return Err(call
                    .settings
                    .provider()
                    .err()
                    .unwrap_or_else(|| Problem::usage("no provider")));
            }
            Err(RequestError::Api(error)) => {
                return Err(Problem::new(Exit::Provider, error.to_string()));
            }
        }
    }
    Ok(source)
}

fn limits(call: &Call<'_>) -> Limits {
    let (args, config) = (&call.args.limits, &call.settings.config);
    Limits {
        turns: args.max_turns.or(config.max_turns).unwrap_or(200),
        seconds: args.max_seconds.or(config.max_seconds),
        tokens: args.max_tokens.or(config.max_tokens),
        cost: args.max_cost.or(config.max_cost),
    }
}

/// Opens the conversation: under its lock for a run, without one for a look.
fn open(call: &Call<'_>) -> Result<ConversationFile, Problem> {
    let root = &call.settings.root.value;
    if call.args.show_request {
        return Ok(ConversationFile::read_only(root, &call.name)?);
    }
    let timeout =
        pick(call.args.lock_timeout, None, call.settings.config.lock_timeout, 30.0, "config").value;
    let name = call.name.clone();
    let mut waiting =
        |by: &str| out::line(&format!("nagent: waiting for conversation {name}, in use{by}"));
    ConversationFile::open(
        root,
        &call.name,
        Duration::from_secs_f64(timeout),
        call.interrupts,
        &mut waiting,
    )
    .map_err(Problem::from)
}

/// How an index is waited for: until a signal comes, and not without a word.
pub(crate) fn wait(interrupts: &Interrupts) -> IndexWait<'_> {
    IndexWait { interrupts, tell: &|what| out::line(&format!("nagent: {what}")) }
}

/// What the model is told about its surroundings, where it may write, and the sandbox around its commands.
pub(super) fn gather(
    call: &Call<'_>,
    folder: &Path,
    progress: &mut Progress,
) -> Result<(Facts, Boundary, Option<Sandbox>), Problem> {
    let root = &call.settings.root.value;
    let home = call.env.home();
    let (found, notes) = tools::discover(root, call.env, &TOOLS, call.interrupts);
    let git = git::read_facts(folder);
    let (files, warnings) = context_files::load_context_files(root.path(), home.as_deref());
    for note in notes.iter().chain(&warnings).chain(&git.notes) {
        progress.see(ProgressEvent::Note(note));
    }
    let temp = call.env.get_os("TMPDIR");
    let places = Places {
        cwd: folder,
        toplevel: git.toplevel.as_deref(),
        home: home.as_deref(),
        root: root.path(),
        tmpdir: temp,
    };
    let (part, mut boundary) = if let Some(path) = &call.args.file_edit {
        let boundary = Boundary::for_file(places, path)
            .map_err(|denied| Problem::usage(denied.to_string()))?;
        file_edit::may_be_named(call, &boundary)?;
        (Part::File(folder.join(path).display().to_string()), boundary)
    } else {
        let (boundary, notes) = Boundary::for_main(places);
        for note in &notes {
            progress.see(ProgressEvent::Note(note));
        }
        (if call.delegated { Part::Delegated } else { Part::User }, boundary)
    };
    let write = call.write_folders();
    for extra in &write {
        boundary
            .allow_folder(extra)
            .map_err(|denied| Problem::usage(format!("--write: {denied}")))?;
    }
    let sandbox = call.build_sandbox(folder, git.toplevel.as_deref(), write, boundary.target())?;
    let facts = Facts {
        part,
        writable: boundary.roots().iter().map(|path| path.display().to_string()).collect(),
        sandbox: sandbox.as_ref().map(sandbox::describe).unwrap_or_default(),
        shell_timeout: call.settings.shell().timeout.as_secs(),
        tools: found,
        host: env::describe_host(),
        toplevel: git.toplevel.map(|path| path.display().to_string()),
        remotes: git.remotes,
        files: files.into_iter().map(|part| (part.path.display().to_string(), part.text)).collect(),
        memory: String::new(),
    };
    Ok((facts, boundary, sandbox))
}

/// The blocks that a run begins with.
fn opening(
    call: &Call<'_>,
    runner: &mut Runner<'_>,
    now: &[Section],
    text: Option<Vec<u8>>,
) -> Result<Vec<Block>, Problem> {
    let mut blocks = unfinished_results(runner.conversation.text(), runner.conversation.pieces());
    if let Some(path) = runner.conversation.torn_tail() {
        let note = format!(
            "the end of this conversation was no whole block, as after a crash; what stood there is in {}",
            path.display()
        );
        (runner.on_progress)(ProgressEvent::Note(&note));
        blocks.push(Block::new("system").body(note));
    }
    blocks.extend(first_context(&runner.conversation, now));
    for path in &call.args.read {
        let action = Action::Read { path: path.clone(), offset: None, limit: None };
        let (block, _) = runner.run_action(&action)?;
        if block.get("status") != Some("ok") {
            let why = block.body.unwrap_or_default();
            return Err(Problem::failed(format!("--read {path}: {why}")));
        }
        blocks.push(block);
    }
    if let Some(bytes) = text {
        let folder = runner.context.folder.display().to_string();
        let last = runner.conversation.pieces().iter().rev().find_map(|piece| piece.get("cwd"));
        if last.is_some_and(|last| last != folder) {
            let note = format!(
                "going on in {folder}; the last prompt was given in {}",
                last.unwrap_or_default()
            );
            (runner.on_progress)(ProgressEvent::Note(&note));
        }
        let mut block = Block::new("user-prompt").with("at", clock::now()).with("cwd", folder);
        if let Some(before) = runner.files.changes.begin(!call.args.show_request)? {
            block = block.with("before", before.as_str());
        }
        if let Some(parent) = &call.args.parent_conversation {
            block = block.with("from", parent);
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                if !call.args.show_request {
                    block = block.with(
                        "output",
                        fs::store_output(&runner.context.root.outputs(), error.as_bytes())?
                            .display(),
                    );
                }
                String::from_utf8_lossy(error.as_bytes()).into_owned()
            }
        };
        // Zeros would be taken for a file system's, after a crash.
        blocks.push(block.body(text.replace('\0', "\u{fffd}").trim_end_matches('\n').to_owned()));
    }
    Ok(blocks)
}

/// `initial_context` for a new conversation; what has changed of it for an older one.
pub(super) fn first_context(journal: &ConversationFile, now: &[Section]) -> Vec<Block> {
    if journal.pieces().is_empty() {
        return vec![Block::new("initial_context").body(context::format(now))];
    }
    context::changes(&told(journal), now)
        .into_iter()
        .map(|section| {
            Block::new("context-update").with("section", section.title).body(section.text)
        })
        .collect()
}

/// The sections that a conversation was told, in the order in which it was.
pub(super) fn told(journal: &ConversationFile) -> Vec<Section> {
    let text = journal.text();
    let mut told = Vec::new();
    for piece in journal.pieces() {
        match piece.name() {
            Some("initial_context") => {
                // An editor may have changed the line ends of the whole file.
                told.extend(context::parse(&piece.text(text).replace("\r\n", "\n")));
            }
            Some("context-update") => {
                let title = piece.get("section").unwrap_or_default();
                if let Some(title) = context::TITLES.into_iter().find(|known| *known == title) {
                    told.push(Section { title, text: piece.text(text).replace("\r\n", "\n") });
                }
            }
            _ => {}
        }
    }
    told
}

fn count(pieces: &[Piece], name: &str) -> u64 {
    pieces.iter().filter(|piece| piece.name() == Some(name)).count() as u64
}

/// Prints the request that the conversation with its opening blocks would make.
fn show_request(runner: &Runner<'_>, opening: &[Block]) -> Result<Report, Problem> {
    let own: Vec<&str> = tags::TAGS.iter().map(|tag| tag.name).collect();
    let mut text = runner.conversation.text().to_owned();
    for block in opening {
        text.push_str(if text.is_empty() || text.ends_with('\n') { "\n" } else { "\n\n" });
        text.push_str(&drive::format_block(block, &own));
    }
    let pieces = conversation::parse(&text).pieces;
    let (system, messages) = prompt::messages(&text, &pieces);
    let ask = ChatRequest {
        model: &runner.asker.model_id,
        system,
        messages,
        file: None,
        cache_key: Some(runner.conversation.name()),
        max_output: runner.asker.max_output,
        window: runner.asker.window,
    };
    let body = String::from_utf8(runner.asker.client.show_request(&ask))
        .map_err(|error| Problem::usage(error.to_string()))?;
    Ok(Report::exactly(body.clone()).with("request", body))
}

/// What a run reports.
fn report(
    exit: Exit,
    responses: Vec<String>,
    error: Option<String>,
    totals: &Totals,
    path: &Path,
    seconds: f64,
) -> Report {
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
        .with("tokens_in", all.input)
        .with("tokens_out", all.output)
        .with("estimated", all.estimated)
        .with(
            "cost",
            if totals.unpriced && totals.cost <= 0.0 {
                serde_json::Value::Null
            } else {
                totals.cost.into()
            },
        )
        .with("seconds", (seconds * 1000.0).round() / 1000.0)
}
