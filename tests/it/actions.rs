//! Every row of the tag table: what an action gives, and the error result that teaches. The shell has its own file.

use std::fmt::Write;

use crate::blocks::Block;
use crate::sandbox::{Sandbox, answer, shell};

/// Runs one reply, then an answer, and hands back the result block.
#[track_caller]
pub(crate) fn act(sandbox: &Sandbox, tag: &str, result: &str) -> Block {
    sandbox.llm.push(tag);
    sandbox.llm.push(answer("done"));
    sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
    sandbox
        .blocks_of(result)
        .pop()
        .unwrap_or_else(|| panic!("no <{result}> in:\n{}", sandbox.conversation()))
}

#[track_caller]
pub(crate) fn ok(sandbox: &Sandbox, tag: &str, result: &str) -> Block {
    let block = act(sandbox, tag, result);
    assert_eq!(block.get("status"), "ok", "{block:?}");
    block
}

#[track_caller]
pub(crate) fn error(sandbox: &Sandbox, tag: &str, result: &str) -> Block {
    let block = act(sandbox, tag, result);
    assert_eq!(block.get("status"), "error", "{block:?}");
    assert!(!block.body.trim().is_empty(), "it says why: {block:?}");
    block
}

// nagent-response

#[test]
fn response_alone_ends_the_run() {
    Sandbox::new().reply(answer("hello\nworld")).run(&["task"]).answers("hello\nworld");
}

#[test]
fn several_responses_of_the_last_reply_reach_stdout_in_order() {
    let sandbox = Sandbox::new().reply(answer("one") + &answer("two"));
    sandbox.run(&["task"]).answers("one\ntwo");
}

#[test]
fn responses_beside_actions_are_notes() {
    let sandbox = Sandbox::new().reply(answer("on my way") + &shell("true")).reply(answer("done"));
    let document = sandbox.run(&["--json", "task"]).assert_exit(0).json();
    assert_eq!(document["responses"], serde_json::json!(["done"]));
    assert!(document["notes"].to_string().contains("on my way"), "{document}");
}

// nagent-read

#[test]
fn read_gives_a_file_whole() {
    let sandbox = Sandbox::new().file("a.txt", "alpha\nbeta\n");
    let block = ok(&sandbox, "<nagent-read path=\"a.txt\"/>", "nagent-read-result");
    assert_eq!(block.body.trim_end(), "alpha\nbeta");
    assert_eq!((block.get("path"), block.get("bytes"), block.get("lines")), ("a.txt", "11", "2"));
}

#[test]
fn read_gives_a_range_of_lines() {
    let text = (1..=100).fold(String::new(), |mut text, n| {
        writeln!(text, "line {n}").unwrap();
        text
    });
    let sandbox = Sandbox::new().file("a.txt", text);
    let block = ok(
        &sandbox,
        "<nagent-read path=\"a.txt\" offset=\"10\" limit=\"2\"/>",
        "nagent-read-result",
    );
    assert!(block.body.contains("line 10\n") && block.body.contains("line 11"), "{block:?}");
    assert!(!block.body.contains("line 12") && !block.body.contains("line 9\n"), "{block:?}");
}

#[test]
fn read_puts_numbers_before_lines_when_asked() {
    let sandbox = Sandbox::new().file("a.txt", "one\n\nthree\n").file("empty", "");
    let read = |rest: &str| {
        ok(&sandbox, &format!("<nagent-read {rest} numbers=\"true\"/>"), "nagent-read-result")
    };
    let block = read("path=\"a.txt\"");
    assert_eq!(block.body.trim_end_matches('\n'), "     1│one\n     2│\n     3│three");
    assert_eq!((block.get("numbers"), block.get("lines")), ("true", "3"));
    let part = read("path=\"a.txt\" offset=\"3\"");
    assert!(part.body.contains("     3│three"), "{part:?}");
    assert_eq!(read("path=\"empty\"").body.trim(), "");
    // What the model was shown is the file, so it may write over it.
    let path = sandbox.tmp().join("b.txt");
    std::fs::write(&path, "one\ntwo\n").unwrap();
    sandbox.llm.push(format!("<nagent-read path=\"{}\" numbers=\"true\"/>", path.display()));
    sandbox.llm.push(format!("<nagent-write path=\"{}\">1\n</nagent-write>", path.display()));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["--new", "task"]).assert_exit(0);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "1\n");
}

