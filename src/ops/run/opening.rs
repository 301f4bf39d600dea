//! Prepares a run: gathers the facts for the first context, and makes the first blocks (missing results, context, files,
//! prompt).

use std::path::Path;
use std::sync::Arc;

use super::call::Call;
use super::sandbox;
use super::skills::{Skills, named_by};
use super::trust::{RepositoryText, SERVERS, repository_files};
use crate::drive::{self, ProgressEvent, Runner};
use crate::mcp::servers::Servers;
use crate::ops::files::{file_conversation, file_memory, refuse_hidden_link};
use crate::ops::mcp;
use crate::ops::screen::progress::Progress;
use ::sandbox::enforce::Sandbox;
use conversation::context::{self, ConversationRole, Facts, Section};
use conversation::format::file::Block;
use conversation::format::harmless::quote_name;
use conversation::format::numbers::format_bytes;
use conversation::limits::{self, PROMPT_WHOLE, STDIN_PROMPT};
use conversation::memory::changes::{first_line, short_hash};
use conversation::problem::Problem;
use conversation::protocol::TagKind;
use conversation::reason::Reason;
use conversation::turn::unfinished::unfinished_results;
use history::git;
use sys::boundary::{Boundary, BoundaryFolders};
use sys::conversation_file::ConversationFile;
use sys::input::{InputFile, is_stream};
use sys::{clock, context_files, env, fs, tools};

/// The facts for the first block, the write boundary, and the sandbox and the MCP servers for the run's commands.
type Gathered = (Facts, Boundary, Option<Arc<Sandbox>>, Servers);

/// Gathers what a run begins with; scripts bring their own text.
pub(crate) fn gather_facts(
    call: &Call<'_>,
    progress: &mut Progress<'_>,
) -> Result<Gathered, Problem> {
    let (root, folder) = (call.root(), call.env.current_folder()?);
    if call.scripts.is_some() {
        let boundary = file_conversation::file_boundary(&call.env, root, None)?;
        return Ok((Facts::default(), boundary, None, Servers::new()));
    }
    let folder = folder.as_path();
    let home = call.env.home_folder();
    let discover = || tools::discover(root, &call.env, &call.interrupts);
    let found = progress.spinner.during("tools", discover);
    let git = git::read_facts(folder);
    let (files, warnings) = context_files::load_context_files(root.path(), home.as_deref());
    for note in found.notes.iter().chain(&warnings).chain(&git.notes) {
        progress.show_event(ProgressEvent::Note(note));
    }
    let temp = call.env.get_os("TMPDIR");
    let places = BoundaryFolders {
        cwd: folder,
        toplevel: git.toplevel.as_deref(),
        home: home.as_deref(),
        root: root.path(),
        tmpdir: temp,
    };
    let (part, mut boundary) = if let Some(path) = &call.which.file_edit {
        let boundary = Boundary::for_file(places, path)
            .map_err(|denied| Problem::usage(denied.to_string()))?;
        file_conversation::check_target(call, &boundary)?;
        (ConversationRole::File(folder.join(path).display().to_string()), boundary)
    } else {
        let role =
            if call.delegated { ConversationRole::Delegated } else { ConversationRole::User };
        (role, Boundary::for_main(places))
    };
    for extra in &call.settings.write {
        boundary
            .allow_folder(extra)
            .map_err(|denied| Problem::usage(format!("--write: {denied}")))?;
    }
    let (sandbox, note) = sandbox::prepare(call, git.toplevel.as_deref(), boundary.target())?;
    if let Some(note) =
        note.filter(|_| !call.delegated && call.settings.tags.contains(TagKind::Shell))
    {
        progress.show_event(ProgressEvent::Advice(&note));
    }
    let sandbox = sandbox.map(Arc::new);
    if let Some(sandbox) = &sandbox {
        boundary.restrict(Arc::clone(sandbox) as _);
    }
    let servers = find_servers(call, folder, git.toplevel.as_deref(), progress);
    let (git, texts, skills) = facts_about_file(call, folder, git, progress);
    let (texts, instructions) = context_texts(call, files, &texts, folder)?;
    let facts = Facts {
        part,
        tags: call.settings.tags,
        writable: boundary.roots().iter().map(|path| path.display().to_string()).collect(),
        sandbox: sandbox.as_deref().map(sandbox::describe).unwrap_or_default(),
        shell_timeout: call.settings.shell().timeout.as_secs(),
        shell: call.settings.shell().program,
        check: call.args.check.clone(),
        after_write: call.settings.config.after_write.clone(),
        own_tools: place_of_tools(&call.env),
        tools: found.tools,
        skills: skills.told(),
        mcp_servers: servers.keys().cloned().collect(),
        host: env::describe_host(),
        toplevel: git.toplevel.map(|path| path.display().to_string()),
        remotes: git.remotes,
        branch: git.branch,
        instructions,
        files: texts,
        memory: String::new(),
    };
    Ok((facts, boundary, sandbox, servers))
}

