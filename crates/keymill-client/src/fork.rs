//! Forks: which process this is, so cheaply that every take can ask.
//!
//! A forked child has a copy of everything in memory: keys that its parent hands out too, and connections that both would
//! write to. Whoever holds such things notes the [`generation`] that they belong to, and drops them once it is another.
//!
//! On Linux, the generation is kept in a page of memory that the kernel empties in a child (`MADV_WIPEONFORK`): looking at
//! it takes a nanosecond, where asking for the process ID is a system call, which would take longer than all the rest of a
//! take. It also notices children that have the process ID of their parent, each being the first process of its container. Elsewhere, and on kernels before
//! 4.14, it is the process ID.

/// A number that stays the same in this process, and that no process has from which this one was forked.
#[inline]
pub(crate) fn generation() -> u64 {
    #[cfg(target_os = "linux")]
    if let Some(generation) = page::generation() {
        return generation;
    }
    u64::from(std::process::id())
}

#[cfg(target_os = "linux")]
mod page {
    use std::ptr::null_mut;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

    /// The number of this process, and zero in a child that has not looked yet.
    static NUMBER: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    /// The highest number given in this process and those it was forked from.
    static HIGHEST: AtomicU64 = AtomicU64::new(0);

    #[inline]
    pub(super) fn generation() -> Option<u64> {
        let number = (*NUMBER.get_or_init(map))?;
        match number.load(Ordering::Relaxed) {
            0 => Some(next(number)),
            known => Some(known),
        }
    }

    #[cold]
    fn next(number: &AtomicU64) -> u64 {
        let next = HIGHEST.fetch_add(1, Ordering::Relaxed) + 1;
        // Two threads may be the first to look: one of their numbers counts.
        match number.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => next,
            Err(known) => known,
        }
    }

    /// Maps the page, once in the life of a process and its children. It is never unmapped.
    fn map() -> Option<&'static AtomicU64> {
        let (len, access) = (size_of::<AtomicU64>(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the kernel chooses the address, so the mapping replaces none that is in use.
        let page = unsafe { mmap_anonymous(null_mut(), len, access, MapFlags::PRIVATE) }.ok()?;
        // SAFETY: `page` is the mapping of at least `len` bytes made above, and nothing refers to it yet. The advice changes
        // nothing in this process.
        unsafe { madvise(page, len, Advice::LinuxWipeOnFork) }.ok()?;
        // SAFETY: the mapping is aligned to a page, readable, writable and at least `len` bytes long; it is zeroed, which is
        // a valid `AtomicU64`, here and in a child that finds it emptied; it is never unmapped, and nobody has another
        // reference to it.
        Some(unsafe { &*page.cast::<AtomicU64>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_keeps_its_generation_on_every_thread() {
        let here = generation();
        let there = std::thread::spawn(generation).join().unwrap();
        assert_eq!((here, generation()), (there, here));
        assert_ne!(here, 0);
    }
}
