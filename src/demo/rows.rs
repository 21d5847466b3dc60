//! Rows of the demo: files of provenance rows that are imported, each until it is confirmed.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

use super::instance::Instance;

/// Contents of a file; each is three rows, and each file has one revision more.
const CONTENTS: u64 = 300;
/// Time between two imports.
const PERIOD: Duration = Duration::from_secs(1);
/// Pause before an import that was not confirmed is repeated.
const RETRY: Duration = Duration::from_millis(500);

pub(super) struct Rows {
    file: PathBuf,
    sent: AtomicU64,
}

impl Rows {
    pub(super) fn new(folder: &Path) -> Self {
        Self { file: folder.join("rows.jsonl"), sent: AtomicU64::new(0) }
    }

    /// Imports a file each second. One that is not confirmed is repeated, which changes nothing that is
    /// stored.
    pub(super) fn import(&self, instance: &Instance, stop: &AtomicBool) {
        for number in 0.. {
            if stop.load(Relaxed) {
                return;
            }
            let (text, rows) = file(number);
            let file = self.file.to_string_lossy();
            while fs::write(&self.file, &text).is_err()
                || instance.command(&["provenance", "import", &file]).is_err()
            {
                if stop.load(Relaxed) {
                    return;
                }
                thread::sleep(RETRY);
            }
            self.sent.fetch_add(rows, Relaxed);
            thread::sleep(PERIOD);
        }
    }

    /// Rows of the confirmed imports.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub(super) fn progress(&self) -> String {
        format!("{} rows stored", self.sent())
    }
}

/// Makes the file of this number, and counts its rows.
fn file(number: u64) -> (String, u64) {
    let date = "2005-03-18T01:58:31Z";
    let revision = format!("{:040x}", 0xfff0_0000_0000_u64 + number);
    let mut text = format!("{{\"add\":\"revision\",\"id\":\"{revision}\",\"date\":\"{date}\"}}\n");
    for line in 0..CONTENTS {
        let at = number * CONTENTS + line;
        // Spread over all ranges of the workers.
        let content = format!("{:02x}{:038x}", at % 256, at);
        let path = format!("src/file{at}.c");
        let _ = writeln!(text, "{{\"add\":\"content\",\"id\":\"{content}\",\"date\":\"{date}\"}}");
        let _ = writeln!(text, "{{\"add\":\"location\",\"path\":\"{path}\"}}");
        let _ = writeln!(
            text,
            "{{\"add\":\"content_in_revision\",\"src\":\"{content}\",\"dst\":\"{revision}\",\"path\":\"{path}\"}}"
        );
    }
    (text, 1 + 3 * CONTENTS)
}
