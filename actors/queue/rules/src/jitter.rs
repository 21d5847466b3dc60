//! Hash that scatters attribute paths in the order of hand-outs, because paths next to each other
//! in the alphabet often build the same way.

use md5::{Digest, Md5};

/// Returns the signed 32-bit number that orders jobs of equal age (CONTRACT QD07).
///
/// The value is the first four bytes, little endian, of the MD5 digest of `attr_path`. Databases
/// store it in `order_jitter`, so the function must never change.
pub fn jitter_hash(attr_path: &str) -> i32 {
    let digest = Md5::digest(attr_path.as_bytes());
    i32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]])
}

#[cfg(test)]
mod tests {
    use super::jitter_hash;

    #[test]
    fn the_hash_matches_databases_of_the_original() {
        let vectors = [
            ("", -645128748),
            ("a", -1183465204),
            ("alpha", -1555884244),
            ("bravo", 515152637),
            ("charlie", 161380287),
            ("delta", -122962845),
            ("echo", -669077045),
            ("x", 1642386589),
            ("firefox", 1422501334),
            ("hello", 708854109),
            ("python3Packages.requests", -1993033843),
            ("haskellPackages.aeson", -79293764),
            ("nodePackages.\"@angular/cli\"", 614239457),
            ("ünïcödé", 1675436737),
            ("日本語", -133558016),
            ("linuxPackages.nvidia_x11", -2086819501),
            ("🦀", -1006179892),
            ("A", 1885521279),
            (
                "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
                -1872042902,
            ),
        ];
        for (attr_path, expected) in vectors {
            assert_eq!(jitter_hash(attr_path), expected, "jitter of {attr_path:?}");
        }
    }
}
