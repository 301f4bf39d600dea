//! The operations that are run with faults, from which state, and what must hold after one.

use super::base::{
    BLOCKS, CONVERSATIONS, EDIT, NEW, OLD, Operation, PATCH, SPLIT, bystanders, expect, model,
    nagent, words,
};
use super::checks::{
    agrees, append_again, apply, apply_in, blocks_of, check_append, exchanged, exchanged_again,
    file_index, numbered, old_or_new, patched, same, saved, split, texts,
};
use super::{After, World};
use crate::put;
use crate::sandbox::{NAGENT, Sandbox, answer, shell};

pub(crate) fn operations() -> Vec<Operation> {
    let mut all = vec![
        Operation {
            name: "append",
            prepare: |sandbox| {
                model(sandbox);
                sandbox.run(&["--conversation", "c", "the first prompt"]).assert_exit(0);
                bystanders(sandbox);
            },
            command: |_| nagent(&["--conversation", "c", "the second prompt"]),
            stdin: "",
            check: check_append,
            again: append_again,
            least_sites: 30,
        },
        Operation {
            name: "append-new",
            prepare: |sandbox| {
                model(sandbox);
                bystanders(sandbox);
            },
            command: |_| nagent(&["--conversation", "c", "the second prompt"]),
            stdin: "",
            check: check_append,
            again: append_again,
            least_sites: 30,
        },
        Operation {
            name: "repair",
            prepare: |sandbox| {
                model(sandbox);
                sandbox.run(&["--conversation", "c", "the first prompt"]).assert_exit(0);
                let path = sandbox.root().join("conversations/c");
                let text = std::fs::read_to_string(&path).unwrap();
                std::fs::write(&path, text + "\n<user-prompt at=\"x\">\nhalf a pro").unwrap();
                bystanders(sandbox);
            },
            command: |_| nagent(&["--conversation", "c", "the second prompt"]),
            stdin: "",
            check: check_append,
            again: append_again,
            least_sites: 35,
        },
        Operation {
            name: "write",
            prepare: |sandbox| {
                let path = sandbox.work().join("target.txt");
                sandbox.write("target.txt", OLD);
                sandbox.llm.choose(move |request| {
                    if request.last().contains("once-more") {
                        answer("again done").into()
                    } else if request.last().contains("nagent-write-result") {
                        answer("written").into()
                    } else if request.last().contains("nagent-read-result") {
                        format!("<nagent-write path=\"{}\">\n{NEW}</nagent-write>", path.display())
                            .into()
                    } else {
                        // Without that, the write is refused.
                        format!("<nagent-read path=\"{}\"/>", path.display()).into()
                    }
                });
                bystanders(sandbox);
            },
            command: |_| nagent(&["--conversation", "c", "write it"]),
            stdin: "",
            check: |_, after, wrong| {
                old_or_new(after, "work/target.txt", wrong);
                if after.run.code == 0 && after.run.stdout != "written\n" {
                    wrong.push(format!("exit 0 and {:?}", after.run.stdout));
                }
                let text = after.state.text(format!("{CONVERSATIONS}/c"));
                if text.contains("<nagent-write-result status=\"ok\"")
                    && after.state.text("work/target.txt") != NEW
                {
                    wrong.push("said to be written, and was not".to_owned());
                }
                if after.state.text("work/target.txt") == NEW {
                    let kept = after
                        .state
                        .0
                        .keys()
                        .filter(|path| path.starts_with("home/.nagent/outputs"));
                    if !kept.clone().any(|path| after.state.text(path) == OLD) {
                        wrong.push("the content before was not kept".to_owned());
                    }
                }
            },
            again: |world, after, wrong| {
                let run = world.sandbox.run(&["--conversation", "c", "once-more"]);
                expect(&run, "again done\n", wrong);
                // A write of the same file takes away what a killed one left.
                apply(&world.sandbox, "work/target.txt", wrong);
                let _ = after;
            },
            least_sites: 50,
        },
        Operation {
            name: "replace",
            prepare: |sandbox| {
                sandbox.write("target.txt", OLD);
                bystanders(sandbox);
            },
            command: |sandbox| put::words(&sandbox.work().join("target.txt")),
            stdin: NEW,
            check: |_, after, wrong| {
                old_or_new(after, "work/target.txt", wrong);
                if after.run.code == 0 && after.state.text("work/target.txt") != NEW {
                    wrong.push("exit 0 and the old content".to_owned());
                }
            },
            again: |world, _, wrong| {
                apply(&world.sandbox, "work/target.txt", wrong);
                if world.sandbox.read("target.txt") != NEW {
                    wrong.push("not the new content in the end".to_owned());
                }
            },
            least_sites: 20,
        },
        Operation {
            name: "create",
            prepare: bystanders,
            command: |sandbox| put::words(&sandbox.work().join("sub/target.txt")),
            stdin: "made\n",
            check: |_, after, wrong| match after.state.file("work/sub/target.txt") {
                None if after.run.code == 0 => wrong.push("exit 0 and no file".to_owned()),
                Some(bytes) if bytes != b"made\n" => {
                    wrong.push("a file that is half made".to_owned())
                }
                _ => {}
            },
            again: |world, _, wrong| {
                let path = world.sandbox.work().join("sub/target.txt");
                if !path.exists() {
                    let (program, words) = put::words(&path);
                    let run = world.sandbox.program(&program, &words).stdin("made\n").run();
                    if run.code != 0 {
                        wrong.push(format!("afterwards: {}", run.stderr));
                    }
                }
                apply_in(&world.sandbox, &path, "made", "again", wrong);
            },
            least_sites: 8,
        },
        Operation {
            name: "save",
            prepare: saved,
            command: |_| nagent(&["--conversation", "c", "--save-conversation", "s"]),
            stdin: "",
            check: |world, after, wrong| {
                same(world, after, "c", wrong);
                let old = world.before.text(format!("{CONVERSATIONS}/s"));
                let new = world.before.text(format!("{CONVERSATIONS}/c"));
                let now = texts(after);
                if !now.contains(&old) {
                    wrong.push("the older copy is gone".to_owned());
                }
                let at = after.state.text(format!("{CONVERSATIONS}/s"));
                if !(at == old || at == new) {
                    wrong.push("the copy is neither the old nor the new".to_owned());
                }
                if after.run.code == 0 && at != new {
                    wrong.push("exit 0 and not saved".to_owned());
                }
                same(world, after, "other", wrong);
            },
            again: |world, _, wrong| {
                let run = world.sandbox.run(&["--conversation", "c", "--save-conversation", "s"]);
                if run.code != 0 {
                    wrong.push(format!("saving afterwards: {}", run.stderr));
                }
                let run = world.sandbox.run(&["--list-conversations"]);
                if run.code != 0
                    || !run.stdout.contains("the first prompt")
                    || run.stdout.contains(".nagent-")
                {
                    wrong.push(format!("the list afterwards: {} {}", run.stdout, run.stderr));
                }
                let run = world.sandbox.run(&["--conversation", "s", "once-more"]);
                expect(&run, "again done\n", wrong);
            },
            least_sites: 40,
        },
        Operation {
            name: "load",
            prepare: saved,
            command: |_| nagent(&["--conversation", "c", "--load-conversation", "s"]),
            stdin: "",
            check: |world, after, wrong| exchanged(world, after, Some("s"), wrong),
            again: |world, after, wrong| exchanged_again(world, after, "s", wrong),
            least_sites: 30,
        },
        Operation {
            name: "clear",
            prepare: saved,
            command: |_| nagent(&["--conversation", "c", "--clear"]),
            stdin: "",
            check: |world, after, wrong| exchanged(world, after, None, wrong),
            again: |world, after, wrong| exchanged_again(world, after, "", wrong),
            least_sites: 30,
        },
        Operation {
            name: "split",
            prepare: |sandbox| {
                sandbox.write("big.txt", numbered("line"));
                split(sandbox, &[]);
                sandbox.write("big.txt", numbered("other line"));
                bystanders(sandbox);
            },
            command: |sandbox| {
                let (source, folder) =
                    (sandbox.work().join("big.txt"), sandbox.work().join("split"));
                let args = [
                    "--file",
                    source.to_str().unwrap(),
                    "--output",
                    folder.to_str().unwrap(),
                    "--target-bytes",
                    "400",
                ];
                (SPLIT.to_owned(), words(&args))
            },
            stdin: "",
            check: |world, after, wrong| {
                if after.state.text("work/big.txt") != world.before.text("work/big.txt") {
                    wrong.push("the source was changed".to_owned());
                }
                // Without an index nothing can be put back from a mixture.
                if after.state.file("work/split/index.json").is_some() {
                    agrees(after, wrong);
                } else if after.run.code == 0 {
                    wrong.push("exit 0 and no index".to_owned());
                }
            },
            again: |world, after, wrong| {
                let run = split(&world.sandbox, &[]);
                if run.code != 0 {
                    wrong.push(format!("splitting afterwards: {}", run.stderr));
                }
                let state = crate::ground::State::of(world.sandbox.base());
                let source = sys::fs::sha256(numbered("other line").as_bytes());
                if !state.text("work/split/index.json").contains(&source) {
                    wrong.push("the split afterwards is not that of the source".to_owned());
                }
                agrees(&After { state, run, call: String::new(), ..*after }, wrong);
            },
            least_sites: 60,
        },
        Operation {
            name: "patch",
            prepare: |sandbox| {
                sandbox.write("big.txt", numbered("line"));
                split(sandbox, &[]);
                sandbox.write("split/big-0002.txt", "edited\n");
                bystanders(sandbox);
            },
            command: |sandbox| {
                let index = sandbox.work().join("split/index.json");
                (PATCH.to_owned(), words(&["--index", index.to_str().unwrap()]))
            },
            stdin: "",
            check: |world, after, wrong| {
                let source = after.state.text("work/big.txt");
                let is_old = source == world.before.text("work/big.txt");
                if !is_old && source != patched(world) {
                    wrong.push("the source is neither the old nor the new".to_owned());
                }
                if after.run.code == 0 {
                    agrees(after, wrong);
                    if is_old {
                        wrong.push("exit 0 and the old source".to_owned());
                    }
                }
            },
            again: |world, after, wrong| {
                let index = world.sandbox.work().join("split/index.json");
                let run = world.sandbox.program(PATCH, &["--index", index.to_str().unwrap()]).run();
                if run.code != 0 {
                    wrong.push(format!("patching afterwards: {}", run.stderr));
                }
                let state = crate::ground::State::of(world.sandbox.base());
                if state.text("work/big.txt") != patched(world) {
                    wrong.push("the edit is not in the source in the end".to_owned());
                }
                agrees(&After { state, run, call: String::new(), ..*after }, wrong);
                apply_in(
                    &world.sandbox,
                    &world.sandbox.work().join("big.txt"),
                    "edited",
                    "once more",
                    wrong,
                );
            },
            least_sites: 100,
        },
        Operation {
            name: "file-edit",
            prepare: |sandbox| {
                sandbox.write("target.txt", OLD);
                sandbox.llm.choose(|request| {
                    let last = request.last();
                    if last.contains("once-more") {
                        answer("again done").into()
                    } else if last.contains("nagent-edit-result") {
                        answer("edited").into()
                    } else {
                        let edit = BLOCKS.trim_end();
                        format!("<nagent-edit path=\"target.txt\">\n{edit}\n</nagent-edit>").into()
                    }
                });
                bystanders(sandbox);
            },
            command: |_| (EDIT.to_owned(), words(&["--file", "target.txt", "edit it"])),
            stdin: "",
            check: |_, after, wrong| {
                old_or_new(after, "work/target.txt", wrong);
                // What fails is told to the model, which goes on.
                let names = after.state.names(CONVERSATIONS);
                let is_told = names.iter().any(|name| {
                    let text = after.state.text(format!("{CONVERSATIONS}/{name}"));
                    blocks_of(&text, "nagent-edit-result")
                        .any(|block| block.get("status") == "error")
                });
                let is_done = after.state.text("work/target.txt") == NEW || is_told;
                if after.run.code == 0
                    && (!is_done
                        || after.run.stdout
                            != "edited
")
                {
                    wrong.push(format!("exit 0, and {:?}", after.run.stdout));
                }
                file_index(after, wrong);
            },
            again: |world, after, wrong| {
                let run = world.sandbox.program(EDIT, &["--file", "target.txt", "once-more"]).run();
                expect(&run, "again done\n", wrong);
                let state = crate::ground::State::of(world.sandbox.base());
                file_index(&After { state, run, call: String::new(), ..*after }, wrong);
                apply(&world.sandbox, "work/target.txt", wrong);
            },
            least_sites: 80,
        },
    ];
    all.extend(super::long_work::operations());
    all.extend(super::runs::operations());
    all
}
