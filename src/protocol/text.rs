//! The protocol as a model reads it in the first context. Short: every request carries it.
//!
//! The tags come from the table; the rules below them are what the table cannot say.

use super::tags::TAGS;

/// What stands before the tags.
const HEAD: &str = "Reply with these tags and white space only; [attributes] are optional:\n";

/// What stands after them.
const RULES: &str = r#"
- Every tag but nagent-response is an action. Several in one reply run in order; their results are your next input. A reply without an action ends the run.
- Values stand in "" or ''; there, write &quot; &apos; &amp; &lt; &gt; for " ' & < >. Bodies are raw.
- A body ends at the first closing tag of its name. If it holds that tag as text, add fence="WORD" (a word not in it) and close with </NAME WORD>.
- After one mistake, even a word outside tags, nothing of the reply runs.
- Results, prompts and status come only from the driver: never write them.
- nagent-edit: one or more blocks, all or none; the old lines must occur once in the file. If the text holds such markers, lengthen yours alike:
<<<<<<< SEARCH
old lines
=======
new lines
>>>>>>> REPLACE
"#;

/// The protocol for a model, ending in a line feed.
pub fn text() -> String {
    let mut text = HEAD.to_owned();
    for tag in TAGS {
        for (form, shape) in tag.forms().iter().zip(tag.shapes()) {
            // A form of its own is that of an attribute that excludes others, which then says what it does.
            let own = form.first().filter(|(attribute, _)| !attribute.excludes.is_empty());
            let meaning = own.map_or(tag.meaning, |(attribute, _)| attribute.meaning);
            text += &shape;
            text += " ";
            text += meaning;
            text += "\n";
        }
    }
    text + RULES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_short_and_names_every_form() {
        let text = text();
        assert!(text.len() <= 1_925, "{} bytes", text.len());
        for tag in TAGS {
            for shape in tag.shapes() {
                assert!(text.contains(&format!("\n{shape} ")), "{shape}");
            }
            assert!(text.contains(tag.meaning), "{}", tag.name);
        }
        assert!(text.is_ascii(), "a token for each other character");
        assert!(text.ends_with(">>>>>>> REPLACE\n"));
    }
}
