//! Ingesters in the real binary, against a real Redis.

/// Judges durations: `tests/run` runs these one at a time, after all others.
mod alone {
    mod acknowledgement;
    mod healing;
}
mod custom;
mod detector;
mod dump_overflow;
mod eiger_v2;
mod hooks;
mod hostile;
mod jobs;
mod log;
mod panics;
mod port;
mod slow_worker;
mod tools;
mod why;
