//! The toolkit's own folders: created for their owner alone, durably, and refused where they belong to another user.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::durable::{parent_folder, sync_file};

/// Creates a folder for its owner alone, and its parents, durably.
pub fn create_private_folder(path: &Path) -> Result<()> {
    make_folders(path, 0o700)
        .with_context(|| format!("cannot create the folder {}", path.display()))
}

/// Makes a folder and its missing parents, each with this mode, durably.
pub(crate) fn make_folders(path: &Path, mode: u32) -> io::Result<()> {
    let is_missing =
        |path: &&Path| !path.as_os_str().is_empty() && fs::symlink_metadata(path).is_err();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    let mut new = Vec::new();
    for folder in missing.into_iter().rev() {
        match fs::DirBuilder::new().mode(mode).create(folder) {
            Ok(()) => new.push(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    if !fs::metadata(path)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    for folder in new {
        // A folder that can be written but not read cannot be synced.
        if let Ok(parent) = File::open(parent_folder(folder)) {
            sync_file(&parent)?;
        }
    }
    Ok(())
}

/// Refuses a file or folder of another user: nagent's files there would be lost to their owner, or open to the other
/// user.
pub fn check_owner(path: &Path, metadata: &fs::Metadata) -> Result<()> {
    let (owner, me) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner == me {
        return Ok(());
    }
    bail!(
        "{} belongs to the user with id {owner}, but you are {me}: use sudo -u '#{owner}', change its owner \
         with chown, or use another root (--root DIR, NAGENT_ROOT)",
        path.display()
    )
}

/// Lets the owner run a file, and others read and run it.
pub fn make_executable(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Refuses a folder of another user, and anything that is not a folder. It may be missing.
pub fn check_folder_owner(folder: &Path) -> Result<()> {
    match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => check_owner(folder, &metadata),
        Ok(_) => bail!("{} is not a folder", folder.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot use {}", folder.display())),
    }
}

/// Takes away the rights of others to a folder of the toolkit, where the file system has such rights. A missing folder
/// is not an error, and a link is left as its maker wants it.
pub fn keep_private(folder: &Path) {
    let Ok(metadata) = fs::symlink_metadata(folder) else { return };
    let mode = metadata.mode();
    if metadata.is_dir() && mode & 0o077 != 0 {
        let _ = fs::set_permissions(folder, fs::Permissions::from_mode(mode & 0o700));
    }
}
