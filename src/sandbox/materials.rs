//! What walls are made of: a choice among what the machine has, and what each choice leaves open.

use super::{Mode, Wanted};

/// The first version of Landlock that keeps a file from being cut off.
pub const FIRST_LANDLOCK: u32 = 3;

/// What the machine has, as it was tried. `Ok`: the walls stand, with this version of Landlock in them (0: none); seccomp
/// is always in them. `Err`: they do not, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// With `bwrap` around.
    pub bwrap: Result<u32, String>,
    /// Without.
    pub alone: Result<u32, String>,
}

/// What walls are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Materials {
    /// Why there are no namespaces; `None`: there are.
    pub no_bwrap: Option<String>,
    /// The version of Landlock that is enforced; 0: none.
    pub landlock: u32,
}

impl Materials {
    /// Whether Landlock and seccomp are all there is.
    pub fn is_alone(&self) -> bool {
        self.no_bwrap.is_some()
    }
}

/// Chooses: namespaces where they work; Landlock and seccomp alone where they do not.
///
/// # Errors
/// Neither stands; what is missing, and what to do.
pub fn choose(facts: &Facts) -> Result<Materials, String> {
    match (&facts.bwrap, &facts.alone) {
        (Ok(landlock), _) => Ok(Materials { no_bwrap: None, landlock: *landlock }),
        (Err(why), Ok(landlock)) => {
            Ok(Materials { no_bwrap: Some(why.clone()), landlock: *landlock })
        }
        (Err(why), Err(alone)) => Err(format!(
            "the sandbox cannot be built here; with bwrap: {why}; without: {alone}; install bubblewrap, or boot a kernel with Landlock (Linux 6.2 or newer, lsm=landlock), or take --sandbox off without --no-network"
        )),
    }
}

/// What the walls leave open, a sentence each. `gives_git`: the user named a repository's own folder.
pub fn gaps(wanted: &Wanted, materials: &Materials, gives_git: bool) -> Vec<String> {
    let mut gaps: Vec<&str> = Vec::new();
    let alone = materials.is_alone();
    if wanted.mode == Mode::Off {
        gaps.push("commands read and write whatever their user may, nagent's own folder too: only the network is cut");
        if materials.landlock < 6 && alone {
            gaps.push("commands can send signals to other processes of this user (Landlock 6, Linux 6.12, stops that)");
        }
        return gaps.into_iter().map(str::to_owned).collect();
    }
    gaps.push("commands read whatever their user may, but for nagent's own folder and folders of credentials");
    if !wanted.no_network {
        gaps.push("the network is on: what commands read they can send, and servers on this machine answer them");
    }
    if wanted.mode == Mode::Workspace {
        gaps.push("temp folders are shared with other programs, and nothing in them is protected");
        gaps.push("in a tree of more than 100,000 entries, or one that takes longer than 0.2 s to look through, settings in deep folders may be writable; a note says so after the command");
    }
    if alone {
        alone_gaps(wanted, materials.landlock, gives_git, &mut gaps);
    } else {
        gaps.push("a repository or settings first made in a deeper folder, or in the place of one that was moved away with the folder around it, are not stopped, but told when the command has ended");
        if materials.landlock == 0 {
            gaps.push("this kernel has no Landlock: namespaces and seccomp stand without it");
        }
        if gives_git {
            gaps.push("in .git, a commondir made where there was none sends git to another config, and a rebase that was left there runs commands when it goes on; look there before you work on");
        }
    }
    gaps.into_iter().map(str::to_owned).collect()
}

fn alone_gaps(wanted: &Wanted, landlock: u32, gives_git: bool, gaps: &mut Vec<&'static str>) {
    gaps.push("there are no namespaces: modes, owners, times and attributes of files outside can be changed where their user may (chmod, chown, touch -d, setfattr, chattr)");
    gaps.push("other processes' command lines can be read, and the priority of those of this user changed; of a hidden file whose path is known, size and times can be told");
    gaps.push("folders above hidden ones, / and the home folder among them, cannot be listed; there is no /dev/shm and no terminal");
    if wanted.mode == Mode::Workspace {
        gaps.push("nothing new can be made directly in the top folder of the working tree, because Landlock cannot take back what it has given; --write . gives the whole tree, .git and settings that run things included");
        gaps.push("settings first made in a deeper folder are not stopped, but told when the command has ended");
    }
    if !wanted.write.is_empty() {
        gaps.push(
            "folders of --write are given whole: settings that run things in them are writable",
        );
    }
    if gives_git {
        gaps.push("all of .git is writable, hooks and config too, because Landlock cannot take back what it has given");
    }
    if landlock < 6 {
        gaps.push("commands can send signals to other processes of this user (Landlock 6, Linux 6.12, stops that)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(bwrap: Result<u32, &str>, alone: Result<u32, &str>) -> Facts {
        Facts { bwrap: bwrap.map_err(str::to_owned), alone: alone.map_err(str::to_owned) }
    }

    #[test]
    fn namespaces_are_taken_where_they_work() {
        let got = choose(&facts(Ok(7), Ok(7))).unwrap();
        assert_eq!(got, Materials { no_bwrap: None, landlock: 7 });
        let got = choose(&facts(Ok(0), Err("no Landlock"))).unwrap();
        assert_eq!(got, Materials { no_bwrap: None, landlock: 0 });
        let wanted = Wanted { mode: Mode::Workspace, ..Wanted::default() };
        assert!(gaps(&wanted, &got, false).iter().any(|gap| gap.contains("no Landlock")));
    }

    #[test]
    fn landlock_stands_alone_where_they_do_not_and_says_what_that_leaves() {
        let got = choose(&facts(Err("not installed"), Ok(4))).unwrap();
        assert_eq!(got, Materials { no_bwrap: Some("not installed".to_owned()), landlock: 4 });
        let wanted = Wanted { mode: Mode::Workspace, ..Wanted::default() };
        let gaps = gaps(&wanted, &got, true).join("\n");
        for part in ["chmod", "signals", "--write .", "hooks and config too", "network is on"] {
            assert!(gaps.contains(part), "{part}: {gaps}");
        }
    }

    #[test]
    fn where_neither_stands_it_is_said_what_is_missing() {
        let why = choose(&facts(Err("it is not installed"), Err("no Landlock here"))).unwrap_err();
        for part in
            ["it is not installed", "no Landlock here", "install bubblewrap", "--sandbox off"]
        {
            assert!(why.contains(part), "{part}: {why}");
        }
    }
}
