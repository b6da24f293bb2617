//! For tests: texts that end where readable memory ends, so that reading a byte too many ends the process.

use memmap2::MmapMut;

const PAGE: usize = 4096;

/// Some pages, the last of which nobody may touch.
pub struct PageEnd {
    map: MmapMut,
}

impl PageEnd {
    pub fn new() -> Self {
        let mut map = MmapMut::map_anon(3 * PAGE).unwrap();
        // SAFETY: a page of this mapping, which no reference leads to: `holding` gives none.
        let done =
            unsafe { libc::mprotect(map.as_mut_ptr().add(2 * PAGE).cast(), PAGE, libc::PROT_NONE) };
        assert_eq!(done, 0);
        PageEnd { map }
    }

    /// The same text, at the end of what may be read.
    pub fn holding(&mut self, text: &[u8]) -> &[u8] {
        let end = 2 * PAGE;
        let place = &mut self.map[end - text.len()..end];
        place.copy_from_slice(text);
        place
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn nothing_behind_it_can_be_read() {
    use std::os::fd::AsRawFd;
    let mut pages = PageEnd::new();
    let end = pages.holding(b"abc").as_ptr_range().end;
    let (_reader, writer) = std::io::pipe().unwrap();
    // The kernel looks before it copies.
    let write = |from: *const u8| {
        // SAFETY: only the kernel reads there, and it reports what cannot be read.
        unsafe { libc::write(writer.as_raw_fd(), from.cast(), 1) }
    };
    assert_eq!((write(end.wrapping_sub(1)), write(end)), (1, -1));
}
