//! strace as the witness: a lease is synced to disk before the first key made of it leaves.

use std::process::Command;

use keymill_proof::{Client, Deployment, ServerSpec, binary};

#[test]
fn a_lease_is_synced_to_disk_before_its_first_key_leaves() {
    if Command::new("strace").arg("-V").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "strace must be there in CI");
        eprintln!("NO STRACE: install it to see the order of syncs and answers");
        return;
    }
    let deployment = Deployment::sqlite();
    let trace = deployment.path("trace");
    let plain = deployment.server("d0");
    let mut args: Vec<String> =
        ["-f", "-D", "-y", "-qq", "-s", "256", "-o"].map(str::to_owned).into();
    args.push(trace.display().to_string());
    args.extend(["-e", "trace=pwrite64,fsync,fdatasync,sendto,write,writev"].map(str::to_owned));
    args.push(binary("keymill").display().to_string());
    args.extend(plain.args);
    let mut server = ServerSpec { binary: "strace".into(), args, ..plain }.start();
    let key = Client::new(server.address()).get("/get-key").unwrap().text().to_owned();
    server.stop();

    let trace = std::fs::read_to_string(&trace).unwrap();
    let lines: Vec<&str> = trace.lines().collect();
    let answered = lines.iter().position(|line| line.contains(&key));
    let answered = answered.unwrap_or_else(|| panic!("{key} is not in the trace\n{trace}"));
    let last = |call: &str, file: &str| {
        lines[..answered]
            .iter()
            .rposition(|line| line.contains(call) && line.contains(file))
            .unwrap_or_else(|| panic!("no {call} of {file} before the key\n{trace}"))
    };
    let written = last("pwrite64(", "keymill.db-wal>");
    let synced = last("sync(", "keymill.db-wal>");
    assert!(written < synced, "the lease was written after the last sync");
    let floor = last("sync(", "floors.log>");
    assert!(synced < floor, "the floor was written before the lease was safe");
    println!("written at line {written}, synced at {synced}, floor at {floor}, key at {answered}");
}
