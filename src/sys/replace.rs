//! Puts new content in place of a file that the write boundary let through, and reads one for an edit.
//!
//! The old content is kept first. The new one is written beside the old, made durable, and takes its place in
//! one step, so that a kill at any instant leaves the one or the other. A file with several hard links is
//! written in place, since a new file would part it from its other names. All of it goes through the open
//! folder, never through a path. What may be written is not decided here. It is longer than other files with its tests,
//! which need the private fields.

use super::denied::{Denied, missing};
use super::names::shown;
use super::opening::{Opened, same, true_path};
use super::read::count_lines;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

/// The largest file that is read for an edit, in bytes.
const EDIT_LIMIT: u64 = 64 << 20;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The true path of the file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its lines.
    pub lines: u64,
    /// There was no such file before.
    pub created: bool,
    /// Where the previous content was kept.
    pub previous: Option<PathBuf>,
}

/// The content of a file, whatever its size; `None`: there is no such file.
pub fn read_whole(opened: &Opened) -> Result<Option<Vec<u8>>, Denied> {
    let Some((file, _)) = &opened.old else { return Ok(None) };
    let failed = |error| Denied::io("read", &opened.path, error);
    let (mut file, mut bytes) = (file, Vec::new());
    file.rewind().map_err(failed)?;
    file.read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}

/// The content of a file that is to be edited, at most 64 MiB.
pub fn read_target(opened: &Opened) -> Result<Vec<u8>, Denied> {
    let Some((file, stat)) = &opened.old else { return Err(missing(&opened.path)) };
    let failed = |error| Denied::io("read", &opened.path, error);
    let too_large =
        |bytes| Denied::TooLarge { path: shown(&opened.path), bytes, limit: EDIT_LIMIT };
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size > EDIT_LIMIT {
        return Err(too_large(size));
    }
    let mut file = file;
    file.rewind().map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(EDIT_LIMIT + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > EDIT_LIMIT { Err(too_large(bytes.len() as u64)) } else { Ok(bytes) }
}

/// Replaces the file's content, or makes the file.
///
/// `keep_previous` gets the old file, at its start, and says where it kept the content; when it fails, nothing is
/// written. Mode and owner stay; a new file gets the mode that the umask leaves. The file must still be the one that
/// was opened, unchanged since then. When this returns, the content is durable.
pub fn replace(
    opened: Opened,
    bytes: &[u8],
    keep_previous: &mut dyn FnMut(&mut File) -> anyhow::Result<PathBuf>,
) -> Result<Written, Denied> {
    let mut content = Content {
        write: &mut |file| file.write_all(bytes),
        bytes: bytes.len() as u64,
        keep_previous,
        keep: Keep::Always,
    };
    let (path, created) = (opened.path.clone(), opened.old.is_none());
    let previous = stream(opened, &mut content)?;
    let (bytes, lines) = (bytes.len() as u64, count_lines(bytes));
    Ok(Written { path, bytes, lines, created, previous })
}

/// Removes the file, after its content was kept, and says where. The file must still be the one that was opened.
pub fn remove(
    mut opened: Opened,
    keep_previous: &mut dyn FnMut(&mut File) -> anyhow::Result<PathBuf>,
) -> Result<Option<PathBuf>, Denied> {
    let mut content =
        Content { write: &mut |_| Ok(()), bytes: 0, keep_previous, keep: Keep::Always };
    let previous = keep_old(&mut opened, &mut content)?;
    check(&opened)?;
    if opened.old.is_some() {
        rustix::fs::unlinkat(&opened.dir, &opened.name, AtFlags::empty())
            .map_err(|errno| Denied::io("remove", &opened.path, errno))?;
        sync_folder(&opened)?;
    }
    Ok(previous)
}

/// What a file is to hold, written piece by piece.
pub struct Content<'a> {
    /// Writes it all to a file that stands at its start. Called once.
    pub write: &'a mut dyn FnMut(&mut File) -> std::io::Result<()>,
    /// How much that is, in bytes.
    pub bytes: u64,
    /// Keeps the old file's content, from its start, and says where.
    pub keep_previous: &'a mut dyn FnMut(&mut File) -> anyhow::Result<PathBuf>,
    /// When to keep it.
    pub keep: Keep,
}

