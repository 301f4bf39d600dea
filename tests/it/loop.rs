//! The loop: malformed and cut-off replies, limits, checks, children side by side.

use serde_json::json;

use crate::answers::Answer;
use crate::fake_llm::Request;
use crate::sandbox::{Sandbox, answer, shell};
use crate::wire::Reply;

const CHILD: &str = "<nagent-conversation>look into it</nagent-conversation>";

// Malformed.

#[test]
fn a_malformed_reply_is_kept_aside_corrected_and_asked_for_again() {
    let sandbox = Sandbox::new().reply("sorry, here is some prose").reply(answer("done"));
    sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
    assert_eq!(sandbox.invalid(), ["sorry, here is some prose"]);
    let second = &sandbox.requests()[1];
    assert!(second.last().contains("<system"), "what was wrong is said: {}", second.last());
    assert_eq!(second.dialogue().turns.len(), 1, "what did not parse is not sent again");
    assert_eq!(sandbox.blocks_of("agent-response").len(), 1);
}

#[test]
fn the_correction_says_where_and_shows_an_excerpt() {
    let sandbox = Sandbox::new().reply(answer("fine") + "stray words").reply(answer("done"));
    sandbox.run(&["task"]).assert_exit(0);
    let block = sandbox.block("system");
    assert!(
        block.body.contains("stray") && block.body.chars().any(|c| c.is_ascii_digit()),
        "{block:?}"
    );
}

#[test]
fn three_malformed_replies_in_a_row_are_exit_4() {
    let sandbox = Sandbox::new().replies(["one", "<two", "<three"]);
    sandbox.run(&["task"]).assert_exit(4).no_stdout();
    assert_eq!(sandbox.invalid(), ["one", "<two", "<three"]);
    assert_eq!(sandbox.requests().len(), 3);
}

#[test]
fn tries_are_counted_anew_after_a_reply_that_parsed() {
    let sandbox =
        Sandbox::new().replies(["one", "<two"]).reply(shell("true")).replies(["three", "<four"]);
    sandbox.llm.push(answer("done"));
    sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
}

#[test]
fn nothing_of_a_malformed_reply_runs() {
    let broken = [
        format!("{}<nagent-unknown/>", shell("touch ran")),
        format!("{}stray", shell("touch ran")),
        format!("{}<nagent-read path=/>", shell("touch ran")),
        format!("{}<nagent-read \"a\"/>", shell("touch ran")),
        format!("{}<nagent-write path=\"a\">no end", shell("touch ran")),
        format!("{}<nagent-response>no end", shell("touch ran")),
        format!("As in\n```xml\n{}\n```", shell("touch ran")),
        "<nagent-shell></nagent-shell>".to_owned(),
        "<nagent-shell>touch ran</nagent-shell".to_owned(),
        "<NAGENT-SHELL>touch ran</nagent-shell>".to_owned(),
        String::new(),
        " \n\t\n".to_owned(),
    ];
    for reply in broken {
        let sandbox = Sandbox::new().reply(reply.as_str()).reply(answer("done"));
        sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
        assert!(!sandbox.work().join("ran").exists(), "{reply}");
        assert_eq!(sandbox.requests().len(), 2, "{reply}");
    }
}

#[test]
fn words_without_a_tag_are_the_answer_when_they_come_again() {
    let sandbox = Sandbox::new().replies(["It is 4.", "As I said, it is 4."]);
    let run = sandbox.run(&["--progress", "task"]).stdout_is("As I said, it is 4.\n");
    run.assert_exit(0).stderr_has(&["its words were taken as the answer"]);
    assert_eq!(
        sandbox.block("agent-response").body,
        "<nagent-response>\nAs I said, it is 4.\n</nagent-response>"
    );
    // The conversation goes on from there.
    sandbox.llm.push(answer("done"));
    sandbox.run(&["more"]).answers("done");
    assert!(sandbox.requests()[2].text().contains("As I said, it is 4."));
    // Not where an action was begun.
    let begun = "Let me look: <nagent-shell>ls";
    let sandbox = Sandbox::new().replies(["It is 4.", begun, begun]);
    sandbox.run(&["task"]).assert_exit(4).no_stdout();
}

