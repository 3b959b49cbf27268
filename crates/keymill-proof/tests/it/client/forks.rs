//! A fork while a cache has keys: no process hands out a key of another.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use keymill_proof::{Deployment, Received, binary};

use super::url;

#[test]
fn parent_child_and_grandchild_never_hand_out_the_same_key() {
    let deployment = Deployment::sqlite();
    let server = deployment.start("d0");
    let mut program = Command::new(binary("forked"));
    program.args([&url(&server), "default"]).arg(deployment.folder());
    let mut program = program.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = loop {
        match program.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            None => {
                program.kill().unwrap();
                panic!("a process hangs: it uses something of another");
            }
        }
    };
    assert!(status.success(), "{status}");
    let mut received = Received::default();
    for process in ["parent", "child", "child-later", "grandchild"] {
        let keys = fs::read_to_string(deployment.path(process)).unwrap();
        assert_eq!(keys.lines().count(), 310, "{process}");
        keys.lines().for_each(|key| received.add_key(key));
    }
    assert_eq!(received.len(), 4 * 310);
}
