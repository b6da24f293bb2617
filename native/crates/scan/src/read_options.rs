//! How messages are read: columns, their forms, checks, size of batches; and how tasks are cut.

use super::body_form;
use super::error::{Kind, Part, Result, SegmentError};
use super::repr;
use pyrmq_arrow::{ALL, Column, DEFAULT, PropertiesForm, Settings, Verify};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnCorruption {
    #[default]
    Fail,
    Skip,
}

/// Parameters of `pyrmq.scan` that do not select messages; its JSON has their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadOptions {
    /// In the order in which they come; empty: the default ones.
    pub columns: Vec<String>,
    /// map, json, raw or none.
    pub properties: String,
    pub decompress: bool,
    /// none, tail or all.
    pub verify_crc: String,
    pub on_corruption: OnCorruption,
    pub batch_rows: u64,
    pub batch_bytes: u64,
    pub views: bool,
    /// The form of the column `body`: see `body_form`.
    pub body: Option<serde_json::Value>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            columns: Vec::new(),
            properties: "map".to_owned(),
            decompress: true,
            verify_crc: "tail".to_owned(),
            on_corruption: OnCorruption::Fail,
            batch_rows: 10_000,
            batch_bytes: 1 << 20,
            views: false,
            body: None,
        }
    }
}

impl ReadOptions {
    /// The same as the engine's reader takes it.
    pub fn settings(&self, broker: &str) -> Result<Settings> {
        let form = match self.properties.as_str() {
            "json" => PropertiesForm::Json,
            "raw" => PropertiesForm::Raw,
            _ => PropertiesForm::Map,
        };
        let verify = match self.verify_crc.as_str() {
            "none" => Verify::Nothing,
            "all" => Verify::All,
            _ => Verify::Tail,
        };
        Ok(Settings {
            columns: self.chosen()?,
            form,
            body: body_form::of(self.body.as_ref())?,
            broker: broker.to_owned(),
            decompress: self.decompress,
            verify,
            skip: self.on_corruption == OnCorruption::Skip,
            batch_rows: self.batch_rows.min(1 << 24) as usize,
            batch_bytes: self.batch_bytes.min(1 << 30) as usize,
            views: self.views,
        })
    }

    /// The columns that come, in order.
    fn chosen(&self) -> Result<Vec<Column>> {
        if self.columns.is_empty() {
            let without = self.properties == "none";
            let default = ALL[..DEFAULT].iter().copied();
            return Ok(default
                .filter(|column| !(without && *column == Column::Properties))
                .collect());
        }
        let named = self.columns.iter().map(|name| {
            Column::named(name).ok_or_else(|| {
                let what = format!(": there is no column {}", repr::text(name));
                SegmentError::new(Kind::Option, [Part::Name("columns"), what.into()])
            })
        });
        named.collect()
    }
}
