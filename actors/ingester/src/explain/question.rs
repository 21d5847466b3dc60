//! Name of a mapping or an event, as it is asked about.

use uuid::Uuid;

/// Shortest beginning of a UUID, hexadecimal digits.
const PREFIX_DIGITS: usize = 8;

/// A mapping, or one of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// Hexadecimal digits that the UUID begins with.
    digits: String,
    pub(crate) event: Option<u64>,
}

impl Question {
    /// Reads `UUID` or `UUID#EVENT`, also with a name of the ingester before it. None if it names no mapping.
    pub(crate) fn parse(item: &str, of: [&str; 2]) -> Option<Self> {
        let (uuid, event) = match item.rsplit_once('#') {
            Some((uuid, event)) => (uuid, Some(event.parse().ok()?)),
            None => (item, None),
        };
        let uuid = match uuid.rsplit_once('/') {
            Some((name, uuid)) => of.contains(&name).then_some(uuid)?,
            None => uuid,
        };
        let digits = uuid.replace('-', "").to_ascii_lowercase();
        let is_uuid = (PREFIX_DIGITS..=32).contains(&digits.len())
            && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_uuid.then_some(Self { digits, event })
    }

    pub(crate) fn matches(&self, uuid: Uuid) -> bool {
        uuid.simple().to_string().starts_with(&self.digits)
    }

    /// The UUID, as far as it was given, with its hyphens.
    pub(crate) fn uuid(&self) -> String {
        let mut text = self.digits.clone();
        for at in [8, 13, 18, 23] {
            if text.len() > at {
                text.insert(at, '-');
            }
        }
        text
    }
}
