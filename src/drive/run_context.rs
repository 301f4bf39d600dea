//! The context that all actions of a run share; none of them changes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::redaction::ResultRedactor;
use crate::mcp::host::RunServers;
use conversation::protocol::TagSet;
use conversation::reason::Failure;
use sandbox::enforce::Sandbox;
use sys::env::Env;
use sys::fs::real_path;
use sys::interrupt::Interrupts;
use sys::names::expand_home;
use sys::read;
use sys::root::Root;

/// Where a run takes place.
#[derive(Debug)]
pub struct RunContext<'a> {
    /// nagent's own folder.
    pub root: Root,
    /// The environment.
    pub env: &'a Env,
    /// The working folder. Relative paths start here.
    pub folder: PathBuf,
    /// The run and its turn, in the form of `NAGENT_RUN`: changes of processes that they start are recorded as theirs.
    pub run: String,
    /// Signals.
    pub interrupts: &'a Interrupts,
    /// Masks credentials in results.
    pub redactor: ResultRedactor,
    /// The sandbox around commands, if there is one. Tags read and write nothing that a command in it could not.
    pub sandbox: Option<Arc<Sandbox>>,
    /// The tags that the model has.
    pub tags: TagSet,
    /// The MCP servers that commands can call.
    pub servers: RunServers,
}

impl<'a> RunContext<'a> {
    /// A path that the model or the user wrote, from the working folder, with `~` expanded.
    pub fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.join(self.expand(path))
    }

    /// The path that the model wrote, with `~` expanded.
    pub(super) fn expand(&self, path: impl AsRef<Path>) -> PathBuf {
        expand_home(path.as_ref(), self.env.home_folder().as_deref())
    }

    /// Resolves the links of a path that the model wants to read: one that commands in the sandbox may read, a stored
    /// result, or one of its own splits. It is read by the returned path, without following a link that came later.
    pub(super) fn resolve_read(&self, asked: &str, splits: &Path) -> Result<PathBuf, Failure> {
        let path = read::resolve_existing(Path::new(asked), &self.resolve(asked))?;
        let Some(sandbox) = &self.sandbox else { return Ok(path) };
        let outputs = real_path(&self.root.outputs_folder());
        let is_result = outputs.is_some() && path.parent() == outputs.as_deref() && path.is_file();
        if is_result || real_path(splits).is_some_and(|splits| path.starts_with(splits)) {
            return Ok(path);
        }
        sandbox.policy().check_read(&path).map(|()| path).map_err(Failure::from)
    }

    pub(super) fn hidden_paths(&self) -> Vec<PathBuf> {
        let hidden = self.sandbox.iter().flat_map(|sandbox| &sandbox.policy().hidden);
        hidden.map(|hidden| hidden.path.clone()).collect()
    }

    /// Returns a function that says whether a signal has come, for work that checks regularly.
    pub(super) fn stop_check(&self) -> impl Fn() -> bool + use<'a> {
        let interrupts = self.interrupts;
        move || interrupts.pending().is_some()
    }
}
