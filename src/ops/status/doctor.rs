//! `--doctor`: checks what a run needs, and says what to do where something is missing. Each configured provider is asked for
//! its models once; nothing is sent to a model.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::RequestError;
use crate::ops::screen::spinner::Spinner;
use crate::ops::setup::find_root::find_root;
use crate::ops::setup::flags::ModelArgs;
use crate::ops::setup::settings::Settings;
use crate::out::Report;
use conversation::exit::Exit;
use conversation::format::numbers;
use conversation::problem::Problem;
use history::git;
use models::provider::Provider;
use sandbox::SandboxRequest;
use sandbox::enforce::{Sandbox, SandboxFolders};
use sys::clock::Stopwatch;
use sys::env::{self, Env};
use sys::interrupt::Interrupts;
use sys::{fs, terminal, tools};

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckStatus {
    Ok,
    /// Something is missing, but nothing is wrong.
    Missing,
    /// Works, but not optimally.
    Warning,
    Wrong,
}

impl CheckStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "-",
            Self::Warning => "warning",
            Self::Wrong => "wrong",
        }
    }
}

/// The checks so far.
struct Checks(Vec<(CheckStatus, &'static str, String)>);

impl Checks {
    fn add(&mut self, finding: CheckStatus, what: &'static str, message: impl Into<String>) {
        self.0.push((finding, what, message.into()));
    }
}

/// Checks everything, also where the config cannot be read. Exit code 1 where something is wrong.
pub fn examine(args: &ModelArgs) -> Result<Report, Problem> {
    let (env, interrupts) = (Env::read(), Interrupts::install()?);
    let mut checks = Checks(Vec::new());
    check_root(&mut checks, args, &env)?;
    match Settings::resolve(args, &env) {
        Ok(settings) => {
            let path = settings.config_path.display();
            if fs::exists(&settings.config_path) {
                checks.add(CheckStatus::Ok, "config", path.to_string());
            } else {
                checks.add(
                    CheckStatus::Missing,
                    "config",
                    format!("{path}: not there; using defaults"),
                );
            }
            for note in &settings.notes {
                checks.add(CheckStatus::Warning, "config", note);
            }
            check_all(&mut checks, args, &settings, &env, &interrupts);
        }
        Err(problem) => {
            checks.add(CheckStatus::Wrong, "config", problem.to_string());
            // The rest as it is without the config.
            let args = ModelArgs { config: Some("/dev/null".into()), ..args.clone() };
            if let Ok(settings) = Settings::resolve(&args, &env) {
                check_all(&mut checks, &args, &settings, &env, &interrupts);
            }
        }
    }
    check_terminal(&mut checks, &env);
    Ok(report(&checks.0))
}

fn check_all(
    checks: &mut Checks,
    args: &ModelArgs,
    settings: &Settings,
    env: &Env,
    interrupts: &Interrupts,
) {
    check_providers(checks, args, settings, env, interrupts);
    check_tools(checks, settings, env, interrupts);
    check_sandbox(checks, settings, env);
}

fn report(checks: &[(CheckStatus, &'static str, String)]) -> Report {
    let mut text = String::new();
    let mut list = Vec::new();
    for (finding, what, message) in checks {
        text.push_str(&format!("{:<8} {what:<9} {message}\n", finding.as_str()));
        list.push(json!({ "finding": finding.as_str(), "check": what, "message": message }));
    }
    let wrong = checks.iter().filter(|(finding, ..)| *finding == CheckStatus::Wrong).count();
    let mut report = Report::done(text).with("checks", list.into_iter().collect::<Value>());
    if wrong > 0 {
        report.exit = Exit::Failed;
        // Below the list on a terminal.
        let error = format!("{wrong} of {} checks failed", checks.len());
        report.last_line = Some(format!("nagent: {error}"));
        report = report.with("error", error);
    }
    report
}

fn check_root(checks: &mut Checks, args: &ModelArgs, env: &Env) -> Result<(), Problem> {
    let root = find_root(args.root.as_deref(), env)?.0;
    let path = root.path().display();
    if !fs::exists(root.path()) {
        checks.add(CheckStatus::Missing, "root", format!("{path}: the first run creates it"));
        return Ok(());
    }
    if let Err(error) = fs::check_folder_owner(root.path()) {
        checks.add(CheckStatus::Wrong, "root", format!("{error:#}"));
        return Ok(());
    }
    let parts = ["conversations", "outputs", "splits", "trash", "summaries", "history"];
    let sizes: Vec<String> = parts
        .iter()
        .map(|part| (part, fs::bytes_below(&root.path().join(part))))
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(part, bytes)| format!("{part} {}", numbers::format_bytes(bytes)))
        .collect();
    let all = numbers::format_bytes(fs::bytes_below(root.path()));
    let sizes = if sizes.is_empty() { String::new() } else { format!(" ({})", sizes.join(", ")) };
    checks.add(CheckStatus::Ok, "root", format!("{path}: {all}{sizes}"));
    Ok(())
}

fn check_providers(
    checks: &mut Checks,
    args: &ModelArgs,
    settings: &Settings,
    env: &Env,
    interrupts: &Interrupts,
) {
    let is_set = |provider: Provider| {
        provider.credential_variables().iter().any(|name| env.get(name).is_some())
    };
    for provider in Provider::iter() {
        let is_chosen = !settings.is_guess && settings.provider == provider;
        let is_local = provider == Provider::Ollama;
        if provider.preset().is_some() || provider == Provider::Replay {
            if is_chosen {
                check_program(checks, settings, env, provider);
            }
            continue;
        }
        if !is_chosen && !is_local && !is_set(provider) {
            let keys = provider.credential_variables().iter().copied();
            let keys: Vec<&str> = keys.filter(|name| !Provider::is_token(name)).collect();
            let variable = keys.join(" or ");
            let name = provider.name();
            checks.add(CheckStatus::Missing, "provider", format!("{name}: {variable} is not set"));
            continue;
        }
        // The address is that of the provider that was chosen.
        let base_url = args.base_url.clone().filter(|_| is_chosen);
        let name = Some(provider.name().to_owned());
        let args = ModelArgs { provider: name, base_url, ..args.clone() };
        check_server(checks, &args, env, interrupts, provider, is_chosen);
    }
    if settings.is_guess
        && !checks
            .0
            .iter()
            .any(|(finding, what, _)| *what == "provider" && *finding == CheckStatus::Ok)
    {
        checks.add(
            CheckStatus::Wrong,
            "provider",
            crate::ops::setup::connection::no_provider().message.lines().next().unwrap_or_default(),
        );
    }
}

/// Asks a server for its models once.
fn check_server(
    checks: &mut Checks,
    args: &ModelArgs,
    env: &Env,
    interrupts: &Interrupts,
    provider: Provider,
    is_chosen: bool,
) {
    let name = provider.name();
    let unused = if is_chosen { CheckStatus::Wrong } else { CheckStatus::Warning };
    let (mut client, settings) = match Settings::resolve(args, env)
        .and_then(|settings| Ok((settings.connect_client(env, true)?, settings)))
    {
        Ok(both) => both,
        Err(problem) => return checks.add(unused, "provider", problem.to_string()),
    };
    let (watch, spinner) = (Stopwatch::start(), Spinner::new(true));
    spinner.start(name);
    let listed = client.list_models(interrupts);
    spinner.stop();
    match listed {
        Ok(models) => {
            let seconds = watch.elapsed().as_secs_f64();
            let of = client
                .credential
                .as_deref()
                .map_or_else(String::new, |key| format!(", key of {key}"));
            let count = models.len();
            checks.add(
                CheckStatus::Ok,
                "provider",
                format!("{name}: {count} models in {seconds:.1} s{of}"),
            );
            let model = settings.config.model.filter(|_| is_chosen);
            if let Some(model) = model.filter(|model| !models.iter().any(|one| one.id == *model)) {
                let message =
                    format!("{name} does not list {model}; --list-models prints what it has");
                checks.add(CheckStatus::Warning, "model", message);
            }
        }
        Err(RequestError::Api(_)) if provider == Provider::Ollama && !is_chosen => {
            checks.add(CheckStatus::Missing, "provider", format!("{name}: it is not running"));
        }
        Err(RequestError::Api(error)) => {
            checks.add(unused, "provider", format!("{name}: {}", client.explain(&error, "")));
        }
        Err(RequestError::Interrupted(signal)) => {
            checks.add(unused, "provider", format!("{name}: interrupted by {}", signal.name()));
        }
    }
}

/// Looks for the program of a provider that is one.
fn check_program(checks: &mut Checks, settings: &Settings, env: &Env, provider: Provider) {
    let own = match provider {
        Provider::ClaudeCode => "claude",
        Provider::Cursor => "cursor-agent",
        _ => "",
    };
    let words = settings.config.command.clone().unwrap_or_default();
    let program = words.first().map_or(own, String::as_str);
    let name = provider.name();
    if program.is_empty() {
        return checks.add(CheckStatus::Missing, "provider", format!("{name}: nothing to check"));
    }
    let path = env.find_program(program);
    if fs::is_executable(&path) {
        checks.add(CheckStatus::Ok, "provider", format!("{name}: {}", path.display()));
    } else {
        checks.add(CheckStatus::Wrong, "provider", format!("{name}: {program} is not on the PATH"));
    }
}

fn check_tools(checks: &mut Checks, settings: &Settings, env: &Env, interrupts: &Interrupts) {
    let found = tools::discover(&settings.root, env, interrupts);
    let names: Vec<&str> =
        found.tools.iter().filter_map(|tool| Path::new(&tool.path).file_name()?.to_str()).collect();
    checks.add(CheckStatus::Ok, "tools", format!("{}: {}", names.len(), names.join(", ")));
    for (path, why) in &found.rejected {
        checks.add(CheckStatus::Warning, "tools", format!("{path} is not a tool: {why}"));
    }
}

/// Builds the sandbox that `--sandbox workspace` would give here.
fn check_sandbox(checks: &mut Checks, settings: &Settings, env: &Env) {
    let Ok(folder) = env.current_folder() else { return };
    let toplevel = git::find_toplevel(&folder);
    let mode = settings.config.sandbox;
    let in_force = mode.name();
    let mode =
        if mode == sandbox::SandboxMode::Off { sandbox::SandboxMode::Workspace } else { mode };
    let request = SandboxRequest {
        mode,
        no_network: settings.config.no_network,
        write: settings.write.clone(),
        only_landlock: false,
    };
    let places = SandboxFolders {
        folder: &folder,
        toplevel: toplevel.as_deref(),
        root: settings.root.path(),
        env,
        per_file: false,
        config: Some(&settings.config_path),
    };
    match Sandbox::build(&request, places) {
        Ok(Some(sandbox)) => {
            let (mode, kind, gaps) = (
                mode.name(),
                sandbox.mechanism.name(),
                sandbox.mechanism.describe_gaps(&sandbox.request).len(),
            );
            checks.add(
                CheckStatus::Ok,
                "sandbox",
                format!(
                    "{in_force}; --sandbox {mode} works, with {kind} (nagent-sandbox --status lists {gaps} gaps)"
                ),
            );
        }
        Ok(None) => {}
        Err(error) => {
            let finding = if in_force == "off" { CheckStatus::Warning } else { CheckStatus::Wrong };
            checks.add(
                finding,
                "sandbox",
                format!("{in_force}; --sandbox {}: {error}", mode.name()),
            );
        }
    }
}

fn check_terminal(checks: &mut Checks, env: &Env) {
    if !terminal::stderr_is_terminal() {
        return checks.add(
            CheckStatus::Missing,
            "terminal",
            "stderr is not a terminal; no progress",
        );
    }
    let term = env.get("TERM").unwrap_or("(not set)");
    let colours = if terminal::has_colours() { "colours" } else { "no colours" };
    let host = env::describe_host();
    checks.add(
        CheckStatus::Ok,
        "terminal",
        format!("{} columns, TERM={term}, {colours}; {host}", terminal::width()),
    );
}
