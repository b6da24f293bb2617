//! native/include/pyrmq_capi.h is what cbindgen makes of this folder, with asserts of all layouts.
//!
//! `scripts/capi_header.sh` writes it anew.

use super::layout::LAYOUTS;
use super::table::{ABI_VERSION, N_ALIKE, NAME};
use cbindgen::{Builder, Config, EnumConfig, ExportConfig, Language, Style};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Sources of what crosses the border.
const SOURCES: [&str; 8] = [
    "native/crates/capi/src/border.rs",
    "native/crates/capi/src/ready_loop.rs",
    "native/crates/capi/src/session.rs",
    "native/crates/capi/src/store.rs",
    "native/crates/capi/src/table.rs",
    "native/crates/capi/src/used.rs",
    "native/crates/server/src/poll.rs",
    "native/crates/server/src/report.rs",
];
const HEADER: &str = "native/include/pyrmq_capi.h";

/// Names in Rust and in C.
const NAMES: &[(&str, &str)] = &[
    ("AtomicU8", "uint8_t"),
    ("AtomicU32", "uint32_t"),
    ("Bytes", "pyrmq_bytes"),
    ("Report", "pyrmq_report"),
    ("ReceivedOut", "pyrmq_received"),
    ("PieceIn", "pyrmq_piece"),
    ("SentOut", "pyrmq_sent"),
    ("CommandOut", "pyrmq_command"),
    ("GroupUsed", "pyrmq_group_used"),
    ("UsedOut", "pyrmq_used"),
    ("Ready", "pyrmq_ready"),
    ("Serve", "pyrmq_serve"),
    ("Left", "pyrmq_left"),
    ("Served", "pyrmq_served"),
    ("Addressee", "pyrmq_addressee"),
    ("LeftList", "pyrmq_left_list"),
    ("ChunkOut", "pyrmq_chunk"),
    ("GetOut", "pyrmq_get"),
    ("Table", "pyrmq_capi"),
    ("OK", "PYRMQ_OK"),
    ("NONE", "PYRMQ_NONE"),
    ("COLD", "PYRMQ_COLD"),
    ("CLOSE", "PYRMQ_CLOSE"),
    ("FAILED", "PYRMQ_FAILED"),
    ("UNREADABLE", "PYRMQ_UNREADABLE"),
    ("PANIC", "PYRMQ_PANIC"),
    ("ABI_VERSION", "PYRMQ_ABI_VERSION"),
    ("N_ALIKE", "PYRMQ_N_ALIKE"),
];

const HEAD: &str = "\
/* The C function table of the native engine, published as the PyCapsule PYRMQ_CAPI_NAME.
 * Generated from native/crates/capi by scripts/capi_header.sh: do not edit. */";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn generated() -> String {
    let config = Config {
        language: Language::C,
        style: Style::Type,
        header: Some(HEAD.into()),
        include_guard: Some("PYRMQ_CAPI_H".into()),
        no_includes: true,
        usize_is_size_t: true,
        sys_includes: vec!["stddef.h".into(), "stdint.h".into()],
        export: ExportConfig {
            include: vec!["Table".into()],
            rename: NAMES
                .iter()
                .map(|(rust, c)| (rust.to_string(), c.to_string()))
                .collect(),
            ..Default::default()
        },
        enumeration: EnumConfig::default(),
        line_length: 110,
        ..Default::default()
    };
    let mut builder = Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(root().join(source));
    }
    let mut made = Vec::new();
    builder.generate().expect("valid sources").write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let (body, guard) = made.rsplit_once("#endif").expect("an include guard");
    format!("{}\n{}\n#endif{guard}", body.trim_end(), asserts())
}

/// What the C compiler has to find true.
fn asserts() -> String {
    let name = NAME.to_str().unwrap();
    let mut out = format!("\n#define PYRMQ_CAPI_NAME \"{name}\"\n\n");
    out += "/* The engine states the same layouts. */\n";
    for layout in LAYOUTS {
        let (name, size) = (layout.name, layout.size);
        writeln!(out, "_Static_assert(sizeof({name}) == {size}, \"{name}\");").unwrap();
        for (field, at) in layout.fields {
            let text = format!("\"{name}.{field}\"");
            writeln!(
                out,
                "_Static_assert(offsetof({name}, {field}) == {at}, {text});"
            )
            .unwrap();
        }
    }
    out
}

#[test]
fn the_header_is_what_is_generated() {
    let made = generated();
    let path = root().join(HEADER);
    if std::env::var_os("PYRMQ_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let stands = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stands == made,
        "{HEADER} is stale: run scripts/capi_header.sh\n{made}"
    );
}

#[test]
fn every_structure_and_every_field_is_asserted() {
    let made = generated();
    assert!(made.contains(&format!("#define PYRMQ_ABI_VERSION {ABI_VERSION}\n")));
    assert!(made.contains(&format!("#define PYRMQ_N_ALIKE {N_ALIKE}\n")));
    for (_, name) in NAMES.iter().filter(|(_, c)| c.starts_with("pyrmq_")) {
        assert!(
            made.contains(&format!("}} {name};")),
            "{name} is not generated"
        );
        let asserted = LAYOUTS.iter().any(|layout| layout.name == *name);
        assert!(asserted || *name == "pyrmq_capi", "{name} is not asserted");
    }
    for source in SOURCES {
        let text = std::fs::read_to_string(root().join(source)).unwrap();
        let structures = text.matches("#[repr(C)]").count();
        let named = NAMES
            .iter()
            .filter(|(rust, _)| text.contains(&format!("pub struct {rust} {{")))
            .count();
        assert_eq!(
            named, structures,
            "{source} has a structure without a name in C"
        );
    }
}
