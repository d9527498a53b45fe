//! Programs outside the workspace that mount the service, or serve it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use plantd_tests::{
    Client, Connection, Process, TOKEN, cargo, plant_body, repository, run_tool, temporary_folder,
};

/// A program of the folder `examples`.
fn program(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let workspace = repository("").canonicalize().expect("the workspace is there");
        let folder = workspace.join("examples");
        // The versions of the workspace, so that cargo need not fetch anything.
        fs::copy(workspace.join("Cargo.lock"), folder.join("Cargo.lock")).expect("it is copied");
        let mut build = cargo();
        build.current_dir(&folder).args(["build", "--offline", "--target-dir"]);
        build.arg(workspace.join("target"));
        // The profile of the workspace, so that its built dependencies are used. Only our crates are built anew, with
        // other features, and optimizing them would take longest.
        build.args(["--config", "../Cargo.toml"]);
        for name in ["plant-domain", "plant-store"] {
            build.arg("--config").arg(format!("profile.dev.package.{name}.opt-level=0"));
        }
        run_tool(&mut build);
        workspace.join("target/debug")
    });
    built.join(name)
}

/// Starts one of the programs, and finds where it listens.
fn start(name: &str, data: &Path) -> (Process, SocketAddr) {
    let mut command = Command::new(program(name));
    command.env("GARDEN_TOKEN", TOKEN).env("GARDEN_LISTEN", "127.0.0.1:0");
    let mut process = Process::spawn(command.env("GARDEN_DATA", data));
    let line = process.first_line();
    let address = line.strip_prefix("listening on http://").expect("it says where");
    (process, address.parse().expect("an address"))
}

/// The head of a request, without a token unless one is among the lines.
fn head(request_line: &str, lines: &str) -> String {
    format!("{request_line} HTTP/1.1\r\nHost: garden\r\n{lines}\r\n")
}

/// `mounted.rs` of plant-http has the paths, links and refusals of a mount in detail.
#[test]
fn a_program_mounts_the_service_beside_a_route_of_its_own() {
    let folder = temporary_folder();
    let (_process, address) = start("mount", &folder.path().join("plants"));
    let ask = |request_line: &str, lines: &str, body: &str| {
        let mut connection = Connection::open(address);
        let length = body.len();
        connection.send(head(request_line, &format!("{lines}Content-Length: {length}\r\n")) + body);
        connection.receive()
    };
    assert_eq!(ask("GET /", "", "").body, b"The plants are in /garden/plants.\n");
    for path in ["/elsewhere", "/gardens", "/livez"] {
        assert_eq!(ask(&format!("GET {path}"), "", "").status, 404, "{path} is the program's own");
    }
    for open in ["/", "/livez", "/readyz", "/openapi.json", "/docs"] {
        assert_eq!(ask(&format!("GET /garden{open}"), "", "").status, 200, "{open}");
    }

    // 401 comes before 404 and 405, and before the body is read.
    for path in ["", "/", "/plants", "/plants/7", "/nothing", "/plants/7/more", "/livez/"] {
        let without = ask(&format!("PUT /garden{path}"), "", "");
        without.assert_error(401, 2001);
        assert!(without.header("x-request-id").is_some(), "{path}");
    }
    let mut connection = Connection::open(address);
    let lines_of_body = "Content-Type: application/json\r\nContent-Length: 100\r\n";
    connection.send(head("POST /garden/plants", lines_of_body));
    assert_eq!(connection.receive().status, 401, "it waits for the body");

    let lines = format!("Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n");
    let message = ask("GET /garden/nothing", &lines, "").assert_error(404, 4004);
    assert!(message.contains("plants are at /garden/plants"), "{message}");
    ask("PUT /garden/plants", &lines, "").assert_error(405, 4005);
    let created = ask("POST /garden/plants", &lines, &plant_body(7, "Rosa", None));
    assert_eq!((created.status, created.header("location")), (200, Some("/garden/plants/7")));
    let exported = ask("GET /garden/plants/export", &lines, "");
    assert_eq!(exported.body, b"{\"id\":7,\"name\":\"Rosa\"}\n");
}

#[test]
fn a_program_serves_plants_in_a_folder_and_ends_in_order() {
    let folder = temporary_folder();
    let data = folder.path().join("plants");
    let (mut process, address) = start("serve", &data);
    let client = Client::new(address, Some(TOKEN));
    client.create(7, "Rosa", None).assert_plant("Rosa", None);
    process.send_terminate();
    assert!(process.wait_for_exit().success(), "{}", process.stderr());

    let (_process, address) = start("serve", &data);
    let client = Client::new(address, Some(TOKEN));
    client.read(7).assert_new_plant(7, "Rosa", None);
    assert_eq!(client.without_token().get("/plants").status, 401);
}
