//! What was read of a file's history, as it is kept from look to look: text ↔ value. It opens no file.
//!
//! ```text
//! {"nagent_history": 1, "repository": "/p/.git", "path": "src/a.rs", "head": "9f0c…", "shallow": "",
//!  "touches": [{"id": "77ab…", "time": 1763000000, "offset": 60, "name": "A", "email": "a@x", "subject": "…",
//!    "path": "src/a.rs", "from": "a.rs", "change": "renamed", "sort": "plain", "files": 3, "committed": 1763000000}],
//!  "neighbours": [{"path": "src/b.rs", "together": 4, "share": "0.8", "rate": "high"}]}
//! {"paths": ["src/b.rs"], "together": [[0]], "today": [[0, null]], "seen": [["77ab…", "src/a.rs"]]}
//! ```
//! Two lines: the first is all that a look needs while the head is the same, the second what a look at a later head goes
//! on from. Paths are text with `%` and bytes that are no UTF-8 written as `%` and two digits. Names are as the commits
//! have them: the mailmap comes after. Text of another version, or that is damaged, is none.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer};

use super::{Change, Neighbour, Rate, Sort, Touch};

/// The form that this version writes.
const VERSION: u32 = 1;

/// What is kept belongs to this.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Key {
    /// The repository's folder, as bytes.
    pub repository: Vec<u8>,
    /// The file's path in it.
    pub path: Vec<u8>,
    /// The commit that it was read from.
    pub head: String,
    /// The hash of the list of a shallow clone's last commits; empty where there is none.
    pub shallow: String,
}

/// The history of a file at one head.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kept {
    /// What it belongs to.
    pub key: Key,
    /// The commits that touched the file, and when they were committed; names and addresses as in the commit.
    pub touches: Vec<(Touch, i64)>,
    /// The neighbours at that head.
    pub neighbours: Vec<Neighbour>,
}

/// What a look at a later head goes on from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rest {
    /// Paths that the others refer to.
    pub paths: Vec<Vec<u8>>,
    /// For each touch the other files of the commit, by number, with the names they had; `None` where it does not count.
    pub together: Vec<Option<Vec<u32>>>,
    /// What became of paths that the head's tree does not have: a path that it has, or nothing.
    pub today: Vec<(u32, Option<u32>)>,
    /// Some commits that were walked, and the file's path there.
    pub seen: Vec<(String, Vec<u8>)>,
}

#[derive(Serialize, Deserialize)]
struct FirstLine<'a> {
    nagent_history: u32,
    repository: Name<'a>,
    path: Name<'a>,
    head: Cow<'a, str>,
    shallow: Cow<'a, str>,
    touches: Vec<TouchText<'a>>,
    neighbours: Vec<NeighbourText<'a>>,
}

#[derive(Serialize, Deserialize)]
struct TouchText<'a> {
    id: Cow<'a, str>,
    time: i64,
    offset: i32,
    name: Cow<'a, str>,
    email: Cow<'a, str>,
    subject: Cow<'a, str>,
    path: Name<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<Name<'a>>,
    change: ChangeText,
    sort: SortText,
    files: u64,
    committed: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ChangeText {
    Added,
    Modified,
    Renamed,
    Deleted,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SortText {
    Plain,
    Merge,
    Import,
    Boundary,
}

#[derive(Serialize, Deserialize)]
struct NeighbourText<'a> {
    path: Name<'a>,
    together: u64,
    /// Digits in text: numbers of JSON lose their last bit on the way through the parser.
    share: String,
    rate: RateText,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RateText {
    Low,
    Medium,
    High,
}

#[derive(Serialize, Deserialize)]
struct RestText<'a> {
    paths: Vec<Name<'a>>,
    together: Cow<'a, [Option<Vec<u32>>]>,
    today: Cow<'a, [(u32, Option<u32>)]>,
    seen: Vec<(Cow<'a, str>, Name<'a>)>,
}

/// Bytes as text.
#[derive(Deserialize)]
#[serde(from = "String")]
struct Name<'a>(Cow<'a, [u8]>);

impl Serialize for Name<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) if !text.contains('%') => serializer.serialize_str(text),
            _ => serializer.serialize_str(&escaped(&self.0)),
        }
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(&chunk.valid().replace('%', "%25"));
        for byte in chunk.invalid() {
            text.push_str(&format!("%{byte:02x}"));
        }
    }
    text
}

impl From<String> for Name<'_> {
    fn from(text: String) -> Self {
        if !text.contains('%') {
            return Self(Cow::Owned(text.into_bytes()));
        }
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let Some((byte, after)) = rest.split_first() {
            let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
            let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            if let Some(escaped) = escaped.filter(|_| *byte == b'%') {
                bytes.push(escaped);
                rest = &after[2..];
            } else {
                bytes.push(*byte);
                rest = after;
            }
        }
        Self(Cow::Owned(bytes))
    }
}

