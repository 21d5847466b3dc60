//! Texts that PostgreSQL can store.

/// Maximum length of an attribute path, in bytes: a row of an index has at most 2,704.
pub(super) const ATTR_PATH_BYTES_MAX: usize = 2_000;

/// Returns true if PostgreSQL can store the texts of a line.
pub(super) fn is_storable(attr_path: &str, payload: &str) -> bool {
    attr_path.len() <= ATTR_PATH_BYTES_MAX && !attr_path.contains('\0') && !payload.contains('\0')
}
