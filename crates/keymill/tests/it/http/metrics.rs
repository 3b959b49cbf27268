//! `/metrics`: both formats are valid, every figure is described, and ten thousand keyspaces do not make it endless.

use std::collections::{BTreeMap, BTreeSet};

use keymill::front::http::Http;
use keymill::server::{self, ServerLimits};
use keymill_engine::space::SpaceSpec;
use serde_json::json;
use tokio::net::TcpListener;

use super::Instance;

const OPEN: &str = "accept: application/openmetrics-text; version=1.0.0\r\n";

/// A family of metrics, as its lines say.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    help: String,
    unit: String,
    /// The lines: what they begin with, their labels and their value.
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

#[tokio::test]
async fn both_formats_have_the_same_figures_and_keep_their_rules() {
    let instance = busy().await;
    let prometheus = instance.call("GET", "/metrics").await;
    assert!(prometheus.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    let open = instance.send("GET", "/metrics", OPEN, "").await;
    let open_type = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(open.head.contains(open_type), "{}", open.head);
    assert!(open.body.ends_with("\n# EOF\n") && !prometheus.body.contains("# EOF"));
    let (plain, open) = (read(&prometheus.body), read(&open.body));
    let suffix = |kind: &str| match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    };
    let named: BTreeSet<String> =
        open.iter().map(|(name, family)| format!("{name}{}", suffix(&family.kind))).collect();
    assert_eq!(named, plain.keys().cloned().collect(), "the same families in both");
    for (name, family) in &open {
        for unit in ["seconds", "bytes"] {
            assert_eq!(family.unit == unit, name.ends_with(unit), "{name}: {family:?}");
        }
        let ends: &[&str] = match family.kind.as_str() {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            "info" => &["_info"],
            "gauge" => &[""],
            kind => panic!("{name} is a {kind}"),
        };
        for (line, labels, value) in &family.samples {
            let end = line.strip_prefix(name.as_str()).unwrap_or("?");
            assert!(ends.contains(&end), "{line} in {name}");
            assert!(family.kind == "gauge" || *value >= 0.0, "{line} {labels:?} {value}");
        }
        let series: BTreeSet<_> = family.samples.iter().map(|it| (&it.0, &it.1)).collect();
        assert_eq!(series.len(), family.samples.len(), "{name} has a series twice");
        if family.kind == "histogram" {
            adds_up(name, family);
        }
    }
}

/// Buckets rise to the count, which is that of the requests where there is a counter of them.
fn adds_up(name: &str, family: &Family) {
    let mut buckets: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    let mut counts = BTreeMap::new();
    for (line, labels, value) in &family.samples {
        let mut labels = labels.clone();
        match line.strip_prefix(name).unwrap() {
            "_bucket" => {
                let bound = labels.remove("le").unwrap().replace("+Inf", "inf").parse().unwrap();
                buckets.entry(labels).or_default().push((bound, *value));
            }
            "_count" => _ = counts.insert(labels, *value),
            _ => {}
        }
    }
    assert!(!counts.is_empty() && buckets.len() == counts.len(), "{name}: {counts:?}");
    for (labels, buckets) in buckets {
        assert!(buckets.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1), "{buckets:?}");
        let (last, count) = *buckets.last().unwrap();
        assert_eq!((last, count), (f64::INFINITY, counts[&labels]), "{name} {labels:?}");
    }
}

#[tokio::test]
async fn every_request_is_in_the_counter_and_in_the_histogram() {
    let instance = busy().await;
    let families = read(&instance.call("GET", "/metrics").await.body);
    let mut counted: BTreeMap<(String, String), f64> = BTreeMap::new();
    for (_, labels, value) in &families["keymill_requests_total"].samples {
        let pair = (labels["protocol"].clone(), labels["route"].clone());
        *counted.entry(pair).or_default() += value;
    }
    counted.retain(|_, count| *count > 0.0);
    let timed = families["keymill_request_duration_seconds"].samples.iter();
    let timed: BTreeMap<(String, String), f64> = timed
        .filter(|(line, ..)| line.ends_with("_count"))
        .map(|(_, labels, value)| ((labels["protocol"].clone(), labels["route"].clone()), *value))
        .collect();
    assert_eq!(counted, timed);
    assert!(counted.contains_key(&("http1".to_owned(), "take".to_owned())), "{counted:?}");
    let calls = &families["keymill_store_call_duration_seconds"].samples;
    let leases = calls
        .iter()
        .find(|(line, labels, _)| line.ends_with("_count") && labels["operation"] == "lease");
    assert!(leases.unwrap().2 >= 1.0, "{calls:?}");
    let errors = &families["keymill_store_call_errors_total"].samples;
    let refused = errors.iter().find(|(_, labels, _)| {
        (labels["operation"].as_str(), labels["error"].as_str()) == ("space", "refused")
    });
    assert!(refused.unwrap().2 >= 1.0, "a keyspace that does not exist: {errors:?}");
}

