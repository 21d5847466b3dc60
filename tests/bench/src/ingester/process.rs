//! A child process and what the kernel says of it.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        Ok(Self(
            command.stdin(Stdio::null()).spawn().context("start a program: build it with --profile dist")?,
        ))
    }

    /// CPU time used so far, user and system, seconds.
    pub(crate) fn cpu_s(&self) -> Result<f64> {
        cpu_s(self.0.id())
    }

    /// The CPU time of its threads.
    pub(crate) fn threads_cpu_s(&self) -> Result<f64> {
        threads_cpu_s(self.0.id())
    }

    /// A line of /proc/PID/status, MiB.
    pub(crate) fn memory_mib(&self, field: &str) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find(|line| line.starts_with(field)).context("a known field")?;
        let kib: f64 = line.split_whitespace().nth(1).context("a number")?.parse()?;
        Ok(kib / 1024.0)
    }
}

/// The CPU time that a process has used so far, user and system, seconds.
pub(crate) fn cpu_s(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: Vec<f64> = fields.skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    // The kernel counts in hundredths of a second (USER_HZ).
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

/// The CPU time of the threads that run in a process, seconds, to the nanosecond: what an idle one takes is
/// below a tick.
pub(crate) fn threads_cpu_s(pid: u32) -> Result<f64> {
    let mut nanoseconds = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let first = stat.split(' ').next().context("a known line")?;
        nanoseconds += first.parse::<u64>()?;
    }
    Ok(nanoseconds as f64 / 1e9)
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
