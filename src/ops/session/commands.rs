//! The commands of a session: one table, and the parser of a line. Pure.

use self::ReplCommand as Do;
use conversation::format::nearest::nearest;

/// The action of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplCommand {
    Help,
    Quit,
    Clear,
    Model,
    /// Calls nagent with this flag, whose value is the text after the name.
    Flag(&'static str),
    List,
    EditConversation,
    Read,
    Undo,
    Check,
    Approve,
    Sandbox,
    Write,
    Show,
    Cost,
    Diff,
    Resume,
}

/// A command: its action, its names without the slash (the usual one first), the text after the name (in brackets if it
/// is optional), and its line of help, with which its row fits into 80 columns.
pub(super) type Command = (ReplCommand, &'static [&'static str], &'static str, &'static str);

/// All commands.
pub(super) const COMMANDS: [Command; 22] = [
    (Do::Help, &["help"], "", "list the commands"),
    (Do::Quit, &["quit", "q", "exit"], "", "leave; so do exit, quit and Ctrl-D"),
    (Do::Clear, &["clear", "c", "reset", "new"], "", "archive the conversation, start another"),
    (Do::Model, &["model"], "[NAME]", "list models; use another one"),
    (Do::Flag("--status"), &["status"], "", "show the conversation and the settings"),
    (Do::Cost, &["cost"], "", "show what session and conversation cost"),
    (Do::Flag("--save-conversation"), &["save"], "NAME", "save a copy of the conversation"),
    (Do::Flag("--load-conversation"), &["load"], "NAME", "continue from a saved conversation"),
    (Do::Flag("--branch-conversation"), &["branch"], "NAME", "continue from a copy of another one"),
    (Do::List, &["list"], "", "list conversations"),
    (Do::Resume, &["resume"], "[NAME]", "choose a conversation, and continue it"),
    (Do::Flag("--compact"), &["compact"], "", "replace older turns by a checkpoint"),
    (Do::Diff, &["diff"], "", "show what the conversation has changed"),
    (Do::Flag("--summarize"), &["summarize"], "", "print a summary of the conversation"),
    (Do::EditConversation, &["edit"], "[WORDS]", "edit the conversation, or let a model (WORDS)"),
    (Do::Read, &["read"], "FILE", "show the model a file with the next prompt"),
    (Do::Undo, &["undo"], "[N|FILE]", "take back a run, N runs, or a FILE's edit"),
    (Do::Check, &["check"], "[CMD|off]", "accept an answer only when CMD exits 0"),
    (Do::Approve, &["approve"], "[none|shell|ask]", "choose the actions that need approval"),
    (Do::Sandbox, &["sandbox"], "[off|MODE]", "restrict commands: workspace, read-only"),
    (Do::Write, &["write"], "[on|off]", "show where tags may write; switch -w"),
    (Do::Show, &["show"], "[N]", "show the conversation, or its last N entries"),
];

/// A line, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// Nothing.
    Empty,
    /// A prompt for the model.
    Prompt(String),
    /// A command, and the text after its name.
    Command(ReplCommand, String),
    /// A command line for the user's shell.
    Shell(String),
    /// The error of an invalid line.
    Wrong(String),
}

