//! JSON bodies of a batch as structs: each body fits the schema, or its row is left out.
//!
//! Stricter than the column `body` of a read: a value of another type, a number that loses digits, a
//! required field that is missing and, in a closed struct, a field without a name make the body unfit.

use super::body_json::Node;
use super::json_type::JsonType;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, LargeBinaryArray};
use arrow_schema::DataType;

/// Values of one body, nulls of missing fields included: a small body could fill a large memory.
pub const MAX_VALUES: usize = 1_000_000;
/// Values after which a part ends, and those of one body more.
const PART_VALUES: usize = 8_000_000;
/// Bytes of bodies after which a part ends, and those of one body more: columns have 32-bit places.
const PART_BYTES: usize = 64 << 20;

/// A part of the bodies of a batch.
pub struct Part {
    /// A struct for each body; null for one that does not fit.
    pub values: ArrayRef,
    /// The rows of those, counted from the first of the part.
    pub unfit: Vec<u32>,
}

/// A column of bodies.
pub enum Bodies {
    Small(BinaryArray),
    Large(LargeBinaryArray),
}

impl Bodies {
    /// None if the column is not binary.
    pub fn of(array: &dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Binary => Bodies::Small(array.as_binary::<i32>().clone()),
            DataType::LargeBinary => Bodies::Large(array.as_binary::<i64>().clone()),
            _ => return None,
        })
    }

    pub fn len(&self) -> usize {
        match self {
            Bodies::Small(array) => array.len(),
            Bodies::Large(array) => array.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Bodies::Small(array) => array.is_valid(row).then(|| array.value(row)),
            Bodies::Large(array) => array.is_valid(row).then(|| array.value(row)),
        }
    }
}

/// Bytes of Confluent's header: a zero and the id of a schema.
const HEADER: usize = 5;

/// The bodies from `start` on, as many as one part takes. `headed`: each begins with Confluent's
/// header, which is passed over.
pub fn decode(kind: &JsonType, bodies: &Bodies, start: usize, headed: bool) -> Part {
    let mut node = Node::strict(kind);
    let mut unfit = Vec::new();
    let (mut values, mut bytes) = (0, 0);
    for row in start..bodies.len() {
        if values > PART_VALUES || bytes > PART_BYTES || row - start >= u32::MAX as usize {
            break;
        }
        let body = bodies.get(row).unwrap_or_default();
        bytes += body.len();
        let text = match headed {
            true if body.first() == Some(&0) => body.get(HEADER..).unwrap_or_default(),
            true => b"",
            false => body,
        };
        match node.push_fit(text, MAX_VALUES) {
            Some(count) => values += count,
            None => unfit.push((row - start) as u32),
        }
    }
    Part {
        values: node.finish(),
        unfit,
    }
}

#[cfg(test)]
mod tests {
    use super::super::json_type::JsonField;
    use super::*;
    use proptest::prelude::*;

    fn field(name: &str, kind: JsonType, required: bool) -> JsonField {
        JsonField {
            name: name.to_owned(),
            kind,
            required,
        }
    }

    fn unfit(kind: JsonType, bodies: &[&[u8]]) -> Vec<u32> {
        let root = JsonType::Struct(vec![field("a", kind, false)]);
        decode_all(&root, bodies).unfit
    }

    fn decode_all(kind: &JsonType, bodies: &[&[u8]]) -> Part {
        let array = BinaryArray::from_iter_values(bodies.iter().copied());
        decode(kind, &Bodies::of(&array).unwrap(), 0, false)
    }

