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
    let headers = format!(
        "Content-Type: application/json\r\n\
         Content-Length: {}\r\n",
        body.len()
    );
    send(address, token, "POST /plants", &headers, body).map(drop)
}

/// Asks for something, and fails with the whole answer unless its status is 2xx.
pub(super) fn get(address: SocketAddr, token: &str, target: &str) -> anyhow::Result<String> {
    send(address, token, &format!("GET {target}"), "", "")
}

fn send(
    address: SocketAddr,
    token: &str,
    method_and_target: &str,
    headers: &str,
    body: &str,
) -> anyhow::Result<String> {
    let request = format!(
        "{method_and_target} HTTP/1.1\r\n\
         Host: {address}\r\n\
         Authorization: Bearer {token}\r\n\
         Connection: close\r\n\
         {headers}\r\n\
         {body}"
    );
    let answer = exchange(address, &request)
        .with_context(|| format!("the probe {method_and_target} failed"))?;
    if !is_success(&answer) {
        bail!(
            "the probe {method_and_target} {body} should be answered with 2xx, but was:\n{answer}"
        );
    }
    Ok(answer)
}

/// How many plants there are.
pub(super) fn count(address: SocketAddr, token: &str) -> anyhow::Result<u64> {
    let answer = get(address, token, "/plants?limit=1")?;
    total(&answer)
        .with_context(|| format!("a list should have X-Total-Count, and not only:\n{answer}"))
}

/// The number of plants in the head of a list.
fn total(answer: &str) -> Option<u64> {
    let (head, _) = answer.split_once("\r\n\r\n")?;
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
    fn the_number_of_plants_is_in_the_head_of_a_list() {
        let answer = "HTTP/1.1 200 OK\r\nx-total-count: 42\r\n\r\n[]";
        assert_eq!(total(answer), Some(42));
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
