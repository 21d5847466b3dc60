//! Fetcher files, from a real directory with real inotify events to operations for the store, in a real tree.

#[path = "file_reader/directory.rs"]
mod directory;
#[path = "file_reader/events.rs"]
mod events;
#[path = "file_reader/house.rs"]
mod house;
#[path = "file_reader/odd.rs"]
mod odd;
#[path = "file_reader/random.rs"]
mod random;
#[path = "file_reader/start.rs"]
mod start;
