//! How a file's own conversation writes its file: whole, in place of the old one, with its mode, and where it is.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::file_boundary::{after, nothing, refused, results, run, statuses, world};
use crate::file_edit::{edit, write};

#[test]
fn a_reader_sees_the_old_text_or_the_new_and_nothing_else() {
    let sandbox = world();
    let long = |n: usize| format!("{n}\n").repeat(5_000);
    sandbox.write("in/a.txt", long(0));
    let path = sandbox.work().join("in/a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, watched) = (Arc::clone(&stop), path.clone());
    let reader = std::thread::spawn(move || {
        let mut reads = 0;
        while !stopped.load(Ordering::Relaxed) {
            let text = fs::read_to_string(&watched).unwrap();
            let first = text.lines().next().unwrap_or_default();
            assert_eq!(text, format!("{first}\n").repeat(5_000));
            reads += 1;
        }
        reads
    });
    let read = nothing("<nagent-read path=\"in/a.txt\"/>".to_owned());
    let writes = (1..10).map(|n| nothing(write("in/a.txt", &long(n))));
    run(&sandbox, "in/a.txt", std::iter::once(read).chain(writes).collect());
    stop.store(true, Ordering::Relaxed);
    assert!(reader.join().unwrap() > 2);
    assert_eq!(statuses(&sandbox), ["ok"; 9]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
    let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing is left beside it: {names:?}");
    for (n, block) in results(&sandbox).iter().enumerate() {
        assert_eq!(
            fs::read_to_string(sandbox.stored(block.get("previous"))).unwrap(),
            long(n),
            "all is kept"
        );
    }
}

#[test]
fn an_edit_keeps_line_ends_marks_and_bytes_that_are_not_its_own() {
    let sandbox = world().file("in/a.txt", "\u{feff}one\r\ntwo\r\nthree");
    run(&sandbox, "in/a.txt", vec![nothing(edit("in/a.txt", "two", "2\nmore"))]);
    assert_eq!(sandbox.read("in/a.txt"), "\u{feff}one\r\n2\r\nmore\r\nthree");
}

#[test]
fn an_editor_that_saves_by_renaming_makes_no_stranger_of_the_target() {
    let sandbox = world();
    let folder = sandbox.work().join("in");
    let save = move || {
        fs::write(folder.join("a.txt~"), "old\n").unwrap();
        fs::rename(folder.join("a.txt~"), folder.join("a.txt")).unwrap();
    };
    let steps = vec![
        after(save.clone(), edit("in/a.txt", "old", "1")),
        nothing(edit("in/a.txt", "1", "2")),
    ];
    run(&sandbox, "in/a.txt", steps);
    assert_eq!(statuses(&sandbox), ["ok", "ok"]);
    assert_eq!(sandbox.read("in/a.txt"), "2\n");
}

#[test]
fn a_target_that_becomes_read_only_is_left_alone() {
    let sandbox = world();
    let path = sandbox.work().join("in/a.txt");
    let lock = move || fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    run(&sandbox, "in/a.txt", vec![after(lock, write("in/a.txt", "new\n"))]);
    refused(&results(&sandbox)[0], "read-only");
    assert_eq!(sandbox.read("in/a.txt"), "old\n");
}

#[test]
fn a_target_on_another_device_is_written_there() {
    let sandbox = world();
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let here = device(&sandbox.work());
    let elsewhere = ["/dev/shm", "/run/user", "/tmp", "/var/tmp"].map(Path::new);
    let elsewhere =
        elsewhere.into_iter().find(|path| device(path).is_some_and(|d| Some(d) != here));
    let folder = tempfile::tempdir_in(elsewhere.expect("a folder on another device")).unwrap();
    let path = folder.path().join("a.txt");
    fs::write(&path, "old\r\n").unwrap();
    let name = path.to_str().unwrap();
    run(&sandbox, name, vec![nothing(edit(name, "old", "new"))]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "new\r\n");
    assert!(sandbox.stored(results(&sandbox)[0].get("previous")).exists());
    let undo = sandbox.file_edit(&["--file", name, "--undo"]);
    undo.run().assert_exit(0);
    assert_eq!(fs::read_to_string(&path).unwrap(), "old\r\n");
}

#[test]
fn a_file_keeps_its_extended_attributes() {
    let sandbox = world().file("in/a.txt", "one\n");
    let path = sandbox.work().join("in/a.txt");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&path, "user.label", b"mine", flags).unwrap();
    run(&sandbox, "in/a.txt", vec![nothing(edit("in/a.txt", "one", "two"))]);
    assert_eq!(sandbox.read("in/a.txt"), "two\n");
    let mut value = [0; 9];
    let length = rustix::fs::getxattr(&path, "user.label", &mut value).unwrap();
    assert_eq!(&value[..length], b"mine");
}
