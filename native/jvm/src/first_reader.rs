//! Reads a task of a local log by topics, queues, times, tags and key.

use arrow_array::RecordBatch;
use pyrmq_arrow::{
    ALL, Column, FileSet, LogFile, OpenLocal, PropertiesForm, Reader, RecordSource, ScanError,
    Selection, Settings, Stats, TopicRule, TopicRules, Verify,
};
use pyrmq_scan::{Kind, Notes, OnCorruption, ReadOptions, Result, Rule, SegmentError, Task};
use std::sync::Arc;

pub struct TaskReader {
    reader: Reader,
    notes: Notes,
}

struct Rules(Arc<Rule>);

impl TopicRules for Rules {
    fn rule_of(&mut self, topic: &str) -> std::result::Result<TopicRule, ScanError> {
        let selection = &self.0.selection;
        let named = selection.topics.is_empty() || selection.topics.iter().any(|t| t == topic);
        Ok(match named {
            false => TopicRule::Nothing,
            true if selection.queues.is_empty() => TopicRule::All,
            true => TopicRule::Queues {
                named: selection
                    .queues
                    .iter()
                    .map(|&q| (q, (i64::MIN, i64::MAX)))
                    .collect(),
                other: None,
            },
        })
    }
}

fn columns(how: &ReadOptions) -> Result<Vec<Column>> {
    let named = how.columns.iter().map(|name| {
        Column::named(name)
            .ok_or_else(|| SegmentError::new(Kind::Option, format!("there is no column {name}")))
    });
    let named: Vec<Column> = named.collect::<Result<_>>()?;
    Ok(match named.is_empty() {
        false => named,
        true => ALL[..pyrmq_arrow::DEFAULT]
            .iter()
            .copied()
            .filter(|&c| how.properties != "none" || c != Column::Properties)
            .collect(),
    })
}

impl TaskReader {
    pub fn open(task: Task) -> Result<Self> {
        let files = task.files.iter().map(|(base, len, path)| LogFile {
            base: *base,
            len: *len,
            path: path.clone(),
        });
        let source = RecordSource::Range {
            file_set: FileSet::new(files.collect(), Arc::new(OpenLocal))?,
            range: (task.start, task.end),
            log_end: task.log_end,
            exact: true,
        };
        let selection = &task.rule.selection;
        let mut wanted = Selection::new(Some(Box::new(Rules(task.rule.clone()))));
        wanted.times = (
            selection.start_time.unwrap_or(i64::MIN),
            selection.end_time.unwrap_or(i64::MAX),
        );
        wanted.tags = selection.tags.clone();
        wanted.key = selection.key.clone();
        let how = &task.how;
        let settings = Settings {
            columns: columns(how)?,
            form: match how.properties.as_str() {
                "json" => PropertiesForm::Json,
                "raw" => PropertiesForm::Raw,
                _ => PropertiesForm::Map,
            },
            broker: task.broker.clone(),
            decompress: how.decompress,
            verify: match how.verify_crc.as_str() {
                "none" => Verify::Nothing,
                "all" => Verify::All,
                _ => Verify::Tail,
            },
            skip: how.on_corruption == OnCorruption::Skip,
            batch_rows: how.batch_rows as usize,
            batch_bytes: how.batch_bytes as usize,
            views: false,
        };
        Ok(TaskReader {
            reader: Reader::new(source, wanted, settings)?,
            notes: Notes::default(),
        })
    }

    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        Ok(self.reader.next_batch()?)
    }

    pub fn stats(&self) -> Stats {
        self.reader.stats()
    }

    pub fn notes(&self) -> &Notes {
        &self.notes
    }
}
