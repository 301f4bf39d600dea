//! Guesses from a command's output whether the sandbox denied something, and names the setting that would allow
//! it. The guess uses text alone, so it may be wrong.

use super::{SandboxMode, SandboxRequest};

/// Messages that hardly anything else prints: also where a command line succeeds, as with `|| true` or in a pipe.
const SURELY_DENIED: &str = "Read-only file system|Permission denied (publickey|no new privileges|could not read Username|Host key verification failed|Failed to connect to bus|Cannot connect to the Docker daemon|failed to connect to the docker API";

/// Messages of the system and of common tools if a file cannot be written or read, or a call is refused.
const DENIED: &str = "Permission denied|permission denied|Operation not permitted|Device or resource busy|EROFS|EACCES|EPERM|No permission|PermissionError|terminal prompts disabled|Authentication failed|not been booted with systemd|unable to create temporary object directory|su: System error|effective uid is not 0|scope bus via|Unable to locate credentials|gh auth login|ENEEDAUTH|failed to sign the data";

/// Their messages if there is no network.
const CUT_OFF: &str = "Network is unreachable|ould not resolve|Temporary failure in name resolution|Name or service not known|Failed to resolve|failed to lookup address|Connection refused|EAI_AGAIN|ENOTFOUND|ENETUNREACH|ECONNREFUSED";

/// Returns a sentence about the network, about files, or about both, if something in the output looks like a denial.
/// `sockets`: whether commands may use Unix sockets. After success only sure signs count.
pub fn advise(
    request: &SandboxRequest,
    sockets: bool,
    output: &str,
    has_failed: bool,
) -> Option<String> {
    let has = |text: &str, words: &str| words.split('|').any(|word| text.contains(word));
    let is_cut = has_failed && request.no_network && has(output, CUT_OFF);
    let is_denied = has(output, SURELY_DENIED) || has_failed && has(output, DENIED);
    let files = match request.mode {
        SandboxMode::ReadOnly => {
            "the sandbox is read-only: the user can let commands write in a folder by --write DIR, or in the working tree by --sandbox workspace"
        }
        _ => {
            "the sandbox lets commands write only in the working tree, temp folders and caches (--write DIR adds a folder), keeps git's config and hooks read-only, hides keys and logins, and reaches no sockets of other programs"
        }
    };
    let advice = [
        is_cut.then_some("the sandbox has no network; --no-network=false gives it back"),
        is_denied.then_some(files),
        (!sockets && is_denied && has(output, "socket"))
            .then_some("there are no Unix sockets in this sandbox"),
    ];
    let advice: Vec<&str> = advice.into_iter().flatten().collect();
    // It is read by the user, too; the first context has the tag for it.
    let outside = "a command runs outside of the sandbox only if the user agrees";
    (!advice.is_empty()).then(|| format!("{}; {outside}", advice.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mode: SandboxMode, no_network: bool, output: &str, expect: &[&str]) {
        let request = SandboxRequest { mode, no_network, ..SandboxRequest::default() };
        let got = advise(&request, true, output, true).unwrap_or_default();
        assert!(expect.iter().all(|word| got.contains(word)), "{output}: {got}");
        assert_eq!(expect.is_empty(), got.is_empty(), "{output}: {got}");
    }

    #[test]
    fn advice_names_the_setting_that_would_allow_it() {
        use SandboxMode::{ReadOnly, Workspace};
        let file = "touch: cannot touch '/etc/x': Read-only file system";
        check(Workspace, false, file, &["--write DIR"]);
        check(ReadOnly, false, file, &["--sandbox workspace"]);
        let git = "error: could not write config file .git/config: Device or resource busy";
        check(Workspace, false, git, &["git's config", "read-only"]);
        check(Workspace, true, "curl: (6) Could not resolve host: a.example", &["--no-network"]);
        let both = "touch: /etc/x: Read-only file system\nconnect: Network is unreachable";
        check(Workspace, true, both, &["--no-network", "--write DIR"]);
        for (output, words) in [
            ("git@a.example: Permission denied (publickey).", "hides keys and logins"),
            (
                "fatal: could not read Username for 'https://a.example': No such device",
                "hides keys",
            ),
            ("sudo: The \"no new privileges\" flag is set", "no sockets of other programs"),
            ("Failed to connect to bus: No such file or directory", "no sockets of other programs"),
            ("error: remote unpack failed: unable to create temporary object directory", "DIR"),
            ("Unable to locate credentials. You can configure credentials by", "hides keys"),
            ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "no sockets"),
        ] {
            check(Workspace, false, output, &[words, "only if the user agrees"]);
        }
        let request = SandboxRequest { mode: Workspace, ..SandboxRequest::default() };
        let socket = "socket: Operation not permitted";
        assert!(advise(&request, false, socket, true).unwrap().contains("Unix sockets"));
    }

    #[test]
    fn other_failures_get_no_advice() {
        check(SandboxMode::Workspace, false, "error[E0308]: mismatched types", &[]);
        check(SandboxMode::Workspace, false, "curl: (6) Could not resolve host: a.example", &[]);
        let request = SandboxRequest::default();
        let after_success = |output| advise(&request, true, output, false).is_some();
        assert!(after_success("touch: /etc/x: Read-only file system\nrc=1"));
        assert!(!after_success("src/main.rs: // EPERM, Permission denied"));
    }
}
