//! What is printed of a repository whose commits say anything, what is read from a cache, and what a model says of commits.

use super::input::Input;
use history::people::Person;
use history::text::{Extent, Summaries, find_summary, format_date, format_history, format_news};
use history::{FileChange, FileCommit, History, summaries};

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() % 3 {
        0 => commit(&mut input),
        1 => cached(&input.text()),
        _ => answer(&input.text()),
    }
}

fn commit(input: &mut Input<'_>) {
    let name = String::from_utf8_lossy(input.field()).into_owned();
    let path = input.field().to_vec();
    let subject = String::from_utf8_lossy(input.rest).into_owned();
    let commit = FileCommit {
        id: name.clone(),
        name: name.clone(),
        email: name.clone(),
        subject,
        change: FileChange::Renamed { from: path.clone() },
        path,
        ..FileCommit::default()
    };
    let people = vec![Person { name, commits: 1, ..Person::default() }];
    let told = History { path: b"x".to_vec(), commits: vec![commit], people, ..History::default() };
    let first = format_history(&told, &Summaries::new(), Extent::Latest);
    let news = format_news(&told, &Summaries::new(), &first, &|line| line);
    // An id is hexadecimal digits.
    let id = &told.commits[0].id;
    assert!(news.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{news}");
    for extent in [Extent::Latest, Extent::Whole] {
        let text = format_history(&told, &Summaries::new(), extent);
        // One marker opens and one closes, whatever the commit says.
        assert_eq!(text.matches("{file-history}").count(), 1, "{text}");
        assert_eq!(text.matches("{/file-history}").count(), 1, "{text}");
    }
}

fn cached(text: &str) {
    if let Ok(commit) = serde_json::from_str::<FileCommit>(text) {
        let written = serde_json::to_string(&commit).expect("a commit is JSON");
        assert_eq!(serde_json::from_str::<FileCommit>(&written).expect("what was written"), commit);
        format_date(commit.time, commit.offset);
    }
}

fn answer(text: &str) {
    let asked = ["0123456789abcdef".to_owned(), "0123456aaaaaaaaa".to_owned()];
    let found = summaries::parse_answer(text, &asked);
    assert!(found.keys().all(|id| asked.contains(id)));
    if let Some(block) = find_summary(text) {
        assert!(text.contains(block));
    }
    format_news(&History::default(), &Summaries::new(), text, &|line| line);
}