#[test]
fn read_of_a_file_over_64_kib_says_what_to_do_instead() {
    let sandbox = Sandbox::new().file("big.txt", "0123456789abcde\n".repeat(5000));
    let block = act(&sandbox, "<nagent-read path=\"big.txt\"/>", "nagent-read-result");
    assert!(block.body.len() < 66_000);
    let advice = format!("{block:?}");
    assert!(
        advice.contains("offset")
            || advice.contains("nagent-file-read")
            || advice.contains("output"),
        "{advice}"
    );
}

#[test]
fn read_of_what_is_no_file_is_an_error() {
    let sandbox = Sandbox::new().file("folder/x", "");
    rustix::fs::mkfifoat(rustix::fs::CWD, sandbox.work().join("fifo"), rustix::fs::Mode::RWXU)
        .unwrap();
    for path in [
        "missing.txt",
        "folder",
        "fifo",
        "/dev/zero",
        "/proc/self/environ",
        "/proc/self/status",
        "/sys/kernel",
    ] {
        let block =
            error(&sandbox, &format!("<nagent-read path=\"{path}\"/>"), "nagent-read-result");
        assert_eq!(block.get("path"), path);
        assert!(!block.body.contains("sk-canary"));
    }
}

#[test]
fn read_of_a_missing_file_names_one_that_is_near() {
    let sandbox = Sandbox::new().file("settings.toml", "");
    let block = error(&sandbox, "<nagent-read path=\"setings.toml\"/>", "nagent-read-result");
    assert!(block.body.contains("settings.toml"), "{block:?}");
}

#[test]
fn read_of_a_binary_file_is_text_with_replacements_or_an_error() {
    let sandbox = Sandbox::new().file("a.bin", [0_u8, 159, 146, 150, 0, 1]);
    act(&sandbox, "<nagent-read path=\"a.bin\"/>", "nagent-read-result");
}

// nagent-file-read, nagent-file-patch

#[test]
fn file_read_gives_a_small_file_inline() {
    let sandbox = Sandbox::new().file("a.txt", "alpha\n");
    let block = ok(&sandbox, "<nagent-file-read path=\"a.txt\"/>", "nagent-file-read-result");
    assert_eq!(block.body.trim_end(), "alpha");
    error(&sandbox, "<nagent-file-read path=\"missing\"/>", "nagent-file-read-result");
}

#[test]
fn file_patch_of_a_missing_index_is_an_error() {
    let sandbox = Sandbox::new();
    let block = error(
        &sandbox,
        "<nagent-file-patch index=\"nowhere/index.json\"/>",
        "nagent-file-patch-result",
    );
    assert_eq!(block.get("index"), "nowhere/index.json");
}

// nagent-write and its boundary

#[test]
fn write_writes_a_whole_file_in_temp_folders() {
    let sandbox = Sandbox::new();
    let path = sandbox.tmp().join("new/note.txt");
    let tag = format!("<nagent-write path=\"{}\">one\ntwo\n</nagent-write>", path.display());
    let block = ok(&sandbox, &tag, "nagent-write-result");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "one\ntwo\n");
    assert_eq!((block.get("bytes"), block.get("lines")), ("8", "2"));
}

#[test]
fn write_with_a_fence_holds_its_own_closing_tag() {
    let sandbox = Sandbox::new();
    let path = sandbox.tmp().join("doc.md");
    let tag = format!(
        "<nagent-write path=\"{}\" fence=\"k7\">a</nagent-write>b</nagent-write k7>",
        path.display()
    );
    ok(&sandbox, &tag, "nagent-write-result");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "a</nagent-write>b");
}

