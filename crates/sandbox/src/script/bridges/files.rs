//! File access for scripts: a file is opened first, then the permission for its true path is checked, then it is used.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use rustix::fs::{AtFlags, FileType, Mode as Bits, OFlags};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::Bridges;
use crate::script::guarded::{OpenedPath, WriteTarget, explain, list_names, open_below};
use crate::script::policy::{AccessRequest, Approval, Mode};
use conversation::format::harmless::quote_name;
use conversation::limits;
use sys::atomic_file::AtomicFile;
use sys::fs::read_within;

/// Maximum number of folders and files that a glob visits.
const GLOB_VISITS: usize = 500_000;

impl Bridges<'_> {
    pub(super) fn read_file(&mut self, path: PathBuf, is_base64: bool) -> Result<Value, String> {
        let (bytes, path) = self.read_bytes(&path, limits::JS_READ)?;
        if is_base64 {
            return Ok(json!(base64::engine::general_purpose::STANDARD.encode(bytes)));
        }
        String::from_utf8(bytes).map(Value::String).map_err(|_| {
            format!(
                "{} is not UTF-8 text; fs.readFile(path, \"base64\") reads any file",
                quote_name(&path)
            )
        })
    }

    /// The bytes of a file, and its true path.
    pub(super) fn read_bytes(
        &mut self,
        path: &Path,
        limit: u64,
    ) -> Result<(Vec<u8>, PathBuf), String> {
        let found = self.find_readable(path)?;
        let file = found.open()?;
        let size = u64::try_from(found.stat.st_size).unwrap_or(0);
        let bytes = read_within(file, size, limit)
            .map_err(|error| format!("{}: {error:#}", quote_name(&found.path)))?;
        Ok((bytes, found.path))
    }

    /// Finds a file or folder that may be read. Learning that a file is missing needs permission, too.
    fn find_readable(&mut self, path: &Path) -> Result<OpenedPath, String> {
        let Some(found) = OpenedPath::find(path)? else {
            let spot = WriteTarget::find(path)?;
            self.permissions.permit(AccessRequest::Path(Mode::Read, &spot.path))?;
            return Err(explain(&spot.path)(Errno::NOENT));
        };
        self.permissions.permit(AccessRequest::Path(Mode::Read, &found.path))?;
        self.permissions.refuse_key(&found.path, &found.stat)?;
        Ok(found)
    }

    fn find_writable(&mut self, path: &Path) -> Result<WriteTarget, String> {
        let spot = WriteTarget::find_follow(path)?;
        self.permissions.permit(AccessRequest::Path(Mode::Write, &spot.path))?;
        Ok(spot)
    }

    pub(super) fn write_file(&mut self, path: &Path, bytes: &[u8]) -> Result<(), String> {
        let spot = self.find_writable(path)?;
        spot.check_file()?;
        self.write_new(&spot, bytes).map_err(describe_io_error(&spot.path))
    }

    pub(super) fn append_file(&mut self, path: &Path, bytes: &[u8]) -> Result<(), String> {
        let spot = self.find_writable(path)?;
        spot.check_file()?;
        // The other links may be in protected places.
        if spot.stat.is_some_and(|stat| stat.st_nlink > 1) {
            let path = quote_name(&spot.path);
            return Err(format!(
                "{path} has other names (hard links), which would change too; write it whole with fs.writeFile"
            ));
        }
        let flags =
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mode = Bits::from_raw_mode(self.new_mode(&spot.path));
        let file = rustix::fs::openat(&spot.dir, &spot.name, flags | OFlags::CLOEXEC, mode);
        let mut file = File::from(file.map_err(explain(&spot.path))?);
        file.write_all(bytes).map_err(describe_io_error(&spot.path))
    }

    pub(super) fn read_dir(&mut self, path: &Path) -> Result<Value, String> {
        let found = self.find_readable(path)?;
        let folder = found.open_folder()?.into();
        let names = list_names(&folder).map_err(explain(&found.path))?;
        let entries = names.iter().filter_map(|name| {
            let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(json!({
                "name": name.to_string_lossy(),
                "isDir": FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
                "size": stat.st_size,
            }))
        });
        Ok(entries.collect())
    }

    pub(super) fn stat(&mut self, path: &Path) -> Result<Value, String> {
        let found = self.find_readable(path)?;
        let name = found.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(json!({
            "name": name,
            "isDir": found.is_folder(),
            "size": found.stat.st_size,
            "modTime": found.stat.st_mtime,
        }))
    }

    pub(super) fn exists(&mut self, path: &Path) -> bool {
        self.find_readable(path).is_ok()
    }

    pub(super) fn delete(&mut self, path: &Path) -> Result<(), String> {
        let spot = WriteTarget::find(path)?;
        self.permissions.permit(AccessRequest::Path(Mode::Delete, &spot.path))?;
        if spot.stat.is_none() {
            return Ok(());
        }
        let permissions = &self.permissions;
        spot.remove(&mut |below| {
            if permissions.decide(AccessRequest::Path(Mode::Delete, below)) == Approval::Deny {
                return Err(format!(
                    "delete {} is not allowed: the policy says no",
                    quote_name(below)
                ));
            }
            Ok(())
        })
    }

    pub(super) fn make_folder(&mut self, path: &Path) -> Result<(), String> {
        let mut spot = WriteTarget::find_follow(path)?;
        if spot.file_type() == Some(FileType::Directory) {
            return Ok(());
        }
        self.permissions.permit(AccessRequest::Path(Mode::Write, &spot.path))?;
        // Permission to read covers listing.
        let mode = self.new_mode(&spot.path);
        spot.make_folders(mode | (mode & 0o444) >> 2)
    }

    pub(super) fn copy(&mut self, from: &Path, to: &Path) -> Result<(), String> {
        let (bytes, _) = self.read_bytes(from, limits::JS_READ)?;
        self.write_file(to, &bytes)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<(), String> {
        let source = WriteTarget::find(from)?;
        let Some(stat) = source.stat else { return Err(explain(&source.path)(Errno::NOENT)) };
        // Otherwise permission to delete would allow reading, at the destination.
        for mode in [Mode::Delete, Mode::Read] {
            self.permissions.permit(AccessRequest::Path(mode, &source.path))?;
        }
        self.permissions.refuse_key(&source.path, &stat)?;
        if self.permissions.layers.restricts_below(&source.path) {
            let why = "the policy has entries for paths in it, which would not apply elsewhere";
            return Err(self.permissions.refuse("move", &source.path.to_string_lossy(), why));
        }
        let target = self.find_writable(to)?;
        if !target.missing.is_empty() {
            target.check_file()?;
        }
        rustix::fs::renameat(&source.dir, &source.name, &target.dir, &target.name)
            .map_err(explain(&target.path))
    }

    /// The mode of a new file: files of a thought are for their owner alone.
    fn new_mode(&self, path: &Path) -> u32 {
        let places = &self.permissions.places;
        let is_private = |folder: &PathBuf| path.starts_with(folder);
        if is_private(&places.home) || places.thought.as_ref().is_some_and(is_private) {
            0o600
        } else {
            0o644
        }
    }

    /// Writes a new file and renames it. It keeps the mode of the file that it replaces.
    fn write_new(&self, spot: &WriteTarget, bytes: &[u8]) -> io::Result<()> {
        let file = AtomicFile::within(&spot.dir, &spot.name).keep_mode();
        let file = file.mode(self.new_mode(&spot.path));
        // The data that a script keeps for the next run survive a power cut; other files need not.
        let file = if spot.name == "memory.js" { file } else { file.without_sync() };
        file.write_with(false, &mut |file| file.write_all(bytes))
    }

    pub(super) fn glob(&mut self, pattern: &Path) -> Result<Value, String> {
        let is_plain = |part: &std::path::Component<'_>| {
            !part.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?[{".contains(byte))
        };
        let base: PathBuf = pattern.components().take_while(is_plain).collect();
        let rest = pattern.strip_prefix(&base).unwrap_or(Path::new(""));
        if rest.as_os_str().is_empty() {
            let found = self.exists(pattern).then(|| pattern.to_string_lossy().into_owned());
            return Ok(found.into_iter().collect());
        }
        let glob =
            globset::GlobBuilder::new(&rest.to_string_lossy()).literal_separator(true).build();
        let glob = glob.map_err(|error| format!("fs.glob: {error}"))?.compile_matcher();
        let Some(found) = OpenedPath::find(&base)? else { return Ok(json!([])) };
        self.permissions.permit(AccessRequest::Path(Mode::Read, &found.path))?;
        let mut visits = 0;
        let mut matches = Vec::new();
        let top = found.open_folder()?.into();
        let mut ahead = vec![PathBuf::new()];
        while let Some(below) = ahead.pop() {
            let Ok(folder) = open_below(&top, &below) else { continue };
            for name in list_names(&folder).map_err(explain(&found.path))? {
                visits += 1;
                if visits > GLOB_VISITS || self.permissions.interrupts.pending().is_some() {
                    return Err(
                        "fs.glob: there are too many files to look at; name a folder further down"
                            .to_owned(),
                    );
                }
                let below = below.join(&name);
                let path = found.path.join(&below);
                let request = AccessRequest::Path(Mode::Read, &path);
                if self.permissions.decide(request) != Approval::Allow {
                    continue;
                }
                if glob.is_match(&below) {
                    matches.push(path.to_string_lossy().into_owned());
                    if matches.len() > limits::JS_GLOB {
                        return Err(format!(
                            "fs.glob: over the limit of {} paths",
                            limits::JS_GLOB
                        ));
                    }
                }
                let stat = rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW);
                if stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()) {
                    ahead.push(below);
                }
            }
        }
        matches.sort();
        Ok(json!(matches))
    }
}

fn describe_io_error(path: &Path) -> impl Fn(io::Error) -> String + '_ {
    move |error| format!("{}: {error}", quote_name(path))
}
