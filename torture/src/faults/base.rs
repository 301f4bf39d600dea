//! An operation that is run with faults, and what its kinds share: names, files, a model.

use super::{After, World};
use crate::sandbox::{NAGENT, Sandbox, answer, shell};

pub(crate) const PATCH: &str = env!("CARGO_BIN_EXE_nagent-file-patch");
pub(crate) const SPLIT: &str = env!("CARGO_BIN_EXE_nagent-file-split");
pub(crate) const EDIT: &str = env!("CARGO_BIN_EXE_nagent-file-edit");

/// Where a conversation is in its world.
pub(crate) const CONVERSATIONS: &str = "home/.nagent/conversations";

pub(crate) type Check = fn(&World, &After, &mut Vec<String>);

/// An operation.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Makes the state that each run begins from.
    pub(crate) prepare: fn(&Sandbox),
    pub(crate) command: fn(&Sandbox) -> (String, Vec<String>),
    pub(crate) stdin: &'static str,
    /// Looks at what a run with a fault left.
    pub(crate) check: Check,
    /// Runs without a fault, and looks again.
    pub(crate) again: Check,
    /// Fewer sites than these mean that the harness does not see them.
    pub(crate) least_sites: usize,
}

pub(crate) const OLD: &str = "one\ntwo\nthree\n";
pub(crate) const NEW: &str = "one\nzwei\nthree\n";
pub(crate) const BLOCKS: &str = "<<<<<<< SEARCH\ntwo\n=======\nzwei\n>>>>>>> REPLACE\n";

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(crate) fn nagent(args: &[&str]) -> (String, Vec<String>) {
    (NAGENT.to_owned(), words(args))
}

/// A model that runs one command for the second prompt.
pub(crate) fn model(sandbox: &Sandbox) {
    sandbox.llm.choose(|request| {
        let last = request.last();
        if last.contains("once-more") {
            answer("again done").into()
        } else if last.contains("the first prompt") {
            answer("the first answer").into()
        } else if last.contains("nagent-shell-result") {
            answer("the last answer").into()
        } else {
            shell("echo x >> counter; echo from the command").into()
        }
    });
}

/// Files of others in every folder that is written to.
pub(crate) fn bystanders(sandbox: &Sandbox) {
    for folder in ["conversations", "conversations/.locks", "outputs"] {
        let folder = sandbox.root().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("bystander"), "by\n").unwrap();
    }
}

pub(crate) fn expect(run: &crate::process_under_test::Run, stdout: &str, wrong: &mut Vec<String>) {
    if run.code != 0 || run.stdout != stdout {
        wrong.push(format!(
            "the run afterwards: exit {}, {:?}, {}",
            run.code, run.stdout, run.stderr
        ));
    }
}
