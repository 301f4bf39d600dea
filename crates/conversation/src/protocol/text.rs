//! The protocol as the model reads it in the first context. It is short, since every request carries it.

use super::tags::{TagKind, TagSet};

const HEAD: &str =
    "Reply only with these tags and white space. [Attributes] in brackets are optional.\n";

const RULES: &str = r#"
- Every other tag is an action. Several actions in a reply run in order; their results are your next input.
- Bodies are raw text: escape nothing. Only in attribute values, in "" or '', write &quot; &apos; &amp; &lt; &gt; for " ' & < >.
- A body ends at the first closing tag of its name. If the text contains that tag, add fence="WORD" (a word not in the text) and close with </NAME WORD>.
- If a tag is malformed, nothing in the reply runs.
- nagent writes results, prompts and status. Never write them yourself.
"#;

const EDIT_RULES: &str = r#"- nagent-edit takes one or more blocks; all are applied or none. The old lines must be whole lines that occur exactly once in the file. To insert, include a neighbouring line in both parts; to delete, leave the new lines empty. If the text contains such markers, make all three of yours one character longer.
<<<<<<< SEARCH
old lines
=======
new lines
>>>>>>> REPLACE
"#;

/// Tags that a model seldom wants: results name them where they apply, and the text has them if the user chose the tags.
const SELDOM: [TagKind; 3] = [TagKind::FileRead, TagKind::FilePatch, TagKind::Next];

/// Writes the protocol with these tags for the model, with a final line feed.
pub fn protocol_text(tags: TagSet) -> String {
    let mut text = HEAD.to_owned();
    let is_told = |kind| tags != TagSet::ALL || !SELDOM.contains(&kind);
    for tag in tags.iter().filter(|tag| is_told(tag.kind)) {
        for (form, shape) in tag.forms().iter().zip(tag.usage_lines()) {
            // A form with an attribute that excludes others gets the explanation of that attribute.
            let own = form.first().filter(|(attribute, _)| !attribute.excludes.is_empty());
            let meaning = own.map_or(tag.meaning, |(attribute, _)| attribute.meaning);
            text += &format!("{shape} {meaning}\n");
        }
    }
    text += RULES;
    if tags.contains(TagKind::Edit) {
        text += EDIT_RULES;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tags::Tag;
    use super::*;

    #[test]
    fn is_short_and_names_every_form() {
        let text = protocol_text(TagSet::ALL);
        assert!(text.len() <= 2_650, "{} bytes", text.len());
        let seldom = |tag: &&Tag| SELDOM.contains(&tag.kind);
        assert!(!TagSet::ALL.iter().filter(seldom).any(|tag| text.contains(tag.meaning)));
        assert!(protocol_text(TagSet::parse(["next"]).unwrap()).contains("<nagent-next>"));
        for tag in TagSet::ALL.iter().filter(|tag| !seldom(tag)) {
            for shape in tag.usage_lines() {
                assert!(text.contains(&format!("\n{shape} ")), "{shape}");
            }
            assert!(text.contains(tag.meaning), "{}", tag.name);
        }
        assert!(text.is_ascii(), "a token for each other character");
        assert!(text.ends_with(">>>>>>> REPLACE\n"));
    }
}
