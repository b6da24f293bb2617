//! Where the buffers of a batch are: the numbers that `next` gives.
//!
//! `[rows, bytes]`, then of each column, depth first: number of nulls, number of buffers, (address, bytes)
//! of each, number of children. Buffers are those of Arrow's C data interface, so the first is the bitmap
//! of what is not null: (0, 0) where nothing is null.
//!
//! Whoever reads by these numbers trusts offsets that stand in the memory. So they are checked here,
//! once: they begin at 0 or later, ascend, and end inside of what they lead to.

use super::failure::{Failure, Result};
use arrow_array::{Array, RecordBatch};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use std::sync::atomic::{AtomicI64, Ordering};

/// Batches that Java may read now, and their bytes.
static BATCHES: AtomicI64 = AtomicI64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);

pub fn held() -> (i64, i64) {
    (
        BATCHES.load(Ordering::Relaxed),
        BYTES.load(Ordering::Relaxed),
    )
}

/// A batch and the numbers that lead to its memory. As long as this lives, so does the memory.
pub struct Layout {
    pub numbers: Vec<i64>,
    /// Bytes of all buffers.
    pub bytes: u64,
    /// Never read here; the numbers are addresses of it.
    buffers: Vec<Buffer>,
}

impl Drop for Layout {
    fn drop(&mut self) {
        BATCHES.fetch_sub(1, Ordering::Relaxed);
        BYTES.fetch_sub(self.bytes as i64, Ordering::Relaxed);
    }
}

impl Layout {
    fn empty(rows: usize) -> Self {
        BATCHES.fetch_add(1, Ordering::Relaxed);
        Layout {
            numbers: vec![rows as i64, 0],
            bytes: 0,
            buffers: Vec::new(),
        }
    }

    pub fn of(batch: &RecordBatch) -> Result<Self> {
        let mut out = Layout::empty(batch.num_rows());
        for column in batch.columns() {
            out.column(&column.to_data())?;
        }
        out.numbers[1] = out.bytes as i64;
        Ok(out)
    }

    fn column(&mut self, data: &ArrayData) -> Result<()> {
        self.numbers.push(data.null_count() as i64);
        let own = own_buffers(data)?;
        self.numbers.push(own.len() as i64 + 1);
        self.buffer(data.nulls().filter(|n| n.null_count() > 0).map(|nulls| {
            // The bitmap of a part of an array may begin within a byte.
            nulls.inner().sliced()
        }));
        for buffer in own {
            self.buffer(Some(buffer));
        }
        self.numbers.push(data.child_data().len() as i64);
        for child in data.child_data() {
            self.column(child)?;
        }
        Ok(())
    }

    fn buffer(&mut self, buffer: Option<Buffer>) {
        let Some(buffer) = buffer else {
            self.numbers.extend([0, 0]);
            return;
        };
        self.numbers
            .extend([buffer.as_ptr() as i64, buffer.len() as i64]);
        self.bytes += buffer.len() as u64;
        BYTES.fetch_add(buffer.len() as i64, Ordering::Relaxed);
        self.buffers.push(buffer);
    }
}

/// The buffers of an array without that of its nulls, each from its first value on.
fn own_buffers(data: &ArrayData) -> Result<Vec<Buffer>> {
    use DataType::*;
    let (from, rows) = (data.offset(), data.len());
    let buffer = |index: usize| {
        data.buffers()
            .get(index)
            .ok_or_else(|| wrong(data, "a buffer is missing"))
    };
    let values = |width: usize| {
        let buffer = buffer(0)?;
        let (at, len) = (from * width, rows * width);
        match buffer.len() >= at + len {
            true => Ok(vec![buffer.slice_with_length(at, len)]),
            false => Err(wrong(data, "its values are too few")),
        }
    };
    match data.data_type() {
        Int8 => values(1),
        Int16 => values(2),
        Int32 | Float32 | Date32 => values(4),
        Int64 | Float64 | Timestamp(_, _) => values(8),
        Decimal128(_, _) => values(16),
        Boolean => {
            let bits = buffer(0)?;
            match bits.len() * 8 >= from + rows {
                true => Ok(vec![bits.bit_slice(from, rows)]),
                false => Err(wrong(data, "its values are too few")),
            }
        }
        Utf8 | Binary => {
            let (offsets, texts) = (buffer(0)?, buffer(1)?);
            let offsets = checked_offsets(data, offsets, texts.len())?;
            Ok(vec![offsets, texts.clone()])
        }
        List(_) | Map(_, _) => {
            let inside = data.child_data().first().map_or(0, ArrayData::len);
            Ok(vec![checked_offsets(data, buffer(0)?, inside)?])
        }
        Struct(_) if from == 0 => Ok(Vec::new()),
        _ => Err(wrong(data, "it has no form that Java reads")),
    }
}

