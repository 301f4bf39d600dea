//! What the files of a split are called. Names follow the source's name as it was given, which may be that of a link.

/// The names of a split's files.
#[derive(Debug, Clone)]
pub struct Naming {
    stem: String,
    suffix: String,
}

impl Naming {
    /// The names for a source of this name. The suffix is what follows the last dot, with it; a dot in front of all is
    /// part of the stem.
    pub fn new(file_name: &str) -> Self {
        let dot = file_name.rfind('.').filter(|dot| *dot > 0 && dot + 1 < file_name.len());
        let (stem, suffix) = file_name.split_at(dot.unwrap_or(file_name.len()));
        Self { stem: stem.to_owned(), suffix: suffix.to_owned() }
    }

    /// The name of a segment, numbered from 1: `big-0001.py`.
    pub fn segment(&self, number: usize) -> String {
        format!("{}-{number:04}{}", self.stem, self.suffix)
    }

    /// The name of the kept source: `big.py.orig`.
    pub fn original(&self) -> String {
        format!("{}{}.orig", self.stem, self.suffix)
    }

    /// The name of a folder for the split, from the letters and digits of the stem: `big-{uuid}`.
    pub fn folder(&self) -> String {
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
        format!("{slug}-{}", uuid::Uuid::new_v4())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |name: &str, segment: &str, slug: &str| {
            let naming = Naming::new(name);
            assert_eq!(naming.segment(1), segment);
            assert_eq!(naming.original(), format!("{name}.orig"));
            let folder = naming.folder();
            assert_eq!(&folder[..folder.len() - 37], slug);
        };
        check("big.py", "big-0001.py", "big");
        check(".bashrc", ".bashrc-0001", "bashrc");
        check("a.tar.gz", "a.tar-0001.gz", "a-tar");
        check("Makefile", "Makefile-0001", "makefile");
        check("end.", "end.-0001", "end");
        check("Über_die  Maße.md", "Über_die  Maße-0001.md", "ber-die-ma-e");
        check("日本", "日本-0001", "file");
        assert_eq!(Naming::new("a.b").segment(12345), "a-12345.b");
    }
}
