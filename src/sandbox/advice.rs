//! What a failed command's output says of the walls: which one it ran into, and which setting would allow it. It judges
//! text alone, so it may be wrong; it changes nothing.

use super::{Mode, Wanted};

/// What the system and common tools say when a file cannot be written or read.
const FILES: &[&str] = &[
    "Read-only file system",
    "Permission denied",
    "Operation not permitted",
    "EROFS",
    "EACCES",
    "EPERM",
];

/// What they say when there is no network.
const NETWORK: &[&str] = &[
    "Network is unreachable",
    "Could not resolve",
    "could not resolve",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Failed to resolve",
    "failed to lookup address",
    "Connection refused",
    "EAI_AGAIN",
    "ENOTFOUND",
    "ENETUNREACH",
    "ECONNREFUSED",
];

/// What git says when it cannot write its own folder.
const GIT: &[&str] =
    &[".git/", "/.git'", "index.lock", "cannot lock ref", "unable to create temporary file"];

/// The first words of a path after `/.git/` that git writes when it makes a repository, from its templates.
const TEMPLATES: &[&str] = &["branches", "description", "hooks", "info"];

/// Whether a line that tells of a denial is about a repository that is being made, by git or by what uses it: `.git` itself
/// cannot be made or written, or its first files cannot.
fn makes_repository(line: &str) -> bool {
    if line.contains("cannot copy '") && line.contains("/.git/") {
        return true;
    }
    // As the system says it: a path, and why.
    let path = line.split_once(": ").map_or("", |(path, _)| path);
    let below = path.split_once("/.git/").map(|(_, below)| below.trim_end_matches('/'));
    if path.starts_with('/') && below.is_some_and(|below| TEMPLATES.contains(&below)) {
        return true;
    }
    line.match_indices(".git").any(|(at, word)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let is_name = before.is_empty() || before.ends_with(['/', ' ', '\'', '"', '‘', '`']);
        let after = after.strip_prefix('/').unwrap_or(after);
        is_name && after.starts_with(['\'', '"', '’', ':'])
    })
}

/// A sentence for the network and one for files, when something in the output looks like a denial. `alone`: without
/// namespaces.
pub fn advice(wanted: &Wanted, alone: bool, output: &str) -> Option<String> {
    let is_cut = wanted.no_network && NETWORK.iter().any(|word| output.contains(word));
    let network = is_cut
        .then(|| "the sandbox cuts the network: without --no-network commands reach it".to_owned());
    // With mode off, what failed for want of a network needs no other reason.
    let files =
        if is_cut && wanted.mode == Mode::Off { None } else { files(wanted, alone, output) };
    match (network, files) {
        (Some(network), Some(files)) => Some(format!("{network}; {files}")),
        (one, other) => one.or(other),
    }
}

