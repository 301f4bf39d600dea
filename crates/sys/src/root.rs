//! The paths below the root, and the rules for names of conversations. The conversation of a shell.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::atomic_file::AtomicFile;
use super::fs;
use conversation::limits;
use conversation::problem::Problem;

/// The root folder, `~/.nagent` by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// The path of the folder.
    pub folder: PathBuf,
}

/// Suffixes of a conversation's companion files; no name of a conversation may end with them.
const RESERVED: [&str; 5] = [".invalid", ".messages", ".run", ".locks", ".json"];

/// The folders that must be private. The user's own tools are not among them.
const OWN: [&str; 7] =
    ["conversations", "conversations/.locks", "outputs", "splits", "summaries", "history", "trash"];

impl Root {
    /// Makes the folders that every run needs, for the owner alone. Another user's root is refused.
    pub fn prepare(&self) -> Result<()> {
        // A root of another name is a folder that the user has chosen, which others may share.
        if self.folder.file_name().is_some_and(|name| name == ".nagent") {
            fs::check_folder_owner(&self.folder)?;
            fs::keep_private(&self.folder);
        }
        fs::check_folder_owner(&self.conversations())?;
        for name in OWN {
            fs::keep_private(&self.folder.join(name));
        }
        fs::create_private_folder(&self.conversations())?;
        fs::create_private_folder(&self.locks())?;
        // Locks belong to this machine: users who keep conversations in git do not want them there.
        let ignore = self.locks().join(".gitignore");
        if !fs::exists(&ignore) {
            AtomicFile::new(&ignore).without_sync().write(b"*\n")?;
        }
        Ok(())
    }

    /// `conversations/{name}`
    pub fn conversation(&self, name: &str) -> PathBuf {
        self.conversations().join(name)
    }

    /// `conversations/{name}.invalid/`: replies that did not parse, and torn tails.
    pub fn invalid_replies_folder(&self, name: &str) -> PathBuf {
        self.conversations().join(format!("{name}.invalid"))
    }

    /// `conversations/{name}.messages/`: messages that no run has read yet.
    pub(crate) fn messages_folder(&self, name: &str) -> PathBuf {
        self.conversations().join(format!("{name}.messages"))
    }

    /// The companion folders of a conversation, which are moved together with it.
    pub fn companion_folders(&self, name: &str) -> [PathBuf; 2] {
        [self.invalid_replies_folder(name), self.messages_folder(name)]
    }

    /// `conversations/{name}.run`: the activity of the process that uses the conversation.
    pub fn run_note(&self, name: &str) -> PathBuf {
        self.conversations().join(format!("{name}.run"))
    }

    fn taken_up(&self, own: &str) -> PathBuf {
        self.conversations().join(".shells").join(own)
    }

    /// The conversation that a shell goes on with: the one that it took up with `--continue`, else `own`.
    pub fn shell_conversation(&self, own: String) -> String {
        let taken = check_name(&own).ok().and_then(|()| {
            let name = fs::read_text(&self.taken_up(&own), limits::NAME_FILE).ok()??;
            check_name(&name).ok().filter(|()| fs::exists(&self.conversation(&name))).map(|()| name)
        });
        taken.unwrap_or(own)
    }

    /// Records that the shell with this conversation of its own has taken up another one.
    pub fn take_up(&self, own: &str, name: &str) -> Result<()> {
        if check_name(own).is_err() || self.shell_conversation(own.to_owned()) == name {
            return Ok(());
        }
        let path = self.taken_up(own);
        path.parent().map_or(Ok(()), fs::create_private_folder)?;
        AtomicFile::new(&path).without_sync().write(name.as_bytes())
    }

    /// `splits/{conversation}/`: the splits that were made for a conversation.
    pub fn splits_folder(&self, conversation: &str) -> PathBuf {
        self.all_splits().join(conversation)
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

macro_rules! places {
    ($($(#[$doc:meta])+ $name:ident: $path:literal;)*) => {
        impl Root {
            $($(#[$doc])+
            pub fn $name(&self) -> PathBuf {
                self.folder.join($path)
            })*
        }
    };
}

places! {
    /// `conversations/`
    conversations: "conversations";
    /// `conversations/.locks/`
    locks: "conversations/.locks";
    /// `conversations/file-index.json`: the conversations of files.
    file_index: "conversations/file-index.json";
    /// `changes.jsonl`: the changes that runs made, and those that were undone.
    change_log_path: "changes.jsonl";
    /// `outputs/`: long results, and contents of files.
    outputs_folder: "outputs";
    /// `advised/`: marks of the projects in which advice was shown.
    advised_folder: "advised";
    /// `each/`: the journals of `nagent-each`.
    journals_folder: "each";
    /// `trash/`: removed conversations.
    trash_folder: "trash";
    /// `summaries/`, by the hash of the request.
    summaries_folder: "summaries";
    /// `history/`: data read from repositories.
    history_folder: "history";
    /// `snapshots/`: working trees before and after commands, by the hash of their top.
    snapshots_folder: "snapshots";
    /// `splits/`
    all_splits: "splits";
}

/// The error if the root cannot be made or used. If the system refused something, it suggests another root; a damaged
/// file remains an error about that file.
pub fn explain_refusal(error: &anyhow::Error) -> Problem {
    let is_refusal = error.chain().any(<dyn std::error::Error>::is::<std::io::Error>);
    let hint =
        if is_refusal { "; to use another folder, set --root DIR or NAGENT_ROOT" } else { "" };
    Problem::failed(format!("{error:#}{hint}"))
}

/// Checks the name of a conversation.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let problem = if name.is_empty() {
        "it is empty"
    } else if name.len() > 100 {
        "it has over 100 characters"
    } else if !name.chars().all(is_plain) {
        "it contains a character that is not allowed"
    } else if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        "it begins with neither a letter nor a digit"
    } else if RESERVED.iter().any(|suffix| name.ends_with(suffix)) {
        "its extension is reserved for the files of a conversation"
    } else {
        return Ok(());
    };
    Err(format!(
        "\"{}\" is not a valid name: {problem}; use letters, digits, . _ - (at most 100)",
        name.escape_debug()
    ))
}

/// Turns any text into a part of a name: other characters become `-`.
pub fn name_part(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' })
        .take(40)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "latest-host-1.2", "A_b"] {
            assert_eq!(check_name(good), Ok(()));
        }
        for bad in [
            "",
            ".x",
            "..",
            "a/b",
            "a b",
            "x.run",
            "x.invalid",
            "x.messages",
            "ä",
            "x\n",
            &"y".repeat(101),
        ] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        assert_eq!(name_part("my host/ä"), "my-host--");
    }
}
