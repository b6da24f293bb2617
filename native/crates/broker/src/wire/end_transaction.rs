//! END_TRANSACTION as its frame says it. [EndTransactionRequestHeader]

use super::header::Header;
use crate::txn::End;
use pyrmq_format::json::Raw;
use pyrmq_format::parse_i64;
use pyrmq_format::record::sys_flag;

pub const END_TRANSACTION: i32 = 37;

/// None: it is not plain, so the broker has to decide.
pub fn read<'a>(header: &Header, frame: &'a [u8]) -> Option<End<'a>> {
    let mut end = End {
        offset: -1,
        phys: u64::MAX,
        commit: false,
        group: b"",
        ids: [b"", b""],
        from_check: false,
        topic: None,
    };
    let mut how = 0;
    for (name, value) in &header.ext {
        if name.escaped {
            return None;
        }
        let text = plain(value, frame);
        match name.bytes(frame) {
            b"producerGroup" => end.group = text?,
            b"tranStateTableOffset" => end.offset = parse_i64(text?)?,
            b"commitLogOffset" => end.phys = u64::try_from(parse_i64(text?)?).ok()?,
            b"commitOrRollback" => how = parse_i64(text?)?,
            b"fromTransactionCheck" => end.from_check = text?.eq_ignore_ascii_case(b"true"),
            b"msgId" => end.ids[0] = text?,
            b"transactionId" => end.ids[1] = text?,
            _ => {}
        }
    }
    end.commit = how == sys_flag::COMMIT as i64;
    (end.commit || how == sys_flag::ROLLBACK as i64).then_some(end)
}

/// The topic that it names: that of the message, if it is right.
pub fn topic<'a>(header: &Header, frame: &'a [u8]) -> Option<&'a [u8]> {
    let is_topic = |(name, _): &&(Raw, Raw)| name.bytes(frame) == b"topic";
    let (_, value) = header.ext.iter().find(is_topic)?;
    plain(value, frame)
}

/// The bytes of a value, None if they would have to be unescaped first.
fn plain<'a>(value: &Raw, frame: &'a [u8]) -> Option<&'a [u8]> {
    (!value.escaped).then(|| value.bytes(frame))
}
