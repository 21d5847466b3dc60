//! The admin endpoint of the real binary: access, events, overload, the views of the command line and its
//! full screen.

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
mod full_screen;
mod history;
mod open;
mod overload;
mod servers;
mod views;
mod why;
