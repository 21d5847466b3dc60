//! Rules of the queue: names and lines of fetcher files, requests and replies of workers, the order of
//! hand-outs, holds and limits, answers to operators, and the traits of a storage. No I/O and no clock.
//!
//! Comments cite the rules of the queue's `CONTRACT.md` by number.

pub mod file_name;
pub mod jitter;
pub mod lines;
pub mod listing;
pub mod protocol;
pub mod storage;
pub mod tracking;
pub mod unserved;
