//! Columns being filled, row by row.

use super::body_json::Node;
use super::bytes::Bytes;
use super::columns::{BodyForm, Column, PropertiesForm, map_fields, schema};
use super::json_type::JsonType;
use arrow_array::builder::make_view;
use arrow_array::{
    ArrayRef, BinaryViewArray, Int32Array, Int64Array, MapArray, RecordBatch, RecordBatchOptions,
    StructArray, TimestampMicrosecondArray,
};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::SchemaRef;
use memmap2::Mmap;
use pyrmq_format::get_i32;
use pyrmq_format::properties;
use pyrmq_format::record::{self, View};
use std::sync::Arc;

/// A message on its way into a row.
pub struct Message<'a> {
    pub view: &'a View,
    /// The whole record.
    pub record: &'a [u8],
    pub topic: &'a str,
    pub flag: i32,
    pub queue_offset: i64,
    pub sys_flag: i32,
    pub body: &'a [u8],
    /// Where the body lies in a mapped file.
    pub mapped: Option<(&'a Arc<Mmap>, usize)>,
    /// Length of the body as it is stored.
    pub body_length: usize,
    pub props: &'a [u8],
}

/// Bodies that stay where they are.
#[derive(Default)]
struct Views {
    views: Vec<u128>,
    /// Regions of mapped files, by mapping and gigabyte of it.
    regions: Vec<(usize, u64, Buffer)>,
    /// Bodies that had to be unpacked.
    own: Vec<u8>,
}

impl Views {
    fn push(&mut self, body: &[u8], mapped: Option<(&Arc<Mmap>, usize)>) {
        let (buffer, offset) = match mapped {
            Some((map, at)) => self.region(map, at),
            None => {
                let at = self.own.len();
                self.own.extend_from_slice(body);
                (0, at)
            }
        };
        self.views
            .push(make_view(body, buffer as u32, offset as u32));
    }

    /// The buffer that holds a place of a mapped file, and the place in it. Buffers begin at whole
    /// gigabytes, so that places fit 32 bits with a sign.
    fn region(&mut self, map: &Arc<Mmap>, at: usize) -> (usize, usize) {
        let (id, giga) = (map.as_ptr() as usize, (at >> 30) as u64);
        let known = self.regions.iter().position(|p| (p.0, p.1) == (id, giga));
        let index = known.unwrap_or_else(|| {
            let start = (giga as usize) << 30;
            let len = (map.len() - start).min(i32::MAX as usize);
            let pointer = std::ptr::NonNull::from(&map[start]);
            // SAFETY: `len` bytes from there are within the mapping, which the Arc keeps.
            let buffer = unsafe { Buffer::from_custom_allocation(pointer, len, map.clone()) };
            self.regions.push((id, giga, buffer));
            self.regions.len() - 1
        });
        (index + 1, at & ((1 << 30) - 1))
    }

    fn take(&mut self) -> BinaryViewArray {
        let taken = std::mem::take(self);
        let own = [Buffer::from_vec(taken.own)];
        let buffers: Arc<[Buffer]> = own
            .into_iter()
            .chain(taken.regions.into_iter().map(|p| p.2))
            .collect();
        // SAFETY: each view was made from the bytes at the place it names.
        unsafe { BinaryViewArray::new_unchecked(ScalarBuffer::from(taken.views), buffers, None) }
    }
}

struct Pairs {
    offsets: Vec<i32>,
    keys: Bytes,
    values: Bytes,
}

impl Pairs {
    fn new() -> Self {
        Pairs {
            offsets: vec![0],
            keys: Bytes::new(false),
            values: Bytes::new(false),
        }
    }

    /// Pairs of one message are in; of equal names only the last stays, as in Java's map.
    fn close(&mut self) {
        let first = *self.offsets.last().expect("begins with 0") as usize;
        let count = self.keys.offsets.len() - 1 - first;
        if count > 1 && self.has_twins(first, count) {
            self.drop_twins(first);
        }
        self.offsets.push((self.keys.offsets.len() - 1) as i32);
    }

