//! Small things of every day: several files where one is meant, a cost that is said before it is paid, sizes with a unit, texts that say
//! what to type instead.

use crate::each::{each, results};
use crate::file_edit::{edit, write};
use crate::js::JS;
use crate::repl::{prompt, screen, start, without_key};
use crate::sandbox::{Sandbox, answer, shell};

const SPLIT: &str = env!("CARGO_BIN_EXE_nagent-file-split");
const DECIDE: &str = env!("CARGO_BIN_EXE_nagent-decide");

#[test]
fn several_files_for_one_are_refused_before_anything_is_paid() {
    let sandbox =
        Sandbox::outside_temp().file("a.rs", "1\n").file("b.rs", "2\n").file("c d", "3\n");
    for words in [
        &["a.rs", "b.rs", "Add a header"][..],
        &["a.rs", "b.rs"],
        &["a.rs", "c d", "more"],
        &["Add a header", "a.rs", "b.rs"],
    ] {
        let run = sandbox.file_edit(words).run().assert_exit(2).no_stdout();
        run.stderr_has(&["nagent-each --own PROMPT FILE...", "is a file, too"]);
    }
    let swapped = sandbox.file_edit(&["Add a header", "a.rs"]).run().assert_exit(2);
    swapped.stderr_has(&["nagent-file-edit a.rs 'Add a header'"]);
    assert!(sandbox.requests().is_empty() && !sandbox.root().join("conversations").exists());
    // Words and a folder are no files.
    std::fs::create_dir(sandbox.work().join("test")).unwrap();
    sandbox.llm.push(answer("ok"));
    sandbox.file_edit(&["a.rs", "test", "it", "with", "b.rs"]).run().answers("ok");
}

#[test]
fn a_name_of_a_folder_leaves_nothing_in_the_index() {
    let sandbox = Sandbox::outside_temp();
    for name in ["src/", "src/.", "src//"] {
        let run = sandbox.file_edit(&[name, "x"]).run().assert_exit(1).no_stdout();
        run.stderr_has(&["is the name of a folder; name a file"]);
    }
    assert!(!sandbox.root().join("conversations/file-index.json").exists());
    let run = sandbox.file_edit(&["a.txt", "--list"]).run().assert_exit(2).no_stdout();
    run.stderr_has(&["--list and --force go with --undo: --undo --list"]);
}

#[test]
fn summaries_are_announced_with_their_cost() {
    let sandbox = Sandbox::outside_temp().file("long.md", "word ".repeat(8000));
    sandbox.llm.push("a long file");
    sandbox.llm.push(answer("ok"));
    let note = "note: summarizing 1 part of the file and its history first, about 10.0k tokens; --no-summaries omits it";
    let run = sandbox.file_edit(&["--progress", "long.md", "look"]).run().assert_exit(0);
    assert!(run.stderr.contains(note), "{}", run.stderr);
    // What is cached costs nothing, and nothing is said of it.
    sandbox.llm.push(answer("ok"));
    let words = ["--progress", "long.md", "--clear", "look"];
    let again = sandbox.file_edit(&words).run().assert_exit(0).stderr;
    assert!(!again.contains("summarizing"), "{again}");
    let clear = Sandbox::outside_temp().file("long.md", "word ".repeat(8000));
    clear.llm.push("a long file");
    clear.llm.push(answer("ok"));
    clear.file_edit(&["long.md", "look"]).run().assert_exit(0).no_stderr();
    clear.file_edit(&["long.md", "--clear"]).run().assert_exit(0);
    std::fs::remove_dir_all(clear.root().join("summaries")).unwrap();
    clear.llm.push("a long file");
    clear.llm.push(answer("ok"));
    let lines = clear.file_edit(&["--lines", "long.md", "look"]).run().stdout;
    assert!(lines.contains("{\"event\":\"note\",\"text\":\"summarizing 1 part"), "{lines}");
}