    #[test]
    fn what_is_no_object_does_not_fit() {
        let bodies: [&[u8]; 8] = [b"", b" ", b"null", b"[]", b"{", b"{} x", b"\xff", b"{}"];
        assert_eq!(unfit(JsonType::Long, &bodies), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_value_of_another_type_does_not_fit() {
        let long: [&[u8]; 5] = [
            br#"{"a":"1"}"#,
            br#"{"a":1.0}"#,
            br#"{"a":9223372036854775808}"#,
            br#"{"a":null}"#,
            br#"{"a":-5}"#,
        ];
        assert_eq!(unfit(JsonType::Long, &long), [0, 1, 2]);
        let text: [&[u8]; 2] = [br#"{"a":1}"#, br#"{"a":"x"}"#];
        assert_eq!(unfit(JsonType::Text, &text), [0]);
        assert!(unfit(JsonType::Written, &text).is_empty());
        let float: [&[u8]; 3] = [br#"{"a":1e39}"#, br#"{"a":1e38}"#, br#"{"a":true}"#];
        assert_eq!(unfit(JsonType::Float, &float), [0, 2]);
        assert_eq!(unfit(JsonType::Double, &[br#"{"a":1e309}"#]), [0]);
        let time: [&[u8]; 2] = [br#"{"a":5}"#, br#"{"a":"2026-01-31T00:00:00Z"}"#];
        assert_eq!(unfit(JsonType::Timestamp, &time), [0]);
        let list = JsonType::List(Box::new(JsonType::Int));
        let lists: [&[u8]; 3] = [br#"{"a":[1,"x"]}"#, br#"{"a":[1,null]}"#, br#"{"a":{}}"#];
        assert_eq!(unfit(list, &lists), [0, 2]);
    }

    #[test]
    fn decimals_lose_no_digit() {
        let bodies: [&[u8]; 6] = [
            br#"{"a":1.25}"#,
            br#"{"a":"1.250"}"#,
            br#"{"a":1.255}"#,
            br#"{"a":1e-9}"#,
            br#"{"a":0e-9}"#,
            br#"{"a":1000}"#,
        ];
        assert_eq!(unfit(JsonType::Decimal(5, 2), &bodies), [2, 3, 5]);
    }

    #[test]
    fn required_fields_and_closed_structs() {
        let inner = JsonType::Closed(vec![field("b", JsonType::Int, true)]);
        let root = JsonType::Struct(vec![field("a", inner, true)]);
        let bodies: [&[u8]; 6] = [
            br#"{"a":{"b":1},"z":1}"#,
            br#"{"a":{"b":1,"c":2}}"#,
            br#"{"a":{"b":null}}"#,
            br#"{"a":{}}"#,
            br#"{"a":null}"#,
            br#"{}"#,
        ];
        let found = decode_all(&root, &bodies);
        assert_eq!(found.unfit, [1, 2, 3, 4, 5]);
        assert_eq!(found.values.null_count(), 5);
        let ints = found.values.as_struct().column(0).as_struct().column(0);
        assert_eq!(ints.len(), 6);
    }

    #[test]
    fn a_body_with_too_many_values_does_not_fit() {
        let names = (0..100).map(|at| field(&format!("f{at}"), JsonType::Int, false));
        let list = JsonType::List(Box::new(JsonType::Struct(names.collect())));
        let body = |count: usize| format!(r#"{{"a":[{}{{}}]}}"#, "{},".repeat(count - 1));
        let (small, large) = (body(9_000), body(11_000));
        assert_eq!(unfit(list, &[small.as_bytes(), large.as_bytes()]), [1]);
    }

    #[test]
    fn a_part_ends_and_the_next_one_begins_there() {
        let list = JsonType::List(Box::new(JsonType::Boolean));
        let root = JsonType::Struct(vec![field("a", list, false)]);
        let body = format!(r#"{{"a":[{}true]}}"#, "true,".repeat(899_999));
        let array = BinaryArray::from_iter_values((0..12).map(|_| body.as_bytes()));
        let bodies = Bodies::of(&array).unwrap();
        let first = decode(&root, &bodies, 0, false).values.len();
        assert!(first < 12);
        assert_eq!(
            decode(&root, &bodies, first, false).values.len(),
            12 - first
        );
    }

    #[test]
    fn a_header_is_passed_over() {
        let root = JsonType::Struct(vec![field("a", JsonType::Int, true)]);
        let bodies: [&[u8]; 3] = [b"\0\0\0\0\x07{\"a\":1}", b"{}", b"xxxxx{\"a\":1}"];
        let array = BinaryArray::from_iter_values(bodies);
        let found = decode(&root, &Bodies::of(&array).unwrap(), 0, true);
        assert_eq!(found.unfit, [1, 2]);
    }

    proptest! {
        /// Whatever the bytes are: a row for each body, null exactly where it does not fit, and the
        /// columns of all depths as long as they have to be.
        #[test]
        fn any_bytes_are_a_row_or_none(
            bodies in proptest::collection::vec(
                r#"(\{|\}|\[|\]|,|:|"a"|"b"|"c"|null|true|1|-2\.5|"x"|\\u00e9|\x00|\x80){0,12}"#,
                1..20,
            ),
        ) {
            let inner = JsonType::Closed(vec![
                field("b", JsonType::List(Box::new(JsonType::Int)), true),
                field("c", JsonType::Map(Box::new(JsonType::Written)), false),
            ]);
            let root = JsonType::Struct(vec![
                field("a", inner, false),
                field("b", JsonType::Decimal(3, 1), false),
                field("c", JsonType::List(Box::new(JsonType::Text)), true),
            ]);
            let raw: Vec<Vec<u8>> = bodies.iter().map(|body| format!("{{{body}}}").into()).collect();
            let rows: Vec<&[u8]> = raw.iter().map(Vec::as_slice).collect();
            let found = decode_all(&root, &rows);
            prop_assert_eq!(found.values.len(), rows.len());
            prop_assert_eq!(found.values.null_count(), found.unfit.len());
            prop_assert!(found.unfit.iter().all(|&row| found.values.is_null(row as usize)));
            prop_assert!(found.values.to_data().validate_full().is_ok());
        }
    }
}
