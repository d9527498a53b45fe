//! The commands in `docs/operations.md` work as shown.

use std::fs;
use std::path::Path;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use plantd_tests::{
    Answer, Client, Document, Launch, Shell, TestServer, copy_folder, printed, wait_until,
    write_tokens_file,
};

/// The heading of the part that has its own test.
const TOKENS: &str = "Tokens";

/// How many plants are in the folder before one of them is damaged.
const DAMAGED_PLANTS: usize = 1_000;

/// Makes a damaged data folder, on which no server starts.
fn make_damaged_folder(data: &Path) {
    let launch = Launch::new().without_environment("PLANTD_TOKEN");
    let mut server = TestServer::start_prepared(launch, "plantd-data", write_tokens_file);
    let client = server.client().with_token("writer");
    for id in 100..100 + DAMAGED_PLANTS {
        let (name, id) = (format!("Rosa {id}"), i64::try_from(id).expect("small"));
        client.create(id, &name, None).assert_plant(&name, None);
    }
    assert_eq!(server.terminate().code(), Some(0));
    copy_folder(server.data(), data);
    let table = data.join("plants/tables/000000000001/db");
    let mut bytes = fs::read(&table).expect("reads");
    let name = b"Rosa 500";
    // The log of sled has it more than once.
    for place in 0..bytes.len() - name.len() {
        if bytes[place..].starts_with(name) {
            bytes[place] ^= 1;
        }
    }
    fs::write(&table, bytes).expect("writes");
    let mut refused = Launch::new().data(data).spawn();
    assert_eq!(refused.wait_for_exit().code(), Some(74), "{}", refused.stderr());
}

fn document() -> Document {
    Document::read("docs/operations.md")
}

#[test]
fn the_backup_is_taken_while_the_server_runs_and_restored_as_the_document_shows() {
    let document = document();
    let parts = document.parts().iter().filter(|part| part.heading() != TOKENS);
    let commands = parts.flat_map(|part| part.blocks("sh")).collect::<Vec<_>>().join("\n");
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

    Shell::new(folder, server.address()).run(&commands);

    let restored = fs::read_to_string(folder.join("restored.ndjson")).expect("it was exported");
    assert_eq!(restored.lines().count(), 3, "{restored}");
    let tokens = |data: &str| fs::read(folder.join(data).join("tokens.json")).expect("reads");
    assert_eq!(tokens("restored"), tokens("plantd-data"));

    let saved = fs::read_to_string(folder.join("saved.ndjson")).expect("it was exported");
    let saved = saved.lines().count();
    assert!((DAMAGED_PLANTS / 2..DAMAGED_PLANTS).contains(&saved), "{saved} plants were saved");
}

#[test]
fn the_table_of_exit_codes_has_every_code_of_the_help() {
    let help = printed(&["--help"]);
    let (_, list) = help.split_once("Exit codes:\n").expect("a list of exit codes");
    let first_words = list.lines().filter_map(|line| line.split_whitespace().next());
    let codes: Vec<&str> =
        first_words.filter(|word| word.chars().all(|c| c.is_ascii_digit())).collect();
    assert!(codes.contains(&"0"), "{help}");
    let table = document().part("Exit codes").table();
    for code in codes {
        assert!(table.iter().any(|row| row[0] == code), "the table lacks {code}");
    }
}

/// Creates plants with the token that the file holds at each request, and counts them, until a request is refused.
/// Returns that refusal.
fn keep_creating(
    client: &Client,
    token_file: &Path,
    first_id: i64,
    created: &AtomicI64,
    is_over: &AtomicBool,
) -> Option<Answer> {
    while !is_over.load(Ordering::Relaxed) {
        let token = fs::read_to_string(token_file).expect("the file is there all the time");
        let id = first_id + created.load(Ordering::Relaxed);
        let answer = client.with_token(token.trim_end()).create(id, "Rosa", None);
        if answer.status != 200 {
            return Some(answer);
        }
        created.fetch_add(1, Ordering::Relaxed);
    }
    None
}

#[test]
fn a_token_is_changed_under_load_as_the_document_shows_and_no_good_request_is_refused() {
    const CLIENTS: usize = 8;
    /// How many requests of each client are answered between two steps at least.
    const REQUESTS: i64 = 20;
    let blocks = document().part(TOKENS).blocks("sh");
    let [make, change, revoke] = <[String; 3]>::try_from(blocks).expect("three steps");

    let launch = Launch::new().without_environment("PLANTD_TOKEN");
    let server = TestServer::start_prepared(launch, "plantd-data", write_tokens_file);
    let folder = server.data().parent().expect("a folder");
    let token_file = folder.join("token");
    let shell = Shell::new(folder, server.address());
    shell.run(&make);
    let old = fs::read_to_string(&token_file).expect("it was made");
    let old = server.client().with_token(old.trim_end());

    let is_over = AtomicBool::new(false);
    let created: [AtomicI64; CLIENTS] = std::array::from_fn(|_| AtomicI64::new(0));
    let refused: Vec<Answer> = thread::scope(|scope| {
        let clients: Vec<_> = (0..)
            .zip(&created)
            .map(|(number, created)| {
                // Each has its own connections.
                let client = Client::new(server.address(), None);
                let (token_file, is_over) = (&token_file, &is_over);
                let first_id = number * 1_000_000;
                scope.spawn(move || keep_creating(&client, token_file, first_id, created, is_over))
            })
            .collect();
        let go_on = || {
            let before = created.each_ref().map(|created| created.load(Ordering::Relaxed));
            wait_until("each client to go on", || {
                let is_refused = clients.iter().any(|client| client.is_finished());
                let goes_on = |(created, before): (&AtomicI64, &i64)| {
                    created.load(Ordering::Relaxed) >= before + REQUESTS
                };
                is_refused || created.iter().zip(&before).all(goes_on)
            });
        };
        go_on();
        shell.run(&change);
        go_on();
        shell.run(&revoke);
        wait_until("the old token to be refused", || old.read(-1).status == 401);
        go_on();
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().filter_map(|client| client.join().expect("it ends")).collect()
    });
    assert_eq!(refused, [], "good requests were refused");
    let log = server.stderr();
    for name in ["token=app-1 ", "token=app-2 "] {
        assert!(log.contains(name), "{name}was not used: {log}");
    }
}
