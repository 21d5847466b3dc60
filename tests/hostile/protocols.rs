//! Protocols of the hostile peers.

mod amqp;
mod export_client;
mod faktory;
mod http_client;
mod http_server;
mod mongodb;
mod postgres;
mod redis;
mod worker_line;
mod zmtp;

pub(crate) use self::{
    amqp::Amqp, export_client::ExportClient, faktory::Faktory, http_client::HttpClient,
    http_server::HttpServer, mongodb::MongoDb, postgres::Postgres, redis::Redis, worker_line::WorkerLine,
    zmtp::Zmtp,
};
