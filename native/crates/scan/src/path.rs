//! Paths as text: the same on every place, with slashes.

/// What is behind the last slash.
pub fn base_name(path: &str) -> &str {
    path.rfind('/').map_or(path, |at| &path[at + 1..])
}

/// What is in front of it, without slashes at its end unless there is nothing else.
pub fn folder_of(path: &str) -> &str {
    let head = path.rfind('/').map_or("", |at| &path[..=at]);
    match head.trim_end_matches('/') {
        "" => head,
        trimmed => trimmed,
    }
}

pub fn join(folder: &str, name: &str) -> String {
    if name.starts_with('/') || folder.is_empty() {
        return name.to_owned();
    }
    match folder.ends_with('/') {
        true => format!("{folder}{name}"),
        false => format!("{folder}/{name}"),
    }
}

/// An absolute path without `.`, `..` and double slashes; links are not followed.
pub fn absolute(path: &str) -> std::io::Result<String> {
    let whole = match path.starts_with('/') {
        true => path.to_owned(),
        false => join(&std::env::current_dir()?.to_string_lossy(), path),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    // POSIX leaves two slashes in front alone, and only two.
    let front = match whole.starts_with("//") && !whole.starts_with("///") {
        true => "//",
        false => "/",
    };
    Ok(format!("{front}{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_paths() {
        assert_eq!(base_name("/a/b"), "b");
        assert_eq!(base_name("/a/b/"), "");
        assert_eq!(base_name("b"), "b");
        assert_eq!(folder_of("/a//b"), "/a");
        assert_eq!(folder_of("/a"), "/");
        assert_eq!(folder_of("a"), "");
        assert_eq!(join("/a/", "b"), "/a/b");
        assert_eq!(join("/a", "b"), "/a/b");
        assert_eq!(join("", "b"), "b");
        assert_eq!(join("/a", "/b"), "/b");
    }

    #[test]
    fn absolute_paths() {
        assert_eq!(absolute("/a/./b//../c/").unwrap(), "/a/c");
        assert_eq!(absolute("/../..").unwrap(), "/");
        assert_eq!(absolute("//a/b").unwrap(), "//a/b");
        let here = std::env::current_dir().unwrap();
        assert_eq!(absolute("x").unwrap(), format!("{}/x", here.display()));
    }
}
