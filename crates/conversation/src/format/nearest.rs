//! Finds the known word that is most similar to a misspelled one.

/// Minimum similarity of a misspelled word to a known one, from 0 to 1, as `similar` measures it.
const ALIKE: f32 = 0.6;
/// Longer words are not misspellings; this also bounds the work.
const LONGEST: usize = 64;

/// Finds the known word that is most similar to `word`, if it is similar enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let known: Vec<&str> = known.into_iter().collect();
    similar::get_close_matches(word, &known, 1, ALIKE).first().copied()
}
