//! A client of provenance that imports one file after the other, each again until all of its rows are stored.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
};

use orchestrator_harness::{TestEnv, eventually, sha1_of};
use serde_json::{Value, json};

/// Contents of a file, each in a revision of its own at a path of its own. They are four requests.
pub(crate) const CONTENTS: u32 = 500;

/// Running client.
#[derive(Debug)]
pub(crate) struct Importer {
    over: Arc<AtomicBool>,
    files: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Importer {
    /// Starts to import files into the instances of `env`.
    pub(crate) fn start(env: &TestEnv) -> Self {
        let (over, files) = <(Arc<AtomicBool>, Arc<AtomicU32>)>::default();
        let client = Client {
            program: env.binary().to_owned(),
            directory: env.path().to_owned(),
            socket: env.admin_socket(),
        };
        let (ended, stored) = (over.clone(), files.clone());
        let thread = thread::spawn(move || {
            for file in 0.. {
                if ended.load(SeqCst) {
                    return;
                }
                let path = client.write(file);
                eventually("an import that goes on to its end", || client.has_imported(&path));
                stored.store(file + 1, SeqCst);
            }
        });
        Self { over, files, thread: Some(thread) }
    }

    /// Number of files whose rows are all stored.
    pub(crate) fn files(&self) -> u32 {
        self.files.load(SeqCst)
    }

    /// Waits until `more` files are stored.
    pub(crate) fn await_files(&self, more: u32) {
        let before = self.files();
        eventually("files to be imported", || self.files() >= before + more);
    }

    /// Ends after the file at hand. Returns the number of files.
    pub(crate) fn finish(mut self) -> u32 {
        self.over.store(true, SeqCst);
        self.thread.take().expect("it runs").join().expect("imports that go on to their end");
        self.files()
    }
}

impl Drop for Importer {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        // The panic message of the thread is printed anyway.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

struct Client {
    program: PathBuf,
    directory: PathBuf,
    socket: PathBuf,
}

impl Client {
    fn write(&self, file: u32) -> PathBuf {
        let path = self.directory.join(format!("{file}.jsonl"));
        fs::write(&path, rows(file).map(|row| format!("{row}\n")).collect::<String>()).expect("rows");
        path
    }

    fn has_imported(&self, file: &Path) -> bool {
        let mut import = Command::new(&self.program);
        import.args(["provenance", "import", "--resume"]).arg(file).env("ORCHESTRATOR_SOCKET", &self.socket);
        import.stdin(Stdio::null()).output().expect("start the import").status.success()
    }
}

/// Rows of a file.
pub(crate) fn rows(file: u32) -> impl Iterator<Item = Value> {
    const DATE: &str = "2005-03-18T01:58:31Z";
    (file * CONTENTS..(file + 1) * CONTENTS).flat_map(move |number| {
        let (content, revision) = (sha1_of(0, number), sha1_of(2, number));
        let path = format!("{file}/{number}");
        [
            json!({"add": "content", "id": content, "date": DATE}),
            json!({"add": "revision", "id": revision, "date": DATE}),
            json!({"add": "location", "path": path}),
            json!({"add": "content_in_revision", "src": content, "dst": revision, "path": path}),
        ]
    })
}
