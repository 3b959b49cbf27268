//! A private nginx in front of instances, as a load balancer with kept-alive connections.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use tempfile::TempDir;

use super::{Missing, Processes, await_ready, folder, free_port, program};

/// An nginx that spreads requests over instances of keymill.
#[derive(Debug)]
pub struct Nginx {
    address: SocketAddr,
    // Ended before its folder is removed.
    _processes: Processes,
    folder: TempDir,
}

impl Nginx {
    /// One in front of these. It repeats no POST that it has sent, as is its default.
    pub fn start(instances: &[SocketAddr]) -> Result<Nginx, Missing> {
        let program = program("nginx")?;
        let folder = folder();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let config = folder.path().join("nginx.conf");
        fs::write(&config, configuration(address, instances)).expect("its folder is writable");
        let log = folder.path().join("nginx.log");
        let mut command = Command::new(program);
        command.arg("-p").arg(folder.path()).arg("-c").arg(&config).arg("-e").arg(&log);
        let mut processes = Processes::none();
        processes.start(&mut command, &log);
        await_ready("nginx", &log, || TcpStream::connect(address).is_ok());
        Ok(Nginx { address, _processes: processes, folder })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it complained of.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("nginx.log")).unwrap_or_default()
    }
}

fn configuration(address: SocketAddr, instances: &[SocketAddr]) -> String {
    // One refused connection must not take an instance out for ten seconds: the other may be the
    // next to be restarted.
    let servers: String =
        instances.iter().map(|instance| format!("server {instance} max_fails=0;\n")).collect();
    let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {name};\n"))
        .concat();
    format!(
        "user root;\n\
         daemon off;\n\
         worker_processes 1;\n\
         pid nginx.pid;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
         access_log off;\n\
         {folders}\
         keepalive_requests 1000000;\n\
         upstream keymill {{\n\
         {servers}\
         keepalive 64;\n\
         keepalive_requests 1000000;\n\
         }}\n\
         server {{\n\
         listen {address};\n\
         location / {{\n\
         proxy_pass http://keymill;\n\
         proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\";\n\
         proxy_set_header Host localhost;\n\
         }}\n\
         }}\n\
         }}\n"
    )
}
