//! The command line: short forms, files without a flag, streams in place of files, words that are not sent, completions,
//! `--code`.

use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use crate::conversations::{CONVERSATIONS, path};
use crate::sandbox::{LLM_TEXT, LLM_UPLOAD, NAGENT, Sandbox, answer};
use crate::split_by_hand::PATCH;
use crate::summarize::SUMMARIZE;

const SPLIT: &str = env!("CARGO_BIN_EXE_nagent-file-split");

const WRITE: &str = "<nagent-write path=\"a.txt\">new\n</nagent-write>";

#[test]
fn short_forms_mean_what_the_long_ones_do() {
    let sandbox =
        Sandbox::new().file("a.txt", "file-to-read\n").replies([answer("1"), answer("2")]);
    sandbox.run(&["-m", "other", "-c", "here", "-f", "a.txt", "task"]).answers("1");
    let request = &sandbox.requests()[0];
    assert!(request.text().contains("file-to-read"));
    assert_eq!(request.json()["model"], "other");
    assert!(path(&sandbox, "here").exists());
    sandbox.run(&["-qc", "here", "-m=third", "more"]).answers("2");
    assert_eq!(sandbox.requests()[1].json()["model"], "third");
}

#[test]
fn w_allows_this_folder_and_no_other() {
    let allowed = |args: &[&str], file: &str| {
        let sandbox =
            Sandbox::outside_temp().reply(WRITE.replace("a.txt", file)).reply(answer("done"));
        std::fs::create_dir(sandbox.work().join("sub")).unwrap();
        sandbox.run(args).assert_exit(0);
        let prompt = sandbox.block("user-prompt").body;
        (sandbox.work().join(file).exists(), prompt)
    };
    let is = |done: bool, prompt: &str| (done, prompt.to_owned());
    assert_eq!(allowed(&["write it"], "a.txt"), is(false, "write it"));
    assert_eq!(allowed(&["-w", "write it"], "a.txt"), is(true, "write it"));
    assert_eq!(allowed(&["-nw", "write it"], "a.txt"), is(true, "write it"));
    assert_eq!(allowed(&["-w", ".", "write it"], "a.txt"), is(true, "write it"));
    assert_eq!(allowed(&["-w", "a word", "more"], "a.txt"), is(true, "a word more"));
    let sandbox = Sandbox::outside_temp().file("sub/x", "");
    sandbox.run(&["-w", "subb", "write it"]).assert_exit(2).stderr_has(&["--write subb"]);
    sandbox.run(&["-w", "sub", "write it"]).assert_exit(2).stderr_has(&["--write sub"]);
    assert!(sandbox.requests().is_empty());
    // In the config, relative to wherever it is called.
    let sandbox = Sandbox::outside_temp()
        .config_also(json!({"write": ["."]}))
        .reply(WRITE)
        .reply(answer("done"));
    sandbox.run(&["write it"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "new\n");
}

#[test]
fn tools_take_their_file_without_a_flag() {
    let sandbox = Sandbox::new().file("a.txt", "words\n").file("b.txt", "more\n");
    sandbox.llm.choose(|_| answer("done").into());
    let run = |program: &str, args: &[&str]| sandbox.program(program, args).run();
    run(LLM_TEXT, &["a.txt"]).assert_exit(0);
    run(LLM_UPLOAD, &["a.txt", "--prompt", "What?"]).assert_exit(0);
    run(SUMMARIZE, &["b.txt"]).assert_exit(0);
    run(SPLIT, &["a.txt", "--output", "parts"]).assert_exit(0);
    sandbox.write("parts/a-0001.txt", "words of mine\n");
    run(PATCH, &["parts"]).assert_exit(0);
    assert_eq!(sandbox.read("a.txt"), "words of mine\n");
    sandbox.write("parts/a-0001.txt", "words\n");
    run(PATCH, &["--index", "parts"]).assert_exit(0);
    run(PATCH, &["parts/index.json"]).assert_exit(0);
    sandbox.file_edit(&["b.txt", "--no-summaries", "look at it"]).run().assert_exit(0);
    assert_eq!(sandbox.block("user-prompt").body, "look at it");
    sandbox.file_edit(&["b.txt", "--history"]).run().assert_exit(1).stderr_has(&["no history"]);
    // The flag and the word are two files: one too many.
    for program in [LLM_TEXT, SUMMARIZE, SPLIT] {
        run(program, &["a.txt", "--file", "b.txt"]).assert_exit(2);
        run(program, &[]).assert_exit(2).stderr_has(&["FILE"]);
    }
    run(PATCH, &["parts", "--index", "parts"]).assert_exit(2);
    run(PATCH, &[]).assert_exit(2).stderr_has(&["DIR"]);
    sandbox.file_edit(&[]).run().assert_exit(2).stderr_has(&["nagent-file-edit FILE"]);
    sandbox.file_edit(&["b.txt", "--undo", "3"]).run().assert_exit(1);
}

#[test]
fn a_stream_can_take_the_place_of_a_file_that_is_read() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|_| answer("done").into());
    let seen = || sandbox.requests().last().unwrap().text();
    for (at, words) in [
        format!("{LLM_TEXT} - < in"),
        format!("{LLM_TEXT} /dev/stdin < in"),
        format!("cat in | {LLM_TEXT} /dev/stdin"),
        format!("{LLM_TEXT} <(cat in)"),
        format!("{LLM_UPLOAD} - --prompt What < in"),
        format!("cat in | {LLM_UPLOAD} /dev/stdin --prompt What"),
        format!("{SUMMARIZE} - < in"),
        format!("{SUMMARIZE} <(cat in)"),
        format!("{NAGENT} --config <(cat ~/.nagent/config.json; cat in >&2) -f in x"),
    ]
    .iter()
    .enumerate()
    {
        let mark = format!("marked-{at}");
        sandbox.write("in", format!("{mark}\n"));
        sandbox.program("bash", &["-c", words]).run().assert_exit(0);
        assert!(seen().contains(&mark), "{words}");
    }
    for (at, words) in [
        format!("{NAGENT} -f <(cat in) x"),
        format!("{NAGENT} -f - x < in"),
        format!("cat in | {NAGENT} -f /dev/stdin x"),
    ]
    .iter()
    .enumerate()
    {
        sandbox.write("in", format!("streamed-{at}\n"));
        sandbox.program("bash", &["-c", words]).run().assert_exit(0).no_stderr();
        let block = sandbox.blocks_of("nagent-read-result").pop().unwrap();
        assert_eq!((block.get("status"), block.body.trim()), ("ok", &*format!("streamed-{at}")));
    }
    sandbox.write("in", "RULE-7\n");
    let line = format!("{NAGENT} -n --context <(cat in) x");
    sandbox.program("bash", &["-c", &line]).run().assert_exit(2).stderr_has(&["FIFO"]);
    // A long one is stored whole, what is not UTF-8 is reported, and stdin is read once.
    let long = sandbox.cmd(&["-f", "-", "x"]).stdin("line\n".repeat(20_000)).run();
    long.assert_exit(0).no_stderr();
    let block =
        sandbox.blocks_of("nagent-read-result").into_iter().find(|it| !it.get("output").is_empty());
    assert_eq!(std::fs::read_to_string(block.unwrap().get("output")).unwrap().len(), 100_000);
    let latin = sandbox.cmd(&["-f", "-", "x"]).stdin(b"\xfc".to_vec()).run();
    latin.assert_exit(0).stderr_has(&["--read - is not valid UTF-8"]);
    let twice = sandbox.cmd(&["-f", "-", "x", "-"]).stdin("x").run().assert_exit(2);
    twice.stderr_has(&["stdin can be read once"]);
    sandbox.program(LLM_TEXT, &["-"]).run().assert_exit(1).stderr_has(&["empty"]);
    sandbox
        .program(LLM_TEXT, &["/dev/zero"])
        .run()
        .assert_exit(1)
        .stderr_has(&["not a regular file"]);
    // No settings at all.
    let run = sandbox.cmd(&["--config", "/dev/null", "--status", "--json"]).run().assert_exit(0);
    assert_eq!(run.json()["settings"]["provider"]["from"], "OPENAI_API_KEY");
}

