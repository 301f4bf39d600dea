//! Worlds in memory that are put back to an earlier state in milliseconds, and random numbers from a seed.
//!
//! A state is the files, folders and modes below the world's folder. Times and inodes are those of the putting back.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A number from the environment, for longer runs.
pub(crate) fn number(name: &str, usual: usize) -> usize {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")),
        Err(_) => usual,
    }
}

/// Numbers that look random and are the same for the same seed.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: usize) -> Self {
        let mut numbers = Self(seed as u64 ^ 0x9e37_79b9_7f4a_7c15);
        numbers.below(2);
        numbers
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Thing {
    File(Vec<u8>, u32),
    Folder(u32),
    Link(PathBuf),
}

/// All that stands below a folder, by its path in there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State(pub(crate) BTreeMap<PathBuf, Thing>);

impl State {
    pub(crate) fn of(folder: &Path) -> Self {
        let mut state = Self::default();
        state.look(folder, Path::new(""));
        state
    }

    fn look(&mut self, folder: &Path, below: &Path) {
        let Ok(entries) = fs::read_dir(folder.join(below)) else { return };
        for entry in entries.flatten() {
            let path = below.join(entry.file_name());
            let Ok(metadata) = entry.metadata() else { continue };
            let mode = metadata.permissions().mode() & 0o7777;
            let thing = if metadata.is_dir() {
                self.look(folder, &path);
                Thing::Folder(mode)
            } else if metadata.is_symlink() {
                Thing::Link(fs::read_link(entry.path()).unwrap_or_default())
            } else {
                Thing::File(fs::read(entry.path()).unwrap_or_default(), mode)
            };
            self.0.insert(path, thing);
        }
    }

    /// Makes the folder hold this and nothing else.
    pub(crate) fn put_back(&self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                fs::remove_dir_all(entry.path()).unwrap();
            } else {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        for (path, thing) in &self.0 {
            let path = folder.join(path);
            match thing {
                Thing::Folder(mode) => {
                    fs::create_dir(&path).unwrap();
                    fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
                }
                Thing::File(bytes, mode) => {
                    fs::write(&path, bytes).unwrap();
                    fs::set_permissions(&path, Permissions::from_mode(*mode)).unwrap();
                }
                Thing::Link(to) => symlink(to, &path).unwrap(),
            }
        }
    }

    /// The bytes of a file.
    pub(crate) fn file(&self, path: impl AsRef<Path>) -> Option<&[u8]> {
        match self.0.get(path.as_ref()) {
            Some(Thing::File(bytes, _)) => Some(bytes),
            _ => None,
        }
    }

    /// The text of a file, empty where there is none.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> String {
        String::from_utf8_lossy(self.file(path).unwrap_or_default()).into_owned()
    }

    /// The names in a folder.
    pub(crate) fn names(&self, folder: impl AsRef<Path>) -> Vec<String> {
        let folder = folder.as_ref();
        let within = self.0.keys().filter(|path| path.parent() == Some(folder));
        within.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }
}

/// Makes every file below a folder look as old as two hours.
pub(crate) fn make_old(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            make_old(&entry.path());
        } else if kind.is_file() && entry.file_name().to_string_lossy().starts_with('.') {
            let old = std::time::SystemTime::now() - std::time::Duration::from_hours(2);
            let file = fs::OpenOptions::new().write(true).open(entry.path());
            file.and_then(|file| file.set_modified(old)).unwrap();
        }
    }
}
