//! Plays the recorded calls of a run on a disk in memory: who has which file open, and where in it.
//!
//! What programs do that are not ours, such as a command of the model's, is durable at once here: it is nobody's promise,
//! and what they did must never be there without what we kept before it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::calls::Call;
use super::disk::{Disk, Inode, TOP};

/// A run as far as it was played.
pub(super) struct Playing<'a> {
    pub(super) disk: Disk,
    base: &'a Path,
    /// Threads and the process that each is of.
    processes: BTreeMap<u32, u32>,
    ours: BTreeSet<u32>,
    first: u32,
    handles: Vec<Handle>,
    descriptors: BTreeMap<(u32, i32), usize>,
    /// What was said on stdout.
    pub(super) stdout: String,
    /// Requests of which something was sent.
    pub(super) asked: usize,
    /// How the run ended.
    pub(super) code: Option<i32>,
}

/// A file that is open; several descriptors may be one.
struct Handle {
    inode: Inode,
    at: usize,
    is_append: bool,
}

/// What a call was for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Played {
    /// Something may be on the disk that could not be before, or more is acknowledged.
    New,
    /// A sync: what may be on the disk might have been there before.
    Less,
    Nothing,
}

impl<'a> Playing<'a> {
    pub(super) fn new(base: &'a Path, disk: Disk, calls: &[Call]) -> Self {
        let first = calls[0].process;
        let mut processes = BTreeMap::new();
        for call in calls {
            let is_clone = ["clone", "clone3", "fork", "vfork"].contains(&call.name.as_str());
            if is_clone && let Ok(child @ 1..) = u32::try_from(call.gave) {
                let is_thread = call.args.iter().any(|arg| arg.contains("CLONE_THREAD"));
                processes.insert(child, (call.process, is_thread));
            }
        }
        let mut own = BTreeMap::new();
        for id in calls.iter().map(|call| call.process) {
            let mut process = id;
            while let Some((maker, true)) = processes.get(&process) {
                process = *maker;
            }
            own.insert(id, process);
        }
        Self {
            disk,
            base,
            processes: own,
            ours: BTreeSet::new(),
            first,
            handles: Vec::new(),
            descriptors: BTreeMap::new(),
            stdout: String::new(),
            asked: 0,
            code: None,
        }
    }

    /// A path below the world's folder.
    fn below(&self, path: &str) -> Option<PathBuf> {
        let mut plain = PathBuf::new();
        for component in Path::new(path).components() {
            match component {
                Component::CurDir => {}
                Component::ParentDir => drop(plain.pop()),
                other => plain.push(other),
            }
        }
        plain.strip_prefix(self.base).map(Path::to_owned).ok()
    }

    /// The handle of a descriptor that is a file of the world.
    fn handle(&mut self, call: &Call, at: usize) -> Option<usize> {
        let path = self.below(&call.place(at)?)?;
        let key = (self.processes[&call.process], call.descriptor(at)?);
        if let Some(handle) = self.descriptors.get(&key) {
            return Some(*handle);
        }
        // One that came from a parent.
        let inode = self.disk.find(&path)?;
        self.handles.push(Handle { inode, at: 0, is_append: true });
        self.descriptors.insert(key, self.handles.len() - 1);
        Some(self.handles.len() - 1)
    }

    fn inode(&mut self, call: &Call, at: usize) -> Option<Inode> {
        self.handle(call, at).map(|handle| self.handles[handle].inode)
    }