    fn key(&self, index: usize) -> &[u8] {
        let o = &self.keys.offsets;
        &self.keys.values[o[index] as usize..o[index + 1] as usize]
    }

    fn has_twins(&self, first: usize, count: usize) -> bool {
        if count > 24 {
            let mut seen = rustc_hash::FxHashSet::default();
            return (first..first + count).any(|i| !seen.insert(self.key(i)));
        }
        let o = &self.keys.offsets;
        (first + 1..first + count).any(|i| {
            let (len, lead) = (o[i + 1] - o[i], self.keys.values[o[i] as usize]);
            (first..i).any(|j| {
                o[j + 1] - o[j] == len
                    && self.keys.values[o[j] as usize] == lead
                    && self.key(i) == self.key(j)
            })
        })
    }

    #[cold]
    fn drop_twins(&mut self, first: usize) {
        let end = self.keys.offsets.len() - 1;
        let value = |i: usize| {
            let o = &self.values.offsets;
            self.values.values[o[i] as usize..o[i + 1] as usize].to_vec()
        };
        let mut last = rustc_hash::FxHashMap::default();
        for i in first..end {
            last.insert(self.key(i).to_vec(), i);
        }
        let kept: Vec<(Vec<u8>, Vec<u8>)> = (first..end)
            .filter(|&i| last[self.key(i)] == i)
            .map(|i| (self.key(i).to_vec(), value(i)))
            .collect();
        for bytes in [&mut self.keys, &mut self.values] {
            bytes.offsets.truncate(first + 1);
            bytes.values.truncate(bytes.offsets[first] as usize);
        }
        for (key, value) in kept {
            self.keys.push(&key);
            self.values.push(&value);
        }
    }

    fn take(&mut self) -> MapArray {
        let offsets = std::mem::replace(&mut self.offsets, vec![0]);
        // SAFETY: each offset is the number of pairs when it was pushed.
        let offsets = unsafe { OffsetBuffer::new_unchecked(offsets.into()) };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.keys.strings()),
            Arc::new(self.values.strings()),
        ];
        let entries = StructArray::new(map_fields(), columns, None);
        let data_type = arrow_schema::DataType::Struct(map_fields());
        let field = arrow_schema::Field::new("entries", data_type, false);
        MapArray::new(Arc::new(field), offsets, entries, None, false)
    }
}

enum Filling {
    Int(Vec<i32>),
    Long(Vec<i64>),
    Time(Vec<i64>),
    Text(Bytes),
    Binary(Bytes),
    View(Views),
    Map(Pairs),
    /// Objects of JSON, and the bytes that they took so far.
    Json(Box<Node>, usize),
}

pub struct Builder {
    schema: SchemaRef,
    columns: Vec<(Column, Filling)>,
    form: PropertiesForm,
    broker: String,
    /// Whether pairs have to be searched for TAGS, KEYS or UNIQ_KEY.
    by_name: bool,
    /// Which column holds the pairs, if any.
    map: Option<usize>,
    text: bool,
    views: bool,
    rows: usize,
    bytes: usize,
    scratch: String,
}