#[test]
fn an_answer_with_an_action_in_it_is_asked_about_once() {
    let inner = format!("Let me look.\n{}", shell("touch ran"));
    let sandbox = Sandbox::new().replies([answer(&inner), shell("touch ran"), answer("done")]);
    sandbox.run(&["task"]).answers("done");
    assert!(sandbox.work().join("ran").exists());
    let asked = sandbox.requests()[1].last();
    assert!(asked.contains("tags in an answer are text and do not run"), "{asked}");
    // The same again is meant so.
    let sandbox = Sandbox::new().replies([answer(&inner), answer(&inner)]);
    sandbox.run(&["task"]).assert_exit(0).stdout_is(&format!("{inner}\n"));
    assert!(!sandbox.work().join("ran").exists());
    let code = answer("Write\n\n```\n<nagent-shell>ls</nagent-shell>\n```");
    Sandbox::new().reply(code).run(&["task"]).assert_exit(0);
}

#[test]
fn attribute_forms_are_free() {
    let tags = [
        "<nagent-read path='a.txt' />",
        "<nagent-read\n  limit=\"1\"\n  path = \"a.txt\"\n/>",
        "<nagent-shell timeout='9' >cat a.txt</nagent-shell>",
        "<nagent-shell>[ 1 -lt 2 ] && cat a.txt</nagent-shell>",
        "<nagent-shell>cat 'a.txt' # /> </nagent-response></nagent-shell>",
    ];
    for tag in tags {
        let sandbox = Sandbox::new().file("a.txt", "alpha\n").reply(tag).reply(answer("done"));
        sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
        assert_eq!(sandbox.requests().len(), 2, "{tag}: {}", sandbox.conversation());
        assert!(sandbox.requests()[1].last().contains("alpha"), "{tag}");
        assert_eq!(sandbox.invalid().len(), 0, "{tag}");
    }
}

#[test]
fn entities_in_attributes_are_decoded_and_bodies_are_raw() {
    let sandbox = Sandbox::new().file("a \"b\" <c> & d>.txt", "found it");
    sandbox.llm.push("<nagent-read path=\"a &quot;b&quot; &lt;c&gt; &amp; d>.txt\"/>");
    sandbox.llm.push(shell("echo '&lt;'"));
    sandbox.llm.push(answer("done"));
    sandbox.run(&["task"]).assert_exit(0);
    assert!(sandbox.block("nagent-read-result").body.contains("found it"));
    assert!(sandbox.block("nagent-shell-result").body.contains("&lt;"));
}

// Cut off.

#[test]
fn a_reply_cut_off_by_the_length_limit_is_never_an_answer() {
    let reply = answer("half of it") + &shell("touch ran");
    let cut = || Reply::new(reply.as_str()).cut_off();
    let sandbox = Sandbox::new().replies([cut(), cut(), cut()]);
    let run = sandbox.run(&["task"]).assert_exit(4).no_stdout();
    run.stderr_has(&[
        "no whole reply in 3 tries",
        "cut off by the length limit",
        "\"max_output_tokens\"",
    ]);
    let run = Sandbox::new().replies(["", "", " "]).run(&["task"]).assert_exit(4);
    run.stderr_has(&["in 3 tries; its last reply, which is empty, is in"]);
    let sandbox = Sandbox::new().reply(cut()).reply(answer("short"));
    sandbox.run(&["task"]).assert_exit(0).stdout_is("short\n");
    assert!(!sandbox.work().join("ran").exists(), "nothing of it runs");
    assert_eq!(sandbox.invalid(), [reply]);
    assert_eq!(sandbox.blocks_of("system").len(), 1);
}

