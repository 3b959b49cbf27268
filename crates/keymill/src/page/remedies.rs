//! What to do about each problem that an instance reports about itself: the cards on top of the page.
//!
//! The template writes them into the page, where its script looks them up by the code of a problem. A problem whose own
//! text names a command has that one instead.

/// A problem in words, and the command that mends it.
#[derive(Debug)]
pub(super) struct Remedy {
    /// The code of the problem.
    pub(super) code: &'static str,
    /// What happened.
    pub(super) title: &'static str,
    /// What to do.
    pub(super) advice: &'static str,
    /// The command; `SPACE` stands for the keyspace. Empty where there is none.
    pub(super) command: &'static str,
}

/// Every problem that `/readyz` can report, and those that the page foresees in the figures of a keyspace.
pub(super) const REMEDIES: &[Remedy] = &[
    remedy(
        "store_unavailable",
        "The store is unreachable",
        "Keys in memory are still handed out. Make the store reachable, then check it.",
        "keymill store check",
    ),
    remedy(
        "store_rolled_back",
        "The store was rolled back to an earlier state",
        "No new keys are leased, because they could repeat. Skip past every key that may be in use.",
        "keymill space advance SPACE",
    ),
    remedy(
        "tokens_rolled_back",
        "The list of tokens was rolled back",
        "Tokens that were revoked since may be valid again. Look at the list and revoke them again.",
        "keymill token list",
    ),
    remedy(
        "unsafe_store",
        "The store is not safe to lease from",
        "A failure may cost a repeated key. See which setting it is, and change it.",
        "keymill store check",
    ),
    remedy(
        "exhausted",
        "All keys are leased",
        "Add longer keys. Takes continue with them at once, and old keys stay valid.",
        "keymill space grow SPACE --length LENGTH",
    ),
    remedy(
        "pool_empty",
        "The pool is empty",
        "Fill it, or set a low water mark so that it is filled by itself.",
        "keymill pool fill SPACE --count 100000",
    ),
    remedy(
        "pool_low",
        "The pool is below its low water mark",
        "It is filled once an instance takes from it. You can fill it now.",
        "keymill pool fill SPACE --count 100000",
    ),
    remedy(
        "nearly_used_up",
        "The keyspace is nearly used up",
        "Add longer keys in time. Takes continue with them when the current ones end.",
        "keymill space grow SPACE --length LENGTH",
    ),
    remedy(
        "no_worker",
        "All worker numbers are in use",
        "Run fewer instances, or create a keyspace whose layout has more worker bits. See who is running.",
        "keymill space show SPACE",
    ),
    remedy(
        "runs_out",
        "The timestamps of a keyspace end soon",
        "Create another keyspace with a later epoch, and move on to it.",
        "keymill space show SPACE",
    ),
    remedy(
        "tls_certificate_expired",
        "The TLS certificate has expired",
        "Replace the files. The server reads them again by itself.",
        "",
    ),
    remedy(
        "tls_certificate_expires",
        "The TLS certificate expires soon",
        "Replace the files before that. The server reads them again by itself.",
        "",
    ),
    remedy(
        "tls_reload_failed",
        "The TLS certificate could not be reloaded",
        "The one that was read before stays in use. The log of the instance says what is wrong with the new one.",
        "",
    ),
    remedy(
        "stopping",
        "This instance is stopping",
        "It finishes its requests and returns unused keys. Others go on.",
        "",
    ),
];

const fn remedy(
    code: &'static str,
    title: &'static str,
    advice: &'static str,
    command: &'static str,
) -> Remedy {
    Remedy { code, title, advice, command }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The codes that `/readyz` can give, found where they are given.
    #[test]
    fn every_problem_of_an_instance_has_a_remedy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
        let health = read("../keymill-engine/src/operations/health.rs");
        let tls = read("src/metrics/tls.rs");
        let quoted = |text: &str, before: &str| -> Vec<String> {
            let text: String = text.split_whitespace().collect();
            let parts = text.split(before).skip(1);
            parts.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
        };
        let mut given: BTreeSet<String> = quoted(&health, "problem(\"").into_iter().collect();
        given.extend(quoted(&tls, "(\"").into_iter().filter(|code| code.starts_with("tls_")));
        assert!(given.len() >= 10, "the search finds too little: {given:?}");
        for code in given {
            assert!(REMEDIES.iter().any(|remedy| remedy.code == code), "`{code}` has no remedy");
        }
    }

    #[test]
    fn a_remedy_is_in_sentences() {
        for Remedy { code, title, advice, command } in REMEDIES {
            assert!(advice.ends_with('.') && !title.ends_with('.'), "{code}");
            assert!(command.is_empty() || command.starts_with("keymill "), "{code}");
        }
    }
}
