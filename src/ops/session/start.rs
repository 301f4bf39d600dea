//! The start of a session: its folder, look, credential, model and conversation, each checked before the first prompt.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::Value;

use super::args::SessionArgs;
use super::env_file::{OTHER_NAME, parse_credentials};
use super::typed_ahead::TypedAhead;
use crate::mcp::host::{Host, VARIABLE};
use crate::ops::conversations::conversation_name::with_name;
use crate::ops::mcp::find_servers;
use crate::ops::run::call::Call;
use crate::ops::setup::connection::no_provider;
use crate::ops::setup::flags::{ConversationArgs, RunArgs};
use crate::ops::setup::settings::Settings;
use conversation::exit::Exit;
use conversation::limits;
use conversation::problem::Problem;
use history::git;
use models::catalog::list_models;
use models::provider::{Provider, ollama_address};
use sys::env::Env;
use sys::foreground::Foreground;
use sys::interrupt::Interrupts;
use sys::root::{Root, explain_refusal};
use sys::{fs, terminal};
use view::figures::RunFigures;
use view::look::Look;

/// The name of the tool, for lines on stderr.
pub const NAME: &str = "nagent-repl";

/// The state of a session.
pub(super) struct Session {
    /// The flags of its runs.
    pub(super) args: RunArgs,
    /// The environment of its runs, with the credentials of env files.
    pub(super) env: Env,
    /// The environment of the user's own commands.
    pub(super) user_env: Env,
    pub(super) settings: Settings,
    /// The model in force.
    pub(super) model: Option<String>,
    /// The name of the conversation.
    pub(super) name: String,
    pub(super) look: Look,
    pub(super) foreground: Foreground,
    /// Whether a person types; else prompts are lines of stdin.
    pub(super) is_interactive: bool,
    pub(super) is_streaming: bool,
    pub(super) is_over: Cell<bool>,
    /// The command of `--check`.
    pub(super) check: Option<String>,
    /// Files that the model is shown with the next prompt.
    pub(super) reads: Vec<PathBuf>,
    /// The models of the provider: those that nagent knows, until they were listed.
    pub(super) models: Rc<RefCell<Vec<String>>>,
    pub(super) ahead: RefCell<TypedAhead>,
    /// The figures of all runs.
    pub(super) figures: RunFigures,
    /// The number of runs so far.
    pub(super) count: u64,
    /// The documents of the runs, for `--json`.
    pub(super) documents: Vec<Value>,
    /// The process that keeps the MCP servers of all runs.
    pub(super) _host: Option<Host>,
}

/// Checks everything, and takes up the conversation that is continued.
pub(super) fn start(session: &SessionArgs) -> Result<Session, Problem> {
    let user_env = Env::read();
    user_env.current_folder()?;
    let mut env = user_env.clone();
    let mut args = session.run.clone();
    if args.look.is_none() {
        let look = Settings::resolve_run(&args, &env)?.config.look;
        args.look = Some(look.unwrap_or_else(|| "plain".to_owned()));
    }
    add_credentials(&session.env_file, &args, &mut env)?;
    let which = ConversationArgs {
        conversation: session.conversation.clone(),
        new: session.new,
        continue_: session.continue_.clone(),
        ..ConversationArgs::default()
    };
    let interrupts = Interrupts::without_handlers()?;
    let settings = Settings::resolve_run(&args, &env)?;
    let call = Call::with_settings(NAME, &args, &which, env.clone(), interrupts, settings);
    let call = with_name(call)?;
    let settings = call.settings.clone();
    let model = check_model(&settings, &env, &call.interrupts)?;
    let name = call.name;
    if settings.provider == Provider::Ollama {
        args.model.provider = Some(Provider::Ollama.name().to_owned());
        args.model.model.clone_from(&model);
    }
    settings.root.prepare().map_err(|error| explain_refusal(&error))?;
    if which.continue_.is_some() {
        settings.root.take_up(&env.shell_conversation(None), &name)?;
    }
    let host = start_host(&settings.root, &mut env)?;
    let reads = std::mem::take(&mut args.read);
    args.prompt.clear();
    // The default is no flag of the runs.
    args.look.take_if(|look| look == "plain" && session.run.look.is_none());
    let check = args.check.take();
    let provider = settings.provider_name();
    // Another server has models of its own.
    let is_own = settings.config.base_url.is_none();
    let known = list_models().filter(|model| is_own && model.provider == provider);
    let known = known.map(|model| model.id.to_owned()).collect();
    Ok(Session {
        look: settings.look.clone().unwrap_or_default(),
        args,
        env,
        user_env,
        settings,
        model,
        name,
        foreground: Foreground::start()?,
        is_interactive: terminal::stdin_is_terminal(),
        is_streaming: !session.no_stream,
        is_over: Cell::default(),
        check,
        reads,
        models: Rc::new(RefCell::new(known)),
        ahead: RefCell::default(),
        figures: RunFigures::default(),
        count: 0,
        documents: Vec::new(),
        _host: host,
    })
}