impl Builder {
    pub fn new(
        columns: &[Column],
        form: PropertiesForm,
        body: &BodyForm,
        broker: &str,
        views: bool,
    ) -> Self {
        use Column::*;
        let filling = |c: Column| match c {
            Flag | QueueId | BodyLength | SysFlag | StoreSize | BodyCrc | ReconsumeTimes => {
                Filling::Int(Vec::new())
            }
            QueueOffset | CommitLogOffset | PreparedTransactionOffset => Filling::Long(Vec::new()),
            BornTimestamp | StoreTimestamp => Filling::Time(Vec::new()),
            Body => match body {
                BodyForm::Binary if views => Filling::View(Views::default()),
                BodyForm::Binary => Filling::Binary(Bytes::new(false)),
                BodyForm::Utf8 => Filling::Text(Bytes::new(false)),
                BodyForm::Json(fields) => {
                    Filling::Json(Box::new(Node::new(&JsonType::Struct(fields.clone()))), 0)
                }
            },
            Properties if form == PropertiesForm::Map => Filling::Map(Pairs::new()),
            Tags | Keys | TransactionId => Filling::Text(Bytes::new(true)),
            _ => Filling::Text(Bytes::new(false)),
        };
        let any = |wanted: &[Column]| columns.iter().any(|c| wanted.contains(c));
        Builder {
            schema: Arc::new(schema(columns, form, body, views)),
            columns: columns.iter().map(|&c| (c, filling(c))).collect(),
            form,
            broker: broker.to_owned(),
            by_name: any(&[Tags, Keys, TransactionId]),
            map: columns
                .iter()
                .position(|&c| c == Properties && form == PropertiesForm::Map),
            text: any(&[Tags, Keys, TransactionId, Properties, PropertiesRaw]),
            views,
            rows: 0,
            bytes: 0,
            scratch: String::new(),
        }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the batch so far, without what only views name.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub fn push(&mut self, m: &Message<'_>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut props = m.props;
        // What is mapped may be written by others: what is checked is what is copied.
        if self.text && (self.views || std::str::from_utf8(props).is_err()) {
            scratch.clear();
            scratch.push_str(&String::from_utf8_lossy(props));
            props = scratch.as_bytes();
        }
        self.push_row(m, props);
        self.scratch = scratch;
    }

    /// `props`: UTF-8, if any column wants text of it.
    #[inline]
    fn push_row(&mut self, m: &Message<'_>, props: &[u8]) {
        let mut named = Named::default();
        let mut bytes = 8 * self.columns.len();
        match self.map {
            // One pass over the pairs for all who want them.
            Some(index) => {
                let Filling::Map(map) = &mut self.columns[index].1 else {
                    unreachable!("`map` is the column of pairs");
                };
                for (name, value) in properties::pairs(props) {
                    map.keys.push(name);
                    map.values.push(value);
                    named.see(name, value);
                }
                map.close();
                bytes += props.len();
            }
            None if self.by_name => properties::pairs(props).for_each(|(n, v)| named.see(n, v)),
            None => {}
        }
        for (column, filling) in &mut self.columns {
            match filling {
                Filling::Int(v) => v.push(int(*column, m)),
                Filling::Long(v) => v.push(long(*column, m)),
                Filling::Time(v) => v.push(match column {
                    Column::BornTimestamp => m.view.born_timestamp.saturating_mul(1000),
                    _ => m.view.store_timestamp.saturating_mul(1000),
                }),
                Filling::Binary(v) => {
                    v.push(m.body);
                    bytes += m.body.len();
                }
                Filling::View(v) => {
                    v.push(m.body, m.mapped);
                    if m.mapped.is_none() {
                        bytes += m.body.len();
                    }
                }
                Filling::Map(_) => {}
                Filling::Json(node, before) => {
                    node.push(m.body);
                    let now = node.bytes();
                    bytes += now - *before;
                    *before = now;
                }
                Filling::Text(v) => {
                    let before = v.values.len();
                    text(*column, v, m, props, &named, &self.broker, self.form);
                    bytes += v.values.len() - before;
                }
            }
        }
        self.bytes += bytes;
        self.rows += 1;
    }

    /// The batch so far; begins the next one.
    pub fn take(&mut self) -> RecordBatch {
        let arrays = self.columns.iter_mut().map(|(_, filling)| -> ArrayRef {
            match filling {
                Filling::Int(v) => Arc::new(Int32Array::new(fresh(v).into(), None)),
                Filling::Long(v) => Arc::new(Int64Array::new(fresh(v).into(), None)),
                Filling::Time(v) => {
                    let times = TimestampMicrosecondArray::new(fresh(v).into(), None);
                    Arc::new(times.with_timezone("UTC"))
                }
                Filling::Text(v) => Arc::new(v.strings()),
                Filling::Binary(v) => Arc::new(v.binaries()),
                Filling::View(v) => Arc::new(v.take()),
                Filling::Map(v) => Arc::new(v.take()),
                Filling::Json(node, bytes) => {
                    *bytes = 0;
                    node.finish()
                }
            }
        });
        let arrays: Vec<ArrayRef> = arrays.collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .expect("columns are made as the schema says")
    }
}

fn fresh<T>(v: &mut Vec<T>) -> Vec<T> {
    let room = v.len() + v.len() / 8;
    std::mem::replace(v, Vec::with_capacity(room))
}

#[inline]
fn int(column: Column, m: &Message<'_>) -> i32 {
    match column {
        Column::Flag => m.flag,
        Column::QueueId => m.view.queue_id,
        Column::BodyLength => m.body_length as i32,
        Column::SysFlag => m.sys_flag,
        Column::StoreSize => m.view.total as i32,
        Column::BodyCrc => get_i32(m.record, 8),
        _ => m.view.reconsume_times,
    }
}

#[inline]
fn long(column: Column, m: &Message<'_>) -> i64 {
    match column {
        Column::QueueOffset => m.queue_offset,
        Column::CommitLogOffset => m.view.phys,
        _ => m.view.prepared_transaction_offset,
    }
}

/// Properties that have columns of their own.
#[derive(Default)]
struct Named<'a> {
    tags: Option<&'a [u8]>,
    keys: Option<&'a [u8]>,
    unique: Option<&'a [u8]>,
}

