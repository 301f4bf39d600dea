//! The system calls of a run, as `strace -f -xx -y` tells them: text → values. All strings are hexadecimal digits there, so
//! nothing in them can be taken for punctuation.

use std::collections::BTreeMap;

/// What is recorded: what changes files and names, what moves places in files, what is said and asked, and who is who.
pub(super) const TRACED: &str = "trace=?open,openat,?creat,read,readv,?pread64,write,pwrite64,writev,pwritev,pwritev2,lseek,\
    fsync,fdatasync,sync_file_range,?sync,syncfs,?rename,?renameat,renameat2,?link,linkat,?symlink,symlinkat,?unlink,unlinkat,\
    ?rmdir,?mkdir,mkdirat,ftruncate,truncate,fallocate,?chmod,fchmod,fchmodat,copy_file_range,sendfile,?dup,?dup2,dup3,fcntl,\
    execve,?fork,?vfork,clone,clone3,sendto,sendmsg,close";

/// A call that came back, or the end of a process.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) process: u32,
    /// `exit` for the end of a process.
    pub(super) name: String,
    pub(super) args: Vec<String>,
    /// What it gave; below 0: it failed.
    pub(super) gave: i64,
}

/// All calls in the order in which they came back.
pub(super) fn calls(log: &str) -> Vec<Call> {
    let mut begun: BTreeMap<u32, String> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let (process, said) = line.split_once(char::is_whitespace).unwrap();
        let (process, said) = (process.parse().unwrap(), said.trim_start());
        if let Some(code) = said.strip_prefix("+++ exited with ") {
            let gave = code.trim_end_matches(" +++").parse().unwrap();
            calls.push(Call { process, name: "exit".to_owned(), args: Vec::new(), gave });
        } else if let Some(start) = said.strip_suffix(" <unfinished ...>") {
            begun.insert(process, start.to_owned());
        } else if let Some(end) = said.strip_prefix("<... ") {
            let Some(start) = begun.remove(&process) else { continue };
            let (_, end) = end.split_once(" resumed>").unwrap();
            calls.extend(call(process, &(start + end)));
        } else if !said.starts_with("---") && !said.starts_with("+++") {
            calls.extend(call(process, said));
        }
    }
    calls
}

/// One line; `None` where the call never came back.
fn call(process: u32, said: &str) -> Option<Call> {
    let (name, rest) = said.split_once('(')?;
    let (mut depth, mut args, mut start, mut end) = (1, Vec::new(), 0, None);
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || depth == 1 && byte == b',' {
            args.push(rest[start..at].trim().to_owned());
            start = at + 1;
        }
        if depth == 0 {
            end = Some(at);
            break;
        }
    }
    let gave = rest[end? + 1..].trim_start().strip_prefix("= ")?;
    let digits: String = gave.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
    Some(Call { process, name: name.to_owned(), args, gave: digits.parse().ok()? })
}

impl Call {
    /// The descriptor in an argument.
    pub(super) fn descriptor(&self, at: usize) -> Option<i32> {
        let digits: String = self.args.get(at)?.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    }

    /// What strace says that a descriptor is: a path, or a pipe's or a socket's name.
    pub(super) fn place(&self, at: usize) -> Option<String> {
        let (_, place) = self.args.get(at)?.split_once('<')?;
        let (place, _) = place.split_once('>')?;
        Some(String::from_utf8_lossy(&unquoted(place)).into_owned())
    }

    /// All bytes that stand quoted in an argument.
    pub(super) fn bytes(&self, at: usize) -> Vec<u8> {
        let arg = self.args.get(at).map_or("", String::as_str);
        assert!(!arg.contains("\"..."), "strace cut a string short: {}", self.name);
        arg.split('"').skip(1).step_by(2).flat_map(unquoted).collect()
    }

    /// The path in an argument.
    pub(super) fn path(&self, at: usize) -> String {
        String::from_utf8_lossy(&self.bytes(at)).into_owned()
    }

    /// A path in an argument, below the folder in the one before it.
    pub(super) fn path_at(&self, folder: usize) -> String {
        let path = self.path(folder + 1);
        match self.place(folder) {
            Some(folder) if !path.starts_with('/') => format!("{folder}/{path}"),
            _ => path,
        }
    }

    /// A number in an argument; octal where it begins with 0.
    pub(super) fn number(&self, at: usize) -> Option<u64> {
        let arg = self.args.get(at)?;
        match arg.strip_prefix('0') {
            Some(octal) if !octal.is_empty() => u64::from_str_radix(octal, 8).ok(),
            _ => arg.parse().ok(),
        }
    }

    pub(super) fn has(&self, at: usize, flag: &str) -> bool {
        self.args.get(at).is_some_and(|arg| arg.split('|').any(|word| word == flag))
    }

    /// The call in words that people read, without content.
    pub(super) fn told(&self, base: &str) -> String {
        let shown = self.args.iter().enumerate().map(|(at, arg)| {
            let text = self.place(at).or_else(|| arg.contains('"').then(|| self.path(at)));
            let text = text.unwrap_or_else(|| arg.clone()).replace(base, "");
            let short: String = text.chars().take(60).collect();
            short.replace('\n', " ")
        });
        format!("{}({})", self.name, shown.collect::<Vec<_>>().join(", "))
    }
}

/// The bytes of `\x2f\x74…`, and of what stands between as it is.
fn unquoted(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(digits) = rest.strip_prefix("\\x") {
            bytes.push(u8::from_str_radix(&digits[..2], 16).unwrap());
            rest = &digits[2..];
        } else {
            bytes.push(u8::try_from(first).unwrap());
            rest = &rest[1..];
        }
    }
    bytes
}
