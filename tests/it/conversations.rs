//! `nagent-conversations`: what it lists, shows, exports, removes and says of a file; `--new` and `--continue`.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::process_under_test::Run;
use crate::sandbox::{NAGENT, Sandbox, answer, has_bwrap, shell, wait_until};
use crate::terminal::on_terminal;

pub(crate) const CONVERSATIONS: &str = env!("CARGO_BIN_EXE_nagent-conversations");

/// Runs a verb.
#[must_use]
pub(crate) fn run(sandbox: &Sandbox, args: &[&str]) -> Run {
    sandbox.program(CONVERSATIONS, args).run()
}

pub(crate) fn path(sandbox: &Sandbox, name: &str) -> PathBuf {
    sandbox.root().join("conversations").join(name)
}

/// Three conversations: one with a command, one about something else in another folder, one saved copy of the first.
fn three() -> Sandbox {
    let sandbox = Sandbox::new()
        .config_also(json!({"prices": {"test-model": {"input": 1, "output": 10}}}))
        .reply(shell("echo hidden-in-a-result"))
        .reply(answer("It is db2."))
        .reply(answer("Fine weather."));
    sandbox.run(&["-c", "log", "Which host\nis slow?"]).assert_exit(0);
    std::fs::create_dir(sandbox.work().join("sub")).unwrap();
    let other = sandbox.cmd(&["-c", "weather", "How is it?"]).folder(sandbox.work().join("sub"));
    other.run().assert_exit(0);
    sandbox.run(&["-c", "log", "--save-conversation", "kept"]).assert_exit(0);
    sandbox
}

