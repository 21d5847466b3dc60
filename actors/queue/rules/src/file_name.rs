//! Names of fetcher files (CONTRACT QF03 to QF05).
//!
//! Classifies a name as complete file, growing file, malformed fetcher file or unrelated file. Does
//! no I/O.

use std::ffi::OsStr;

use crate::storage::RunId;

/// State of a fetcher file by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    /// `STEM.NUMBER.txt.part`: the fetcher may append lines.
    Growing,
    /// `STEM.NUMBER.txt`: the fetcher has written all lines.
    Complete,
}

/// A fetcher file: a file with the lines of one run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FetcherFile {
    /// The run that the lines belong to.
    pub run: RunId,
    /// The name without `.part`, spelled as in the directory: `f.0100.txt` and `f.100.txt` name the
    /// same run.
    pub base: String,
    /// Complete or growing.
    pub kind: FileKind,
}

/// Class of the name of a directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameClass {
    /// A valid fetcher file name.
    Fetcher(FetcherFile),
    /// An unrelated name.
    Other,
    /// A name in the form of a fetcher file with an error, reported by one warning.
    Malformed(NameError),
}

/// Error in the name of a fetcher file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// (CONTRACT QR01, QR02)
    #[error("the part before .txt is not a decimal number: name the file STEM.NUMBER.txt")]
    NotANumber,
    /// (CONTRACT QR03)
    #[error("the number before .txt does not fit 64 bits: use a smaller one")]
    NumberTooLarge,
    /// The name ends as that of a fetcher file and has another form (CONTRACT QR01).
    #[error("the name has another form: name the file STEM.NUMBER.txt")]
    OtherForm,
    /// The name is not valid UTF-8, so SQLite cannot store it as text.
    #[error("the name is not utf-8: rename the file")]
    NotUtf8,
}

impl FetcherFile {
    /// File name in the directory.
    pub fn name(&self) -> String {
        match self.kind {
            FileKind::Growing => format!("{}.part", self.base),
            FileKind::Complete => self.base.clone(),
        }
    }
}

/// Spells the number without leading zeros.
pub fn canonical_base(run: &RunId) -> String {
    format!("{}.{}.txt", run.fetcher, run.started)
}

/// Classifies the name of a directory entry.
pub fn classify(name: &OsStr) -> NameClass {
    let Some(text) = name.to_str() else {
        return match shape(&name.to_string_lossy()) {
            Some(_) => NameClass::Malformed(NameError::NotUtf8),
            None => NameClass::Other,
        };
    };
    let Some((stem, number, kind)) = shape(text) else {
        // Editors and copying programs hide the names of unfinished files.
        let is_meant = !text.starts_with('.') && (text.ends_with(".txt") || text.ends_with(".txt.part"));
        return if is_meant { NameClass::Malformed(NameError::OtherForm) } else { NameClass::Other };
    };
    match parse_number(number) {
        Ok(started) => {
            let base = text.strip_suffix(".part").unwrap_or(text).to_owned();
            NameClass::Fetcher(FetcherFile { run: RunId::new(stem, started), base, kind })
        }
        Err(error) => NameClass::Malformed(error),
    }
}

/// Splits the name at dots. Returns parts of `STEM.NUMBER.txt` and `STEM.NUMBER.txt.part`,
/// otherwise None.
fn shape(name: &str) -> Option<(&str, &str, FileKind)> {
    let mut parts = name.split('.');
    let (stem, number) = (parts.next()?, parts.next()?);
    if parts.next()? != "txt" {
        return None;
    }
    match (parts.next(), parts.next()) {
        (None, _) => Some((stem, number, FileKind::Complete)),
        (Some("part"), None) => Some((stem, number, FileKind::Growing)),
        _ => None,
    }
}