#[test]
fn a_stream_without_its_end_mark_is_an_error_and_tried_again() {
    let half = answer(&"word ".repeat(100));
    for broken in
        [Answer::Half(half.as_str().into()), Answer::Cut(half.as_str().into()), Answer::Close]
    {
        let sandbox = Sandbox::new().answer(broken).reply(answer("done"));
        sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
        assert_eq!(sandbox.requests().len(), 2);
        assert!(!sandbox.conversation().contains("word word"));
    }
}

#[test]
fn a_stream_that_is_always_cut_is_exit_3() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|_| Answer::Half(answer("half").as_str().into()));
    sandbox.run(&["--patience", "1", "task"]).assert_exit(3).no_stdout();
}

// Limits.

#[test]
fn max_turns_ends_the_run_and_the_conversation_says_so() {
    let sandbox = Sandbox::new().replies([shell("echo 1"), shell("echo 2")]);
    sandbox.run(&["--max-turns", "2", "task"]).assert_exit(5);
    assert_eq!(sandbox.blocks_of("nagent-shell-result").len(), 2, "what was asked for is done");
    assert!(sandbox.blocks_of("system").pop().unwrap().body.contains("turn"));
}

#[test]
fn a_limit_that_is_reached_with_the_answer_is_no_failure() {
    Sandbox::new().reply(answer("done")).run(&["--max-turns", "1", "task"]).answers("done");
    let run = Sandbox::new().reply(answer("done")).run(&["--max-tokens", "10", "task"]);
    run.assert_exit(0).stderr_has(&["limit of 10 tokens was reached with 1", "(--max-tokens)"]);
}

#[test]
fn max_tokens_is_checked_between_turns() {
    let sandbox =
        Sandbox::new().reply(Reply::new(shell("true")).usage(900, 0, 200)).reply(answer("x"));
    sandbox.run(&["--max-tokens", "1000", "task"]).assert_exit(5);
    assert_eq!(sandbox.requests().len(), 1);
}

#[test]
fn max_seconds_is_checked_between_turns() {
    let sandbox = Sandbox::new().reply(shell("sleep 1.2")).reply(answer("x"));
    sandbox.run(&["--max-seconds", "1", "task"]).assert_exit(5);
    assert_eq!(sandbox.requests().len(), 1);
}

#[test]
fn commands_and_checks_end_with_the_time_of_the_run() {
    for (reply, more) in [(shell("sleep 60"), vec![]), (answer("x"), vec!["--check", "sleep 60"])] {
        let sandbox = Sandbox::new().reply(reply).reply(answer("x"));
        let args = [&["--max-seconds", "1", "task"], &more[..]].concat();
        let started = std::time::Instant::now();
        let run = sandbox.run(&args).assert_exit(5);
        run.stderr_has(&["the limit of 1 seconds was reached"]);
        assert!(started.elapsed().as_secs() < 30 && sandbox.requests().len() == 1);
    }
}

#[test]
fn a_run_can_go_on_after_a_limit() {
    let sandbox = Sandbox::new().reply(shell("echo 1")).reply(answer("done"));
    sandbox.run(&["--max-turns", "1", "task"]).assert_exit(5);
    sandbox.run(&["go on"]).assert_exit(0).stdout_is("done\n");
}

// Usage.

#[test]
fn tokens_are_summed_with_the_cached_ones() {
    let sandbox = Sandbox::new()
        .reply(Reply::new(shell("true")).usage(100, 0, 7))
        .reply(Reply::new(answer("done")).usage(150, 90, 5));
    let document = sandbox.run(&["--json", "task"]).assert_exit(0).json();
    assert_eq!((&document["tokens_in"], &document["tokens_out"]), (&json!(250), &json!(12)));
    let status = sandbox.blocks_of("nagent-turn-status");
    assert!(status[1].attributes.values().any(|value| value == "90"), "cached tokens: {status:?}");
}

