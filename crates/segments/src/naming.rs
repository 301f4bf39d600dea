//! Names the files of a split after the source, by the given name, which may be that of a link.

use conversation::format::hex::SHORT_ID;

/// Maximum length of the stem in bytes; a longer one is cut. A file name has at most 255.
const LONGEST_STEM: usize = 180;
/// Maximum length of the suffix in bytes; a longer one is left out.
const LONGEST_SUFFIX: usize = 40;

/// The names of a split's files.
#[derive(Debug, Clone)]
pub struct Naming {
    stem: String,
    suffix: String,
}

impl Naming {
    /// Names the files of a source with this name. The suffix begins at the last dot; a leading dot is part of the stem.
    pub fn new(file_name: &str) -> Self {
        let dot = file_name.rfind('.').filter(|dot| *dot > 0 && dot + 1 < file_name.len());
        let (stem, suffix) = file_name.split_at(dot.unwrap_or(file_name.len()));
        let stem = &stem[..stem.floor_char_boundary(LONGEST_STEM)];
        let suffix = if suffix.len() <= LONGEST_SUFFIX { suffix } else { "" };
        Self { stem: stem.to_owned(), suffix: suffix.to_owned() }
    }

    /// The name of a segment, numbered from 1: `big-0001.py`.
    pub fn segment_name(&self, number: usize) -> String {
        format!("{}-{number:04}{}", self.stem, self.suffix)
    }

    /// The name of a folder for the split, from the letters and digits of the stem: `big-3f0c9a61b2d7`.
    pub(crate) fn folder_name(&self) -> String {
        let slug =
            self.stem.replace(|c: char| !c.is_ascii_alphanumeric(), "-").to_ascii_lowercase();
        let slug = slug.trim_matches('-');
        let slug = if slug.is_empty() { "file" } else { slug };
        let id = uuid::Uuid::new_v4().simple().to_string();
        format!("{slug}-{}", &id[..SHORT_ID])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut() {
        let check = |name: String, suffix: &str| {
            let segment = Naming::new(&name).segment_name(99_999);
            assert!(
                segment.len() <= 230 && segment.ends_with(&format!("-99999{suffix}")),
                "{segment}"
            );
        };
        for count in [180, 181, 250] {
            check("n".repeat(count) + ".rs", ".rs");
            check("ü".repeat(count / 2) + ".rs", ".rs");
            check(format!("a.{}", "n".repeat(count)), "");
            check(format!(".{}", "n".repeat(count)), "");
        }
    }

    #[test]
    fn names() {
        let check = |name: &str, segment: &str, slug: &str| {
            let naming = Naming::new(name);
            assert_eq!(naming.segment_name(1), segment);
            let folder = naming.folder_name();
            assert_eq!(&folder[..folder.len() - SHORT_ID - 1], slug);
        };
        check("big.py", "big-0001.py", "big");
        check(".bashrc", ".bashrc-0001", "bashrc");
        check("a.tar.gz", "a.tar-0001.gz", "a-tar");
        check("Makefile", "Makefile-0001", "makefile");
        check("end.", "end.-0001", "end");
        check("Über_die  Maße.md", "Über_die  Maße-0001.md", "ber-die--ma-e");
        check("日本", "日本-0001", "file");
        assert_eq!(Naming::new("a.b").segment_name(12345), "a-12345.b");
    }
}
