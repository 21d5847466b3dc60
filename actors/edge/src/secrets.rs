//! Addresses with credentials, and secrets in files.

use std::path::Path;

/// Returns true if an address contains a password.
pub fn has_password(url: &str) -> bool {
    let user = url.split_once("//").and_then(|(_, rest)| rest.split_once('@')).map(|(user, _)| user);
    user.is_some_and(|user| user.contains(':'))
}

/// Returns an address without user and password; None if `url` has no scheme.
pub fn without_credentials(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("//")?;
    Some(format!("{scheme}//{}", rest.rsplit('@').next().unwrap_or_default()))
}

/// Returns the trimmed content of `file`, or `plain` if there is no file. `key` is the configuration key of the file.
///
/// # Errors
/// The file cannot be read; a later attempt may succeed. The text begins with `key = file`.
pub fn read_secret(file: Option<&Path>, plain: &str, key: &str) -> Result<String, String> {
    let Some(file) = file else { return Ok(plain.to_owned()) };
    let text = std::fs::read_to_string(file);
    text.map(|text| text.trim().to_owned())
        .map_err(|error| format!("{key} = {}: cannot be read: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_and_credentials_removed() {
        for (url, password, shown) in [
            ("tcp://a:7419", false, Some("tcp://a:7419")),
            ("tcp://:secret@a", true, Some("tcp://a")),
            ("x://me@a/b", false, Some("x://a/b")),
            ("x://me:p%2F@a:1,b/c?d=e", true, Some("x://a:1,b/c?d=e")),
            ("nonsense", false, None),
        ] {
            assert_eq!((has_password(url), without_credentials(url).as_deref()), (password, shown), "{url}");
        }
    }

    #[test]
    fn a_file_takes_precedence_over_a_plain_secret() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "me:secret\n").expect("write");
        assert_eq!(read_secret(Some(file.path()), "plain", "a.file").as_deref(), Ok("me:secret"));
        assert_eq!(read_secret(None, "plain", "a.file").as_deref(), Ok("plain"));
        let error = read_secret(Some(Path::new("/nowhere/x")), "plain", "a.file").expect_err("no such file");
        assert!(error.starts_with("a.file = /nowhere/x: cannot be read"), "{error}");
    }
}
