//! Tasks with a bound on their messages.

use super::entries;
use super::error::Result;
use super::place::PlaceRef;
use super::read_options::OnCorruption;
use super::rule::Asker;
use super::store::file_set;
use super::task::Task;
use pyrmq_arrow::{Advance, advance};

/// The same messages in tasks of at most `count` each.
///
/// Ranges of the log are walked for that, headers only; messages that tags, key or times leave out count
/// as well. An inner batch stays whole.
pub fn at_most(
    tasks: Vec<Task>,
    count: u64,
    place: impl Fn(&Task) -> PlaceRef,
) -> Result<Vec<Task>> {
    let mut out = Vec::new();
    for task in tasks {
        if task.by_entries {
            out.extend(entries::at_most(
                &task,
                count.try_into().unwrap_or(usize::MAX),
            )?);
        } else {
            of_range(task, count, &place, &mut out)?;
        }
    }
    Ok(out)
}

fn of_range(
    task: Task,
    count: u64,
    place: &impl Fn(&Task) -> PlaceRef,
    out: &mut Vec<Task>,
) -> Result<()> {
    let files = file_set(&task.files, place(&task).0.opener())?;
    let asker = Asker::new(task.rule.clone())?;
    let mut selection = pyrmq_arrow::Selection::new(Some(Box::new(asker)));
    let bounds = Advance {
        max_rows: Some(count),
        max_bytes: None,
        skip: task.how.on_corruption == OnCorruption::Skip,
    };
    let mut at = task.start;
    while at < task.end {
        let (mut stop, _) = advance(&files, (at, task.end), &mut selection, bounds)?;
        if stop <= at || stop >= task.end {
            stop = task.end;
        }
        out.push(Task {
            start: at,
            end: stop,
            ..task.clone()
        });
        at = stop;
    }
    Ok(())
}
