//! Limits of this process.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit of open files as far as that is needed.
pub fn allow_files(need: u64) -> Result<(), String> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|now| now >= need) {
        return Ok(());
    }
    limit.current = Some(need);
    if limit.maximum.is_some_and(|most| most < need) {
        limit.maximum = Some(need);
    }
    setrlimit(Resource::Nofile, limit).map_err(|_| {
        format!(
            "{need} open files are not allowed here: raise `ulimit -n`, or use fewer connections"
        )
    })
}