#[test]
fn a_script_is_a_file_and_sizes_have_units() {
    let sandbox = Sandbox::new().file("r.js", "process.args.join('-')").file("big.txt", "a\n");
    let js = |words: &[&str]| sandbox.program(JS, words).without_terminal().run();
    js(&["r.js", "a", "--json", "-e"]).assert_exit(0).stdout_is("a---json--e");
    js(&["--timeout", "5", "r.js", "b"]).assert_exit(0).stdout_is("b");
    js(&["-e", "process.args.join()", "r.js", "b"]).assert_exit(0).stdout_is("r.js,b");
    js(&["none.js"]).assert_exit(1).stderr_has(&["none.js"]);
    for size in ["20000000", "64M", "65536K", "1g"] {
        js(&["--memory", size, "-e", "1"]).assert_exit(0).stdout_is("1");
    }
    for size in ["1k", "12q", "-1", "", "99999999999G", "M"] {
        let size = format!("--memory={size}");
        js(&[&size, "-e", "1"]).assert_exit(2).stderr_has(&["256M or 1G", "at least 1048576"]);
    }
    let split = |words: &[&str]| sandbox.program(SPLIT, words).run();
    split(&["big.txt", "--target-bytes", "4K", "--output", "parts"]).assert_exit(0);
    split(&["big.txt", "--target-bytes", "3"]).assert_exit(2).stderr_has(&["at least 16"]);
    let none = split(&["--refresh", "part"]).assert_exit(1).no_stdout();
    none.stderr_has(&["index not found: part", "parts"]);
    let decide = |n: &str| sandbox.program(DECIDE, &["--attempts", n, "q", "a", "b"]).run();
    decide("0").assert_exit(2).stderr_has(&["--attempts <N>': give 1 to 20"]);
    decide("x").assert_exit(2).stderr_has(&["give a whole number"]);
    let text = sandbox.llm_text(&["What is 2+2?"]).run().assert_exit(2).no_stdout();
    text.stderr_has(&["echo 'What is 2+2?' | nagent-llm-text -"]);
}

#[test]
fn each_refuses_a_place_that_nothing_fills_and_ends_with_a_line() {
    let sandbox = Sandbox::new().file("a.txt", "x");
    let run = each(&sandbox, &["Sum {x}", "a.txt"]).run().assert_exit(2).no_stdout();
    run.stderr_has(&["it has no key \"x\", as objects of --jsonl may; {{x}} in the prompt"]);
    let run = each(&sandbox, &["--lines", "Sum {x}"]).stdin("one\n").run().assert_exit(2);
    run.stderr_has(&["{{x}}"]);
    assert!(sandbox.requests().is_empty());
    sandbox.llm.choose(|request| answer(&request.last().contains("{x}").to_string()).into());
    let run = each(&sandbox, &["--lines", "Sum {{x}}"]).stdin("one\n").run().assert_exit(0);
    assert_eq!(results(&run)[0]["response"], "true");
    run.no_stderr();
    let shown = each(&sandbox, &["--lines", "--progress", "Sum"]).stdin("one\ntwo\n").run();
    let last = shown.assert_exit(0).stderr.lines().last().unwrap().to_owned();
    assert!(last.starts_with("[2 of 2 inputs, ") && last.ends_with(" s]"), "{last}");
}

#[test]
fn decide_says_what_the_reply_was() {
    let sandbox = Sandbox::new().replies(["maybe \u{1b}[2J", "perhaps", "dunno"]);
    let run = sandbox.program(DECIDE, &["spam?", "yes", "no"]).stdin("mail").run().assert_exit(4);
    for part in
        ["; the reply: maybe \\u{1b}[2J\n", "; the reply: perhaps\n", "; the reply: dunno\n"]
    {
        assert!(run.stderr.contains(part), "{part:?} in {}", run.stderr);
    }
    assert!(run.stderr.trim_end().ends_with("; the reply: dunno"), "{}", run.stderr);
}

