//! A space: what its keys look like (for ever) and how it is served (changeable).
//!
//! `service` builds spaces from records of the store; `config` and the fronts describe new
//! ones. Nothing here does I/O.

mod spec;
mod tuning;

use std::fmt;

use keymill_core::{Codec, CodecError, GenerationError, Generations, Shape, ShapeError, ShapeSpec};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::digest::Normalize;
use crate::secret::Master;

pub use spec::SpaceSpec;
pub use tuning::{Audit, Tuning};

/// No space has more ordinals than this, so that every store can count them in 64 signed bits.
pub const CAPACITY_MAX: u64 = i64::MAX as u64;

/// Where a space's keys come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Leased ordinals through FF1: unguessable, nothing stored per unused key.
    #[default]
    Shuffled,
    /// Leased ordinals written as they are.
    Sequential,
    /// Shuffled keys that are written out in advance, and keys that the user imports: rows that
    /// move from one table to another.
    Pooled,
    /// The key of an input is made of the input: the same one gives the same key.
    Digest,
}

/// The permanent part of a space: two spaces with one definition make the same keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Definition {
    /// Where the keys come from.
    pub kind: Kind,
    /// A named alphabet, or its characters.
    pub alphabet: String,
    /// How many characters the number takes; 0 writes plain integers.
    pub length: u8,
    /// What every key begins with.
    pub prefix: String,
    /// A hyphen after every so many characters; 0 for none.
    pub group: u8,
    /// Whether a check character ends every key.
    pub check: bool,
    /// The distance between two numbers: more than 1 shares one keyspace among stores.
    pub step: u64,
    /// The first number; below `step`.
    pub offset: u64,
    /// With kind `digest`: which inputs count as one.
    #[serde(skip_serializing_if = "is_none")]
    pub normalize: Normalize,
    /// The lengths of later generations, each longer than the one before: takes move on to it
    /// when that one ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grown: Vec<u8>,
}

/// Why a definition cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The name of the space cannot be one.
    #[error(
        "`{0}` cannot name a keyspace: use 1 to 64 of a-z, 0-9, `-` and `_`, beginning with a letter or digit"
    )]
    Name(String),
    /// The shape contradicts itself.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The shape does not fit the kind, the step or the offset.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The space cannot grow like that.
    #[error(transparent)]
    Generation(#[from] GenerationError),
    /// A setting is outside its range.
    #[error("{setting} {problem}")]
    Setting {
        /// Which one.
        setting: &'static str,
        /// What is wrong with it, as the end of a sentence.
        problem: String,
    },
    /// Interleaved stores must shuffle with one secret, so it cannot be a made-up one.
    #[error(
        "a shuffled keyspace with step {step} shares its keys with other stores, so all of them \
         need one secret: set KEYMILL_SECRET (or `secret_file`) to the same value everywhere"
    )]
    SecretNotShared {
        /// The step asked for.
        step: u64,
    },
}

/// One permanent setting in which two definitions differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Difference {
    /// The setting.
    pub setting: &'static str,
    /// What the store has.
    pub stored: String,
    /// What was asked for.
    pub asked: String,
}

impl Definition {
    /// How keys of the first generation are written.
    pub fn shape(&self) -> Result<Shape, ShapeError> {
        self.shape_of(self.length)
    }

    /// How many generations there are.
    pub fn generations(&self) -> usize {
        1 + self.grown.len()
    }

    /// How many texts could be keys of some generation, other regions' among them.
    pub fn domain(&self) -> Result<u128, ShapeError> {
        let lengths = std::iter::once(self.length).chain(self.grown.iter().copied());
        lengths.map(|length| self.shape_of(length).map(|shape| shape.capacity())).sum()
    }

    /// The same with a generation of longer keys behind the last.
    pub fn grow(&self, length: u8) -> Result<Definition, DefinitionError> {
        if self.kind == Kind::Digest {
            return Err(DefinitionError::Setting {
                setting: "kind",
                problem: "is digest, which does not grow: an input would have two keys".to_owned(),
            });
        }
        let mut longer = self.clone();
        longer.grown.push(length);
        longer.check()?;
        Ok(longer)
    }

    /// Refuses what no secret could make work.
    pub fn check(&self) -> Result<(), DefinitionError> {
        if self.kind != Kind::Digest && self.normalize != Normalize::None {
            return Err(DefinitionError::Setting {
                setting: "normalize",
                problem: "goes with kind digest".to_owned(),
            });
        }
        if self.kind == Kind::Digest && (self.step > 1 || self.length == 0) {
            return Err(DefinitionError::Setting {
                setting: "kind",
                problem: "digest goes with step 1 and a length of 1 or more".to_owned(),
            });
        }
        self.build(|_| Zeroizing::new([0; 16])).map(drop)
    }

    /// Builds what turns this space's ordinals into keys.
    pub fn codec(&self, name: &str, master: &Master) -> Result<Generations, DefinitionError> {
        let shuffled = matches!(self.kind, Kind::Shuffled | Kind::Pooled);
        if shuffled && self.step > 1 && master.is_made_up() {
            return Err(DefinitionError::SecretNotShared { step: self.step });
        }
        self.build(|shape| master.space_key(name, shape.alphabet().symbols(), shape.length()))
    }