/// Writes what is kept.
pub fn format(kept: &Kept, rest: &Rest) -> String {
    let head = FirstLine {
        nagent_history: VERSION,
        repository: name(&kept.key.repository),
        path: name(&kept.key.path),
        head: kept.key.head.as_str().into(),
        shallow: kept.key.shallow.as_str().into(),
        touches: kept.touches.iter().map(touch_text).collect(),
        neighbours: kept.neighbours.iter().map(neighbour_text).collect(),
    };
    let rest = RestText {
        paths: rest.paths.iter().map(|path| name(path)).collect(),
        together: rest.together.as_slice().into(),
        today: rest.today.as_slice().into(),
        seen: rest.seen.iter().map(|(id, path)| (id.as_str().into(), name(path))).collect(),
    };
    // Neither holds a map or a number that JSON has no form for.
    let line = |value: serde_json::Result<String>| value.unwrap_or_default() + "\n";
    line(serde_json::to_string(&head)) + &line(serde_json::to_string(&rest))
}

/// Reads the first line, when it belongs to the key.
pub fn parse(text: &str, key: &Key) -> Option<Kept> {
    let (line, _) = text.split_once('\n')?;
    let head: FirstLine = serde_json::from_str(line).ok()?;
    let found = Key {
        repository: head.repository.0.into_owned(),
        path: head.path.0.into_owned(),
        head: head.head.into_owned(),
        shallow: head.shallow.into_owned(),
    };
    (head.nagent_history == VERSION && found == *key).then(|| Kept {
        key: found,
        touches: head.touches.into_iter().map(touch).collect(),
        neighbours: head.neighbours.into_iter().map(neighbour).collect(),
    })
}

/// Reads the second line, when it fits the first.
pub fn parse_rest(text: &str, kept: &Kept) -> Option<Rest> {
    let (_, line) = text.split_once('\n')?;
    let rest: RestText = serde_json::from_str(line.strip_suffix('\n')?).ok()?;
    let rest = Rest {
        paths: rest.paths.into_iter().map(|name| name.0.into_owned()).collect(),
        together: rest.together.into_owned(),
        today: rest.today.into_owned(),
        seen: rest
            .seen
            .into_iter()
            .map(|(id, name)| (id.into_owned(), name.0.into_owned()))
            .collect(),
    };
    let is_path = |number: &u32| usize::try_from(*number).is_ok_and(|n| n < rest.paths.len());
    let fits = rest.together.len() == kept.touches.len()
        && rest.together.iter().flatten().flatten().all(is_path)
        && rest.today.iter().all(|(old, new)| is_path(old) && new.as_ref().is_none_or(is_path));
    fits.then_some(rest)
}

fn name(bytes: &[u8]) -> Name<'_> {
    Name(Cow::Borrowed(bytes))
}

fn touch_text((touch, committed): &(Touch, i64)) -> TouchText<'_> {
    let (change, from) = match &touch.change {
        Change::Added => (ChangeText::Added, None),
        Change::Modified => (ChangeText::Modified, None),
        Change::Renamed { from } => (ChangeText::Renamed, Some(name(from))),
        Change::Deleted => (ChangeText::Deleted, None),
    };
    let sort = match touch.sort {
        Sort::Plain => SortText::Plain,
        Sort::Merge => SortText::Merge,
        Sort::Import => SortText::Import,
        Sort::Boundary => SortText::Boundary,
    };
    TouchText {
        id: touch.id.as_str().into(),
        time: touch.time,
        offset: touch.offset,
        name: touch.name.as_str().into(),
        email: touch.email.as_str().into(),
        subject: touch.subject.as_str().into(),
        path: name(&touch.path),
        from,
        change,
        sort,
        files: touch.files,
        committed: *committed,
    }
}

fn touch(text: TouchText<'_>) -> (Touch, i64) {
    let change = match (text.change, text.from) {
        (ChangeText::Added, _) => Change::Added,
        (ChangeText::Renamed, Some(from)) => Change::Renamed { from: from.0.into_owned() },
        (ChangeText::Modified | ChangeText::Renamed, _) => Change::Modified,
        (ChangeText::Deleted, _) => Change::Deleted,
    };
    let sort = match text.sort {
        SortText::Plain => Sort::Plain,
        SortText::Merge => Sort::Merge,
        SortText::Import => Sort::Import,
        SortText::Boundary => Sort::Boundary,
    };
    let touch = Touch {
        id: text.id.into_owned(),
        time: text.time,
        offset: text.offset,
        name: text.name.into_owned(),
        email: text.email.into_owned(),
        subject: text.subject.into_owned(),
        path: text.path.0.into_owned(),
        change,
        sort,
        files: text.files,
    };
    (touch, text.committed)
}

