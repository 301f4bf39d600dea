//! Reads a script.

use std::path::Path;

use conversation::limits;
use conversation::problem::Problem;
use sandbox::script::thoughts::digest;
use sys::env::Env;
use sys::fs;

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
        let near = sys::names::suggest_paths(&path);
        Problem::failed(format!("{place}: no such script{near}"))
    })?;
    let place = fs::real_path(&path).unwrap_or(path).display().to_string();
    Ok(ScriptSource { place, digest: digest(&bytes), bytes })
}
