//! Frame layout: i32 length of what follows, serialize type, u24 header length, header, body.

use super::WireError;
use pyrmq_format::{MAX_FRAME, get_i32};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    Json = 0,
    RocketMq = 1,
}

impl Codec {
    pub fn from_byte(b: u8) -> Result<Self, WireError> {
        match b {
            0 => Ok(Codec::Json),
            1 => Ok(Codec::RocketMq),
            other => Err(WireError::SerializeType(other)),
        }
    }
}

/// Where the parts of a complete frame lie.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub codec: Codec,
    pub header_end: usize,
    pub total: usize,
}

/// Length of the frame that starts here, None if fewer than four bytes are known.
pub fn total_len(b: &[u8]) -> Result<Option<usize>, WireError> {
    if b.len() < 4 {
        return Ok(None);
    }
    let stated = get_i32(b, 0) as i64;
    if stated < 4 || stated + 4 > MAX_FRAME as i64 {
        return Err(WireError::FrameLength(stated));
    }
    Ok(Some(stated as usize + 4))
}

/// The parts of the frame that starts here, None while it is incomplete. A header that cannot
/// fit is reported as soon as its length is known.
pub fn split(b: &[u8]) -> Result<Option<Parts>, WireError> {
    let Some(total) = total_len(b)? else {
        return Ok(None);
    };
    if b.len() < 8 {
        return Ok(None);
    }
    let codec = Codec::from_byte(b[4])?;
    let header = (get_i32(b, 4) & 0xff_ffff) as usize;
    if header > total - 8 {
        return Err(WireError::HeaderLength { header, total });
    }
    Ok((b.len() >= total).then_some(Parts {
        codec,
        header_end: 8 + header,
        total,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        assert!(split(&[0, 0, 0]).unwrap().is_none());
        assert_eq!(split(&[0, 0, 0, 0]).unwrap_err(), WireError::FrameLength(0));
        assert!(split(&[0xff; 4]).is_err());
        assert!(total_len(&(16_777_212i32).to_be_bytes()).unwrap().is_some());
        assert!(total_len(&(16_777_213i32).to_be_bytes()).is_err());
        assert!(matches!(
            split(&[0, 0, 0, 4, 0, 0, 0, 1]),
            Err(WireError::HeaderLength { .. })
        ));
        assert_eq!(
            split(&[0, 0, 0, 4, 2, 0, 0, 0]).unwrap_err(),
            WireError::SerializeType(2)
        );
        let parts = split(&[0, 0, 0, 6, 1, 0, 0, 1, 9, 9]).unwrap().unwrap();
        assert_eq!((parts.header_end, parts.total), (9, 10));
    }
}
