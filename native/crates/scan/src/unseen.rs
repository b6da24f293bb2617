//! Whether a segment that is not found was deleted, or cannot be seen from where a task runs.
//!
//! A broker deletes its oldest segments and goes on with newer ones. A folder that is not there, is
//! empty, or ends before the segment is no sign of that: it is a store that is not mounted, or another
//! copy of it. What stands in it must not be passed over.

use super::error::{Kind, Result, SegmentError};
use super::path::{base_name, folder_of};
use super::place::{Place, Shape};
use super::store::{File, end_of, segments_of};

const HINT: &str = "mount the store under the same path on every host that runs tasks, and see that \
                    the user of the tasks may list it";
const NAME_BYTES: usize = 256;

/// Returns where a segment was deleted; SegmentPathError, with host and path, where it cannot be seen.
/// `span`: physical offsets of all that is read of this log, by other tasks too; `what` is read here,
/// for the message.
pub fn check_seen(place: &dyn Place, missing: &File, span: (u64, u64), what: &str) -> Result<()> {
    let why = match why_unseen(place, missing, span) {
        Ok(None) => return Ok(()),
        Ok(Some(why)) => why,
        Err(error) => error.to_string(),
    };
    let text = format!(
        "{what}: {} is not there on host {}: {why}",
        missing.2,
        host_name()
    );
    Err(SegmentError::new(Kind::Path, text).hint(HINT))
}

fn why_unseen(place: &dyn Place, missing: &File, span: (u64, u64)) -> Result<Option<String>> {
    let folder = folder_of(&missing.2);
    if place.shape(folder)? != Shape::Folder {
        let first = first_missing(place, folder)?;
        return Ok(Some(format!("there is no folder {first}")));
    }
    let there = segments_of(place.list(folder)?)?;
    let Some(newest) = there.last() else {
        return Ok(Some(format!("{folder} has no segments")));
    };
    if newest.0 < missing.0 {
        let name = base_name(&newest.2);
        return Ok(Some(format!("the newest segment of {folder} is {name}")));
    }
    let (start, end) = span;
    let has = |file: &File| file.0 < end && start < end_of(file);
    Ok((!there.iter().any(has))
        .then(|| format!("{folder} has nothing of bytes {start} to {end} of the log")))
}

/// The uppermost folder that is not there.
fn first_missing<'a>(place: &dyn Place, mut folder: &'a str) -> Result<&'a str> {
    let mut above = folder_of(folder);
    while above != folder && !above.is_empty() && place.shape(above)? != Shape::Folder {
        (folder, above) = (above, folder_of(above));
    }
    Ok(folder)
}

/// The name of this machine.
pub fn host_name() -> String {
    let mut name = [0u8; NAME_BYTES];
    // SAFETY: the buffer is ours and as long as is said; one byte less is given, so that a zero ends
    // the name also where it was cut.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), NAME_BYTES - 1) };
    if failed != 0 {
        return "?".to_owned();
    }
    let end = name
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(NAME_BYTES);
    String::from_utf8_lossy(&name[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::place::LOCAL;
    use super::*;

    #[test]
    fn what_is_deleted_and_what_cannot_be_seen() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap();
        let log = format!("{root}/a/commitlog");
        let missing = (100, 100, format!("{log}/{:020}", 100));
        let why = |span| match check_seen(&LOCAL, &missing, span, "this task") {
            Ok(()) => String::new(),
            Err(error) => {
                assert_eq!(error.kind, Kind::Path);
                error.to_string()
            }
        };
        let start = format!(
            "this task: {} is not there on host {}: ",
            missing.2,
            host_name()
        );
        let all = (0, 500);
        assert_eq!(why(all), format!("{start}there is no folder {root}/a"));
        std::fs::create_dir_all(&log).unwrap();
        assert_eq!(why(all), format!("{start}{log} has no segments"));
        std::fs::write(format!("{log}/{:020}", 0), [1; 100]).unwrap();
        let newest = format!("{start}the newest segment of {log} is {:020}", 0);
        assert_eq!(why(all), newest);
        std::fs::write(format!("{log}/{:020}", 200), [1; 100]).unwrap();
        assert_eq!(why(all), "");
        let nothing = format!("{start}{log} has nothing of bytes 400 to 500 of the log");
        assert_eq!(why((400, 500)), nothing);
    }
}
