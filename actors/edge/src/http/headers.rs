//! Additional headers of a webhook's requests, configured as `Name: value`.

use std::path::Path;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::{SettingError, read_secret_file};

/// Headers that the client sets, or that would change the framing of the request.
const OURS: [HeaderName; 10] = [
    header::ACCEPT,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Header by which a receiver recognises a repeated request.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Headers that hold secrets and belong into `headers_file`.
const SECRET: [HeaderName; 3] = [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];

/// Parses headers of the configuration.
///
/// # Errors
/// A header is malformed, reserved or secret. The text does not repeat its value.
pub fn plain_headers<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<HeaderMap, SettingError> {
    let headers = read(lines.into_iter())?;
    match SECRET.iter().find(|name| headers.contains_key(*name)) {
        Some(name) => {
            Err(format!("`{name}` is a secret: put it into a file, and name that in headers_file").into())
        }
        None => Ok(headers),
    }
}

/// Reads a file with one header a line; empty lines and lines that begin with `#` are skipped.
///
/// # Errors
/// The file cannot be read, or a line is malformed. The text names the file and repeats no value.
pub fn file_headers(path: &Path) -> Result<HeaderMap, SettingError> {
    let failed = |reason: String| format!("headers_file = {}: {reason}", path.display());
    let text = read_secret_file(path).map_err(|error| failed(format!("cannot be read: {error}")))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut headers = read(lines).map_err(failed)?;
    headers.values_mut().for_each(|value| value.set_sensitive(true));
    Ok(headers)
}

fn read<'a>(lines: impl Iterator<Item = &'a str>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or("a header has no colon: write Name: value")?;
        let name: HeaderName =
            name.trim().parse().map_err(|_| "a header's name cannot be one: write Name: value".to_owned())?;
        if OURS.contains(&name) || name == IDEMPOTENCY_KEY {
            return Err(format!("`{name}` is set already: leave it out"));
        }
        let value: HeaderValue =
            value.trim().parse().map_err(|_| format!("`{name}` has characters that a header cannot have"))?;
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed_as_written() {
        let headers = plain_headers(["X-Site: beam line: 3", "x-site:b", "X-Empty:"]).expect("headers");
        assert!(headers.get_all("x-site").iter().eq(["beam line: 3", "b"]), "{headers:?}");
        assert_eq!(headers["X-Empty"], "");
    }

    #[test]
    fn invalid_headers_are_reported_without_their_values() {
        for (line, expected) in [
            ("secret", "no colon"),
            ("a b: secret", "name cannot be one"),
            (": secret", "name cannot be one"),
            ("X: secret\u{1}", "`x` has characters"),
            ("HOST: secret", "`host` is set already"),
            ("Content-length: 3", "`content-length` is set already"),
            ("Idempotency-Key: secret", "`idempotency-key` is set already"),
            ("Authorization: Bearer secret", "`authorization` is a secret"),
            ("Cookie: secret", "`cookie` is a secret"),
        ] {
            let text = plain_headers([line]).expect_err(line).to_string();
            assert!(
                text.contains(expected) && !text.contains("secret\u{1}") && !text.contains(" secret "),
                "{text}"
            );
        }
    }

    #[test]
    fn headers_of_a_file_are_never_shown() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "# for the receiver\n\nAuthorization: Bearer hidden\n").expect("write");
        let headers = file_headers(file.path()).expect("headers");
        assert_eq!(headers["authorization"], "Bearer hidden");
        assert!(!format!("{headers:?}").contains("hidden"));
        std::fs::write(file.path(), "hidden").expect("write");
        let text = file_headers(file.path()).unwrap_err().to_string();
        assert!(text.starts_with("headers_file = /") && !text.contains("hidden"), "{text}");
        let text = file_headers(Path::new("/nowhere/headers")).unwrap_err().to_string();
        assert!(text.starts_with("headers_file = /nowhere/headers: cannot be read"), "{text}");
    }
}