/// Starts the process that keeps MCP servers, if there are some: its runs find it by a variable. They report what is not used.
fn start_host(root: &Root, env: &mut Env) -> Result<Option<Host>, Problem> {
    let folder = env.current_folder()?;
    let found = find_servers(root, env, &folder, git::find_toplevel(&folder).as_deref());
    let Some((servers, _)) = found.ok().filter(|(servers, _)| !servers.is_empty()) else {
        return Ok(None);
    };
    let host = Host::start(env, &folder, &servers)?;
    env.set(VARIABLE, host.courier().share()?.to_string());
    Ok(Some(host))
}

/// Checks that there is a credential, or that Ollama answers, and which model it has.
fn check_model(
    settings: &Settings,
    env: &Env,
    interrupts: &Interrupts,
) -> Result<Option<String>, Problem> {
    let is_guess = settings.is_guess;
    let is_ollama = settings.provider == Provider::Ollama;
    let mut client = settings.connect_client(env, true)?;
    if is_ollama {
        client.limit_time(limits::OLLAMA_PATIENCE);
    }
    let chosen = if is_ollama && client.model_id.is_some() {
        client.list_models(interrupts).map(drop).map_err(Problem::from)
    } else {
        settings.choose_model(&mut client, true, interrupts)
    };
    let model = client.model_id;
    chosen.map(|()| model).map_err(|problem| match problem.exit {
        Exit::Provider if is_guess => no_provider(),
        Exit::Provider if is_ollama => {
            let address = ollama_address(settings.config.base_url.as_deref().unwrap_or_default());
            let message = format!(
                "Ollama does not answer at {address}: start it (ollama serve), or set OLLAMA_HOST, or choose another \
                 provider with --provider"
            );
            Problem::new(Exit::Provider, message)
        }
        _ => problem,
    })
}

/// Adds the credentials of env files: those that were named, else of the first of the look's that is there, where no credential is
/// set. `$NAME` is the file that a variable names.
fn add_credentials(named: &[PathBuf], args: &RunArgs, env: &mut Env) -> Result<(), Problem> {
    for path in named {
        if !take_credentials(path, env)? {
            return Err(no_key(&format!("{} is not there", path.display())));
        }
    }
    let settings = Settings::resolve_run(args, env)?;
    let files = settings.look.as_ref().map(|look| look.env_files.clone()).unwrap_or_default();
    // Who has this variable in a file may have exported it, too.
    let other = env.get(OTHER_NAME).map(str::to_owned).filter(|_| !files.is_empty());
    if let (Some(key), None) = (other, env.get("ANTHROPIC_API_KEY")) {
        env.set_from("ANTHROPIC_API_KEY", &key, OTHER_NAME);
    }
    let settings = Settings::resolve_run(args, env)?;
    let client =
        if settings.is_guess { Err(no_provider()) } else { settings.connect_client(env, true) };
    if files.is_empty() || client.as_ref().is_ok_and(|client| client.credential.is_some()) {
        return Ok(());
    }
    for file in &files {
        let path = file.strip_prefix('$').map_or(Some(file.as_str()), |name| env.get(name));
        let Some(path) = path.filter(|path| !path.is_empty()).map(PathBuf::from) else { continue };
        if take_credentials(&path, env)? {
            return Ok(());
        }
    }
    // A server of the user's own may need none.
    client.map(drop).map_err(|_| no_key(&format!("{} is not there", files.join(", "))))
}

/// Takes the credentials from a file; false if it is not there. What is set already stays.
fn take_credentials(path: &Path, env: &mut Env) -> Result<bool, Problem> {
    let name = path.display();
    let text = fs::read_text(&env.absolute_path(path)?, limits::ENV_FILE)
        .map_err(|error| Problem::usage(format!("env file {name}: {error:#}")))?;
    let Some(text) = text else { return Ok(false) };
    let found = parse_credentials(&text);
    if found.is_empty() {
        return Err(no_key(&format!("{name} has no key")));
    }
    for (name, given, value) in found {
        if env.get(name).is_none() {
            env.set_from(name, value, &format!("{given} in {}", path.display()));
        }
    }
    Ok(true)
}

fn no_key(what: &str) -> Problem {
    Problem::usage(format!(
        "env file {what}; write the line {OTHER_NAME}=your-key into it, or that of another provider, as in \
         OPENAI_API_KEY=your-key"
    ))
}
