//! Attributes of a tag: `name="value"` or `name='value'`.
//!
//! ```text
//! attributes = { blank, name, "=", ( '"', value, '"' | "'", value, "'" ) }
//! ```
//! Values hold anything but their quote; `&quot; &apos; &amp; &lt; &gt;` are decoded and nothing else is. Conversation
//! blocks and the tags of replies share this; it must not know about either.

/// One attribute, name and decoded value, in the order written.
pub(crate) type Attribute = (String, String);

/// Encodes a value for writing between double quotes.
pub fn encode(value: &str) -> String {
    // The ampersand comes first, so that nothing is encoded twice.
    [("&", "&amp;"), ("\"", "&quot;"), ("<", "&lt;"), (">", "&gt;")]
        .iter()
        .fold(value.to_owned(), |text, (plain, entity)| text.replace(plain, entity))
}

/// Decodes a value that was written between quotes.
pub fn decode(raw: &str) -> String {
    if !raw.contains('&') {
        return raw.to_owned();
    }
    // The ampersand comes last, so that nothing is decoded twice.
    [("&quot;", "\""), ("&apos;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")]
        .iter()
        .fold(raw.to_owned(), |text, (entity, plain)| text.replace(entity, plain))
}

/// The value of the first attribute of that name.
pub(crate) fn find_value<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a str> {
    attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Writes ` name="value"` for each attribute.
pub fn format(attributes: &[Attribute]) -> String {
    attributes.iter().map(|(name, value)| format!(" {name}=\"{}\"", encode(value))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_five_entities_are_decoded() {
        assert_eq!(decode("&quot;&apos;&amp;&lt;&gt;&nbsp;&#10;&amp;lt;"), "\"'&<>&nbsp;&#10;&lt;");
    }

    proptest! {
        #[test]
        fn decode_undoes_encode(value in "\\PC*|(&|amp;|lt;|\"|'|<|>|\n)*") {
            let encoded = encode(&value);
            prop_assert!(!encoded.contains(['"', '<', '>']));
            prop_assert_eq!(decode(&encoded), value);
        }
    }
}
