use super::*;
use crate::wire::frame;
use proptest::prelude::*;

fn from_hex(s: &str) -> Vec<u8> {
    (0..s.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&s[i..i + 2], 16).unwrap())
        .collect()
}

fn read(frame: &[u8]) -> (Header, Vec<(String, String)>) {
    let parts = frame::split(frame).unwrap().unwrap();
    let mut h = Header::default();
    h.read(parts.codec, frame, parts.header_end).unwrap();
    let ext = h.ext.iter().map(|(k, v)| {
        let mut text = [Vec::new(), Vec::new()];
        k.unescape(frame, &mut text[0]).unwrap();
        v.unescape(frame, &mut text[1]).unwrap();
        let [k, v] = text.map(|t| String::from_utf8(t).unwrap());
        (k, v)
    });
    let mut ext: Vec<_> = ext.collect();
    ext.sort();
    (h, ext)
}

/// The worked SEND_MESSAGE_V2 frames: one JSON, one ROCKETMQ, the same content.
const BINARY: &str = concat!(
    "000000e8010000df01360001df000000010000000000000000000000ca00016100000002504700016200000009546f70696354657374000163000000065442573130320001640000000134000165000000013000016600000001300001670000000d3137303030303030303030303000016800000001300001690000003a554e",
    "49515f4b4559014143313130303031303030313138423441414332303030303030303002574149540174727565025441475301546167410200016a0000000130",
    "00016b0000000566616c736500016d0000000566616c736500016e0000000862726f6b65722d6168656c6c6f"
);

#[test]
fn both_forms_read_alike() {
    let binary = from_hex(BINARY);
    let json_header = br#"{"code":310,"extFields":{"a":"PG","b":"TopicTest","c":"TBW102","d":"4","e":"0","f":"0","g":"1700000000000","h":"0","i":"UNIQ_KEY\u0001AC110001000118B4AAC200000000\u0002WAIT\u0001true\u0002TAGS\u0001TagA\u0002","j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":479}"#;
    let mut json = ((4 + json_header.len() + 5) as u32).to_be_bytes().to_vec();
    json.extend((json_header.len() as u32).to_be_bytes());
    json.extend(json_header);
    json.extend(b"hello");
    assert_eq!(json.len(), 356);
    let (a, ext_a) = read(&binary);
    let (b, ext_b) = read(&json);
    assert_eq!(ext_a, ext_b);
    assert_eq!(ext_a.len(), 13);
    for h in [a, b] {
        assert_eq!(
            (h.code, h.language, h.version, h.opaque, h.flag),
            (310, 0, 479, 1, 0)
        );
        assert!(h.remark.is_none());
    }
}

fn json(text: &str) -> Result<Header, WireError> {
    let mut frame = ((4 + text.len()) as u32).to_be_bytes().to_vec();
    frame.extend((text.len() as u32).to_be_bytes());
    frame.extend(text.as_bytes());
    let mut h = Header::default();
    h.read(Codec::Json, &frame, frame.len()).map(|()| h)
}

#[test]
fn odd_but_accepted() {
    let h = json(r#" { "opaque" : "7", "code":"310","language":9,"remark":"","extFields":{"x":5,"y":true,"z":null},"new":[{"a":{}}]} "#).unwrap();
    assert_eq!((h.code, h.opaque, h.language, h.ext.len()), (310, 7, 9, 2));
    assert_eq!(
        json(r#"{"extFields":null,"remark":null}"#)
            .unwrap()
            .ext
            .len(),
        0
    );
    assert_eq!(
        json(r#"{"language":"KLINGON"}"#).unwrap().language,
        LANGUAGE_OTHER
    );
}

#[test]
fn refused() {
    for bad in [
        "",
        "x",
        "{",
        "[]",
        r#"{"code":}"#,
        r#"{"code":1e3}"#,
        r#"{"opaque":99999999999}"#,
        r#"{"code":1}x"#,
    ] {
        assert!(json(bad).is_err(), "{bad}");
    }
    let many: String = (0..MAX_FIELDS + 1)
        .map(|i| format!("\"k{i}\":\"v\","))
        .collect();
    assert!(json(&format!("{{\"extFields\":{{{many}}}}}")).is_err());
}

proptest! {
    #[test]
    fn any_header_is_read_without_a_panic(b in prop::collection::vec(any::<u8>(), 8..300), json: bool) {
        let codec = if json { Codec::Json } else { Codec::RocketMq };
        let _ = Header::default().read(codec, &b, b.len());
    }

    #[test]
    fn damaged_binary_header(at in 8usize..236, with: u8) {
        let mut b = from_hex(BINARY);
        b[at] = with;
        let mut h = Header::default();
        if h.read(Codec::RocketMq, &b, 231).is_ok() {
            for (k, v) in &h.ext { let _ = (k.bytes(&b), v.bytes(&b)); }
        }
    }
}
