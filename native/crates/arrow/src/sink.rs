//! Rows of records: what is wanted of each goes into the columns, inner batches are taken apart.

use super::build::{Builder, Message};
use super::error::Result;
use super::files::InMap;
use super::inflate::{Children, children, inflate, is_compressed};
use super::select::{Selection, Wanted};
use pyrmq_format::record::{View, sys_flag};

/// What turns records into rows.
pub struct Sink {
    selection: Selection,
    pub builder: Builder,
    /// Bodies are asked for, or their lengths after unpacking.
    bodies: bool,
    decompress: bool,
    unpacked: Vec<u8>,
    /// An inner batch of which only a part has found room.
    open: Option<OpenBatch>,
}

/// How far an inner batch was taken apart.
struct OpenBatch {
    wanted: Wanted,
    unpacked: bool,
    /// Number of the next message, and its place in the batch.
    number: i64,
    at: usize,
}

impl Sink {
    pub fn new(selection: Selection, builder: Builder, bodies: bool, decompress: bool) -> Self {
        Sink {
            selection,
            builder,
            bodies,
            decompress,
            unpacked: Vec::new(),
            open: None,
        }
    }

    /// What is wanted of a record, if anything is.
    #[inline]
    pub fn wants(&mut self, view: &View, record: &[u8]) -> Result<Option<Wanted>> {
        self.selection.wants(view, record)
    }

    /// Whether the record before has messages left.
    #[inline]
    pub fn has_open(&self) -> bool {
        self.open.is_some()
    }

    /// Goes on with the record before, if it has messages left.
    #[inline]
    pub fn go_on(
        &mut self,
        view: &View,
        record: &[u8],
        map: Option<&InMap>,
        limits: (usize, usize),
    ) -> bool {
        let Some(open) = self.open.take() else {
            return false;
        };
        self.take_children(view, record, open, map, limits);
        true
    }

    /// Appends the rows of a record; of an inner batch as many as there is room for.
    #[inline]
    pub fn take(
        &mut self,
        view: &View,
        record: &[u8],
        wanted: Wanted,
        map: Option<&InMap>,
        limits: (usize, usize),
    ) -> std::result::Result<(), String> {
        let stored = &record[view.body.clone()];
        let inner = view.sys_flag & sys_flag::INNER_BATCH != 0;
        let packed = is_compressed(view.sys_flag);
        if !inner
            && self.selection.by_properties()
            && !self.selection.wants_properties(&record[view.props.clone()])
        {
            return Ok(());
        }
        let unpack = packed && (inner || (self.decompress && self.bodies));
        if unpack {
            inflate(stored, view.sys_flag, &mut self.unpacked)?;
        }
        let body = if unpack { &self.unpacked[..] } else { stored };
        if inner {
            // A batch is taken as a whole or not at all.
            if !is_whole(children(body)) {
                return Err("the inner batch cannot be taken apart".to_owned());
            }
            let open = OpenBatch {
                wanted,
                unpacked: unpack,
                number: 0,
                at: 0,
            };
            self.take_children(view, record, open, map, limits);
            return Ok(());
        }
        let mapped = map
            .filter(|_| !unpack)
            .map(|(map, at)| (map, at + view.body.start));
        self.builder.push(&Message {
            view,
            record,
            topic: self.selection.topic_name(wanted.topic),
            flag: view.flag,
            queue_offset: view.queue_offset,
            sys_flag: view.sys_flag,
            body,
            mapped,
            body_length: stored.len(),
            props: &record[view.props.clone()],
        });
        Ok(())
    }

    /// Appends messages of an inner batch until the batch of rows is full or all are in.
    fn take_children(
        &mut self,
        view: &View,
        record: &[u8],
        mut open: OpenBatch,
        map: Option<&InMap>,
        (rows, bytes): (usize, usize),
    ) {
        let Sink {
            selection,
            builder,
            unpacked,
            ..
        } = self;
        let body = if open.unpacked {
            &unpacked[..]
        } else {
            &record[view.body.clone()]
        };
        let mut messages = children(body);
        messages.at = open.at;
        while builder.rows() < rows && builder.bytes() < bytes {
            let Some(child) = messages.next() else {
                return;
            };
            let queue_offset = view.queue_offset.saturating_add(open.number);
            (open.number, open.at) = (open.number + 1, messages.at);
            let props = &body[child.props];
            if !open.wanted.has(queue_offset)
                || (selection.by_properties() && !selection.wants_properties(props))
            {
                continue;
            }
            let place = view.body.start + child.body.start;
            builder.push(&Message {
                view,
                record,
                topic: selection.topic_name(open.wanted.topic),
                flag: child.flag,
                queue_offset,
                sys_flag: view.sys_flag,
                body_length: child.body.len(),
                body: &body[child.body],
                mapped: map
                    .filter(|_| !open.unpacked)
                    .map(|(map, at)| (map, at + place)),
                props,
            });
        }
        self.open = Some(open);
    }
}

fn is_whole(mut children: Children<'_>) -> bool {
    children.by_ref().for_each(drop);
    !children.broken
}
