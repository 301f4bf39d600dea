//! Names that change places while tags write through them: folder and link, file and link, file and hard link; 100,000 swaps
//! each. No write may get out, and some must be done and some refused, or the race was none. Needs `renameat2`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use sys::boundary::{Boundary, BoundaryFolders};
use sys::replace;

use crate::figures::Figures;

const SWAPS: usize = 100_000;

/// What is swapped: its name in the figures, the name that is written through, and how the other is made.
type Race = (&'static str, &'static str, fn(&Path));

const RACES: [Race; 5] = [
    ("folder and link to a folder", "in/name/file", |top| {
        fs::create_dir(top.join("in/name")).unwrap();
        symlink(top.join("out"), top.join("in/other")).unwrap();
    }),
    ("folder and link, two levels up", "in/name/deep/file", |top| {
        fs::create_dir_all(top.join("in/name/deep")).unwrap();
        fs::create_dir(top.join("out/deep")).unwrap();
        symlink(top.join("out"), top.join("in/other")).unwrap();
    }),
    ("folder and relative link", "in/name/file", |top| {
        fs::create_dir(top.join("in/name")).unwrap();
        symlink("../out", top.join("in/other")).unwrap();
    }),
    ("file and link to a file", "in/name", |top| {
        fs::write(top.join("in/name"), "old").unwrap();
        symlink(top.join("out/victim"), top.join("in/other")).unwrap();
    }),
    ("file and hard link", "in/name", |top| {
        fs::write(top.join("in/name"), "old").unwrap();
        fs::hard_link(top.join("out/victim"), top.join("in/other")).unwrap();
    }),
];

pub(crate) fn run(figures: &mut Figures) {
    for (what, path, make) in RACES {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for folder in ["in", "out", "root", "kept"] {
            fs::create_dir(top.join(folder)).unwrap();
        }
        fs::write(top.join("out/victim"), "outside").unwrap();
        fs::write(top.join("out/target"), "outside").unwrap();
        make(&top);
        let before = listed(&top.join("out"));
        let (written, refused, swaps) = race(&top, Path::new(path));
        let escapes = usize::from(listed(&top.join("out")) != before);
        figures.at_least(&format!("{what}: swaps"), swaps, SWAPS);
        figures.at_least(&format!("{what}: writes that were done"), written, 100);
        figures.at_least(&format!("{what}: writes that met the swap"), refused, 1);
        figures.exactly(&format!("{what}: escapes"), escapes, 0);
    }
}

/// Swaps and writes until there were enough of both.
fn race(top: &Path, path: &Path) -> (usize, usize, usize) {
    let root = top.join("root");
    let places =
        BoundaryFolders { cwd: top, toplevel: None, home: None, root: &root, tmpdir: None };
    // A file's own conversation, with a folder that the user named: temp folders would hold all of this.
    let mut boundary = Boundary::for_file(places, Path::new("out/target")).unwrap();
    boundary.allow_folder(Path::new("in")).unwrap();
    let (one, other) = (top.join("in/name"), top.join("in/other"));
    let (done, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut written, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // A file that was just replaced by another name may be gone for an instant.
                if renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_ok() {
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        while swaps.load(Ordering::Relaxed) < SWAPS || written < 100 {
            let mut keep = |_: &mut fs::File| Ok(PathBuf::from("kept"));
            let opened = boundary.open_for_write(&top.join(path));
            let result =
                opened.and_then(|opened| replace::replace_file(opened, b"written", &mut keep));
            if result.is_ok() { written += 1 } else { refused += 1 }
        }
        done.store(true, Ordering::Relaxed);
    });
    (written, refused, swaps.into_inner())
}

fn listed(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(listed(&path));
        } else {
            all.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}
