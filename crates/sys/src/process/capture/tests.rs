//! Tests of captures: what stays in memory, what goes to a file, cuts.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use proptest::prelude::*;

use super::*;

fn capture(keep: usize, folder: &Path, chunks: &[&[u8]]) -> Captured {
    let mut capture = Capture::new(keep, folder.to_owned(), 1000);
    for chunk in chunks {
        capture.append(chunk);
    }
    capture.finish()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn what_fits_stays_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let captured = capture(4, folder.path(), &[b"ab\ncd", b"efg"]);
    assert_eq!((&captured.head[..], &captured.tail[..]), (&b"ab\nc"[..], &b"defg"[..]));
    assert_eq!((captured.bytes, captured.lines, captured.left_out), (8, 2, 0));
    assert_eq!((captured.head_text(), captured.tail_text()), ("ab\ncdefg".into(), "".into()));
    assert!(captured.spooled.is_none());
    assert!(names(folder.path()).is_empty());
}

#[test]
fn what_does_not_fit_is_in_a_file_named_for_its_hash() {
    let folder = tempfile::tempdir().unwrap();
    let outputs = folder.path().join("deep/outputs");
    let captured = capture(2, &outputs, &[b"abc", b"", b"d\nxyz"]);
    assert_eq!(
        (&captured.head[..], &captured.tail[..], captured.left_out),
        (&b"ab"[..], &b"yz"[..], 4)
    );
    let spooled = captured.spooled.unwrap();
    assert_eq!(std::fs::read(&spooled).unwrap(), b"abcd\nxyz");
    let hash = "4c3ab5cc77ae26cffb87fddbf2acce7a7e8faf1e321b97628b1fd4097730a335";
    assert_eq!(names(&outputs), [format!("{hash}.txt")]);
    assert_eq!(std::fs::metadata(&spooled).unwrap().permissions().mode() & 0o777, 0o600);

    // The same output again: it stays the same file, and no temporary one is left.
    let before = std::fs::metadata(&spooled).unwrap().ino();
    let again = capture(2, &outputs, &[b"abcd\nxyz"]);
    assert_eq!(again.spooled, Some(spooled.clone()));
    assert_eq!(names(&outputs).len(), 1);
    assert_eq!(std::fs::metadata(&spooled).unwrap().ino(), before);
}

#[test]
fn bytes_that_are_no_utf8_are_kept_even_when_few() {
    let folder = tempfile::tempdir().unwrap();
    let captured = capture(100, folder.path(), &[b"a\xff\0b"]);
    assert_eq!(captured.head_text(), "a\u{fffd}\0b");
    assert_eq!(std::fs::read(captured.spooled.unwrap()).unwrap(), b"a\xff\0b");
    let captured = capture(100, folder.path(), &[b"a\0b"]);
    assert_eq!(std::fs::read(captured.spooled.unwrap()).unwrap(), b"a\0b");
}

#[test]
fn cuts_do_not_leave_half_characters() {
    let folder = tempfile::tempdir().unwrap();
    let text = "aä".repeat(20);
    let captured = capture(5, folder.path(), &[text.as_bytes()]);
    assert_eq!((captured.head_text(), captured.tail_text()), ("aäa".into(), "äaä".into()));
    let captured = capture(4, folder.path(), &[text.as_bytes()]);
    assert_eq!((captured.head_text(), captured.tail_text()), ("aäa".into(), "aä".into()));
}

#[test]
fn a_folder_that_cannot_be_written_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let captured = capture(1, &file, &[b"abc", b"def"]);
    assert_eq!((&captured.head[..], &captured.tail[..]), (&b"a"[..], &b"f"[..]));
    assert!(captured.spooled.is_none());
    let error = captured.spool_error.unwrap();
    assert!(
        error.starts_with("cannot keep the whole output in ") && error.contains("file"),
        "{error}"
    );
}

#[test]
fn a_file_that_would_be_larger_than_there_is_room_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let captured = capture(2, folder.path(), &[&[b'x'; 1000]]);
    assert!(captured.spooled.is_some());
    let captured = capture(2, folder.path(), &[&[b'y'; 999], b"zz", b"z"]);
    assert_eq!((captured.bytes, captured.head_text().as_ref()), (1002, "yy"));
    assert!(captured.spooled.is_none());
    let error = captured.spool_error.unwrap();
    assert!(error.ends_with("over the limit of 2 GiB for all commands of a run"), "{error}");
    assert_eq!(names(folder.path()).len(), 1, "that of the other one");
}

proptest! {
    #[test]
    fn figures_do_not_depend_on_where_the_stream_is_cut(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..60),
            "[a-zä€😀\n]{0,30}".prop_map(String::into_bytes),
        ],
        keep in 0_usize..20,
        step in 1_usize..9,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let chunks: Vec<&[u8]> = bytes.chunks(step).collect();
        let captured = capture(keep, folder.path(), &chunks);
        prop_assert_eq!(format!("{captured:?}"), format!("{:?}", capture(keep, folder.path(), &[&bytes])));
        let is_utf8 = std::str::from_utf8(&bytes).is_ok();
        let is_shown_whole = captured.left_out == 0 && is_utf8 && !bytes.contains(&0);
        prop_assert_eq!(captured.spooled.is_none(), is_shown_whole);
        prop_assert_eq!(&captured.head[..], &bytes[..keep.min(bytes.len())]);
        let tail = bytes.len().saturating_sub(keep).min(keep);
        prop_assert_eq!(&captured.tail[..], &bytes[bytes.len() - tail..]);
        prop_assert_eq!(captured.left_out, (bytes.len() - captured.head.len() - tail) as u64);
        if is_utf8 {
            let text = captured.head_text() + captured.tail_text();
            prop_assert!(!text.contains(char::REPLACEMENT_CHARACTER));
        }
    }
}
