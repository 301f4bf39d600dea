//! What is read of a repository: commits, trees, the mailmap, how like two contents are, what is kept of a history, and what
//! a model says of commits.

use super::input::Input;
use nagent::history::kept::{Kept, Key, Rest, format, parse, parse_rest};
use nagent::history::mailmap::Mailmap;
use nagent::history::similarity::{Pieces, RENAME, may_be_rename};
use nagent::history::text::{Extent, Summaries, date, history, told_step, told_summary};
use nagent::history::{Change, History, Person, Touch, object, summaries};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() % 5 {
        0 => commit(input.rest),
        1 => {
            let map = Mailmap::parse(&input.text());
            let (name, email) = map.resolve("Ann", "a@x");
            map.resolve(&name, &email);
            assert_eq!(Mailmap::default().resolve("Ann", "a@x"), ("Ann".into(), "a@x".into()));
            let mut entries = 0;
            for (_, name, id) in object::tree(input.rest, 20) {
                assert!(!name.contains(&0) && id.len() == 20);
                entries += 1;
            }
            assert!(entries * 22 <= input.rest.len());
        }
        2 => {
            let (one, other) = (input.field(), input.rest);
            let (a, b) = (Pieces::of(one), Pieces::of(other));
            assert_eq!(a.score(&b), b.score(&a));
            assert!(a.score(&b) < RENAME || may_be_rename(one.len(), other.len()));
            assert!(a.len() <= one.len());
        }
        3 => kept(&input.text()),
        _ => answer(&input.text()),
    }
}

fn commit(bytes: &[u8]) {
    let Some(raw) = object::commit(bytes) else { return };
    let author = object::person(raw.author);
    let name = object::decoded(author.name, raw.encoding).into_owned();
    let subject = object::subject(&object::decoded(raw.message, raw.encoding));
    assert!(subject.chars().count() <= object::LONGEST && !subject.contains('\n'));
    let touch = Touch {
        id: String::from_utf8_lossy(raw.tree).into_owned(),
        time: author.time,
        offset: author.offset,
        name: name.clone(),
        email: String::from_utf8_lossy(author.email).into_owned(),
        subject,
        path: author.name.to_vec(),
        change: Change::Renamed { from: raw.message.to_vec() },
        ..Touch::default()
    };
    let people = vec![Person { name, commits: 1, ..Person::default() }];
    let told = History { path: b"x".to_vec(), touches: vec![touch], people, ..History::default() };
    for extent in [Extent::Latest, Extent::Whole] {
        let text = history(&told, &Summaries::new(), extent);
        // One marker opens and one closes, whatever the commit says.
        assert_eq!(text.matches("{file-history}").count(), 1, "{text}");
        assert_eq!(text.matches("{/file-history}").count(), 1, "{text}");
    }
}

fn kept(text: &str) {
    let key = Key::default();
    let touch = Touch { id: text.to_owned(), path: text.as_bytes().to_vec(), ..Touch::default() };
    let value = Kept { key: key.clone(), touches: vec![(touch, i64::MIN)], neighbours: Vec::new() };
    let rest = Rest {
        together: vec![None],
        seen: vec![(text.to_owned(), text.into())],
        ..Rest::default()
    };
    let written = format(&value, &rest);
    assert_eq!(parse(&written, &key).as_ref(), Some(&value));
    assert_eq!(parse_rest(&written, &value).as_ref(), Some(&rest));

    // The key in front saves the fuzzer guessing it.
    let (first, second) = text.split_once('\n').unwrap_or((text, ""));
    let head = r#"{"nagent_history":1,"repository":"","path":"","head":"","shallow":"","#;
    let whole = format!("{head}{first}\n{second}\n");
    for text in [text, &whole] {
        let Some(found) = parse(text, &key) else { continue };
        let rest = parse_rest(text, &found).unwrap_or_default();
        let written = format(&found, &rest);
        let again = parse(&written, &key).expect("what was written");
        assert_eq!(again.touches, found.touches);
        for (touch, _) in &found.touches {
            date(touch.time, touch.offset);
        }
    }
}

fn answer(text: &str) {
    let asked = ["0123456789abcdef".to_owned(), "0123456aaaaaaaaa".to_owned()];
    let found = summaries::read(text, &asked);
    assert!(found.keys().all(|id| asked.contains(id)));
    if let Some(block) = told_summary(text, b"x") {
        assert!(text.contains(block));
    }
    told_step(text, &Touch::default());
}
