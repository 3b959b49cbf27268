//! What normal forms are, by example.

use super::*;

#[test]
fn the_examples_of_rfc_3986_section_6_come_out_alike() {
    check("example://a/b/c/%7Bfoo%7D", "example://a/b/c/%7Bfoo%7D");
    check("eXAMPLE://a/./b/../b/%63/%7bfoo%7d", "example://a/b/c/%7Bfoo%7D");
    check("HTTP://www.EXAMPLE.com/", "http://www.example.com/");
    check("http://a/%3a", "http://a/%3A");
    check("http://example.com", "http://example.com/");
    check("http://example.com/", "http://example.com/");
    check("http://example.com:/", "http://example.com/");
    check("http://example.com:80/", "http://example.com/");
}

#[test]
fn the_examples_of_rfc_3986_section_5_lose_their_dot_segments() {
    check("x:/a/b/c/./../../g", "x:/a/g");
    check("x:mid/content=5/../6", "x:mid/6");
    for (path, expected) in [
        ("/b/c/g", "/b/c/g"),
        ("/b/c/./g", "/b/c/g"),
        ("/b/c/g/", "/b/c/g/"),
        ("/b/c/.", "/b/c/"),
        ("/b/c/./", "/b/c/"),
        ("/b/c/..", "/b/"),
        ("/b/c/../", "/b/"),
        ("/b/c/../g", "/b/g"),
        ("/b/c/../..", "/"),
        ("/b/c/../../", "/"),
        ("/b/c/../../g", "/g"),
        ("/b/c/../../../g", "/g"),
        ("/b/c/../../../../g", "/g"),
        ("/./g", "/g"),
        ("/../g", "/g"),
        ("/b/c/g.", "/b/c/g."),
        ("/b/c/.g", "/b/c/.g"),
        ("/b/c/g..", "/b/c/g.."),
        ("/b/c/..g", "/b/c/..g"),
        ("/b/c/./../g", "/b/g"),
        ("/b/c/./g/.", "/b/c/g/"),
        ("/b/c/g/./h", "/b/c/g/h"),
        ("/b/c/g/../h", "/b/c/h"),
        ("/b/c/g;x=1/./y", "/b/c/g;x=1/y"),
        ("/b/c/g;x=1/../y", "/b/c/y"),
    ] {
        check(&format!("http://a{path}"), &format!("http://a{expected}"));
    }
    check("http://a/b/c/g?y/../x", "http://a/b/c/g?y/../x");
    check("http://a/b/c/g#s/../x", "http://a/b/c/g#s/../x");
}

#[test]
fn escaped_dots_are_dots_and_escaped_slashes_are_not_slashes() {
    check("http://a/b/%2E%2e/c", "http://a/c");
    check("http://a/b/..%2fc", "http://a/b/..%2Fc");
    check("http://a/b//../c", "http://a/b/c");
}

#[test]
fn a_path_never_turns_into_a_host() {
    check("x:/.//b", "x:/.//b");
    check("x:a/..//b", "x:/.//b");
    check("x:/%2E//b", "x:/.//b");
    check("x://h//b", "x://h//b");
}

#[test]
fn default_ports_are_left_out_and_others_kept() {
    for (scheme, port) in [("http", 80), ("https", 443), ("ftp", 21), ("ws", 80), ("wss", 443)] {
        check(&format!("{scheme}://a:{port}/"), &format!("{scheme}://a/"));
        check(&format!("{scheme}://a:{port}0/"), &format!("{scheme}://a:{port}0/"));
    }
    check("HTTP://a:80", "http://a/");
    check("http://a:443/", "http://a:443/");
    check("gopher://a:70/", "gopher://a:70/");
    check("http://a:0080/", "http://a/");
    check("http://a:08080/", "http://a:8080/");
    check("http://a:00/", "http://a:0/");
}

#[test]
fn user_info_is_kept_as_it_is() {
    check("http://User:Pass@Example.com/", "http://User:Pass@example.com/");
    check("ftp://u%7Ev:p%40@h:21/", "ftp://u~v:p%40@h/");
    check("http://u:p@ss@h/", "http://u:p%40ss@h/");
    check("http://@h/", "http://@h/");
}

#[test]
fn hosts_are_in_lower_case_and_their_escapes_are_not() {
    check("http://EX%41MPLE.com/", "http://example.com/");
    check("http://B%c3%BCcher.de/", "http://b%C3%BCcher.de/");
    check("http://Bücher.de/", "http://b%C3%BCcher.de/");
    check("http://127.0.0.1:80/", "http://127.0.0.1/");
    check("file:///Etc/hosts", "file:///Etc/hosts");
}

#[test]
fn ipv6_addresses_stay_in_their_brackets() {
    check("http://[2001:DB8::A]", "http://[2001:db8::a]/");
    check("http://[::1]:80/", "http://[::1]/");
    check("http://u@[::1]:8080/", "http://u@[::1]:8080/");
    check("http://[::1]:/", "http://[::1]/");
    check("http://[fe80::1%25En0]/", "http://[fe80::1%25en0]/");
}

