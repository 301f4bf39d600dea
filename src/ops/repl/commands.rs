//! The commands of a session: one table, and what a line means by it. Pure.

use crate::llm::provider::nearest;

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Help,
    Quit,
    Clear,
    Model,
    Status,
    Save,
    Load,
    Branch,
    List,
    Summarize,
    EditConversation,
    EditPrompt,
    Read,
    File,
    Undo,
    Check,
    Approve,
    Sandbox,
    Show,
}

/// A command.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) verb: Verb,
    /// Its names without the slash, the usual one first.
    pub(super) names: &'static [&'static str],
    /// What is behind the name.
    pub(super) arguments: &'static str,
    /// Whether it needs an argument.
    pub(super) needs_argument: bool,
    pub(super) help: &'static str,
}

const fn row(
    verb: Verb,
    names: &'static [&'static str],
    arguments: &'static str,
    help: &'static str,
) -> Command {
    // A placeholder in brackets is optional.
    let needs_argument = !arguments.is_empty() && arguments.as_bytes()[0] != b'[';
    Command { verb, names, arguments, needs_argument, help }
}

/// All commands.
pub(super) const COMMANDS: [Command; 19] = [
    row(Verb::Help, &["help"], "", "list the commands"),
    row(Verb::Quit, &["quit", "q", "exit"], "", "leave; so do exit, quit and Ctrl-D"),
    row(
        Verb::Clear,
        &["clear", "c", "reset", "new"],
        "",
        "archive the conversation and start a new one",
    ),
    row(
        Verb::Model,
        &["model"],
        "[NAME|--keep NAME]",
        "list the models; with NAME use it, in a new conversation or (--keep) in this one",
    ),
    row(Verb::Status, &["status"], "", "show the conversation and the settings"),
    row(Verb::Save, &["save"], "NAME", "save a copy of the conversation"),
    row(Verb::Load, &["load"], "NAME", "continue from a saved conversation"),
    row(Verb::Branch, &["branch"], "NAME", "continue from a copy of another conversation"),
    row(Verb::List, &["list"], "", "list conversations"),
    row(Verb::Summarize, &["summarize"], "", "print a summary of the conversation"),
    row(
        Verb::EditConversation,
        &["edit"],
        "[WORDS]",
        "open the conversation in $EDITOR; with WORDS a model edits it so",
    ),
    row(Verb::EditPrompt, &["e"], "", "write the next prompt in $EDITOR"),
    row(Verb::Read, &["read"], "FILE", "show the model a file with the next prompt"),
    row(Verb::File, &["file"], "FILE WORDS", "have a file edited in its own conversation"),
    row(
        Verb::Undo,
        &["undo"],
        "[FILE]",
        "take back what the last run wrote; with FILE the last edit of that file's own conversation",
    ),
    row(Verb::Check, &["check"], "CMD|off", "accept an answer only when CMD exits 0"),
    row(Verb::Approve, &["approve"], "none|shell|ask", "choose what is asked before it is done"),
    row(
        Verb::Sandbox,
        &["sandbox"],
        "off|workspace|read-only",
        "choose how commands are restricted",
    ),
    row(Verb::Show, &["show"], "[N]", "show the conversation, or its last N entries"),
];

/// What a line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// Nothing.
    Empty,
    /// A prompt for the model.
    Prompt(String),
    /// A command, and what is behind its name.
    Command(Verb, String),
    /// A command line for the user's shell.
    Shell(String),
    /// What is wrong with it.
    Wrong(String),
}

/// Reads a line.
pub(super) fn parse_input(text: &str) -> Input {
    let text = text.trim();
    if let Some(command) = text.strip_prefix('!').map(str::trim).filter(|it| !it.is_empty()) {
        return Input::Shell(command.to_owned());
    }
    let Some(rest) = text.strip_prefix('/') else {
        return match text {
            "" => Input::Empty,
            "exit" | "quit" => Input::Command(Verb::Quit, String::new()),
            text => Input::Prompt(text.to_owned()),
        };
    };
    if rest.starts_with('/') {
        return Input::Prompt(rest.to_owned());
    }
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let Some(command) = COMMANDS.iter().find(|command| command.names.contains(&name)) else {
        let known = COMMANDS.iter().flat_map(|command| command.names.iter().copied());
        let near = nearest(name, known).map(|near| format!("did you mean /{near}? "));
        let shown: String = name.chars().take(40).collect();
        return Input::Wrong(format!(
            "there is no command /{shown}; {}/help lists them, and a prompt that begins with / is sent with //",
            near.unwrap_or_default()
        ));
    };
    let argument = argument.trim();
    if command.needs_argument && argument.is_empty() {
        return Input::Wrong(format!("/{name} needs {}: {}", command.arguments, command.help));
    }
    if command.arguments.is_empty() && !argument.is_empty() {
        return Input::Wrong(format!("/{name} takes nothing behind it: {}", command.help));
    }
    Input::Command(command.verb, argument.to_owned())
}

/// What `/help` prints.
pub(super) fn help_text() -> String {
    let mut text = String::new();
    let mut row = |left: &str, help: &str| text.push_str(&format!("{left:<30} {help}\n"));
    for command in &COMMANDS {
        let names: Vec<String> = command.names.iter().map(|name| format!("/{name}")).collect();
        row(&format!("{} {}", names.join(" "), command.arguments), command.help);
    }
    row("!CMD", "run CMD in your shell; the model does not see it");
    row("//TEXT", "send a prompt that begins with /");
    row("Alt-Enter, or \\ and Enter", "begin another line");
    row("Ctrl-R, Up", "search the prompts of this folder");
    text
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
        check("exit", command(Verb::Quit, ""));
        check(" quit ", command(Verb::Quit, ""));
        check("exit now", prompt("exit now"));
        check("/q", command(Verb::Quit, ""));
        check("/c", command(Verb::Clear, ""));
        check("/reset", command(Verb::Clear, ""));
        check("/model", command(Verb::Model, ""));
        check("/model  --keep x ", command(Verb::Model, "--keep x"));
        check("/edit make it short", command(Verb::EditConversation, "make it short"));
        check("//etc/hosts", prompt("/etc/hosts"));
        check("!ls -l", Input::Shell("ls -l".into()));
        check("!", prompt("!"));
        let wrong = |text: &str, part: &str| match parse_input(text) {
            Input::Wrong(why) => assert!(why.contains(part), "{why}"),
            other => panic!("{text}: {other:?}"),
        };
        wrong("/statsu", "did you mean /status?");
        wrong("/etc/passwd says", "no command /etc/passwd;");
        wrong("/save", "needs NAME");
        wrong("/quit now", "takes nothing");
        assert!(help_text().lines().count() == COMMANDS.len() + 4);
    }
}
