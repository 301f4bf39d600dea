//! What holds for any list of events.

use proptest::prelude::*;

use super::*;

fn any_event() -> impl Strategy<Value = Event> {
    let text = prop::sample::select(vec![
        "<nagent-response>a</nagent-response>",
        "<nagent-shell>a</nagent-shell><nagent-list path=\".\"/>",
        "<nagent-conversation>a</nagent-conversation><nagent-conversation>b</nagent-conversation>",
        "<nagent-shell>a</nagent-shell><system>x</system>",
        "prose",
        "",
    ]);
    prop_oneof![
        Just(SAVED),
        text.clone().prop_map(reply),
        text.prop_map(cut),
        prop::sample::select(vec![ErrorKind::Busy, ErrorKind::Cut, ErrorKind::Auth])
            .prop_map(failed),
        Just(Event::Waited),
        Just(Event::Said),
        Just(kept()),
        Just(done("nagent-shell-result")),
        any::<bool>().prop_map(checked),
        Just(interrupt(vec![])),
        Just(message()),
        Just(Event::Received(vec![])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever the world answers, the machine asks and acts only after a durable append, and never panics.
    #[test]
    fn acts_only_on_what_is_durable(events in prop::collection::vec(any_event(), 0..60), check in any::<bool>()) {
        let (mut turn, mut effect) = Turn::start(rules(UNLIMITED, check), Vec::new());
        let mut appended = None;
        for event in events {
            if matches!(effect, Effect::Append(_)) {
                appended = Some(matches!(event, Event::Appended { .. }));
            }
            effect = turn.step(event);
            match &effect {
                Effect::Act(_) | Effect::NextChild => prop_assert_eq!(appended, Some(true)),
                Effect::Done(_) => break,
                _ => {}
            }
        }
    }

    /// A model that only ever acts is stopped by the limit on turns.
    #[test]
    fn always_ends(turns in 1u64..6) {
        let limits = Limits { max_turns: turns, ..UNLIMITED };
        let (mut turn, mut effect) = Turn::start(rules(limits, false), Vec::new());
        for _ in 0..1000 {
            let event = match effect {
                Effect::Append(_) => SAVED,
                Effect::Ask => reply("<nagent-next>n</nagent-next>"),
                Effect::Act(_) => done("nagent-next-input"),
                Effect::Done(outcome) => {
                    prop_assert_eq!(outcome.exit, Exit::Limit);
                    return Ok(());
                }
                other => return Err(TestCaseError::fail(show(&other))),
            };
            effect = turn.step(event);
        }
        prop_assert!(false, "it never ended");
    }
}