/// The text that a command writes before the name of one of nagent's own tools.
fn place_of_tools(env: &env::Env) -> Option<String> {
    const TOOL: &str = "nagent-js";
    let folder = env.executable.as_deref()?.parent()?;
    let found = fs::real_path(&env.find_program(TOOL));
    let is_on_path = found.is_some() && found == fs::real_path(&folder.join(TOOL));
    Some(if is_on_path { String::new() } else { format!("{}/", folder.display()) })
}

/// The MCP servers for the run's commands. A file that cannot be used is a note: the run goes on without it.
fn find_servers(
    call: &Call<'_>,
    folder: &Path,
    toplevel: Option<&Path>,
    progress: &mut Progress<'_>,
) -> Servers {
    let found = mcp::find_servers(call.root(), &call.env, folder, toplevel);
    let (servers, note) =
        found.unwrap_or_else(|problem| (Servers::new(), Some(problem.to_string())));
    for note in note.iter().filter(|_| !call.delegated) {
        progress.show_event(ProgressEvent::Note(note));
    }
    servers
}

/// Named texts for the first context.
type NamedTexts = Vec<(String, String)>;

/// The texts that count as the user's words, the more specific last: the root's, those of the repository that were confirmed,
/// those that the config, flags and the look name. And the names of those that were not confirmed, the most specific first.
fn context_texts(
    call: &Call<'_>,
    files: Vec<context_files::ContextFile>,
    texts: &[RepositoryText],
    folder: &Path,
) -> Result<(NamedTexts, Vec<String>), Problem> {
    let name = |text: &RepositoryText| {
        text.path.strip_prefix(folder).unwrap_or(&text.path).display().to_string()
    };
    let plain = |part: context_files::ContextFile| (part.path.display().to_string(), part.text);
    let trusted = texts.iter().filter_map(|text| Some((name(text), text.text.clone()?)));
    let others = texts.iter().rev().filter(|text| text.text.is_none()).map(name);
    for path in &call.settings.context {
        refuse_hidden_link(path, &call.env)?;
    }
    let named = context_files::load_named_files(&call.settings.context);
    let of_look = call.settings.look.iter().filter(|look| !look.context.is_empty());
    let of_look = of_look.map(|look| {
        let name = call.args.look.as_deref().unwrap_or_default();
        (format!("look {name}"), look.context.clone())
    });
    let named = named.map_err(Problem::usage)?.into_iter().map(plain);
    let all = files.into_iter().map(plain).chain(trusted).chain(named).chain(of_look);
    Ok((all.collect(), others.collect()))
}

/// Reads the facts, texts and skills of the repository of the call's file, wherever the call comes from.
fn facts_about_file(
    call: &Call<'_>,
    folder: &Path,
    git: git::GitFacts,
    progress: &mut Progress<'_>,
) -> (git::GitFacts, Vec<RepositoryText>, Skills) {
    let file = call.which.file_edit.as_ref().map(|path| folder.join(path));
    let about = file.as_deref().and_then(Path::parent).unwrap_or(folder);
    let is_same = git.toplevel.as_ref().is_some_and(|top| about.starts_with(top));
    let git = if is_same { git } else { git::read_facts(about) };
    let (mut texts, note) = repository_files(call.root(), about, git.toplevel.as_deref());
    texts.retain(|text| !text.path.ends_with(SERVERS));
    if let Some(note) = &note {
        progress.show_event(ProgressEvent::Note(note));
    }
    let skills = Skills::find(call.root(), &call.env, about, git.toplevel.as_deref());
    if call.delegated {
        return (git, texts, skills);
    }
    let changed = texts.iter().filter(|text| text.has_changed).map(|text| &text.path);
    for path in changed.chain(&skills.changed) {
        let path = quote_name(path);
        let note = format!(
            "{path} changed since you trusted it and is not used; review it with nagent --trust"
        );
        progress.show_event(ProgressEvent::Note(&note));
    }
    if texts.iter().any(|text| text.text.is_none() && !text.has_changed)
        || skills.found.iter().any(|(is_trusted, _)| !is_trusted)
    {
        let advice = "instructions or skills of this repository are not used (untrusted); review them with nagent --trust";
        progress.show_event(ProgressEvent::Advice(advice));
    }
    (git, texts, skills)
}

