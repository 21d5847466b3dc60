//! Names of ingester classes. Pure.

use std::fmt;

/// Longest name, bytes.
const BYTES_MAX: usize = 1_024;

/// Class of a site in an importable module, `module:Class`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClassPath(String);

impl ClassPath {
    /// Parses `module:Class`; None if `source` has no colon.
    ///
    /// # Errors
    /// Module or class is not a name in Python; the text says what to write.
    pub(crate) fn parse(source: &str) -> Option<Result<Self, String>> {
        let (module, class) = source.split_once(':')?;
        let is_valid = module.split('.').chain([class]).all(is_identifier) && source.len() <= BYTES_MAX;
        Some(if is_valid {
            Ok(Self(source.to_owned()))
        } else {
            Err("not a class of your own: write module:Class, e.g. my.module:MyIngester".to_owned())
        })
    }

    /// Class name of `source` without the modules of dranspose itself, so that its shipped classes
    /// keep their names here.
    pub(crate) fn without_dranspose(source: &str) -> &str {
        match source.split_once(':') {
            Some((module, class)) if module == "dranspose" || module.starts_with("dranspose.") => class,
            _ => source,
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|first| first == '_' || first.is_alphabetic())
        && chars.all(|other| other == '_' || other.is_alphanumeric())
}

impl fmt::Display for ClassPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_a_module() {
        assert_eq!(ClassPath::parse("stins"), None);
        assert_eq!(ClassPath::parse("ZmqPullSingleIngester"), None);
        for good in ["my.module:MyIngester", "m:C", "_a.b2:Ångström"] {
            assert_eq!(ClassPath::parse(good), Some(Ok(ClassPath(good.to_owned()))));
        }
        for bad in ["my.module:", ":C", "my..module:C", "my/module:C", "m:C:D", "m:2C", "m:C()", "m :C"] {
            let error = ClassPath::parse(bad).expect("it has a colon").expect_err(bad);
            assert!(error.contains("module:Class"), "{error}");
        }
    }

    #[test]
    fn classes_of_dranspose_are_known_by_their_name() {
        let name = ClassPath::without_dranspose;
        assert_eq!(name("dranspose.ingesters:ZmqPullSingleIngester"), "ZmqPullSingleIngester");
        assert_eq!(name("dranspose:X"), "X");
        for other in ["dransposed:X", "my.module:ZmqPullSingleIngester", "stins"] {
            assert_eq!(name(other), other);
        }
    }
}
