//! `/docs`, the page of the API, in a real browser.

use plantd_tests::{TOKEN, TestServer, Toolbox, repository, run_tool};

#[test]
fn the_page_is_found_with_a_slash_at_its_end_too() {
    let server = TestServer::start();
    for method in ["GET", "HEAD"] {
        let mut connection = server.connect();
        connection.send(format!("{method} /docs/ HTTP/1.1\r\nHost: plants\r\n\r\n"));
        let answer = connection.receive_head();
        assert_eq!(answer.status, 307, "{method}");
        // Relative, because a proxy may put a path before ours.
        assert_eq!(answer.header("location"), Some("../docs"), "{method}");
    }
}

#[test]
fn in_a_browser_the_page_hides_the_token_deletes_nothing_by_one_click_and_fits_a_phone() {
    let server = TestServer::start();
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    let tools = Toolbox::node();
    let mut node = tools.command("node");
    node.arg(repository("tests/browser/docs.js"))
        .env("NODE_PATH", tools.folder().join("node_modules"))
        .env("PLANTS_URL", format!("http://{}", server.address()))
        .env("PLANTS_TOKEN", TOKEN);
    run_tool(&mut node);
    server.client().read(1).assert_error(404, 3002);
}
