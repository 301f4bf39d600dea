//! `--doctor`: checks what a run needs, and says what to do where something is missing. Each configured provider is asked for
//! its models once; nothing is sent to a model.

use serde_json::{Value, json};

use crate::client::RequestError;
use crate::ops::run::sandbox::sandbox_request;
use crate::ops::screen::spinner::Spinner;
use crate::ops::setup::connection::no_provider;
use crate::ops::setup::flags::ModelArgs;
use crate::ops::setup::settings::Settings;
use crate::out::Report;
use conversation::exit::Exit;
use conversation::format::harmless::quote_name;
use conversation::problem::Problem;
use history::git;
use models::provider::Provider;
use sandbox::SandboxMode;
use sandbox::enforce::{Sandbox, SandboxFolders, default_mode};
use sandbox::gaps::Mechanism;
use sys::env::Env;
use sys::interrupt::Interrupts;
use sys::{fs, tools};

const OK: &str = "ok";
/// Something is missing, but nothing is wrong.
const MISSING: &str = "-";
/// Works, but not optimally.
const WARNING: &str = "warning";
const WRONG: &str = "wrong";

struct Checks {
    env: Env,
    interrupts: Interrupts,
    /// The checks so far: the result of each, what was checked, and a message.
    found: Vec<(&'static str, &'static str, String)>,
}

impl Checks {
    fn add(&mut self, finding: &'static str, what: &'static str, message: impl Into<String>) {
        self.found.push((finding, what, message.into()));
    }

    fn has(&self, finding: &str, what: &str) -> bool {
        self.found.iter().any(|check| (check.0, check.1) == (finding, what))
    }
}

/// Checks everything, also where the config cannot be read. Exit code 1 where something is wrong.
pub fn examine(args: &ModelArgs) -> Result<Report, Problem> {
    let (env, interrupts) = (Env::read(), Interrupts::install()?);
    let mut checks = Checks { env, interrupts, found: Vec::new() };
    let mut args = args.clone();
    let settings = match Settings::resolve(&args, &checks.env) {
        Ok(settings) => {
            let path = settings.config_path.display();
            if fs::exists(&settings.config_path) {
                checks.add(OK, "config", path.to_string());
            } else {
                checks.add(MISSING, "config", format!("{path}: not there; using defaults"));
            }
            settings.notes.iter().for_each(|note| checks.add(WARNING, "config", note));
            Some(settings)
        }
        Err(problem) => {
            checks.add(WRONG, "config", problem.to_string());
            // The rest as it is without the config.
            args.config = Some("/dev/null".into());
            Settings::resolve(&args, &checks.env).ok()
        }
    };
    if let Some(settings) = settings {
        check_providers(&mut checks, &args, &settings);
        check_tools(&mut checks, &settings);
        check_sandbox(&mut checks, &settings);
    }
    Ok(report(&checks))
}

fn report(checks: &Checks) -> Report {
    let mut text = String::new();
    let mut list = Vec::new();
    for (finding, what, message) in &checks.found {
        text.push_str(&format!("{finding:<8} {what:<9} {message}\n"));
        list.push(json!({ "finding": finding, "check": what, "message": message }));
    }
    let wrong = checks.found.iter().filter(|(finding, ..)| *finding == WRONG).count();
    let mut report = Report::wrapped(&text).with("checks", list.into_iter().collect::<Value>());
    if wrong > 0 {
        report.exit = Exit::Failed;
        // Below the list on a terminal.
        let error = format!("{wrong} of {} checks failed", checks.found.len());
        report.last_line = Some(format!("nagent: {error}"));
        report = report.with("error", error);
    }
    report
}

fn check_providers(checks: &mut Checks, args: &ModelArgs, settings: &Settings) {
    for provider in Provider::iter() {
        let (name, keys) = (provider.name(), provider.credential_variables());
        let is_chosen = !settings.is_guess && settings.provider == provider;
        let is_set = keys.iter().any(|name| checks.env.get(name).is_some());
        if provider.is_server() && (is_chosen || is_set || provider == Provider::Ollama) {
            // The address is that of the provider that was chosen.
            let base_url = args.base_url.clone().filter(|_| is_chosen);
            let args = ModelArgs { provider: Some(name.to_owned()), base_url, ..args.clone() };
            check_server(checks, &args, provider, is_chosen);
        }
        if is_chosen && provider == Provider::Command {
            let program = settings.config.command.iter().flatten().next();
            let found = program.map(|program| checks.env.find_program(program));
            let missing = || {
                let word = program.map_or("", String::as_str).escape_debug();
                (WRONG, format!("there is no program \"{word}\" (\"command\" in the config)"))
            };
            let found = found.filter(|found| fs::is_executable(found));
            let (finding, what) = found.map_or_else(missing, |found| (OK, quote_name(&found)));
            checks.add(finding, "provider", format!("{name}: {what}"));
        }
    }
    if settings.is_guess && !checks.has(OK, "provider") {
        let message = no_provider().message;
        checks.add(WRONG, "provider", message.lines().next().unwrap_or_default());
    }
}

