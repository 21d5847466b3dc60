//! The sources: what each protocol's items come through, and the registry of all that are shipped.

mod address;
mod dial;
mod long;
mod pandabox;
mod recognisers;
mod replay;
mod sardana;
mod tally;
mod zmq;

use std::sync::Arc;

use crate::{
    source::{Place, Registry, Source, SourceError, Supply},
    zmtp::SocketType,
};

use self::{
    long::LongReader,
    recognisers::{ZMQ, ZmqProtocol},
};

pub use address::Address;
pub use pandabox::PandaBoxSource;
pub use recognisers::MakeRecogniser;
pub use sardana::{IdleServers, SardanaSource};
pub use zmq::ZmqSource;

impl Registry {
    /// All protocols that are shipped, by our names and by the class names of the original. A ZeroMQ protocol with a `file` in place of
    /// an `upstream_url` plays a raw capture of its messages.
    pub fn standard() -> Self {
        let mut registry = Self::default();
        for ZmqProtocol { names, socket, recogniser } in ZMQ {
            for name in names {
                registry = registry.with_supply(name, move |place| zmq_or_file(place, socket, recogniser));
            }
        }
        for name in ["pandabox", "TcpPcapIngester"] {
            registry = registry.with(name, |place| {
                let source = PandaBoxSource::new(address(place)?);
                Ok(Box::new(source) as Box<dyn Source>)
            });
        }
        let idle = IdleServers::default();
        for name in ["sardana", "HttpSardanaIngester"] {
            let idle = idle.clone();
            registry = registry.with(name, move |place| {
                unfit(place.upstream_url.as_deref(), "upstream_url", "Sardana dials us: give `listen`")?;
                unfit(
                    place.file.as_deref(),
                    "file",
                    "only messages over ZeroMQ and dumps are played: give `listen`",
                )?;
                unfit_pace(place)?;
                let listen = wanted(place.listen.as_deref(), "listen", "0.0.0.0:8000")?;
                Ok(Box::new(SardanaSource::new(listen, &idle)?) as Box<dyn Source>)
            });
        }
        registry.with_supply("replay", |place| {
            unfit(place.upstream_url.as_deref(), "upstream_url", "a replay reads a file: give `file`")?;
            unfit(place.listen.as_deref(), "listen", "a replay reads a file: give `file`")?;
            wanted(place.file.as_deref(), "file", "/data/scan.cbors")?;
            replay::supply(place, None)
        })
    }
}

fn zmq_or_file(place: &Place, socket: SocketType, recogniser: MakeRecogniser) -> Result<Supply, SourceError> {
    if place.file.is_some() {
        unfit(place.upstream_url.as_deref(), "upstream_url", "give it or `file`, not both")?;
        unfit(place.listen.as_deref(), "listen", "a file is played: leave it out")?;
        return replay::supply(place, Some(recogniser));
    }
    let address = address(place)?;
    if socket == SocketType::Sub {
        // What is not read at once may be lost: nothing that others do is waited for.
        let make = move |_: &Place| {
            Ok(Box::new(ZmqSource::new(address.clone(), socket, recogniser)) as Box<dyn Source>)
        };
        return Ok(Supply { make: Arc::new(make), companion: None });
    }
    let (reader, companion) = LongReader::new();
    let make = move |_: &Place| {
        let source = ZmqSource::new(address.clone(), socket, recogniser);
        Ok(Box::new(source.with_reader(reader.clone())) as Box<dyn Source>)
    };
    Ok(Supply { make: Arc::new(make), companion: Some(companion) })
}

/// The address of a source that is dialled.
fn address(place: &Place) -> Result<Address, SourceError> {
    unfit(place.listen.as_deref(), "listen", "the source is dialled: give `upstream_url`")?;
    unfit(
        place.file.as_deref(),
        "file",
        "only messages over ZeroMQ and dumps are played: give `upstream_url`",
    )?;
    unfit_pace(place)?;
    Address::parse(wanted(place.upstream_url.as_deref(), "upstream_url", "tcp://detector:9999")?)
}

fn wanted<'a>(given: Option<&'a str>, name: &str, example: &str) -> Result<&'a str, SourceError> {
    given.ok_or_else(|| {
        SourceError(format!("{name} is missing: give the source's place, e.g. {name} = \"{example}\""))
    })
}

fn unfit(given: Option<&str>, name: &str, advice: &str) -> Result<(), SourceError> {
    match given {
        Some(given) => Err(SourceError(format!("{name} = {given}: does not fit this protocol: {advice}"))),
        None => Ok(()),
    }
}

fn unfit_pace(place: &Place) -> Result<(), SourceError> {
    unfit(place.pace.as_deref(), "pace", "only a `file` has a pace: leave it out")
}
