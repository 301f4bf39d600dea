//! The Unix sockets that other programs have opened, which commands must not reach.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

/// Returns the paths of all sockets that the kernel lists and that exist. `None` where it lists none.
pub(super) fn list_sockets() -> Option<Vec<PathBuf>> {
    let table = fs::read("/proc/net/unix").ok()?;
    let names = table.split(|byte| *byte == b'\n').skip(1).filter_map(parse_name);
    let names = names.map(|name| PathBuf::from(OsStr::from_bytes(name)));
    let (mut paths, relative): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) =
        names.partition(|name| name.is_absolute());
    if !relative.is_empty() {
        // Most likely it is in the working folder of some process.
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let folders: BTreeSet<PathBuf> = processes
            .filter_map(|process| fs::read_link(process.path().join("cwd")).ok())
            .collect();
        paths.extend(
            folders.iter().flat_map(|folder| relative.iter().map(|name| folder.join(name))),
        );
    }
    paths
        .retain(|path| fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()));
    Some(paths.into_iter().collect())
}

/// Returns the name at the end of a line, after seven columns of numbers. Those that begin with `@` are not in the file system.
fn parse_name(line: &[u8]) -> Option<&[u8]> {
    let mut rest = line;
    for _ in 0..7 {
        rest = rest.trim_ascii_start();
        rest = rest.get(rest.iter().position(u8::is_ascii_whitespace)?..)?;
    }
    rest.get(1..).filter(|name| !name.is_empty() && name.first() != Some(&b'@'))
}
