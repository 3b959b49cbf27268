//! What a definition is, by example: where two differ, how one grows, and which secret it needs.

use super::*;

#[test]
fn definitions_differ_where_their_keys_would() {
    let stored = Definition::default();
    let spelt = Definition {
        alphabet: "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".to_owned(),
        ..Definition::default()
    };
    assert_eq!(stored.differences(&spelt), []);
    let longer = Definition { length: 8, ..Definition::default() };
    let differences = stored.differences(&longer);
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0].to_string(), "length is `7` in the store, `8` here");
}

#[test]
fn a_definition_grows_by_longer_generations_only() {
    let first = Definition::default();
    let grown = first.grow(8).and_then(|grown| grown.grow(10)).unwrap();
    assert_eq!((grown.length, &grown.grown[..], grown.generation_count()), (7, &[8, 10][..], 3));
    let domain: u128 = [7, 8, 10].map(|length| 62_u128.pow(length)).iter().sum();
    assert_eq!(grown.domain().unwrap(), domain);
    // Whoever asks for the first length asks for the same space.
    assert_eq!(grown.differences(&first), []);
    let integers = Definition { kind: Kind::Sequential, length: 0, ..Definition::default() };
    let countless = Definition { length: 12, ..Definition::default() };
    for (definition, length, says) in [
        (&first, 7, "above 7, not 7"),
        (&first, 0, "above 7, not 0"),
        (&grown, 9, "above 10, not 9"),
        (&grown, 21, "at most 20"),
        (&integers, 5, "no length to grow"),
        (&countless, 13, "the maximum number of keys"),
    ] {
        let refusal = definition.grow(length).unwrap_err().to_string();
        assert!(refusal.contains(says), "{refusal}");
    }
}

#[test]
fn a_definition_that_has_not_grown_is_written_as_ever() {
    let text = serde_json::to_string(&Definition::default()).unwrap();
    assert!(!text.contains("grown"), "{text}");
    let grown = Definition::default().grow(8).unwrap();
    let text = serde_json::to_string(&grown).unwrap();
    assert!(text.ends_with(r#""grown":[8]}"#), "{text}");
    assert_eq!(serde_json::from_str::<Definition>(&text).unwrap(), grown);
}

#[test]
fn generations_are_shuffled_by_keys_of_their_own() {
    let master = Master::given("0123456789abcdef0123456789abcdef").unwrap();
    let generations = |definition: &Definition| definition.generations("links", &master).unwrap();
    let first = Definition::default();
    let (short, grown) = (generations(&first), generations(&first.grow(8).unwrap()));
    assert_eq!(short.key(5), grown.key(5), "what was handed out stays what it is");
    let long = generations(&Definition { length: 8, ..Definition::default() });
    assert_eq!(grown.key(short.capacity() + 5), long.key(5));
}

#[test]
fn interleaved_shuffled_spaces_need_a_secret_that_was_given() {
    let definition = Definition { step: 2, ..Definition::default() };
    let made_up = Master::made_up("0123456789abcdef0123456789abcdef".to_owned());
    let given = Master::given("0123456789abcdef0123456789abcdef").unwrap();
    assert!(matches!(
        definition.generations("links", &made_up),
        Err(DefinitionError::SecretNotShared { step: 2 })
    ));
    assert!(definition.generations("links", &given).is_ok());
}