#[test]
fn write_outside_the_boundary_is_refused_and_teaches() {
    let sandbox = Sandbox::outside_temp().file("src.txt", "mine");
    let block = error(
        &sandbox,
        "<nagent-write path=\"src.txt\">yours</nagent-write>",
        "nagent-write-result",
    );
    assert_eq!(sandbox.read("src.txt"), "mine");
    assert!(block.body.contains("nagent-conversation"), "the way to do it: {block:?}");
}

#[test]
fn write_leaves_the_boundary_by_no_spelling() {
    let sandbox = Sandbox::outside_temp().file("src.txt", "mine");
    let (tmp, work) = (sandbox.tmp(), sandbox.work());
    std::os::unix::fs::symlink(work.join("src.txt"), tmp.join("link")).unwrap();
    std::os::unix::fs::symlink(&work, tmp.join("folder")).unwrap();
    let spellings = [
        format!("{}/../work/src.txt", tmp.display()),
        format!("{}/link", tmp.display()),
        format!("{}/folder/src.txt", tmp.display()),
        format!("{}/folder/new.txt", tmp.display()),
        "~/.bashrc".to_owned(),
        format!("{}/config.json", sandbox.root().display()),
    ];
    for path in spellings {
        error(
            &sandbox,
            &format!("<nagent-write path=\"{path}\">yours</nagent-write>"),
            "nagent-write-result",
        );
    }
    assert_eq!(sandbox.read("src.txt"), "mine");
    assert!(!work.join("new.txt").exists() && !sandbox.home().join(".bashrc").exists());
}

#[test]
fn write_dir_opens_that_folder_too_but_never_its_git_folder() {
    let sandbox = Sandbox::outside_temp().file("out/old.txt", "old");
    sandbox.llm.push("<nagent-write path=\"out/new.txt\">new</nagent-write><nagent-write path=\".git/config\">x</nagent-write>");
    sandbox.llm.push(answer("done"));
    sandbox.run(&["--write", ".", "task"]).assert_exit(0);
    let status: Vec<_> = sandbox
        .blocks_of("nagent-write-result")
        .iter()
        .map(|b| b.get("status").to_owned())
        .collect();
    assert_eq!(status, ["ok", "error"]);
    assert_eq!(sandbox.read("out/new.txt"), "new");
}

// nagent-edit

#[test]
fn a_diff_copied_numbers_and_entities_are_what_they_are() {
    let sandbox = Sandbox::new();
    let path = sandbox.tmp().join("a.py").display().to_string();
    std::fs::write(&path, "def f():\n    return 1\n").unwrap();
    let now = || std::fs::read_to_string(&path).unwrap();
    let edit = |body: &str| format!("<nagent-edit path=\"{path}\">\n{body}</nagent-edit>");
    let diff = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2\n";
    ok(&sandbox, &edit(diff), "nagent-edit-result");
    assert_eq!(now(), "def f():\n    return 2\n");
    let copied =
        "<<<<<<< SEARCH\n2:    return 2\n=======\n2:    return 3 &lt; 4\n>>>>>>> REPLACE\n";
    let block = ok(&sandbox, &edit(copied), "nagent-edit-result");
    assert_eq!(now(), "def f():\n    return 3 &lt; 4\n");
    assert!(block.body.contains("bodies are raw, nothing is unescaped"), "{block:?}");
    let wrong = "<<<<<<< SEARCH\n7:    return 3\n=======\n7: x\n>>>>>>> REPLACE\n";
    error(&sandbox, &edit(wrong), "nagent-edit-result");
}

#[test]
fn edit_replaces_a_certain_match() {
    let sandbox = Sandbox::new();
    let path = sandbox.tmp().join("a.rs");
    std::fs::write(&path, "fn a() {\n    one();\n}\n").unwrap();
    let blocks = "<<<<<<< SEARCH\n    one();\n=======\n    two();\n>>>>>>> REPLACE";
    ok(
        &sandbox,
        &format!("<nagent-edit path=\"{}\">\n{blocks}\n</nagent-edit>", path.display()),
        "nagent-edit-result",
    );
    assert_eq!(std::fs::read_to_string(path).unwrap(), "fn a() {\n    two();\n}\n");
}

