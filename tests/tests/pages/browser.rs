//! Runs the scripts in `tests/browser`, each in a real browser.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use plantd_tests::{Launch, TOKEN, TestServer, Toolbox, create_token, repository, revoke_token};

/// The variable that asks for the pictures that the scripts can take, in `target/tmp`.
pub(crate) const WRITE_PICTURES: &str = "PLANTD_WRITE_PICTURES";

/// Runs a script in a browser beside a server. The script may give the orders that [`carry_out`] knows.
#[track_caller]
pub(crate) fn run(script: &str, server: &mut TestServer) {
    let tools = Toolbox::node();
    let mut node = tools.command("node");
    node.arg(repository("tests/browser").join(script))
        .env("NODE_PATH", tools.folder().join("node_modules"))
        .env("PLANTS_URL", format!("http://{}", server.address()))
        .env("PLANTS_TOKEN", TOKEN);
    if env::var_os(WRITE_PICTURES).is_some() {
        node.env("PICTURES_FOLDER", env!("CARGO_TARGET_TMPDIR"));
    }
    node.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut node = node.spawn().expect("node starts");
    let mut answers = node.stdin.take().expect("standard input is a pipe");
    let orders = BufReader::new(node.stdout.take().expect("standard output is a pipe"));
    for order in orders.lines() {
        let answer = carry_out(&order.expect("UTF-8"), server);
        writeln!(answers, "{answer}").expect("the script reads the answer");
    }
    let output = node.wait_with_output().expect("the script ends");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Carries out an order of a script.
#[track_caller]
fn carry_out(order: &str, server: &mut TestServer) -> String {
    match order.split(' ').collect::<Vec<&str>>()[..] {
        ["stop"] => {
            server.kill();
            String::new()
        }
        ["start", address] => {
            server.restart_with(Launch::new().arguments(["--listen", address]));
            String::new()
        }
        ["create-token", name, scope] => {
            create_token(server.data(), &["--name", name, "--scope", scope])
        }
        ["revoke-token", name] => {
            revoke_token(server.data(), &[name]);
            String::new()
        }
        ["create-webhook", name, url] => {
            let arguments = ["webhook", "create", "--name", name, "--url", url];
            let command = Launch::new().data(server.data()).arguments(arguments);
            command.spawn().assert_exit_code(0);
            String::new()
        }
        _ => panic!("not an order: {order}"),
    }
}
