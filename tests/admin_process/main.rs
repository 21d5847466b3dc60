//! The admin endpoint of the real binary: access, events, overload, and the views of the command
//! line.

mod access;
mod alerts;
/// Judges a duration: `tests/run` runs these one at a time, after all others.
mod alone {
    mod killed;
    mod probes;
}
mod crashes;
mod events;
mod found;
mod history;
mod open;
mod overload;
mod servers;
mod top;
mod views;
mod why;
