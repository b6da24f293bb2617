//! A column of texts or bytes being filled.

use arrow_array::{BinaryArray, StringArray};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer};

/// A column of bytes; `nulls` only where a value may be missing.
pub(super) struct Bytes {
    pub(super) offsets: Vec<i32>,
    pub(super) values: Vec<u8>,
    nulls: Option<NullBufferBuilder>,
}

impl Bytes {
    pub(super) fn new(optional: bool) -> Self {
        Bytes {
            offsets: vec![0],
            values: Vec::new(),
            nulls: optional.then(|| NullBufferBuilder::new(0)),
        }
    }

    #[inline]
    pub(super) fn close(&mut self) {
        // The reader closes a batch long before, as rows are counted and none has over 200 MiB.
        let end = i32::try_from(self.values.len()).expect("a column below 2 GiB");
        self.offsets.push(end);
    }

    #[inline]
    pub(super) fn push(&mut self, value: &[u8]) {
        append(&mut self.values, value);
        self.close();
    }

    pub(super) fn push_optional(&mut self, value: Option<&[u8]>) {
        if let Some(nulls) = &mut self.nulls {
            nulls.append(value.is_some());
        }
        self.push(value.unwrap_or_default());
    }

    /// What was filled, leaving room for about as much again.
    fn take(&mut self) -> (OffsetBuffer<i32>, Buffer, Option<NullBuffer>) {
        let (rows, bytes) = (self.offsets.len(), self.values.len());
        let room = Vec::with_capacity(bytes + bytes / 8);
        let values = std::mem::replace(&mut self.values, room);
        let mut offsets = Vec::with_capacity(rows + rows / 8);
        offsets.push(0);
        let offsets = std::mem::replace(&mut self.offsets, offsets);
        let nulls = self.nulls.as_mut().and_then(|n| n.finish());
        // SAFETY: offsets begin with 0 and each is the length of `values` when it was pushed, so they
        // never decrease.
        let offsets = unsafe { OffsetBuffer::new_unchecked(offsets.into()) };
        (offsets, Buffer::from_vec(values), nulls)
    }

    pub(super) fn strings(&mut self) -> StringArray {
        let (offsets, values, nulls) = self.take();
        // SAFETY: every value was checked or made to be UTF-8 before it was pushed.
        unsafe { StringArray::new_unchecked(offsets, values, nulls) }
    }

    /// The same with nulls that somebody else has kept, one for each value.
    pub(super) fn strings_with(&mut self, nulls: Option<NullBuffer>) -> StringArray {
        let (offsets, values, _) = self.take();
        assert!(nulls.as_ref().is_none_or(|n| n.len() + 1 == offsets.len()));
        // SAFETY: every value was checked or made to be UTF-8 before it was pushed, and there are as
        // many nulls as values.
        unsafe { StringArray::new_unchecked(offsets, values, nulls) }
    }

    pub(super) fn get(&self, index: usize) -> &[u8] {
        &self.values[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    pub(super) fn len_of_values(&self) -> usize {
        self.values.len()
    }

    /// Only the first values stay. Not for columns with nulls of their own.
    pub(super) fn truncate(&mut self, count: usize) {
        debug_assert!(self.nulls.is_none());
        self.offsets.truncate(count + 1);
        self.values.truncate(self.offsets[count] as usize);
    }

    pub(super) fn binaries(&mut self) -> BinaryArray {
        let (offsets, values, nulls) = self.take();
        // SAFETY: offsets are within `values`, see `take`.
        unsafe { BinaryArray::new_unchecked(offsets, values, nulls) }
    }
}

/// Appends `bytes`; short ones, which most names and values are, in overlapping words of a known
/// length, as that costs less than a call of memcpy.
#[inline(always)]
fn append(to: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        4..8 => ends::<4>(to, bytes),
        8..16 => ends::<8>(to, bytes),
        16..=32 => ends::<16>(to, bytes),
        _ => to.extend_from_slice(bytes),
    }
}

/// Appends the first and the last `N` bytes, which are all of `N..=2 * N`.
#[inline(always)]
fn ends<const N: usize>(to: &mut Vec<u8>, bytes: &[u8]) {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) {
        let at = to.len();
        to.reserve(2 * N);
        let more = bytes.len() - N; // at most N
        // SAFETY: `2 * N` bytes behind the old length are there, both words lie within them, and all
        // of the `N + more` bytes that the new length takes in are written.
        unsafe {
            let end = to.as_mut_ptr().add(at);
            end.cast::<[u8; N]>().write_unaligned(*first);
            end.add(more).cast::<[u8; N]>().write_unaligned(*last);
            to.set_len(at + N + more);
        }
    }
}
