//! The admin endpoint of the real binary: access, events, overload, and the views of the command line.

mod access;
mod crashes;
mod events;
mod history;
mod open;
mod overload;
mod views;
mod why;