// Children.

fn three_parts() -> String {
    ["part 1", "part 2", "part 3"]
        .map(|part| format!("<nagent-conversation>{part}</nagent-conversation>"))
        .concat()
}

/// Each conversation that is no child starts `tags`; children answer at once; then it is done.
fn with_children(tags: String) -> impl FnMut(&Request) -> Answer + Send {
    move |request| {
        let user = request.user();
        if user.contains("<nagent-conversation-result") {
            answer("done").into()
        } else if user.contains("look into it") {
            answer("seen").into()
        } else {
            tags.clone().into()
        }
    }
}

#[test]
fn children_side_by_side_run_at_the_same_time_with_their_results_in_order() {
    let sandbox = Sandbox::new();
    let mut waiting = 0;
    let latch = crate::answers::Latch::default();
    let tags = three_parts();
    sandbox.llm.choose(move |request| {
        let user = request.user();
        if user.contains("<nagent-conversation-result") {
            return answer("done").into();
        }
        let Some(n) = (1..=3).find(|n| user.contains(&format!("part {n}"))) else {
            return tags.as_str().into();
        };
        // Nobody is answered before all have asked.
        waiting += 1;
        if waiting == 3 {
            latch.release();
        }
        Answer::held(&latch, answer(&format!("answer {n}")))
    });
    sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n").within(15.0);
    let bodies: Vec<_> = sandbox
        .blocks_of("nagent-conversation-result")
        .into_iter()
        .map(|block| block.body)
        .collect();
    assert_eq!(bodies.len(), 3);
    for (at, body) in bodies.iter().enumerate() {
        assert!(body.contains(&format!("answer {}", at + 1)), "{bodies:?}");
    }
}

#[test]
fn no_more_children_at_once_than_jobs() {
    let sandbox = Sandbox::new();
    let tags = three_parts();
    sandbox.llm.choose(move |request| {
        let user = request.user();
        if user.contains("<nagent-conversation-result") {
            answer("done").into()
        } else if user.contains("<nagent-shell-result") {
            answer("seen").into()
        } else if user.contains("part ") {
            shell("mkdir alone && sleep 0.05 && rmdir alone || touch clash").into()
        } else {
            tags.as_str().into()
        }
    });
    sandbox.run(&["--jobs", "1", "task"]).assert_exit(0).stdout_is("done\n");
    assert!(!sandbox.work().join("clash").exists());
}

#[test]
fn a_child_is_a_conversation_of_its_own() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(with_children(CHILD.into()));
    sandbox.run(&["secret of the parent"]).assert_exit(0);
    let child = sandbox
        .requests()
        .into_iter()
        .find(|request| request.user().contains("look into it"))
        .unwrap();
    assert!(!child.text().contains("secret of the parent"), "nothing but its prompt");
    assert_eq!(sandbox.conversation_paths().len(), 2);
}