#[test]
fn edit_is_refused_when_the_text_is_not_there_or_there_twice_and_names_lines() {
    let sandbox = Sandbox::new();
    let path = sandbox.tmp().join("a.txt");
    let text = "alpha\nbeta line\ngamma\nalpha\n";
    std::fs::write(&path, text).unwrap();
    for search in ["beta lines", "alpha"] {
        let blocks = format!("<<<<<<< SEARCH\n{search}\n=======\nx\n>>>>>>> REPLACE");
        let tag = format!("<nagent-edit path=\"{}\">\n{blocks}\n</nagent-edit>", path.display());
        let block = error(&sandbox, &tag, "nagent-edit-result");
        assert!(block.body.chars().any(|c| c.is_ascii_digit()), "line numbers: {block:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn edit_all_replaces_every_place_and_without_it_none() {
    let sandbox = Sandbox::new();
    let path = sandbox.tmp().join("a.txt");
    let text = "one\ntwo\none\n";
    std::fs::write(&path, text).unwrap();
    let tag = |all: &str| {
        let blocks = "<<<<<<< SEARCH\none\n=======\n1\n>>>>>>> REPLACE";
        format!("<nagent-edit path=\"{}\"{all}>\n{blocks}\n</nagent-edit>", path.display())
    };
    for not_all in ["", " all=\"false\""] {
        act(&sandbox, &tag(not_all), "nagent-edit-result");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{not_all}");
    }
    let block = ok(&sandbox, &tag(" all=\"true\""), "nagent-edit-result");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\ntwo\n1\n");
    assert_eq!(block.body.trim_end(), "line 1: -1 +1; line 3: -1 +1");
    assert_eq!(block.get("replaced"), "2");
    std::fs::write(&path, "one\n".repeat(300)).unwrap();
    let block = ok(&sandbox, &tag(" all=\"true\""), "nagent-edit-result");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n".repeat(300));
    assert_eq!(block.get("replaced"), "300");
}

#[test]
fn several_edit_blocks_apply_all_or_none() {
    let sandbox = Sandbox::new();
    let path = sandbox.tmp().join("a.txt");
    std::fs::write(&path, "one\ntwo\n").unwrap();
    let blocks = "<<<<<<< SEARCH\none\n=======\n1\n>>>>>>> REPLACE\n<<<<<<< SEARCH\nthree\n=======\n3\n>>>>>>> REPLACE";
    error(
        &sandbox,
        &format!("<nagent-edit path=\"{}\">\n{blocks}\n</nagent-edit>", path.display()),
        "nagent-edit-result",
    );
    assert_eq!(std::fs::read_to_string(path).unwrap(), "one\ntwo\n");
}

#[test]
fn edit_outside_the_boundary_is_refused() {
    let sandbox = Sandbox::outside_temp().file("a.txt", "one\n");
    let blocks = "<<<<<<< SEARCH\none\n=======\ntwo\n>>>>>>> REPLACE";
    error(
        &sandbox,
        &format!("<nagent-edit path=\"a.txt\">\n{blocks}\n</nagent-edit>"),
        "nagent-edit-result",
    );
    assert_eq!(sandbox.read("a.txt"), "one\n");
}

// nagent-list, nagent-glob, nagent-grep

fn tree() -> Sandbox {
    Sandbox::new()
        .git()
        .file(".gitignore", "built/\n")
        .file("src/main.rs", "fn main() {}\n")
        .file("src/lib.rs", "// needle\n")
        .file("built/out.rs", "// needle\n")
        .file("notes.md", "no such thing\n")
}

#[test]
fn list_shows_a_folder_without_what_git_ignores() {
    let sandbox = tree();
    let block = ok(&sandbox, "<nagent-list path=\".\"/>", "nagent-list-result");
    assert!(
        block.body.contains("src")
            && block.body.contains("notes.md")
            && !block.body.contains("built/out.rs"),
        "{block:?}"
    );
    error(&sandbox, "<nagent-list path=\"missing\"/>", "nagent-list-result");
}

#[test]
fn glob_finds_files_by_pattern() {
    let sandbox = tree();
    let block = ok(&sandbox, "<nagent-glob pattern=\"**/*.rs\"/>", "nagent-glob-result");
    assert!(block.body.contains("src/main.rs") && block.body.contains("src/lib.rs"), "{block:?}");
    assert!(!block.body.contains("built"), "{block:?}");
    let block = ok(&sandbox, "<nagent-glob pattern=\"*.md\" path=\".\"/>", "nagent-glob-result");
    assert!(block.body.contains("notes.md") && !block.body.contains("main.rs"), "{block:?}");
    error(&sandbox, "<nagent-glob pattern=\"[\"/>", "nagent-glob-result");
}

#[test]
fn grep_finds_lines_with_their_numbers() {
    let sandbox = tree();
    let block = ok(&sandbox, "<nagent-grep pattern=\"need+le\"/>", "nagent-grep-result");
    assert!(
        block.body.contains("src/lib.rs")
            && block.body.contains('1')
            && !block.body.contains("built"),
        "{block:?}"
    );
    let block = ok(
        &sandbox,
        "<nagent-grep pattern=\"main\" path=\"src\" glob=\"*.rs\"/>",
        "nagent-grep-result",
    );
    assert!(block.body.contains("main.rs"), "{block:?}");
    error(&sandbox, "<nagent-grep pattern=\"(\"/>", "nagent-grep-result");
}

#[test]
fn grep_shows_lines_around_ignores_case_and_counts_further_matches_in_a_long_line() {
    let long = format!("{0}needle{0}needle{0}needle", "x".repeat(400));
    let sandbox = Sandbox::new().file("a.txt", "1\n2\nNeedle\n4\n5\n").file("b.txt", long);
    let grep = |more: &str| {
        let tag = format!("<nagent-grep pattern=\"needle\"{more}/>");
        ok(&sandbox, &tag, "nagent-grep-result").body
    };
    let around = grep(" path=\"a.txt\" context=\"1\" ignore_case=\"true\"");
    assert_eq!(around.trim_end(), "2-2\n3:Needle\n4-4");
    let plain = grep("");
    assert!(plain.starts_with("b.txt\n1:…") && !plain.contains("a.txt"), "{plain}");
    assert!(plain.trim_end().ends_with("… (2 more in this line)"), "{plain}");
}

#[test]
fn looking_around_finds_nothing_and_says_so() {
    let sandbox = tree();
    let block = ok(&sandbox, "<nagent-grep pattern=\"not in any file\"/>", "nagent-grep-result");
    assert!(!block.body.contains("src/"), "{block:?}");
}

// nagent-next

#[test]
fn next_goes_on_with_its_prompt_after_all_results() {
    let sandbox =
        Sandbox::new().reply(format!("<nagent-next>part two</nagent-next>{}", shell("echo one")));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["task"]).answers("done");
    assert!(sandbox.requests()[1].last().contains("part two"));
}

// nagent-conversation

#[test]
fn conversation_gives_a_childs_answer_and_nothing_else_of_it() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|request| {
        let user = request.user();
        if user.contains("result") && user.contains("the child's answer") {
            answer("done").into()
        } else if user.contains("look into it") {
            answer("the child's answer").into()
        } else {
            "<nagent-conversation>look into it</nagent-conversation>".into()
        }
    });
    let document = sandbox.run(&["--json", "task"]).assert_exit(0).json();
    assert_eq!(document["responses"], serde_json::json!(["done"]));
    let block = sandbox.block("nagent-conversation-result");
    assert_eq!((block.get("status"), block.get("exit_code")), ("ok", "0"), "{block:?}");
    assert!(block.body.contains("the child's answer"));
    assert!(
        sandbox.root().join("conversations").join(block.get("conversation")).is_file(),
        "{block:?}"
    );
    assert_eq!(document["recursive_output_tokens"], 30, "a child's usage counts in its parent's");
}

