//! The worker socket over real sockets, as a child of a real tree, against a store in memory.

mod delivery;
mod house;
mod life;
mod limits;
