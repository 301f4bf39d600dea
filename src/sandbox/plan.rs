//! What the inner stage is told, and folders as the rules that Landlock knows.
//!
//! Landlock only gives: what a rule has given for a folder, no other rule takes back below it. So a folder with something
//! in it that is kept is given entry by entry, and the folder itself not: nothing new can be made directly in it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) mod lossless;

/// What the inner stage is to do before it starts the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct Plan {
    /// Whether there are no namespaces around it: Landlock and seccomp are all there is.
    pub alone: bool,
    /// Where commands may write; `None`: wherever their user may.
    pub write: Option<Vec<Grant>>,
    /// What they cannot read. Inside `bwrap` it is hidden already.
    #[serde(with = "lossless::list")]
    pub hidden: Vec<PathBuf>,
    /// Whether the network is cut.
    pub no_network: bool,
    /// Whether there is a network namespace of their own.
    pub own_network: bool,
    /// Where it says whether the command was started; empty before.
    #[serde(default, with = "lossless::option")]
    pub report: Option<PathBuf>,
    /// Start nothing: build the walls, say what they are made of.
    pub probe: bool,
}

/// A folder or file that is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its true path.
    #[serde(with = "lossless")]
    pub path: PathBuf,
    /// What below it is kept, by true paths.
    #[serde(default, with = "lossless::list")]
    pub except: Vec<PathBuf>,
    /// Whether nothing new may be made directly in it.
    #[serde(default)]
    pub closed: bool,
}

impl Grant {
    /// All of it.
    pub fn whole(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), except: Vec::new(), closed: false }
    }
}

/// The devices that commands may use, with `/dev` of the system around them.
pub const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Besides those, in the `/dev` that `bwrap` makes: terminals that commands make themselves, shared memory.
pub const DEVICES_OF_ONES_OWN: &[&str] = &["/dev/tty", "/dev/pts", "/dev/ptmx", "/dev/shm"];

/// A grant as paths that Landlock's rules can be made of. `list` gives a folder's entries, links left out: what they lead
/// to has a path of its own.
pub fn paths(grant: &Grant, list: &dyn Fn(&Path) -> Vec<PathBuf>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    give(&grant.path, grant.closed, &grant.except, list, &mut paths);
    paths
}

fn give(
    path: &Path,
    closed: bool,
    except: &[PathBuf],
    list: &dyn Fn(&Path) -> Vec<PathBuf>,
    paths: &mut Vec<PathBuf>,
) {
    if except.iter().any(|kept| path.starts_with(kept)) {
        return;
    }
    let below: Vec<PathBuf> =
        except.iter().filter(|kept| kept.starts_with(path)).cloned().collect();
    if below.is_empty() && !closed {
        return paths.push(path.to_owned());
    }
    for entry in list(path) {
        give(&entry, false, &below, list, paths);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(closed: bool, except: &[&str], expect: &[&str]) {
        let tree = ["/w/a", "/w/b", "/w/b/c", "/w/b/d", "/w/.git", "/w/.git/x"];
        let list = |folder: &Path| {
            tree.iter().map(PathBuf::from).filter(|path| path.parent() == Some(folder)).collect()
        };
        let grant =
            Grant { path: "/w".into(), except: except.iter().map(PathBuf::from).collect(), closed };
        let expect: Vec<PathBuf> = expect.iter().map(PathBuf::from).collect();
        assert_eq!(paths(&grant, &list), expect, "{except:?}");
    }

    #[test]
    fn a_plan_comes_back_as_it_was() {
        use std::os::unix::ffi::OsStrExt;
        let odd = PathBuf::from(std::ffi::OsStr::from_bytes(b"/w/\xff caf\xe9"));
        let grant = Grant { path: odd.clone(), except: vec![odd.join(".git")], closed: true };
        let plan = Plan {
            alone: true,
            write: Some(vec![grant, Grant::whole("/tmp")]),
            hidden: vec![odd.clone(), "/h".into()],
            no_network: false,
            own_network: false,
            report: Some(odd),
            probe: false,
        };
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan, "{text}");
        let plan = Plan { report: None, write: None, ..plan };
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan, "{text}");
    }

    #[test]
    fn a_folder_with_nothing_kept_is_given_whole() {
        check(false, &[], &["/w"]);
        check(false, &["/elsewhere", "/w2", "/w-evil"], &["/w"]);
    }

    #[test]
    fn what_is_kept_splits_the_folders_above_it_and_no_other() {
        check(true, &[], &["/w/a", "/w/b", "/w/.git"]);
        check(false, &["/w/.git"], &["/w/a", "/w/b"]);
        check(false, &["/w/b/c"], &["/w/a", "/w/b/d", "/w/.git"]);
        check(false, &["/w/b/c", "/w/.git"], &["/w/a", "/w/b/d"]);
        // What is kept may be gone, or be a link, which the list leaves out: the folder is split all the same.
        check(false, &["/w/new"], &["/w/a", "/w/b", "/w/.git"]);
    }

    #[test]
    fn what_is_inside_of_something_kept_is_not_given() {
        check(false, &["/w"], &[]);
        check(false, &["/"], &[]);
    }
}