fn files(wanted: &Wanted, alone: bool, output: &str) -> Option<String> {
    let holds = |words: &[&str]| words.iter().any(|word| output.contains(word));
    if !holds(FILES) {
        return None;
    }
    if wanted.mode == Mode::Off {
        return Some(
            "with --no-network commands have no capabilities and no sockets: without it they have"
                .to_owned(),
        );
    }
    let line = |line: &&str| FILES.iter().any(|word| line.contains(word));
    // It writes the settings first where it has no templates, and says so in a second line.
    let is_initial = output.contains("could not set 'core.repositoryformatversion'");
    if is_initial || output.lines().filter(line).any(makes_repository) {
        return Some(
            "no command in the sandbox can make a repository where there is none, or set one up anew: run git init there \
             yourself, outside of the sandbox, before; then --write .git lets commands commit to it"
                .to_owned(),
        );
    }
    if output.lines().filter(line).any(|line| GIT.iter().any(|word| line.contains(word))) {
        let rest =
            if alone { "hooks and config too" } else { "while hooks and config stay read-only" };
        return Some(format!(
            "the sandbox keeps .git read-only: --write .git lets commands write in it, {rest}"
        ));
    }
    Some(match wanted.mode {
        Mode::ReadOnly => {
            "the sandbox is read-only: --write DIR lets commands write in that folder, --sandbox workspace in the working tree"
        }
        _ if alone => {
            "the sandbox lets commands write below the folders of the working tree and in temp folders, and make nothing in its top folder: --write DIR adds a folder, --write . all of it, --sandbox off takes the walls away"
        }
        _ => {
            "the sandbox lets commands write in the working tree and in temp folders, and keeps .git and settings that run things read-only: --write DIR adds a folder, --sandbox off takes the walls away"
        }
    }
    .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mode: Mode, no_network: bool, output: &str, expect: Option<&str>) {
        let wanted = Wanted { mode, no_network, write: Vec::new() };
        let got = advice(&wanted, false, output);
        match expect {
            None => assert_eq!(got, None, "{output}"),
            Some(word) => {
                let has = got.as_deref().is_some_and(|got| got.contains(word));
                assert!(has, "{output}: {got:?}");
            }
        }
    }

    #[test]
    fn a_file_and_the_network_denied_are_both_told() {
        let wanted = Wanted { mode: Mode::Workspace, no_network: true, write: Vec::new() };
        let output = "touch: /etc/x: Read-only file system\nconnect: Network is unreachable";
        let got = advice(&wanted, false, output).unwrap();
        assert!(got.contains("--no-network") && got.contains("--write DIR"), "{got}");
    }

    #[test]
    fn a_denial_is_told_with_the_setting_that_would_allow_it() {
        use Mode::{Off, ReadOnly, Workspace};
        check(
            Workspace,
            false,
            "touch: cannot touch '/etc/x': Read-only file system",
            Some("--write DIR"),
        );
        check(
            ReadOnly,
            false,
            "sh: 1: cannot create x: Read-only file system",
            Some("--sandbox workspace"),
        );
        check(
            Workspace,
            false,
            "fatal: Unable to create '/w/.git/index.lock': Read-only file system",
            Some("--write .git"),
        );
        check(Workspace, true, "curl: (6) Could not resolve host: a.example", Some("--no-network"));
        check(Off, true, "mount: /mnt: Operation not permitted", Some("--no-network"));
    }

    /// What git, Cargo and others print here, in a folder without a repository.
    #[test]
    fn who_makes_a_repository_is_told_to_make_it_before() {
        let outputs = [
            "fatal: cannot copy '/usr/share/git-core/templates/description' to '/w/.git/description': Read-only file system",
            "/w/.git: Permission denied",
            "/w/.git: Read-only file system",
            "/w/.git/hooks: Read-only file system",
            "/w/.git/branches/: Read-only file system",
            "error: could not lock config file /w/.git/config: Read-only file system\nfatal: could not set 'core.repositoryformatversion' to '0'",
            "error: failed to create package `x` at `/w/.`\n\nCaused by:\n  failed to make directory '/w/./.git': Permission denied; class=Os (2)",
            "fatal: could not open '/w/.git' for writing: Permission denied\n/w/.git: Permission denied",
            "mkdir: cannot create directory '.git': Permission denied",
            "mkdir: cannot create directory ‘/w/.git’: Read-only file system",
            "Error: EROFS: read-only file system, mkdir '/w/.git'",
        ];
        for output in outputs {
            for mode in [Mode::Workspace, Mode::ReadOnly] {
                check(mode, false, output, Some("run git init there yourself, outside"));
            }
        }
        // In one that is there already.
        for output in [
            "error: could not lock config file .git/config: Read-only file system",
            "fatal: Unable to create '/w/.git/index.lock': Read-only file system",
            "touch: cannot touch '.git/hooks/x': Read-only file system",
            "error: cannot lock ref 'refs/heads/x': Unable to create '/w/.git/refs/heads/x.lock': Read-only file system",
        ] {
            check(Mode::Workspace, false, output, Some("--write .git lets commands write in it"));
        }
        check(Mode::Workspace, false, "touch: /w/a.git: Permission denied", Some("--write DIR"));
    }

    #[test]
    fn what_is_no_denial_is_not_told() {
        check(Mode::Workspace, false, "error[E0308]: mismatched types", None);
        check(Mode::Workspace, false, "curl: (6) Could not resolve host: a.example", None);
    }
}