/// Offsets from the first row on; Err if one of them leads out of `end`.
fn checked_offsets(data: &ArrayData, offsets: &Buffer, end: usize) -> Result<Buffer> {
    let (at, len) = (data.offset() * 4, (data.len() + 1) * 4);
    if data.is_empty() && offsets.is_empty() {
        return Ok(Buffer::from_slice_ref([0i32]));
    }
    if offsets.len() < at + len {
        return Err(wrong(data, "its offsets are too few"));
    }
    let offsets = offsets.slice_with_length(at, len);
    let places: &[i32] = offsets.typed_data();
    let ascend = places.windows(2).all(|pair| pair[0] <= pair[1]);
    let inside = places[0] >= 0 && places[places.len() - 1] as usize <= end;
    match ascend && inside {
        true => Ok(offsets),
        false => Err(wrong(data, "its offsets lead out of it")),
    }
}

fn wrong(data: &ArrayData, why: &str) -> Failure {
    Failure::misuse(format!("a column of the type {}: {why}", data.data_type()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{MapBuilder, StringBuilder};
    use arrow_array::{ArrayRef, BinaryArray, BooleanArray, Int32Array, StringArray};
    use std::sync::Arc;

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        let named = columns.into_iter().enumerate();
        RecordBatch::try_from_iter(named.map(|(i, c)| (i.to_string(), c))).unwrap()
    }

    /// The bytes that an address and a length lead to.
    fn at(layout: &Layout, index: usize) -> &[u8] {
        let (address, bytes) = (layout.numbers[index], layout.numbers[index + 1]);
        // SAFETY: both are of a buffer that the layout keeps.
        unsafe { std::slice::from_raw_parts(address as *const u8, bytes as usize) }
    }

    #[test]
    fn numbers_and_texts() {
        let texts = StringArray::from(vec![Some("ab"), None, Some("c")]);
        let layout = Layout::of(&batch(vec![
            Arc::new(Int32Array::from(vec![1, 2, 3])),
            Arc::new(texts),
        ]))
        .unwrap();
        assert_eq!(layout.numbers[0], 3);
        assert_eq!(layout.numbers[1], 12 + 1 + 16 + 3);
        assert_eq!(&layout.numbers[2..6], [0, 2, 0, 0]);
        assert_eq!(at(&layout, 6)[..4], 1i32.to_le_bytes());
        assert_eq!(&layout.numbers[8..11], [0, 1, 3]);
        assert_eq!(at(&layout, 11), [0b101]);
        assert_eq!(at(&layout, 15), b"abc");
        assert_eq!(layout.numbers.len(), 18);
    }

    /// What a part of a batch gives is that part alone.
    #[test]
    fn parts_of_arrays() {
        let flags = BooleanArray::from((0..20).map(|i| Some(i % 3 == 0)).collect::<Vec<_>>());
        let bodies = BinaryArray::from_iter((0..20).map(|i| match i % 4 {
            0 => None,
            _ => Some(vec![i as u8; i]),
        }));
        let whole = batch(vec![Arc::new(flags), Arc::new(bodies)]);
        let part = whole.slice(5, 7);
        let layout = Layout::of(&part).unwrap();
        assert_eq!(layout.numbers[0], 7);
        let bits = at(&layout, 6)[0];
        assert_eq!(
            (0..7).map(|i| bits >> i & 1 != 0).collect::<Vec<_>>(),
            (5..12).map(|i| i % 3 == 0).collect::<Vec<_>>()
        );
        assert_eq!(layout.numbers[9], 1);
        let valid = at(&layout, 11)[0];
        assert_eq!(
            (0..7).map(|i| valid >> i & 1 != 0).collect::<Vec<_>>(),
            (5..12).map(|i| i % 4 != 0).collect::<Vec<_>>()
        );
        let place = |i: usize| {
            let bytes = &at(&layout, 13)[4 * i..4 * i + 4];
            i32::from_le_bytes(bytes.try_into().unwrap()) as usize
        };
        let bodies = at(&layout, 15);
        assert_eq!(bodies[place(0)..place(1)], [5u8; 5]);
        assert_eq!(place(3), place(4)); // row 8 is null
        assert_eq!(bodies[place(6)..place(7)], [11u8; 11]);
    }

    #[test]
    fn maps_have_their_entries_below() {
        let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
        for row in 0..3 {
            for pair in 0..row {
                map.keys().append_value(format!("k{pair}"));
                map.values().append_value("v");
            }
            map.append(true).unwrap();
        }
        let layout = Layout::of(&batch(vec![Arc::new(map.finish())])).unwrap();
        // Map: no nulls, bitmap, offsets, one child; struct: no nulls, bitmap, two children.
        assert_eq!(&layout.numbers[2..4], [0, 2]);
        assert_eq!(&layout.numbers[8..14], [1, 0, 1, 0, 0, 2]);
        assert_eq!(at(&layout, 20), b"k0k0k1");
    }

    /// Arrays that were made without checks, by a bug.
    #[test]
    fn offsets_that_lead_out_are_refused() {
        for offsets in [[0, 9, 3], [0, 2, 4], [-1, 1, 3], [2, 1, 3]] {
            let data = ArrayData::builder(DataType::Utf8)
                .len(2)
                .add_buffer(Buffer::from_slice_ref(offsets))
                .add_buffer(Buffer::from(b"abc"));
            // SAFETY: nothing reads texts through these offsets; they are looked at as numbers.
            let data = unsafe { data.build_unchecked() };
            let mut layout = Layout::empty(2);
            let why = layout.column(&data).unwrap_err();
            assert!(why.message.contains("lead out"), "{offsets:?}: {why:?}");
        }
    }
}