    pub(super) fn play(&mut self, call: &Call) -> Played {
        let process = self.processes[&call.process];
        if call.name == "execve" && call.gave == 0 {
            let program = call.path(0);
            let is_ours = Path::new(&program)
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("nagent"));
            if is_ours {
                self.ours.insert(process)
            } else {
                self.ours.remove(&process)
            };
            return Played::Nothing;
        }
        if call.name == "exit" && call.process == self.first {
            self.code = Some(i32::try_from(call.gave).unwrap());
            return Played::New;
        }
        if call.gave < 0 {
            return Played::Nothing;
        }
        let played = self.said(call).or_else(|| self.done(call)).unwrap_or(Played::Nothing);
        if played == Played::New && !self.ours.contains(&process) {
            self.disk.sync_all();
        }
        played
    }

    /// What was said to somebody else.
    fn said(&mut self, call: &Call) -> Option<Played> {
        if !["write", "writev", "sendto", "sendmsg"].contains(&call.name.as_str()) {
            return None;
        }
        let place = call.place(0)?;
        let is_ours = self.ours.contains(&self.processes[&call.process]);
        if place.starts_with("pipe:") && call.descriptor(0) == Some(1) && call.process == self.first
        {
            self.stdout += &String::from_utf8_lossy(&call.bytes(1));
            return Some(Played::New);
        }
        let is_socket = place.starts_with("socket:") || place.starts_with("TCP");
        if is_socket && is_ours && call.bytes(1).starts_with(b"POST ") {
            self.asked += 1;
            return Some(Played::New);
        }
        None
    }

    /// What was done to a file of the world.
    fn done(&mut self, call: &Call) -> Option<Played> {
        let gave = usize::try_from(call.gave).unwrap();
        match call.name.as_str() {
            "open" | "creat" => self.opened(call, &call.path(0), 1),
            "openat" => self.opened(call, &call.path_at(0), 2),
            "close" => {
                let key = (self.processes[&call.process], call.descriptor(0)?);
                self.descriptors.remove(&key);
                None
            }
            "dup" | "dup2" | "dup3" => self.doubled(call),
            "fcntl" if call.args[1].starts_with("F_DUPFD") => self.doubled(call),
            "read" | "readv" => {
                let handle = self.handle(call, 0)?;
                self.handles[handle].at += gave;
                None
            }
            "lseek" => {
                let handle = self.handle(call, 0)?;
                self.handles[handle].at = gave;
                None
            }
            "write" | "writev" => {
                let handle = self.handle(call, 0)?;
                let mut bytes = call.bytes(1);
                bytes.truncate(gave);
                self.wrote(handle, bytes)
            }
            "pwrite64" | "pwritev" | "pwritev2" => {
                let inode = self.inode(call, 0)?;
                let mut bytes = call.bytes(1);
                bytes.truncate(gave);
                self.disk.write(inode, usize::try_from(call.number(3)?).unwrap(), bytes);
                Some(Played::New)
            }
            "copy_file_range" => self.copied(call, 0, 2, gave),
            "sendfile" => self.copied(call, 1, 0, gave),
            "ftruncate" => {
                let inode = self.inode(call, 0)?;
                self.disk.length(inode, usize::try_from(call.number(1)?).unwrap());
                Some(Played::New)
            }
            "truncate" => {
                let inode = self.disk.find(&self.below(&call.path(0))?)?;
                self.disk.length(inode, usize::try_from(call.number(1)?).unwrap());
                Some(Played::New)
            }
            "fallocate" => {
                let handle = self.handle(call, 0)?;
                assert!(call.has(1, "FALLOC_FL_KEEP_SIZE"), "{handle}: a length of its own");
                None
            }
            "fsync" | "fdatasync" => {
                let inode = self.inode(call, 0)?;
                self.disk.sync(inode, call.name == "fsync");
                Some(Played::Less)
            }
            "sync" | "syncfs" => {
                self.disk.sync_all();
                Some(Played::Less)
            }
            "chmod" => self.moded(self.below(&call.path(0)), call.number(1)?),
            "fchmodat" => self.moded(self.below(&call.path_at(0)), call.number(2)?),
            "fchmod" => {
                let inode = self.inode(call, 0)?;
                self.disk.mode(inode, u32::try_from(call.number(1)?).unwrap() & 0o7777);
                Some(Played::New)
            }
            "mkdir" | "mkdirat" => {
                let at = usize::from(call.name == "mkdirat");
                let path = if at == 0 { call.path(0) } else { call.path_at(0) };
                let mode = u32::try_from(call.number(at + 1)?).unwrap() & 0o755;
                self.disk.make(&self.below(&path)?, true, mode);
                Some(Played::New)
            }
            "unlink" | "rmdir" => {
                self.disk.remove(&self.below(&call.path(0))?);
                Some(Played::New)
            }
            "unlinkat" => {
                self.disk.remove(&self.below(&call.path_at(0))?);
                Some(Played::New)
            }
            "rename" => self.renamed(&call.path(0), &call.path(1)),
            "renameat2" if call.has(4, "RENAME_EXCHANGE") => {
                let (one, other) = (call.path_at(0), call.path_at(2));
                self.disk.exchange(&self.below(&one)?, &self.below(&other)?);
                Some(Played::New)
            }
            "renameat" | "renameat2" => self.renamed(&call.path_at(0), &call.path_at(2)),
            "link" => self.linked(call, &call.path(0), &call.path(1)),
            "linkat" => self.linked(call, &call.path_at(0), &call.path_at(2)),
            _ => None,
        }
    }

    fn opened(&mut self, call: &Call, path: &str, flags: usize) -> Option<Played> {
        let path = self.below(path)?;
        let flags_at = if call.name == "creat" { usize::MAX } else { flags };
        let mode = u32::try_from(call.number(flags + 1).unwrap_or(0)).unwrap() & 0o755;
        let (mut played, found) = (None, self.disk.find(&path));
        let inode = match found {
            _ if call.has(flags_at, "O_TMPFILE") => self.disk.unnamed(mode),
            Some(inode) => inode,
            None if flags_at != usize::MAX && !call.has(flags_at, "O_CREAT") => return None,
            None => {
                played = Some(Played::New);
                self.disk.make(&path, false, mode)
            }
        };
        if call.has(flags_at, "O_TRUNC") && found.is_some() {
            self.disk.length(inode, 0);
            played = Some(Played::New);
        }
        self.handles.push(Handle { inode, at: 0, is_append: call.has(flags_at, "O_APPEND") });
        let key = (self.processes[&call.process], i32::try_from(call.gave).unwrap());
        self.descriptors.insert(key, self.handles.len() - 1);
        played
    }

    fn doubled(&mut self, call: &Call) -> Option<Played> {
        let handle = self.handle(call, 0)?;
        let key = (self.processes[&call.process], i32::try_from(call.gave).unwrap());
        self.descriptors.insert(key, handle);
        None
    }

    fn wrote(&mut self, handle: usize, bytes: Vec<u8>) -> Option<Played> {
        let Handle { inode, at, is_append } = self.handles[handle];
        let at = if is_append { self.disk.bytes(inode).len() } else { at };
        self.handles[handle].at = at + bytes.len();
        self.disk.write(inode, at, bytes);
        Some(Played::New)
    }

    fn copied(&mut self, call: &Call, from: usize, to: usize, count: usize) -> Option<Played> {
        let (from, to) = (self.handle(call, from)?, self.handle(call, to)?);
        let Handle { inode, at, .. } = self.handles[from];
        let bytes = self.disk.bytes(inode)[at..at + count].to_vec();
        self.handles[from].at += count;
        self.wrote(to, bytes)
    }

    fn moded(&mut self, path: Option<PathBuf>, mode: u64) -> Option<Played> {
        let inode = self.disk.find(&path?)?;
        self.disk.mode(inode, u32::try_from(mode).unwrap() & 0o7777);
        Some(Played::New)
    }

    fn renamed(&mut self, from: &str, to: &str) -> Option<Played> {
        self.disk.rename(&self.below(from)?, &self.below(to)?);
        Some(Played::New)
    }

    fn linked(&mut self, call: &Call, from: &str, to: &str) -> Option<Played> {
        let to = self.below(to)?;
        let inode = match from.strip_prefix("/proc/self/fd/") {
            Some(descriptor) => {
                let key = (self.processes[&call.process], descriptor.parse().unwrap());
                self.handles[self.descriptors[&key]].inode
            }
            None => self.disk.find(&self.below(from)?)?,
        };
        assert_ne!(inode, TOP);
        self.disk.link(inode, &to);
        Some(Played::New)
    }
}
