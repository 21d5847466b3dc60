//! Fetcher files, from a real directory with real inotify events to operations for the store, in a real tree.

mod directory;
mod events;
mod house;
mod odd;
mod random;
mod start;