pub(crate) fn make_blocks(
    call: &Call<'_>,
    runner: &mut Runner<'_>,
    now: &[Section],
    text: Option<Vec<u8>>,
) -> Result<Vec<Block>, Problem> {
    let mut blocks = unfinished_results(runner.conversation.text(), runner.conversation.pieces());
    if let Some((note, block)) = torn_block(&runner.conversation) {
        runner.note(&note);
        blocks.push(block);
    }
    blocks.extend(first_context(&runner.conversation, now));
    blocks.extend(runner.receive(call.args.show_request)?);
    blocks.extend(read_own_file(call, runner)?);
    for path in &call.reads {
        blocks.push(read_for_user(call, runner, path)?);
    }
    for path in named_by(call) {
        runner.note(&format!("the model is shown {}", quote_name(&path)));
        blocks.push(read_for_user(call, runner, &path)?);
    }
    blocks.extend(call.scripts.iter().flat_map(|scripts| scripts.results()));
    if let Some(bytes) = text {
        blocks.push(prompt_block(call, runner, bytes)?);
    }
    Ok(blocks)
}

/// Shows a child its file in advance, since it would read it anyway: a small one whole, of another one the parts that its
/// parent has read, the latest first, as they are now.
fn read_own_file(call: &Call<'_>, runner: &mut Runner<'_>) -> Result<Vec<Block>, Problem> {
    let is_new = runner.conversation.pieces().is_empty();
    let file = call.which.file_edit.as_ref().filter(|_| call.delegated && is_new);
    let Some(file) = file.and_then(|file| file.to_str()) else { return Ok(Vec::new()) };
    let path = runner.context.folder.join(file);
    let size = fs::file_size(&path).unwrap_or(0);
    let is_ok = |block: &Block| block.get("status") == Some("ok");
    if size <= limits::FILE_SHOWN {
        let block = (size > 0).then(|| runner.read_for_user(file, call.args.show_request));
        return Ok(block.transpose()?.into_iter().filter(is_ok).collect());
    }
    let parent = call.parents.last().map(|name| ConversationFile::read_only(call.root(), name));
    let Some(Ok(parent)) = parent else { return Ok(Vec::new()) };
    let mut blocks: Vec<Block> = Vec::new();
    let mut room = limits::FILE_SHOWN;
    for piece in parent.pieces().iter().rev() {
        let is_this = |name| fs::real_path(&runner.context.resolve(Path::new(name)));
        let read = piece.get("path").filter(|_| piece.name() == Some("nagent-read-result"));
        let (first, lines) = (piece.number("first_line"), piece.number("lines"));
        let is_this = read.and_then(is_this).is_some_and(|read| Some(read) == fs::real_path(&path));
        if !is_this
            || first.is_none()
            || blocks.iter().any(|it| it.get("offset") == piece.get("first_line"))
        {
            continue;
        }
        let block = runner.read_part(file, first, lines)?;
        let bytes = block.body.as_ref().map_or(0, |body| body.len() as u64);
        if !is_ok(&block) || bytes > room {
            break;
        }
        room -= bytes;
        blocks.push(block);
    }
    blocks.reverse();
    Ok(blocks)
}

