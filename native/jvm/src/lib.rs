//! The border between the engine and a JVM: `libpyrmq_jvm.so`, for Spark's reader (`spark_jvm/`).
//!
//! `border` has what `pyrmq.spark.Native` can ask, as functions that know nothing of Java; `border/java`
//! has them as a JVM calls them. Texts are JSON. Batches are numbers that say where their buffers are
//! (`layout`). Tasks that are read and streams have a number in a table (`handles`). `ops` are the
//! functions behind `Native.call`. `failure` is what becomes an exception.
//!
//! Nothing of Java leads to an address here: a handle that is closed, or was never given, is an error.

mod answers;
pub mod border;
mod failure;
mod handles;
mod layout;
mod ops;
mod reading;
mod stream;

pub use failure::Failure;
