//! `/docs`, the page of the API, in a real browser.

use plantd_tests::TestServer;

use crate::browser;

#[test]
fn the_page_is_found_with_a_trailing_slash_too() {
    let server = TestServer::start();
    for method in ["GET", "HEAD"] {
        let mut connection = server.connect();
        connection.send(format!("{method} /docs/ HTTP/1.1\r\nHost: plants\r\n\r\n"));
        let answer = connection.receive_head();
        assert_eq!(answer.status, 307, "{method}");
        // Relative, because a proxy may add a path prefix.
        assert_eq!(answer.header("location"), Some("../docs"), "{method}");
    }
}

#[test]
fn in_a_browser_the_page_hides_the_token_deletes_nothing_by_one_click_and_is_accessible_in_light_and_dark()
 {
    let mut server = TestServer::start();
    server.client().create(1, "Rosa", None).assert_plant("Rosa", None);
    browser::run("docs.js", &mut server);
    server.client().read(1).assert_error(404, 3002);
}
