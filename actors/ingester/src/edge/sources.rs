//! Sources of each protocol, and the registry of all built-in ones.

mod address;
mod dial;
mod large_message_reader;
mod outcome_counter;
mod pace;
mod pandabox;
mod python;
mod recognisers;
mod replay;
mod sardana;
mod zmq;

use orchestrator_ingester_zmtp::SocketType;
use std::{net::SocketAddr, sync::Arc};

use crate::source::{Registry, Source, SourceError, SourceFactory, SourceOptions};

use self::{large_message_reader::LargeMessageReader, recognisers::ZMQ};

pub(crate) use address::Address;
pub(crate) use pace::{Pace, Pacer};
pub(crate) use pandabox::PandaBoxSource;
pub(crate) use python::{Launch, PythonInboxes, PythonProcess};
pub(crate) use recognisers::ZmqProtocol;
pub(crate) use sardana::{SardanaSource, Servers};
pub(crate) use zmq::{ZmqSource, open};

impl Registry {
    /// All built-in protocols, by short name and by the original's class name. A ZeroMQ protocol
    /// with `file` in place of `upstream_url` replays a raw capture of its messages.
    pub fn standard() -> Self {
        let mut registry = Self::default();
        for protocol in ZMQ {
            for name in protocol.names {
                registry = registry.with_factory(name, move |options| zmq_or_file(options, protocol));
            }
        }
        for name in ["pandabox", "TcpPcapIngester"] {
            registry = registry.with(name, |options| {
                let source = PandaBoxSource::new(address(options)?);
                Ok(Box::new(source) as Box<dyn Source>)
            });
        }
        let servers = Servers::default();
        for name in ["sardana", "HttpSardanaIngester"] {
            let servers = servers.clone();
            registry = registry.with_factory(name, move |options| sardana(options, &servers));
        }
        registry.with_factory("replay", |options| {
            reject(options.upstream_url.as_deref(), "upstream_url", "a replay reads a file: give `file`")?;
            reject(options.listen.as_deref(), "listen", "a replay reads a file: give `file`")?;
            require(options.file.as_deref(), "file", "/data/scan.cbors")?;
            replay::factory(options, None)
        })
    }
}

fn zmq_or_file(options: &SourceOptions, protocol: ZmqProtocol) -> Result<SourceFactory, SourceError> {
    let ZmqProtocol { names, socket, recogniser, numbers_events } = protocol;
    if numbers_events {
        let whole = names[0].trim_end_matches("_parallel");
        let advice = format!("ingesters do not share a file: give `upstream_url`, or use the source {whole}");
        reject(options.file.as_deref(), "file", &advice)?;
    }
    if options.file.is_some() {
        reject(options.upstream_url.as_deref(), "upstream_url", "give `upstream_url` or `file`, not both")?;
        reject(options.listen.as_deref(), "listen", "a file is replayed: leave it out")?;
        return replay::factory(options, Some(recogniser));
    }
    let address = address(options)?;
    if socket == SocketType::Sub {
        // A SUB may lose messages that are not read at once, so it reads on the stream's own
        // arbiter.
        let make = move |_: &SourceOptions| {
            Ok(Box::new(ZmqSource::new(address.clone(), socket, recogniser)) as Box<dyn Source>)
        };
        return Ok(SourceFactory { make: Arc::new(make), reader_child: None });
    }
    let (reader, reader_child) = LargeMessageReader::new();
    let make = move |_: &SourceOptions| {
        let mut source = ZmqSource::new(address.clone(), socket, recogniser).with_reader(reader.clone());
        if numbers_events {
            source = source.numbering_events();
        }
        Ok(Box::new(source) as Box<dyn Source>)
    };
    Ok(SourceFactory { make: Arc::new(make), reader_child: Some(reader_child) })
}

fn sardana(options: &SourceOptions, servers: &Servers) -> Result<SourceFactory, SourceError> {
    let advice = "Sardana connects to the ingester: give `listen`";
    reject(options.upstream_url.as_deref(), "upstream_url", advice)?;
    let advice = "only messages over ZeroMQ and dumps are played: give `listen`";
    reject(options.file.as_deref(), "file", advice)?;
    reject_pace(options)?;
    let listen = sardana::local_address(require(options.listen.as_deref(), "listen", "0.0.0.0:8000")?)?;
    let reader_child = Some(servers.server_child(listen));
    let servers = servers.clone();
    let make = move |_: &SourceOptions| Ok(Box::new(SardanaSource::new(listen, &servers)) as Box<dyn Source>);
    Ok(SourceFactory { make: Arc::new(make), reader_child })
}

/// Address of a source that is dialled.
fn address(options: &SourceOptions) -> Result<Address, SourceError> {
    reject(options.listen.as_deref(), "listen", "the source is dialled: give `upstream_url`")?;
    reject(
        options.file.as_deref(),
        "file",
        "only messages over ZeroMQ and dumps are played: give `upstream_url`",
    )?;
    reject_pace(options)?;
    Address::parse(require(options.upstream_url.as_deref(), "upstream_url", "tcp://detector:9999")?)
}

fn require<'a>(given: Option<&'a str>, name: &str, example: &str) -> Result<&'a str, SourceError> {
    given.ok_or_else(|| {
        SourceError(format!("{name} is missing: give the source's address, e.g. {name} = \"{example}\""))
    })
}

fn reject(given: Option<&str>, name: &str, advice: &str) -> Result<(), SourceError> {
    match given {
        Some(given) => Err(SourceError(format!("{name} = {given}: not used by this protocol: {advice}"))),
        None => Ok(()),
    }
}

/// Checks the options of a stream whose items come from an ingester class. Returns the address of an
/// HTTP application, which has `listen`.
pub(crate) fn check_class_options(options: &SourceOptions) -> Result<Option<SocketAddr>, SourceError> {
    reject(options.file.as_deref(), "file", "the class opens its files itself: leave it out")?;
    reject_pace(options)?;
    let Some(listen) = &options.listen else { return Ok(None) };
    let advice = "an HTTP application has `listen`, any other class `upstream_url`: leave one of them out";
    reject(options.upstream_url.as_deref(), "upstream_url", advice)?;
    sardana::local_address(listen).map(Some)
}

fn reject_pace(options: &SourceOptions) -> Result<(), SourceError> {
    reject(options.pace.as_deref(), "pace", "only a `file` has a pace: leave it out")
}
