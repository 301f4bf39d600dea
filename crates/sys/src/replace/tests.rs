//! Tests of replacing files: what stays, what is kept, and what a change in between does.

use super::super::boundary::{Boundary, BoundaryFolders};
use super::super::durable::tests as synced;
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
    let places =
        BoundaryFolders { cwd: &top, toplevel: None, home: None, root: &root, tmpdir: None };
    let mut boundary = Boundary::for_file(places, Path::new("out/target")).unwrap();
    boundary.allow_folder(Path::new("in")).unwrap();
    (dir, top, boundary)
}

fn keep(file: &mut File) -> anyhow::Result<PathBuf> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(PathBuf::from(format!("kept:{text}")))
}

fn write(boundary: &Boundary, path: &Path, bytes: &[u8]) -> Result<Replacement, FileError> {
    replace_file(boundary.open_for_write(path)?, bytes, &mut keep)
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
    let expect = Replacement {
        path: path.clone(),
        bytes: 7,
        lines: 2,
        created: true,
        previous: None,
        parted: 0,
    };
    assert_eq!(written, expect);
    fs::write(top.join("in/like"), "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode();
    assert_eq!(mode(&path), mode(&top.join("in/like")));
    assert_eq!(names(&top.join("in/a")), ["new"]);
}

#[test]
fn missing_folders_are_created_when_the_file_is_written_and_not_before() {
    let (_dir, top, boundary) = world();
    let path = top.join("in/a/b/new");
    let opened = boundary.open_for_write(&path).unwrap();
    assert_eq!(opened.path(), path);
    assert!(!top.join("in/a").exists(), "a refused edit leaves no folder");
    replace_file(opened, b"x", &mut keep).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"x");
    synced::check(&path);
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
    let error = replace_file(boundary.open_for_write(&path).unwrap(), b"x", &mut |_| {
        anyhow::bail!("disk full")
    })
    .unwrap_err();
    assert!(error.to_string().ends_with("could not be kept: disk full"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"before");
}

#[test]
fn a_write_in_place_that_fails_on_its_way_says_where_the_previous_content_is() {
    let (_dir, top, boundary) = world();
    let (path, other) = (top.join("out/target"), top.join("out/other"));
    fs::write(&path, "a long content").unwrap();
    fs::hard_link(&path, &other).unwrap();
    let mut opened = boundary.open_for_write(&path).unwrap();
    let previous = keep_old(&mut opened, &mut keep).unwrap();
    let fail = |file: &mut File| {
        file.write_all(b"sho")?;
        Err(Errno::IO.into())
    };
    let error = write_in_place(&opened, fail, previous.as_deref()).unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), b"shoong content");
    let said = error.to_string();
    let expect = ["out/target", "may be half written", "is in kept:a long content"];
    assert!(expect.iter().all(|part| said.contains(part)), "{said}");
}

#[test]
fn the_target_is_written_in_place_where_it_has_several_hard_links() {
    let (_dir, top, boundary) = world();
    let (path, other) = (top.join("out/target"), top.join("out/other"));
    fs::write(&path, "a long content").unwrap();
    fs::hard_link(&path, &other).unwrap();
    let written = write(&boundary, &path, b"short").unwrap();
    assert_eq!((written.previous, written.parted), (Some("kept:a long content".into()), 0));
    assert_eq!(fs::read(&other).unwrap(), b"short");
    assert_eq!(fs::metadata(&path).unwrap().nlink(), 2);
}

// Until links were parted, every file with several was written in place, and with it whatever somebody had linked to.
#[test]
fn another_file_is_parted_from_its_other_names() {
    let (_dir, top, boundary) = world();
    let (path, victim) = (top.join("in/old"), top.join("out/victim"));
    fs::write(&victim, "before").unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o6751)).unwrap();
    for names in 1..3 {
        _ = fs::remove_file(&path);
        fs::hard_link(&victim, &path).unwrap();
        fs::hard_link(&victim, top.join(format!("out/name-{names}"))).unwrap();
        let written = write(&boundary, &path, b"after").unwrap();
        assert_eq!((written.previous, written.parted), (Some("kept:before".into()), names + 1));
        assert_eq!(fs::read(&victim).unwrap(), b"before");
        assert_eq!(
            (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().nlink()),
            (b"after".to_vec(), 1)
        );
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o751, "no set-id bits");
    }
}

fn is_changed(result: Result<Replacement, FileError>) -> bool {
    result.is_err_and(|error| error.to_string().contains("was changed or replaced"))
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
        let error = replace_file(opened, b"after", &mut keep).unwrap_err();
        assert!(error.to_string().contains("was changed or replaced"), "{error}");
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
        let later =
            fs::metadata(&path).unwrap().modified().unwrap() + std::time::Duration::from_secs(1);
        File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    });
    check(&|| fs::hard_link(&path, top.join("in/another")).unwrap());
    assert_eq!(names(&top.join("in")), ["another", "old"]);
    // A file that appears where none was.
    let opened = boundary.open_for_write(&top.join("in/new")).unwrap();
    symlink(&secret, top.join("in/new")).unwrap();
    assert!(is_changed(replace_file(opened, b"x", &mut keep)));
    // The folder itself is moved away.
    fs::create_dir(top.join("in/folder")).unwrap();
    let opened = boundary.open_for_write(&top.join("in/folder/new")).unwrap();
    fs::rename(top.join("in/folder"), top.join("out/folder")).unwrap();
    assert!(is_changed(replace_file(opened, b"x", &mut keep)));
    assert_eq!(names(&top.join("out/folder")), [] as [&str; 0]);
}

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
    assert!(read().unwrap_err().to_string().contains("no such file or folder"));
    fs::write(&path, "content").unwrap();
    let opened = boundary.open_for_write(&path).unwrap();
    assert_eq!(read_target(&opened).unwrap(), b"content");
    assert_eq!(read_target(&opened).unwrap(), b"content");
    assert_eq!(
        replace_file(opened, b"new", &mut keep).unwrap().previous,
        Some("kept:content".into())
    );
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(conversation::limits::EDITED_FILE + 1)
        .unwrap();
    assert!(read().unwrap_err().reason == Some(Reason::TooLarge));
}

#[test]
fn what_is_written_is_durable_with_its_name() {
    let (_dir, top, boundary) = world();
    let path = top.join("in/a");
    write(&boundary, &path, b"one").unwrap();
    synced::check(&path);
    write(&boundary, &path, b"other").unwrap();
    synced::check(&path);
    remove_file(boundary.open_for_write(&path).unwrap(), &mut keep).unwrap();
    synced::check_folder(&path);
    // The target is written in place where it has other names: the name itself stays.
    let target = top.join("out/target");
    fs::hard_link(&target, top.join("out/other")).unwrap();
    write(&boundary, &target, b"in place").unwrap();
    synced::check_content(&target);
}
