//! Providers that fail: tried again, and replaced by another model.

use super::*;

#[test]
fn providers_are_tried_again_where_that_helps() {
    check(
        rules(UNLIMITED, false),
        vec![SAVED, failed(ErrorKind::Busy), Event::Waited, failed(ErrorKind::Auth), SAVED],
        &["ask", "wait", "ask", "append system", "done 3 "],
    );
    for kind in [ErrorKind::NoCredit, ErrorKind::Refused, ErrorKind::NoModel, ErrorKind::Other] {
        check(
            rules(UNLIMITED, false),
            vec![SAVED, failed(kind), SAVED],
            &["ask", "append system", "done 3 "],
        );
    }
}

#[test]
fn what_is_too_long_is_compacted_once() {
    let compacted = |is_shorter| Event::Compacted {
        is_shorter,
        usage: Usage { input: 9, ..Usage::default() },
        cost: Some(1.0),
    };
    let too_long = || failed(ErrorKind::TooLong);
    let turn = check(
        rules(UNLIMITED, false),
        vec![SAVED, too_long(), compacted(true), too_long(), SAVED],
        &["ask", "compact", "ask", "append system", "done 3 "],
    );
    assert_eq!((turn.totals().cost, turn.totals().all.input), (1.0, 9));
    check(
        rules(UNLIMITED, false),
        vec![SAVED, too_long(), compacted(false), SAVED],
        &["ask", "compact", "append system", "done 3 "],
    );
}

#[test]
fn a_full_window_is_compacted_before_the_model_is_asked() {
    let full = || Event::Appended { seconds: 1.0, is_full: true };
    let compacted =
        || Event::Compacted { is_shorter: true, usage: Usage::default(), cost: Some(1.0) };
    check(
        rules(UNLIMITED, false),
        vec![full(), compacted(), reply("<nagent-response>a</nagent-response>"), full()],
        &["compact", "ask", "append agent-response,turn-status", "done 0 a"],
    );
    let limits = Limits { max_cost: Some(1.0), ..UNLIMITED };
    check(
        rules(limits, false),
        vec![full(), compacted(), SAVED],
        &["compact", "append system", "done 5 "],
    );
}

#[test]
fn busy_for_ever_is_bounded() {
    let (mut turn, _) = Turn::start(rules(UNLIMITED, false), Vec::new());
    turn.step(SAVED);
    let mut waits = 0;
    while let Effect::Wait { .. } = turn.step(failed(ErrorKind::Busy)) {
        waits += 1;
        assert!(waits < 50);
        turn.step(Event::Waited);
    }
    assert!(waits >= 2, "{waits}");
}