#[test]
fn a_child_that_fails_is_an_error_result() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|request| {
        let user = request.user();
        if user.contains("nagent-conversation-result") {
            answer("done").into()
        } else if user.contains("look into it") {
            crate::answers::Answer::error(400, "invalid_request_error")
        } else {
            "<nagent-conversation>look into it</nagent-conversation>".into()
        }
    });
    sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
    let block = sandbox.block("nagent-conversation-result");
    assert_eq!((block.get("status"), block.get("exit_code")), ("error", "3"), "{block:?}");
}

#[test]
fn a_child_of_a_file_may_write_that_file() {
    let sandbox = Sandbox::outside_temp().file("src.txt", "old\n").file("other.txt", "old\n");
    sandbox.llm.choose(|request| {
        let user = request.user();
        if user.contains("nagent-conversation-result") {
            answer("done").into()
        } else if user.contains("nagent-write-result") {
            answer("written").into()
        } else if user.contains("make it new") {
            let other = "<nagent-write path=\"other.txt\">new\n</nagent-write>";
            (crate::file_edit::edit("src.txt", "old", "new") + other).into()
        } else {
            "<nagent-conversation file=\"src.txt\">make it new</nagent-conversation>".into()
        }
    });
    sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
    assert_eq!(sandbox.read("src.txt"), "new\n");
    assert_eq!(sandbox.read("other.txt"), "old\n", "its own file and no other");
    let block = sandbox.block("nagent-conversation-result");
    assert!(block.body.contains("\n@@ -1 +1 @@\n-old\n+new"), "what it changed: {block:?}");
}

