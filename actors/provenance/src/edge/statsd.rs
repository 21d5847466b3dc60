//! statsd: the durations of calls, under the original's name and in its format (swh.core.statsd: milliseconds, tags after
//! `|#`). Fire and forget: nobody waits for it, and what cannot be sent is dropped.

use std::{collections::BTreeMap, fmt, time::Duration};

use orchestrator_supervise::{ChildSpec, Factory, InboxSlot, Outbox, Shutdown, StartCx, inbox, sanitize};
use tokio::net::{UdpSocket, lookup_host};

use crate::stopwatch::Sample;

/// The original's name: it says seconds, and milliseconds are what it carries.
const METRIC: &str = "swh_provenance_storage_rabbitmq_duration_seconds";
/// Samples that may wait; more are dropped and counted as refused.
const WAITING: usize = 1_024;
/// How long a stop waits for what is still to be sent.
const DRAIN: Duration = Duration::from_secs(1);

/// Where samples go, and the tags that each of them has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statsd {
    host: String,
    port: u16,
    tags: BTreeMap<String, String>,
}

impl Statsd {
    /// What the variables say: `STATSD_HOST` (localhost if it is not set), `STATSD_PORT` (8125) and `STATSD_TAGS`
    /// (`label:value,..`). None unless host or port is set.
    ///
    /// # Errors
    /// The port is none; the text says what to do.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let (host, port) = (set("STATSD_HOST"), set("STATSD_PORT"));
        if host.is_none() && port.is_none() {
            return Ok(None);
        }
        let port = port.map_or(Ok(8125), |text| {
            text.parse()
                .map_err(|_| format!("STATSD_PORT = {}: no port: give a number, or unset it", sanitize(text)))
        })?;
        let mut tags = BTreeMap::new();
        for tag in set("STATSD_TAGS").unwrap_or_default().split(',').filter(|tag| !tag.is_empty()) {
            match tag.split_once(':') {
                Some((label, value)) => drop(tags.insert(label.to_owned(), value.to_owned())),
                // As the original.
                None => tracing::warn!(
                    tag = sanitize(tag),
                    "a tag of STATSD_TAGS is passed over: write label:value"
                ),
            }
        }
        Ok(Some(Self { host: host.unwrap_or_else(|| "localhost".to_owned()), port, tags }))
    }

    /// The child that sends, and where it takes samples.
    pub fn child_spec(self) -> (Outbox<Sample>, ChildSpec) {
        let (outbox, slot) = inbox(WAITING);
        let samples = slot.clone();
        let factory = Factory::task(move |cx| {
            let (statsd, samples) = (self.clone(), samples.clone());
            async move {
                statsd.run(&cx, &samples).await;
                Ok(())
            }
        });
        let spec = ChildSpec::worker("statsd", factory.with_inbox("samples", &slot));
        (outbox, spec.shutdown(Shutdown::After(DRAIN)))
    }

    async fn run(&self, cx: &StartCx, samples: &InboxSlot<Sample>) {
        let (mut samples, mut socket, mut told) = (samples.open(), None, false);
        while let Some(sample) = samples.next(cx).await {
            if socket.is_none() {
                match self.connect().await {
                    Ok(connected) => socket = Some(connected),
                    Err(error) if !told => {
                        told = true;
                        tracing::warn!("statsd at {self}: {error}: durations are not sent there meanwhile");
                    }
                    Err(_) => {}
                }
            }
            // A socket that nobody listens to any more may be so because its name has moved: it is looked up anew.
            if let Some(connected) = &socket
                && connected.send(self.packet(sample).as_bytes()).await.is_err()
            {
                socket = None;
            }
        }
    }

    async fn connect(&self) -> std::io::Result<UdpSocket> {
        let found: Vec<_> = lookup_host((self.host.as_str(), self.port)).await?.collect();
        // IPv4 first: the original speaks nothing else.
        let address = found.iter().find(|address| address.is_ipv4()).or(found.first());
        let address = address.ok_or_else(|| std::io::Error::other("it has no address"))?;
        let socket = UdpSocket::bind(if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).await?;
        socket.connect(address).await?;
        Ok(socket)
    }

    fn packet(&self, sample: Sample) -> String {
        let mut tags = self.tags.clone();
        tags.insert("method".to_owned(), sample.method.to_owned());
        let tags: Vec<_> = tags.iter().map(|(label, value)| format!("{label}:{value}")).collect();
        format!("{METRIC}:{}|ms|#{}", sample.span.as_secs_f64() * 1e3, tags.join(","))
    }
}

impl fmt::Display for Statsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Option<Statsd>, String> {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name);
        Statsd::from_variables(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn a_packet_is_as_the_original_sends_it() {
        let tags = ("STATSD_TAGS", "site:paris,odd,method:never,at:a:b,");
        let statsd = with(&[("STATSD_HOST", "metrics"), tags]).unwrap().unwrap();
        assert_eq!(statsd.to_string(), "metrics:8125");
        let sample = Sample { method: "content_add", span: Duration::from_micros(12_500) };
        assert_eq!(
            statsd.packet(sample),
            "swh_provenance_storage_rabbitmq_duration_seconds:12.5|ms|#at:a:b,method:content_add,site:paris"
        );
    }

    #[test]
    fn it_is_there_when_host_or_port_is_set() {
        assert_eq!(with(&[("STATSD_TAGS", "a:b"), ("STATSD_HOST", "")]), Ok(None));
        assert_eq!(with(&[("STATSD_PORT", "9125")]).unwrap().unwrap().to_string(), "localhost:9125");
        let error = with(&[("STATSD_PORT", "statsd")]).unwrap_err();
        assert!(error.starts_with("STATSD_PORT = statsd: "), "{error}");
    }
}
