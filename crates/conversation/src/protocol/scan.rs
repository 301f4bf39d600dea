//! The parts of a tag, each read from the start of a text.
//!
//! By hand, since every start of nagent and every reply needs them: compiling patterns took longer than reading the reply.

/// White space in a body, which may be empty but for it, and between the parts of a tag.
pub(super) const BLANK: [char; 4] = [' ', '\t', '\r', '\n'];

/// Cuts off the characters at the start that are such.
fn split_while(text: &str, is_such: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|char| !is_such(char)).unwrap_or(text.len()))
}

/// The name of a tag or of an attribute, and the text behind it.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "_.:-".contains(char);
    let found = split_while(text, is_part);
    found.0.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_').then_some(found)
}

/// The start of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TagStart<'a> {
    /// The offset of its `<`.
    pub(super) at: usize,
    /// Whether it is a closing tag.
    pub(super) closes: bool,
    pub(super) name: &'a str,
}

impl TagStart<'_> {
    /// The number of bytes up to the end of the name.
    pub(super) fn len(&self) -> usize {
        1 + usize::from(self.closes) + self.name.len()
    }
}

/// Reads the start of any tag.
pub(super) fn read_tag(text: &str) -> Option<TagStart<'_>> {
    let inner = text.strip_prefix('<')?;
    let (closes, inner) = inner.strip_prefix('/').map_or((false, inner), |inner| (true, inner));
    Some(TagStart { at: 0, closes, name: split_name(inner)?.0 })
}

/// The starts of tags of this protocol, anywhere in a text and in any spelling.
pub(super) fn find_tags(text: &str) -> impl Iterator<Item = TagStart<'_>> {
    text.match_indices('<').filter_map(|(at, _)| {
        let (_, inner) = text.split_at(at + 1);
        let (closes, inner) = inner.strip_prefix('/').map_or((false, inner), |inner| (true, inner));
        let prefix = inner.get(..7).filter(|it| it.to_ascii_lowercase().starts_with("nagent"))?;
        let is_part = |char: char| char.is_ascii_alphabetic() || "_-".contains(char);
        let (rest, _) = split_while(&inner[7..], is_part);
        let is_tag = prefix.ends_with(['-', '_']) && !rest.is_empty();
        is_tag.then(|| TagStart { at, closes, name: &inner[..7 + rest.len()] })
    })
}

/// Reads the name in an opening or closing tag with white space anywhere; at most 64 characters of it.
pub(super) fn read_loose_name(text: &str) -> Option<&str> {
    let is_space = |char: char| matches!(char, '\t'..='\r' | ' ');
    let inner = text.strip_prefix('<')?.trim_start_matches(is_space);
    let inner = inner.strip_prefix('/').unwrap_or(inner).trim_start_matches(is_space);
    let (name, _) = split_while(inner, |char| char.is_ascii_alphanumeric() || "_-".contains(char));
    let is_name = name.starts_with(|char: char| char.is_ascii_alphabetic());
    is_name.then(|| &name[..name.len().min(64)])
}

/// An attribute and the white space before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RawAttribute<'a> {
    /// The offset of the name.
    pub(super) at: usize,
    pub(super) name: &'a str,
    /// The value as it is written, without quotes.
    pub(super) value: &'a str,
    /// The offset behind the attribute.
    pub(super) end: usize,
}

/// Reads an attribute. A value without quotes is a word that does not begin with `/` or `*` and does not end with `/`.
pub(super) fn read_attribute(text: &str) -> Option<RawAttribute<'_>> {
    let (space, named) = split_while(text, |char| BLANK.contains(&char));
    let (name, rest) = split_name(named).filter(|_| !space.is_empty())?;
    let rest = rest.trim_start_matches(BLANK).strip_prefix('=')?.trim_start_matches(BLANK);
    let quoted = |quote: char| rest.strip_prefix(quote)?.split_once(quote);
    let (value, rest) = quoted('"').or_else(|| quoted('\'')).or_else(|| {
        let is_part = |char: char| char.is_ascii_alphanumeric() || "_.:/*-".contains(char);
        let word = split_while(rest, is_part).0.trim_end_matches('/');
        let is_word = !word.is_empty() && !word.starts_with(['/', '*']);
        is_word.then(|| rest.split_at(word.len()))
    })?;
    Some(RawAttribute { at: space.len(), name, value, end: text.len() - rest.len() })
}

/// Reads the end of a tag and the white space before it. Returns whether it has a slash, and its length.
pub(super) fn read_end(text: &str) -> Option<(bool, usize)> {
    let rest = text.trim_start_matches(BLANK);
    let inner = rest.strip_prefix('/');
    let rest = inner.unwrap_or(rest).strip_prefix('>')?;
    Some((inner.is_some(), text.len() - rest.len()))
}

/// Whether a text can be the word of a fence.
pub(super) fn is_fence_word(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    matches!(text.len(), 1..=64) && text.bytes().all(is_part)
}

/// Whether a text is a number from 1, without a sign or zeros before it.
pub(super) fn is_positive(text: &str) -> bool {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    matches!(text.len(), 1..=20) && is_number && !text.starts_with('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_tag_are_read_as_their_patterns_say() {
        let whole = |text: &str| {
            read_attribute(text).map(|it| (it.name.to_owned(), it.value.to_owned(), it.end))
        };
        let is = |name: &str, value: &str, end| Some((name.to_owned(), value.to_owned(), end));
        assert_eq!(whole(" a=\"x'>\" b"), is("a", "x'>", 8));
        assert_eq!(whole("\n\ta = 'x\"'>"), is("a", "x\"", 10));
        assert_eq!(whole(" a=src/*.rs/>"), is("a", "src/*.rs", 11));
        assert_eq!(whole(" a=5>"), is("a", "5", 4));
        for wrong in ["a=\"x\"", " a", " a=", " a=\"x", " a='x\"", " a=/x", " a=*", " 1=2", " a=>"]
        {
            assert_eq!(read_attribute(wrong), None, "{wrong:?}");
        }
        assert_eq!(
            (read_end(" \r\n/>x"), read_end(">"), read_end("/ >")),
            (Some((true, 5)), Some((false, 1)), None)
        );
        let tags: Vec<_> = find_tags("<a><NAGENT_read é</nagent-x-y><nagent-><nagent-é").collect();
        let names: Vec<_> =
            tags.iter().map(|tag| (tag.at, tag.closes, tag.name, tag.len())).collect();
        assert_eq!(names, [(3, false, "NAGENT_read", 12), (18, true, "nagent-x-y", 12)]);
        assert_eq!(read_loose_name("< / user-prompt x"), Some("user-prompt"));
        assert_eq!((read_loose_name("<-a"), read_loose_name("a")), (None, None));
        assert_eq!(read_loose_name(&format!("<{}", "a".repeat(70))).map(str::len), Some(64));
        assert!(is_fence_word("A.b-_9") && !is_fence_word("") && !is_fence_word("a b"));
        assert!(is_positive("10") && !is_positive("01") && !is_positive("") && !is_positive("-1"));
    }
}
