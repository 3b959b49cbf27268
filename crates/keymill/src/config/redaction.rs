//! The URL of a store or a server as it may be shown: without passwords.

/// Parameters of a URL whose names have one of these are not shown.
const SECRET_NAMES: [&str; 4] = ["pass", "token", "secret", "key"];

/// A URL without passwords: neither that of the login nor any among the parameters. What is no URL may be a secret that
/// was pasted in its place.
pub(super) fn redact(url: &str) -> String {
    let is_path = ["sqlite:", "unix:"].iter().any(|scheme| url.starts_with(scheme));
    if is_path {
        return url.to_owned();
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return "***".to_owned();
    };
    // A password may hold any character, so the login ends at the last `@`.
    let (login, place) = match rest.rsplit_once('@') {
        Some((login, place)) => match login.split_once(':') {
            Some((user, _)) => (format!("{user}:***@"), place),
            None => (format!("{login}@"), place),
        },
        None => (String::new(), rest),
    };
    let (place, parameters) = match place.split_once('?') {
        Some((place, parameters)) => (place, Some(parameters)),
        None => (place, None),
    };
    let hide = |parameter: &str| match parameter.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}=***"),
        _ => parameter.to_owned(),
    };
    let parameters = parameters.map_or(String::new(), |parameters| {
        let shown: Vec<String> = parameters.split('&').map(hide).collect();
        format!("?{}", shown.join("&"))
    });
    format!("{scheme}://{login}{place}{parameters}")
}

/// The URLs of servers, which have neither a login nor parameters: what has them is not shown at all.
pub(super) fn redact_servers(urls: &str) -> String {
    if urls.contains(['@', '?', '#']) {
        return "***".to_owned();
    }
    let shown: Vec<String> = urls.split(',').map(|url| redact(url.trim())).collect();
    shown.join(",")
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(redact("postgres://me:secret@host/db"), "postgres://me:***@host/db");
        assert_eq!(redact("postgres://me:p@ss@host/db"), "postgres://me:***@host/db");
        assert_eq!(redact("redis://:secret@host/0"), "redis://:***@host/0");
        assert_eq!(redact("postgres://me@host/db"), "postgres://me@host/db");
        let parameters = "postgres://host/db?sslmode=require&password=secret";
        assert_eq!(redact(parameters), "postgres://host/db?sslmode=require&password=***");
        assert_eq!(redact("sqlite:/var/lib/k@m.db"), "sqlite:/var/lib/k@m.db");
        assert_eq!(redact("sqlite://var/k:1@m.db"), "sqlite://var/k:1@m.db");
        assert_eq!(redact("https://h?token=secret"), "https://h?token=***");
        assert_eq!(redact("km_secret"), "***");
        assert_eq!(redact("unix:/run/keymill.sock"), "unix:/run/keymill.sock");
        for url in ["https://a,https://u:p,w@b", "unix:/a,https://b?token=x", "km_secret"] {
            assert_eq!(redact_servers(url), "***", "{url}");
        }
        assert_eq!(redact_servers("https://a:1, unix:/b"), "https://a:1,unix:/b");
    }
}
