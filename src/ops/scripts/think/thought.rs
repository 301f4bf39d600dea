//! The thought of a script: its text, its folders, its policies, its output.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use tempfile::TempDir;

use super::request::ThinkRequest;
use super::screen::Screen;
use super::written::ScriptStdout;
use crate::ops::setup::find_root::find_root;
use crate::out;
use conversation::limits;
use conversation::problem::Problem;
use sandbox::script::bridges::Bridges;
use sandbox::script::js::wire::Start;
use sandbox::script::js_worker::{Failure, Ran, ScriptOutcome, run_script};
use sandbox::script::permission::{find_places, read_policy};
use sandbox::script::policy::places::ScriptPlaces;
use sandbox::script::policy::{Layers, Policy};
use sandbox::script::thoughts::{Home, Origin, digest};
use sys::env::Env;
use sys::fs;
use sys::interrupt::Interrupts;
use sys::names::suggest_paths;
use sys::tty::Tty;

/// A script's text, and where it is.
#[derive(Debug, Clone)]
pub struct ScriptSource {
    /// Its path without links.
    pub place: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Their digest.
    pub digest: String,
}

/// A thought that is run.
pub(super) struct Thought {
    pub(super) home: Home,
    pub(super) name: String,
    /// Its data: in a temporary folder where nothing is to be kept.
    pub(super) folder: PathBuf,
    /// The temporary folder, removed when this is dropped.
    pub(super) temporary: Option<TempDir>,
    pub(super) source: ScriptSource,
    pub(super) places: ScriptPlaces,
    pub(super) layers: Layers,
    /// Whether answers are stored: not in a policy that is damaged.
    pub(super) stores_answers: bool,
    pub(super) cwd: PathBuf,
    pub(super) args: Vec<String>,
    /// The text of stdin.
    pub(super) input: String,
    pub(super) limit: Option<Duration>,
    pub(super) written: Rc<RefCell<ScriptStdout>>,
    pub(super) screen: Screen,
}

impl Thought {
    pub(super) fn memory_path(&self) -> PathBuf {
        self.folder.join("memory.js")
    }

    pub(super) fn memory_hash(&self) -> Option<String> {
        fs::read_bytes(&self.memory_path(), limits::JS_SOURCE).ok()?.map(|bytes| fs::sha256(&bytes))
    }

    /// The text of memory.js.
    pub(super) fn read_memory(&self) -> anyhow::Result<Option<String>> {
        fs::read_text(&self.memory_path(), limits::JS_SOURCE)
    }

    /// Runs a script in the engine.
    pub(super) fn run_code(
        &self,
        code: String,
        file: &str,
        bridges: &mut Bridges<'_>,
    ) -> Result<Ran, Problem> {
        let start = Start {
            code,
            file: file.to_owned(),
            base: self.folder.display().to_string(),
            args: self.args.clone(),
            cwd: self.cwd.display().to_string(),
            memory: limits::JS_MEMORY,
        };
        self.screen.spinner.start("Working...");
        let ran = run_script(&start, self.limit, bridges);
        self.screen.spinner.stop();
        let ran = ran?;
        self.written.borrow_mut().add_denied(&bridges.permissions.denied);
        if let ScriptOutcome::Failed(Failure::Unsafe, why) = &ran.outcome {
            return Err(Problem::failed(format!(
                "the sandbox for scripts cannot be built, so nothing ran: {why}"
            )));
        }
        Ok(ran)
    }

    /// Notes which script the thought belongs to, and that memory.js was made for this text of it, if it was changed:
    /// then it returns true.
    pub(super) fn note_origin(&self, before: Option<&str>) -> Result<bool, Problem> {
        let after = self.memory_hash();
        let old = self.home.read_origin(&self.name)?;
        let is_new = after.as_deref() != before && after.is_some();
        if old.is_some() && !is_new {
            return Ok(false);
        }
        let sha256 = is_new.then(|| self.source.digest.clone());
        let place = self.source.place.clone();
        self.home.write_origin(&self.name, &Origin { place, sha256 })?;
        Ok(is_new)
    }
}

/// Reads a script's file.
///
/// # Errors
/// It is not there, too large, or cannot be read.
pub fn read_place(place: &str, env: &Env) -> Result<ScriptSource, Problem> {
    let path = env.absolute_path(Path::new(place))?;
    let limit = limits::THOUGHT_SCRIPT;
    if fs::file_size(&path).is_some_and(|size| size > limit) {
        return Err(Problem::usage(format!("{place}: a script has at most {limit} bytes")));
    }
    let bytes = fs::read_bytes(&path, limit)?.ok_or_else(|| {
        let near = suggest_paths(&path);
        Problem::failed(format!("{place}: no such script{near}"))
    })?;
    let place = fs::real_path(&path).unwrap_or(path).display().to_string();
    Ok(ScriptSource { place, digest: digest(&bytes), bytes })
}

/// Finds the thought of a script, and makes its folders where they are missing.
pub(super) fn open_thought(
    tool: &str,
    request: &ThinkRequest,
    env: &Env,
    home: Home,
    (source, input): (ScriptSource, String),
    is_kept: bool,
    interrupts: &Interrupts,
) -> Result<Thought, Problem> {
    let cwd = env.current_folder()?;
    home.prepare()?;
    let (name, note) = home.take_thought(&source.place, &source.bytes, is_kept, interrupts)?;
    if let Some(note) = note {
        out::print_tool_line(tool, &note);
    }
    home.write_fingerprint(&source.place, &source.digest)?;
    let temporary = if is_kept { None } else { Some(fs::empty_folder()?) };
    let folder = temporary
        .as_ref()
        .map_or_else(|| home.thought_folder(&name), |folder| folder.path().to_owned());
    for below in ["workspace", "memories"] {
        fs::create_private_folder(&folder.join(below))?;
    }
    let mut stores_answers = true;
    let mut read_or_ask = |path: &Path| {
        read_policy(path).unwrap_or_else(|error| {
            out::print_tool_line(
                tool,
                &format!("{error:#}; until then nagent asks about everything"),
            );
            stores_answers = false;
            Policy::default()
        })
    };
    let mut layers = Layers {
        own: read_or_ask(&home.policy_path(Some(&name))),
        global: read_or_ask(&home.policy_path(None)),
    };
    if !stores_answers {
        layers = Layers::default();
    }
    let root = find_root(request.model.root.as_deref(), env)?.0.folder;
    let places = find_places(&cwd, &home.folder, &root, Some(&folder), env);
    let limit = request.timeout.map(Duration::from_secs_f64);
    let limit = limit.or_else(|| Tty::open().is_none().then_some(limits::JS_TIME));
    Ok(Thought {
        name,
        folder: places.thought.clone().unwrap_or(folder),
        temporary,
        source,
        places,
        layers,
        stores_answers,
        cwd,
        args: request.args.clone(),
        input,
        limit,
        written: Rc::new(RefCell::new(ScriptStdout::new(request.json))),
        screen: Screen::new(request.quiet),
        home,
    })
}

/// Whether the data of a run are kept, by `THINKINGSCRIPT__CACHE`.
pub(super) fn keeps_data(env: &Env) -> Result<bool, Problem> {
    match env.get("THINKINGSCRIPT__CACHE").unwrap_or("persist").to_ascii_lowercase().as_str() {
        "persist" => Ok(true),
        "ephemeral" | "off" | "none" | "disable" | "tmp" => Ok(false),
        other => Err(Problem::usage(format!(
            "THINKINGSCRIPT__CACHE is \"{}\"; use persist, ephemeral or off",
            other.escape_debug()
        ))),
    }
}
