//! Parameters of the engine by the names that Spark's options have.

/// `startingOffsets` for `starting_offsets`, with `=value` where a text names one.
pub fn as_option(parameter: &str, value: Option<&str>) -> String {
    let mut out = String::with_capacity(parameter.len());
    let mut upper = false;
    for c in parameter.chars() {
        match c {
            '_' => upper = true,
            c if upper => {
                out.extend(c.to_uppercase());
                upper = false;
            }
            c => out.push(c),
        }
    }
    if let Some(value) = value {
        out.push('=');
        out.push_str(value);
    }
    out
}
