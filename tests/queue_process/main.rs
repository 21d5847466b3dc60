//! The queue in the real binary: workers on its socket, fetcher files, its database, and what happens to them.

mod delivery;
mod descriptors;
mod dialogue;
mod directory;
mod disk_full;
mod files;
mod locks;
mod log;
mod memory;
mod names_and_bytes;
mod protocol;
mod replaced;
