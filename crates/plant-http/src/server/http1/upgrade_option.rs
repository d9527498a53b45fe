//! The option `upgrade` of `Connection`, which actix-http must not see.
//!
//! A client may offer another protocol, such as `h2c`; the server ignores the offer and answers in HTTP/1.1 (RFC 9110, section
//! 7.8). actix-http instead repeats the option in its answer, and closes the connection. So the last letter of the option is
//! replaced before actix-http reads the head. The option then means nothing, no byte moves, and nothing that frames a request
//! is touched.

/// A name in lower case, with the colon that must follow it at once (RFC 9112, section 5.1).
const NAME: &[u8] = b"connection:";

const OPTION: &[u8] = b"upgrade";

/// Replaces the last letter of the option.
const REPLACEMENT: u8 = b'_';

/// Looks for the option in the lines of a head, which arrive in parts that end anywhere.
#[derive(Debug, Default)]
pub(super) struct UpgradeOption {
    place: Place,
}

#[derive(Clone, Copy, Debug, Default)]
enum Place {
    /// In a line that is not of interest.
    #[default]
    Elsewhere,
    /// In a line that begins with this many bytes of the name.
    Name(usize),
    /// In an element of the list that begins with this many bytes of the option.
    Option(usize),
    /// In another element of the list.
    OtherOption,
}

impl UpgradeOption {
    /// Makes the option meaningless in the next bytes of a line, with which the line begins or goes on.
    pub(super) fn hide(&mut self, part: &mut [u8], is_begin: bool) {
        if is_begin {
            self.place = Place::Name(0);
        }
        for byte in part {
            let lower = byte.to_ascii_lowercase();
            self.place = match self.place {
                Place::Name(at) if lower == NAME[at] => match at + 1 {
                    next if next == NAME.len() => Place::Option(0),
                    next => Place::Name(next),
                },
                Place::Name(_) | Place::Elsewhere => {
                    self.place = Place::Elsewhere;
                    return;
                }
                _ if matches!(lower, b',' | b' ' | b'\t') => Place::Option(0),
                Place::Option(at) if lower == OPTION[at] => match at + 1 {
                    next if next == OPTION.len() => {
                        *byte = REPLACEMENT;
                        Place::OtherOption
                    }
                    next => Place::Option(next),
                },
                Place::Option(_) | Place::OtherOption => Place::OtherOption,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::server::http1::request_end::HeadEnd;

    #[test]
    fn nothing_but_the_option_changes_however_the_bytes_arrive() {
        let hidden = "GET /connection:upgrade HTTP/1.1\r\nHost: upgrade\r\nCONNECTION:Upgrad_, x,\tupgrad_ , \
             close\r\nUpgrade: h2c\nX-Connection: upgrade\r\nconnection: xupgrade,upgrad,upgrad_\r\n\
             Connection : upgrade\r\n connection: upgrade\r\n\r\n";
        let shown = hidden.replace("d_", "de");
        for length in 1..=shown.len() {
            let mut head = shown.clone().into_bytes();
            let mut end = HeadEnd::default();
            for part in head.chunks_mut(length) {
                end.find(part);
            }
            assert_eq!(String::from_utf8(head).unwrap(), hidden, "in parts of {length} bytes");
        }
    }
}
