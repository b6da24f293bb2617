//! In which order the ext fields of a header are signed. [AclClientRPCHook, AclUtils.combineRequestContent]
//!
//! By name, as UTF-16 code units; for names of ASCII letters that is the order of their bytes. A header
//! with other names has no order here: it is verified by the broker in Python, if at all.

use super::header::Header;
use pyrmq_format::json::Raw;

const ACCESS_KEY: &[u8] = b"AccessKey";
const SIGNATURE: &[u8] = b"Signature";

/// Of headers with one sequence of names.
pub struct Order {
    /// Places in `Header::ext`, that of the signature included.
    sorted: Box<[u16]>,
    access_key: u16,
    signature: u16,
}

type Fields = [(Raw, Raw)];

fn name<'a>(ext: &Fields, place: u16, text: &'a [u8]) -> &'a [u8] {
    ext[place as usize].0.bytes(text)
}

impl Order {
    /// None for a header that is not signed, or has a name twice, or one that is escaped or not ASCII.
    pub fn of(header: &Header, text: &[u8]) -> Option<Order> {
        let ext = &header.ext;
        let name = |place: u16| name(ext, place, text);
        let mut sorted: Box<[u16]> = (0..u16::try_from(ext.len()).ok()?).collect();
        sorted.sort_unstable_by_key(|place| name(*place));
        let place_of = |wanted: &[u8]| {
            let found = sorted.binary_search_by_key(&wanted, |place| name(*place));
            found.ok().map(|at| sorted[at])
        };
        let order = Order {
            access_key: place_of(ACCESS_KEY)?,
            signature: place_of(SIGNATURE)?,
            sorted: sorted.clone(),
        };
        order.fits(header, text).then_some(order)
    }

    /// Whether it is that of this header.
    pub fn fits(&self, header: &Header, text: &[u8]) -> bool {
        let ext = &header.ext;
        let is_plain = |(name, _): &(Raw, Raw)| !name.escaped && name.bytes(text).is_ascii();
        let name = |place: u16| name(ext, place, text);
        ext.len() == self.sorted.len()
            && ext.iter().all(is_plain)
            && self.sorted.is_sorted_by(|a, b| name(*a) < name(*b))
            && name(self.access_key) == ACCESS_KEY
            && name(self.signature) == SIGNATURE
    }

    pub fn access_key(&self, header: &Header) -> Raw {
        header.ext[self.access_key as usize].1
    }

    pub fn signature(&self, header: &Header) -> Raw {
        header.ext[self.signature as usize].1
    }

    /// The values that are signed, in their order.
    pub fn values<'h>(&'h self, header: &'h Header) -> impl Iterator<Item = Raw> + 'h {
        let signed = self.sorted.iter().filter(|at| **at != self.signature);
        signed.map(|at| header.ext[*at as usize].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::Codec;

    fn order(fields: &[&str]) -> Option<Vec<String>> {
        let fields: Vec<_> = fields.iter().map(|f| format!("\"{f}\":\"{f}\"")).collect();
        let text = format!("01234567{{\"extFields\":{{{}}}}}", fields.join(","));
        let mut header = Header::default();
        header
            .read(Codec::Json, text.as_bytes(), text.len())
            .unwrap();
        let order = Order::of(&header, text.as_bytes())?;
        assert_eq!(order.access_key(&header).bytes(text.as_bytes()), ACCESS_KEY);
        assert_eq!(order.signature(&header).bytes(text.as_bytes()), SIGNATURE);
        let values = order.values(&header);
        Some(
            values
                .map(|v| String::from_utf8_lossy(v.bytes(text.as_bytes())).into())
                .collect(),
        )
    }

    #[test]
    fn capital_letters_come_first_and_the_signature_is_left_out() {
        let fields = [
            "b",
            "Signature",
            "_x",
            "a",
            "AccessKey",
            "Zz",
            "SecurityToken",
        ];
        let sorted = ["AccessKey", "SecurityToken", "Zz", "_x", "a", "b"];
        assert_eq!(order(&fields).unwrap(), sorted);
    }

    #[test]
    fn what_is_unusual_has_no_order() {
        for fields in [
            &["a", "b"][..],
            &["AccessKey"],
            &["Signature"],
            &["AccessKey", "Signature", "a", "a"],
            &["AccessKey", "Signature", "Signature"],
            &["AccessKey", "AccessKey", "Signature"],
            &["AccessKey", "Signature", "\u{e9}"],
            &["AccessKey", "Signature", "\\u0061"],
            &["\\u0041ccessKey", "Signature"],
        ] {
            assert!(order(fields).is_none(), "{fields:?}");
        }
    }

    #[test]
    fn it_fits_headers_with_the_same_names_in_the_same_places_only() {
        let read = |fields: &str| {
            let text = format!("01234567{{\"extFields\":{{{fields}}}}}").into_bytes();
            let mut header = Header::default();
            header.read(Codec::Json, &text, text.len()).unwrap();
            (header, text)
        };
        let (header, text) = read(r#""a":"1","Signature":"s","AccessKey":"k""#);
        let order = Order::of(&header, &text).unwrap();
        for (fields, fits) in [
            (r#""a":"22","Signature":"t","AccessKey":"l""#, true),
            (r#""b":"1","Signature":"s","AccessKey":"k""#, true),
            (r#""A":"1","Signature":"s","AccessKey":"k""#, false),
            (r#""AccessKey":"1","Signature":"s","AccessKey":"k""#, false),
            (r#""Signature":"s","a":"1","AccessKey":"k""#, false),
            (r#""a":"1","Signature":"s","AccessKey":"k","b":"2""#, false),
            (r#""\u0061":"1","Signature":"s","AccessKey":"k""#, false),
        ] {
            let (header, text) = read(fields);
            assert_eq!(order.fits(&header, &text), fits, "{fields}");
        }
    }
}
