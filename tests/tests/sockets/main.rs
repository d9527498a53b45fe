//! Connections over TCP, TLS and Unix sockets, from the first byte to the end of the server.

mod connections;
mod drain;
mod restart;
mod service_manager;
mod tls;
mod transport;
mod unix_socket;
