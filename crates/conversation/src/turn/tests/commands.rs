//! The user's own commands: after writes, and as a check of the answer.

use super::*;

#[test]
fn the_command_after_writes_runs_once_after_all_writes_of_a_reply_that_succeeded() {
    let write = "<nagent-write path=\"a\">x</nagent-write>";
    let two = reply(&format!("{write}{write}<nagent-shell>x</nagent-shell>"));
    let failed = Block::new("nagent-write-result").with("status", "error");
    let ended = Event::AfterWriteEnded(Block::new("system"));
    check(
        RunRules { after_write: true, ..rules(UNLIMITED, false) },
        vec![
            SAVED,
            two,
            SAVED,
            done("nagent-write-result"),
            SAVED,
            done("nagent-write-result"),
            SAVED,
            done("nagent-shell-result"),
            SAVED,
            ended,
            SAVED,
            reply(write),
            SAVED,
            Event::Acted(Acted::without_model(failed)),
            SAVED,
        ],
        &[
            "ask",
            "append agent-response,turn-status",
            "act write",
            "append write-result",
            "act write",
            "append write-result",
            "act shell",
            "append shell-result",
            "after write",
            "append system",
            "ask",
            "append agent-response,turn-status",
            "act write",
            "append write-result:error",
            "ask",
        ],
    );
}

#[test]
fn an_answer_counts_when_the_check_passes() {
    let answer = || reply("<nagent-response>a</nagent-response>");
    check(
        rules(UNLIMITED, true),
        vec![SAVED, answer(), SAVED, checked(false), SAVED, answer(), SAVED, checked(true), SAVED],
        &[
            "ask",
            "append agent-response,turn-status",
            "check",
            "append system",
            "ask",
            "append agent-response,turn-status",
            "check",
            "append system",
            "done 0 a",
        ],
    );
    let mut events = vec![SAVED];
    for _ in 0..FAILED_CHECKS {
        events.extend([answer(), SAVED, checked(false), SAVED]);
    }
    let (mut turn, _) = Turn::start(rules(UNLIMITED, true), Vec::new());
    let last = events.into_iter().map(|event| turn.step(event)).last();
    assert_eq!(last.as_ref().map(show).as_deref(), Some("done 6 "));
    assert_eq!(turn.totals().notes, ["a", "a", "a", "a", "a"]);
}
