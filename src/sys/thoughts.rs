//! The home of thoughts, `~/.thinkingscript`: where it is.

use std::path::PathBuf;

use super::env::Env;
use crate::problem::Problem;

/// The home of all thoughts: `THINKINGSCRIPT_HOME`, else `~/.thinkingscript`.
///
/// # Errors
/// No home folder is known.
pub fn find_home(env: &Env) -> Result<PathBuf, Problem> {
    let named = env.get_os("THINKINGSCRIPT_HOME").map(PathBuf::from);
    if let Some(named) = named {
        return env.absolute_path(&named);
    }
    env.home().map(|home| home.join(".thinkingscript")).ok_or_else(|| {
        Problem::failed("the home folder is not known; set HOME or THINKINGSCRIPT_HOME")
    })
}
