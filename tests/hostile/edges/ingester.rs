//! The ingester's edges.

mod control;
mod fixture;
mod sardana;
mod source;
mod worker;

pub(crate) use self::{
    control::redis,
    sardana::sardana,
    source::{eiger_v2_source, stins_parallel_source, zmtp_source},
    worker::zmtp_worker,
};