#[test]
fn a_named_child_belongs_to_its_parent() {
    let sandbox = Sandbox::new();
    sandbox.llm.allow_rewrites();
    let named = "<nagent-conversation name=\"helper\">look into it</nagent-conversation>";
    sandbox.llm.choose(move |request| match request.last() {
        last if last.contains("<nagent-conversation-result") => answer("done").into(),
        last if last.contains("look into it") || last.contains("mine") => answer("seen").into(),
        last if last.contains("fork it") => {
            shell("sed -i s/task/TASK/ ~/.nagent/conversations/g").into()
        }
        _ => named.into(),
    });
    for parent in ["a", "a", "b"] {
        sandbox.run(&["--conversation", parent, "task"]).assert_exit(0);
    }
    sandbox.run(&["--conversation", "helper", "mine"]).assert_exit(0);
    let read = |name: &str| {
        std::fs::read_to_string(sandbox.root().join("conversations").join(name)).unwrap()
    };
    let count = |name: &str| read(name).matches("look into it").count();
    assert_eq!([count("a.helper"), count("b.helper"), count("helper")], [2, 1, 0]);
    // A conversation of the user's that happens to have such a name.
    sandbox.run(&["--conversation", "d.helper", "mine"]).assert_exit(0);
    let before = read("d.helper");
    sandbox.run(&["--conversation", "d", "task"]).assert_exit(0);
    assert_eq!((read("d.helper"), count("d.helper-2")), (before, 1));
    // One that has the name of another whose children are still there.
    sandbox.run(&["-c", "a", "--save-conversation", "copy"]).assert_exit(0);
    for (change, more) in
        [(vec!["--clear"], "a.helper-2"), (vec!["--load-conversation", "d"], "a.helper-3")]
    {
        sandbox.run(&[&["-c", "a"], change.as_slice()].concat()).assert_exit(0);
        sandbox.run(&["-c", "a", "task"]).assert_exit(0);
        sandbox.run(&["-c", "a", "task"]).assert_exit(0);
        assert_eq!((count("a.helper"), count(more)), (2, 2), "{change:?}");
    }
    sandbox.run(&["-c", "e", "--branch-conversation", "b"]).assert_exit(0);
    sandbox.run(&["-c", "e", "task"]).assert_exit(0);
    assert_eq!([count("b.helper"), count("e.helper")], [1, 1]);
    // A run that goes on in a fork goes on with its children.
    sandbox.run(&["-c", "g", "task"]).assert_exit(0);
    let run = sandbox.run(&["-c", "g", "--json", "fork it"]).assert_exit(0);
    assert_eq!(count("g.helper"), 2);
    let fork = run.json()["conversation_path"].as_str().unwrap().to_owned();
    let fork = fork.rsplit('/').next().unwrap();
    assert_ne!(fork, "g");
    sandbox.run(&["-c", fork, "task"]).assert_exit(0);
    assert_eq!(count("g.helper"), 3);
}

#[test]
fn a_child_never_continues_a_saved_copy() {
    let sandbox = Sandbox::new();
    let started = |name: &str| {
        sandbox
            .llm
            .push(format!("<nagent-conversation name=\"{name}\">look</nagent-conversation>"));
        sandbox.llm.push(answer("seen"));
        sandbox.llm.push(answer("done"));
        sandbox.run(&["-c", "c1", "task"]).assert_exit(0);
    };
    started("tests");
    sandbox.run(&["-c", "c1.tests", "--save-conversation", "c1.copy"]).assert_exit(0);
    let copy = || std::fs::read(sandbox.root().join("conversations/c1.copy")).unwrap();
    let before = copy();
    started("copy");
    assert!(copy() == before);
}

#[test]
fn bad_names_of_children_cost_one_action() {
    let sandbox = Sandbox::new();
    let child = |name: &str| {
        format!("<nagent-conversation name=\"{name}\">look into it</nagent-conversation>")
    };
    let tags =
        [child("a/b"), child(&"x".repeat(300)), child(&"y".repeat(99)), child("fine")].concat();
    sandbox.llm.choose(with_children(tags));
    sandbox.run(&["--conversation", "top", "task"]).assert_exit(0);
    let text = std::fs::read_to_string(sandbox.root().join("conversations/top")).unwrap();
    let mut blocks = crate::blocks::blocks(&text);
    blocks.retain(|block| block.name == "nagent-conversation-result");
    let status: Vec<&str> = blocks.iter().map(|block| block.get("status")).collect();
    assert_eq!(status, ["error", "error", "ok", "ok"], "{blocks:?}");
}

