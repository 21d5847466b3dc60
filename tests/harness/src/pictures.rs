//! Pictures of the pages for people, and the files of the console that they show.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// Line of `images/SOURCES`: a picture, the hash of its files when it was made, and these files.
#[derive(Debug)]
pub struct Picture {
    /// Path below the root of the repository.
    pub path: String,
    /// SHA-256 of the contents of the files, one after another.
    pub hash: String,
    /// Paths below the root of the repository.
    pub files: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn list() -> PathBuf {
    root().join("images/SOURCES")
}

impl Picture {
    /// Reads `images/SOURCES`.
    ///
    /// # Panics
    /// If a line has no picture or no hash.
    pub fn all() -> Vec<Self> {
        let text = fs::read_to_string(list()).expect("images/SOURCES");
        let mut all = Vec::new();
        for line in text.lines() {
            let mut words = line.split(' ').map(str::to_owned);
            let (path, hash) = (words.next().expect("a picture"), words.next().expect("a hash"));
            all.push(Self { path, hash, files: words.collect() });
        }
        all
    }

    /// Hash of the files as they are now.
    ///
    /// # Panics
    /// If a file cannot be read.
    pub fn hash_now(&self) -> String {
        let mut hash = Sha256::new();
        for file in &self.files {
            hash.update(fs::read(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}")));
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Writes a new picture at `path`, and the hash of its files to the list.
    ///
    /// # Panics
    /// If the list does not have `path`, or a file cannot be written.
    pub fn renew(path: &str, png: &[u8]) {
        fs::write(root().join(path), png).expect("write a picture");
        let mut all = Self::all();
        let renewed = all.iter_mut().find(|picture| picture.path == path).expect("images/SOURCES lists it");
        renewed.hash = renewed.hash_now();
        let lines = all.iter().map(|one| format!("{} {} {}\n", one.path, one.hash, one.files.join(" ")));
        fs::write(list(), lines.collect::<String>()).expect("write images/SOURCES");
    }
}
