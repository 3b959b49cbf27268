//! The definition of a space: what its keys look like, for good.

use std::fmt;

use jiff::Timestamp;
use keymill_core::{Codec, Generations, Layout, Shape, ShapeError, ShapeSpec};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::digest::Normalize;
use super::secret::Master;
use super::{CAPACITY_MAX, DefinitionError, Kind, LENGTH_MAX, Timeline, timeline};

/// The permanent part of a space: two spaces with one definition make the same keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// With kind `snowflake`: the bits of time, worker and sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// With kind `snowflake`: where time begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Timestamp>,
    /// With kind `uuid`: 4 or 7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid_version: Option<u8>,
    /// The lengths of later generations, each longer than the one before: takes move on to it
    /// when that one ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grown: Vec<u8>,
}

/// One permanent setting in which two definitions differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The name of the setting.
    pub setting: &'static str,
    /// What the store has.
    pub stored: String,
    /// What somebody asked for.
    pub asked: String,
}

impl Definition {
    /// What a space of this kind is where nothing else is said.
    pub fn of_kind(kind: Kind) -> Definition {
        let default = Definition { kind, ..Definition::default() };
        match kind {
            Kind::Shuffled | Kind::Sequential | Kind::Pooled | Kind::Digest => default,
            Kind::Snowflake => Definition {
                alphabet: "decimal".to_owned(),
                length: 0,
                layout: Some(Layout::default().to_string()),
                epoch: Some(timeline::EPOCH),
                ..default
            },
            Kind::Uuid => Definition {
                alphabet: "hex".to_owned(),
                length: 0,
                uuid_version: Some(7),
                ..default
            },
        }
    }

    /// How time and workers are counted, with kind `snowflake`.
    pub fn timeline(&self) -> Result<Option<Timeline>, DefinitionError> {
        if self.kind != Kind::Snowflake {
            return Ok(None);
        }
        let layout = match &self.layout {
            Some(text) => Layout::parse(text)?,
            None => Layout::default(),
        };
        let epoch_ms = self.epoch.unwrap_or(timeline::EPOCH).as_millisecond();
        Ok(Some(Timeline { epoch_ms, layout }))
    }

    /// Whether JSON can have its keys as numbers, which programs read as they are.
    pub fn is_safe_as_numbers(&self) -> bool {
        let plain = self.length == 0 && self.prefix.is_empty() && !self.check;
        let safe = match self.kind {
            Kind::Snowflake => {
                self.timeline().is_ok_and(|it| it.is_some_and(|it| it.layout.is_safe_in_json()))
            }
            _ => false,
        };
        let digits = self.shape().is_ok_and(|it| it.alphabet().symbols() == timeline::DECIMAL);
        plain && safe && digits
    }

    /// How keys of the first generation are written.
    pub fn shape(&self) -> Result<Shape, ShapeError> {
        self.shape_of(self.length)
    }

    /// The length of the last generation.
    pub fn length_last(&self) -> u8 {
        self.grown.last().copied().unwrap_or(self.length)
    }

    /// How keys of the last generation are written.
    pub fn shape_last(&self) -> Result<Shape, ShapeError> {
        self.shape_of(self.length_last())
    }

    /// The one spelling of a key of any generation; `None` where it is a key of none. The secret is not
    /// part of it: it tells which ordinal a key has, and not how it is written.
    pub fn canonical(&self, key: &str) -> Option<String> {
        let mut lengths = std::iter::once(self.length).chain(self.grown.iter().copied());
        let found = lengths
            .find_map(|length| self.shape_of(length).ok()?.canonical(key.as_bytes()).ok())?;
        Some(found.as_str().to_owned())
    }

    /// How many generations there are.
    pub fn generation_count(&self) -> usize {
        1 + self.grown.len()
    }

    /// How many texts could be keys of some generation, other regions' among them.
    pub fn domain(&self) -> Result<u128, ShapeError> {
        match self.kind {
            Kind::Uuid => return Ok(1 << 122),
            Kind::Snowflake => {
                return Ok(self.timeline().ok().flatten().map_or(1, Timeline::ticks).into());
            }
            _ => {}
        }
        let lengths = std::iter::once(self.length).chain(self.grown.iter().copied());
        lengths.map(|length| self.shape_of(length).map(|shape| shape.capacity())).sum()
    }

    /// The same with a generation of longer keys behind the last.
    pub fn grow(&self, length: u8) -> Result<Definition, DefinitionError> {
        let problem = match self.kind {
            Kind::Snowflake | Kind::Uuid => "has a fixed number of keys: it cannot grow",
            Kind::Shuffled | Kind::Sequential | Kind::Pooled | Kind::Digest => "",
        };
        if !problem.is_empty() {
            return Err(setting("kind", problem));
        }
        let mut longer = self.clone();
        longer.grown.push(length);
        longer.check()?;
        Ok(longer)
    }

