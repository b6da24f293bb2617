//! Ext fields of requests.

/// A value of an ext field.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    Text(&'a str),
    Int(i64),
}

pub type Field<'a> = (&'static str, Value<'a>);
