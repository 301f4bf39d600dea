//! Paths in JSON, whatever bytes they are of: `"text"` where they are UTF-8, else an array of their bytes,
//! `[47, 119, 47, 255]`. No path has both forms, and older records, all strings, are read as they are.
//!
//! For fields: `#[serde(with = "lossless")]` for a path, [`list`] for a `Vec` of them, [`option`] for one that may be
//! missing.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path in its form.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form<'a> {
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

impl<'a> From<&'a Path> for Form<'a> {
    fn from(path: &'a Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.into()),
            None => Self::Bytes(path.as_os_str().as_bytes().into()),
        }
    }
}

impl From<Form<'_>> for PathBuf {
    fn from(form: Form<'_>) -> Self {
        match form {
            Form::Text(text) => text.into_owned().into(),
            Form::Bytes(bytes) => OsString::from_vec(bytes.into_owned()).into(),
        }
    }
}

/// Writes a path.
pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    Form::from(path).serialize(to)
}

/// Reads a path.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    Form::deserialize(from).map(PathBuf::from)
}

/// Lists of paths.
pub(crate) mod list {
    use super::{Deserialize, Deserializer, Form, PathBuf, Serializer};

    /// Writes them.
    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| Form::from(path.as_path())))
    }

    /// Reads them.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let forms = Vec::<Form<'_>>::deserialize(from)?;
        Ok(forms.into_iter().map(PathBuf::from).collect())
    }
}

/// Paths that may be missing; `null` then.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Form, PathBuf, Serialize, Serializer};

    /// Writes one.
    #[expect(clippy::ref_option, reason = "a field is given as it is")]
    pub(crate) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(Form::from).serialize(to)
    }

    /// Reads one.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<Form<'_>>::deserialize(from)?.map(PathBuf::from))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Record {
        #[serde(with = "super")]
        one: PathBuf,
        #[serde(default, with = "super::list")]
        many: Vec<PathBuf>,
        #[serde(default, with = "super::option")]
        maybe: Option<PathBuf>,
    }

    fn path(bytes: &[u8]) -> PathBuf {
        OsStr::from_bytes(bytes).into()
    }

    #[test]
    fn text_is_a_string_and_other_bytes_are_an_array() {
        let check = |bytes: &[u8], expect: &str| {
            let record = Record { one: path(bytes), many: vec![path(bytes)], maybe: None };
            let text = serde_json::to_string(&record).unwrap();
            let expect = format!("{{\"one\":{expect},\"many\":[{expect}],\"maybe\":null}}");
            assert_eq!(text, expect);
            assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        };
        check("/w/é".as_bytes(), "\"/w/é\"");
        check(b"/w/\xff", "[47,119,47,255]");
        check(b"[47,255]", "\"[47,255]\"");
        check(b"", "\"\"");
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["1", "{}", "[1,256]", "[-1]", "null", "[\"a\"]"] {
            let text = format!("{{\"one\":{text}}}");
            assert!(serde_json::from_str::<Record>(&text).is_err(), "{text}");
        }
        let bare: Record = serde_json::from_str("{\"one\":\"/a\"}").unwrap();
        assert_eq!(bare, Record { one: "/a".into(), many: Vec::new(), maybe: None });
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(
            one: Vec<u8>,
            many: Vec<Vec<u8>>,
            maybe: Option<Vec<u8>>,
            text in ".*",
        ) {
            let mut many: Vec<PathBuf> = many.iter().map(|bytes| path(bytes)).collect();
            many.push(text.into());
            let record = Record { one: path(&one), many, maybe: maybe.as_deref().map(path) };
            let text = serde_json::to_string(&record).unwrap();
            prop_assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        }
    }
}
