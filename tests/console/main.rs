//! The console in a real browser, on the real binary: Debian's chromium, driven over WebDriver.

mod accessibility;
mod browser;
mod commands;
mod crashes;
mod foreign_text;
mod layout;
mod reconnect;
mod roles;

mod tree;
