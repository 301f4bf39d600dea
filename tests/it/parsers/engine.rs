//! What a process with a script engine sends: untrusted lines.

use nagent::js::wire::Message;

pub(crate) fn run(data: &[u8]) {
    if let Ok(message) = Message::parse(data) {
        let line = message.to_line();
        assert_eq!(Message::parse(line.as_bytes()), Ok(message));
        assert!(!line.contains('\n'));
    }
}
