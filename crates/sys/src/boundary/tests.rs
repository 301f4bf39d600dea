//! Tests of the boundary, and the world that tests of opening share: what may be written, and what may not.

use super::*;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// A folder `in` that may be written, `out` that may not, and `root` as nagent's own.
pub(in super::super) struct World {
    _dir: TempDir,
    pub(in super::super) top: PathBuf,
    pub(in super::super) boundary: Boundary,
}

pub(in super::super) fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    for folder in ["in", "out", "root/splits/s", "in-evil", "home"] {
        fs::create_dir_all(top.join(folder)).unwrap();
    }
    let (cwd, root, home) = (top.join("out"), top.join("root"), top.join("home"));
    let places =
        BoundaryFolders { cwd: &cwd, toplevel: None, home: Some(&home), root: &root, tmpdir: None };
    let mut boundary = Boundary::without_folders(places);
    boundary.add_root(top.join("in"));
    World { _dir: dir, top, boundary }
}

impl World {
    pub(in super::super) fn at(&self, path: &str) -> PathBuf {
        self.top.join(path)
    }

    pub(in super::super) fn file(&self, path: &str) -> PathBuf {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), "old").unwrap();
        self.at(path)
    }

    #[track_caller]
    pub(in super::super) fn opens(&self, path: impl AsRef<Path>, expect: &str) {
        let opened = self.boundary.open_for_write(&self.top.join(path)).unwrap();
        assert_eq!(opened.path(), self.at(expect));
    }

    #[track_caller]
    pub(in super::super) fn denies(&self, path: impl AsRef<Path>, expect: &str) {
        let denied = self.boundary.open_for_write(&self.top.join(path)).unwrap_err().for_model();
        assert!(denied.contains(expect), "{denied}");
    }

    fn for_file(&mut self, target: &str) -> Result<(), FileError> {
        let (cwd, root, home) = (self.at("out"), self.at("root"), self.at("home"));
        let places = BoundaryFolders {
            cwd: &cwd,
            toplevel: None,
            home: Some(&home),
            root: &root,
            tmpdir: None,
        };
        self.boundary = Boundary::for_file(places, &self.at(target))?;
        Ok(())
    }
}

pub(in super::super) const OUTSIDE: &str = "is outside of the write boundary";

#[test]
fn a_repositorys_own_data_is_never_written() {
    let world = world();
    world.file("in/repo/.git/hooks/x");
    for folder in ["bare.git/objects", "bare.git/refs", "bare.git/hooks"] {
        fs::create_dir_all(world.at("in").join(folder)).unwrap();
    }
    world.file("in/bare.git/HEAD");
    symlink(".git", world.at("in/repo/data")).unwrap();
    symlink("../elsewhere", world.at("in/repo2")).unwrap();
    for path in [
        "in/repo/.git/config",
        "in/repo/.git/hooks/x",
        "in/repo/.GIT/new",
        "in/repo/data/config",
        "in/new/.git",
        "in/bare.git/hooks/x",
        "in/bare.git/config",
    ] {
        world.denies(path, "repository's own data");
    }
    world.opens("in/repo/.gitignore", "in/repo/.gitignore");
    world.opens("in/x.git/y", "in/x.git/y");
}

#[test]
fn nagents_root_is_never_written_but_for_what_was_allowed() {
    let mut world = world();
    world.boundary.add_root(world.top.clone());
    world.denies("root/config.json", "nagent's own folder");
    world.denies("root/conversations/new", "nagent's own folder");
    symlink("../root", world.at("in/link")).unwrap();
    world.denies("in/link/x", "nagent's own folder");
    world.boundary.allow_splits(&world.at("root/splits/s"));
    world.opens("root/splits/s/1.txt", "root/splits/s/1.txt");
    world.denies("root/splits/s2/1.txt", "nagent's own folder");
    world.for_file("root/context.md").unwrap();
    world.opens("root/context.md", "root/context.md");
    world.denies("root/config.json", "nagent's own folder");
}