#[tokio::test]
async fn pools_forecasts_heartbeats_and_the_process_are_told() {
    let instance = busy().await;
    instance.service.announce("here".to_owned());
    let begin = std::time::Instant::now();
    let families = loop {
        let families = read(&instance.call("GET", "/metrics").await.body);
        let answered = families["keymill_heartbeats_total"].samples.iter();
        if answered.clone().any(|it| it.1["result"] == "answered" && it.2 >= 1.0) {
            break families;
        }
        assert!(begin.elapsed().as_secs() < 20, "no heartbeat: {answered:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let of = |name: &str, space: &str| {
        let mut samples = families[name].samples.iter();
        samples.find(|it| it.1.get("space").is_none_or(|it| it == space)).map(|it| it.2)
    };
    let age = of("keymill_heartbeat_age_seconds", "").unwrap();
    assert!(age < of("keymill_uptime_seconds", "").unwrap(), "{age}");
    // A claim takes an eighth of the pool.
    let pool = of("keymill_pool_keys", "coupons").unwrap();
    assert!((50.0..100.0).contains(&pool), "{pool}");
    assert_eq!(of("keymill_pool_low_water_keys", "coupons"), Some(0.0));
    assert_eq!(of("keymill_pool_keys", "default"), None);
    // A thousand keys of seven characters were leased in what counts as an hour.
    let forecast = of("keymill_used_up_in_seconds", "default").unwrap();
    assert!((1e12..1e14).contains(&forecast), "{forecast}");
    let years = of("keymill_used_up_in_seconds", "ids").unwrap() / (365.25 * 86_400.0);
    assert!((60.0..70.0).contains(&years), "{years}");
    assert_eq!(of("keymill_used_up_in_seconds", "events"), None, "UUIDs are never used up");
    let build = &families["keymill_build_info"].samples[0];
    assert_eq!((build.1["version"].as_str(), build.2), (env!("CARGO_PKG_VERSION"), 1.0));
    assert!(build.1["features"].contains("sqlite"), "{build:?}");
    #[cfg(target_os = "linux")]
    for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
        assert!(of(name, "").unwrap() > 0.0, "{name}");
    }
    for (space, kind) in [("default", "shuffled"), ("events", "uuid"), ("coupons", "pooled")] {
        let mut keys = families["keymill_keys_total"].samples.iter();
        let keys = keys.find(|it| it.1["space"] == space).unwrap();
        assert!(keys.1["kind"] == kind && keys.2 >= 1.0, "{keys:?}");
    }
}

