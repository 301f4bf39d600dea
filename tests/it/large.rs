//! The tags for large files: segments, their way back, and where that may lead.

use std::os::unix::fs::PermissionsExt;

use crate::actions::{error, ok};
use crate::blocks::Block;
use crate::sandbox::{Sandbox, answer};

/// The last block of a name.
fn last(sandbox: &Sandbox, name: &str) -> Block {
    sandbox.blocks_of(name).pop().unwrap_or_else(|| panic!("no {name}"))
}

/// A source of some 80 KB in 200 functions.
fn large_source() -> String {
    (0..200).map(|n| format!("def f{n}():\n    return \"{}\"\n\n\n", "x".repeat(370))).collect()
}

/// A tag that changes a function in a file.
fn edit_of(path: &str, from: &str, to: &str) -> String {
    format!(
        "<nagent-edit path=\"{path}\">\n<<<<<<< SEARCH\n{from}\n=======\n{to}\n>>>>>>> REPLACE\n</nagent-edit>"
    )
}

/// The path of a segment, from the line about it.
fn segment(block: &Block, number: usize) -> String {
    let start = format!("segment {number}: ");
    let line = block.body.lines().find(|line| line.starts_with(&start)).expect("a line about it");
    let name = line.split(", ").nth(2).and_then(|rest| rest.split(": ").next()).unwrap();
    std::path::Path::new(block.get("index_path")).with_file_name(name).display().to_string()
}

#[test]
fn file_read_of_a_large_file_lists_its_segments_and_file_patch_puts_edited_ones_back() {
    let sandbox = Sandbox::outside_temp().file("big.py", large_source());
    let conversation = ["--file-edit", "big.py", "--no-summaries", "task"];
    sandbox.llm.push("<nagent-file-read path=\"big.py\"/>");
    sandbox.llm.push(answer("read"));
    sandbox.run(&conversation).assert_exit(0);
    let read = last(&sandbox, "nagent-file-read-result");
    assert_eq!((read.get("status"), read.get("mode")), ("ok", "split"), "{read:?}");
    assert_eq!((read.get("type"), read.get("segment_count")), ("py", "3"), "{read:?}");
    assert!(read.body.contains("Or read the segments that matter, edit them"), "{read:?}");
    assert!(read.body.contains("The file begins:\ndef f0():\n"), "{read:?}");
    let line = read.body.lines().find(|line| line.starts_with("segment 1: ")).unwrap();
    assert!(line.contains(": def f0() … def f"), "{line}");

    let (index, second) = (read.get("index_path").to_owned(), segment(&read, 2));
    assert!(std::fs::read_to_string(&second).unwrap().starts_with("def f"));
    for entry in std::fs::read_dir(std::path::Path::new(&index).parent().unwrap()).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(
            mode & 0o777,
            0o600,
            "for the owner alone, though everybody may read the source"
        );
    }

    let name = std::fs::read_to_string(&second).unwrap();
    let name = name.lines().next().unwrap().to_owned();
    sandbox.llm.push(edit_of(&second, &name, &format!("# New.\n{name}")));
    sandbox.llm.push(format!("<nagent-file-patch index=\"{index}\"/>"));
    // What is read again is not split again, and what was edited in it is told.
    sandbox.llm.push("<nagent-file-read path=\"big.py\"/>");
    sandbox.llm.push(answer("done"));
    sandbox.run(&conversation).assert_exit(0);
    let patched = last(&sandbox, "nagent-file-patch-result");
    assert_eq!((patched.get("status"), patched.get("edited")), ("ok", "2"), "{patched:?}");
    assert_eq!(sandbox.read("big.py"), large_source().replace(&name, &format!("# New.\n{name}")));
    let previous = std::fs::read_to_string(sandbox.stored(patched.get("previous"))).unwrap();
    assert_eq!(previous, large_source(), "what it held before is kept");
    assert!(std::fs::read_to_string(patched.get("patch")).unwrap().contains("\n+# New.\n"));
    let again = last(&sandbox, "nagent-file-read-result");
    assert_eq!(again.get("index_path"), index);
}

#[test]
fn segments_have_short_paths_are_found_once_and_show_no_whole_file() {
    let sandbox = Sandbox::outside_temp().file("big.py", large_source());
    sandbox.llm.push("<nagent-file-read path=\"big.py\"/>");
    sandbox.llm.push(answer("read"));
    sandbox.run(&["-w", "task"]).assert_exit(0);
    let index = last(&sandbox, "nagent-file-read-result").get("index_path").to_owned();
    let folder = std::path::Path::new(&index).parent().unwrap();
    let name = folder.file_name().unwrap().to_str().unwrap();
    assert!(name.len() == "big-".len() + 12 && name.starts_with("big-"), "{name}");
    sandbox.llm.push(format!("<nagent-grep pattern=\"def f0\\(\" path=\"{}\"/>", folder.display()));
    sandbox.llm.push("<nagent-write path=\"big.py\">x\n</nagent-write>");
    sandbox.llm.push(answer("done"));
    sandbox.run(&["-w", "task"]).assert_exit(0);
    let found = last(&sandbox, "nagent-grep-result");
    assert_eq!(found.get("lines"), "1", "{found:?}");
    let write = last(&sandbox, "nagent-write-result");
    assert!(write.body.contains("had read nothing of it"), "{write:?}");
}

#[test]
fn file_read_again_says_which_segments_were_edited() {
    let sandbox = Sandbox::outside_temp().file("big.py", large_source());
    let read = ok(&sandbox, "<nagent-file-read path=\"big.py\"/>", "nagent-file-read-result");
    let first = segment(&read, 1);
    assert!(read.body.contains("This conversation may not change the file"), "{read:?}");
    std::fs::write(&first, "").unwrap();
    let again = ok(&sandbox, "<nagent-file-read path=\"big.py\"/>", "nagent-file-read-result");
    assert_eq!(again.get("index_path"), read.get("index_path"));
    assert!(again.body.contains("edits that are not in the file: big-0001.py"), "{again:?}");
}

#[test]
fn file_patch_writes_no_more_than_the_write_tag_may() {
    // An index is data that anybody may have written: here it names a project file.
    let sandbox = Sandbox::outside_temp().file("src.txt", "old\n");
    let split = sandbox.tmp().join("forged");
    let args = ["--file", "src.txt", "--output", split.to_str().unwrap()];
    sandbox.program(env!("CARGO_BIN_EXE_nagent-file-split"), &args).run().assert_exit(0);
    std::fs::write(split.join("src-0001.txt"), "new\n").unwrap();
    let index = split.join("index.json");
    let tag = format!("<nagent-file-patch index=\"{}\"/>", index.display());
    let block = error(&sandbox, &tag, "nagent-file-patch-result");
    assert!(block.body.contains("outside of the write boundary"), "{block:?}");
    assert_eq!(sandbox.read("src.txt"), "old\n");
    // And an index in the project is not written beside, wherever its source is.
    let inside = sandbox.work().join("split");
    std::fs::create_dir(&inside).unwrap();
    for file in std::fs::read_dir(&split).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), inside.join(file.file_name())).unwrap();
    }
    let tag = "<nagent-file-patch index=\"split/index.json\"/>";
    let block = error(&sandbox, tag, "nagent-file-patch-result");
    assert!(block.body.contains("outside of the write boundary"), "{block:?}");
}
