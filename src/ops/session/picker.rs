//! A list of conversations to choose from: what is typed filters it. The conversations are read while no key is pressed,
//! the newest first, so that the list is there at once, however many there are.

use std::os::fd::AsFd;
use std::time::Duration;

use crate::ops::conversations::{Catalog, Conversation, READ_AT_ONCE, read_each};
use crate::ops::screen::spinner::DrawnRows;
use conversation::format::columns::truncate_left;
use conversation::format::numbers::format_age;
use conversation::problem::Problem;
use sys::interrupt::{Interrupts, ResumeWatch};
use sys::tty::{Key, Keys};
use sys::{clock, terminal};
use view::overview::{ConversationKind, Overview};
use view::style::{BOLD, DIM, PLAIN, Span};

/// Maximum number of conversations that are shown.
const SHOWN: usize = 12;

/// A conversation to choose.
struct Choice {
    name: String,
    row: String,
    /// The row in lower case, which is searched.
    text: String,
}

/// Lets the user choose a conversation. `None`: none was chosen.
pub(super) fn pick_conversation(
    catalog: &Catalog,
    interrupts: &Interrupts,
) -> Result<Option<String>, Problem> {
    let Some(mut keys) = Keys::start() else { return Ok(None) };
    let mut names = catalog.newest_names()?;
    names.retain(|name| ConversationKind::from_name(name).is_of_a_person());
    let mut unread = names.chunks(READ_AT_ONCE).peekable();
    let (mut choices, mut filter, mut chosen) = (Vec::new(), String::new(), 0_usize);
    let (mut drawn, mut shown, resumed) = (DrawnRows::default(), None, ResumeWatch::start());
    loop {
        if resumed.take() {
            // The shell has written below it.
            (drawn, shown) = (DrawnRows::default(), None);
        }
        let found = find_choices(&choices, &filter);
        chosen = chosen.min(found.len().saturating_sub(1));
        let rows = (make_rows(&found, choices.len(), &filter, chosen), terminal::window());
        if shown.as_ref() != Some(&rows) {
            drawn.replace(rows.0.clone());
            shown = Some(rows);
        }
        let longest = unread.peek().map_or(Duration::MAX, |_| Duration::ZERO);
        let (typed, _) = keys.wait(interrupts.as_fd(), longest);
        if interrupts.pending().is_some() {
            drawn.clear();
            return Ok(None);
        }
        for key in &typed {
            match key {
                Key::Up => chosen = chosen.saturating_sub(1),
                Key::Down => chosen += 1,
                Key::Char('\t' | '\n') => {}
                Key::Char(c) => filter.push(*c),
                Key::Backspace => drop(filter.pop()),
                Key::Clear => filter.clear(),
                Key::Enter | Key::Escape => {
                    drawn.clear();
                    let found = find_choices(&choices, &filter);
                    let picked = found.get(chosen).filter(|_| *key == Key::Enter);
                    return Ok(picked.map(|choice| choice.name.clone()));
                }
            }
            if !matches!(key, Key::Up | Key::Down) {
                chosen = 0;
            }
        }
        if let Some(names) = unread.next_if(|_| typed.is_empty()) {
            choices.extend(read_each(names, &|name| catalog.read_conversation(name), &make_choice));
        }
    }
}

fn make_choice(one: Conversation) -> Option<Choice> {
    let Overview { prompts, first_words, .. } = &one.overview;
    if *prompts == 0 || !one.kind.is_of_a_person() {
        return None;
    }
    let age = format_age(clock::since_epoch().saturating_sub(one.modified));
    // The others have names that nobody has chosen.
    let is_named = one.kind == ConversationKind::Named;
    let name = if is_named { format!("  ({})", one.name) } else { String::new() };
    let row = format!("{age:>6}  {first_words}{name}");
    Some(Choice { name: one.name, text: row.to_lowercase(), row })
}

/// The choices in which each word of the filter is found: first those that have the words as they are, then those that
/// have their letters in this order.
fn find_choices<'a>(choices: &'a [Choice], filter: &str) -> Vec<&'a Choice> {
    let filter = filter.to_lowercase();
    let rank = |choice: &Choice| {
        filter.split_whitespace().try_fold(0, |rank, word| {
            let mut letters = choice.text.chars();
            let is_part = choice.text.contains(word);
            let is_like = is_part || word.chars().all(|c| letters.any(|letter| letter == c));
            is_like.then_some(rank + u32::from(!is_part))
        })
    };
    let found = choices.iter().filter_map(|choice| Some((rank(choice)?, choice)));
    let mut found: Vec<(u32, &Choice)> = found.collect();
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, choice)| choice).collect()
}

/// The rows around the chosen one, and the filter below.
fn make_rows(found: &[&Choice], of: usize, filter: &str, chosen: usize) -> Vec<Span> {
    let (columns, height) = (terminal::width(), terminal::height());
    let count = SHOWN.min(height.saturating_sub(2)).max(1);
    let from = (chosen + 1).saturating_sub(count);
    let row = |(at, choice): (usize, &&Choice)| {
        let (mark, style) = if at == chosen { ("›", BOLD) } else { (" ", PLAIN) };
        Span::new(format!("{mark}{}", choice.row), style)
    };
    let mut rows: Vec<Span> = found.iter().enumerate().skip(from).take(count).map(row).collect();
    let head = format!("{} of {of}> ", found.len());
    let room = columns.saturating_sub(head.len() + 1);
    rows.push(Span::new(head + &truncate_left(filter, room), DIM));
    rows
}
