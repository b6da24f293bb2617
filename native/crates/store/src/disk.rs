//! How full a disk is.

use std::path::Path;

/// Used part of the disk of `path` in whole percent, rounded up, as `df` counts it (what only root
/// may use is neither used nor free); None if the system does not say. [UtilAll]
pub fn used_percent(path: &Path) -> Option<u32> {
    let fs = rustix::fs::statvfs(path).ok()?;
    let used = fs.f_blocks.checked_sub(fs.f_bfree)?;
    let all = used.checked_add(fs.f_bavail)?;
    if all == 0 {
        return None;
    }
    Some((used as u128 * 100).div_ceil(all as u128) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_the_system() {
        let used = used_percent(Path::new("/")).unwrap();
        assert!(used <= 100);
        assert_eq!(used_percent(Path::new("/no/such/folder")), None);
    }
}