#[test]
fn names_of_any_bytes_can_be_read_and_wrong_words_are_named() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let name = std::ffi::OsStr::from_bytes(b"bad\xff.txt");
    std::fs::write(sandbox.work().join(name), "bytes-in-the-name\n").unwrap();
    let line = format!("{NAGENT} --read $'bad\\xff.txt' x");
    sandbox.program("bash", &["-c", &line]).run().answers("done");
    assert!(sandbox.requests()[0].text().contains("bytes-in-the-name"));
    let run = sandbox.program(LLM_TEXT, &["--file", "-dash.txt"]).run().assert_exit(2);
    run.stderr_has(&["write --file=-dash.txt"]);
    let words = [
        (CONVERSATIONS, &["list", "bad"][..], "unexpected argument bad"),
        (
            CONVERSATIONS,
            &["prune", "--older", "-1d"],
            "there is no -1; if -1d is the value of --older, write --older=-1d",
        ),
        (CONVERSATIONS, &["show", "--turn", "x"], "give a whole number"),
        (NAGENT, &["--max-turns", "-1", "x"], "--max-turns takes no number below zero: -1"),
        (NAGENT, &["x", "-o"], "'--output FILE' but"),
        (NAGENT, &["--pid", "abc", "x"], "'--pid <ID>': give a whole number"),
        (NAGENT, &["- fix it"], "there is no -; words that begin with - come after --: "),
        (NAGENT, &["-v", "- fix it"], "nagent -- \"- fix it\""),
        (NAGENT, &["-wscr", "x"], "there is no -s; words that begin with - come after --: "),
        (NAGENT, &["--undo", "--status"], "--undo cannot be combined with another command"),
        (NAGENT, &["--doctor", "--undo"], "--undo cannot be combined with another command"),
        (NAGENT, &["--json-schema", "a.json", "x"], "--schema FILE"),
        (NAGENT, &["--prompt", "x"], "unexpected argument --prompt (--help shows all)"),
        (NAGENT, &["exec", "x"], "nagent \"x\""),
        (LLM_TEXT, &[], "FILE (or --file FILE)"),
    ];
    for (program, args, part) in words {
        let run = sandbox.program(program, args).run().assert_exit(2);
        assert!(run.stderr.contains(part) && !run.stderr.contains("./bad"), "{}", run.stderr);
    }
    sandbox.run(&["--progres", "x"]).assert_exit(2).stderr_has(&["'--progress'"]);
    let sandbox = Sandbox::new().reply(answer("x"));
    let run = sandbox.program("sh", &["-c", &format!("{NAGENT} -c c hi > /dev/full")]).run();
    run.assert_exit(1).stderr_has(&["nagent-conversations show c --last 1 prints the answer"]);
    let line = format!("{LLM_TEXT} a.txt > /dev/full");
    let sandbox = Sandbox::new().file("a.txt", "x").reply("answer");
    let run = sandbox.program("sh", &["-c", &line]).run().assert_exit(1);
    run.stderr_has(&["nagent-llm-text: cannot write to stdout"]);
}

