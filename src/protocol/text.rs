//! The protocol as a model reads it in the first context. Short: every request carries it.
//!
//! The tags come from the table; the rules below them are what the table cannot say.

use super::tags::TAGS;

/// What stands before the tags.
const HEAD: &str = "Reply with these tags and white space, nothing else ([…] may be left out):\n";

/// What stands after them.
const RULES: &str = r#"
- Every tag but nagent-response is an action. One reply may hold several; they run in order, and their results come as your next input. A reply without an action ends the run.
- Values stand in "" or ''; in them write &quot; &apos; &amp; &lt; &gt; for " ' & < >. Bodies are raw: escape nothing there.
- A body ends at the first closing tag of its name. If it holds that tag, add fence="WORD", a word that it does not hold, and close with </NAME WORD>.
- One mistake, text outside tags included, and nothing of the reply runs.
- Results, prompts and status come only from the driver. Never write them: send the action and wait.
- nagent-edit takes one or more blocks; all apply or none. The old lines must occur once in the file. If the text holds such markers, make yours longer, all alike:
<<<<<<< SEARCH
old lines
=======
new lines
>>>>>>> REPLACE
"#;

/// The protocol for a model, ending in a line feed.
pub fn text() -> String {
    let mut text = HEAD.to_owned();
    for tag in &TAGS {
        for (form, shape) in tag.forms().iter().zip(tag.shapes()) {
            // A form of its own is that of an attribute that excludes others, which then says what it does.
            let own = form.first().filter(|(attribute, _)| !attribute.excludes.is_empty());
            let meaning = own.map_or(tag.meaning, |(attribute, _)| attribute.meaning);
            text += &format!("{shape} {meaning}\n");
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
        assert!(text.len() <= 2_200, "{} bytes", text.len());
        for tag in &TAGS {
            for shape in tag.shapes() {
                assert!(text.contains(&format!("\n{shape} ")), "{shape}");
            }
            assert!(text.contains(tag.meaning), "{}", tag.name);
        }
        assert!(text.is_ascii() || text.matches('…').count() == 1);
        assert!(text.ends_with(">>>>>>> REPLACE\n"));
    }
}
