//! How long the disk itself makes a commit wait, so that its stalls are not taken for the program's.

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

/// Writes and syncs a few bytes, again and again, beside what is measured.
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
                // The pace: the probe must not be the load.
                thread::sleep(Duration::from_millis(20));
            }
            longest
        });
        Self { probe, stop }
    }

    /// The longest write and sync so far.
    ///
    /// # Panics
    /// If one failed.
    pub fn longest_sync(self) -> Duration {
        self.stop.store(true, SeqCst);
        self.probe.join().expect("a probe that ends")
    }
}