#[test]
fn a_model_with_few_tags_is_advised_to_use_those() {
    let reply = [
        "<nagent-read path=\".\"/>".to_owned(),
        "<nagent-read path=\"big.txt\"/>".to_owned(),
        write("/etc/none", "x"),
        write("seen.txt", "x"),
        edit("new.txt", "a", "b"),
    ]
    .concat();
    let bodies = |tags: Option<&str>| {
        let big = "line\n".repeat(60_000);
        let sandbox = Sandbox::outside_temp().file("big.txt", big).file("seen.txt", "old");
        let sandbox = sandbox.reply(reply.as_str()).reply(answer("done"));
        let tags = tags.map(|tags| ["--tags", tags]);
        let words = tags.iter().flatten().copied().chain(["-w", "go"]);
        sandbox.run(&words.collect::<Vec<_>>()).assert_exit(0);
        let results = sandbox.blocks().into_iter().filter(|block| block.name.ends_with("-result"));
        results.map(|block| block.body).collect::<Vec<_>>()
    };
    let (all, few) = (bodies(None).join("\n"), bodies(Some("read,write,edit")).join("\n"));
    for tag in ["nagent-list", "nagent-file-read", "nagent-conversation"] {
        assert!(all.contains(tag) && !few.contains(tag), "{tag}: {few}");
    }
    for part in ["is a folder", "offset=\"1\"", "with <nagent-edit>", "it with <nagent-write>"] {
        assert!(few.contains(part), "{part}: {few}");
    }
    assert!(!bodies(Some("read,write")).join("\n").contains("nagent-edit>"));
}

#[test]
fn looks_show_a_person_no_advice_for_the_model() {
    let reply = ["<nagent-read path=\".\"/>".to_owned(), shell(""), write("/etc/none/x", "x")];
    for look in ["pair", "nano", "plain"] {
        let sandbox = Sandbox::outside_temp().reply(reply.concat()).reply(answer("done"));
        let sign = if look == "pair" {
            "You: "
        } else if look == "nano" {
            "❯ "
        } else {
            "» "
        };
        let mut pty = start(&sandbox, &["--look", look], sign);
        prompt(&mut pty, sign, "go");
        let lines = screen(&pty).join("\n");
        assert!(lines.contains("has an empty body"), "{lines}");
        // This look cuts the line, which has a path of any length.
        assert!(look == "nano" || lines.contains("is a folder"), "{lines}");
        for part in ["nagent-list", "timeout=", "nagent-conversation", "+1 lines"] {
            assert!(!lines.contains(part), "{look}: {part} in {lines}");
        }
    }
}

#[test]
fn a_key_is_called_by_the_name_that_the_user_gave_it() {
    let refused = |sandbox: &Sandbox, exported: &str| {
        sandbox.llm.push(crate::answers::Answer::error(401, "authentication_error"));
        let call = sandbox.repl(&["--look", "pair"]).stdin("x\n");
        call.env("TS_AGENT_API_KEY", exported).run().assert_exit(3).stderr
    };
    let sandbox = without_key().file(".env", "TS_AGENT_API_KEY=sk-ant-1\n");
    let said = refused(&sandbox, "");
    assert!(said.contains("came from TS_AGENT_API_KEY in .env)"), "{said}");
    // An exported one is used before a file is looked at.
    let said = refused(&without_key(), "sk-ant-2");
    assert!(said.contains("came from TS_AGENT_API_KEY)"), "{said}");
    let sandbox = without_key().file(".env", "TS_AGENT_API_KEY=sk-ant-1\n").reply(answer("hi"));
    let call = sandbox.repl(&["--look", "pair"]).stdin("x\n").env("TS_AGENT_API_KEY", "sk-ant-2");
    call.run().assert_exit(0).stdout_is("hi\n");
    assert_eq!(sandbox.requests()[0].header("x-api-key"), Some("sk-ant-2"));
}

#[test]
fn demos_share_no_files() {
    let sandbox = Sandbox::new();
    let top = env!("CARGO_MANIFEST_DIR");
    let play = || {
        let demo = format!("{top}/demo/run");
        let run = sandbox.program(&demo, &[env!("CARGO_BIN_EXE_nagent")]).run().assert_exit(0);
        // What is recorded fits what happens.
        assert!(
            !run.stderr.contains("replay") && run.stdout.contains("thursday"),
            "{}",
            run.stderr
        );
        let folder = run.stdout.split("/tmp/nagent-demo.").nth(1).unwrap();
        format!("/tmp/nagent-demo.{}", &folder[..6])
    };
    let folders = [play(), play()];
    assert_ne!(folders[0], folders[1]);
    for folder in folders {
        assert!(!std::path::Path::new(&folder).join("demo.txt").exists());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
