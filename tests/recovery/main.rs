//! Life and death of the process: start, stop, kills, injected panics, limits, and systemd.

/// Judges durations: `tests/run` runs these one at a time, after all others.
mod alone {
    mod healing;
    mod stops;
}
mod backup;
mod boot_and_stop;
mod demo;
mod giving_up;
mod golden_tree;
mod init_process;
mod kill_nine;
mod panics;
mod process_limits;
mod systemd_integration;
mod unread_output;
