//! Parameters of a connection string: a URL, or a list of `name=value`. Both are read as libpq reads them.

use percent_encoding::percent_decode_str;

/// Schemes of URLs.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// Port of a URL that names a host, once nothing else has set one.
const PORT: &str = "5432";

/// A parameter by its name in libpq.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) value: String,
    /// Variable of the environment that it comes from.
    pub(super) variable: Option<&'static str>,
}

/// Parameters in order; each name counts once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    all: Vec<Parameter>,
    /// The string is a URL with a host.
    names_host_in_url: bool,
}

impl Parameters {
    /// Parses a connection string. None: it is neither a URL nor a list of parameters.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme)) {
            Some(rest) => parse_url(rest),
            None => {
                let mut parameters = Self::default();
                for (name, value) in parse_list(text)? {
                    parameters.set(name, value);
                }
                Some(parameters)
            }
        }
    }

    /// Sets a parameter. The last one of a name counts.
    fn set(&mut self, name: String, value: String) {
        self.take(&name);
        self.all.push(Parameter { name, value, variable: None });
    }

    /// Adds a parameter unless it is there.
    pub(super) fn fill(&mut self, name: &str, value: &str, variable: Option<&'static str>) {
        if !self.all.iter().any(|known| known.name == name) {
            self.all.push(Parameter { name: name.to_owned(), value: value.to_owned(), variable });
        }
    }

    /// Adds the default port of a URL.
    pub(super) fn fill_port(&mut self) {
        if self.names_host_in_url {
            self.fill("port", PORT, None);
        }
    }

    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let index = self.all.iter().position(|known| known.name == name)?;
        Some(self.all.remove(index).value)
    }

    pub(super) fn into_vec(self) -> Vec<Parameter> {
        self.all
    }
}

/// Parses a URL without its scheme: `[user[:password]@][host[:port][,..]][/dbname][?name=value[&..]]`.
fn parse_url(rest: &str) -> Option<Parameters> {
    let mut parameters = Parameters::default();
    let mut set = |name: &str, value: &str| {
        if !value.is_empty() {
            parameters.set(name.to_owned(), percent_decoded(value)?);
        }
        Some(())
    };
    // A password may contain a question mark.
    let rest = match rest.find(['@', '/']) {
        Some(at) if rest[at..].starts_with('@') => {
            let (user, password) = rest[..at].split_once(':').unwrap_or((&rest[..at], ""));
            set("user", user)?;
            set("password", password)?;
            &rest[at + 1..]
        }
        _ => rest,
    };
    let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (servers, database) = base.split_once('/').unwrap_or((base, ""));
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for server in servers.split(',') {
        let (host, port) = match server.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => server.split_at(server.find(':').unwrap_or(server.len())),
        };
        hosts.push(host);
        ports.push(if port.is_empty() { port } else { port.strip_prefix(':')? });
    }
    for (name, values) in [("host", &hosts), ("port", &ports)] {
        let list = values.join(",");
        set(name, if values.iter().all(|value| value.is_empty()) { "" } else { &list })?;
    }
    set("dbname", database)?;
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=')?;
        let (name, value) = (percent_decoded(name)?, percent_decoded(value)?);
        match (name.as_str(), value.as_str()) {
            ("ssl", "true") => parameters.set("sslmode".to_owned(), "require".to_owned()),
            _ => parameters.set(name, value),
        }
    }
    parameters.names_host_in_url = hosts.iter().any(|host| !host.is_empty());
    Some(parameters)
}

/// Parses `name=value name='other value'`, where a backslash quotes the next character.
fn parse_list(text: &str) -> Option<Vec<(String, String)>> {
    let mut chars = text.chars().peekable();
    let mut options = Vec::new();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let mut name = String::new();
        while let Some(c) = chars.next_if(|c| !c.is_whitespace() && *c != '=') {
            name.push(c);
        }
        if name.is_empty() {
            return chars.peek().is_none().then_some(options);
        }
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        chars.next_if_eq(&'=')?;
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let is_quoted = chars.next_if_eq(&'\'').is_some();
        let ends = |c: char| if is_quoted { c == '\'' } else { c.is_whitespace() };
        let mut value = String::new();
        while let Some(c) = chars.next_if(|c| !ends(*c)) {
            value.extend(if c == '\\' { chars.next() } else { Some(c) });
        }
        if is_quoted {
            chars.next_if_eq(&'\'')?;
        } else if value.is_empty() {
            return None;
        }
        options.push((name, value));
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_lists_have_the_same_parameters() {
        for (text, wanted) in [
            ("postgresql://", ""),
            ("postgresql:///d", "dbname=d"),
            (
                "postgres://me:p%40@a:1/d?application_name=x",
                "application_name=x dbname=d host=a password=p@ port=1 user=me",
            ),
            ("postgresql://a,b:2/d", "dbname=d host=a,b port=,2"),
            ("postgresql://[::1],b", "host=::1,b"),
            ("postgresql://%2Frun%2Fpg/d?ssl=true", "dbname=d host=/run/pg sslmode=require"),
            ("postgresql://me@?host=/run&service=s", "host=/run service=s user=me"),
            ("postgresql://me:1?2@a", "host=a password=1?2 user=me"),
            (r"host = a  password='it\'s' host=b", "host=b password=it's"),
        ] {
            let mut parameters: Vec<_> = Parameters::parse(text).expect(text).into_vec();
            parameters.sort_by(|a, b| a.name.cmp(&b.name));
            let shown: Vec<_> = parameters
                .iter()
                .map(|parameter| format!("{}={}", parameter.name, parameter.value))
                .collect();
            assert_eq!(shown.join(" "), wanted, "{text}");
        }
        for text in ["postgresql://[::1", "postgresql://[::1]2/d", "postgresql://a?x", "host", "host='a", "a"]
        {
            assert_eq!(Parameters::parse(text), None, "{text}");
        }
    }
}
