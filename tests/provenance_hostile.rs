//! Provenance before servers that break their protocols: memory stays bounded, the link says why, and the work goes on with the next
//! server that is sane. Addresses that are none are refused without a word of what stands there.

#[path = "provenance_hostile/addresses.rs"]
mod addresses;
#[path = "provenance_hostile/amqp.rs"]
mod amqp;
#[path = "provenance_hostile/mongodb.rs"]
mod mongodb;
#[path = "provenance_hostile/peer.rs"]
mod peer;
#[path = "provenance_hostile/postgres.rs"]
mod postgres;
