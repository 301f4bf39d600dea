//! Finds duplicate members in a JSON text. Parsers silently keep one of the two, and not all keep the same one.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// The JSON pointers of duplicate members in the first value of a text.
pub fn find_repeated_members(text: &str) -> Vec<String> {
    let mut found = BTreeSet::new();
    let mut reader = serde_json::Deserializer::from_str(text);
    // The actual parser reports invalid JSON.
    let _ = DuplicateFinder { at: String::new(), found: &mut found }.deserialize(&mut reader);
    found.into_iter().collect()
}

struct DuplicateFinder<'a> {
    at: String,
    found: &'a mut BTreeSet<String>,
}

impl<'de> DeserializeSeed<'de> for DuplicateFinder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateFinder<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(name) = members.next_key::<String>()? {
            let at = format!("{}/{}", self.at, name.replace('~', "~0").replace('/', "~1"));
            if !seen.insert(name) {
                self.found.insert(at.clone());
            }
            members.next_value_seed(DuplicateFinder { at, found: &mut *self.found })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while items
            .next_element_seed(DuplicateFinder {
                at: format!("{}/{index}", self.at),
                found: &mut *self.found,
            })?
            .is_some()
        {
            index += 1;
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_are_there_twice_are_found_at_any_depth() {
        let check = |text: &str, expect: &[&str]| {
            assert_eq!(find_repeated_members(text), expect, "{text}");
        };
        check(r#"{"a": 1, "b": [{"a": null}, 1.5, "x", true, -2], "c": {}}"#, &[]);
        check(r#"{"a": 1, "a": 1}"#, &["/a"]);
        check(
            r#"{"a": 1, "\u0061": 2, "b": [0, {"x/y": {}, "x/y": []}], "a": 3}"#,
            &["/a", "/b/1/x~1y"],
        );
        check(r#"[{"a": {"b": 1, "b": 2}}] and more"#, &["/0/a/b"]);
        check(r#"{"a": 1, "a":"#, &["/a"]);
        check(&"[".repeat(100_000), &[]);
        check("", &[]);
    }
}
