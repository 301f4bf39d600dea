//! Guesses from a failed command's output whether the sandbox denied something, and says which setting would allow it. It
//! goes by text alone, so it may be wrong.

use super::{SandboxMode, SandboxRequest};

/// What the system and common tools print when a file cannot be written or read.
const FILES: &[&str] = &[
    "Read-only file system",
    "Permission denied",
    "Operation not permitted",
    "EROFS",
    "EACCES",
    "EPERM",
];

/// What they print when there is no network.
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

/// What git prints when it cannot write its own folder.
const GIT: &[&str] =
    &[".git/", "/.git'", "index.lock", "cannot lock ref", "unable to create temporary file"];

/// Returns a sentence about the network, about files, or about both, if something in the output looks like a denial.
/// `alone`: without `bwrap`.
pub fn advise(request: &SandboxRequest, alone: bool, output: &str) -> Option<String> {
    let is_cut = request.no_network && NETWORK.iter().any(|word| output.contains(word));
    let network = is_cut.then_some("the sandbox has no network; --no-network=false gives it back");
    // With mode off, a missing network explains everything.
    let files = match (is_cut, request.mode) {
        (true, SandboxMode::Off) => None,
        _ => advise_on_files(request.mode, alone, output),
    };
    match (network, files) {
        (Some(network), Some(files)) => Some(format!("{network}; {files}")),
        (one, other) => one.or(other).map(str::to_owned),
    }
}

fn advise_on_files(mode: SandboxMode, alone: bool, output: &str) -> Option<&'static str> {
    let is_denied = |line: &str| FILES.iter().any(|word| line.contains(word));
    let mut denials = output.lines().filter(|line| is_denied(line)).peekable();
    denials.peek()?;
    let is_git = denials.any(|line| GIT.iter().any(|word| line.contains(word)));
    Some(match mode {
        SandboxMode::Off => {
            "without a network, commands also have no capabilities and no sockets; --no-network=false gives them back"
        }
        _ if is_git && alone => {
            "the sandbox keeps .git read-only: --write .git lets commands write in it, hooks and config included"
        }
        _ if is_git => {
            "the sandbox keeps .git read-only: --write .git lets commands write in it; hooks and config stay read-only"
        }
        SandboxMode::ReadOnly => {
            "the sandbox is read-only: --write DIR lets commands write in that folder, --sandbox workspace in the working tree"
        }
        SandboxMode::Workspace if alone => {
            "the sandbox lets commands write in the working tree and in temp folders: --write DIR adds a folder, --sandbox off removes the sandbox"
        }
        SandboxMode::Workspace => {
            "the sandbox lets commands write in the working tree and in temp folders, and keeps .git and settings that run things read-only: --write DIR adds a folder, --sandbox off removes the sandbox"
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mode: SandboxMode, no_network: bool, output: &str, expect: Option<&str>) {
        let request = SandboxRequest { mode, no_network, ..SandboxRequest::default() };
        let got = advise(&request, false, output);
        match expect {
            None => assert_eq!(got, None, "{output}"),
            Some(word) => {
                let has = got.as_deref().is_some_and(|got| got.contains(word));
                assert!(has, "{output}: {got:?}");
            }
        }
    }

    #[test]
    fn advice_covers_a_file_and_the_network() {
        let request = SandboxRequest {
            mode: SandboxMode::Workspace,
            no_network: true,
            ..SandboxRequest::default()
        };
        let output = "touch: /etc/x: Read-only file system\nconnect: Network is unreachable";
        let got = advise(&request, false, output).unwrap();
        assert!(got.contains("--no-network") && got.contains("--write DIR"), "{got}");
    }

    #[test]
    fn advice_names_the_setting_that_would_allow_it() {
        use SandboxMode::{Off, ReadOnly, Workspace};
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

    #[test]
    fn other_failures_get_no_advice() {
        check(SandboxMode::Workspace, false, "error[E0308]: mismatched types", None);
        check(SandboxMode::Workspace, false, "curl: (6) Could not resolve host: a.example", None);
    }
}
