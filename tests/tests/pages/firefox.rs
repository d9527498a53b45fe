//! Both pages in Firefox. All that they can do is tested in Chromium.

use plantd_tests::TestServer;

use crate::browser;

#[test]
fn what_people_do_daily_works_in_firefox() {
    browser::run("firefox.js", &mut TestServer::start());
}