/// Asks a server for its models once.
fn check_server(checks: &mut Checks, args: &ModelArgs, provider: Provider, is_chosen: bool) {
    let name = provider.name();
    let unused = if is_chosen { WRONG } else { WARNING };
    let (mut client, settings) = match Settings::resolve(args, &checks.env)
        .and_then(|settings| Ok((settings.connect_client(&checks.env, true)?, settings)))
    {
        Ok(both) => both,
        Err(problem) => return checks.add(unused, "provider", problem.to_string()),
    };
    match Spinner::new(true).during(name, || client.list_models(&checks.interrupts)) {
        Ok(models) => {
            let of = client.credential.as_ref().map(|key| format!(", key of {key}"));
            let of = of.unwrap_or_default();
            checks.add(OK, "provider", format!("{name}: {} models{of}", models.len()));
            let model = settings.config.model.filter(|_| is_chosen);
            if let Some(model) = model.filter(|model| !models.iter().any(|one| one.id == *model)) {
                let message =
                    format!("{name} does not list {model}; --list-models prints what it has");
                checks.add(WARNING, "model", message);
            }
        }
        Err(RequestError::Api(_)) if provider == Provider::Ollama && !is_chosen => {
            checks.add(MISSING, "provider", format!("{name}: it is not running"));
        }
        Err(RequestError::Api(error)) => {
            checks.add(unused, "provider", format!("{name}: {}", client.explain(&error, "")));
        }
        Err(RequestError::Interrupted(signal)) => {
            checks.add(unused, "provider", format!("{name}: interrupted by {}", signal.name()));
        }
    }
}

fn check_tools(checks: &mut Checks, settings: &Settings) {
    let found = tools::discover(&settings.root, &checks.env, &checks.interrupts);
    for (path, why) in found.rejected {
        checks.add(WARNING, "tools", format!("{path} is not a tool: {why}"));
    }
    let folder = settings.root.path().join("bin");
    for name in fs::list_names(&folder).unwrap_or_default() {
        if !name.starts_with('.') && !fs::is_executable(&folder.join(&name)) {
            let path = quote_name(folder.join(&name));
            checks.add(WARNING, "tools", format!("{path} is not a tool: it is not executable"));
        }
    }
}

/// Builds the sandbox that commands get here, or that of `--sandbox workspace` if they get none.
fn check_sandbox(checks: &mut Checks, settings: &Settings) {
    let Ok(folder) = checks.env.current_folder() else { return };
    let toplevel = git::find_toplevel(&folder);
    let is_off = settings.config.sandbox == Some(SandboxMode::Off);
    let (toplevel, config) = (toplevel.as_deref(), Some(&*settings.config_path));
    let (root, env) = (settings.root.path(), &checks.env);
    let places = SandboxFolders { folder: &folder, toplevel, root, env, config };
    let default = || default_mode(places).map_or(SandboxMode::Workspace, |(mode, _)| mode);
    let mode = settings.config.sandbox.filter(|_| !is_off).unwrap_or_else(default);
    let request = sandbox_request(settings, mode);
    let what = format!("{}{}", if is_off { "off; --sandbox " } else { "" }, mode.name());
    let name = |sandbox: Sandbox| sandbox.mechanism().map(Mechanism::name);
    let kind =
        Sandbox::prepare(&request, places).and_then(|sandbox| sandbox.map_or(Ok("nothing"), name));
    match kind {
        Ok(kind) => {
            let gaps = "nagent --status -v lists its gaps";
            checks.add(OK, "sandbox", format!("{what} works, with {kind} ({gaps})"));
        }
        Err(error) => {
            let finding = if is_off { WARNING } else { WRONG };
            checks.add(finding, "sandbox", format!("{what}: {error}"));
        }
    }
}
