//! What `pyrmq.spark.Native` can ask, without Java: bytes and numbers in, bytes and numbers out.

mod java;

use super::failure::{Failure, Result};
use super::handles::lock;
use super::ops;
use super::reading::{Reading, TASKS};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Bytes of a request. A task by places has 20 of them for each message.
pub const MAX_REQUEST: usize = 256 << 20;

/// Answers `{"op": …}`.
pub fn call(request: &[u8]) -> Result<Vec<u8>> {
    guarded(|| {
        let answer = ops::answer(&parsed(request)?)?;
        Ok(answer.to_string().into_bytes())
    })
}

/// Begins a task; its handle.
pub fn open(task: &[u8]) -> Result<i64> {
    guarded(|| {
        bounded(task)?;
        TASKS.add(Reading::open(task)?)
    })
}

/// Where the next batch of a task is; None at the end. `layout` says what the numbers mean.
pub fn next(handle: i64) -> Result<Option<Vec<i64>>> {
    guarded(|| lock(&*TASKS.get(handle)?).next())
}

/// The same of the end of a log that grows: what is there, or what comes within so many milliseconds.
pub fn next_within(handle: i64, millis: i64) -> Result<Option<Vec<i64>>> {
    guarded(|| {
        let time = Duration::from_millis(millis.max(0) as u64);
        lock(&*TASKS.get(handle)?).next_within(time)
    })
}

/// Frees the batch that `next` gave last.
pub fn release(handle: i64) -> Result<()> {
    guarded(|| {
        lock(&*TASKS.get(handle)?).release();
        Ok(())
    })
}

/// What was read so far, as JSON.
pub fn stats(handle: i64) -> Result<Vec<u8>> {
    guarded(|| {
        let stats = lock(&*TASKS.get(handle)?).stats();
        Ok(stats.to_string().into_bytes())
    })
}

/// Ends a task; again does nothing. What another thread reads of it goes when that call ends.
pub fn close(handle: i64) -> Result<()> {
    guarded(|| {
        TASKS.remove(handle);
        Ok(())
    })
}

fn bounded(request: &[u8]) -> Result<()> {
    match request.len() <= MAX_REQUEST {
        true => Ok(()),
        false => Err(too_long(request.len())),
    }
}

pub(crate) fn too_long(len: usize) -> Failure {
    Failure::misuse(format!(
        "a request of {len} bytes; at most {MAX_REQUEST} are read"
    ))
}

fn parsed(request: &[u8]) -> Result<serde_json::Value> {
    bounded(request)?;
    serde_json::from_slice(request)
        .map_err(|error| Failure::misuse(format!("a request that is no JSON: {error}")))
}

/// No panic leaves the engine: it becomes an error.
fn guarded<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    // What a panic leaves behind is behind a lock that says so, or a task that is marked as broken.
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|payload| Err(Failure::panic(&*payload)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let text = "a bug".to_owned();
        let failure = guarded(|| -> Result<()> { panic!("{text}") }).unwrap_err();
        assert_eq!(failure.kind, "EngineError");
        assert!(failure.message.contains("a bug"));
        let failure = guarded(|| -> Result<()> { std::panic::panic_any(7) }).unwrap_err();
        assert!(failure.message.contains("panicked"));
    }
}
