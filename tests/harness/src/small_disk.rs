//! A file system of a few MiB in the mount namespace of a separate process, so that nothing stays mounted
//! when the test fails.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use crate::own_process::own_process_by;

/// Mounted tmpfs.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Runs `body` with a file system of `mib` MiB in a separate process with its own mount namespace.
    ///
    /// `test` is the full name of the calling test.
    ///
    /// # Panics
    /// If `body` panics, or if the system does not allow the mount.
    pub fn with(mib: u32, test: &str, body: impl FnOnce(&SmallDisk)) {
        let mut unshare = Command::new("unshare");
        unshare.arg("--mount");
        if !rustix::process::geteuid().is_root() {
            unshare.arg("--map-root-user");
        }
        unshare.arg("--");
        own_process_by(unshare, test, || {
            let directory = tempfile::Builder::new().prefix("disk-").tempdir().expect("a mount point");
            mount(directory.path(), &format!("size={mib}m"));
            let disk = SmallDisk { path: directory.path().to_owned() };
            body(&disk);
            // A busy mount point could not be removed.
            run("umount", &["-l", &directory.path().display().to_string()]);
        });
    }

    /// Mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills the file system completely.
    ///
    /// # Panics
    /// If it cannot be filled.
    pub fn fill(&self) {
        let mut file =
            File::options().create(true).append(true).open(self.filler()).expect("a file to fill it with");
        for bytes in [64 << 10, 4 << 10, 1] {
            while file.write_all(&vec![0; bytes]).is_ok() {}
        }
    }

    /// Frees the space of [`SmallDisk::fill`].
    ///
    /// # Panics
    /// If it was not filled.
    pub fn free(&self) {
        fs::remove_file(self.filler()).expect("it was filled");
    }

    /// Enlarges the file system to `mib` MiB.
    ///
    /// # Panics
    /// If the remount fails.
    pub fn grow(&self, mib: u32) {
        mount(&self.path, &format!("remount,size={mib}m"));
    }

    /// Remounts the file system read-only or writable. No file on it may be open for writing.
    ///
    /// # Panics
    /// If the remount fails.
    pub fn set_read_only(&self, read_only: bool) {
        mount(&self.path, if read_only { "remount,ro" } else { "remount,rw" });
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }
}

fn mount(path: &Path, options: &str) {
    run("mount", &["-t", "tmpfs", "-o", options, "tmpfs", &path.display().to_string()]);
}

fn run(program: &str, arguments: &[&str]) {
    let output =
        Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