fn parse_number(text: &str) -> Result<i64, NameError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NameError::NotANumber);
    }
    text.parse().map_err(|_| NameError::NumberTooLarge)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use proptest::prelude::*;

    use super::*;

    fn file(name: &str) -> Option<(String, i64, FileKind)> {
        match classify(OsStr::new(name)) {
            NameClass::Fetcher(file) => {
                assert_eq!(file.name(), name);
                Some((file.run.fetcher, file.run.started, file.kind))
            }
            _ => None,
        }
    }

    fn error(name: &str) -> Option<NameError> {
        match classify(OsStr::new(name)) {
            NameClass::Malformed(error) => Some(error),
            _ => None,
        }
    }

    #[test]
    fn c26_only_the_two_shapes_match() {
        assert_eq!(file("f1.100.txt"), Some(("f1".into(), 100, FileKind::Complete)));
        assert_eq!(file("f1.100.txt.part"), Some(("f1".into(), 100, FileKind::Growing)));
        let others = ["", "f1", "f1.100", "f1.100.TXT", "f1.100.txt.PART", "f1.100.txt.part.part"];
        for name in others.into_iter().chain([".x.1.txt", "f1.100.txt.", "f1.100.txt.bak", "f1.100.tx"]) {
            assert_eq!(classify(OsStr::new(name)), NameClass::Other, "{name}");
        }
    }

    #[test]
    fn c27_unusual_stems_and_all_numbers_match() {
        assert_eq!(file(".100.txt"), Some((String::new(), 100, FileKind::Complete)));
        assert_eq!(file("übung 1'%.-5.txt.part"), Some(("übung 1'%".into(), -5, FileKind::Growing)));
        assert_eq!(file("f.9223372036854775807.txt"), Some(("f".into(), i64::MAX, FileKind::Complete)));
        assert_eq!(file("f.-9223372036854775808.txt"), Some(("f".into(), i64::MIN, FileKind::Complete)));
        assert_eq!(file("f.0100.txt"), Some(("f".into(), 100, FileKind::Complete)));
        assert_eq!(file("f.00000000000000000000000000001.txt"), Some(("f".into(), 1, FileKind::Complete)));
    }

    #[test]
    fn r01_r02_a_name_without_a_decimal_number_is_malformed() {
        for name in [
            "f.abc.txt",
            "f..txt",
            "f.-.txt",
            "f.+1.txt",
            "f. 1.txt.part",
            "f.1_0.txt",
            "f.1e3.txt",
            "f.٣.txt",
        ] {
            assert_eq!(error(name), Some(NameError::NotANumber), "{name}");
        }
    }

    #[test]
    fn r01_a_name_that_only_ends_like_a_fetcher_file_is_malformed() {
        for name in ["f1.txt", "100.txt", "a.b.1.txt", "f.txt.part"] {
            assert_eq!(error(name), Some(NameError::OtherForm), "{name}");
        }
    }

    #[test]
    fn r03_a_number_beyond_64_bits_is_malformed() {
        assert_eq!(error("f.9223372036854775808.txt"), Some(NameError::NumberTooLarge));
        assert_eq!(error("f.-9223372036854775809.txt.part"), Some(NameError::NumberTooLarge));
    }

    #[test]
    fn invalid_utf8_is_malformed_only_in_the_form_of_a_fetcher_file() {
        assert_eq!(classify(OsStr::from_bytes(b"f\xff.1.txt")), NameClass::Malformed(NameError::NotUtf8));
        assert_eq!(classify(OsStr::from_bytes(b"f\xff.1.dat")), NameClass::Other);
    }

    #[test]
    fn leading_zeros_keep_the_real_name() {
        let NameClass::Fetcher(part) = classify(OsStr::new("f.0100.txt.part")) else { panic!("no match") };
        assert_eq!((part.base.as_str(), part.run.started), ("f.0100.txt", 100));
        assert_eq!(canonical_base(&part.run), "f.100.txt");
    }

    proptest! {
        #[test]
        fn every_stem_and_number_round_trips(stem in "[^./\0]{0,20}", number: i64, growing: bool) {
            let name = format!("{stem}.{number}.txt{}", if growing { ".part" } else { "" });
            let kind = if growing { FileKind::Growing } else { FileKind::Complete };
            prop_assert_eq!(file(&name), Some((stem, number, kind)));
        }

        #[test]
        fn no_name_panics(bytes: Vec<u8>) {
            let _ = classify(OsStr::from_bytes(&bytes));
        }
    }
}
