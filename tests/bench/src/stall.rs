//! Stalls of the machine itself during a bench, to compare with the longest wait. A wait that is as long as
//! the disk's own, or as that of a thread which only sleeps, is not the program's.

use std::{
    fs::File,
    io::{Seek, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::Result;

/// Between two syncs: seldom, so that they are no load.
const SYNC_EVERY: Duration = Duration::from_millis(25);
const SLEEP: Duration = Duration::from_millis(2);

/// Two threads that measure until the end.
pub(crate) struct Watch {
    done: Arc<AtomicBool>,
    syncs: JoinHandle<std::io::Result<f64>>,
    sleeps: JoinHandle<f64>,
}

/// The longest of each, milliseconds.
pub(crate) struct Stalls {
    /// A page written and synced, to a file beside the program's.
    pub(crate) sync_max_ms: f64,
    /// Delay of a 2 ms sleep beyond its duration.
    pub(crate) sleep_max_ms: f64,
}

impl Watch {
    /// Begins, in `directory`.
    pub(crate) fn begin(directory: &Path) -> Result<Self> {
        let done = Arc::new(AtomicBool::new(false));
        let mut file = tempfile::tempfile_in(directory)?;
        let (watched, slept) = (done.clone(), done.clone());
        let syncs = thread::spawn(move || longest_sync(&mut file, &watched));
        let sleeps = thread::spawn(move || longest_sleep(&slept));
        Ok(Self { done, syncs, sleeps })
    }

    /// Ends.
    pub(crate) fn end(self) -> Result<Stalls> {
        self.done.store(true, Relaxed);
        let sync_max_ms = self.syncs.join().expect("it does not panic")?;
        Ok(Stalls { sync_max_ms, sleep_max_ms: self.sleeps.join().expect("it does not panic") })
    }
}

fn longest_sync(file: &mut File, done: &AtomicBool) -> std::io::Result<f64> {
    let mut longest = 0.0_f64;
    while !done.load(Relaxed) {
        let begun = Instant::now();
        file.rewind()?;
        file.write_all(&[1; 4096])?;
        file.sync_data()?;
        longest = longest.max(begun.elapsed().as_secs_f64() * 1e3);
        thread::sleep(SYNC_EVERY);
    }
    Ok(longest)
}

fn longest_sleep(done: &AtomicBool) -> f64 {
    let mut longest = 0.0_f64;
    while !done.load(Relaxed) {
        let begun = Instant::now();
        thread::sleep(SLEEP);
        longest = longest.max((begun.elapsed() - SLEEP).as_secs_f64() * 1e3);
    }
    longest
}
