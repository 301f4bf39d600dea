//! Messages to the run of a conversation: files in `{name}.messages`, each written in one step and removed when its
//! text is durable in the conversation.
//!
//! The name of a file is the message's id, `{microseconds since 1970}-{random}.txt`; sorted by name, messages are in
//! the order in which they were sent, even if the clock was set back meanwhile. The block in the conversation has the
//! id, so that a run that was killed before it removed the file does not append the message twice.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};

use super::atomic_file::AtomicFile;
use super::root::Root;
use super::{clock, fs};
use conversation::limits;

/// The attribute with the id of the message that became a block.
pub const ID: &str = "message";

/// The highest time that fits into an id.
const LAST_TIME: u64 = 9_999_999_999_999_999;

/// A message that no run has read yet.
#[derive(Debug)]
pub struct UserMessage {
    /// The name of its file, without the extension.
    pub id: String,
    /// Its text, or the reason why it cannot be read.
    pub text: Result<Vec<u8>>,
}

/// Stores a message, durably, and returns its id.
///
/// # Errors
/// It is too long; the folder cannot be written, or belongs to somebody else.
pub fn send(root: &Root, name: &str, text: &[u8]) -> Result<String> {
    if text.len() as u64 > limits::MESSAGE {
        bail!(
            "the message has {} bytes, over the limit of {}: put it into a file and name the file in the message",
            text.len(),
            limits::MESSAGE
        );
    }
    let folder = root.messages_folder(name);
    fs::check_folder_owner(&folder)?;
    fs::create_private_folder(&folder)?;
    let last = list_ids(root, name)?.iter().filter_map(|id| time_of(id)).max();
    let now = u64::try_from(clock::since_epoch().as_micros()).unwrap_or(0);
    let time = now.max(last.map_or(0, |last| last.saturating_add(1))).min(LAST_TIME);
    let random = uuid::Uuid::new_v4().simple().to_string();
    let id = format!("{time:016}-{}", &random[..8]);
    AtomicFile::new(&path_of(root, name, &id)).create(text)?;
    Ok(id)
}

/// The ids of the messages that wait, in the order in which they were sent.
///
/// # Errors
/// The folder cannot be read.
pub fn list_ids(root: &Root, name: &str) -> Result<Vec<String>> {
    let files = fs::list_names(&root.messages_folder(name))?.into_iter();
    let ids = files.filter_map(|file| file.strip_suffix(".txt").map(str::to_owned));
    Ok(ids.filter(|id| time_of(id).is_some()).collect())
}

/// Reads the messages that wait, in the order in which they were sent.
///
/// # Errors
/// The folder cannot be read, or belongs to somebody else.
pub fn read_all(root: &Root, name: &str) -> Result<Vec<UserMessage>> {
    let ids = list_ids(root, name)?;
    if !ids.is_empty() {
        fs::check_folder_owner(&root.messages_folder(name))?;
    }
    let read = |id: String| {
        let path = path_of(root, name, &id);
        let text = if path.is_symlink() {
            Err(anyhow!("{} is a symbolic link, which is not followed", path.display()))
        } else {
            fs::read_bytes(&path, limits::MESSAGE)
                .and_then(|text| text.with_context(|| format!("{} is gone", path.display())))
        };
        UserMessage { id, text }
    };
    Ok(ids.into_iter().map(read).collect())
}

/// Removes a message that has become a block. If that fails, its id in the conversation keeps it from being appended
/// again.
pub fn remove(root: &Root, name: &str, id: &str) {
    // The id may come from a conversation that somebody has edited.
    if time_of(id).is_some() {
        let _ = fs::remove_file(&path_of(root, name, id));
    }
}

/// The file of a message.
pub fn path_of(root: &Root, name: &str, id: &str) -> PathBuf {
    root.messages_folder(name).join(format!("{id}.txt"))
}

/// Parses the time in an id; `None` if this is not an id.
fn time_of(id: &str) -> Option<u64> {
    let (time, random) = id.split_once('-')?;
    let is_plain = |text: &str, length| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    (is_plain(time, 16) && is_plain(random, 8)).then(|| time.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_order_when_the_clock_is_set_back() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root { folder: dir.path().to_owned() };
        root.prepare().unwrap();
        let future = "9000000000000000-00000000";
        fs::create_private_folder(&root.messages_folder("c")).unwrap();
        std::fs::write(path_of(&root, "c", future), "first").unwrap();
        for name in
            ["notes", "1-2.txt", ".nagent-0.tmp", "../x.txt", "é000000000000000-00000000.txt"]
        {
            let _ = std::fs::write(root.messages_folder("c").join(name), "no message");
        }
        for text in ["second", "third"] {
            send(&root, "c", text.as_bytes()).unwrap();
        }
        let read = read_all(&root, "c").unwrap();
        let texts: Vec<_> = read.iter().map(|it| it.text.as_ref().unwrap().clone()).collect();
        assert_eq!(texts, [b"first".to_vec(), b"second".to_vec(), b"third".to_vec()]);
        for message in read {
            remove(&root, "c", &message.id);
        }
        assert_eq!(list_ids(&root, "c").unwrap(), [""; 0]);
        std::os::unix::fs::symlink("/etc/hostname", path_of(&root, "c", future)).unwrap();
        let linked = read_all(&root, "c").unwrap().remove(0).text.unwrap_err();
        assert!(linked.to_string().contains("is a symbolic link"), "{linked}");
        remove(&root, "c", future);
        let last = path_of(&root, "c", "9999999999999999-00000000");
        std::fs::write(&last, "last").unwrap();
        send(&root, "c", b"beside it").unwrap();
        assert_eq!(list_ids(&root, "c").unwrap().len(), 2);
        let long = vec![b'x'; usize::try_from(limits::MESSAGE).unwrap() + 1];
        assert!(send(&root, "c", &long).unwrap_err().to_string().contains("1048577 bytes"));
    }
}