    /// Refuses what no secret could make work.
    pub fn check(&self) -> Result<(), DefinitionError> {
        if self.kind != Kind::Digest && self.normalize != Normalize::None {
            return Err(setting("normalize", "is only allowed with kind digest"));
        }
        if self.kind == Kind::Digest && (self.step > 1 || self.length == 0) {
            return Err(setting("kind", "digest needs step 1 and a length of 1 or more"));
        }
        if self.kind != Kind::Snowflake && (self.layout.is_some() || self.epoch.is_some()) {
            return Err(setting("layout and epoch", "are only allowed with kind snowflake"));
        }
        if self.kind != Kind::Uuid && self.uuid_version.is_some() {
            return Err(setting("uuid_version", "is only allowed with kind uuid"));
        }
        match self.kind {
            Kind::Snowflake => self.check_snowflake()?,
            Kind::Uuid => self.check_uuid()?,
            _ => {}
        }
        self.build(|_| Zeroizing::new([0; 16])).map(drop)
    }

    fn check_snowflake(&self) -> Result<(), DefinitionError> {
        if self.step > 1 {
            return Err(setting(
                "step",
                "is not allowed with kind snowflake: use worker bits in the layout instead",
            ));
        }
        let Some(timeline) = self.timeline()? else { return Ok(()) };
        if timeline.layout.sequence_bits == 0 {
            return Err(setting("layout", "needs at least 1 sequence bit"));
        }
        let bits = timeline.layout.bits();
        let needed = timeline::length_of(timeline.layout, &self.alphabet);
        if needed > LENGTH_MAX {
            let problem = format!("has too few characters for IDs of {bits} bits: use 10 or more");
            return Err(setting("alphabet", &problem));
        }
        if self.shape()?.capacity() < 1_u128 << bits {
            let problem = format!("is too short for IDs of {bits} bits: they need {needed}");
            return Err(setting("length", &problem));
        }
        Ok(())
    }

    fn check_uuid(&self) -> Result<(), DefinitionError> {
        let plain =
            Definition { uuid_version: self.uuid_version, ..Definition::of_kind(Kind::Uuid) };
        if let Some(other) = plain.differences(self).first() {
            return Err(setting(
                other.setting,
                "is not allowed with kind uuid: UUIDs have a fixed format",
            ));
        }
        match self.uuid_version {
            Some(4 | 7) | None => Ok(()),
            Some(_) => Err(setting("uuid_version", "must be 4 or 7")),
        }
    }

    /// Builds what turns this space's ordinals into keys.
    pub fn generations(&self, name: &str, master: &Master) -> Result<Generations, DefinitionError> {
        let shuffled = matches!(self.kind, Kind::Shuffled | Kind::Pooled);
        if shuffled && self.step > 1 && master.is_made_up() {
            return Err(DefinitionError::SecretNotShared { step: self.step });
        }
        self.build(|shape| master.space_key(name, shape.alphabet().symbols(), shape.length()))
    }

    /// How many ordinals there are, over all generations; with kind `snowflake`, how many ticks.
    pub fn capacity(&self) -> Result<u64, DefinitionError> {
        if let Some(timeline) = self.timeline()? {
            return Ok(timeline.ticks());
        }
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
                Kind::Sequential | Kind::Digest | Kind::Snowflake | Kind::Uuid => {
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
            Kind::Sequential | Kind::Snowflake | Kind::Uuid => None,
            Kind::Shuffled | Kind::Pooled | Kind::Digest => Some(master.fingerprint(name)),
        }
    }

    /// Every setting in which `asked` differs from this stored definition. Generations do not count:
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
        compare("layout", &shown(self.layout.as_ref()), &shown(asked.layout.as_ref()));
        compare("epoch", &shown(self.epoch), &shown(asked.epoch));
        compare("uuid_version", &shown(self.uuid_version), &shown(asked.uuid_version));
        differences
    }

    /// Refuses an alphabet that was probably meant as the name of another. Only for a space that is made now: one that
    /// exists has it for good.
    pub fn check_spelling(&self) -> Result<(), DefinitionError> {
        keymill_core::Alphabet::check_spelling(&self.alphabet).map_err(ShapeError::from)?;
        Ok(())
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
            layout: None,
            epoch: None,
            uuid_version: None,
            grown: Vec::new(),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is `{}` in the store, `{}` here", self.setting, self.stored, self.asked)
    }
}

fn setting(setting: &'static str, problem: &str) -> DefinitionError {
    DefinitionError::Setting { setting, problem: problem.to_owned() }
}

fn shown(value: Option<impl fmt::Display>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

/// Definitions of other kinds are written as they were before there was this setting.
fn is_none(normalize: &Normalize) -> bool {
    *normalize == Normalize::None
}

#[cfg(test)]
mod tests;
