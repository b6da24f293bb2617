//! Names in folders, as messages show them.

use super::path::folder_of;
use super::place::{Place, Shape};

const SHOWN: usize = 3;

/// The first names of a list.
pub(crate) fn some(names: &[String]) -> String {
    let more = if names.len() > SHOWN { ", …" } else { "" };
    names[..names.len().min(SHOWN)].join(", ") + more
}

/// What to do about a path that is not there: what is in the folder above it.
pub(crate) fn nearby(place: &dyn Place, path: &str) -> String {
    let above = match folder_of(path.trim_end_matches('/')) {
        "" => ".",
        above => above,
    };
    let found = match place.shape(above) {
        Ok(Shape::Folder) => place.list(above).ok(),
        _ => None,
    };
    let Some(found) = found else {
        return format!("{above} is not there either");
    };
    let names: Vec<String> = found.into_iter().map(|f| f.name).collect();
    match names.is_empty() {
        true => format!("{above} is empty"),
        false => format!("in {above} there is {}", some(&names)),
    }
}
