//! Finds the root folder.

use std::path::{Path, PathBuf};

use conversation::problem::Problem;
use sys::env::Env;
use sys::names::expand_home;
use sys::root::Root;

/// The root and where it came from: that of the flag, else that of the environment, else `~/.nagent`.
pub fn find_root(flag: Option<&Path>, env: &Env) -> Result<(Root, &'static str), Problem> {
    let home = env.home_folder();
    let (path, from) = match (flag, env.get_os("NAGENT_ROOT"), &home) {
        (Some(path), ..) => (path.to_owned(), "flag"),
        (None, Some(path), _) => (PathBuf::from(path), "NAGENT_ROOT"),
        (None, None, Some(home)) => (home.join(".nagent"), "default"),
        (None, None, None) => {
            return Err(Problem::usage(
                "there is no home folder: set HOME or NAGENT_ROOT, or give --root DIR",
            ));
        }
    };
    let path = expand_home(&path, home.as_deref());
    let folder = env.folder.as_ref().map_or_else(|_| path.clone(), |folder| folder.join(&path));
    Ok((Root { folder }, from))
}