/// Reads a line.
pub(super) fn parse_input(text: &str) -> Input {
    let text = text.trim();
    if text == "!" {
        return Input::Wrong("! needs a command line for your shell, as in !ls".to_owned());
    }
    if let Some(command) = text.strip_prefix('!').map(str::trim).filter(|it| !it.is_empty()) {
        return Input::Shell(command.to_owned());
    }
    let Some(rest) = text.strip_prefix('/') else {
        return match text {
            "" => Input::Empty,
            "exit" | "quit" | "q" | ":q" => Input::Command(ReplCommand::Quit, String::new()),
            "help" | "?" => Input::Command(ReplCommand::Help, String::new()),
            text => Input::Prompt(text.to_owned()),
        };
    };
    if rest.starts_with('/') {
        return Input::Prompt(rest.to_owned());
    }
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    // A path, as in "/etc/hosts: what is it?"
    if name.contains('/') {
        return Input::Prompt(text.to_owned());
    }
    let known = COMMANDS.iter().find(|(_, names, ..)| names.contains(&name));
    let Some((verb, _, arguments, help)) = known else {
        let known = COMMANDS.iter().flat_map(|(_, names, ..)| names.iter().copied());
        let near = nearest(name, known).map(|near| format!("did you mean /{near}? "));
        let shown: String = name.chars().take(40).collect();
        return Input::Wrong(format!(
            "unknown command /{shown}; {}/help lists them, and a prompt that begins with / is sent with //",
            near.unwrap_or_default()
        ));
    };
    let argument = argument.trim();
    if argument.is_empty() && !arguments.is_empty() && !arguments.starts_with('[') {
        return Input::Wrong(format!("/{name} needs {arguments}: {help}"));
    }
    if arguments.is_empty() && !argument.is_empty() {
        return Input::Wrong(format!("/{name} takes no argument: {help}"));
    }
    Input::Command(*verb, argument.to_owned())
}

/// The text of `/help`.
pub(super) fn help_text() -> String {
    let of_command = |(_, names, arguments, help): &Command| {
        let names: Vec<String> = names.iter().map(|name| format!("/{name}")).collect();
        (format!("{} {arguments}", names.join(" ")), *help)
    };
    let others = [
        ("!CMD", "run CMD in your shell, unseen by the model"),
        ("//TEXT", "send a prompt that begins with /"),
        ("Alt-Enter", "begin another line"),
        ("Ctrl-R, Up", "search the prompts of this folder"),
        ("Ctrl-X Ctrl-E", "edit the line in $VISUAL or $EDITOR"),
    ];
    let others = others.into_iter().map(|(keys, help)| (keys.to_owned(), help));
    let rows = COMMANDS.iter().map(of_command).chain(others);
    rows.map(|(left, help)| format!("{left:<32} {help}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_what_they_mean() {
        let prompt = |text: &str| Input::Prompt(text.to_owned());
        let command = |verb, argument: &str| Input::Command(verb, argument.to_owned());
        let check = |text: &str, expect: Input| assert_eq!(parse_input(text), expect, "{text:?}");
        check("", Input::Empty);
        check(" \n\t ", Input::Empty);
        check("  hello\nyou ", prompt("hello\nyou"));
        check("exit", command(ReplCommand::Quit, ""));
        check(" quit ", command(ReplCommand::Quit, ""));
        check("exit now", prompt("exit now"));
        check(":q", command(ReplCommand::Quit, ""));
        check("?", command(ReplCommand::Help, ""));
        check("/q", command(ReplCommand::Quit, ""));
        check("/c", command(ReplCommand::Clear, ""));
        check("/reset", command(ReplCommand::Clear, ""));
        check("/model", command(ReplCommand::Model, ""));
        check("/model  --keep x ", command(ReplCommand::Model, "--keep x"));
        check("/edit make it short", command(ReplCommand::EditConversation, "make it short"));
        check("//etc/hosts", prompt("/etc/hosts"));
        check("!ls -l", Input::Shell("ls -l".into()));
        let wrong = |text: &str, part: &str| match parse_input(text) {
            Input::Wrong(why) => assert!(why.contains(part), "{why}"),
            other => panic!("{text}: {other:?}"),
        };
        wrong("/statsu", "did you mean /status?");
        check("/etc/passwd says", prompt("/etc/passwd says"));
        wrong("/save", "needs NAME");
        wrong(" ! ", "as in !ls");
        wrong("/quit now", "takes no argument");
        let help = help_text();
        assert!(help.lines().count() == COMMANDS.len() + 5);
        assert!(help.lines().all(|line| line.len() < 80), "it wraps:\n{help}");
    }
}