fn names(list: &Value) -> Vec<&str> {
    let all = list["conversations"].as_array().unwrap();
    all.iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[test]
fn list_has_all_conversations_with_what_they_come_to() {
    let sandbox = three();
    let list = run(&sandbox, &["list", "--json"]).assert_exit(0).no_stderr().json();
    assert_eq!(names(&list), ["kept", "weather", "log"], "the newest first");
    let log = &list["conversations"][2];
    assert_eq!(log["path"], path(&sandbox, "log").to_str().unwrap());
    assert_eq!(
        (&log["kind"], &log["prompts"], &log["turns"]),
        (&json!("named"), &json!(1), &json!(2))
    );
    assert_eq!(log["first_words"], "Which host is slow?");
    assert_eq!(log["folder"], sandbox.work().to_str().unwrap());
    let tokens = (log["tokens_in"].as_f64().unwrap(), log["tokens_out"].as_f64().unwrap());
    assert!(tokens.0 > 0.0 && tokens.1 > 0.0, "{log}");
    let cost = (tokens.0 + 10.0 * tokens.1) / 1e6;
    assert!((log["cost"].as_f64().unwrap() - cost).abs() < 1e-5, "{log} {cost}");
    assert_eq!(list["conversations"][0]["kind"], "named");

    let lines = run(&sandbox, &["list"]).assert_exit(0).stdout;
    let fields: Vec<&str> = lines.lines().nth(2).unwrap().split('\t').collect();
    assert_eq!(
        (fields[0], fields[1], fields[4], fields[7]),
        ("log", "named", "1", "Which host is slow?")
    );
    // No verb means the list.
    assert_eq!(run(&sandbox, &[]).assert_exit(0).stdout, lines);
}

#[test]
fn a_named_child_of_a_shell_is_a_child_and_not_continued() {
    let sandbox = Sandbox::new().file("a.txt", "x\n");
    sandbox.llm.choose(|request| match request.user() {
        user if user.contains("-result") => answer("done").into(),
        user if user.contains("part") => answer("part done").into(),
        _ => "<nagent-conversation name=\"reader\">part</nagent-conversation>\
              <nagent-conversation file=\"a.txt\">part</nagent-conversation>"
            .into(),
    });
    sandbox.run(&["task"]).assert_exit(0);
    // That of a file, too, which the model has begun.
    let list = run(&sandbox, &["list", "--json"]).assert_exit(0).json();
    assert_eq!(list["conversations"].as_array().unwrap().len(), 1, "{list}");
    let list = run(&sandbox, &["list", "--all", "--json"]).assert_exit(0).json();
    let child = list["conversations"].as_array().unwrap().iter().find(|one| one["kind"] == "child");
    let child = child.unwrap()["name"].as_str().unwrap();
    assert!(child.starts_with("latest-") && child.ends_with(".reader"), "{list}");
    let later = std::time::SystemTime::now() + std::time::Duration::from_mins(1);
    let file = std::fs::File::options().append(true).open(path(&sandbox, child)).unwrap();
    file.set_modified(later).unwrap();
    let document = sandbox.run(&["--continue", "--json", "more and more"]).assert_exit(0).json();
    assert!(!document["conversation_path"].as_str().unwrap().ends_with(".reader"), "{document}");
    // It goes where its parent goes.
    let parent = child.strip_suffix(".reader").unwrap();
    let removed = run(&sandbox, &["remove", parent]).assert_exit(0).stdout;
    assert!(removed.contains("removed, with 1 conversation that it started;"), "{removed}");
    assert!(sandbox.root().join("trash").join(child).exists() && !path(&sandbox, child).exists());
}

#[test]
fn list_selects() {
    let sandbox = three();
    let select = |args: &[&str]| {
        let list = run(&sandbox, &[&["list", "--json"], args].concat()).assert_exit(0).json();
        names(&list).join(" ")
    };
    assert_eq!(select(&["--saved"]), "kept weather log");
    assert_eq!(select(&["--search", "HIDDEN-in"]), "kept log");
    assert_eq!(select(&["--search", "nagent-response>It is"]), "kept log");
    // The first context, the same in each, is not searched.
    assert_eq!(select(&["--search", "nagent-grep"]), "");
    assert_eq!(select(&["--here"]), "kept log");
}

#[test]
fn list_fits_a_terminal() {
    let sandbox = three();
    let shown = sandbox.program(CONVERSATIONS, &["list"]).on_terminal(100).run().stdout;
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    assert!(lines[0].starts_with("NAME     AGE") && lines[0].ends_with("WORDS"), "{shown}");
    assert!(lines[3].starts_with("kept ") && lines[3].ends_with("is slow?"), "{shown}");
    let shown = sandbox.program(CONVERSATIONS, &["list"]).on_terminal(40).run().stdout;
    assert!(shown.lines().all(|line| line.trim_end().chars().count() <= 40), "{shown}");
    assert!(shown.contains("Which h…"), "{shown}");
}

#[test]
fn a_damaged_conversation_and_a_folder_do_not_stop_a_list() {
    let sandbox = three();
    std::fs::write(
        path(&sandbox, "bad"),
        "<user-prompt>\na\n</user-promt>\n\n<user-prompt>\nb\n</user-prompt>\n",
    )
    .unwrap();
    std::fs::create_dir(path(&sandbox, "folder")).unwrap();
    let list = run(&sandbox, &["list", "--json"]).assert_exit(0).json();
    assert_eq!(names(&list), ["bad", "kept", "weather", "log"]);
    let damage = list["conversations"][0]["damaged"].as_str().unwrap();
    assert!(damage.contains("line 1") && damage.contains("line 3 has </user-promt>"), "{damage}");
}

#[test]
fn show_has_prompts_actions_and_answers_without_the_first_context() {
    let sandbox = three();
    let shown = run(&sandbox, &["show", "lo"]).assert_exit(0).stdout;
    for part in
        ["> Which host", "[turn 1]", "→ shell", "│ echo hidden-in-a-result", "exit 0", "It is db2."]
    {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(!shown.contains("nagent-grep"), "{shown}");
    let turn = run(&sandbox, &["show", "log", "--turn", "2"]).assert_exit(0).stdout;
    assert!(turn.contains("It is db2.") && !turn.contains("hidden-in"), "{turn}");
    run(&sandbox, &["show", "log", "--turn", "3"])
        .assert_exit(1)
        .stderr_has(&["has no turn 3", "the turns 1 to 2"]);
    let entries = run(&sandbox, &["show", "log", "--json"]).assert_exit(0).json();
    let kinds: Vec<_> = entries["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["prompt", "action", "result", "answer"]);
    // A reply that could not be read has a number too, as in the file.
    sandbox.llm.push("<nagent-resp");
    sandbox.llm.push(answer("At last."));
    sandbox.run(&["-c", "log", "Again?"]).assert_exit(0);
    let turn = run(&sandbox, &["show", "log", "--turn", "4"]).assert_exit(0).stdout;
    assert!(turn.contains("[turn 4]\nAt last.\n") && turn.contains("> Again?"), "{turn}");
    let text = std::fs::read_to_string(path(&sandbox, "log")).unwrap();
    let last = text.rfind("<nagent-turn-status").unwrap();
    assert!(text[last..].contains(" turn=\"4\""), "{text}");
}

#[test]
fn a_terminal_gets_show_in_the_pager_and_whole_where_that_fails() {
    let sandbox = three().env("PAGER", "sed s/^/paged:/");
    let shown = on_terminal(&sandbox, CONVERSATIONS, &["show", "log"]);
    assert!(shown.contains("paged:It is db2."), "{shown}");
    let failing = [
        ("false", "exited with 1"),
        ("no-such-pager -x", "exited with 127"),
        ("kill -9 $$", "exited with 137"),
    ];
    for (pager, why) in failing {
        let sandbox = three().env("PAGER", pager);
        let shown = on_terminal(&sandbox, CONVERSATIONS, &["show", "log"]);
        assert!(shown.contains(why) && shown.contains("\nIt is db2."), "{shown}");
    }
    // A pipe gets each line as it is.
    sandbox.llm.push(answer("ends in blanks  \nand a tab\t"));
    sandbox.run(&["-c", "odd", "x"]).assert_exit(0);
    let shown = run(&sandbox, &["show", "odd"]).assert_exit(0).stdout;
    assert!(shown.contains("blanks  \nand a tab\t\n"), "{shown:?}");
    // Long lines are broken at words.
    let narrow = sandbox.env("PAGER", "cat");
    let shown = narrow.program(CONVERSATIONS, &["show", "log"]).on_terminal(8).run().stdout;
    assert!(shown.contains("\nIt is\r\ndb2."), "{shown}");
    // Who leaves it early gets no second copy.
    let sandbox = three().env("PAGER", "head -c 1");
    assert!(!on_terminal(&sandbox, CONVERSATIONS, &["show", "log"]).contains("db2"));
    // A pipe gets no pager.
    assert!(run(&sandbox, &["show", "log"]).assert_exit(0).stdout.contains("\nIt is db2."));
}

#[test]
fn a_name_is_a_unique_prefix() {
    let sandbox = three();
    let found = run(&sandbox, &["path", "we"]).assert_exit(0).stdout;
    assert_eq!(found.trim_end(), path(&sandbox, "weather").to_str().unwrap());
    std::fs::copy(path(&sandbox, "log"), path(&sandbox, "log-2")).unwrap();
    assert!(
        run(&sandbox, &["path", "log"]).assert_exit(0).stdout.ends_with("/log\n"),
        "exactly this"
    );
    run(&sandbox, &["path", "lo"]).assert_exit(1).stderr_has(&["2 conversations", "log, log-2"]);
    // A child's name begins with its parent's.
    std::fs::copy(path(&sandbox, "log"), path(&sandbox, "weather.kid")).unwrap();
    assert!(run(&sandbox, &["path", "we"]).assert_exit(0).stdout.ends_with("/weather\n"));
    // And so does its archive's.
    let archive = "weather-17dd069c-27c6-41c9-8cb1-a7ca81f31936";
    std::fs::copy(path(&sandbox, "log"), path(&sandbox, archive)).unwrap();
    assert!(run(&sandbox, &["path", "we"]).assert_exit(0).stdout.ends_with("/weather\n"));
    run(&sandbox, &["path", "wheather"]).assert_exit(1).stderr_has(&["did you mean weather?"]);
    run(&sandbox, &["path", "../x"]).assert_exit(2).stderr_has(&["\"../x\""]);
    // Without a name, this shell's own.
    run(&sandbox, &["path"])
        .assert_exit(1)
        .stderr_has(&["this shell has no conversation yet", "list"]);
    let own = sandbox.program(CONVERSATIONS, &["path"]).env("NAGENT_CONVERSATION", "log").run();
    assert!(own.assert_exit(0).stdout.ends_with("/log\n"));
}

#[test]
fn remove_moves_into_the_trash() {
    let sandbox = three();
    let text = std::fs::read(path(&sandbox, "log")).unwrap();
    let removed = run(&sandbox, &["remove", "log", "kept", "--json"]).assert_exit(0).json();
    let place = sandbox.root().join("trash/log");
    assert_eq!(removed["removed"][0]["trash_path"], place.to_str().unwrap());
    assert_eq!(std::fs::read(&place).unwrap(), text);
    assert!(!path(&sandbox, "log").exists());
    assert_eq!(names(&sandbox.run(&["--list-conversations", "--json"]).json()), ["weather"]);
    // A second one of that name loses nothing.
    std::fs::write(path(&sandbox, "log"), "other").unwrap();
    run(&sandbox, &["remove", "log"]).assert_exit(0);
    assert_eq!(std::fs::read(&place).unwrap(), text);
    assert_eq!(std::fs::read_dir(sandbox.root().join("trash")).unwrap().count(), 3);
    // All names are looked up first.
    run(&sandbox, &["remove", "weather", "nosuch"]).assert_exit(1).stderr_has(&["\"nosuch\""]);
    assert!(path(&sandbox, "weather").exists());
    // The beginning of a name is enough, but an archive has to be named.
    sandbox.run(&["-c", "weather", "--clear"]).assert_exit(0);
    run(&sandbox, &["remove", "weather"]).assert_exit(0);
    run(&sandbox, &["remove", "weather"]).assert_exit(1).stderr_has(&["its archive is weather-"]);
}

#[test]
fn nothing_is_lost_where_the_trash_cannot_take_it() {
    let sandbox = three();
    std::fs::write(sandbox.root().join("trash"), "in the way").unwrap();
    run(&sandbox, &["remove", "log"]).assert_exit(1).stderr_has(&["trash", "prune"]);
    assert!(path(&sandbox, "log").exists());
}

#[test]
fn a_conversation_in_use_is_not_removed() {
    let sandbox = Sandbox::new()
        .reply(shell("touch started; while [ ! -e go ]; do sleep 0.01; done"))
        .reply(answer("done"));
    let running = sandbox.cmd(&["-c", "busy", "wait"]).spawn();
    wait_until("the command runs", || sandbox.work().join("started").exists());
    run(&sandbox, &["remove", "busy"]).assert_exit(1).stderr_has(&["busy is in use by process"]);
    assert!(path(&sandbox, "busy").exists());
    sandbox.write("go", "");
    running.wait().assert_exit(0);
    run(&sandbox, &["remove", "busy"]).assert_exit(0);
}

#[test]
fn export_writes_markdown() {
    let evil = "<script>alert(1)</script>\n```\n# no heading";
    let sandbox =
        Sandbox::new().reply(format!("<nagent-response fence=\"f\">{evil}</nagent-response f>"));
    sandbox.run(&["-c", "x", "say it"]).assert_exit(0);
    let markdown = run(&sandbox, &["export", "x"]).assert_exit(0).stdout;
    assert!(markdown.starts_with("# x\n") && markdown.contains("## Answer"), "{markdown}");
}

#[test]
fn removing_needs_no_room_on_the_disk_and_loses_nothing_where_the_trash_is_elsewhere() {
    if !has_bwrap() {
        return;
    }
    let sandbox = three();
    let root = sandbox.root().display().to_string();
    let copy = sandbox.base().join("copy").display().to_string();
    // In a root of 256 KiB that is full: a rename needs no block.
    let script = format!(
        "cp -a {copy}/. {root} && ! cat /dev/zero > {root}/rest 2> /dev/null && ! cp {root}/config.json {root}/more 2> /dev/null \
         && {CONVERSATIONS} remove log && cmp {root}/trash/log {copy}/conversations/log \
         && ! test -e {root}/conversations/log || exit 9; \
         rm {root}/rest; {CONVERSATIONS} prune --older 0 && ! test -e {root}/trash/log || exit 8"
    );
    let full = format!(
        "cp -a {root} {copy}; exec bwrap --dev-bind / / --size 262144 --tmpfs {root} -- sh -c \"$0\""
    );
    sandbox.program("sh", &["-c", &full, &script]).run().assert_exit(0);
    // A trash on another disk: nothing is copied, and nothing is lost.
    std::fs::create_dir(sandbox.root().join("trash")).unwrap();
    let trash = format!("{root}/trash");
    let words = ["--bind", "/", "/", "--tmpfs", &trash, "--", CONVERSATIONS, "remove", "log"];
    let refused = sandbox.program("bwrap", &words).run().assert_exit(1);
    refused.stderr_has(&["cannot move", "/trash/log"]);
    assert!(path(&sandbox, "log").is_file());
    // What was removed comes back with mv.
    run(&sandbox, &["remove", "log"]).assert_exit(0);
    std::fs::rename(sandbox.root().join("trash/log"), path(&sandbox, "log")).unwrap();
    assert!(run(&sandbox, &["show", "log"]).assert_exit(0).stdout.contains("It is db2."));
}

#[test]
fn a_run_says_where_the_damage_is() {
    let sandbox = three();
    let text = std::fs::read_to_string(path(&sandbox, "log")).unwrap();
    let line = 1 + text[..=text.find("\n</user-prompt>").unwrap()].matches('\n').count();
    let opened = 1 + text[..=text.find("\n<user-prompt ").unwrap()].matches('\n').count();
    let wrong =
        text.replace("</user-prompt>", "</user-promt>") + "\n<user-prompt>\nmore\n</user-prompt>\n";
    std::fs::write(path(&sandbox, "log"), &wrong).unwrap();
    sandbox
        .run(&["-c", "log", "go on"])
        .assert_exit(1)
        .stderr_has(&[&format!("line {opened}"), &format!("line {line} has")]);
    std::fs::write(path(&sandbox, "log"), text.replace("slow", "sl\0w")).unwrap();
    sandbox.run(&["-c", "log", "go on"]).assert_exit(1).stderr_has(&["NUL byte"]);
    // The user's own words at the end, from an editor that does not write UTF-8: they are not moved away.
    let line = text.matches('\n').count() + 3;
    for note in [&b"\n\na caf\xe9\n"[..], b"\n\nnote\0\nmore\n", b"\n\ncaf\xe9"] {
        let whole = [text.as_bytes(), note].concat();
        std::fs::write(path(&sandbox, "log"), &whole).unwrap();
        let error = format!("damaged at line {line}: it has a ");
        sandbox.run(&["-c", "log", "go on"]).assert_exit(1).stderr_has(&[&error]);
        assert_eq!(std::fs::read(path(&sandbox, "log")).unwrap(), whole);
    }
}

#[test]
fn usage_counts_each_turn_once_and_knows_models() {
    let sandbox = three().reply(answer("yes"));
    sandbox.run(&["-c", "weather", "--model", "other-model", "Sure?"]).assert_exit(0);
    let by =
        |args: &[&str]| run(&sandbox, &[&["usage", "--json"], args].concat()).assert_exit(0).json();
    let all = by(&[]);
    assert_eq!(
        (&all["total"]["turns"], &all["total"]["unpriced_turns"]),
        (&json!(4), &json!(1)),
        "{all}"
    );
    let models = by(&["--by", "model"]);
    let rows: Vec<_> = models["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["model"].as_str().unwrap(), row["turns"].as_u64().unwrap()))
        .collect();
    assert_eq!(rows, [("other-model", 1), ("test-model", 3)]);
    // The turns of a saved copy are those of the conversation that had them, whatever their names.
    let of = by(&["--by", "conversation"]);
    let rows: Vec<_> = of["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["conversation"].as_str().unwrap(), row["turns"].as_u64().unwrap()))
        .collect();
    assert_eq!(rows, [("log", 2), ("weather", 2)]);
    // What was removed was paid for all the same.
    run(&sandbox, &["remove", "weather"]).assert_exit(0);
    assert_eq!(by(&["--by", "conversation"])["total"]["turns"], 4);
    assert_eq!(by(&["--since", "2999-01-01"])["total"]["turns"], 0);
    assert_eq!(by(&["--since", "1d"])["total"]["turns"], 4);
    run(&sandbox, &["usage", "--since", "yesterday"]).assert_exit(2).stderr_has(&["2026-11-01"]);
    let text = run(&sandbox, &["usage"]).assert_exit(0).stdout;
    assert!(text.contains("\ntotal") && text.contains("1 of 4 turns had no known price"), "{text}");
}

#[test]
fn new_starts_a_conversation_of_its_own_each_time() {
    let sandbox =
        Sandbox::new().reply(answer("one")).reply(answer("two")).env("NAGENT_CONVERSATION", "mine");
    let first = sandbox.run(&["--new", "--json", "apricot"]).assert_exit(0).json();
    let second = sandbox.run(&["-n", "--json", "plum"]).assert_exit(0).json();
    assert_ne!(first["conversation_path"], second["conversation_path"]);
    assert!(!sandbox.requests()[1].text().contains("apricot"));
    assert!(!path(&sandbox, "mine").exists());
    sandbox.run(&["-n", "-c", "x", "no"]).assert_exit(2);
}

/// Eight at a time in one shell, as `xargs -P` starts them.
#[test]
fn new_conversations_do_not_wait_for_each_other() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|request| {
        answer(&format!("seen {}", request.user().matches("<user-prompt").count())).into()
    });
    let line = format!("seq 8 | xargs -P8 -I{{}} {NAGENT} -n 'number {{}}'");
    let run = sandbox.program("sh", &["-c", &line]).run().assert_exit(0);
    assert_eq!(run.stdout, "seen 1\n".repeat(8));
    assert_eq!(sandbox.conversation_paths().len(), 8);
}

#[test]
fn continue_takes_a_name_or_what_was_last_used_here() {
    let sandbox = three().replies([answer("1"), answer("2"), answer("3"), answer("4")]);
    let last = |text: &str| {
        let all = ["log", "weather", "kept"];
        let holds =
            |name: &&&str| std::fs::read_to_string(path(&sandbox, name)).unwrap().contains(text);
        all.iter().filter(holds).copied().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(sandbox.run(&["--continue", "we", "by prefix"]).assert_exit(0).stdout, "1\n");
    assert_eq!(last("by prefix"), "weather");
    // The folder counts: weather is now from here, too.
    sandbox.run(&["--continue", "the newest from here"]).answers("2");
    assert_eq!(last("the newest from here"), "weather");
    sandbox.cmd(&["-c", "log", "--continue"]).run().assert_exit(2);
    let elsewhere = sandbox.cmd(&["--continue", "from nowhere"]).folder(sandbox.tmp());
    elsewhere
        .run()
        .assert_exit(1)
        .stderr_has(&["no conversation had a prompt in", "nagent-conversations list"]);
    sandbox
        .run(&["--continue", "nosuch"])
        .assert_exit(1)
        .stderr_has(&["\"nosuch\"", "--continue -- nosuch"]);
    sandbox.run(&["--continue", "--", "word"]).answers("3");
    assert_eq!(last("\nword\n"), "weather");
    // From then on it is the conversation of this shell, until it is gone.
    sandbox.run(&["without the flag"]).answers("4");
    assert_eq!(last("without the flag"), "weather");
    sandbox.run(&["--show-request", "x"]).assert_exit(0).stdout_has(&["without the flag"]);
    std::fs::remove_file(path(&sandbox, "weather")).unwrap();
    let shown = sandbox.run(&["--show-request", "x"]).assert_exit(0).stdout;
    assert!(!shown.contains("without the flag"), "{shown}");
}

#[test]
fn clearing_an_empty_conversation_archives_nothing() {
    let sandbox = Sandbox::new().reply(answer("x"));
    for _ in 0..3 {
        sandbox.run(&["-c", "a", "--clear"]).assert_exit(0);
    }
    assert_eq!(sandbox.conversation_paths().len(), 1);
    sandbox.run(&["-c", "a", "something"]).assert_exit(0);
    sandbox.run(&["-c", "a", "--clear"]).assert_exit(0);
    assert_eq!(sandbox.conversation_paths().len(), 2);
}

#[test]
fn the_conversation_of_another_shell_is_found_by_its_process_id() {
    let sandbox = Sandbox::new().reply(answer("done"));
    let line = format!("'{NAGENT}' task; '{NAGENT}' --pid $$ --status; :");
    let run = sandbox.program("setsid", &["-w", "sh", "-c", &line]).run().assert_exit(0);
    run.stdout_has(&["prompts:1"]);
}
