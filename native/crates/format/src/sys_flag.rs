//! The bits of a record's sysFlag. [MessageSysFlag]

pub const COMPRESSED: i32 = 0x1;
pub const MULTI_TAGS: i32 = 0x2;
pub const TRANSACTION_MASK: i32 = 0xC;
pub const PREPARED: i32 = 0x4;
pub const COMMIT: i32 = 0x8;
pub const ROLLBACK: i32 = 0xC;
pub const BORN_HOST_V6: i32 = 0x10;
pub const STORE_HOST_V6: i32 = 0x20;
pub const NEED_UNWRAP: i32 = 0x40;
pub const INNER_BATCH: i32 = 0x80;
