//! The console in a real browser, on the real binary: Debian's chromium, driven over WebDriver.

mod accessibility;
mod banner;
mod browser;
mod busy;
mod commands;
mod crashes;
mod foreign_text;
mod hidden;
/// Only with `--full`: these write files of the repository.
mod in_full {
    mod pictures;
}
mod item;
mod jobs;
mod layout;
mod numbers;
mod overview;
mod queue_lists;
mod queue_page;
mod reconnect;
mod roles;
mod shared_queue;
mod subsystem_pages;
mod tree;
