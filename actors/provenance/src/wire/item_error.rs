//! Errors of single items.

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ItemError {
    /// Not an array, or one of another length.
    #[error("the item has the wrong shape: send an array of {0}")]
    Shape(&'static str),
    /// Not 20 bytes.
    #[error("an identifier is not 20 raw bytes: send the bytes of a sha1")]
    Id,
    /// Another kind of value.
    #[error("a date is neither a timestamp nor nil: send ext type -1")]
    Date,
    /// Outside of the range of the original's dates.
    #[error("a date is out of range: send dates from year 1 to year 9999")]
    DateRange,
    /// Another kind of value.
    #[error("a path is not raw bytes: send bin")]
    Path,
    /// Another kind of value, or not UTF-8.
    #[error("a url is not a text: send str in utf-8")]
    Url,
    /// Another kind of value, or with other fields.
    #[error("the revision's data is not RevisionData: send the dataclass with date and origin")]
    RevisionData,
}
