//! The console in a real browser, on the real binary: Debian's chromium, driven over WebDriver.

mod accessibility;
mod browser;
mod foreign_text;
mod looks;
mod reconnect;
mod roles;
mod steering;
mod tree;
