//! Latency of the disk itself, so that its stalls are not attributed to the program.

use std::{
    fs::File,
    io::Write,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Thread that repeatedly writes and syncs a few bytes.
#[derive(Debug)]
pub struct DiskProbe {
    probe: JoinHandle<Duration>,
    stop: Arc<AtomicBool>,
}

impl DiskProbe {
    /// Starts to probe the disk of `directory`.
    ///
    /// # Panics
    /// If it cannot be written to.
    pub fn start(directory: &Path) -> Self {
        let mut file = File::create(directory.join("probe")).expect("a file to probe with");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let probe = thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !stopped.load(SeqCst) {
                let began = Instant::now();
                file.write_all(b"probe").and_then(|()| file.sync_data()).expect("write and sync");
                longest = longest.max(began.elapsed());
                // The probe must not load the disk.
                thread::sleep(Duration::from_millis(20));
            }
            longest
        });
        Self { probe, stop }
    }

    /// Stops the probe and returns the longest write and sync.
    ///
    /// # Panics
    /// If one failed.
    pub fn longest_sync(self) -> Duration {
        self.stop.store(true, SeqCst);
        self.probe.join().expect("a probe that ends")
    }
}
