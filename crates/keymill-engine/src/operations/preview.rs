//! A preview: keys like those of a space that is not made yet.
//!
//! The web page shows it while somebody chooses settings. What would be refused when the space is made is refused here,
//! as far as that is known without asking the store. The keys are made with a random secret that is thrown away: they
//! tell nothing about the keys that the space will have.

use jiff::Timestamp;
use keymill_core::{Fields, KeyText};

use super::{Service, ServiceError};
use crate::source::uuids::Uuids;
use crate::space::digest::{Digester, Normalize};
use crate::space::secret::Master;
use crate::space::{Definition, DefinitionError, Kind, SpaceSpec, Timeline};
use crate::store::NewSpace;

/// How many keys a preview has.
const KEYS: u8 = 6;
/// How many ordinals are looked at for keys that are not blocked.
const ORDINALS_MAX: u64 = 64;
/// The name that the keys are made for. It is not a name that a space can have.
const NAME: &str = "";

/// What a space with some settings would be.
#[derive(Debug, Clone)]
pub struct Preview {
    /// Keys like those it would hand out.
    pub keys: Vec<String>,
    /// How many keys it would have in all.
    pub capacity: u128,
    /// How many texts could be keys of it, those of other regions among them.
    pub domain: u128,
    /// The most keys a second that one instance can make, in a snowflake space.
    pub rate_max: Option<u64>,
    /// When no ID can be made any more, in a snowflake space.
    pub runs_out_at: Option<Timestamp>,
}

impl Service {
    /// What a space with these settings would be. Asks no store.
    pub fn preview(&self, wanted: &SpaceSpec) -> Result<Preview, ServiceError> {
        let new = self.new_space(NAME, wanted)?;
        let definition = &new.definition;
        let timeline = definition.timeline()?;
        let texts = definition.domain().map_err(DefinitionError::from)?;
        let (domain, capacity) = match (definition.kind, timeline) {
            (_, Some(timeline)) => (1 << timeline.layout.bits(), 1 << timeline.layout.bits()),
            (Kind::Uuid | Kind::Digest, _) => (texts, texts),
            _ => (texts, new.capacity.into()),
        };
        Ok(Preview {
            keys: self.samples(&new)?,
            capacity,
            domain,
            rate_max: timeline
                .map(|it| it.layout.sequences() * 1_000 / u64::from(it.layout.unit_ms)),
            runs_out_at: timeline.map(Timeline::runs_out_at),
        })
    }

    fn samples(&self, new: &NewSpace) -> Result<Vec<String>, ServiceError> {
        let definition = &new.definition;
        let master = Master::given(&Master::random_text()).expect("it is long enough");
        let mut keys = Vec::with_capacity(KEYS.into());
        match definition.kind {
            Kind::Shuffled | Kind::Sequential | Kind::Pooled => {
                let generations = definition.generations(NAME, &master)?;
                let blocklist = self.inner.blocklist.load();
                let end = new.capacity.min(new.start.saturating_add(ORDINALS_MAX));
                let made = (new.start..end).map(|ordinal| generations.key(ordinal));
                let is_fine =
                    |key: &KeyText| !(new.tuning.blocklist && blocklist.blocks(key.as_bytes()));
                keys.extend(made.filter(is_fine).map(text).take(KEYS.into()));
            }
            Kind::Digest => keys.extend(digests(definition, &master)?),
            Kind::Snowflake => keys.extend(ids(definition, self.inner.clock.now_ms())?),
            Kind::Uuid => Uuids::of(definition)
                .make(KEYS.into(), |key| keys.push(String::from_utf8_lossy(key).into_owned())),
        }
        Ok(keys)
    }
}

/// Keys of some inputs.
fn digests(definition: &Definition, master: &Master) -> Result<Vec<String>, DefinitionError> {
    let digester = Digester::new(*master.digest_key(NAME), definition.shape()?, Normalize::None);
    let candidate = |number: u8| {
        let input = format!("input {number}");
        let prepared = digester.prepare("", &input).expect("it is short and not empty");
        text(prepared.candidate(0))
    };
    Ok((0..KEYS).map(candidate).collect())
}

/// IDs that the first worker could make now.
fn ids(definition: &Definition, now_ms: i64) -> Result<Vec<String>, DefinitionError> {
    let Some(timeline) = definition.timeline()? else { return Ok(Vec::new()) };
    let (shape, layout) = (definition.shape()?, timeline.layout);
    let first = timeline.tick_at(now_ms).min(timeline.ticks().saturating_sub(KEYS.into()));
    let id = |at: u64| {
        let tick = first + at / layout.sequences();
        let sequence = u32::try_from(at % layout.sequences()).unwrap_or(0);
        let mut key = KeyText::new();
        shape.write(layout.id(Fields { tick, worker: 0, sequence }).into(), &mut key);
        text(key)
    };
    Ok((0..u64::from(KEYS)).map(id).collect())
}

fn text(key: KeyText) -> String {
    key.as_str().to_owned()
}