#[test]
fn a_file_has_one_child_in_a_reply() {
    let sandbox = Sandbox::new().file("f.txt", "x\n");
    let child = |file: &str| {
        format!("<nagent-conversation file=\"{file}\">look into it</nagent-conversation>")
    };
    std::fs::hard_link(sandbox.work().join("f.txt"), sandbox.work().join("hard.txt")).unwrap();
    let tags = [
        child("f.txt"),
        child("hard.txt"),
        "<nagent-list path=\".\"/>".into(),
        child("./f.txt"),
        child("new.txt"),
        child("./new.txt"),
    ];
    sandbox.llm.choose(with_children(tags.concat()));
    sandbox.run(&["--conversation", "top", "task"]).assert_exit(0);
    let text = std::fs::read_to_string(sandbox.root().join("conversations/top")).unwrap();
    assert_eq!(text.matches("in this reply has the same name or file").count(), 3, "{text}");
}

#[test]
fn a_child_from_a_saved_conversation_starts_with_a_copy_of_it() {
    let sandbox = Sandbox::new().reply(answer("we use tabs"));
    sandbox.run(&["--conversation", "a", "how do we indent?"]).assert_exit(0);
    sandbox.run(&["--conversation", "a", "--save-conversation", "style"]).assert_exit(0);
    let saved = std::fs::read_to_string(sandbox.root().join("conversations/style")).unwrap();
    sandbox.llm.choose(with_children(
        "<nagent-conversation from=\"style\">look into it</nagent-conversation>".into(),
    ));
    sandbox.run(&["--conversation", "b", "task"]).assert_exit(0);
    let child = sandbox
        .requests()
        .into_iter()
        .find(|request| request.user().contains("look into it"))
        .unwrap();
    assert!(child.text().contains("we use tabs"));
    assert_eq!(std::fs::read_to_string(sandbox.root().join("conversations/style")).unwrap(), saved);
}

#[test]
fn a_running_sibling_cannot_be_named() {
    {
        let tags = "<nagent-conversation name=\"x\">look into it</nagent-conversation>".repeat(2);
        let sandbox = Sandbox::new();
        sandbox.llm.choose(with_children(tags));
        sandbox.run(&["--conversation", "top", "task"]).assert_exit(0).within(10.0);
        let status: Vec<_> = crate::blocks::blocks(
            &std::fs::read_to_string(sandbox.root().join("conversations/top")).unwrap(),
        )
        .into_iter()
        .filter(|block| block.name == "nagent-conversation-result")
        .map(|block| block.get("status").to_owned())
        .collect();
        assert!(status.contains(&"error".to_owned()), "{status:?}");
    }
}

#[test]
fn children_nest_four_deep_and_no_deeper() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|request| {
        if request.user().contains("<nagent-conversation-result") {
            answer("done").into()
        } else {
            CHILD.into()
        }
    });
    sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n");
    let conversations = sandbox.conversation_paths();
    assert_eq!(conversations.len(), 5, "the first and four below it");
    let texts = conversations.iter().map(|path| std::fs::read_to_string(path).unwrap());
    let refused = texts.filter(|text| {
        let blocks = crate::blocks::blocks(text);
        blocks.iter().any(|block| {
            block.name == "nagent-conversation-result" && block.get("status") == "error"
        })
    });
    assert_eq!(refused.count(), 1, "the deepest one is told");
}

#[test]
fn a_nagent_started_by_a_command_gets_a_conversation_of_its_own() {
    let sandbox = Sandbox::new();
    let command = shell(&format!("'{}' look into it", crate::sandbox::NAGENT));
    let sandbox = sandbox.config_also(json!({"pass_env": ["OPENAI_API_KEY"]}));
    sandbox.llm.choose(move |request| {
        let user = request.user();
        if user.contains("<nagent-shell-result") {
            answer("done").into()
        } else if user.contains("look into it") {
            answer("seen").into()
        } else {
            command.as_str().into()
        }
    });
    sandbox.run(&["task"]).assert_exit(0).stdout_is("done\n").within(10.0);
    assert!(sandbox.block("nagent-shell-result").body.contains("seen"));
    assert_eq!(sandbox.conversation_paths().len(), 2);
}

