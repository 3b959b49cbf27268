//! Two servers on two stores over one keyspace: step 2, offsets 0 and 1.

use keymill_proof::{Client, Deployment, Received};

use super::{is_problem, put, take};

const KEYS: u32 = 1_000_000;
const BATCH: u32 = 50_000;

#[test]
fn sequential_spaces_with_different_offsets_never_overlap() {
    check(r#""kind": "sequential", "alphabet": "base62", "length": 7"#);
}

#[test]
fn shuffled_spaces_with_one_secret_never_overlap() {
    check(r#""kind": "shuffled", "alphabet": "base62", "length": 7"#);
}

fn check(definition: &str) {
    let mut received = Received::default();
    for offset in 0..2 {
        let deployment = Deployment::sqlite();
        let spec = deployment
            .server("d0")
            .env("KEYMILL_SECRET", "the one secret that both of the stores are given");
        let server = spec.arg("--new-store").start();
        put(&server, "both", &format!(r#"{{{definition}, "step": 2, "offset": {offset}}}"#));
        let mut client = Client::new(server.address());
        for _ in 0..KEYS / BATCH {
            received.add(&client.take("both", BATCH).unwrap());
        }
    }
    assert_eq!(received.len(), 2 * KEYS as usize);
    println!("{} keys from two stores, no overlap", received.len());
}

#[test]
fn a_shuffled_space_with_a_step_is_refused_on_a_made_up_secret() {
    let deployment = Deployment::sqlite();
    let server = deployment.start("d0");
    let mut client = Client::new(server.address());
    let answer = client.put_space("both", r#"{"step": 2, "offset": 1}"#).unwrap();
    is_problem(&answer, 400, "bad_definition");
    assert!(answer.text().contains("KEYMILL_SECRET"), "{}", answer.text());
    is_problem(&take(&server, "both", 1), 404, "unknown_space");
}
