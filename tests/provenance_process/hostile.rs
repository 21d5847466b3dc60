//! Provenance before servers that break their protocols: memory stays bounded, the link says why, and the work goes on with the next
//! server that is sane. Addresses that are none are refused without a word of what stands there.

mod addresses;
mod amqp;
mod mongodb;
mod peer;
mod postgres;
