//! Git's commits and trees as bytes → values. No object is looked up here; ids stay bytes.
//!
//! ```text
//! commit = "tree " hex LF, ("parent " hex LF)*, "author " person LF, "committer " person LF, (header LF)*, LF, message
//! person = name " <" email "> " seconds " " ("+" | "-") hhmm
//! tree   = (mode SP name NUL id)*            the mode in octal; sorted by name, folders as if they ended in "/"
//! ```
//! What is damaged in a commit reads as empty or 0: such commits are in old repositories, and git shows them too.

use std::borrow::Cow;

use crate::format::harmless::truncate;

/// What a commit holds, borrowed from its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawCommit<'a> {
    /// The id of its tree, in hexadecimal digits.
    pub tree: &'a [u8],
    /// The ids of its parents, the same way.
    pub parents: Vec<&'a [u8]>,
    /// The author's line.
    pub author: &'a [u8],
    /// The committer's line.
    pub committer: &'a [u8],
    /// The name of the encoding of names and message, where it is not UTF-8.
    pub encoding: &'a [u8],
    /// All after the headers.
    pub message: &'a [u8],
}

/// Reads a commit; `None` when it has no tree.
pub fn commit(bytes: &[u8]) -> Option<RawCommit<'_>> {
    let mut commit = RawCommit::default();
    let mut rest = bytes;
    loop {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let (line, after) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
        rest = after;
        if line.is_empty() {
            break;
        }
        if let Some(id) = line.strip_prefix(b"tree ") {
            commit.tree = id;
        } else if let Some(id) = line.strip_prefix(b"parent ") {
            commit.parents.push(id);
        } else if let Some(person) = line.strip_prefix(b"author ") {
            commit.author = person;
        } else if let Some(person) = line.strip_prefix(b"committer ") {
            commit.committer = person;
        } else if let Some(name) = line.strip_prefix(b"encoding ") {
            commit.encoding = name;
        }
    }
    commit.message = rest;
    (!commit.tree.is_empty()).then_some(commit)
}

/// A person's line in parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Person<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The address.
    pub email: &'a [u8],
    /// Seconds since 1970, UTC.
    pub time: i64,
    /// The offset from UTC in minutes.
    pub offset: i32,
}

/// Reads a person's line.
pub fn person(line: &[u8]) -> Person<'_> {
    let Some(open) = memchr::memchr(b'<', line) else {
        return Person { name: line.trim_ascii(), ..Person::default() };
    };
    // Damaged addresses hold more of these: as git has it, the first ends the address, and the time is behind the last.
    let after = |close: usize| line.get(close + 1..).unwrap_or_default();
    let close = memchr::memchr(b'>', &line[open..]).map_or(line.len(), |at| open + at);
    let tail = memchr::memrchr(b'>', line).filter(|last| *last >= close).map_or(&[][..], after);
    let mut tail = std::str::from_utf8(tail).unwrap_or_default().split_ascii_whitespace();
    let time = tail.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let offset: i32 = tail.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let is_sane = offset.unsigned_abs() <= 9959;
    let offset = if is_sane { offset / 100 * 60 + offset % 100 } else { 0 };
    Person {
        name: line[..open].trim_ascii(),
        email: line[open + 1..close].trim_ascii(),
        time,
        offset,
    }
}

/// Text as UTF-8. Latin-1 is known beside it; bytes of other encodings that are no UTF-8 become U+FFFD.
pub fn decoded<'a>(bytes: &'a [u8], encoding: &[u8]) -> Cow<'a, str> {
    let is_latin = [b"iso-8859-1".as_slice(), b"iso8859-1", b"latin1", b"latin-1"]
        .iter()
        .any(|name| encoding.eq_ignore_ascii_case(name));
    if is_latin {
        Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect())
    } else {
        String::from_utf8_lossy(bytes)
    }
}

/// The longest subject, name and address that are kept, in characters: a message of megabytes may be one line.
pub const LONGEST: usize = 1_000;

/// The first paragraph of a message on one line; of [`LONGEST`] characters at most.
pub fn subject(message: &str) -> String {
    let lines = message.lines().map(str::trim_end).skip_while(|line| line.is_empty());
    let mut subject = String::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        if !subject.is_empty() {
            subject.push(' ');
        }
        subject.push_str(line);
        if subject.len() > 4 * LONGEST {
            break;
        }
    }
    truncate(&subject, LONGEST)
}

/// The entries of a tree: mode, name, id. What is torn at the end is left out.
pub fn tree(bytes: &[u8], id_length: usize) -> impl Iterator<Item = (u32, &[u8], &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        // A mode has five or six digits: no search is needed.
        let mut mode = 0;
        let mut at = 0;
        loop {
            match rest.get(at)? {
                b' ' => break,
                digit => mode = (mode << 3) | u32::from(digit & 7),
            }
            at += 1;
        }
        let name = rest.get(at + 1..)?;
        let end = memchr::memchr(0, name)?;
        let id = name.get(end + 1..end + 1 + id_length)?;
        rest = &name[end + 1 + id_length..];
        Some((mode, &name[..end], id))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_address_ends_where_git_ends_it() {
        let check = |line: &str, expect: (&str, &str, i64, i32)| {
            let found = person(line.as_bytes());
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let found = (text(found.name), text(found.email), found.time, found.offset);
            assert_eq!(found, (expect.0.into(), expect.1.into(), expect.2, expect.3), "{line}");
        };
        check("Ann <a@x> 17 +0130", ("Ann", "a@x", 17, 90));
        check("Ann <a>b> <a@x> 17 -0330", ("Ann", "a", 17, -210));
        check("</x> <y> 17 +0000", ("", "/x", 17, 0));
        check("a> <b 17 +0000", ("a>", "b 17 +0000", 0, 0));
        check("Ann <a@x>", ("Ann", "a@x", 0, 0));
        check("Ann", ("Ann", "", 0, 0));
        check("", ("", "", 0, 0));
    }

    #[test]
    fn a_subject_is_the_first_paragraph_and_no_novel() {
        assert_eq!(subject("\n \na \nb\n\nc"), "a b");
        assert_eq!(subject(""), "");
        for long in ["é".repeat(2 << 20), "é\n".repeat(1 << 20)] {
            let subject = subject(&long);
            assert_eq!(subject.chars().count(), LONGEST);
            assert!(subject.ends_with('…'));
        }
    }
}
