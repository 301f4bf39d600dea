//! What a process with a script engine sends: untrusted lines.

use nagent::js::wire::Message;

pub(crate) fn run(data: &[u8]) {
    if let Ok(Message::End(end)) = Message::parse(data) {
        let line = Message::end_line(&end);
        assert_eq!(Message::parse(line.as_bytes()), Ok(Message::End(end)));
        assert!(!line.contains('\n'));
    }
}