/// When a file's previous content is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Before each replacement.
    Always,
    /// Where the file is written in place, which a kill can leave half done.
    InPlace,
}

/// The same as [`replace`] for content of any size. Gives where the previous content was kept, when it was.
///
/// A file with several hard links, or whose owner cannot be given to a new one, is written in place: `write` must not
/// read from it then. Room for the content is made before the first byte is written.
pub fn stream(mut opened: Opened, content: &mut Content<'_>) -> Result<Option<PathBuf>, Denied> {
    let is_in_place = opened.is_linked();
    let mut previous = None;
    if is_in_place || content.keep == Keep::Always {
        previous = keep_old(&mut opened, content)?;
    }
    check(&opened)?;
    if is_in_place {
        in_place(&opened, content)?;
    } else if !beside(&opened, content)? {
        if previous.is_none() {
            previous = keep_old(&mut opened, content)?;
        }
        in_place(&opened, content)?;
    }
    Ok(previous)
}

fn keep_old(opened: &mut Opened, content: &mut Content<'_>) -> Result<Option<PathBuf>, Denied> {
    let Some((file, _)) = &mut opened.old else { return Ok(None) };
    let keep = |source| Denied::Keep { path: shown(&opened.path), source };
    file.rewind().map_err(|error| keep(error.into()))?;
    (content.keep_previous)(file).map_err(keep).map(Some)
}

/// That the folder is still where the boundary found it, and the name in it still the file that was opened, with
/// the content that it had.
fn check(opened: &Opened) -> Result<(), Denied> {
    let changed = || Denied::Changed { path: shown(&opened.path) };
    let folder = opened.path.parent().ok_or_else(changed)?;
    if true_path(&opened.dir, folder).ok().as_deref() != Some(folder) {
        return Err(changed());
    }
    let now = match rustix::fs::statat(&opened.dir, &opened.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(now) => Some(now),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(Denied::io("look at", &opened.path, errno)),
    };
    match (&opened.old, now) {
        (None, None) => Ok(()),
        (Some((_, old)), Some(now)) if is_unchanged(old, &now) => Ok(()),
        _ => Err(changed()),
    }
}

fn is_unchanged(old: &Stat, now: &Stat) -> bool {
    same(old, now)
        && old.st_size == now.st_size
        && old.st_nlink == now.st_nlink
        && (old.st_mtime, old.st_mtime_nsec) == (now.st_mtime, now.st_mtime_nsec)
}

fn in_place(opened: &Opened, content: &mut Content<'_>) -> Result<(), Denied> {
    let Some((_, old)) = &opened.old else {
        return Err(Denied::Changed { path: shown(&opened.path) });
    };
    let failed = |error: std::io::Error| Denied::io("write", &opened.path, error);
    let flags =
        OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&opened.dir, &opened.name, flags, Mode::empty())
        .map_err(|errno| failed(errno.into()))?;
    let now = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
    if !is_unchanged(old, &now) {
        return Err(Denied::Changed { path: shown(&opened.path) });
    }
    let mut file = File::from(file);
    make_room(&file, content.bytes).map_err(failed)?;
    // The length comes last: until then, what is cut short is at most as short as the new content.
    (content.write)(&mut file)
        .and_then(|()| file.set_len(content.bytes))
        .and_then(|()| file.sync_all())
        .map_err(failed)
}

/// Fails where so many bytes would not fit, before any is written.
#[cfg(target_os = "linux")]
fn make_room(file: &File, bytes: u64) -> std::io::Result<()> {
    use rustix::fs::FallocateFlags;
    let most = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if most.is_some_and(|most| bytes > most) {
        return Err(Errno::FBIG.into());
    }
    if bytes == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes) {
        Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(errno.into()),
        // Not every file system can; the write itself tells then.
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn make_room(_: &File, _: u64) -> std::io::Result<()> {
    Ok(())
}

/// Writes a new file and gives it the name. False where the owner cannot be given to a new file.
fn beside(opened: &Opened, content: &mut Content<'_>) -> Result<bool, Denied> {
    let name = format!(".nagent-{}.tmp", uuid::Uuid::new_v4().simple());
    // Nobody else reads it before it has the old file's mode; a new file has the umask applied by the kernel.
    let mode = Mode::from_raw_mode(if opened.old.is_some() { 0o600 } else { 0o666 });
    let unnamed = unnamed(opened, mode);
    let is_unnamed = unnamed.is_some();
    let mut file = unnamed.map_or_else(|| named(opened, &name, mode), Ok)?;
    let result = fill(opened, &mut file, content).and_then(|is_alike| {
        if !is_alike {
            return Ok(false);
        }
        if is_unnamed {
            give_name(opened, &file, &name)?;
        }
        swap(opened, OsStr::new(&name)).map(|()| true)
    });
    if !matches!(result, Ok(true)) {
        // The error that led here says more than one about this.
        _ = rustix::fs::unlinkat(&opened.dir, &name, AtFlags::empty());
    }
    result
}

/// A new file in the folder, by a name that nobody else has.
fn named(opened: &Opened, name: &str, mode: Mode) -> Result<File, Denied> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(&opened.dir, name, flags, mode)
        .map(File::from)
        .map_err(|errno| Denied::io("write beside", &opened.path, errno))
}

