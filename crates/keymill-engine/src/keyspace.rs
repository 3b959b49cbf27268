//! A keyspace inside a program: created or opened by name, then a handle to take keys with.
//!
//! Everything here is one call of `operations`, with the keys as strings.

use std::sync::Arc;

use keymill_core::ShapeSpec;

use crate::keymill::Keymill;
use crate::operations::{Explanation, ServiceError as Error, Space};
use crate::shape::Shape;
use crate::space::{Kind, SpaceSpec};

/// A keyspace to take keys from. Clones are the same keyspace.
///
/// ```no_run
/// # async fn example() -> Result<(), keymill_engine::Error> {
/// # let keymill = keymill_engine::Keymill::open("sqlite:keys.db").await?;
/// let links = keymill.open_keyspace("links").await?;
/// println!("{}/{}", links.name(), links.take().await?);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Keyspace {
    keymill: Keymill,
    space: Arc<Space>,
}

/// How a keyspace should be; made by [`Keymill::keyspace`].
#[derive(Debug, Clone)]
#[must_use = "nothing is created before `ensure`"]
pub struct KeyspaceBuilder {
    keymill: Keymill,
    name: String,
    spec: SpaceSpec,
}

impl Keymill {
    /// Describes the keyspace of this name, to be created with [`KeyspaceBuilder::ensure`]. Where nothing else is
    /// said, its keys are shuffled and have 7 characters of base62.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), keymill_engine::Error> {
    /// # use keymill_engine::{Keymill, Shape};
    /// # let keymill = Keymill::open("sqlite:keys.db").await?;
    /// let orders = keymill.keyspace("orders").shape(Shape::base32(8).prefix("ord_")).ensure().await?;
    /// # Ok(()) }
    /// ```
    pub fn keyspace(&self, name: &str) -> KeyspaceBuilder {
        KeyspaceBuilder { keymill: self.clone(), name: name.to_owned(), spec: SpaceSpec::default() }
    }

    /// The keyspace of this name as the store has it; [`Error::UnknownSpace`] where there is none.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), keymill_engine::Error> {
    /// # let keymill = keymill_engine::Keymill::open("sqlite:keys.db").await?;
    /// let orders = keymill.open_keyspace("orders").await?;
    /// # Ok(()) }
    /// ```
    pub async fn open_keyspace(&self, name: &str) -> Result<Keyspace, Error> {
        let space = self.service().space(name).await?;
        Ok(Keyspace { keymill: self.clone(), space })
    }
}

impl KeyspaceBuilder {
    /// How its keys are written.
    pub fn shape(mut self, shape: Shape) -> KeyspaceBuilder {
        let ShapeSpec { alphabet, length, prefix, group, check } = shape.into_spec();
        self.spec.alphabet = Some(alphabet);
        self.spec.length = Some(length);
        self.spec.prefix = Some(prefix);
        self.spec.group = Some(group);
        self.spec.check = Some(check);
        self
    }

    /// Where its keys come from.
    pub fn kind(mut self, kind: Kind) -> KeyspaceBuilder {
        self.spec.kind = Some(kind);
        self
    }

    /// Every setting there is, in the place of those given so far.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), keymill_engine::Error> {
    /// # use keymill_engine::{Keymill, SpaceSpec};
    /// # let keymill = Keymill::open("sqlite:keys.db").await?;
    /// let settings = SpaceSpec { blocklist: Some(false), ..SpaceSpec::default() };
    /// let links = keymill.keyspace("links").settings(settings).ensure().await?;
    /// # Ok(()) }
    /// ```
    pub fn settings(mut self, settings: SpaceSpec) -> KeyspaceBuilder {
        self.spec = settings;
        self
    }

    /// Creates the keyspace, or opens it if it already exists with the same settings. How keys look is permanent: a
    /// keyspace that exists with a different shape or kind is [`Error::DifferentDefinition`].
    pub async fn ensure(self) -> Result<Keyspace, Error> {
        self.keymill.service().ensure_space(&self.name, &self.spec).await?;
        self.keymill.open_keyspace(&self.name).await
    }
}

impl Keyspace {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.space.name
    }

    /// Takes one key. It comes from memory, and waits for the store only while there is none.
    ///
    /// ```no_run
    /// # async fn example(links: &keymill_engine::Keyspace) -> Result<(), keymill_engine::Error> {
    /// let key: String = links.take().await?;
    /// # Ok(()) }
    /// ```
    pub async fn take(&self) -> Result<String, Error> {
        if self.keymill.has_heartbeat()
            && let Some(key) = self.keymill.service().take_now(self.name())
        {
            return Ok(key.as_str().to_owned());
        }
        let mut keys = self.take_many(1).await?;
        Ok(keys.pop().expect("a take without a key is an error"))
    }

    /// Takes up to 100,000 keys at once. There are fewer only where the keyspace ends; after that,
    /// [`Error::Exhausted`]. A take that fails hands out nothing.
    ///
    /// ```no_run
    /// # async fn example(links: &keymill_engine::Keyspace) -> Result<(), keymill_engine::Error> {
    /// let batch: Vec<String> = links.take_many(1_000).await?;
    /// # Ok(()) }
    /// ```
    pub async fn take_many(&self, count: u32) -> Result<Vec<String>, Error> {
        let (service, space) = (self.keymill.service(), &self.space);
        service.check_count(count)?;
        let mut keys = Vec::new();
        let mut each = |key: &[u8]| keys.push(text(key));
        if self.keymill.has_heartbeat() {
            service.take(space, count, "", each).await?;
        } else {
            let each = |key: &[u8]| {
                each(key);
                true
            };
            service.take_exactly(space, count.into(), "", each).await?;
        }
        Ok(keys)
    }

    /// Explains where a key came from: whether it is one of this keyspace, which lease it came from, and who held
    /// that. Reads the store.
    ///
    /// ```no_run
    /// # async fn example(links: &keymill_engine::Keyspace) -> Result<(), keymill_engine::Error> {
    /// let about = links.explain("7Kx29aQ").await?;
    /// println!("{:?}: {}", about.state, about.reason);
    /// # Ok(()) }
    /// ```
    pub async fn explain(&self, key: &str) -> Result<Explanation, Error> {
        self.keymill.service().explain(self.name(), key).await
    }
}

fn text(key: &[u8]) -> String {
    std::str::from_utf8(key).expect("keys are text").to_owned()
}