#[test]
fn a_per_file_conversation_writes_its_target_only() {
    let mut world = world();
    world.file("out/target");
    world.for_file("out/target").unwrap();
    world.opens("out/target", "out/target");
    world.opens("out/../out/target", "out/target");
    world.denies("out/other", "describe the needed change in your answer");
    world.denies("in/x", OUTSIDE);
    world.denies("/tmp/nagent-test-missing", OUTSIDE);
    world.for_file("out/new/file").unwrap();
    assert!(!world.at("out/new").exists());
    world.denies("out/new/other", OUTSIDE);
    world.opens("out/new/file", "out/new/file");
    symlink("../in/linked", world.at("out/link")).unwrap();
    world.for_file("out/link").unwrap();
    world.opens("out/link", "in/linked");
    assert!(
        matches!(world.for_file("out/.git/config"), Err(error) if error.to_string().contains(".git"))
    );
    assert!(
        matches!(world.for_file("out"), Err(error) if error.to_string().contains("is a folder"))
    );
}

#[test]
fn a_target_is_the_file_that_was_opened() {
    let mut world = world();
    let target = world.file("out/target");
    let secret = world.file("out/secret");
    world.for_file("out/target").unwrap();
    // An editor saves by rename: another inode, one name.
    fs::write(world.at("out/saved"), "saved").unwrap();
    fs::rename(world.at("out/saved"), &target).unwrap();
    world.opens("out/target", "out/target");
    world.boundary.renew_target();
    // Another name of the target is not the target, the target itself still is.
    fs::hard_link(&target, world.at("out/alias")).unwrap();
    world.denies("out/alias", OUTSIDE);
    world.opens("out/target", "out/target");
    // It was moved, and has no other name.
    fs::remove_file(&target).unwrap();
    world.opens("out/alias", "out/alias");
    fs::rename(world.at("out/alias"), world.at("root/alias")).unwrap();
    world.denies("root/alias", "nagent's own folder");
    // Something else was planted in its place.
    fs::hard_link(&secret, &target).unwrap();
    world.denies("out/target", "a different file with several hard links");
    fs::remove_file(&target).unwrap();
    symlink("secret", &target).unwrap();
    world.denies("out/target", OUTSIDE);
}

#[test]
fn tmpdir_is_a_root_unless_it_holds_more_than_temporary_files() {
    let world = world();
    let (tree, root, home) = (world.at("in/tree/deep"), world.at("root/n"), world.at("home/me"));
    for folder in [&tree, &root, &home] {
        fs::create_dir_all(folder).unwrap();
    }
    symlink("home", world.at("link")).unwrap();
    world.file("out/file");
    let toplevel = world.at("in/tree");
    let check = |tmpdir: &Path, expect: Option<PathBuf>| {
        let places = BoundaryFolders {
            cwd: &tree,
            toplevel: Some(&toplevel),
            home: Some(&home),
            root: &root,
            tmpdir: Some(tmpdir.as_os_str()),
        };
        // As for a main conversation, but without /tmp, where this test's folders are.
        assert_eq!(
            Boundary::without_folders(places).tmpdir(places),
            expect,
            "{}",
            tmpdir.display()
        );
    };
    check(Path::new("/"), None);
    check(Path::new("/proc/self/root"), None);
    check(&home, None);
    check(&world.at("home"), None);
    check(&world.at("link"), None);
    check(&tree, None);
    check(&world.at("in/tree"), None);
    check(&world.at("in"), None);
    check(&world.at("root"), None);
    check(Path::new("."), None);
    check(&world.at("nowhere"), None);
    check(&world.at("out/file"), None);
    check(Path::new(""), None);
    check(&world.at("out"), Some(world.at("out")));
    check(&world.at("in/tree/deep/../../../out/"), Some(world.at("out")));
}

#[test]
fn a_main_conversation_writes_temp_folders() {
    let world = world();
    let (cwd, root) = (world.at("out"), world.at("root"));
    let places = BoundaryFolders {
        cwd: &cwd,
        toplevel: None,
        home: Some(Path::new("/home/me")),
        root: &root,
        tmpdir: Some(OsStr::new("/home")),
    };
    let boundary = Boundary::for_main(places);
    assert_eq!(
        boundary.roots,
        [resolve_links(Path::new("/tmp")), resolve_links(Path::new("/var/tmp"))]
    );
    let boundary =
        Boundary::for_main(BoundaryFolders { tmpdir: Some(OsStr::new("/tmp")), ..places });
    assert_eq!(boundary.roots.len(), 2);
}