#[tokio::test]
async fn the_page_on_metrics_has_every_metric_and_no_other() {
    let instance = busy().await;
    let written = read(&instance.call("GET", "/metrics").await.body);
    let page = include_str!("../../../../../docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let described: BTreeSet<&str> =
        rows.filter_map(|row| row.split(['`', '{']).next()).filter(|it| it.contains('_')).collect();
    let written: BTreeSet<&str> = written.keys().map(String::as_str).collect();
    assert_eq!(described, written);
}

#[tokio::test]
async fn keyspaces_beyond_the_limit_are_added_up() {
    let instance = Instance::start().await;
    for number in 0..60 {
        let name = format!("s{number:02}");
        instance.service.ensure_space(&name, &SpaceSpec::default()).await.unwrap();
        let space = instance.service.space(&name).await.unwrap();
        while instance.service.take(&space, 1, "", |_| {}).await.is_err() {}
    }
    instance.put("ids", &json!({"kind": "snowflake"})).await;
    while instance.call("POST", "/v1/spaces/ids/keys").await.status != 200 {}
    let families = read(&with_limit(instance, 10).await.call("GET", "/metrics").await.body);
    let value = |name: &str, space: &str| {
        let samples = families[name].samples.iter();
        let values: Vec<f64> = samples
            .filter(|it| it.1.get("space").is_some_and(|it| it == space))
            .map(|it| it.2)
            .collect();
        assert!(!values.is_empty(), "{name} of {space}");
        values.iter().sum::<f64>()
    };
    assert_eq!(families["keymill_spaces"].samples[0].2, 61.0);
    assert_eq!(families["keymill_spaces_left_out"].samples[0].2, 51.0);
    // One each, unless a key was blocked and the next one drawn.
    assert!((51.0..61.0).contains(&value("keymill_keys_total", "*")), "{families:?}");
    assert!(value("keymill_leases_total", "*") >= 50.0);
    assert_eq!(value("keymill_leases_total", "s00"), 1.0, "the first ones have their own");
    // The clock is watched by a keyspace without series of its own.
    assert_eq!(value("keymill_clock_jumps_total", "*"), 0.0);
    // Ten keyspaces, and the others by kind.
    at_most(&families, 12);
}

#[tokio::test]
async fn problems_beyond_the_limit_are_counted() {
    let instance = Instance::start().await;
    for number in 0..12 {
        let space = format!("pool-{number:02}");
        instance.put(&space, &json!({"kind": "pooled"})).await;
        instance.call("POST", &format!("/v1/spaces/{space}/keys")).await;
    }
    let families = read(&with_limit(instance, 10).await.call("GET", "/metrics").await.body);
    let of_code = |name: &str| {
        let samples = families[name].samples.iter();
        samples.filter(|it| it.1["code"] == "pool_empty").map(|it| it.2).collect::<Vec<f64>>()
    };
    assert_eq!(of_code("keymill_problem"), [1.0; 10]);
    assert_eq!(of_code("keymill_problem_spaces"), [12.0]);
}

#[tokio::test]
async fn what_is_told_of_keyspaces_has_an_end_by_default_too() {
    let instance = Instance::start().await;
    for number in 0..1_100 {
        let name = format!("a-name-of-the-usual-length-{number:04}");
        instance.service.ensure_space(&name, &SpaceSpec::default()).await.unwrap();
        instance.service.space(&name).await.unwrap();
    }
    let text = instance.call("GET", "/metrics").await.body;
    let families = read(&text);
    assert_eq!(families["keymill_spaces"].samples[0].2, 1_100.0);
    assert_eq!(families["keymill_spaces_left_out"].samples[0].2, 100.0);
    at_most(&families, 1_001);
    let series: usize = families.values().map(|family| family.samples.len()).sum();
    println!("{series} series, {} bytes", text.len());
    assert!(series < 10_000, "{series} series");
    assert!(text.len() < 1_000_000, "{} bytes", text.len());
}

/// Fails where a family has more series of keyspaces.
#[track_caller]
fn at_most(families: &BTreeMap<String, Family>, max: usize) {
    for (name, family) in families {
        let of_spaces = family.samples.iter().filter(|it| it.1.contains_key("space")).count();
        assert!(of_spaces <= max, "{name} has {of_spaces} series of keyspaces");
    }
}

/// The same instance, at another address, where so many keyspaces have series of their own.
async fn with_limit(instance: Instance, spaces_max: usize) -> Instance {
    let http =
        Http::new(instance.service.clone(), "default", 4_096).with_metrics_spaces_max(spaces_max);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::run(listener, http, ServerLimits::default(), std::future::pending()));
    Instance { address, ..instance }
}

/// An instance that has something to tell of each kind.
async fn busy() -> Instance {
    let instance = Instance::start().await;
    for (space, kind) in [("ids", "snowflake"), ("coupons", "pooled"), ("events", "uuid")] {
        instance.put(space, &json!({"kind": kind})).await;
    }
    let fill = keymill_engine::operations::Filling::Add(100);
    instance.service.fill_pool("coupons", fill, |_, _| {}).await.unwrap();
    for space in ["default", "ids", "coupons", "events"] {
        while instance.call("POST", &format!("/v1/spaces/{space}/keys")).await.status != 200 {}
    }
    instance.call("GET", "/v1/spaces/nope").await.is_problem(404, "unknown_space", "nope");
    instance.call("GET", "/get-key").await;
    instance
}

/// Reads either format, and fails where it breaks the rules that both have.
fn read(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# ") {
            let (word, rest) = rest.split_once(' ').unwrap();
            let (name, value) = rest.split_once(' ').unwrap();
            if current != name {
                assert!(!families.contains_key(name), "{name} is in two places");
                name.clone_into(&mut current);
            }
            let family = families.entry(name.to_owned()).or_default();
            assert!(family.samples.is_empty(), "{line} comes after its values");
            match word {
                "HELP" => value.clone_into(&mut family.help),
                "TYPE" => value.clone_into(&mut family.kind),
                "UNIT" => value.clone_into(&mut family.unit),
                word => panic!("{word}"),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        assert!(name.starts_with(&current), "{line} is not of {current}");
        let labels = labels.strip_suffix('}').unwrap();
        let labels = labels.split_terminator("\",").map(|label| {
            let (name, value) = label.split_once("=\"").unwrap();
            (name.to_owned(), value.trim_end_matches('"').to_owned())
        });
        let sample = (name.to_owned(), labels.collect(), value.parse().unwrap());
        families.get_mut(&current).unwrap().samples.push(sample);
    }
    for (name, family) in &families {
        assert!(!family.help.is_empty() && !family.kind.is_empty(), "{name} is not described");
    }
    families
}
