//! A store's URL as it may be shown: without passwords.

/// A store's URL without passwords: neither that of the login nor any among the parameters.
pub(super) fn redact(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| *scheme != "sqlite")
    else {
        return url.to_owned();
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
        Some((name, _)) if name.to_ascii_lowercase().contains("pass") => format!("{name}=***"),
        _ => parameter.to_owned(),
    };
    let parameters = parameters.map_or(String::new(), |parameters| {
        let shown: Vec<String> = parameters.split('&').map(hide).collect();
        format!("?{}", shown.join("&"))
    });
    format!("{scheme}://{login}{place}{parameters}")
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
    }
}
