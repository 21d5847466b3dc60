//! Parameters of the controller that an ingester holds (CONTRACT ID09, ID11, IO07). Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Only parameter that an ingester uses: the prefix of dump files.
const DUMP_PREFIX: &str = "dump_prefix";

/// One version and value of each parameter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    held: BTreeMap<String, (Uuid, Bytes)>,
}

impl Parameters {
    /// Versions in `wanted` that are not held.
    pub(crate) fn missing<'a>(&self, wanted: &'a BTreeMap<String, Uuid>) -> Vec<(&'a str, Uuid)> {
        let held = |name: &str, uuid: Uuid| self.held.get(name).is_some_and(|(held, _)| *held == uuid);
        wanted
            .iter()
            .filter(|(name, uuid)| !held(name, **uuid))
            .map(|(name, uuid)| (name.as_str(), *uuid))
            .collect()
    }

    /// Replaces any other version of the same name.
    pub(crate) fn hold(&mut self, name: &str, uuid: Uuid, value: Bytes) {
        self.held.insert(name.to_owned(), (uuid, value));
    }

    /// Drops parameters that `wanted` does not name; a restarted controller begins with none.
    pub(crate) fn keep_only(&mut self, wanted: &BTreeMap<String, Uuid>) {
        self.held.retain(|name, _| wanted.contains_key(name));
    }

    /// Hex SHA-256 over the raw UUIDs of all held versions, in the order of their names.
    pub(crate) fn hash(&self) -> String {
        let mut digest = Sha256::new();
        self.held.values().for_each(|(uuid, _)| digest.update(uuid.as_bytes()));
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Prefix of dump files; None without dumps.
    pub(crate) fn dump_prefix(&self) -> Option<&str> {
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
    fn no_parameters_have_the_hash_of_empty_input() {
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
    fn only_changed_parameters_are_missing_and_removed_ones_are_dropped() {
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