fn neighbour_text(neighbour: &Neighbour) -> NeighbourText<'_> {
    NeighbourText {
        path: name(&neighbour.path),
        together: neighbour.together,
        share: neighbour.share.to_string(),
        rate: match neighbour.rate {
            Rate::Low => RateText::Low,
            Rate::Medium => RateText::Medium,
            Rate::High => RateText::High,
        },
    }
}

fn neighbour(text: NeighbourText<'_>) -> Neighbour {
    Neighbour {
        path: text.path.0.into_owned(),
        together: text.together,
        share: text.share.parse().unwrap_or_default(),
        rate: match text.rate {
            RateText::Low => Rate::Low,
            RateText::Medium => Rate::Medium,
            RateText::High => Rate::High,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(b"a%2/\n\"\\\0\xff\xc3\xa9".to_vec()), 0..9)
    }

    fn any_touch() -> impl Strategy<Value = (Touch, i64)> {
        let change = prop_oneof![
            Just(Change::Added),
            Just(Change::Modified),
            Just(Change::Deleted),
            bytes().prop_map(|from| Change::Renamed { from }),
        ];
        let sort =
            prop::sample::select(vec![Sort::Plain, Sort::Merge, Sort::Import, Sort::Boundary]);
        let times = (any::<i64>(), any::<i32>(), any::<i64>());
        ("[0-9a-f]{4}", times, ".{0,5}", ".{0,5}", ".{0,5}", bytes(), change, sort, any::<u64>())
            .prop_map(
                |(
                    id,
                    (time, offset, committed),
                    name,
                    email,
                    subject,
                    path,
                    change,
                    sort,
                    files,
                )| {
                    (
                        Touch { id, time, offset, name, email, subject, path, change, sort, files },
                        committed,
                    )
                },
            )
    }

    fn any_kept() -> impl Strategy<Value = (Kept, Rest)> {
        let rate = prop::sample::select(vec![Rate::Low, Rate::Medium, Rate::High]);
        let neighbour = (bytes(), any::<u64>(), 0.0..=1.0_f64, rate)
            .prop_map(|(path, together, share, rate)| Neighbour { path, together, share, rate });
        let key = (bytes(), bytes(), "[0-9a-f]{4}", "[0-9a-f]{0,4}")
            .prop_map(|(repository, path, head, shallow)| Key { repository, path, head, shallow });
        let touches = prop::collection::vec(
            (any_touch(), prop::option::of(prop::collection::vec(0..3_u32, 0..4))),
            0..5,
        );
        let today = prop::collection::vec((0..3_u32, prop::option::of(0..3_u32)), 0..3);
        let seen = prop::collection::vec(("[0-9a-f]{4}", bytes()), 0..3);
        let neighbours = prop::collection::vec(neighbour, 0..4);
        let paths = prop::collection::vec(bytes(), 3);
        (key, touches, neighbours, paths, today, seen).prop_map(
            |(key, touches, neighbours, paths, today, seen)| {
                let (touches, together) = touches.into_iter().unzip();
                (Kept { key, touches, neighbours }, Rest { paths, together, today, seen })
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_kept_comes_back((kept, rest) in any_kept()) {
            let text = format(&kept, &rest);
            prop_assert_eq!(text.lines().count(), 2);
            prop_assert_eq!(parse(&text, &kept.key), Some(kept.clone()));
            prop_assert_eq!(parse_rest(&text, &kept), Some(rest));
        }

        #[test]
        fn damage_is_none_or_the_same((kept, rest) in any_kept(), cut in 0.0..1.0_f64) {
            let text = format(&kept, &rest);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a small number")]
            let cut = text.floor_char_boundary((text.len() as f64 * cut) as usize);
            let torn = &text[..cut];
            prop_assert!(parse_rest(torn, &kept).is_none());
            if let Some(found) = parse(torn, &kept.key) {
                prop_assert_eq!(found, kept);
            }
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,40}\n?\\PC{0,40}") {
            let _ = parse(&text, &Key::default()).and_then(|kept| parse_rest(&text, &kept));
        }
    }

    #[test]
    fn what_belongs_to_another_is_none() {
        let kept = Kept { key: Key { head: "1".into(), ..Key::default() }, ..Kept::default() };
        let text = format(&kept, &Rest::default());
        assert!(parse(&text, &kept.key).is_some());
        for key in [
            Key { head: "2".into(), ..kept.key.clone() },
            Key { shallow: "x".into(), ..kept.key.clone() },
            Key { path: b"x".into(), ..kept.key.clone() },
            Key { repository: b"x".into(), ..kept.key.clone() },
        ] {
            assert_eq!(parse(&text, &key), None);
        }
        assert_eq!(parse(&text.replacen(":1,", ":2,", 1), &kept.key), None);
        let beyond = Rest { today: vec![(0, None)], ..Rest::default() };
        assert_eq!(parse_rest(&format(&kept, &beyond), &kept), None);
    }
}
