//! The behaviours of a hostile peer.

use std::fmt;

/// Behaviour of a hostile peer, in the terms of any protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Behaviour {
    /// Reads everything and answers nothing.
    NeverAnswers,
    /// Writes one byte of a message and closes.
    ClosesAfterEachByte,
    /// Announces 2^31 bytes, or the most that the framing allows, and sends bytes until the connection
    /// closes.
    AnnouncesTwoGiB,
    /// Sends a message that never ends, in valid framing.
    StreamsWithoutEnd,
    /// Sends 3 MB of valid error text.
    SendsErrorText,
    /// Sends well-formed messages of unexpected kinds.
    SendsWrongTypes,
    /// Sends bytes that are not UTF-8 in every text.
    SendsInvalidUtf8,
    /// Sends as many small valid messages, or opens as many connections, as it can.
    Floods,
    /// Works until the attack begins. Then it keeps its connections open, accepts new ones and answers
    /// nothing. Only at edges whose peer is a server: one that listens has no request.
    FreezesAfterConnecting,
    /// Answers logins so that the client library fails, see [`Login`](crate::generator::Login). Not at every
    /// edge.
    MisusesLogin,
}

impl Behaviour {
    /// The behaviours at every edge.
    pub(crate) const COMMON: [Self; 8] = [
        Self::NeverAnswers,
        Self::ClosesAfterEachByte,
        Self::AnnouncesTwoGiB,
        Self::StreamsWithoutEnd,
        Self::SendsErrorText,
        Self::SendsWrongTypes,
        Self::SendsInvalidUtf8,
        Self::Floods,
    ];

    /// The behaviours at every edge whose peer is a server.
    pub(crate) const OF_SERVERS: [Self; 9] = [
        Self::FreezesAfterConnecting,
        Self::NeverAnswers,
        Self::ClosesAfterEachByte,
        Self::AnnouncesTwoGiB,
        Self::StreamsWithoutEnd,
        Self::SendsErrorText,
        Self::SendsWrongTypes,
        Self::SendsInvalidUtf8,
        Self::Floods,
    ];

    /// Name of the behaviour's tests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NeverAnswers => "never_answers",
            Self::ClosesAfterEachByte => "closes_after_each_byte",
            Self::AnnouncesTwoGiB => "announces_two_gib",
            Self::StreamsWithoutEnd => "streams_without_end",
            Self::SendsErrorText => "sends_error_text",
            Self::SendsWrongTypes => "sends_wrong_types",
            Self::SendsInvalidUtf8 => "sends_invalid_utf8",
            Self::Floods => "floods",
            Self::FreezesAfterConnecting => "freezes_after_connecting",
            Self::MisusesLogin => "misuses_login",
        }
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
