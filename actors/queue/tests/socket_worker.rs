//! The worker socket over real sockets, as a child of a real tree, against a store in memory.

#[path = "socket_worker/delivery.rs"]
mod delivery;
#[path = "socket_worker/house.rs"]
mod house;
#[path = "socket_worker/life.rs"]
mod life;
#[path = "socket_worker/limits.rs"]
mod limits;
#[path = "socket_worker/protocol.rs"]
mod protocol;
