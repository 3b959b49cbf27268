//! `keymill bench` finds duplicates: it passes a true server, and fails a faulty twin.

use std::process::Command;

use keymill_proof::{Deployment, Server, ServerSpec, binary};

/// The faulty twin repeats a key at the 537,051st.
const KEYS: u64 = 1_000_000;

#[test]
fn a_bench_finds_the_duplicates_of_a_faulty_twin() {
    let deployment = Deployment::sqlite();
    let spec = deployment.server("faulty").arg("--fault").arg("splitmix");
    let faulty = ServerSpec { binary: binary("faulty"), ..spec }.start();
    let (code, report) = bench(&faulty);
    assert_eq!(code, Some(1), "{report:#}");
    let keys = &report["keys"];
    let [received, unique, duplicated] =
        ["received", "unique", "duplicated"].map(|it| super::number(&keys[it]));
    assert_eq!((received, unique + duplicated), (KEYS, KEYS));
    assert!((1..100).contains(&duplicated), "{report:#}");
    assert_eq!(keys["samples"][0]["times"], 2, "{report:#}");
}

#[test]
fn a_bench_passes_a_true_server() {
    let server = Deployment::sqlite();
    let (code, report) = bench(&server.start("true"));
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(report["keys"]["unique"], KEYS);
}

/// Takes keys, more than fit into its memory.
fn bench(server: &Server) -> (Option<i32>, serde_json::Value) {
    let url = format!("http://{}", server.address());
    let keys = KEYS.to_string();
    let output = Command::new(binary("keymill"))
        .args(["bench", &url, "--count", "5000", "--connections", "8", "--keys", &keys])
        .args(["--memory", "16MB", "--failures", "0%", "--json"])
        .output()
        .unwrap();
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), report)
}
