//! Has the processor fetch memory that is read soon.

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Asks for the cache line of an address. A hint: it changes nothing, and no address is wrong.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction reads nothing into the program and never faults, wherever `at`
        // points; every x86-64 processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