/// A new file in the folder that has no name yet, so that nothing of it stays after a kill. Not every file system has
/// such files, and to name one takes procfs.
#[cfg(target_os = "linux")]
fn unnamed(opened: &Opened, mode: Mode) -> Option<File> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    rustix::fs::access("/proc/self/fd", rustix::fs::Access::EXEC_OK).ok()?;
    rustix::fs::openat(&opened.dir, ".", flags, mode).ok().map(File::from)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &Opened, _: Mode) -> Option<File> {
    None
}

fn give_name(opened: &Opened, file: &File, name: &str) -> Result<(), Denied> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(rustix::fs::CWD, path, &opened.dir, name, AtFlags::SYMLINK_FOLLOW)
        .map_err(|errno| Denied::io("write beside", &opened.path, errno))
}

/// Writes the content, the owner and the mode. False where the owner cannot be given to a new file.
fn fill(opened: &Opened, file: &mut File, content: &mut Content<'_>) -> Result<bool, Denied> {
    let failed = |error: std::io::Error| Denied::io("write", &opened.path, error);
    if let Some((_, old)) = &opened.old {
        let new = rustix::fs::fstat(file.as_fd()).map_err(|errno| failed(errno.into()))?;
        let owner = (old.st_uid != new.st_uid).then(|| Uid::from_raw(old.st_uid));
        let group = (old.st_gid != new.st_gid).then(|| Gid::from_raw(old.st_gid));
        if (owner.is_some() || group.is_some())
            && rustix::fs::fchown(file.as_fd(), owner, group).is_err()
        {
            return Ok(false);
        }
        // After the owner, whose change takes set-id bits away.
        rustix::fs::fchmod(file.as_fd(), Mode::from_raw_mode(old.st_mode))
            .map_err(|errno| failed(errno.into()))?;
    }
    (content.write)(file).and_then(|()| file.sync_all()).map_err(failed)?;
    Ok(true)
}

/// Gives the new file the name, in one step, and makes that durable.
fn swap(opened: &Opened, new: &OsStr) -> Result<(), Denied> {
    check(opened)?;
    let (dir, name) = (&opened.dir, &opened.name);
    let renamed = if opened.old.is_some() {
        rustix::fs::renameat(dir, new, dir, name)
    } else {
        rename_to_free_name(dir, new, name)
    };
    match renamed {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(Denied::Changed { path: shown(&opened.path) }),
        Err(errno) => return Err(Denied::io("replace", &opened.path, errno)),
    }
    sync_folder(opened)
}

/// Makes the names in the file's folder durable.
fn sync_folder(opened: &Opened) -> Result<(), Denied> {
    // A folder that may be entered but not read cannot be synced; the file is in place all the same.
    match rustix::fs::openat(
        &opened.dir,
        ".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Ok(folder) => rustix::fs::fsync(&folder)
            .map_err(|errno| Denied::io("sync the folder of", &opened.path, errno)),
        Err(_) => Ok(()),
    }
}

/// A rename that fails where the name is taken; without the kernel's help, the check just before must do.
fn rename_to_free_name(dir: &impl AsFd, new: &OsStr, name: &OsStr) -> rustix::io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::renameat_with(dir, new, dir, name, rustix::fs::RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
        result => return result,
    }
    rustix::fs::renameat(dir, new, dir, name)
}

