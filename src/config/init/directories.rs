//! Directories of a unit of the system, as specifiers such as `%S` and as variables such as
//! `STATE_DIRECTORY`.

/// Specifier, unit file key, variable and path of each kind of directory.
const DIRECTORIES: [(&str, &str, &str, &str); 5] = [
    ("%S", "StateDirectory", "STATE_DIRECTORY", "/var/lib"),
    ("%L", "LogsDirectory", "LOGS_DIRECTORY", "/var/log"),
    ("%t", "RuntimeDirectory", "RUNTIME_DIRECTORY", "/run"),
    ("%C", "CacheDirectory", "CACHE_DIRECTORY", "/var/cache"),
    ("%E", "ConfigurationDirectory", "CONFIGURATION_DIRECTORY", "/etc"),
];

/// Replaces the specifiers of directories. Others stay, also `%%`.
pub(super) fn expand(text: &str) -> String {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        let end = from.char_indices().nth(2).map_or(from.len(), |(end, _)| end);
        let (specifier, behind) = from.split_at(end);
        let known = DIRECTORIES.iter().find(|(known, ..)| *known == specifier);
        expanded.push_str(before);
        expanded.push_str(known.map_or(specifier, |(.., path)| path));
        rest = behind;
    }
    expanded + rest
}

/// Variable of a unit file key, and its value for directories that are separated by blanks.
pub(super) fn variable(key: &str, directories: &str) -> Option<(&'static str, String)> {
    let (.., variable, path) = DIRECTORIES.iter().find(|(_, known, ..)| *known == key)?;
    let paths = directories.split_whitespace().map(|directory| {
        // Names behind a colon are links to the directory.
        let name = directory.split(':').next().unwrap_or_default();
        format!("{path}/{}", name.trim_end_matches('/'))
    });
    Some((variable, paths.collect::<Vec<_>>().join(":")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_those_of_the_system() {
        assert_eq!(expand("%S/a:%L%t %C/%E"), "/var/lib/a:/var/log/run /var/cache//etc");
        assert_eq!(expand("100%% %%S %h %é %"), "100%% %%S %h %é %");
        assert_eq!(
            variable("LogsDirectory", "a/ b:c"),
            Some(("LOGS_DIRECTORY", "/var/log/a:/var/log/b".to_owned()))
        );
        assert_eq!(variable("WorkingDirectory", "a"), None);
    }
}
