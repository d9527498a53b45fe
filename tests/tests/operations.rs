//! What `docs/operations.md` shows works as it stands there.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use plantd_tests::{Launch, TestServer, edit_database, key_of_plant, program, write_tokens_file};

/// How many plants there are in the folder that gets damaged. One of them cannot be saved.
const DAMAGED_PLANTS: usize = 20;

/// A folder that no server starts on.
fn make_damaged_folder(data: &Path) {
    let launch = Launch::new().without_environment("PLANTD_TOKEN");
    let mut server = TestServer::start_prepared(launch, "plantd-data", write_tokens_file);
    let client = server.client().with_token("writer");
    for id in 100..100 + DAMAGED_PLANTS {
        client.create(i64::try_from(id).expect("small"), "Rosa", None).assert_plant("Rosa", None);
    }
    assert_eq!(server.terminate().code(), Some(0));
    let copied = Command::new("cp").arg("-a").args([server.data(), data]).status();
    assert!(copied.expect("cp runs").success(), "it was copied");
    edit_database(data, |db| {
        db.insert(key_of_plant(107), b"\x01").expect("writes");
    });
    let mut refused = Launch::new().data(data).spawn();
    assert_eq!(refused.wait_for_exit().code(), Some(74), "{}", refused.stderr());
}

/// The commands of a document: the lines of its blocks in `sh`.
fn commands(document: &str) -> String {
    let mut commands = String::new();
    let mut is_command = false;
    for line in document.lines() {
        match line {
            "```sh" => is_command = true,
            "```" => is_command = false,
            _ if is_command => {
                commands.push_str(line);
                commands.push('\n');
            }
            _ => {}
        }
    }
    commands
}

/// An address that nobody listens at.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").to_string()
}

#[test]
fn the_backup_is_taken_while_the_server_runs_and_restored_as_the_document_shows() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    let commands = commands(&fs::read_to_string(document).expect("the document is there"));
    assert!(commands.contains("plantd export") && commands.contains("plantd import"));

    let launch = Launch::new().without_environment("PLANTD_TOKEN");
    let server = TestServer::start_prepared(launch, "plantd-data", write_tokens_file);
    let client = server.client().with_token("writer");
    for (id, name) in [(-1, "Rosa"), (0, " \"Salix\", alba "), (i64::MAX, "木")] {
        client.create(id, name, Some(name)).assert_plant(name, Some(name));
    }
    let folder = server.data().parent().expect("a folder");
    fs::write(folder.join("token"), "writer\n").expect("writes");

    make_damaged_folder(&folder.join("damaged"));

    // The ports of the document may be in use here.
    let script = commands
        .replace("127.0.0.1:8080", &server.address().to_string())
        .replace("127.0.0.1:8081", &free_address())
        .replace("127.0.0.1:8082", &free_address());
    let program_folder = program().parent().expect("a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(
        std::iter::once(program_folder.to_owned()).chain(std::env::split_paths(&path)),
    );
    // No server stays behind where a command fails.
    let script = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}");
    let output = Command::new("sh")
        .args(["-euxc", &script])
        .current_dir(folder)
        .env("PATH", path.expect("a search path"))
        .env_remove("PLANTD_TOKEN")
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let restored = fs::read_to_string(folder.join("restored.ndjson")).expect("it was exported");
    assert_eq!(restored.lines().count(), 3, "{restored}");
    let tokens = |data: &str| fs::read(folder.join(data).join("tokens.json")).expect("reads");
    assert_eq!(tokens("restored"), tokens("plantd-data"));

    let saved = fs::read_to_string(folder.join("saved.ndjson")).expect("it was exported");
    assert_eq!(saved.lines().count(), DAMAGED_PLANTS - 1, "{saved}");
}
