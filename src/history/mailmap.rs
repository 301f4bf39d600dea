//! `.mailmap`: the names and addresses that people want to be known by. Text → value; reads no file.
//!
//! ```text
//! Proper Name <commit@address>
//! <proper@address> <commit@address>
//! Proper Name <proper@address> <commit@address>
//! Proper Name <proper@address> Commit Name <commit@address>
//! # comment
//! ```
//! As in git, names and addresses of commits are compared without regard to (ASCII) case, an entry with the commit's
//! name goes before one without, and a later line adds to or replaces what earlier ones say. Lines that are none of
//! these are passed over, and those whose first address is empty.

use std::collections::HashMap;

/// A mailmap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mailmap {
    /// By address and name, both lower case; the empty name is any.
    entries: HashMap<(String, String), Proper>,
}

/// What replaces a name and an address, where something does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Proper {
    name: Option<String>,
    email: Option<String>,
}

impl Mailmap {
    /// Reads a mailmap.
    pub fn parse(text: &str) -> Self {
        let mut map = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            map.add(line);
        }
        map
    }

    /// Whether it replaces nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn add(&mut self, line: &str) {
        let Some((name, email, rest)) = person(line) else { return };
        if email.is_empty() {
            return;
        }
        let second = person(rest);
        let (proper, old_name, old_email) = match second {
            None => (Proper { name, email: None }, None, email),
            Some((old_name, old_email, _)) => {
                (Proper { name, email: Some(email) }, old_name, old_email)
            }
        };
        let key =
            (old_email.to_ascii_lowercase(), old_name.unwrap_or_default().to_ascii_lowercase());
        let is_for_any_name = key.1.is_empty();
        let entry = self.entries.entry(key).or_default();
        if is_for_any_name {
            entry.name = proper.name.or(entry.name.take());
            entry.email = proper.email.or(entry.email.take());
        } else {
            *entry = proper;
        }
    }

    /// The name and address that somebody wants to be known by.
    pub fn resolve(&self, name: &str, email: &str) -> (String, String) {
        let key = |name: &str| (email.to_ascii_lowercase(), name.to_ascii_lowercase());
        let proper = self
            .entries
            .get(&key(name))
            .or_else(|| self.entries.get(&key("")))
            .cloned()
            .unwrap_or_default();
        (
            proper.name.unwrap_or_else(|| name.to_owned()),
            proper.email.unwrap_or_else(|| email.to_owned()),
        )
    }
}

/// A name, which may be missing, and an address in angle brackets; then what comes after.
fn person(text: &str) -> Option<(Option<String>, String, &str)> {
    let (name, rest) = text.split_once('<')?;
    let (email, rest) = rest.split_once('>')?;
    let name = name.trim();
    Some(((!name.is_empty()).then(|| name.to_owned()), email.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_known_as_they_want_to_be() {
        let map = Mailmap::parse(
            "# a comment\nProper One <one@x>\n<two@y> <two@x>\nThree <three@y> <three@x>\n\
             Four <four@y> old four <shared@x>\nFive <five@y> OLD five <shared@x>\nnot a line\n<half\n\
             Late <three@x>\r\n",
        );
        let check = |name: &str, email: &str, expect: (&str, &str)| {
            let (new_name, new_email) = map.resolve(name, email);
            assert_eq!((new_name.as_str(), new_email.as_str()), expect, "{name} {email}");
        };
        check("o", "one@x", ("Proper One", "one@x"));
        check("o", "ONE@X", ("Proper One", "ONE@X"));
        check("two", "two@x", ("two", "two@y"));
        check("3", "three@x", ("Late", "three@y"));
        check("Old Four", "shared@x", ("Four", "four@y"));
        check("old five", "Shared@x", ("Five", "five@y"));
        check("nobody", "shared@x", ("nobody", "shared@x"));
        check("", "", ("", ""));
    }
}
