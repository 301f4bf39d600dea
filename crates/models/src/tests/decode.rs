//! Tests of the limits of a response; the replies of each API are in `replies`.

use super::{Chat, endpoint};
use conversation::model::ErrorKind;

#[test]
fn a_reply_of_keep_alives_ends() {
    let endpoint = endpoint(&Chat, false);
    let mut decoder = endpoint.decoder(200, &[]);
    let ping = [b": ".as_slice(), &vec![b'p'; (1 << 20) - 4], b"\n\n"].concat();
    let mut error = None;
    for _ in 0..300 {
        if let Err(failed) = decoder.push_bytes(&ping, &mut |_| {}) {
            error = Some(failed);
            break;
        }
    }
    let error = error.unwrap();
    assert_eq!(error.kind, ErrorKind::Other);
    assert!(error.message.contains("more than 256 MiB for one reply"), "{error}");
}

/// No more of an error's body is read than is looked at: a server may send one without end.
#[test]
fn of_an_error_the_beginning_is_enough() {
    let check = |status: u16, start: &[u8], is_enough: bool| {
        let endpoint = endpoint(&Chat, false);
        let mut decoder = endpoint.decoder(status, &[]);
        decoder.push_bytes(start, &mut |_| {}).unwrap();
        decoder
            .push_bytes(
                &vec![b'x'; conversation::limits::ERROR_BODY - start.len() - 1],
                &mut |_| {},
            )
            .unwrap();
        assert!(!decoder.is_done(), "{status}");
        decoder.push_bytes(b"x", &mut |_| {}).unwrap();
        assert_eq!(decoder.is_done(), is_enough, "{status}");
    };
    check(500, b"an error", true);
    check(200, b"<html>", true);
    check(200, b"{", false);
}
