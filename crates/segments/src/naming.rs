//! Names the files of a split after the source, by the name that was given, which may be that of a link.

use conversation::format::hex::SHORT_ID;
use sys::fs;

/// A name with more bytes is shortened. A file name has at most 255: the rest is for the number, `.orig` and the like.
const LONGEST: usize = 220;
/// A shortened name keeps a suffix of at most this many bytes.
const LONGEST_SUFFIX: usize = 40;

/// The names of a split's files.
#[derive(Debug, Clone)]
pub struct Naming {
    stem: String,
    suffix: String,
}

impl Naming {
    /// Names the files of a source with this name. The suffix begins at the last dot; a leading dot is part of the stem. A
    /// name that is too long is shortened and gets a hash of the whole.
    pub fn new(file_name: &str) -> Self {
        let short = shorten(file_name);
        let (stem, suffix) = split_suffix(short.as_deref().unwrap_or(file_name));
        Self { stem: stem.to_owned(), suffix: suffix.to_owned() }
    }

    /// The name of a segment, numbered from 1: `big-0001.py`.
    pub fn segment_name(&self, number: usize) -> String {
        format!("{}-{number:04}{}", self.stem, self.suffix)
    }

    /// The name of the kept source: `big.py.orig`.
    pub fn original_name(&self) -> String {
        format!("{}{}.orig", self.stem, self.suffix)
    }

    /// The name of a folder for the split, from the letters and digits of the stem: `big-3f0c9a61b2d7`.
    pub fn folder_name(&self) -> String {
        let mut slug = String::new();
        for c in self.stem.chars() {
            if c.is_ascii_alphanumeric() {
                slug.push(c.to_ascii_lowercase());
            } else if !slug.is_empty() && !slug.ends_with('-') {
                slug.push('-');
            }
        }
        // A file name has 255 bytes at most.
        slug.truncate(100);
        let slug = slug.trim_end_matches('-');
        let slug = if slug.is_empty() { "file" } else { slug };
        let id = uuid::Uuid::new_v4().simple().to_string();
        format!("{slug}-{}", &id[..SHORT_ID])
    }
}

fn split_suffix(name: &str) -> (&str, &str) {
    let dot = name.rfind('.').filter(|dot| *dot > 0 && dot + 1 < name.len());
    name.split_at(dot.unwrap_or(name.len()))
}

fn shorten(name: &str) -> Option<String> {
    if name.len() <= LONGEST {
        return None;
    }
    let (_, suffix) = split_suffix(name);
    let suffix = if suffix.len() <= LONGEST_SUFFIX { suffix } else { "" };
    let hash = fs::sha256(name.as_bytes());
    let end = format!("-{}{suffix}", &hash[..8]);
    let stem = &name[..name.floor_char_boundary(LONGEST - end.len())];
    Some(format!("{stem}{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names() {
        let check = |name: String, suffix: &str| {
            let naming = Naming::new(&name);
            let original = naming.original_name();
            let kept = original.strip_suffix(".orig").unwrap();
            assert!(original.len() <= LONGEST + 5 && kept.ends_with(suffix), "{original}");
            assert!(naming.segment_name(99_999).len() <= LONGEST + 6);
            assert_ne!(original, Naming::new(&format!("x{name}")).original_name());
            // From the kept original the names come out again.
            assert_eq!(Naming::new(kept).segment_name(7), naming.segment_name(7));
        };
        for count in [217, 221, 250] {
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
            assert_eq!(naming.original_name(), format!("{name}.orig"));
            let folder = naming.folder_name();
            assert_eq!(&folder[..folder.len() - SHORT_ID - 1], slug);
        };
        check("big.py", "big-0001.py", "big");
        check(".bashrc", ".bashrc-0001", "bashrc");
        check("a.tar.gz", "a.tar-0001.gz", "a-tar");
        check("Makefile", "Makefile-0001", "makefile");
        check("end.", "end.-0001", "end");
        check("Über_die  Maße.md", "Über_die  Maße-0001.md", "ber-die-ma-e");
        check("日本", "日本-0001", "file");
        assert_eq!(Naming::new("a.b").segment_name(12345), "a-12345.b");
    }
}
