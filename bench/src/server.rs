//! The scripted model: Chat Completions over loopback, its replies rendered before anything is measured.
//!
//! It notes when each request had been read whole and when its reply was written, and
//! it thinks for no time. It checks nothing: that is the tests' affair.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// One request and its reply.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    /// When the request had been read whole.
    pub(crate) read: Instant,
    /// When the reply was written, in one call.
    pub(crate) written: Instant,
    /// The size of the request's body.
    pub(crate) bytes: usize,
}

/// What one run left at the server.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) marks: Vec<Mark>,
    /// The body of the first request.
    pub(crate) first: Vec<u8>,
    /// The peak of the client's memory in KiB, seen at its last request.
    pub(crate) peak: Option<u64>,
    /// Its private memory (USS) in KiB then.
    pub(crate) private: Option<u64>,
    /// A request came that the script has no reply for.
    pub(crate) too_many: bool,
}

#[derive(Default)]
struct Shared {
    replies: Mutex<Arc<Vec<Vec<u8>>>>,
    record: Mutex<Record>,
    /// The client's process, as soon as it is known.
    client: AtomicU32,
}

pub(crate) struct Server {
    shared: Arc<Shared>,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let shared = Arc::<Shared>::default();
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = Arc::clone(&server);
                std::thread::spawn(move || drop(serve(&server, stream)));
            }
        });
        Ok(Self { shared, port })
    }

    /// Sets the replies of the next run.
    pub(crate) fn script(&self, replies: &Arc<Vec<Vec<u8>>>) {
        self.shared.client.store(0, Ordering::SeqCst);
        *self.shared.replies.lock().expect("no holder panics") = Arc::clone(replies);
        *self.shared.record.lock().expect("no holder panics") = Record::default();
    }

    /// Tells whose memory to look at.
    pub(crate) fn client_is(&self, pid: u32) {
        self.shared.client.store(pid, Ordering::SeqCst);
    }

    /// Takes what the run left.
    pub(crate) fn record(&self) -> Record {
        std::mem::take(&mut self.shared.record.lock().expect("no holder panics"))
    }
}

fn serve(shared: &Shared, mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(1 << 18, stream.try_clone()?);
    let (mut line, mut body) = (String::new(), Vec::new());
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let is_post = line.starts_with("POST ");
        let mut length = 0;
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
        let read = Instant::now();
        if !is_post {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
            continue;
        }
        let replies = Arc::clone(&shared.replies.lock().expect("no holder panics"));
        let number = {
            let mut record = shared.record.lock().expect("no holder panics");
            let number = record.marks.len();
            record.marks.push(Mark { read, written: read, bytes: length });
            if number == 0 {
                record.first.clone_from(&body);
            }
            if number + 1 == replies.len() {
                (record.peak, record.private) = memory_of(&shared.client);
            }
            record.too_many |= number >= replies.len();
            number
        };
        let Some(reply) = replies.get(number) else {
            let head = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(head.as_bytes())?;
            continue;
        };
        // The mark is made under the lock that `record` takes, so that it is there when the client has ended.
        let mut record = shared.record.lock().expect("no holder panics");
        if let Some(mark) = record.marks.get_mut(number) {
            // Before the write and not after it: on a busy host the client may be at work, or gone, before this
            // thread runs again. The figures hold the write, some 10 µs, and flatter nobody.
            mark.written = Instant::now();
        }
        stream.write_all(reply)?;
    }
}

/// The client's `VmHWM`, which unlike `ru_maxrss` starts anew at exec and so holds nothing of this program, and the pages that no
/// other process shares.
fn memory_of(client: &AtomicU32) -> (Option<u64>, Option<u64>) {
    let deadline = Instant::now() + std::time::Duration::from_millis(100);
    while client.load(Ordering::SeqCst) == 0 && Instant::now() < deadline {
        std::hint::spin_loop();
    }
    let read = |name: &str, keys: &[&str]| {
        let path = format!("/proc/{}/{name}", client.load(Ordering::SeqCst));
        let text = std::fs::read_to_string(path).ok()?;
        let values = text.lines().filter_map(|line| line.split_once(':'));
        let values = values.filter(|(key, _)| keys.contains(key));
        let sum: Option<u64> =
            values.map(|(_, value)| value.trim().trim_end_matches(" kB").parse::<u64>().ok()).sum();
        sum.filter(|kib| *kib > 0)
    };
    (read("status", &["VmHWM"]), read("smaps_rollup", &["Private_Clean", "Private_Dirty"]))
}

/// A reply as it goes on the wire, its text in `deltas` pieces or more.
pub(crate) fn render(text: &str, deltas: usize) -> Vec<u8> {
    let chunk = |body: &str| {
        format!(
            "data: {{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",{body}}}\n\n"
        )
    };
    let delta = |delta: &str, finish: &str| {
        chunk(&format!(
            "\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}],\"usage\":null"
        ))
    };
    let mut frames = vec![delta("{\"role\":\"assistant\",\"content\":\"\"}", "null")];
    let letters: Vec<char> = text.chars().collect();
    for piece in letters.chunks(letters.len().div_ceil(deltas).max(1)) {
        let piece: String = piece.iter().collect();
        let piece = piece.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        frames.push(delta(&format!("{{\"content\":\"{piece}\"}}"), "null"));
    }
    frames.push(delta("{}", "\"stop\""));
    frames.push(chunk(
        "\"choices\":[],\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":10,\"total_tokens\":1010}",
    ));
    frames.push("data: [DONE]\n\n".to_owned());
    wrap(&frames)
}

/// The frames of a stream as the response that carries them.
pub(crate) fn wrap(frames: &[String]) -> Vec<u8> {
    let mut bytes =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
    for frame in frames {
        bytes.extend_from_slice(format!("{:x}\r\n{frame}\r\n", frame.len()).as_bytes());
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}
