//! `plan`: the tasks of a read.

use crate::answers::{field, notes};
use crate::failure::{Failure, Result};
use pyrmq_scan::{LocalPlaces, Notes, Request, Rule, SegmentStore, Task, open_stores};
use serde_json::{Value, json};
use std::sync::Arc;

pub fn answer(request: &Value) -> Result<Value> {
    let request: Request = field(request, "request")?;
    let said = Notes::default();
    let stores = open_stores(&request.paths, &request.broker_names, &LocalPlaces, &said)?;
    let mut tasks = Vec::new();
    for store in &stores {
        tasks.extend(of_store(store, &request)?);
    }
    let bytes: u64 = tasks.iter().map(|task| task.end - task.start).sum();
    Ok(json!({"tasks": tasks, "bytes": bytes, "rows": null, "notes": notes(&said)}))
}

/// A task for each segment.
fn of_store(store: &SegmentStore, request: &Request) -> Result<Vec<Task>> {
    let files = store.file_set()?;
    let end = pyrmq_arrow::find_end(&files, None)
        .map_err(|error| Failure::from(pyrmq_scan::SegmentError::from(error)))?
        .0;
    let rule = Arc::new(Rule {
        selection: request.selection.clone(),
        ..Rule::default()
    });
    let begun = store.files.iter().filter(|file| file.0 < end);
    Ok(begun
        .map(|file| Task {
            broker: store.name.clone(),
            root: store.root.clone(),
            files: store.files.clone(),
            place: store.place.clone(),
            start: file.0,
            end: end.min(file.0 + file.1),
            log_end: end,
            rule: rule.clone(),
            how: request.how.clone(),
            fail_on_data_loss: request.fail_on_data_loss,
            span: Some((store.first(), end)),
            by_entries: false,
            queues: Vec::new(),
            places: Vec::new(),
        })
        .collect())
}
