//! A proxy in front of a server, as many of them stand behind one.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use crate::connection::Connection;
use crate::deadline::wait_until;
use crate::process::Process;

/// Where programs for administrators lie, which is not on everybody's path.
const ADMINISTRATORS_FOLDERS: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

/// Whether a proxy reads a request whole before it sends it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestBuffering {
    /// It does, and says then how long the body is.
    On,
    /// It sends on what comes as it comes, chunks as chunks.
    Off,
}

/// An nginx that sends all requests to one server, over as few connections as it can: clients share them.
/// It and its folder are gone when this is dropped.
#[derive(Debug)]
pub struct Nginx {
    process: Process,
    address: SocketAddr,
    /// Holds the port, on which it never listens itself.
    _port: Socket,
    _folder: TempDir,
}

impl Nginx {
    /// Starts one in front of this server. It lets everything pass that it can be told to.
    ///
    /// # Panics
    ///
    /// When there is no nginx on this machine, or it does not start.
    #[must_use]
    #[track_caller]
    pub fn in_front_of(server: SocketAddr, request_buffering: RequestBuffering) -> Self {
        Self::start(server, "1.1", request_buffering)
    }

    /// As [`Nginx::in_front_of`], but speaks HTTP/1.0 to the server, as nginx does unless it is told otherwise.
    ///
    /// # Panics
    ///
    /// As [`Nginx::in_front_of`].
    #[must_use]
    #[track_caller]
    pub fn speaking_http_1_0_to(server: SocketAddr) -> Self {
        Self::start(server, "1.0", RequestBuffering::On)
    }

    #[track_caller]
    fn start(server: SocketAddr, http_version: &str, request_buffering: RequestBuffering) -> Self {
        let (port, address) = hold_port();
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("nginx.conf");
        let configuration = configuration(address, server, http_version, request_buffering);
        fs::write(&path, configuration).expect("it is written");
        let mut command = Command::new(program());
        // What it says before it has read the configuration would go to a file of the system's.
        command.args(["-e", "stderr"]).arg("-c").arg(&path).arg("-p").arg(folder.path());
        let mut process = Process::spawn(command.env_remove("NGINX").stdin(Stdio::null()));
        wait_until("nginx to listen", || {
            assert!(process.is_running(), "nginx has ended: {}", process.stderr());
            Connection::try_open(address).is_ok()
        });
        Self { process, address, _port: port, _folder: folder }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection to it.
    #[must_use]
    #[track_caller]
    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }
}

/// A free port that nobody else gets, and that a process of the same user may listen on.
fn hold_port() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket can be made");
    socket.set_reuse_port(true).expect("a port can be shared");
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a port is free");
    let address = socket.local_addr().expect("it has an address");
    let address = address.as_socket().expect("it is one of the internet");
    (socket, address)
}

/// Where the program is.
fn program() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(ADMINISTRATORS_FOLDERS.map(PathBuf::from));
    let mut programs = folders.map(|folder| folder.join("nginx"));
    let program = programs.find(|program| program.is_file());
    program
        .expect("install nginx (Debian package nginx-light), or run `cargo xtask test`, which does")
}

/// Paths in it are under the folder that nginx is started with. It is one process, which ends with its
/// parent's signal, and remains the user that it is started by.
fn configuration(
    address: SocketAddr,
    server: SocketAddr,
    http_version: &str,
    request_buffering: RequestBuffering,
) -> String {
    let request_buffering = match request_buffering {
        RequestBuffering::On => "on",
        RequestBuffering::Off => "off",
    };
    format!(
        "daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {{
    worker_connections 64;
}}
http {{
    access_log off;
    client_body_temp_path client_body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    ignore_invalid_headers off;
    underscores_in_headers on;
    large_client_header_buffers 4 256k;
    client_max_body_size 0;
    upstream server {{
        server {server};
        keepalive 1;
    }}
    server {{
        listen {address} reuseport;
        location / {{
            proxy_pass http://server;
            proxy_http_version {http_version};
            proxy_request_buffering {request_buffering};
            proxy_set_header Connection \"\";
            proxy_set_header Host $http_host;
            proxy_set_header Upgrade $http_upgrade;
        }}
    }}
}}
"
    )
}
