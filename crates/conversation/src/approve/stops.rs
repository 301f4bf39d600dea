//! Commands that are hardly ever intended: they shut down the machine, or destroy everything on it.

use tree_sitter::Node;

use super::shell::{parse, words_of};

/// Maximum depth at which commands within the words of other commands are searched.
const DEPTH: usize = 4;

/// Programs that run the command in their arguments.
const WRAPPERS: [&str; 13] = [
    "sudo", "doas", "env", "xargs", "nohup", "nice", "ionice", "time", "timeout", "command",
    "exec", "setsid", "busybox",
];

/// Maximum number of words between a wrapper and the command that it runs.
const WRAPPER_WORDS: usize = 8;

/// Words of which every command that is stopped has one, but for the fork bomb. Most commands have none, and are not parsed.
const WORDS: [&str; 7] = ["rm", "dd", "mkfs", "shutdown", "reboot", "halt", "poweroff"];

/// Finds the first command that is stopped, and returns the reason.
pub fn find_stop(commands: &str) -> Option<String> {
    if commands.split_whitespace().collect::<String>().contains(":(){:|:&};:") {
        return Some("it is a fork bomb".to_owned());
    }
    let is_parsed = WORDS.iter().any(|word| commands.contains(word));
    if is_parsed { find_within(commands, DEPTH) } else { None }
}

fn find_within(commands: &str, depth: usize) -> Option<String> {
    let tree = parse(commands)?;
    let mut nodes = vec![tree.root_node()];
    while let Some(node) = nodes.pop() {
        if node.kind() == "command"
            && let Some(stop) = check_command(&words_of(node, commands), depth)
        {
            return Some(stop);
        }
        let mut cursor = node.walk();
        let parts: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        nodes.extend(parts.into_iter().rev());
    }
    None
}

fn check_command(words: &[String], depth: usize) -> Option<String> {
    let mut end = 1;
    for (at, program) in words.iter().enumerate() {
        let name = program.rsplit('/').next().unwrap_or(program);
        if at == end {
            break;
        } else if WRAPPERS.contains(&name) {
            // A wrapper has few words of its own: the command that it runs begins at one of these.
            end = at + 1 + WRAPPER_WORDS;
        } else if let Some(stop) = check_program(name, &words[at + 1..], depth) {
            return Some(stop);
        }
    }
    None
}

fn check_program(name: &str, arguments: &[String], depth: usize) -> Option<String> {
    if matches!(name, "sh" | "bash" | "dash" | "zsh" | "ksh" | "su" | "eval") && depth > 0 {
        let is_script = |word: &&String| name == "eval" || !word.starts_with('-');
        return arguments.iter().filter(is_script).find_map(|word| find_within(word, depth - 1));
    }
    match name {
        "rm" => find_removal(arguments).map(str::to_owned),
        "dd" => arguments.iter().filter_map(|word| word.strip_prefix("of=")).find_map(writes_over),
        "shutdown" | "reboot" | "halt" | "poweroff" => {
            Some(format!("{name} shuts down the machine"))
        }
        _ if name == "mkfs" || name.starts_with("mkfs.") => {
            Some(format!("{name} makes a new file system, which erases the data there"))
        }
        _ => None,
    }
}

/// What `rm` with these words removes that is never meant: the root or the home folder (forced), or the repository of the
/// working folder.
fn find_removal(arguments: &[String]) -> Option<&'static str> {
    let short = |letters: &[char]| {
        arguments
            .iter()
            .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letters))
    };
    let long = |name: &str| arguments.iter().any(|word| word == name);
    let is_recursive = short(&['r', 'R']) || long("--recursive");
    let is_forced = short(&['f']) || long("--force");
    let removes =
        |is_such: fn(&str) -> bool| is_recursive && arguments.iter().any(|word| is_such(word));
    if is_forced && removes(is_everything) {
        Some("it removes everything below / or the home folder")
    } else if removes(is_repository) {
        Some("it removes the git repository with its history")
    } else {
        None
    }
}

/// Whether a word means the repository of the working folder, or everything in it.
fn is_repository(word: &str) -> bool {
    let word = word.trim_start_matches("./").trim_end_matches(['*', '/']);
    matches!(word, ".git" | ".git/objects" | ".git/refs")
}

/// Whether a word means the root or the home folder, or everything in it.
fn is_everything(word: &str) -> bool {
    let word = word.trim_end_matches('*');
    // `/.` and `/../` are the root, too.
    let is_root = |part: &str| matches!(part, "" | "." | "..");
    word.starts_with('/') && word.split('/').all(is_root)
        || matches!(word.trim_end_matches('/'), "~" | "$HOME" | "${HOME}")
}

/// Returns the reason if the path is a device that holds data; `/dev/null` and similar devices hold none.
fn writes_over(path: &str) -> Option<String> {
    const OTHERS: [&str; 5] = ["null", "zero", "full", "std", "shm/"];
    let name = path.strip_prefix("/dev/").filter(|name| !name.is_empty())?;
    let is_disk = !OTHERS.iter().any(|other| name.starts_with(other));
    is_disk.then(|| format!("it writes over the device {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stopped() {
        for commands in [
            "rm -rf /",
            "rm -rf /*",
            "rm -fr ~",
            "rm -r -f \"$HOME\"",
            "cd x; rm -Rf ~/*",
            "sudo rm -rf --no-preserve-root /",
            "sh -c 'rm -rf /'",
            "bash -lc \"cd /; rm -rf ~\"",
            "env A=1 rm --recursive --force /",
            "ls | xargs rm -rf /",
            "mkfs.ext4 /dev/sda1",
            "sudo mkfs /dev/sdb",
            "dd if=/dev/zero of=/dev/sda bs=1M",
            "echo $(shutdown now)",
            "true && sudo reboot",
            &format!("{}reboot", "sudo env ".repeat(40)),
            "if a; then halt; fi",
            "/sbin/poweroff",
            "rm -rf /.",
            "rm -rf /../*",
            ":(){ :|:& };:",
            ": () { : | : & } ; :",
            "rm -r .git",
            "rm -rf ./.git/*",
            "rm -rf .git/objects/ x",
            "eval 'rm -rf /'",
            "su -c 'rm -rf /'",
        ] {
            assert!(find_stop(commands).is_some(), "{commands}");
        }
    }

    #[test]
    fn what_passes() {
        for commands in [
            "rm -rf clone/.git",
            "rm .git/index.lock",
            "rm -rf .git/rebase-merge",
            "rm -rf /tmp/x",
            "rm -rf ./build",
            "rm -rf ~/x",
            "rm -r /",
            "rm -f ~",
            "rm -rf \"$HOME/.cache/x\"",
            "echo 'rm -rf /'",
            "grep -rn 'shutdown' src",
            "git commit -m 'reboot: rm -rf /'",
            "dd if=/dev/sda of=disk.img",
            "dd if=/dev/zero of=/dev/null count=1",
            "echo x > /dev/null 2>&1",
            "echo x >/dev/stderr",
            "cat /dev/sda | head -c 1",
            "man mkfs",
            "f() { g | f; }; f",
            "ls / ~ $HOME",
            "# rm -rf /",
            "cat <<'E'\nrm -rf /\nE",
            "make shutdown",
            "sh -c 'echo hi'",
            "rm -rf \"~\"",
            "rm -rf '~' \\~",
            "cd / && cd x && rm -rf *",
            "rm -rf *; cd /",
            "echo / | xargs ls",
            "",
        ] {
            assert_eq!(find_stop(commands), None, "{commands}");
        }
    }
}
