//! The controller's parameters as far as an ingester holds them (CONTRACT ID09, ID11, IO07). Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The one parameter that means something to an ingester: where dump files go.
const DUMP_PREFIX: &str = "dump_prefix";

/// What is held: of each parameter one version with its value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    held: BTreeMap<String, (Uuid, Bytes)>,
}

impl Parameters {
    /// Versions that `wanted` names and that are not held.
    pub fn missing<'a>(&self, wanted: &'a BTreeMap<String, Uuid>) -> Vec<(&'a str, Uuid)> {
        let held = |name: &str, uuid: Uuid| self.held.get(name).is_some_and(|(held, _)| *held == uuid);
        wanted
            .iter()
            .filter(|(name, uuid)| !held(name, **uuid))
            .map(|(name, uuid)| (name.as_str(), *uuid))
            .collect()
    }

    /// Holds a version, in place of any other of its name.
    pub fn hold(&mut self, name: &str, uuid: Uuid, value: Bytes) {
        self.held.insert(name.to_owned(), (uuid, value));
    }

    /// Drops what `wanted` does not name: a controller that was restarted begins with none.
    pub fn keep_only(&mut self, wanted: &BTreeMap<String, Uuid>) {
        self.held.retain(|name, _| wanted.contains_key(name));
    }

    /// Hex SHA-256 over the raw uuids of all that is held, in the order of their names.
    pub fn hash(&self) -> String {
        let mut digest = Sha256::new();
        self.held.values().for_each(|(uuid, _)| digest.update(uuid.as_bytes()));
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Where dump files go; None if they are not wanted.
    pub fn dump_prefix(&self) -> Option<&str> {
        let (_, value) = self.held.get(DUMP_PREFIX)?;
        std::str::from_utf8(value).ok().filter(|prefix| !prefix.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(names: &[(&str, Uuid)]) -> BTreeMap<String, Uuid> {
        names.iter().map(|(name, uuid)| ((*name).to_owned(), *uuid)).collect()
    }

    #[test]
    fn none_held_has_the_hash_of_nothing() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Parameters::default().hash(), empty);
    }

    #[test]
    fn the_hash_is_over_uuids_in_the_order_of_names() {
        let [a, b] = [Uuid::from_u128(1 << 100), Uuid::from_u128(2)];
        let mut parameters = Parameters::default();
        parameters.hold("roi1", b, Bytes::from_static(b"7"));
        parameters.hold("dump_prefix", a, Bytes::from_static(b"/data/x-"));
        let digest = Sha256::digest([*a.as_bytes(), *b.as_bytes()].concat());
        assert_eq!(parameters.hash(), digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        assert_eq!(parameters.dump_prefix(), Some("/data/x-"));
    }

    #[test]
    fn only_what_changed_is_missing_and_what_is_gone_is_dropped() {
        let [a, b, c] = [1, 2, 3].map(Uuid::from_u128);
        let mut parameters = Parameters::default();
        parameters.hold("x", a, Bytes::new());
        parameters.hold("dump_prefix", a, Bytes::from_static(b""));
        assert_eq!(parameters.missing(&wanted(&[("x", a), ("y", b)])), [("y", b)]);
        assert_eq!(parameters.missing(&wanted(&[("x", c)])), [("x", c)]);
        parameters.keep_only(&wanted(&[("x", c)]));
        assert_eq!(parameters.missing(&wanted(&[("x", a)])), []);
        assert_eq!(parameters.dump_prefix(), None);
    }
}
