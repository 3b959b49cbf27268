//! What an instance makes of the tokens that it learns, and of its settings.

use std::num::NonZeroU32;

use super::*;

#[test]
fn a_list_that_was_read_before_a_change_does_not_undo_it() {
    let access = Access::new(AccessSettings::default());
    assert!(!access.is_on());
    let list = |revision, names: &[&str], rolled_back| KnownTokens {
        revision,
        tokens: names.iter().map(|name| record(name)).collect(),
        ever: revision > 0,
        rolled_back,
    };
    access.learn(list(2, &["old", "new"], false));
    access.learn(list(3, &["new"], false));
    access.learn(list(2, &["old", "new"], false));
    assert!(!access.is_on_record("old") && access.is_on_record("new"), "revoked at 3");
    access.learn(list(1, &["old"], true));
    assert!(access.is_on_record("old"), "a store that was rolled back is what there is");
    access.set(AccessSettings::default());
    assert!(access.is_on() && access.is_on_record("old"));
}

#[test]
fn addresses_go_on_being_counted_when_settings_change_but_their_limit_does_not() {
    let settings = |rate: u32| {
        let limits = NonZeroU32::new(rate).map(|rate| Arc::new(AddressLimits::new(rate)));
        AccessSettings { address_limits: limits, ..AccessSettings::default() }
    };
    let access = Access::new(settings(1));
    let address: IpAddr = "192.0.2.1".parse().unwrap();
    let ask = || access.admit(None, &[], None, || Some(address));
    assert!(ask().is_ok() && ask().is_err());
    access.set(AccessSettings { tokens_max_age: Duration::from_secs(9), ..settings(1) });
    assert!(ask().is_err(), "the limit is the same, and spent");
    access.set(settings(1_000));
    assert!(ask().is_ok());
    access.set(settings(0));
    assert!((0..2_000).all(|_| ask().is_ok()));
}

#[test]
fn tokens_are_summed_up_without_those_that_have_expired() {
    let ended = TokenRecord { expires_at: Some(Timestamp::UNIX_EPOCH), ..record("ended") };
    let tokens = vec![record("one"), ended];
    let anonymous = Grants::parse(["take:links"]).unwrap();
    let access = Access::new(AccessSettings { tokens, anonymous, ..AccessSettings::default() });
    let anonymous = vec!["take:links".to_owned()];
    assert_eq!(access.summary(), AccessSummary { is_on: true, tokens: 1, anonymous });
}

#[test]
fn a_name_that_does_not_arrive_in_a_url_is_refused() {
    for name in [".", ".."] {
        let refusal = check_name(name).unwrap_err().to_string();
        assert!(refusal.contains("part of a URL"), "{refusal}");
    }
    for name in ["...", ".a", "a..b"] {
        assert!(check_name(name).is_ok(), "{name}");
    }
}

fn record(name: &str) -> TokenRecord {
    TokenRecord {
        name: name.to_owned(),
        secrets: Vec::new(),
        allow: vec!["take:*".to_owned()],
        expires_at: None,
        rate: None,
        quota: None,
        certificate: None,
        created_at: Timestamp::now(),
        created_by: "test".to_owned(),
    }
}
