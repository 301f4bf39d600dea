//! Reading, storing and naming files.

use super::super::durable::tests as synced;
use super::*;

#[test]
fn an_open_file_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = File::create(dir.path().join("big.txt")).unwrap();
    let error = (&file).read(&mut [0]).unwrap_err();
    let error = cannot_read(&file, &error).to_string();
    assert!(error.starts_with("cannot read /") && error.contains("/big.txt: Bad"), "{error}");
}

#[test]
fn a_file_that_has_more_bytes_than_its_size_says_is_not_truncated_silently() {
    let error = format!("{:#}", read_bytes(Path::new("/proc/self/status"), 10).unwrap_err());
    assert!(error.contains("more than 10 bytes"), "{error}");
}

#[test]
fn what_is_copied_and_renamed_is_durable_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("b"), "one").unwrap();
    copy_file(&path("b"), &path("c")).unwrap();
    synced::check(&path("c"));
    rename_file(&path("c"), &path("d")).unwrap();
    synced::check_folder(&path("d"));
    fs::write(path("e"), "taken").unwrap();
    rename_file(&path("d"), &path("e")).unwrap_err();
    copy_file(&path("d"), &path("e")).unwrap_err();
    assert_eq!(fs::read(path("e")).unwrap(), b"taken");
}

#[test]
fn a_copy_ends_when_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    fs::write(&from, vec![b'x'; 1 << 20]).unwrap();
    let pieces = std::cell::Cell::new(0);
    let stop = || {
        pieces.set(pieces.get() + 1);
        pieces.get() > 2
    };
    let outputs = dir.path().join("outputs");
    let error = store_file(&outputs, &mut File::open(&from).unwrap(), &stop).unwrap_err();
    assert!(format!("{error:#}").contains("interrupted"), "{error:#}");
    assert_eq!(fs::read_dir(outputs).unwrap().count(), 0, "nothing is left of it");
}

#[test]
fn what_is_kept_is_durable_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let kept = store_output(dir.path(), b"some bytes").unwrap();
    synced::check(&kept);
    let from = dir.path().join("from");
    fs::write(&from, "more bytes").unwrap();
    let kept = store_file(dir.path(), &mut File::open(&from).unwrap(), &|| false).unwrap();
    synced::check(&kept);
}

#[test]
fn the_name_of_a_new_log_is_durable_before_anything_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    append_durably(&path, "one").unwrap();
    synced::check_folder(&path);
    append_durably(&path, "two").unwrap();
    assert_eq!(fs::read(path).unwrap(), b"onetwo");
}
