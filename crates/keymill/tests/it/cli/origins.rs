//! Where settings come from, and those that are none.

use serde_json::{Value, json};

use super::{Place, failed, stderr};

const FILE: &str = "default_space = \"links\"\n\n[limits]\ncount_max = 7\nthreads = 1\n\n[spaces.links]\nlength = 8\n\n[spaces.plain]\n";
const STORE: &str = "postgres://me:hidden@db/keymill?password=hidden";

/// A place with a file, a variable and a flag.
fn shown(place: &Place, args: &[&str]) -> String {
    std::fs::write(place.path().join("keymill.toml"), FILE).unwrap();
    let all = [&["config", "show", "--store", STORE][..], args].concat();
    let mut command = place.command(&all);
    command.env("KEYMILL_LIMITS_THREADS", "3").env("KEYMILL_SECRET", "hidden ".repeat(8));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("hidden"), "{text}");
    text
}

#[test]
fn config_show_says_which_file_was_read_and_where_each_value_comes_from() {
    let place = Place::new();
    let text = shown(&place, &[]);
    let folder = place.path().canonicalize().unwrap();
    let file = format!("# Settings file: {}\n", folder.join("keymill.toml").display());
    assert!(text.starts_with(&file), "{text}");
    for (setting, origin) in [
        ("listen = \"127.0.0.1:8080\"", "default"),
        ("default_space = \"links\"", "file"),
        ("count_max = 7", "file"),
        ("threads = 3", "variable KEYMILL_LIMITS_THREADS"),
        ("store = \"postgres://me:***@db/keymill?password=***\"", "flag --store"),
        ("data_dir = ", "variable XDG_DATA_HOME"),
        ("length = 8", "file"),
        ("idle_seconds = 75.0", "default"),
    ] {
        let line = text.lines().find(|line| line.starts_with(setting));
        let line = line.unwrap_or_else(|| panic!("{setting} is not in {text}"));
        assert!(line.ends_with(&format!(" # {origin}")), "{line}");
    }
    assert!(text.contains("# Secret: from the variable KEYMILL_SECRET"), "{text}");
}

#[test]
fn what_config_show_prints_is_a_settings_file() {
    let place = Place::new();
    let text = shown(&place, &[]);
    std::fs::write(place.path().join("again.toml"), &text).unwrap();
    let again = place.ok(&["config", "show", "--config", "again.toml"]);
    let values = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split(" # ").next().unwrap().trim_end().to_owned()).collect()
    };
    assert_eq!(values(&again), values(&text));
    assert!(text.contains("\n[spaces.plain]\n"), "a keyspace with all defaults is one too: {text}");
}

#[test]
fn config_show_has_origins_for_programs_too() {
    let place = Place::new();
    let shown: Value = serde_json::from_str(&shown(&place, &["--json"])).unwrap();
    let file = place.path().canonicalize().unwrap().join("keymill.toml");
    assert_eq!(shown["file"], json!(file));
    assert_eq!(shown["secret"], json!({"origin": "variable", "name": "KEYMILL_SECRET"}));
    let settings = &shown["settings"];
    assert_eq!(settings["limits.count_max"], json!({"value": 7, "origin": "file"}));
    let threads = json!({"value": 3, "origin": "variable", "name": "KEYMILL_LIMITS_THREADS"});
    assert_eq!(settings["limits.threads"], threads);
    assert_eq!(settings["store"]["name"], json!("--store"));
    assert_eq!(settings["log.level"], json!({"value": "info", "origin": "default"}));
    place.fails(&["config", "show", "--json", "--default"], 2, "cannot be used with");
}

#[test]
fn config_show_says_that_there_is_no_file() {
    let place = Place::new();
    let text = place.ok(&["config", "show"]);
    assert!(text.starts_with("# Settings file: none."), "{text}");
    let shown: Value = serde_json::from_str(&place.ok(&["config", "show", "--json"])).unwrap();
    assert_eq!((&shown["file"], &shown["secret"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_variable_that_is_no_setting_is_refused_before_anything_is_made() {
    let place = Place::new();
    let with = |args: &[&str], name: &str, value: &str| {
        place.command(args).env(name, value).output().unwrap()
    };
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let commands: [&[&str]; 4] = [&["take"], &serve, &["config", "check"], &["config", "show"]];
    for args in commands {
        let meant = "unknown variable KEYMILL_LISEN; did you mean KEYMILL_LISTEN?";
        failed(&with(args, "KEYMILL_LISEN", "x"), 1, meant);
    }
    assert!(!place.path().join("keymill").exists());
    for (name, value) in [
        ("KEYMILL_TEST_POSTGRES", "x"),
        ("KEYMILL_SERVICE_HOST", "10.0.0.1"),
        ("KEYMILL_PORT", "tcp://10.0.0.1:8080"),
    ] {
        assert!(with(&["take"], name, value).status.success(), "{name}");
    }
}

#[test]
fn a_wrong_value_is_reported_by_the_name_it_was_given_by() {
    let place = Place::new();
    let with =
        |name: &str, value: &str| place.command(&["take"]).env(name, value).output().unwrap();
    let count = with("KEYMILL_LIMITS_COUNT_MAX", "abc");
    failed(&count, 1, "KEYMILL_LIMITS_COUNT_MAX must be a whole number, not `abc`");
    failed(&with("KEYMILL_STORE", "oracle://x"), 1, "KEYMILL_STORE: ");
    place.fails(&["take", "--store", "oracle://x"], 2, "--store: ");
    std::fs::write(place.path().join("keymill.toml"), "\n[limits]\ncoutn_max = 7\n").unwrap();
    let says = "keymill.toml: line 3: unknown setting `coutn_max`; did you mean `count_max`?";
    place.fails(&["take"], 1, says);
}
