//! Tests that judge durations.

mod long_files;
