//! A proxy in front of a server.

use std::env;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use crate::connection::Connection;
use crate::process::Process;
use crate::wait_until;

/// Folders of administrators' programs. Not every PATH has them.
const ADMINISTRATORS_FOLDERS: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

/// An nginx whose clients share few connections to the server. Dropping this ends it and removes its folder.
#[derive(Debug)]
pub struct Nginx {
    process: Process,
    address: SocketAddr,
    /// Reserves the port without listening.
    _port: Socket,
    _folder: TempDir,
}

impl Nginx {
    /// Starts a proxy in front of this server, as permissive as nginx can be. `lines` configure the requests to the
    /// server.
    #[track_caller]
    pub fn in_front_of(server: SocketAddr, lines: &str) -> Self {
        let (port, address) = hold_port();
        Self::start(port, address, &proxy(address, server, lines))
    }

    /// Starts a proxy in front of this server with the default settings of nginx.
    #[track_caller]
    pub fn by_default(server: SocketAddr) -> Self {
        let (port, address) = hold_port();
        let location = format!("location / {{ proxy_pass http://{server}; }}");
        Self::start(port, address, &format!("server {{ listen {address} reuseport; {location} }}"))
    }

    /// Starts a proxy as a document shows it: `upstream` is the block of the servers, `server` that of the proxy.
    /// `servers` replace the documented addresses, and clients need no TLS.
    #[track_caller]
    pub fn as_documented(upstream: &str, server: &str, servers: &[String]) -> Self {
        let (port, address) = hold_port();
        let mut addresses = servers.iter();
        let upstream =
            upstream.lines().map(|line| match line.trim_start().strip_prefix("server ") {
                Some(rest) => {
                    let parameters =
                        rest.trim_end_matches(';').split_once(' ').unwrap_or_default().1;
                    let address = addresses.next().expect("no more servers than addresses");
                    format!("server {address} {parameters};")
                }
                None => line.to_owned(),
            });
        let upstream: Vec<String> = upstream.collect();
        assert_eq!(addresses.next(), None, "more addresses than servers");
        let server = server.lines().map(|line| match line.trim_start().split(' ').next() {
            Some("listen") => format!("listen {address} reuseport;"),
            Some("ssl_certificate" | "ssl_certificate_key") => String::new(),
            _ => line.to_owned(),
        });
        let blocks: Vec<String> = upstream.into_iter().chain(server).collect();
        Self::start(port, address, &blocks.join("\n"))
    }

    #[track_caller]
    fn start(port: Socket, address: SocketAddr, blocks: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("nginx.conf");
        fs::write(&path, configuration(blocks)).expect("a file can be written");
        let mut command = Command::new(program());
        // Until nginx has read the configuration, it would log to a file of the system.
        command.args(["-e", "stderr"]).arg("-c").arg(&path).arg("-p").arg(folder.path());
        let mut process = Process::spawn(command.env_remove("NGINX").stdin(Stdio::null()));
        wait_until("nginx to listen", || {
            assert!(process.is_running(), "nginx has ended: {}", process.stderr());
            Connection::try_open(address).is_ok()
        });
        Self { process, address, _port: port, _folder: folder }
    }

    /// The address of the proxy.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Like [`Self::connect`].
    pub fn try_connect(&self) -> io::Result<Connection> {
        Connection::try_open(self.address)
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }
}

/// Reserves a free port: while the socket exists, only a process of the same user may listen on the port.
pub fn hold_port() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket can be made");
    socket.set_reuse_address(true).expect("a port can be shared");
    socket.set_reuse_port(true).expect("a port can be shared");
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a port is free");
    let address = socket.local_addr().expect("the socket has an address");
    let address = address.as_socket().expect("the socket has an IP address");
    (socket, address)
}

fn program() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(ADMINISTRATORS_FOLDERS.map(PathBuf::from));
    let mut programs = folders.map(|folder| folder.join("nginx"));
    let program = programs.find(|program| program.is_file());
    program
        .expect("install nginx (Debian package nginx-light), or run `cargo xtask test`, which does")
}

/// A configuration with which nginx is one process, runs as this user, and writes only to its folder.
fn configuration(blocks: &str) -> String {
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
    {blocks}
}}
"
    )
}

/// The blocks of a proxy at this address. `lines` configure the requests to the server.
fn proxy(address: SocketAddr, server: SocketAddr, lines: &str) -> String {
    format!(
        "
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
            {lines}
        }}
    }}
"
    )
}