/// The file of `--read`, as the model's own reading would show it.
fn read_for_user(call: &Call<'_>, runner: &mut Runner<'_>, named: &Path) -> Result<Block, Problem> {
    let path = named.display();
    let file = runner.context.resolve(named);
    if file.is_dir() {
        return Err(Problem::failed(format!(
            "--read {path}: it is a folder; name a file in it, or ask about the folder: the model can list and read it"
        )));
    }
    let is_dry = call.args.show_request;
    let block = match named.to_str() {
        Some(name) if !is_stream(named) => runner.read_for_user(name, is_dry)?,
        // A path that is not UTF-8 cannot be written in a tag.
        _ => {
            let source = if is_stream(named) { named } else { &file };
            let input = InputFile::open(source, &call.interrupts)?;
            let bytes = fs::read_bytes(input.path(), STDIN_PROMPT as u64)?;
            let bytes =
                bytes.ok_or_else(|| Problem::failed(format!("--read {path}: no such file")))?;
            runner.show_stream(&path.to_string(), input.path(), bytes, is_dry)?
        }
    };
    report_bytes(runner, &block, &format!("--read {path}"));
    if block.get("status") == Some("ok") {
        return Ok(block);
    }
    let text = block.body.as_deref().unwrap_or_default();
    // The advice below it names tags.
    let why = text.lines().next().unwrap_or_default();
    let has_text = block.get("reason") == Some(Reason::TooLarge.name());
    let advice = if has_text {
        "; name it in the prompt, and the model reads the parts that it needs"
    } else {
        ""
    };
    Err(Problem::failed(format!("--read {path}: {why}{advice}")))
}

/// The block of the prompt, and with it the start of a run on the conversation's file.
fn prompt_block(
    call: &Call<'_>,
    runner: &mut Runner<'_>,
    bytes: Vec<u8>,
) -> Result<Block, Problem> {
    let folder = runner.context.folder.display().to_string();
    let last = runner.conversation.pieces().iter().rev().find_map(|piece| piece.get("cwd"));
    if let Some(last) = last.filter(|last| *last != folder) {
        runner.note(&format!("working in {folder} (the last prompt was in {last})"));
    }
    let block = Block::new("user-prompt").with("at", clock::now()).with("cwd", folder);
    runner.files.log.facts.prompt = first_line(&bytes);
    block.get("at").unwrap_or_default().clone_into(&mut runner.files.log.facts.at);
    runner.context.run = runner.files.log.started_by();
    let before = runner.files.begin(!call.args.show_request)?;
    let block = block
        .with_some("before", before.as_deref().map(short_hash))
        .with_some("from", call.which.parent_conversation.as_ref());
    let words = &call.args.prompt;
    let is_input = words.is_empty() || words.last().is_some_and(|last| last == "-");
    let is_dry = call.args.show_request;
    let block = if is_input && bytes.len() > runner.most_shown(PROMPT_WHOLE) {
        let size = format_bytes(bytes.len() as u64);
        runner.note(&format!(
            "the input has {size}: the model gets its beginning and its end, and the name of a file with all of it"
        ));
        runner.show_long(block, bytes, is_dry)?
    } else {
        runner.show_short(block, &bytes, is_dry)?
    };
    report_bytes(runner, &block, "the prompt");
    Ok(block)
}

/// Reports input that is not text.
fn report_bytes(runner: &mut Runner<'_>, block: &Block, what: &str) {
    if block.get("utf8") == Some("false") {
        runner.note(&format!(
            "{what} is not valid UTF-8; invalid bytes are shown as \u{fffd} (convert it with iconv)"
        ));
    }
}

/// The first context for a new conversation; for an older one, its sections that have changed.
fn first_context(journal: &ConversationFile, now: &[Section]) -> Vec<Block> {
    if journal.pieces().is_empty() {
        return vec![Block::new("initial_context").body(context::format(now))];
    }
    context::changed_sections(&context::known_sections(journal.text(), journal.pieces()), now)
        .into_iter()
        .map(|section| {
            Block::new("context-update").with("section", section.title).body(section.text)
        })
        .collect()
}

pub(crate) fn fresh_context(call: &Call<'_>) -> Result<String, Problem> {
    let mut progress = Progress::new(call);
    let (mut facts, ..) = gather_facts(call, &mut progress)?;
    facts.memory = file_memory::gather_memory(call, None, &|text| text, &mut progress).text;
    let block = Block::new("initial_context").body(context::format(&context::sections(&facts)));
    Ok(drive::format_block(&block))
}

/// The block for a conversation whose end was torn off by a crash, and the note for its user.
pub(crate) fn torn_block(journal: &ConversationFile) -> Option<(String, Block)> {
    let path = journal.torn_tail()?.display();
    let note = format!(
        "the last block of this conversation was incomplete (after a crash?); moved to {path}"
    );
    Some((note.clone(), Block::new("system").body(note)))
}
