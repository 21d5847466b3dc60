//! statsd export of call durations in the original's format (swh.core.statsd: milliseconds, tags
//! after `|#`). Samples that cannot be sent are dropped.

use std::{collections::BTreeMap, fmt, time::Duration};

use orchestrator_supervise::{ChildSpec, Factory, InboxSlot, Outbox, Shutdown, StartCx, inbox};
use orchestrator_text::sanitize;
use tokio::net::{UdpSocket, lookup_host};

use crate::call_timers::Sample;

/// Name of the original's metric. It says seconds but carries milliseconds.
const METRIC: &str = "swh_provenance_storage_rabbitmq_duration_seconds";
/// Capacity of the inbox; further samples are dropped and counted as refused.
const INBOX_CAPACITY: usize = 1_024;
/// Time that a stop waits for the samples in the inbox.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Address of the server, and the tags of every sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statsd {
    host: String,
    port: u16,
    tags: BTreeMap<String, String>,
}

impl Statsd {
    /// Reads `STATSD_HOST` (default localhost), `STATSD_PORT` (default 8125) and `STATSD_TAGS`
    /// (`label:value,..`). Returns None unless host or port is set.
    ///
    /// # Errors
    /// The port is invalid; the text says what to do.
    pub(crate) fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let (host, port) = (set("STATSD_HOST"), set("STATSD_PORT"));
        if host.is_none() && port.is_none() {
            return Ok(None);
        }
        let port = port.map_or(Ok(8125), |text| {
            text.parse().map_err(|_| {
                format!("STATSD_PORT = {}: not a port: give a number, or unset it", sanitize(text))
            })
        })?;
        let mut tags = BTreeMap::new();
        for tag in set("STATSD_TAGS").unwrap_or_default().split(',').filter(|tag| !tag.is_empty()) {
            match tag.split_once(':') {
                Some((label, value)) => drop(tags.insert(label.to_owned(), value.to_owned())),
                // Ignored, as in the original.
                None => tracing::warn!(tag = sanitize(tag), "tag of STATSD_TAGS ignored: write label:value"),
            }
        }
        Ok(Some(Self { host: host.unwrap_or_else(|| "localhost".to_owned()), port, tags }))
    }

    pub(crate) fn child_spec(self) -> (Outbox<Sample>, ChildSpec) {
        let (outbox, slot) = inbox(INBOX_CAPACITY);
        let samples = slot.clone();
        let factory = Factory::task(move |cx| {
            let (statsd, samples) = (self.clone(), samples.clone());
            async move {
                statsd.run(&cx, &samples).await;
                Ok(())
            }
        });
        let spec = ChildSpec::worker("statsd", factory.with_inbox("samples", &slot));
        (outbox, spec.shutdown(Shutdown::After(DRAIN_TIMEOUT)))
    }

    async fn run(&self, cx: &StartCx, samples: &InboxSlot<Sample>) {
        let (mut samples, mut socket, mut is_logged) = (samples.open(), None, false);
        while let Some(sample) = samples.next(cx).await {
            if socket.is_none() {
                match self.connect().await {
                    Ok(connected) => socket = Some(connected),
                    Err(error) if !is_logged => {
                        is_logged = true;
                        tracing::warn!("statsd at {self}: {error}: durations are not sent until it is back");
                    }
                    Err(_) => {}
                }
            }
            // The server may have moved to another address, so its name is resolved again.
            if let Some(connected) = &socket
                && connected.send(self.packet(sample).as_bytes()).await.is_err()
            {
                socket = None;
            }
        }
    }

    async fn connect(&self) -> std::io::Result<UdpSocket> {
        let found: Vec<_> = lookup_host((self.host.as_str(), self.port)).await?.collect();
        // IPv4 first, the only version that the original uses.
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
    fn a_packet_has_the_original_format() {
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
    fn statsd_is_used_if_host_or_port_is_set() {
        assert_eq!(with(&[("STATSD_TAGS", "a:b"), ("STATSD_HOST", "")]), Ok(None));
        assert_eq!(with(&[("STATSD_PORT", "9125")]).unwrap().unwrap().to_string(), "localhost:9125");
        let error = with(&[("STATSD_PORT", "statsd")]).unwrap_err();
        assert!(error.starts_with("STATSD_PORT = statsd: "), "{error}");
    }
}
