//! The Unix sockets of other programs, which commands must not reach. The kernel knows the names that they were bound
//! to, which need not be their present names.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use sys::env::Env;
use sys::walk::walk_below;

/// Returns the sockets among the first entries of the usual places of agents, whatever names they were bound to.
pub(super) fn find_in_places(env: &Env) -> Vec<PathBuf> {
    let home = env.home_folder().unwrap_or_default();
    // Not where commands write: a covered socket there could not be replaced, not even a dead one of their own.
    let places = [".ssh", ".ansible/cp", ".gnupg"].map(|name| home.join(name));
    let below = places
        .into_iter()
        .chain(["/run".into()])
        .flat_map(|place| walk_below(&place, &|_| true).take(1000));
    // A path, or `unix:///path`.
    let value = |name: &&str| env.get_os(name)?.to_str()?.rsplit("//").next().map(PathBuf::from);
    let named = ["SSH_AUTH_SOCK", "DOCKER_HOST"].iter().filter_map(value);
    let is_socket = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_socket());
    let found = named.chain(below.filter(is_socket).map(|entry| entry.path()));
    found.filter(|path| path.is_absolute()).collect()
}

/// Returns the socket tables of all network namespaces, each through a process in it; that of this process comes first.
pub(super) fn find_tables() -> Vec<PathBuf> {
    let mut namespaces = BTreeSet::new();
    let mut is_new = |process: &PathBuf| {
        fs::read_link(process.join("ns/net")).is_ok_and(|namespace| namespaces.insert(namespace))
    };
    let all = std::iter::once(PathBuf::from("/proc/self")).chain(processes());
    all.filter(|process| is_new(process)).map(|process| process.join("net/unix")).collect()
}

fn processes() -> impl Iterator<Item = PathBuf> {
    fs::read_dir("/proc").into_iter().flatten().flatten().map(|process| process.path())
}

/// Returns the paths of all sockets in these tables. If a socket was renamed or linked since, all sockets in the folder
/// where it was bound are included. `None` if the kernel has no first table.
pub(super) fn list_sockets(tables: &[PathBuf]) -> Option<BTreeSet<PathBuf>> {
    fs::metadata(tables.first()?).ok()?;
    let tables: Vec<Vec<u8>> = tables.iter().filter_map(|table| fs::read(table).ok()).collect();
    let lines = tables.iter().flat_map(|table| table.split(|byte| *byte == b'\n').skip(1));
    let names = lines.filter_map(parse_name).map(|name| PathBuf::from(OsStr::from_bytes(name)));
    let (mut bound, relative): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) =
        names.partition(|name| name.is_absolute());
    if !relative.is_empty() {
        // Most likely it is in the working folder of some process.
        let folders = processes().filter_map(|process| fs::read_link(process.join("cwd")).ok());
        let names = |folder: PathBuf| relative.iter().map(move |name| folder.join(name));
        bound.extend(folders.flat_map(names));
    }
    let has_this_name = |path: &&PathBuf| {
        fs::symlink_metadata(path)
            .is_ok_and(|there| there.file_type().is_socket() && there.nlink() == 1)
    };
    let renamed = bound.iter().filter(|path| !has_this_name(path));
    let renamed: BTreeSet<PathBuf> =
        renamed.filter_map(|path| path.parent()).map(Path::to_owned).collect();
    let beside = renamed.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    bound.extend(beside.map(|entry| entry.path()));
    bound
        .retain(|path| fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()));
    Some(bound)
}

/// Parses the name at the end of a line, after seven columns of numbers. Names that begin with `@` are not in the file
/// system.
fn parse_name(line: &[u8]) -> Option<&[u8]> {
    let mut rest = line;
    for _ in 0..7 {
        rest = rest.trim_ascii_start();
        rest = rest.get(rest.iter().position(u8::is_ascii_whitespace)?..)?;
    }
    rest.get(1..).filter(|name| !name.is_empty() && name.first() != Some(&b'@'))
}
