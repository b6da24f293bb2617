//! The border between the engine and a JVM: `libpyrmq_jvm.so`, for Spark's reader (spark_jvm).
//!
//! `java` has the functions of `pyrmq.spark.Native`. Behind them stands `border`, which knows nothing of
//! Java: texts are JSON, batches are numbers that say where their buffers are (`layout`), tasks that are
//! read have a number in a table (`handles`). `ops` are the functions behind `Native.call`. `failure`
//! is what becomes an exception.
//!
//! Nothing of Java leads to an address here: a handle that is closed, or was never given, is an error.

pub mod border;
mod failure;
mod first_reader;
mod handles;
mod java;
mod layout;
mod names;
mod ops;
mod reading;

pub use failure::Failure;
