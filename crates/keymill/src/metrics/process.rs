//! This process in figures, under the names that all exporters give them.
//!
//! `families` asks at every scrape. They are read from `/proc`, which only Linux has; elsewhere there are none of them,
//! and nothing fails.

use std::fs;
use std::time::Duration;

/// What the system tells of this process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Process {
    /// The time of processors that it has used.
    pub(super) cpu: Duration,
    /// The memory that it has in use.
    pub(super) resident_bytes: u64,
    /// The memory that it has mapped.
    pub(super) virtual_bytes: u64,
    /// Its threads.
    pub(super) threads: u64,
    /// When it started, in seconds since 1970.
    pub(super) started_at: f64,
    /// Files and sockets that it has open, and may have open.
    pub(super) open_files: u64,
    pub(super) open_files_max: Option<u64>,
}

/// Ticks a second in `/proc`, whatever the kernel itself counts in.
const TICKS: u64 = 100;

impl Process {
    /// This process now; `None` where the system does not tell.
    pub(super) fn now() -> Option<Process> {
        let read = |path: &str| fs::read_to_string(path).ok();
        let open_files = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
        Process::of(&read("/proc/self/stat")?, &read("/proc/self/status")?, &read("/proc/stat")?)
            .map(|process| Process {
                // The folder that was just read is one of them.
                open_files: open_files.saturating_sub(1),
                open_files_max: read("/proc/self/limits").and_then(|limits| files_max(&limits)),
                ..process
            })
    }

    fn of(stat: &str, status: &str, system: &str) -> Option<Process> {
        // The name of the program, in brackets, may have spaces; the third field is behind it.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let boot = system.lines().find_map(|line| line.strip_prefix("btime "))?;
        let kilobytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        #[expect(clippy::cast_precision_loss, reason = "hundredths of a second since 1970 fit")]
        let started_at =
            (boot.trim().parse::<u64>().ok()? * TICKS + field(22)?) as f64 / TICKS as f64;
        Some(Process {
            cpu: Duration::from_millis((field(14)? + field(15)?) * (1_000 / TICKS)),
            resident_bytes: kilobytes("VmRSS:")? * 1_024,
            virtual_bytes: kilobytes("VmSize:")? * 1_024,
            threads: field(20)?,
            started_at,
            open_files: 0,
            open_files_max: None,
        })
    }
}

/// How many files a process may have open; `None` where there is no limit.
fn files_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_linux_are_read_whatever_the_program_is_called() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 900 0 3 0 250 150 0 0 20 0 8 0 1234 99 7 18";
        let status = "Name:\ta\nVmSize:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        let process = Process::of(stat, status, "cpu 1 2\nbtime 1700000000\n").unwrap();
        assert_eq!((process.cpu, process.threads), (Duration::from_secs(4), 8));
        assert_eq!((process.resident_bytes, process.virtual_bytes), (1 << 20, 2 << 20));
        assert!((process.started_at - 1_700_000_012.34).abs() < 1e-6, "{}", process.started_at);
        let limits = "Limit  Soft Hard\nMax open files            1024  4096  files\n";
        assert_eq!(files_max(limits), Some(1_024));
        assert_eq!(files_max("Max open files  unlimited unlimited files"), None);
        assert_eq!(Process::of("", "", ""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_told() {
        let process = Process::now().unwrap();
        assert!(process.resident_bytes > 1 << 20 && process.open_files >= 3, "{process:?}");
        let age = jiff::Timestamp::now().as_second() as f64 - process.started_at;
        assert!((-2.0..86_400.0).contains(&age), "{process:?}");
    }
}
