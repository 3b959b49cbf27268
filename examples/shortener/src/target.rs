//! Targets: which URLs may be shortened.

use url::Url;

/// The longest URL, in characters. The index of links in PostgreSQL takes 2,700 bytes.
const LEN_MAX: usize = 2_048;

/// The URL that a link leads to, in its normal form, so that two spellings of one URL get one link.
///
/// `own` is the URL of this shortener: a link to it could lead to itself.
pub(crate) fn check(text: &str, own: &Url) -> Result<String, String> {
    let text = text.trim();
    let url = Url::parse(text).map_err(|error| format!("this is not a URL: {error}"))?;
    if !["http", "https"].contains(&url.scheme()) {
        return Err("the URL must begin with http:// or https://".to_owned());
    }
    if url.as_str().len() > LEN_MAX {
        return Err(format!("the URL is too long: {LEN_MAX} characters are allowed"));
    }
    // `port` is nothing for the default port, of both schemes.
    if host(&url) == host(own) && url.port() == own.port() {
        return Err("the URL is a link of this shortener, and could lead to itself".to_owned());
    }
    Ok(url.into())
}

fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spellings_of_a_url_are_one_target() {
        for spelling in [" https://example.com/b?c=1#d ", "HTTPS://Example.COM:443/a/../b?c=1#d"] {
            check_accepted(spelling, "https://example.com/b?c=1#d");
        }
        check_accepted("http://bücher.example/ä", "http://xn--bcher-kva.example/%C3%A4");
        check_accepted("http://sho.rt:8080/", "http://sho.rt:8080/");
    }

    #[test]
    fn only_web_pages_elsewhere_are_targets() {
        let long = format!("https://example.com/{}", "a".repeat(LEN_MAX));
        for (text, problem) in [
            ("", "not a URL"),
            ("example.com", "not a URL"),
            ("http://", "not a URL"),
            ("javascript:alert(1)", "must begin"),
            ("data:text/html,hi", "must begin"),
            ("file:///etc/passwd", "must begin"),
            ("ftp://example.com/", "must begin"),
            (&long, "too long"),
            ("https://sho.rt/abc", "lead to itself"),
            ("http://SHO.rt./abc", "lead to itself"),
        ] {
            let refused = check(text, &own()).expect_err(text);
            assert!(refused.contains(problem), "{text}: {refused}");
        }
    }

    #[track_caller]
    fn check_accepted(text: &str, target: &str) {
        assert_eq!(check(text, &own()), Ok(target.to_owned()));
    }

    fn own() -> Url {
        Url::parse("https://sho.rt/").unwrap()
    }
}