#[test]
fn query_and_fragment_stay_and_so_do_their_empty_ones() {
    check("http://a?B=%7e&c=/?d", "http://a/?B=~&c=/?d");
    check("http://a#F", "http://a/#F");
    check("http://a/?", "http://a/?");
    check("http://a/#", "http://a/#");
    check("http://a/?#", "http://a/?#");
    check("http://a/#b#c", "http://a/#b%23c");
}

#[test]
fn what_may_not_be_in_a_uri_is_escaped() {
    check("http://a/b c", "http://a/b%20c");
    check("http://a/é?ü#ß", "http://a/%C3%A9?%C3%BC#%C3%9F");
    check("http://a/\"<>[\\]^`{|}", "http://a/%22%3C%3E%5B%5C%5D%5E%60%7B%7C%7D");
    check("http://a/!$&'()*+,;=:@-._~", "http://a/!$&'()*+,;=:@-._~");
}

#[test]
fn a_percent_sign_that_escapes_nothing_is_escaped() {
    check("http://a/100%", "http://a/100%25");
    check("http://a/100%?b=%zz", "http://a/100%25?b=%25zz");
    check("http://a/%%41", "http://a/%25A");
    check("http://a/%4%31", "http://a/%2541");
}

#[test]
fn white_space_around_a_url_is_not_part_of_it() {
    check(" \t\nhttp://a/b \r\n", "http://a/b");
}

#[test]
fn urls_without_a_host_are_urls() {
    check("MAILTO:John.Doe@Example.com", "mailto:John.Doe@Example.com");
    check("urn:ISBN:0451450523", "urn:ISBN:0451450523");
    check("x:", "x:");
}

#[test]
fn an_escaped_query_is_a_query_only_when_decoded() {
    let (plain, escaped) = ("HTTP://a.com/?id=1", "http://A.com/%3Fid%3D1");
    check(plain, "http://a.com/?id=1");
    check(escaped, "http://a.com/%3Fid%3D1");
    check_decoded(plain, "http://a.com/?id=1");
    check_decoded(escaped, "http://a.com/?id=1");
}

#[test]
fn decoding_goes_on_until_nothing_printable_is_left() {
    check_decoded("http%3A%2F%2FA%2Fb", "http://a/b");
    check_decoded("http://a/%252525253Fb", "http://a/?b");
    check_decoded("http://a/%4%31", "http://a/A");
    check_decoded("http://a/b/%252e%252e/c", "http://a/c");
    check_decoded("http://a/?q=x%26y", "http://a/?q=x&y");
    check_decoded("http://a/100%25", "http://a/100%25");
    // Neither a space nor a control character nor half a letter is printable.
    check_decoded("http://a/%2520%0a%c3", "http://a/%20%0A%C3");
    check_decoded("http://a/%7B%5b%22", "http://a/%7B%5B%22");
    let deep = format!("http://a/%{}41", "25".repeat(4_000));
    check_decoded(&deep, "http://a/A");
}

#[test]
fn normal_forms_are_their_own_normal_form() {
    for text in [
        "HTTP://u:p@@Ex%41mple.com:080/a/./b/../%7e%2f%zz?%C3%a9#x#y",
        "http://a/%",
        "http://a/%25%2541",
        "http://a/%4%31",
        "http://a/% 41",
        "http://a/%2é",
        "http://a%[b/",
        "http://[a[%b]:80",
        "x:",
        "x:..",
        "x:..//a",
        "x:.///a",
        "x:a/../..//b/.",
        "x:/..//%2e/",
        "x://",
        "x://?#",
        "data:text/plain,a b%0A",
    ] {
        let normal = url(text).unwrap();
        check(&normal, &normal);
        let decoded = url_decoded(text).unwrap();
        check_decoded(&decoded, &decoded);
    }
}

#[test]
fn what_is_not_a_url_is_refused() {
    for text in ["", " ", "a", "a.com/b", "/a:b", "//a.com/", "?a:b", "#a:b", ":a"] {
        check_refused(text, UrlError::NoScheme);
    }
    for text in ["1http://a", "ht tp://a", "ht%74p://a", "é:a", "-a:b", "a_b:c"] {
        check_refused(text, UrlError::Scheme);
    }
    for text in ["http://[::1", "http://[::1]a", "http://[::1]80/"] {
        check_refused(text, UrlError::Brackets);
    }
    for text in ["http://a:b/", "http://a:8 0/", "http://::1/", "http://a:80:80/", "x://a:-1"] {
        check_refused(text, UrlError::Port);
    }
    for text in ["http://\n", "http://\0/", "http://\u{7f}", "http://\u{85}/"] {
        check_refused(&format!("{text}a"), UrlError::ControlCharacter { at: 7 });
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(url(text).as_deref(), Ok(expected), "{text}");
}

#[track_caller]
fn check_decoded(text: &str, expected: &str) {
    assert_eq!(url_decoded(text).as_deref(), Ok(expected), "{text}");
}

#[track_caller]
fn check_refused(text: &str, expected: UrlError) {
    assert_eq!(url(text), Err(expected), "{text:?}");
}