#[test]
fn file_edit_runs_a_files_own_conversation() {
    let sandbox = Sandbox::outside_temp().file("src.txt", "old\n");
    sandbox.llm.push("<nagent-edit path=\"src.txt\">\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n</nagent-edit>");
    sandbox.llm.push(answer("first"));
    sandbox.run(&["--file-edit", "src.txt", "make it new"]).assert_exit(0).stdout_is("first\n");
    assert_eq!(sandbox.read("src.txt"), "new\n");
    sandbox.llm.push(answer("second"));
    sandbox.run(&["--file-edit", "src.txt", "and now?"]).assert_exit(0).stdout_is("second\n");
    assert!(sandbox.requests()[2].user().contains("make it new"), "one conversation per file");
}

#[test]
fn a_reply_is_in_the_conversation_before_anything_of_it_runs() {
    let sandbox = Sandbox::new();
    sandbox.llm.push(shell("grep -c 'a word of this reply' ~/.nagent/conversations/c"));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["--conversation", "c", "task"]).assert_exit(0).stdout_is("done\n");
    assert_eq!(sandbox.block("nagent-shell-result").body.trim(), "1");
}

/// One mistake costs its action, not the reply.
#[test]
fn an_action_that_is_wrong_in_itself_leaves_the_others() {
    let tags = [
        "<nagent-shell></nagent-shell>",
        "<nagent-shell keep=\"a\" timeout=\"5\">true</nagent-shell>",
        "<nagent-shell keep=\"\">true</nagent-shell>",
        "<nagent-conversation file=\"\">do</nagent-conversation>",
        "<nagent-conversation name=\"\">do</nagent-conversation>",
    ];
    let sandbox = Sandbox::new().reply(tags.concat() + &shell("echo ran")).reply(answer("done"));
    sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
    let mut results = sandbox.blocks_of("nagent-shell-result");
    assert_eq!(results.pop().unwrap().body.trim_end(), "ran");
    results.extend(sandbox.blocks_of("nagent-conversation-result"));
    let words = ["empty body", "both keep and timeout", "keep of", "file of", "name of"];
    assert_eq!(results.len(), words.len());
    for (block, words) in results.iter().zip(words) {
        assert!(block.get("status") == "error" && block.body.contains(words), "{block:?}");
    }
}
