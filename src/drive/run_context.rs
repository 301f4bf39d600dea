//! What all actions of a run share and none of them changes.

use std::path::{Path, PathBuf};

use super::redaction::ResultRedactor;
use crate::sys::env::Env;
use crate::sys::interrupt::Interrupts;
use crate::sys::names::expand_home;
use crate::sys::root::Root;

/// Where a run takes place.
#[derive(Debug)]
pub struct RunContext<'a> {
    /// nagent's own folder.
    pub root: Root,
    /// The environment.
    pub env: &'a Env,
    /// The working folder. Relative paths start here.
    pub folder: PathBuf,
    /// Signals.
    pub interrupts: &'a Interrupts,
    /// Masks credentials in results.
    pub redactor: ResultRedactor,
}

impl<'a> RunContext<'a> {
    /// The path that the model wrote, from the working folder, with `~` expanded.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        self.folder.join(self.expand(path))
    }

    /// The path that the model wrote, with `~` expanded.
    pub(super) fn expand(&self, path: &str) -> PathBuf {
        expand_home(Path::new(path), self.env.home().as_deref())
    }

    /// Whether a signal has come, for work that asks now and then.
    pub(super) fn stop_check(&self) -> impl Fn() -> bool + use<'a> {
        let interrupts = self.interrupts;
        move || interrupts.pending().is_some()
    }
}
