//! Metrics of the process from `/proc/self`. They are missing on systems without it.

use std::fs;

use rustix::process::{Resource, getrlimit};
use schemars::JsonSchema;
use serde::Serialize;

/// Clock ticks of a second in procfs (USER_HZ), the same on every architecture of Linux that this program
/// runs on.
const USER_HZ: f64 = 100.0;

/// Resource usage of this process; null where the system has no `/proc`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ProcessUsage {
    pub(crate) open_fds: Option<u64>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) threads: Option<u64>,
    #[serde(skip)]
    pub(crate) max_fds: Option<u64>,
    /// User and system time.
    #[serde(skip)]
    pub(crate) cpu_seconds: Option<f64>,
}

impl ProcessUsage {
    /// Reads procfs, which does no disk I/O.
    pub(crate) fn read() -> Self {
        let open_fds = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let max_fds = getrlimit(Resource::Nofile).current;
        let cpu_seconds = cpu_time(&fs::read_to_string("/proc/self/stat").unwrap_or_default());
        Self { open_fds, max_fds, cpu_seconds, ..Self::parse(&status) }
    }

    /// Reads the resident memory alone.
    pub(crate) fn resident() -> Option<u64> {
        Self::parse(&fs::read_to_string("/proc/self/status").ok()?).resident_bytes
    }

    fn parse(status: &str) -> Self {
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        Self {
            resident_bytes: number("VmRSS:").map(|kib| kib.saturating_mul(1024)),
            threads: number("Threads:"),
            ..Self::default()
        }
    }
}

/// Reads user and system time from proc_pid_stat(5), in seconds.
fn cpu_time(stat: &str) -> Option<f64> {
    // The name of the program is in parentheses, and may have some.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).map(|field| field.parse::<f64>().ok());
    Some((times.next()?? + times.next()??) / USER_HZ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_parsed_and_invalid_numbers_are_ignored() {
        let parsed = ProcessUsage::parse("Name:\tx\nVmRSS:\t   12 kB\nThreads:\t7\n");
        assert_eq!((parsed.resident_bytes, parsed.threads), (Some(12288), Some(7)));
        assert_eq!(ProcessUsage::parse("VmRSS: many\n"), ProcessUsage::default());
        let read = ProcessUsage::read();
        assert!(
            read.open_fds < read.max_fds && read.cpu_seconds.is_some_and(|seconds| seconds < 1e6),
            "{read:?}"
        );
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0";
        assert_eq!(cpu_time(stat), Some(200.0 / USER_HZ));
    }
}