    /// How many ordinals there are, over all generations.
    pub fn capacity(&self) -> Result<u64, DefinitionError> {
        let generations = self.build(|_| Zeroizing::new([0; 16]))?;
        Ok(generations.capacity().min(CAPACITY_MAX))
    }

    /// All generations, each with the FF1 key that `key` has for its shape.
    fn build(
        &self,
        key: impl Fn(&Shape) -> Zeroizing<[u8; 16]>,
    ) -> Result<Generations, DefinitionError> {
        let codec = |length: u8| -> Result<Codec, DefinitionError> {
            let shape = self.shape_of(length)?;
            match self.kind {
                Kind::Sequential | Kind::Digest => {
                    Ok(Codec::sequential(shape, self.step, self.offset)?)
                }
                Kind::Shuffled | Kind::Pooled => {
                    let key = key(&shape);
                    Ok(Codec::shuffled(shape, self.step, self.offset, &key)?)
                }
            }
        };
        let mut generations = Generations::new(codec(self.length)?);
        for &length in &self.grown {
            // First of all: a length that is too short should be refused for just that.
            generations.check_next(length)?;
            generations = generations.then(codec(length)?)?;
        }
        Ok(generations)
    }

    fn shape_of(&self, length: u8) -> Result<Shape, ShapeError> {
        Shape::new(&ShapeSpec {
            alphabet: self.alphabet.clone(),
            length,
            prefix: self.prefix.clone(),
            group: self.group,
            check: self.check,
        })
    }

    /// The fingerprint of the secret behind the keys, for the kinds that have one.
    pub fn fingerprint(&self, name: &str, master: &Master) -> Option<String> {
        match self.kind {
            Kind::Sequential => None,
            Kind::Shuffled | Kind::Pooled | Kind::Digest => Some(master.fingerprint(name)),
        }
    }

    /// Every setting in which `asked` differs from this stored definition. Generations are none:
    /// whoever asks names the first length, and the space may have grown since.
    pub fn differences(&self, asked: &Definition) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut compare = |setting, stored: &dyn fmt::Display, asked: &dyn fmt::Display| {
            let (stored, asked) = (stored.to_string(), asked.to_string());
            if stored != asked {
                differences.push(Difference { setting, stored, asked });
            }
        };
        compare("kind", &self.kind, &asked.kind);
        compare("alphabet", &self.symbols(), &asked.symbols());
        compare("length", &self.length, &asked.length);
        compare("prefix", &self.prefix, &asked.prefix);
        compare("group", &self.group, &asked.group);
        compare("check", &self.check, &asked.check);
        compare("step", &self.step, &asked.step);
        compare("offset", &self.offset, &asked.offset);
        compare("normalize", &self.normalize, &asked.normalize);
        differences
    }

    /// The alphabet's characters, so that its name and its spelling compare equal.
    fn symbols(&self) -> String {
        keymill_core::Alphabet::parse(&self.alphabet)
            .map_or_else(|_| self.alphabet.clone(), |alphabet| alphabet.to_string())
    }
}

impl Default for Definition {
    fn default() -> Definition {
        Definition {
            kind: Kind::Shuffled,
            alphabet: "base62".to_owned(),
            length: 7,
            prefix: String::new(),
            group: 0,
            check: false,
            step: 1,
            offset: 0,
            normalize: Normalize::None,
            grown: Vec::new(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Shuffled => "shuffled",
            Kind::Sequential => "sequential",
            Kind::Pooled => "pooled",
            Kind::Digest => "digest",
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is `{}` in the store, `{}` here", self.setting, self.stored, self.asked)
    }
}

/// Definitions of other kinds are written as they were before there was this setting.
fn is_none(normalize: &Normalize) -> bool {
    *normalize == Normalize::None
}

/// Refuses names that would not be safe in a URL, a file or a metric.
pub fn check_name(name: &str) -> Result<(), DefinitionError> {
    let fits = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    let good = (1..=64).contains(&name.len())
        && name.bytes().all(fits)
        && name.as_bytes()[0].is_ascii_alphanumeric();
    if good { Ok(()) } else { Err(DefinitionError::Name(name.to_owned())) }
}

#[cfg(test)]
mod tests {
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
        assert_eq!((grown.length, &grown.grown[..], grown.generations()), (7, &[8, 10][..], 3));
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
            (&countless, 13, "as many keys as can be counted"),
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
        let codec = |definition: &Definition| definition.codec("links", &master).unwrap();
        let first = Definition::default();
        let (short, grown) = (codec(&first), codec(&first.grow(8).unwrap()));
        assert_eq!(short.key(5), grown.key(5), "what was handed out stays what it is");
        let long = codec(&Definition { length: 8, ..Definition::default() });
        assert_eq!(grown.key(short.capacity() + 5), long.key(5));
    }

    #[test]
    fn names_are_safe_in_a_url() {
        for good in ["links", "a", "0", "order-numbers_2"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "_", "Links", "a/b", "a b", "ä", &"a".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn interleaved_shuffled_spaces_need_a_secret_that_was_given() {
        let definition = Definition { step: 2, ..Definition::default() };
        let made_up = Master::made_up("0123456789abcdef0123456789abcdef".to_owned());
        let given = Master::given("0123456789abcdef0123456789abcdef").unwrap();
        assert!(matches!(
            definition.codec("links", &made_up),
            Err(DefinitionError::SecretNotShared { step: 2 })
        ));
        assert!(definition.codec("links", &given).is_ok());
    }
}