#[test]
fn a_lone_word_that_is_a_command_elsewhere_is_not_sent() {
    let sandbox = Sandbox::new().reply(answer("yes"));
    for (word, meant) in [
        ("help", "nagent --help"),
        ("Undo", "nagent --undo"),
        ("status", "nagent --status"),
        ("init", "export OPENAI_API_KEY"),
        ("login", "--list-providers"),
        ("cost", "nagent-conversations usage"),
        ("compact", "nagent-conversations compact"),
        ("/model gpt-5.5", "nagent --model ID"),
        ("!", "nagent-repl"),
    ] {
        let run = sandbox.run(&[word]).assert_exit(2).no_stdout().stderr_has(&[word, meant]);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
    assert!(sandbox.requests().is_empty());
    sandbox.run(&["help", "me"]).answers("yes");
}

#[test]
fn code_prints_the_first_code_block_alone_and_the_model_knows() {
    let reply = answer("Here:\n\n```json\n{\"a\": 1}\n```\n\nThat is all.");
    let sandbox = Sandbox::new().reply(reply.as_str()).reply(reply.as_str()).reply(answer("none"));
    let run = sandbox.run(&["--code", "convert it"]).assert_exit(0).no_stderr();
    assert_eq!(run.stdout, "{\"a\": 1}\n");
    assert!(sandbox.requests()[0].user().contains("single fenced code block"));
    let run = sandbox.run(&["--code", "--json", "again"]).assert_exit(0).json();
    assert_eq!(run["code"], "{\"a\": 1}\n");
    assert!(run["responses"][0].as_str().unwrap().contains("That is all."));
    let run = sandbox.run(&["--code", "no block"]).assert_exit(0).stderr_has(&["no code block"]);
    assert_eq!(run.stdout, "none");
}

/// What the shell gets for the last word of a command line.
pub(crate) fn complete(sandbox: &Sandbox, program: &str, words: &[&str]) -> Vec<String> {
    let words = [&["--", program], words].concat();
    let command = sandbox.program(program, &words).env("NAGENT_COMPLETE", "fish");
    let out = command.run().assert_exit(0).stdout;
    out.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn shells_complete_flags_conversations_and_models() {
    let sandbox = Sandbox::new().reply(answer("x")).reply(answer("x"));
    sandbox.run(&["-c", "about-logs", "x"]).assert_exit(0);
    assert_eq!(complete(&sandbox, NAGENT, &["--conti"]), ["--continue"]);
    assert_eq!(complete(&sandbox, NAGENT, &["--conversation", "ab"]), ["about-logs"]);
    assert!(complete(&sandbox, NAGENT, &["-m", "gpt-5.5"]).contains(&"gpt-5.5".to_owned()));
    assert_eq!(complete(&sandbox, NAGENT, &["--provider", "anth"]), ["anthropic"]);
    assert_eq!(complete(&sandbox, NAGENT, &["--profile", "openr"]), ["openrouter"]);
    assert_eq!(complete(&sandbox, NAGENT, &["--sandbox", "w"]), ["workspace"]);
    assert_eq!(complete(&sandbox, NAGENT, &["--approve", "sh"]), ["shell"]);
    assert_eq!(complete(&sandbox, NAGENT, &["--reasoning", "hi"]), ["high"]);
    assert_eq!(complete(&sandbox, NAGENT, &["--tags", "gl"]), ["glob"]);
    assert_eq!(complete(&sandbox, env!("CARGO_BIN_EXE_nagent-repl"), &["--look", "na"]), ["nano"]);
    sandbox.write("weekday.md", "#!/usr/bin/env think\nSay the day.\n");
    let thought = env!("CARGO_BIN_EXE_nagent-thought");
    sandbox.program(thought, &["install", "weekday.md"]).run().assert_exit(0);
    assert_eq!(complete(&sandbox, thought, &["info", "week"]), ["weekday"]);
    let think = env!("CARGO_BIN_EXE_nagent-think");
    assert_eq!(complete(&sandbox, think, &["week"]), ["weekday", "weekday.md"]);
    sandbox.write("a-file.txt", "");
    for words in [&["a-fi"] as &[&str], &["--file", "a-fi"], &["-f", "a-fi"]] {
        assert_eq!(complete(&sandbox, crate::file_edit::FILE_EDIT, words), ["a-file.txt"]);
    }
    assert_eq!(complete(&sandbox, CONVERSATIONS, &["rem"]), ["remove"]);
    assert_eq!(complete(&sandbox, CONVERSATIONS, &["show", "ab"]), ["about-logs"]);
    // Bash has no place for a description, so the value shows the prompt until it is the only one.
    sandbox.run(&["-c", "about-names", "y"]).assert_exit(0);
    for (begun, kind, offered) in [
        ("about", "63", "about-names  (y)\u{b}about-logs  (x)"),
        ("about", "37", "about-names\u{b}about-logs"),
        ("about-n", "9", "about-names"),
    ] {
        let command = sandbox.program(NAGENT, &["--", "nagent", "-c", begun]);
        let command = command.env("NAGENT_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "2");
        let command = command.env("_CLAP_IFS", "\u{b}").env("_CLAP_COMPLETE_COMP_TYPE", kind);
        assert_eq!(command.run().assert_exit(0).stdout, offered);
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = sandbox.program(NAGENT, &[] as &[&str]).env("NAGENT_COMPLETE", shell).run();
        let script = script.assert_exit(0).stdout;
        assert!(
            script.contains("nagent") && !script.contains(env!("CARGO_MANIFEST_DIR")),
            "{script}"
        );
    }
}
