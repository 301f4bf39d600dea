//! What a process with a script engine sends: untrusted lines.

use sandbox::script::js::wire::WorkerMessage;

pub(crate) fn run(data: &[u8]) {
    if let Some(message) = WorkerMessage::parse(data) {
        let line = message.to_line();
        assert_eq!(WorkerMessage::parse(line.as_bytes()), Some(message));
        assert!(!line.contains('\n'));
    }
}