#[test]
fn a_nagent_started_by_a_command_says_why_it_has_no_key() {
    let command = shell(&format!("'{}' look into it", crate::sandbox::NAGENT));
    let sandbox = Sandbox::new().reply(command.as_str()).reply(answer("done"));
    let usual = std::fs::read_to_string(sandbox.root().join("config.json")).unwrap();
    // The one inside reads the root's config, which names no server of the user's own, so a key is needed.
    let sandbox = sandbox.file("usual.json", usual).config(json!({"provider": "openai"}));
    sandbox.run(&["--config", "usual.json", "task"]).answers("done");
    let block = sandbox.block("nagent-shell-result");
    assert_eq!(block.get("exit_code"), "2");
    assert!(block.body.contains("pass_env"), "the way to let it through: {block:?}");
}

#[test]
fn a_child_draws_on_what_is_left_of_its_parents_limits() {
    let sandbox = Sandbox::new();
    sandbox.llm.choose(|request| {
        if request.user().contains("look into it") { shell("true").into() } else { CHILD.into() }
    });
    // Each reply is 1,010 tokens: one of the parent, three of the child, and both are over 4,000.
    sandbox.run(&["--max-tokens", "4000", "task"]).assert_exit(5);
    assert_eq!(sandbox.requests().len(), 4);
    assert_eq!(sandbox.blocks_of("nagent-conversation-result")[0].get("exit_code"), "5");
}

#[test]
fn a_child_from_its_own_parent_knows_what_came_before() {
    let sandbox = Sandbox::new();
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(|request| {
        let user = request.user();
        if user.contains("look closer") {
            answer("seen").into()
        } else if user.contains("<nagent-conversation-result") {
            answer("done").into()
        } else {
            "<nagent-conversation from=\"main-one\">look closer</nagent-conversation>".into()
        }
    });
    sandbox.run(&["--conversation", "main-one", "task"]).assert_exit(0).stdout_is("done\n");
    let requests = sandbox.requests();
    let child = requests.iter().find(|request| request.user().contains("look closer")).unwrap();
    assert!(child.user().contains("task"), "what came before");
}

#[test]
fn max_cost_counts_by_the_prices_of_the_config_and_needs_them() {
    let next = "<nagent-next>go on</nagent-next>";
    let sandbox = Sandbox::new().replies([next, next, next, next]);
    let priced = json!({"prices": {"test-model": {"input": 1000.0, "output": 1000.0}}});
    let refused = sandbox.run(&["--max-cost", "1", "task"]).assert_exit(2);
    refused.stderr_has(&["prices", "test-model"]);
    assert_eq!(sandbox.requests().len(), 0);
    let sandbox = sandbox.config_also(priced);
    // A reply of the server's has 1,000 tokens in and 10 out.
    let document = sandbox.run(&["--max-cost", "1.5", "--json", "task"]).assert_exit(5).json();
    assert_eq!(sandbox.requests().len(), 2, "{document}");
    assert!(document["cost"].as_f64().unwrap() >= 1.5, "{document}");
    assert!(document["error"].as_str().unwrap().contains("--max-cost"), "{document}");
    assert!(sandbox.conversation().contains(" cost=\"1.01"), "{}", sandbox.conversation());
}

#[test]
fn a_prompt_that_fits_no_window_is_told_before_anything_is_sent_or_stored() {
    let sandbox = Sandbox::new().reply(answer("one"));
    sandbox.run(&["task"]).assert_exit(0);
    let before = sandbox.conversation();
    let sandbox = sandbox.config_also(json!({"context_window_tokens": 4000}));
    let long = "word ".repeat(20_000);
    let run = sandbox.run(&[long.as_str()]).assert_exit(3).no_stdout();
    run.stderr_has(&["4000", "nothing was sent", "nagent-conversations clear"]);
    assert_eq!(sandbox.requests().len(), 1);
    assert_eq!(sandbox.conversation(), before);
}