impl<'a> Named<'a> {
    #[inline]
    fn see(&mut self, name: &[u8], value: &'a [u8]) {
        match name {
            b"TAGS" => self.tags = Some(value),
            b"KEYS" => self.keys = Some(value),
            b"UNIQ_KEY" => self.unique = Some(value),
            _ => {}
        }
    }
}

#[inline]
fn text(
    column: Column,
    to: &mut Bytes,
    m: &Message<'_>,
    props: &[u8],
    named: &Named<'_>,
    broker: &str,
    form: PropertiesForm,
) {
    match column {
        Column::Topic => to.push(m.topic.as_bytes()),
        Column::Body => to.push(String::from_utf8_lossy(m.body).as_bytes()),
        Column::BrokerName => to.push(broker.as_bytes()),
        Column::Tags => to.push_optional(named.tags),
        Column::Keys => to.push_optional(named.keys),
        Column::TransactionId => to.push_optional(named.unique),
        Column::Properties if form == PropertiesForm::Json => {
            json(props, &mut to.values);
            to.close();
        }
        Column::Properties | Column::PropertiesRaw => to.push(props),
        Column::MsgId => {
            let (_, store) = record::hosts(m.record);
            store.push_message_id(m.view.phys as u64, &mut to.values);
            to.close();
        }
        Column::BornHost => {
            record::hosts(m.record).0.push_text(&mut to.values);
            to.close();
        }
        Column::StoreHost => {
            record::hosts(m.record).1.push_text(&mut to.values);
            to.close();
        }
        _ => unreachable!("{} is no column of text", column.name()),
    }
}

/// The pairs as a JSON object of strings; of equal names the last.
fn json(props: &[u8], out: &mut Vec<u8>) {
    let pairs: Vec<_> = properties::pairs(props).collect();
    let mut last = rustc_hash::FxHashMap::default();
    for (i, (name, _)) in pairs.iter().enumerate() {
        last.insert(*name, i);
    }
    out.push(b'{');
    let mut first = true;
    for (i, (name, value)) in pairs.iter().enumerate() {
        if last[name] != i {
            continue;
        }
        if !first {
            out.push(b',');
        }
        first = false;
        json_text(name, out);
        out.push(b':');
        json_text(value, out);
    }
    out.push(b'}');
}

fn json_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &b in text {
        match b {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
            0..0x20 => out.extend_from_slice(format!("\\u{b:04x}").as_bytes()),
            _ => out.push(b),
        }
    }
    out.push(b'"');
}
