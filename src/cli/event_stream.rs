//! Server-sent events (html.spec.whatwg.org, 9.2): bytes in as they come, events out. Pure.

/// Longest line that is kept; an event of ours is far shorter, and a peer that is none of ours must not fill the memory.
const LINE_MAX: usize = 1 << 20;

/// One event as it was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerEvent {
    /// Its type; `message` where none was given.
    pub(crate) kind: String,
    /// Its data, lines joined.
    pub(crate) data: String,
}

/// Collects bytes into events.
#[derive(Debug, Default)]
pub(crate) struct EventStream {
    line: Vec<u8>,
    kind: String,
    data: Vec<String>,
}

impl EventStream {
    /// Takes the next bytes; gives the events that they complete. None when a line is too long to be one of ours.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Option<Vec<ServerEvent>> {
        let mut events = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' => {
                    let line = std::mem::take(&mut self.line);
                    events.extend(self.end_line(String::from_utf8_lossy(&line).trim_end_matches('\r')));
                }
                byte => self.line.push(*byte),
            }
            if self.line.len() > LINE_MAX {
                return None;
            }
        }
        Some(events)
    }

    fn end_line(&mut self, line: &str) -> Option<ServerEvent> {
        if line.is_empty() {
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
            // A comment keeps the connection alive; the id is in the data, too.
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
    fn events_come_whole_however_the_bytes_are_cut() {
        let text = ": keep-alive\n\nid: 7\nevent: started\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nevent: lonely\n\n";
        let wanted = vec![event("started", "{\"a\":\n1}"), event("message", "x")];
        assert_eq!(EventStream::default().take(text.as_bytes()), Some(wanted.clone()));
        for cut in 0..text.len() {
            let mut stream = EventStream::default();
            let mut found = stream.take(&text.as_bytes()[..cut]).unwrap();
            found.extend(stream.take(&text.as_bytes()[cut..]).unwrap());
            assert_eq!(found, wanted, "cut at {cut}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        assert_eq!(EventStream::default().take(&vec![b'x'; LINE_MAX + 1]), None);
    }
}
