//! The options of Spark's source: one table, from which the reader in the JVM and the one in Python
//! parse and check what a user gives, and the documentation is written.
//!
//! `row` is one option, `table` has them all, `values` parses their texts, `checked` applies the rules
//! of a query, `columns` those of its schema, `parsed` makes a request of it. `names` shows errors
//! with the names of options.

mod body;
mod checked;
mod columns;
mod hints;
mod iso;
mod json_text;
mod names;
mod parsed;
mod row;
#[cfg(test)]
mod schema_tests;
mod spark_type;
mod table;
mod table_brokers;
mod table_files;
#[cfg(test)]
mod tests;
mod times;
mod values;

pub use checked::{Checked, check, check_cases, value_of};
pub use columns::{COLUMNS, Columns, WITH_PROPERTIES, columns};
pub use names::{Shown, as_option, shown};
pub use parsed::{Parsed, Route, StreamLimits, answer, parse, route};
pub use row::{Form, Queries, Query, Row};
pub use table::{groups, row, rows};
pub use values::{Value, Wrong};
