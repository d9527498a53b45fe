//! One request by hand, whose answer can be read before thousands like it are only counted.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Creates a plant, and fails with the whole answer unless its status is 2xx.
///
/// wrk counts only a status above 399 as an error, so a redirect would pass for a success.
pub(super) fn create(address: SocketAddr, token: &str, body: &str) -> anyhow::Result<()> {
    let request = format!(
        "POST /plants HTTP/1.1\r\n\
         Host: {address}\r\n\
         Authorization: Bearer {token}\r\n\
         Content-Type: application/json\r\n\
         Content-Length: {}\r\n\
         Connection: close\r\n\
         \r\n\
         {body}",
        body.len()
    );
    let answer = exchange(address, &request).context("the probe POST /plants failed")?;
    if !is_success(&answer) {
        bail!("the probe POST /plants with {body} should be answered with 2xx, but was:\n{answer}");
    }
    Ok(())
}

/// How many plants there are.
pub(super) fn count(address: SocketAddr, token: &str) -> anyhow::Result<u64> {
    let request = format!(
        "GET /plants?limit=1 HTTP/1.1\r\n\
         Host: {address}\r\n\
         Authorization: Bearer {token}\r\n\
         Connection: close\r\n\
         \r\n"
    );
    let answer = exchange(address, &request).context("the probe GET /plants failed")?;
    total(&answer).with_context(|| {
        format!("the probe GET /plants should be answered with X-Total-Count, but was:\n{answer}")
    })
}

/// The number of plants in the head of a list.
fn total(answer: &str) -> Option<u64> {
    let (head, _) = answer.split_once("\r\n\r\n").filter(|_| is_success(answer))?;
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("x-total-count").then_some(value.trim())?.parse().ok()
    })
}

fn exchange(address: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn is_success(answer: &str) -> bool {
    let status = answer.split(' ').nth(1);
    answer.starts_with("HTTP/1.1 ")
        && status.is_some_and(|status| status.len() == 3 && status.starts_with('2'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_plants_is_in_the_head_of_a_good_answer() {
        let answer = "HTTP/1.1 200 OK\r\nx-total-count: 42\r\n\r\n[]";
        assert_eq!(total(answer), Some(42));
        assert_eq!(total(&answer.replace("200", "503")), None);
        assert_eq!(total("HTTP/1.1 200 OK\r\n\r\nx-total-count: 42"), None);
    }

    #[test]
    fn only_a_status_in_the_two_hundreds_is_a_success() {
        assert!(is_success("HTTP/1.1 200 OK\r\n\r\n"));
        assert!(is_success("HTTP/1.1 201 Created\r\n\r\n"));
        assert!(!is_success("HTTP/1.1 302 Found\r\n\r\n"));
        assert!(!is_success("HTTP/1.1 401 Unauthorized\r\n\r\n"));
        assert!(!is_success("200"));
        assert!(!is_success(""));
    }
}
