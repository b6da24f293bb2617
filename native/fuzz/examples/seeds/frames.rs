//! What a client sends: headers in both forms, JSON, and streams of frames.

use crate::{Corpus, PROPS};
use pyrmq_fuzz::frame;

/// The worked header of a send in its JSON form.
const SEND: &str = r#"{"code":310,"extFields":{"a":"PG","b":"TopicTest","c":"TBW102","d":"4","e":"0","f":"0","g":"1700000000000","h":"0","i":"UNIQ_KEY\u0001AC110001000118B4AAC200000000\u0002WAIT\u0001true\u0002TAGS\u0001TagA\u0002","j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":479}"#;
const SEND_LONG: &str = r#"{"code":10,"extFields":{"producerGroup":"PG","topic":"TopicTest","defaultTopic":"TBW102","defaultTopicQueueNums":"4","queueId":"2","sysFlag":"0","bornTimestamp":"1700000000000","flag":"0","properties":"TAGS\u0001TagA\u0002","reconsumeTimes":"0","unitMode":"false","batch":"false"},"flag":0,"language":"GO","opaque":2,"remark":"","version":401}"#;
const END: &str = r#"{"code":37,"extFields":{"producerGroup":"PG","tranStateTableOffset":"0","commitLogOffset":"0","commitOrRollback":"8","fromTransactionCheck":"TRUE","transactionId":"AC110001000118B4AAC200000000"},"flag":2,"language":"JAVA","opaque":3,"serializeTypeCurrentRPC":"JSON","version":479}"#;
const HEARTBEAT: &str = r#"{"code":34,"extFields":{},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":479}"#;
const ANSWER: &str = r#"{"code":0,"extFields":{"queueId":"0","transactionId":"AC110001000118B4AAC200000000","msgId":"7F00000100002A9F0000000000000000","TRACE_ON":"true","MSG_REGION":"DefaultRegion","queueOffset":"0"},"flag":1,"language":"JAVA","opaque":1,"remark":"fine \"so\" \u00e4","version":479}"#;
const ODD: &str = r#" { "opaque" : "7", 'code':"310","language":9,"remark":null,"extFields":{x:5,"y":true,"z":null,"o":{"a":[1]}},"new":[{"a":{}}],} "#;

/// The binary form of a header.
fn binary(code: i16, opaque: i32, flag: i32, remark: &str, ext: &[(&str, &str)]) -> Vec<u8> {
    let mut out = code.to_be_bytes().to_vec();
    out.push(0);
    out.extend(479i16.to_be_bytes());
    out.extend(opaque.to_be_bytes());
    out.extend(flag.to_be_bytes());
    out.extend((remark.len() as i32).to_be_bytes());
    out.extend(remark.as_bytes());
    let mut map = Vec::new();
    for (name, value) in ext {
        map.extend((name.len() as u16).to_be_bytes());
        map.extend(name.as_bytes());
        map.extend((value.len() as i32).to_be_bytes());
        map.extend(value.as_bytes());
    }
    out.extend((map.len() as i32).to_be_bytes());
    out.extend(map);
    out
}

const UNIQUE: &str = "UNIQ_KEY\x01AC110001000118B4AAC200000000\x02WAIT\x01true\x02TAGS\x01TagA\x02";

/// A binary send with one field changed.
fn send_with(code: i16, flag: i32, changed: (&str, &str)) -> Vec<u8> {
    let mut ext = [
        ("a", "PG"),
        ("b", "TopicTest"),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", "0"),
        ("f", "0"),
        ("g", "1700000000000"),
        ("h", "0"),
        ("i", UNIQUE),
        ("j", "0"),
        ("k", "false"),
        ("m", "false"),
        ("n", "broker-a"),
    ];
    for field in &mut ext {
        if field.0 == changed.0 {
            field.1 = changed.1;
        }
    }
    binary(code, 1, flag, "", &ext)
}

