//! JSON pieces that the wire formats share: bodies written straight into memory, and fields read leniently.
//!
//! Servers that call themselves compatible send `null`, arrays and floats where others send strings and integers;
//! [`Text`] and [`Count`] take them all, so that one odd field does not cost the reply. Nothing here knows a provider.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Ask;

/// The body of a request, in one allocation where the guess of its size holds.
pub(super) fn body(ask: &Ask<'_>, value: &impl Serialize) -> Vec<u8> {
    let text = ask.text_bytes();
    let parts: usize = ask.messages.iter().map(|message| message.parts.len()).sum();
    // Escapes are some ten percent of source text, and room that is not used costs no memory; each part brings its keys.
    let mut bytes = Vec::with_capacity(
        text.saturating_add(text / 5).saturating_add(parts * 96).saturating_add(1024),
    );
    serde_json::to_writer(&mut bytes, value)
        .expect("strings and numbers written to memory cannot fail");
    bytes
}

/// The parts of a message as one JSON string with a blank line between them, written without a copy.
pub(super) struct Joined<'a>(pub(super) &'a [&'a str]);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            f.write_str(part)?;
        }
        Ok(())
    }
}

impl Serialize for Joined<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            [one] => serializer.serialize_str(one),
            _ => serializer.collect_str(self),
        }
    }
}

/// A JSON array of what an iterator gives, made while it is written.
pub(super) struct List<I>(pub(super) I);

impl<I> Serialize for List<I>
where
    I: Iterator + Clone,
    I::Item: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// A text, borrowed where it holds no escapes. `null`, numbers and booleans are an empty text; an array is the texts
/// of its parts, those of a type other than `text` and `output_text` (thinking, images) left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl Text<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text as an owned one, if there is any.
    pub(super) fn some(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.clone().into_owned())
    }
}

impl std::ops::Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> de::Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or an array of parts")
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Text::default())
    }
    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Text::default())
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Text::default())
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Text::default())
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Text::default())
    }
    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut whole = String::new();
        while let Some(part) = seq.next_element::<Text<'de>>()? {
            whole.push_str(&part);
        }
        Ok(Text(Cow::Owned(whole)))
    }
    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut kind, mut text) = (Text::default(), Text::default());
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key {
                "type" => kind = map.next_value()?,
                "text" => text = map.next_value()?,
                _ => drop(map.next_value::<de::IgnoredAny>()?),
            }
        }
        Ok(if matches!(&*kind, "" | "text" | "output_text") { text } else { Text::default() })
    }
}

/// A count of tokens, `None` where the server gave none. Negative ones are zero, floats are cut.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count(pub(super) Option<u64>);

impl Count {
    pub(super) fn or_zero(self) -> u64 {
        self.0.unwrap_or(0)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

struct CountVisitor;

impl<'de> de::Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a count")
    }
    fn visit_u64<E>(self, count: u64) -> Result<Count, E> {
        Ok(Count(Some(count)))
    }
    fn visit_i64<E>(self, count: i64) -> Result<Count, E> {
        Ok(Count(Some(u64::try_from(count).unwrap_or(0))))
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, which is what is wanted"
    )]
    fn visit_f64<E>(self, count: f64) -> Result<Count, E> {
        Ok(Count(Some(count as u64)))
    }
    fn visit_unit<E>(self) -> Result<Count, E> {
        Ok(Count(None))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
        Ok(Count(None))
    }
    fn visit_str<E>(self, text: &str) -> Result<Count, E> {
        Ok(Count(text.trim().parse().ok()))
    }
    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Count, A::Error> {
        while seq.next_element::<de::IgnoredAny>()?.is_some() {}
        Ok(Count(None))
    }
    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
        while map.next_entry::<de::IgnoredAny, de::IgnoredAny>()?.is_some() {}
        Ok(Count(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_in_many_forms() {
        let check = |json: &str, expect: &str| {
            assert_eq!(&*serde_json::from_str::<Text<'_>>(json).unwrap(), expect, "{json}");
        };
        check(r#""plain""#, "plain");
        check(r#""esc\u00e4ped\n""#, "escäped\n");
        check("null", "");
        check("7", "");
        check("-1.5", "");
        check("true", "");
        check(
            r#"["a",{"type":"text","text":"b"},{"type":"thinking","thinking":[{"type":"text","text":"no"}]}]"#,
            "ab",
        );
        check(r#"{"text":"one part"}"#, "one part");
    }

    #[test]
    fn counts_come_in_many_forms() {
        let check = |json: &str, expect| {
            assert_eq!(serde_json::from_str::<Count>(json).unwrap().0, expect, "{json}");
        };
        check("7", Some(7));
        check("-7", Some(0));
        check("7.9", Some(7));
        check("null", None);
        check(r#""12""#, Some(12));
        check(r#"{"a":[1]}"#, None);
    }
}
