//! The layout of every structure that crosses the border, asserted here and in the header.

use super::border::Bytes;
use super::ready_loop::{Addressee, Left, LeftList, Serve, Served};
use super::session::{CommandOut, PieceIn, ReceivedOut, SentOut};
use super::store::{ChunkOut, GetOut};
use pyrmq_server::{Ready, Report};
use std::mem::offset_of;

/// One structure: its name in C, its size, its fields and where they begin.
#[cfg(test)]
pub struct Layout {
    pub name: &'static str,
    pub size: usize,
    pub fields: &'static [(&'static str, usize)],
}

/// States layouts once: the compiler checks them, and that no field is missing.
macro_rules! layouts {
    ($($name:literal $type:ident, $size:literal: { $($field:ident $offset:literal),* })*) => {
        $(
            const _: () = {
                assert!(size_of::<$type>() == $size);
                $(assert!(offset_of!($type, $field) == $offset);)*
            };
            const _: fn(&$type) = |$type { $($field: _),* }| ();
        )*
        #[cfg(test)]
        pub const LAYOUTS: &[Layout] = &[$(Layout {
            name: $name,
            size: $size,
            fields: &[$((stringify!($field), $offset)),*],
        }),*];
    };
}

layouts! {
    "pyrmq_bytes" Bytes, 16: { ptr 0, len 8 }
    "pyrmq_report" Report, 16: {
        commands 0, unconfirmed 4, full 8, more 9, arrivals 10, large 11, heavy 12,
        tls 13, pending 14
    }
    "pyrmq_received" ReceivedOut, 32: { out 0, received 16, failed 24 }
    "pyrmq_piece" PieceIn, 24: { bytes 0, mapped 16 }
    "pyrmq_sent" SentOut, 32: { rest 0, taken 16, failed 24 }
    "pyrmq_command" CommandOut, 104: {
        code 0, opaque 4, flag 8, language 12, version 16, codec 20, n_ext 24, has_remark 28,
        remark 32, body 48, frame 64, subject 80, since_us 96
    }
    "pyrmq_ready" Ready, 8: { fd 0, events 4 }
    "pyrmq_serve" Serve, 32: { active 0, end_ns 8, linger_ns 16, hold 24, others_keep 25, finish 26 }
    "pyrmq_left" Left, 32: { key 0, status 4, failed 8, ended 12, called 13, rest 16 }
    "pyrmq_served" Served, 56: {
        others 0, n_others 8, left 16, n_left 24, waiting 32, rounds 40, written 44, idle 48,
        arrivals 49, confirmed 50
    }
    "pyrmq_addressee" Addressee, 16: { session 0, fd 8 }
    "pyrmq_left_list" LeftList, 16: { left 0, n_left 8 }
    "pyrmq_chunk" ChunkOut, 24: { segment 0, ptr 8, len 16 }
    "pyrmq_get" GetOut, 48: { status 0, count 4, n_chunks 8, next 16, min 24, max 32, bytes 40 }
}