#[cfg(test)]
mod tests {
    use super::super::boundary::{Boundary, Places};
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tempfile::TempDir;

    /// A folder `in` that may be written, beside `out` that may not.
    fn world() -> (TempDir, PathBuf, Boundary) {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for folder in ["in", "out", "root"] {
            fs::create_dir(top.join(folder)).unwrap();
        }
        fs::write(top.join("out/target"), "").unwrap();
        let root = top.join("root");
        // A per-file conversation, since the temp folders of a main one hold this whole test.
        let places = Places { cwd: &top, toplevel: None, home: None, root: &root, tmpdir: None };
        let mut boundary = Boundary::for_file(places, Path::new("out/target")).unwrap();
        boundary.allow_folder(Path::new("in")).unwrap();
        (dir, top, boundary)
    }

    fn keep(file: &mut File) -> anyhow::Result<PathBuf> {
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(PathBuf::from(format!("kept:{text}")))
    }

    fn write(boundary: &Boundary, path: &Path, bytes: &[u8]) -> Result<Written, Denied> {
        replace(boundary.open_for_write(path)?, bytes, &mut keep)
    }

    /// Names in a folder, so that nothing is left behind.
    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_file_gets_the_umasks_mode() {
        let (_dir, top, boundary) = world();
        let path = top.join("in/a/new");
        let written = write(&boundary, &path, b"one\ntwo").unwrap();
        let expect =
            Written { path: path.clone(), bytes: 7, lines: 2, created: true, previous: None };
        assert_eq!(written, expect);
        fs::write(top.join("in/like"), "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode();
        assert_eq!(mode(&path), mode(&top.join("in/like")));
        assert_eq!(names(&top.join("in/a")), ["new"]);
    }

    #[test]
    fn an_old_file_keeps_its_mode_and_owner_and_its_content_is_kept_first() {
        let (_dir, top, boundary) = world();
        let path = top.join("in/old");
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            std::os::unix::fs::chown(&path, Some(1234), Some(5678)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
        }
        let old = fs::metadata(&path).unwrap();
        let written = write(&boundary, &path, b"after\n").unwrap();
        assert_eq!((written.created, written.previous), (false, Some("kept:before".into())));
        let new = fs::metadata(&path).unwrap();
        assert_eq!((new.mode(), new.uid(), new.gid()), (old.mode(), old.uid(), old.gid()));
        assert_ne!(new.ino(), old.ino());
        assert_eq!(fs::read(&path).unwrap(), b"after\n");
        assert_eq!(names(&top.join("in")), ["old"]);
    }

    #[test]
    fn nothing_is_written_when_the_old_content_cannot_be_kept() {
        let (_dir, top, boundary) = world();
        let path = top.join("in/old");
        fs::write(&path, "before").unwrap();
        let error = replace(boundary.open_for_write(&path).unwrap(), b"x", &mut |_| {
            anyhow::bail!("disk full")
        })
        .unwrap_err();
        assert!(error.to_string().ends_with("could not be kept: disk full"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"before");
    }

    #[test]
    fn a_file_with_several_hard_links_is_written_in_place() {
        let (_dir, top, boundary) = world();
        let (path, other) = (top.join("in/old"), top.join("in/other"));
        fs::write(&path, "a long content").unwrap();
        fs::hard_link(&path, &other).unwrap();
        let written = write(&boundary, &path, b"short").unwrap();
        assert_eq!(written.previous, Some("kept:a long content".into()));
        assert_eq!(fs::read(&other).unwrap(), b"short");
        assert_eq!(fs::metadata(&path).unwrap().nlink(), 2);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_would_not_fit_is_not_begun() {
        let (_dir, top, boundary) = world();
        let path = top.join("in/old");
        fs::write(&path, "before").unwrap();
        fs::hard_link(&path, top.join("in/other")).unwrap();
        let mut content = Content {
            write: &mut |_| unreachable!("there is no room"),
            bytes: 1 << 60,
            keep_previous: &mut keep,
            keep: Keep::InPlace,
        };
        stream(boundary.open_for_write(&path).unwrap(), &mut content).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"before");
    }

    #[test]
    fn what_changed_since_it_was_opened_is_left_alone() {
        let (_dir, top, boundary) = world();
        let path = top.join("in/old");
        let secret = top.join("out/secret");
        let check = |change: &dyn Fn()| {
            _ = fs::remove_file(&path);
            fs::write(&path, "before").unwrap();
            fs::write(&secret, "secret").unwrap();
            let opened = boundary.open_for_write(&path).unwrap();
            change();
            let error = replace(opened, b"after", &mut keep).unwrap_err();
            assert!(matches!(error, Denied::Changed { .. }), "{error}");
            assert_eq!(fs::read(&secret).unwrap(), b"secret");
        };
        check(&|| {
            fs::remove_file(&path).unwrap();
            symlink(&secret, &path).unwrap();
        });
        check(&|| {
            fs::remove_file(&path).unwrap();
            fs::hard_link(&secret, &path).unwrap();
        });
        check(&|| fs::remove_file(&path).unwrap());
        check(&|| fs::write(&path, "by somebody else").unwrap());
        check(&|| {
            fs::write(&path, "BEFORE").unwrap();
            let later = fs::metadata(&path).unwrap().modified().unwrap()
                + std::time::Duration::from_secs(1);
            File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        });
        check(&|| fs::hard_link(&path, top.join("in/another")).unwrap());
        assert_eq!(names(&top.join("in")), ["another", "old"]);
        // A file that appears where none was.
        let opened = boundary.open_for_write(&top.join("in/new")).unwrap();
        symlink(&secret, top.join("in/new")).unwrap();
        assert!(matches!(replace(opened, b"x", &mut keep), Err(Denied::Changed { .. })));
        // The folder itself is moved away.
        fs::create_dir(top.join("in/folder")).unwrap();
        let opened = boundary.open_for_write(&top.join("in/folder/new")).unwrap();
        fs::rename(top.join("in/folder"), top.join("out/folder")).unwrap();
        assert!(matches!(replace(opened, b"x", &mut keep), Err(Denied::Changed { .. })));
        assert_eq!(names(&top.join("out/folder")), [] as [&str; 0]);
    }

    #[test]
    fn a_name_that_is_taken_at_the_last_instant_is_not_replaced() {
        let (_dir, top, boundary) = world();
        let opened = boundary.open_for_write(&top.join("in/new")).unwrap();
        fs::write(top.join("in/temporary"), "x").unwrap();
        fs::write(top.join("in/new"), "taken").unwrap();
        let result = rename_to_free_name(&opened.dir, OsStr::new("temporary"), OsStr::new("new"));
        assert_eq!(result, Err(Errno::EXIST));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_racer_that_swaps_folder_and_link_gets_nothing_out() {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let (_dir, top, boundary) = world();
        let (swapped, link) = (top.join("in/swapped"), top.join("in/link"));
        fs::create_dir(&swapped).unwrap();
        fs::create_dir(top.join("out/victim")).unwrap();
        symlink(top.join("out/victim"), &link).unwrap();
        let done = AtomicBool::new(false);
        let (mut written, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    renameat_with(CWD, &swapped, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                    std::thread::yield_now();
                }
            });
            // Both outcomes, or the race was none.
            for n in 0..20_000 {
                match write(&boundary, &swapped.join(n.to_string()), b"x") {
                    Ok(_) => written += 1,
                    Err(_) => refused += 1,
                }
                if written >= 5 && refused >= 100 {
                    break;
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(names(&top.join("out/victim")), [] as [&str; 0]);
        assert!(written >= 5 && refused >= 100, "{written} written, {refused} refused");
    }

    #[test]
    fn a_target_is_read_for_an_edit_up_to_a_limit() {
        let (_dir, top, boundary) = world();
        let path = top.join("in/file");
        let read = || read_target(&boundary.open_for_write(&path).unwrap());
        assert!(read().unwrap_err().to_string().contains("use <nagent-write> to make a new one"));
        fs::write(&path, "content").unwrap();
        let opened = boundary.open_for_write(&path).unwrap();
        assert_eq!(read_target(&opened).unwrap(), b"content");
        assert_eq!(read_target(&opened).unwrap(), b"content");
        assert_eq!(
            replace(opened, b"new", &mut keep).unwrap().previous,
            Some("kept:content".into())
        );
        File::options().write(true).open(&path).unwrap().set_len(EDIT_LIMIT + 1).unwrap();
        assert!(matches!(read(), Err(Denied::TooLarge { .. })));
    }
}
