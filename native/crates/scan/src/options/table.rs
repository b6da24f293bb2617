//! All options of `format("rocketmq")`, of reads and writes: one table. Parsing, checks, names in
//! errors, the rules of jobs and the table of docs/spark.md all use it.

use super::row::Row;
use super::{table_brokers, table_files};

/// Other names: what tables of SQL call their path.
const ALIASES: &[(&str, &str)] = &[("location", "path")];

/// All rows, in the order of the documentation.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    table_files::ROWS.iter().chain(table_brokers::ROWS)
}

/// The name under which an option is looked up: without case, and without aliases.
pub fn plain(key: &str) -> String {
    let key = key.to_lowercase();
    match ALIASES.iter().find(|(alias, _)| *alias == key) {
        Some((_, name)) => (*name).to_owned(),
        None => key,
    }
}

/// The row of an option, by its name in any case or an alias.
pub fn row(key: &str) -> Option<&'static Row> {
    let key = plain(key);
    rows().find(|row| row.name.eq_ignore_ascii_case(&key))
}

/// Groups of options, in the order of the table.
pub fn groups() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows() {
        let Some(group) = row.group else { continue };
        match found.iter_mut().find(|(name, _)| *name == group) {
            Some((_, names)) => names.push(row.name),
            None => found.push((group, vec![row.name])),
        }
    }
    found
}
