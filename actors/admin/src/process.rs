//! Metrics of the process from `/proc/self`. They are missing on systems without it.

use std::fs;

/// Resource usage of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProcessUsage {
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) open_fds: Option<u64>,
}

impl ProcessUsage {
    /// Reads procfs, which does no disk I/O.
    pub(crate) fn read() -> Self {
        let open_fds = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self { open_fds, ..Self::parse(&status) }
    }

    fn parse(status: &str) -> Self {
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        Self {
            resident_bytes: number("VmRSS:").map(|kib| kib.saturating_mul(1024)),
            threads: number("Threads:"),
            open_fds: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ProcessUsage;

    #[test]
    fn status_is_parsed_and_invalid_numbers_are_ignored() {
        let parsed = ProcessUsage::parse("Name:\tx\nVmRSS:\t   12 kB\nThreads:\t7\n");
        assert_eq!((parsed.resident_bytes, parsed.threads), (Some(12288), Some(7)));
        assert_eq!(ProcessUsage::parse("VmRSS: many\n"), ProcessUsage::default());
        assert!(ProcessUsage::read().open_fds.is_some());
    }
}
