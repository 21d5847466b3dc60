//! Faults of the demo: panics of children, and an input directory that is away for a while.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::instance::Instance;

/// Time between two panics: slow enough for the restart intensity of the supervisors, 5 in 30 s.
const PANIC_PERIOD: Duration = Duration::from_secs(6);
/// Time between two outages.
const OUTAGE_PERIOD: Duration = Duration::from_secs(15);
/// Duration of an outage.
const OUTAGE: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Faults {
    panics: AtomicU64,
    outages: AtomicU64,
}

impl Faults {
    /// Injects faults until `stop` is set, and starts the process again if it ends.
    pub(super) fn inject(&self, instance: &Instance, folder: &Path, stop: &AtomicBool) {
        let (present, away) = (folder.join("fetchers"), folder.join("fetchers.away"));
        let mut next_panic = Instant::now() + PANIC_PERIOD / 2;
        let mut next_outage = Instant::now() + OUTAGE_PERIOD / 2;
        let mut back_at = None;
        while !stop.load(Relaxed) {
            thread::sleep(STEP);
            instance.keep_running();
            let now = Instant::now();
            if now >= next_panic {
                next_panic = now + PANIC_PERIOD;
                self.panic(instance);
            }
            if now >= next_outage && fs::rename(&present, &away).is_ok() {
                next_outage = now + OUTAGE_PERIOD;
                back_at = Some(now + OUTAGE);
                self.outages.fetch_add(1, Relaxed);
            }
            if back_at.is_some_and(|at| now >= at) {
                back_at = restore(&away, &present).err().map(|_| now + STEP);
            }
        }
        if back_at.is_some() {
            let _ = restore(&away, &present);
        }
    }

    /// Makes one running child panic, of each subsystem in turn.
    fn panic(&self, instance: &Instance) {
        let turn = self.panics.load(Relaxed);
        let Ok(tree) = instance.get("/v1/tree") else { return };
        let subsystems: Vec<Vec<String>> = tree["root"]["children"]
            .as_array()
            .into_iter()
            .flatten()
            // The endpoint itself is what the console looks through.
            .filter(|child| child["kind"] == "supervisor")
            .map(leaves)
            .filter(|leaves| !leaves.is_empty())
            .collect();
        if subsystems.is_empty() {
            return;
        }
        let count = subsystems.len() as u64;
        let leaves = &subsystems[(turn % count) as usize];
        let path = &leaves[(turn / count) as usize % leaves.len()];
        let body = json!({ "reason": "demo" });
        if instance.post(&format!("/v1/actors/{path}/panic"), &body).is_ok() {
            self.panics.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn panics(&self) -> u64 {
        self.panics.load(Relaxed)
    }

    pub(super) fn outages(&self) -> u64 {
        self.outages.load(Relaxed)
    }

    pub(super) fn progress(&self) -> String {
        format!("{} panics, {} outages", self.panics(), self.outages())
    }
}

/// Puts the directory back. The instance may have made a new one, which the demo never wrote to.
fn restore(away: &Path, present: &Path) -> std::io::Result<()> {
    if present.exists() {
        for entry in fs::read_dir(present)? {
            let entry = entry?;
            fs::rename(entry.path(), away.join(entry.file_name()))?;
        }
        fs::remove_dir(present)?;
    }
    fs::rename(away, present)
}

/// Paths below the root of all running children without children.
fn leaves(node: &Value) -> Vec<String> {
    let children = node["children"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !children.is_empty() {
        return children.iter().flat_map(leaves).collect();
    }
    let path = node["path"].as_str().and_then(|path| path.split_once('/')).map(|(_, path)| path.to_owned());
    path.filter(|_| node["state"] == "running").into_iter().collect()
}
