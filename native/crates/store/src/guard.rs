//! The `lock` file (one owner of a store) and the `abort` file (the last stop was not clean).

use super::error::{Result, StoreError};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Holds the exclusive lock on `ROOT/lock` until dropped. [DefaultMessageStore]
#[derive(Debug)]
pub struct StoreLock {
    _file: File,
}

impl StoreLock {
    pub fn take(root: &Path) -> Result<Self> {
        let path = root.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|e| StoreError::io("open", &path, &e))?;
        if let Err(e) = lock_first_byte(&file) {
            return Err(match e.raw_os_error() {
                Some(libc::EAGAIN | libc::EACCES) => StoreError::Locked(root.to_path_buf()),
                _ => StoreError::io("lock", &path, &e),
            });
        }
        file.write_all(b"lock")
            .map_err(|e| StoreError::io("write", &path, &e))?;
        Ok(StoreLock { _file: file })
    }
}

/// An open-file-description lock on bytes [0, 1): it conflicts with Java's `FileLock` (a record
/// lock of the same range) and, unlike that, also with a second opening in the same process.
fn lock_first_byte(file: &File) -> std::io::Result<()> {
    // SAFETY: `flock` is plain data for which all-zero is a valid value.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = libc::F_WRLCK as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_len = 1;
    // SAFETY: the descriptor is open and `range` outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn abort_path(root: &Path) -> PathBuf {
    root.join("abort")
}

/// How the store was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastStop {
    Clean,
    /// Killed, or the machine went down.
    Killed,
    /// Killed after a flush had failed: the kernel may believe pages to be on disk that are not.
    FailedFlush,
    /// Killed or not: an operator wants to continue without what is missing of the log.
    LossAccepted,
}

const FAILED_FLUSH: &[u8] = b" flush failed";
/// What an operator writes into the abort file to continue without the missing part of a log. The
/// next start that succeeds writes its process id there, so it counts once.
const ACCEPT_LOSS: &str = "accept-loss";

/// How an operator accepts that part of the log is gone, for the end of an error's text.
pub fn how_to_accept_loss(root: &Path) -> String {
    let abort = abort_path(root);
    format!(
        "write the word {ACCEPT_LOSS} into the file {}",
        abort.display()
    )
}

/// What the `abort` file says; an error if that cannot be found out.
pub fn last_stop(root: &Path) -> Result<LastStop> {
    let path = abort_path(root);
    match std::fs::read(&path) {
        Ok(text) if text.ends_with(FAILED_FLUSH) => Ok(LastStop::FailedFlush),
        Ok(text) if text.trim_ascii() == ACCEPT_LOSS.as_bytes() => Ok(LastStop::LossAccepted),
        Ok(_) => Ok(LastStop::Killed),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(LastStop::Clean),
        Err(e) => Err(StoreError::io("read", &path, &e)),
    }
}

/// Notes the failure for the next start, as far as the disk still takes it.
pub fn note_failed_flush(root: &Path) {
    let path = abort_path(root);
    if let Err(e) = append_note(&path, false) {
        log::error!(path:% = path.display(); "the failed flush is not noted in the abort file: {e}");
    }
}

fn append_note(path: &Path, create: bool) -> std::io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(create).open(path)?;
    file.write_all(FAILED_FLUSH)?;
    file.sync_all()
}

/// Says, on disk, that all queues are to be rebuilt from the log, before the first of them is
/// changed: a recovery that is killed half-way is started again by the next start.
pub fn note_rebuild(root: &Path) -> Result<()> {
    let path = abort_path(root);
    let noted = || {
        if last_stop(root).is_ok_and(|stop| stop == LastStop::FailedFlush) {
            return Ok(());
        }
        append_note(&path, true)
    };
    noted().map_err(|e| StoreError::io("write", &path, &e))?;
    sync_dir(root)
}

/// Marks the store as running. That the file is there is what counts; the process id in it is for
/// people, so a disk without a free byte does not keep a store from being read.
pub fn write_abort(root: &Path) -> Result<()> {
    let path = abort_path(root);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|e| StoreError::io("write", &path, &e))?;
    let pid = std::process::id().to_string();
    if file.write_all(pid.as_bytes()).is_ok() {
        let _ = file.set_len(pid.len() as u64);
    }
    Ok(())
}

pub fn remove_abort(root: &Path) -> Result<()> {
    remove_if_there(&abort_path(root))
}

/// Deletes a file; one that is gone already is no error.
pub fn remove_if_there(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io("remove", path, &e))
        }
        _ => Ok(()),
    }
}

/// Makes a created, renamed or removed name of `dir` durable.
pub fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir)
        .and_then(|d| d.sync_all())
        .map_err(|e| StoreError::io("sync", dir, &e))
}

/// Writes everything of the file system that holds `dir` to the disk.
pub fn sync_file_system(dir: &Path) -> Result<()> {
    let io = |e: &std::io::Error| StoreError::io("sync", dir, e);
    let file = File::open(dir).map_err(|e| io(&e))?;
    rustix::fs::syncfs(file).map_err(|e| io(&e.into()))
}

/// Creates a folder and those above it that are missing, durably.
pub fn create_dirs(dir: &Path) -> Result<()> {
    let missing = dir.ancestors().take_while(|d| !d.exists()).count();
    make_dirs(dir)?;
    for parent in dir.ancestors().skip(1).take(missing) {
        sync_dir(if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        })?;
    }
    Ok(())
}

/// The same, for whoever makes the names durable later.
pub fn make_dirs(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|e| StoreError::io("create folder", dir, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner() {
        let dir = tempfile::tempdir().unwrap();
        let first = StoreLock::take(dir.path()).unwrap();
        assert!(matches!(
            StoreLock::take(dir.path()),
            Err(StoreError::Locked(_))
        ));
        assert_eq!(std::fs::read(dir.path().join("lock")).unwrap(), b"lock");
        drop(first);
        StoreLock::take(dir.path()).unwrap();
    }
}