pub fn headers(corpus: &Corpus) {
    let add = |name: &str, codec: u8, header: &[u8]| {
        let input = [&[codec], header].concat();
        corpus.add("header", name, &input);
        corpus.add("send_fields", name, &input);
    };
    add("json-send", 0, SEND.as_bytes());
    add("json-send-long", 0, SEND_LONG.as_bytes());
    add("json-heartbeat", 0, HEARTBEAT.as_bytes());
    add("json-answer", 0, ANSWER.as_bytes());
    add("json-odd", 0, ODD.as_bytes());
    add("binary-send", 1, &send_with(310, 0, ("", "")));
    add("binary-batch", 1, &send_with(320, 2, ("m", "TRUE")));
    add(
        "binary-answer",
        1,
        &binary(13, -5, 1, "why", &[("queueId", "3")]),
    );
    add("binary-empty", 1, &binary(0x0D72, 0, 0, "", &[]));
    add("binary-no-number", 1, &send_with(310, 0, ("e", "one")));
}

pub fn json(corpus: &Corpus) {
    let texts = [
        SEND,
        HEARTBEAT,
        ODD,
        r#"{0:"127.0.0.1:10911",1:"b:2"}"#,
        r#"{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:5,{"brokerName":"broker-a","queueId":1,"topic":"T"}:6}}"#,
        r#"{"clientID":"10.0.0.1@1#2","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"CG","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":["2598919"],"expressionType":"TAG","subString":"TagA||TagB","subVersion":1700000000000,"tagsSet":["TagA"],"topic":"T"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"PG"}],"withoutSub":false}"#,
        r#"{"consumeTps":1.5,"d":1.0E10,"n":-0.0,"big":12345678901234567890,"null":null,"t":[true,false,],}"#,
        "[\"\\u00e4\\ud83d\\ude00\\n\\t\\\\\\/\\\"\",'it\\'s',\"\u{e4}\u{1F600}\"]",
        r#"{"a":{"$ref":"$.b"},"b":[[[[[[1]]]]]]}"#,
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
        "-inf",
    ];
    for (i, text) in texts.iter().enumerate() {
        corpus.add("json", &format!("{i:02}"), text.as_bytes());
    }
}

/// One message of a batch body. [MessageDecoder.encodeMessage]
fn batch_entry(body: &[u8], props: &[u8]) -> Vec<u8> {
    let mut out = ((22 + body.len() + props.len()) as i32)
        .to_be_bytes()
        .to_vec();
    out.extend([0; 8]);
    out.extend(1i32.to_be_bytes());
    out.extend((body.len() as i32).to_be_bytes());
    out.extend(body);
    out.extend((props.len() as i16).to_be_bytes());
    out.extend(props);
    out
}

