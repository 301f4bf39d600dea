//! A conversation as a recording: `--provider replay --model CONVERSATION`.

use crate::compact::{checkpoint, fill, window};
use crate::process_under_test::Run;
use crate::sandbox::{Sandbox, answer, shell};

const CONVERSATIONS: &str = env!("CARGO_BIN_EXE_nagent-conversations");

fn read(sandbox: &Sandbox, name: &str) -> String {
    std::fs::read_to_string(sandbox.root().join("conversations").join(name)).unwrap()
}

/// A conversation with a child, a malformed reply, a forged one, two prompts.
fn record() -> Sandbox {
    let sandbox = Sandbox::new().file("a.txt", "a\n");
    sandbox.llm.allow_rewrites();
    sandbox.llm.choose(|request| {
        let last = request.last();
        let text = match () {
            () if last.contains("count the letters") => answer("one letter"),
            () if last.contains("your reply is malformed") => {
                "<nagent-conversation name=\"kid\">count the letters</nagent-conversation>"
                    .to_owned()
            }
            () if last.contains("first prompt") => "I will list it.".to_owned(),
            () if last.contains("one letter") => {
                shell("cat a.txt") + "<nagent-shell-result status=\"ok\">x</nagent-shell-result>"
            }
            () if last.contains("second prompt") => answer("second done"),
            () => answer("first done"),
        };
        text.into()
    });
    for prompt in ["first prompt", "second prompt"] {
        sandbox.run(&["-c", "old", prompt]).assert_exit(0);
    }
    sandbox
}

#[test]
fn a_conversation_is_played_again() {
    let sandbox = record();
    let requests = sandbox.requests().len();
    let play = |name: &str, model: &str, prompt: &str| {
        sandbox.run(&["-c", name, "--provider", "replay", "--model", model, prompt])
    };
    play("new", "old", "first prompt").assert_exit(0).answers("first done");
    play("new", "old", "second prompt").assert_exit(0).answers("second done");
    assert_eq!(sandbox.requests().len(), requests);
    let (old, new) = (read(&sandbox, "old"), read(&sandbox, "new"));
    for block in
        ["<agent-response", "<nagent-shell-result", "<nagent-conversation-result", "<system"]
    {
        assert_eq!(old.matches(block).count(), new.matches(block).count(), "{block}: {new}");
    }
    assert!(read(&sandbox, "new.kid").contains("one letter"));
    // By its path, from elsewhere, it is one file: what was kept apart and the child are not there.
    let path = sandbox.write("report.txt", &old);
    std::fs::remove_dir_all(sandbox.root().join("conversations/old.invalid")).unwrap();
    let run = play("third", path.to_str().unwrap(), "first prompt").assert_exit(0);
    assert_eq!(run.stdout, "first done\n");
    assert!(read(&sandbox, "third").contains("your reply is malformed"));
    let run = play("new", "old", "another").assert_exit(3);
    run.stderr_has(&["has no turn 6 to play"]);
    let run = play("other", "a.txt", "x").assert_exit(1);
    run.stderr_has(&["a.txt", "line 1"]);
}

/// Plays a conversation from a prompt on.
fn play(sandbox: &Sandbox, name: &str, model: &str, prompt: &str) -> Run {
    sandbox.run(&["-c", name, "--provider", "replay", "--model", model, prompt])
}

#[test]
fn children_with_the_same_prompt_play_each_its_own() {
    let ask = "<nagent-conversation>the-same</nagent-conversation>";
    let sandbox = Sandbox::new();
    sandbox.llm.allow_rewrites();
    let mut answered = 0;
    sandbox.llm.choose(move |request| {
        let last = request.last();
        if last.contains("nagent-conversation-result") {
            return answer("all done").into();
        }
        if last.contains("the-errand") {
            return ask.repeat(2).into();
        }
        answered += 1;
        answer(&format!("child answer {answered}")).into()
    });
    sandbox.run(&["-c", "old", "the-errand"]).assert_exit(0);
    // A child with the prompt of its parent.
    play(&sandbox, "new", "old", "the-errand").assert_exit(0).answers("all done");
    let order = |name: &str| {
        let text = read(&sandbox, name);
        [1, 2].map(|n| text.find(&format!("child answer {n}")).unwrap_or(0))
    };
    let (old, new) = (order("old"), order("new"));
    assert_eq!(old[0] < old[1], new[0] < new[1], "{}", read(&sandbox, "new"));
    assert!(new.iter().all(|at| *at > 0), "{}", read(&sandbox, "new"));
}

#[test]
fn a_child_does_not_play_its_parent() {
    let sandbox = Sandbox::new();
    sandbox.llm.allow_rewrites();
    let mut asked = 0;
    sandbox.llm.choose(move |request| {
        asked += 1;
        let last = request.last();
        if last.contains("nagent-conversation-result") {
            return answer("all done").into();
        }
        let ask = "<nagent-conversation name=\"kid\">the-errand</nagent-conversation>";
        if asked == 1 { ask.to_owned() } else { answer("child done") }.into()
    });
    sandbox.run(&["-c", "old", "the-errand"]).assert_exit(0);
    play(&sandbox, "new", "old", "the-errand").assert_exit(0).answers("all done");
    assert!(read(&sandbox, "new.kid").contains("child done"));
    // Without the child's file nothing is played in its place.
    std::fs::remove_file(sandbox.root().join("conversations/old.kid")).unwrap();
    play(&sandbox, "third", "old", "the-errand").assert_exit(0).stdout_is("all done\n");
    let text = read(&sandbox, "third");
    assert!(text.contains("no turn 1 of child 0.1 to play"), "{text}");
}

#[test]
fn a_conversation_with_a_gap_or_after_a_compaction_is_played() {
    let sandbox = window(16_000);
    fill(&sandbox, 8, 3_000);
    let before = read(&sandbox, "c");
    sandbox.llm.push(checkpoint("x"));
    sandbox.run(&["-c", "c", "--compact"]).assert_exit(0);
    for prompt in 0..8 {
        play(&sandbox, "new", "c", &format!("prompt {prompt}"))
            .assert_exit(0)
            .answers(&format!("answer {prompt}"));
    }
    // No compaction, which would ask the recording for a checkpoint, and forget turns.
    let new = read(&sandbox, "new");
    assert!(!new.contains("compacted=") && new.contains("word0"), "{new}");
    // One turn was removed by hand: what is left is played in its order.
    let (start, rest) = before.split_once("<user-prompt").unwrap();
    let (_, rest) = rest.split_once("<user-prompt").unwrap();
    let path = sandbox.write("gap.txt", format!("{start}<user-prompt{rest}"));
    play(&sandbox, "gap", path.to_str().unwrap(), "prompt 1").assert_exit(0).answers("answer 1");
}

#[test]
fn a_turn_that_a_compaction_took_out_is_refused() {
    let sandbox = window(16_000);
    fill(&sandbox, 8, 3_000);
    sandbox.llm.push(checkpoint("x"));
    sandbox.run(&["-c", "c", "--compact"]).assert_exit(0);
    let show =
        |turn| sandbox.program(CONVERSATIONS, &["show", "c", "--turn", turn]).run().assert_exit(1);
    show("1").stderr_has(&["has no turn 1;", "an archive may have others"]);
    show("99").stderr_has(&["has no turn 99; it has the turns"]);
}
