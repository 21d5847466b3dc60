//! A parser for server-sent events (html.spec.whatwg.org, 9.2). No I/O.

/// Longest event, in bytes. It bounds the memory if another program listens at the address.
const EVENT_MAX: usize = 1 << 20;

/// One server-sent event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerEvent {
    /// Type of the event; `message` if the stream has none.
    pub(crate) kind: String,
    /// Data of the event, with its lines joined.
    pub(crate) data: String,
}

/// Parser of a stream of events.
#[derive(Debug, Default)]
pub(crate) struct EventStream {
    line: Vec<u8>,
    /// Length of the lines of the current event, in bytes.
    length: usize,
    kind: String,
    data: Vec<String>,
}

impl EventStream {
    /// Parses the next bytes and returns the complete events, or `None` if an event is longer than 1 MiB.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Option<Vec<ServerEvent>> {
        let mut events = Vec::new();
        for byte in bytes {
            self.length += 1;
            match byte {
                b'\n' => {
                    let line = std::mem::take(&mut self.line);
                    events.extend(self.end_line(String::from_utf8_lossy(&line).trim_end_matches('\r')));
                }
                byte => self.line.push(*byte),
            }
            if self.length > EVENT_MAX {
                return None;
            }
        }
        Some(events)
    }

    fn end_line(&mut self, line: &str) -> Option<ServerEvent> {
        if line.is_empty() {
            self.length = 0;
            let kind = std::mem::take(&mut self.kind);
            let data = std::mem::take(&mut self.data);
            let kind = if kind.is_empty() { "message".to_owned() } else { kind };
            return (!data.is_empty()).then(|| ServerEvent { kind, data: data.join("\n") });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.kind),
            "data" => self.data.push(value.to_owned()),
            // Comments keep the connection alive. The id is in the data, too.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, data: &str) -> ServerEvent {
        ServerEvent { kind: kind.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn events_are_parsed_however_the_bytes_are_split() {
        let text = ": keep-alive\n\nid: 7\nevent: started\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nevent: lonely\n\n";
        let expected = vec![event("started", "{\"a\":\n1}"), event("message", "x")];
        assert_eq!(EventStream::default().take(text.as_bytes()), Some(expected.clone()));
        for cut in 0..text.len() {
            let mut stream = EventStream::default();
            let mut found = stream.take(&text.as_bytes()[..cut]).unwrap();
            found.extend(stream.take(&text.as_bytes()[cut..]).unwrap());
            assert_eq!(found, expected, "cut at {cut}");
        }
    }

    #[test]
    fn an_overlong_event_is_refused() {
        for piece in [b"x".as_slice(), b"data: x\n", b": x\n"] {
            let bytes = piece.repeat(EVENT_MAX / piece.len() + 1);
            assert_eq!(EventStream::default().take(&bytes), None);
        }
        let events = b"data: x\n\n".repeat(EVENT_MAX / 9 + 1);
        assert!(EventStream::default().take(&events).is_some(), "many events are no long one");
    }
}
