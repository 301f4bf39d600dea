//! Providers that fail: tried again, and replaced by another model.

use super::*;

#[test]
fn providers_are_tried_again_where_that_helps() {
    check(
        rules(UNLIMITED, false),
        vec![SAVED, failed(ErrorKind::Busy), Event::Waited, failed(ErrorKind::Auth), SAVED],
        &["ask", "wait", "ask", "append system", "done 3 "],
    );
    for kind in [
        ErrorKind::NoCredit,
        ErrorKind::TooLong,
        ErrorKind::Refused,
        ErrorKind::NoModel,
        ErrorKind::Other,
    ] {
        check(
            rules(UNLIMITED, false),
            vec![SAVED, failed(kind), SAVED],
            &["ask", "append system", "done 3 "],
        );
    }
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

#[test]
fn another_model_goes_on_where_that_may_help() {
    let rules = || Rules { fallbacks: 1, ..rules(UNLIMITED, false) };
    let switched = || Event::Switched("b goes on".to_owned());
    let expect = ["ask", "switch broke", "append system", "ask", "append system", "done 3 "];
    let events =
        vec![SAVED, failed(ErrorKind::Auth), switched(), SAVED, failed(ErrorKind::Auth), SAVED];
    check(rules(), events, &expect);
    let expect = ["ask", "append system", "done 3 "];
    check(rules(), vec![SAVED, failed(ErrorKind::Refused), SAVED], &expect);
}