pub fn streams(corpus: &Corpus) {
    let add = |name: &str, bytes: &[u8]| {
        corpus.add("session", name, bytes);
        corpus.add("send", name, bytes);
    };
    let json = frame(0, SEND.as_bytes(), b"hello");
    let binary_send = frame(1, &send_with(310, 0, ("", "")), b"hello");
    add("json-send", &json);
    add("json-send-long", &frame(0, SEND_LONG.as_bytes(), b"hello"));
    add("binary-send", &binary_send);
    add("both", &[&json[..], &binary_send].concat());
    add("cut", &[&binary_send[..], &json[..200]].concat());
    add("heartbeat", &frame(0, HEARTBEAT.as_bytes(), b"{}"));
    add("answer", &frame(0, ANSWER.as_bytes(), b""));
    add("oneway", &frame(1, &send_with(310, 2, ("", "")), b"x"));
    let fields = [
        ("queue", ("e", "99")),
        ("any-queue", ("e", "-1")),
        ("unknown-topic", ("b", "Other")),
        ("bad-topic", ("b", "../x")),
        ("retry", ("b", "%RETRY%g")),
        ("delayed", ("i", "DELAY\x013\x02")),
        ("timer", ("i", "TIMER_DELAY_SEC\x0130\x02TAGS\x01TagA\x02")),
        (
            "timer-forged",
            (
                "i",
                "TIMER_DELAY_MS\x0130000\x02REAL_TOPIC\x01x\x02TIMER_ROLL_TIMES\x011\x02",
            ),
        ),
        ("timer-past", ("i", "TIMER_DELIVER_MS\x015\x02")),
        ("priority", ("i", "_SYS_MSG_PRIORITY_\x013\x02")),
        ("half", ("f", "4")),
        ("no-key", ("i", "TAGS\x01TagB")),
        (
            "broker-props",
            ("i", "CLUSTER\x01x\x02TAGS\x01TagB\x02A\x01b"),
        ),
        ("no-wait", ("i", "WAIT\x01false\x02")),
    ];
    for (name, changed) in fields {
        add(name, &frame(1, &send_with(310, 0, changed), b"hello"));
    }
    let half = |more: &str| {
        let props = format!("{UNIQUE}TRAN_MSG\x01true\x02PGROUP\x01PG\x02{more}");
        frame(1, &send_with(310, 0, ("i", &props)), b"hello")
    };
    let immune = half("CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02");
    add("half-message", &half(""));
    add("half-immune", &immune);
    add(
        "half-books",
        &half("REAL_TOPIC\x01x\x02TRANSACTION_CHECK_TIMES\x019\x02REAL_QID\x013"),
    );
    add(
        "halves",
        &[half(""), immune.clone(), half("DELAY\x010\x02")].concat(),
    );
    add("half-delayed", &half("DELAY\x013\x02"));
    add("half-no-key", &{
        let props = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02";
        frame(1, &send_with(310, 0, ("i", props)), b"hello")
    });
    let end = |flag, word: &str| {
        let ext = [
            ("producerGroup", "PG"),
            ("tranStateTableOffset", "0"),
            ("commitLogOffset", "0"),
            ("commitOrRollback", word),
            ("fromTransactionCheck", "false"),
            ("msgId", "AC110001000118B4AAC200000000"),
            ("transactionId", "AC110001000118B4AAC200000000"),
        ];
        frame(1, &binary(37, 9, flag, "", &ext), b"")
    };
    add("end", &end(0, "8"));
    add("end-oneway", &end(2, "12"));
    add("end-json", &frame(0, END.as_bytes(), b""));
    add(
        "half-and-end",
        &[half(""), end(0, "8"), end(0, "0")].concat(),
    );
    let batch = [
        batch_entry(b"one", b"TAGS\x01TagA\x02"),
        batch_entry(b"two", b""),
        batch_entry(b"three", PROPS),
    ]
    .concat();
    add(
        "batch",
        &frame(1, &send_with(320, 0, ("m", "true")), &batch),
    );
    let broken = &batch[..batch.len() - 3];
    add(
        "broken-batch",
        &frame(1, &send_with(320, 0, ("m", "true")), broken),
    );
    let small = frame(1, &binary(34, 1, 2, "", &[]), b"");
    add("many", &small.repeat(70));
    add(
        "large",
        &[&[0, 0xFF, 0, 0, 1, 0, 0, 21][..], &small[8..], &[7; 300]].concat(),
    );
    add("too-large", &[1, 0, 0, 0, 0, 0, 0, 0]);
    add("bad-type", &[0, 0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0]);
}

/// The front of a client hello, and plain bytes that the target seals.
pub fn signed(corpus: &Corpus) {
    for kind in 0..8_u8 {
        let mut ops = vec![kind];
        ops.extend(b"hello");
        corpus.add("signed", &format!("kind-{kind}"), &ops);
    }
    let many: Vec<u8> = (0..40).map(|n| n % 4).collect();
    corpus.add("signed", "many-right", &many);
    let mixed: Vec<u8> = (0..40).map(|n| n % 7).collect();
    corpus.add("signed", "mixed", &mixed);
}

pub fn tls(corpus: &Corpus) {
    let hello = [
        0x16, 3, 1, 0, 0x60, 1, 0, 0, 0x5c, 3, 3, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
        7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 4, 0x13, 1, 0x13, 2, 1, 0,
    ];
    corpus.add("tls", "hello", &hello);
    corpus.add("tls", "twice", &[hello, hello].concat());
    corpus.add("tls", "alert", &[0x15, 3, 3, 0, 2, 2, 40]);
    let in_message = [22, 3, 3, 0, 2, 2, 40, 21, 3, 3, 0, 2, 2, 40, 126];
    corpus.add("tls", "alert_in_message", &in_message);
    let mut plain = vec![0];
    plain.extend(SEND.bytes());
    corpus.add("tls", "short", &plain);
    corpus.add(
        "tls",
        "long",
        &[plain.clone(), plain.clone(), plain].concat(),
    );
}
