//! What is recorded: the operations that faults come into, and those that begin where less is there.

use crate::faults::base::{CONVERSATIONS, Operation, bystanders, expect, model, nagent};
use crate::faults::checks::{numbered, rewritten};
use crate::faults::operations::operations;
use crate::faults::{After, World};
use crate::sandbox::{Sandbox, answer};

const LONG: &str = "the first prompt";
const SHORT: &str = "a shorter one";

fn known(name: &str) -> Operation {
    operations().into_iter().find(|operation| operation.name == name).expect("an operation")
}

/// The same where no content was ever kept.
fn without_outputs(name: &str, sandbox: &Sandbox) {
    (known(name).prepare)(sandbox);
    std::fs::remove_dir_all(sandbox.root().join("outputs")).unwrap();
}

pub(super) fn all() -> Vec<Operation> {
    let mut all = operations();
    all.extend([
        // The first run of all: there is no folder of conversations.
        Operation { name: "append-first", prepare: model, ..known("append-new") },
        // Whole blocks within a block: cut behind one of them, it may be damage, or the end of an append.
        Operation {
            name: "append-fenced",
            command: |_| {
                let lines = "<system>\nof a file\n</system>\n\n".repeat(8);
                nagent(&["--conversation", "c", &format!("the second prompt\n\n{lines}and on")])
            },
            ..known("append")
        },
        Operation {
            name: "write-first",
            prepare: |sandbox| without_outputs("write", sandbox),
            ..known("write")
        },
        Operation {
            name: "replace-first",
            prepare: |sandbox| without_outputs("replace", sandbox),
            ..known("replace")
        },
        Operation {
            name: "edit-conversation",
            prepare: |sandbox| {
                sandbox.llm.choose(|request| {
                    let text = request.text();
                    if request.last().contains("once-more") {
                        return answer("again done").into();
                    } else if request.user().contains("nagent-edit-result") {
                        return answer("shortened").into();
                    }
                    let Some((before, _)) = text.split_once(" is the text of a conversation")
                    else {
                        return answer("the first answer").into();
                    };
                    let copy = before.rsplit_once("The file ").unwrap().1;
                    let edit = format!("<<<<<<< SEARCH\n{LONG}\n=======\n{SHORT}\n>>>>>>> REPLACE");
                    format!(
                        "<nagent-edit path=\"{copy}\" fence=\"zq7\">\n{edit}\n</nagent-edit zq7>"
                    )
                    .into()
                });
                sandbox.run(&["--conversation", "c", LONG]).assert_exit(0);
                bystanders(sandbox);
            },
            command: |_| nagent(&["--conversation", "c", "--edit-conversation", "shorten it"]),
            stdin: "",
            check: |world, after, wrong| {
                let path = format!("{CONVERSATIONS}/c");
                let (old, now) = (world.before.text(&path), after.state.text(&path));
                let is_new = now == old.replace(LONG, SHORT);
                rewritten(&old, &now, is_new, after, wrong);
            },
            again: |world, _, wrong| {
                let run = world.sandbox.run(&["--conversation", "c", "once-more"]);
                expect(&run, "again done\n", wrong);
            },
            least_sites: 0,
        },
        Operation {
            name: "split-first",
            prepare: |sandbox| {
                sandbox.write("big.txt", numbered("other line"));
                bystanders(sandbox);
            },
            ..known("split")
        },
        // A split after one that was killed at the exchange of the folders.
        Operation {
            name: "split-again",
            prepare: |sandbox| {
                let split = known("split");
                (split.prepare)(sandbox);
                let (program, args) = (split.command)(sandbox);
                let mut all = vec!["-o", "/dev/null", "-e", "inject=renameat2:signal=KILL:when=1"];
                all.push(&program);
                all.extend(args.iter().map(String::as_str));
                let run = sandbox.program("strace", &all).run();
                assert_eq!(run.code, -9, "{}", run.stderr);
            },
            ..known("split")
        },
        // An index of an older tool is brought into the new form.
        Operation {
            name: "file-edit-old",
            prepare: |sandbox| {
                (known("file-edit").prepare)(sandbox);
                let other = sandbox.write("other.txt", "other\n");
                let old = serde_json::json!({ other.to_str().unwrap(): "of-other" });
                let conversations = sandbox.root().join("conversations");
                std::fs::write(conversations.join("file-index-7.json"), old.to_string()).unwrap();
            },
            check: |world, after, wrong| {
                let known = known("file-edit");
                (known.check)(world, after, wrong);
                other_is_known(after, wrong);
            },
            ..known("file-edit")
        },
    ]);
    all
}

/// An entry of an older index is in the new one, or still in the old one.
fn other_is_known(after: &After, wrong: &mut Vec<String>) {
    let holds =
        |name: &str| after.state.text(format!("{CONVERSATIONS}/{name}")).contains("of-other");
    if !holds("file-index.json") && !holds("file-index-7.json") {
        wrong.push("an entry of the older index is lost".to_owned());
    }
}
