//! Keys, and what describes them: any text, in keyspaces of any settings.
//!
//! What is read as a key is written back in one spelling, which is read as the same. Settings that are accepted can be
//! served. A URL has a normal form that is its own. Nothing panics, and nothing takes more memory than its text.

#![no_main]

use arbitrary::Arbitrary;
use keymill_core::{Alphabet, Blocklist, Layout, Located, Shape};
use keymill_engine::operations::{Import, ImportInto, ServiceError};
use keymill_engine::space::digest::{Digester, Normalize};
use keymill_engine::space::secret::Master;
use keymill_engine::space::{Definition, Kind, SpaceSpec, check_name};
use keymill_fuzz::words::{Text, pick};
use keymill_fuzz::world::SPACES;
use keymill_fuzz::{memory, world};
use libfuzzer_sys::fuzz_target;

/// What an input may take: a blocklist of these letters is a table, and the store has pages.
const BYTES_MAX: usize = 8 << 20;
const KINDS: [Kind; 6] =
    [Kind::Shuffled, Kind::Sequential, Kind::Pooled, Kind::Digest, Kind::Snowflake, Kind::Uuid];

#[derive(Debug, Arbitrary)]
enum Asked {
    /// A key in a keyspace with these settings.
    Settings { settings: Settings, key: Vec<u8>, ordinal: u64 },
    /// The normal form of a URL.
    Url(String),
    /// The layout of snowflake IDs, and an ID.
    Layout(Text, u64),
    /// Words of a blocklist, and a key.
    Blocklist(Vec<String>, Vec<u8>),
    /// Explaining a key of a keyspace in the store.
    Explain(u8, Text),
    /// The lines of a file to import.
    Import { space: u8, into_pool: bool, pieces: Vec<Vec<u8>> },
}

#[derive(Debug, Arbitrary)]
struct Settings {
    kind: u8,
    alphabet: Option<Text>,
    length: Option<u8>,
    prefix: Option<Text>,
    group: Option<u8>,
    check: Option<bool>,
    step: Option<u64>,
    offset: Option<u64>,
    layout: Option<Text>,
    grown: Vec<u8>,
}

fuzz_target!(|asked: Asked| {
    memory::bounded(BYTES_MAX, || match asked {
        Asked::Settings { settings, key, ordinal } => settings.try_key(&key, ordinal),
        Asked::Url(url) => {
            try_url(&url, Normalize::Url);
            try_url(&url, Normalize::UrlDecoded);
        }
        Asked::Layout(text, id) => try_layout(&text.as_str(), id),
        Asked::Blocklist(words, key) => {
            if let Ok(blocklist) = Blocklist::new(&words) {
                let has_words = words.iter().any(|word| !word.is_empty());
                assert!(has_words || !blocklist.blocks(&key));
            }
        }
        Asked::Explain(space, key) => explain(pick(&SPACES, space), &key.as_str()),
        Asked::Import { space, into_pool, pieces } => {
            let into = if into_pool { ImportInto::Pool } else { ImportInto::Used };
            import(pick(&SPACES, space), into, &pieces);
        }
    });
});

impl Settings {
    /// The definition of a keyspace that is made with them.
    fn definition(&self) -> Definition {
        let text = |text: &Option<Text>| text.as_ref().map(|text| text.as_str().into_owned());
        let spec = SpaceSpec {
            kind: Some(pick(&KINDS, self.kind)),
            alphabet: text(&self.alphabet),
            length: self.length,
            prefix: text(&self.prefix),
            group: self.group,
            check: self.check,
            step: self.step,
            offset: self.offset,
            layout: text(&self.layout),
            ..SpaceSpec::default()
        };
        spec.definition()
    }

    fn try_key(&self, key: &[u8], ordinal: u64) {
        let mut definition = self.definition();
        let _ = (definition.check_spelling(), check_name(&String::from_utf8_lossy(key)));
        if definition.check().is_err() {
            return;
        }
        for &length in self.grown.iter().take(4) {
            definition = definition.grow(length).unwrap_or(definition);
        }
        let master = Master::given("a secret that is long enough to be one").expect("it is");
        let generations = definition.generations("any", &master).expect("it was checked");
        let shape = definition.shape().expect("it was checked");
        try_shape(&shape, key);
        if let Ok(Located::Ordinal(ordinal)) = generations.ordinal(key) {
            let canonical = definition.canonical(&String::from_utf8_lossy(key));
            assert_eq!(canonical.as_deref(), Some(generations.key(ordinal).as_str()));
        }
        let capacity = definition.capacity().expect("it was checked");
        if definition.kind.counts() && definition.kind != Kind::Snowflake {
            let ordinal = ordinal % capacity;
            let key = generations.key(ordinal);
            assert!(key.as_bytes().len() <= generations.text_len_max());
            assert_eq!(generations.ordinal(key.as_bytes()), Ok(Located::Ordinal(ordinal)));
        }
    }
}

fn try_shape(shape: &Shape, key: &[u8]) {
    let Ok(number) = shape.read(key) else { return };
    assert!(number < shape.capacity());
    let canonical = shape.canonical(key).expect("it was read");
    assert_eq!(shape.read(canonical.as_bytes()), Ok(number));
    assert!(canonical.as_bytes().len() <= shape.text_len_max());
    assert_eq!(Alphabet::parse(&shape.spec().alphabet).as_ref(), Ok(shape.alphabet()));
}

fn try_url(url: &str, normalize: Normalize) {
    let shape = Shape::new(&Default::default()).expect("the default is sound");
    let digester = Digester::new([7; 32], shape, normalize);
    let Ok(prepared) = digester.prepare("", url) else { return };
    let normal = prepared.input();
    assert!(normal.is_ascii(), "{normal}");
    // It may be longer than an input may be.
    if let Ok(again) = digester.prepare("", normal) {
        assert_eq!(again.input(), normal, "the normal form of {url:?}");
        assert!(again.input_hash() == prepared.input_hash());
    } else {
        assert!(normal.len() > url.len(), "{url:?} has a normal form that is no URL: {normal:?}");
    }
    prepared.candidate(0);
}

fn try_layout(text: &str, id: u64) {
    let Ok(layout) = Layout::parse(text) else { return };
    assert_eq!(Layout::parse(&layout.to_string()), Ok(layout));
    if let Some(fields) = layout.fields(id) {
        assert_eq!(layout.id(fields), id);
        let (first, last) = layout.bounds(fields.tick..fields.tick + 1).expect("it has a tick");
        assert!((first..=last).contains(&id));
    }
}

fn explain(space: &str, key: &str) {
    world::enter(async |world| {
        let explained = world.service.explain(space, key).await.expect("any text is explained");
        assert!(!explained.reason.is_empty());
        false
    });
}

fn import(space: &str, into: ImportInto, pieces: &[Vec<u8>]) {
    world::enter(async |world| {
        let mut import = Import::new(&world.service, space, into, 100);
        let lines = async {
            for piece in pieces {
                import.push(piece).await?;
            }
            import.finish().await?;
            Ok::<_, ServiceError>(import.tell())
        };
        match lines.await {
            Ok(report) => assert!(report.refused.iter().all(|(_, reason)| !reason.is_empty())),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        false
    });
}
