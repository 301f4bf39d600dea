//! A scripted model on loopback: what the executables are held against.
//!
//! One thread accepts, one a connection answers; HTTP/1.1 with keep-alive over `std::net`, no crates. Answers
//! come from a queue, or from a closure that looks at the request. Every request is recorded, and every one
//! that carries messages is checked: valid JSON, roles that alternate, and a dialogue that only grows. What
//! breaks a rule fails the test at its end.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::answers::{Answer, Latch, aside, send};
use crate::wire::{Dialogue, Format};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// When its last byte had been read.
    pub(crate) at: Instant,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Which connection it came on, from 0.
    pub(crate) connection: usize,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether it asks the model to speak.
    pub(crate) fn asks(&self) -> bool {
        self.method == "POST" && Format::of(&self.path).is_some()
    }

    pub(crate) fn dialogue(&self) -> Dialogue {
        Dialogue::read(Format::of(&self.path).unwrap(), &self.body).unwrap()
    }

    pub(crate) fn system(&self) -> String {
        self.dialogue().system
    }

    /// The last message, which is the user's.
    pub(crate) fn last(&self) -> String {
        self.dialogue().turns.pop().map(|(_, text)| text).unwrap_or_default()
    }

    /// All messages of the user.
    pub(crate) fn user(&self) -> String {
        let turns = self.dialogue().turns;
        turns
            .into_iter()
            .filter(|(role, _)| role == "user")
            .map(|(_, text)| text)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

type Chooser = Box<dyn FnMut(&Request) -> Answer + Send>;
type Beside = Box<dyn FnMut(&Request) -> Option<Answer> + Send>;

#[derive(Default)]
struct Script {
    queue: VecDeque<Answer>,
    chooser: Option<Chooser>,
    beside: Option<Beside>,
    requests: Vec<Request>,
    dialogues: Vec<Dialogue>,
    complaints: Vec<String>,
    may_rewrite: bool,
}

#[derive(Default)]
struct Shared {
    script: Mutex<Script>,
    arrived: Condvar,
    closing: Latch,
}

/// The server. It ends with the value.
pub(crate) struct FakeLlm {
    shared: Arc<Shared>,
    port: u16,
}

impl FakeLlm {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::<Shared>::default();
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                if server.closing.is_released() {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let server = Arc::clone(&server);
                // A client that goes away in the middle is part of many tests.
                std::thread::spawn(move || drop(serve(&server, stream, connection)));
            }
        });
        Self { shared, port }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The address without a path.
    pub(crate) fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.shared.script.lock().unwrap()
    }

    /// Adds an answer to the queue.
    pub(crate) fn push(&self, answer: impl Into<Answer>) {
        self.script().queue.push_back(answer.into());
    }

    /// Answers come from `choose` once the queue is empty: needed where several conversations ask at once.
    pub(crate) fn choose(&self, choose: impl FnMut(&Request) -> Answer + Send + 'static) {
        self.script().chooser = Some(Box::new(choose));
    }

    /// Answers to requests that do not ask the model to speak (files that go up, are waited for and are removed), before
    /// the usual ones; `None` leaves a request to those.
    pub(crate) fn beside(&self, answer: impl FnMut(&Request) -> Option<Answer> + Send + 'static) {
        self.script().beside = Some(Box::new(answer));
    }

    /// For tests that edit the conversation file: requests need not begin with the ones before.
    pub(crate) fn allow_rewrites(&self) {
        self.script().may_rewrite = true;
    }

    /// The requests so far that ask the model to speak.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.script().requests.iter().filter(|request| request.asks()).cloned().collect()
    }

    /// All requests so far, lists of models and the like included.
    pub(crate) fn all_requests(&self) -> Vec<Request> {
        self.script().requests.clone()
    }

    /// Waits until `count` requests that ask the model to speak have come.
    pub(crate) fn wait_for_requests(&self, count: usize) {
        let enough = |script: &mut Script| {
            script.requests.iter().filter(|request| request.asks()).count() < count
        };
        let waited =
            self.shared.arrived.wait_timeout_while(self.script(), Duration::from_secs(20), enough);
        assert!(!waited.unwrap().1.timed_out(), "waited 20 s for request {count} in vain");
    }

    /// Forgets what has come so far: for a world that is put back to an earlier state.
    #[allow(dead_code, reason = "only torture puts worlds back")]
    pub(crate) fn forget(&self) {
        let mut script = self.script();
        script.requests.clear();
        script.dialogues.clear();
        script.complaints.clear();
    }

    /// What broke a rule so far; a test that expects it takes it away here.
    pub(crate) fn take_complaints(&self) -> Vec<String> {
        std::mem::take(&mut self.script().complaints)
    }
}

impl Drop for FakeLlm {
    fn drop(&mut self) {
        self.shared.closing.release();
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if !std::thread::panicking() {
            let complaints = self.take_complaints();
            assert!(
                complaints.is_empty(),
                "the model server complains:\n{}",
                complaints.join("\n")
            );
        }
    }
}

fn serve(shared: &Shared, stream: TcpStream, connection: usize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some(request) = read_request(&mut reader, connection)? {
        let answer = decide(shared, &request);
        if !send(&shared.closing, &mut stream, &request, answer)? {
            stream.shutdown(Shutdown::Both)?;
            break;
        }
    }
    Ok(())
}

fn read_request(
    reader: &mut BufReader<TcpStream>,
    connection: usize,
) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
            None => break,
        }
    }
    let header =
        |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let mut body = Vec::new();
    if header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk)?;
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = header("content-length").and_then(|value| value.parse().ok()) {
        body = vec![0; length];
        reader.read_exact(&mut body)?;
    }
    Ok(Some(Request { at: Instant::now(), method, path, headers, body, connection }))
}

fn decide(shared: &Shared, request: &Request) -> Answer {
    let mut script = shared.script.lock().unwrap();
    let number = script.requests.len();
    script.requests.push(request.clone());
    shared.arrived.notify_all();
    let Some(format) = Format::of(&request.path).filter(|_| request.method == "POST") else {
        let given = script.beside.as_mut().and_then(|answer| answer(request));
        return given.unwrap_or_else(|| aside(request));
    };
    match Dialogue::read(format, &request.body) {
        Ok(dialogue) => {
            if let Some(complaint) = dialogue.complaint().or_else(|| script.regression(&dialogue)) {
                script.complaints.push(format!("request {number} ({}): {complaint}", request.path));
            }
        }
        Err(complaint) => {
            script.complaints.push(format!("request {number} ({}): {complaint}", request.path));
        }
    }
    if let Some(answer) = script.queue.pop_front() {
        return answer;
    }
    if let Some(choose) = &mut script.chooser {
        return choose(request);
    }
    let text = format!("request {number} came and the script of the test is empty");
    script.complaints.push(text.clone());
    // Not worth a retry: the test is wrong, or the executable asks too often.
    Answer::Raw {
        status: 500,
        headers: vec![
            ("content-type".into(), "text/plain".into()),
            ("x-should-retry".into(), "false".into()),
        ],
        body: text.into_bytes(),
    }
}

impl Script {
    /// Says how a dialogue fails to go on from an earlier one of the same conversation, and records it.
    fn regression(&mut self, new: &Dialogue) -> Option<String> {
        let opening = new.turns[0].1.clone();
        let same = |old: &Dialogue| {
            old.key == new.key
                && (if old.turns.len() == 1 {
                    opening.starts_with(&old.turns[0].1)
                } else {
                    old.turns[0].1 == opening
                })
        };
        // The longest one that it goes on from; a single message is a conversation's start, or its retry. Conversations of
        // two files may begin with one prompt in one second.
        let goes_on = (0..self.dialogues.len())
            .filter(|&at| self.dialogues[at].begins(new))
            .max_by_key(|&at| {
                let old = &self.dialogues[at];
                (old.system == new.system, old.turns.len())
            });
        if let Some(at) = goes_on {
            let old = std::mem::replace(&mut self.dialogues[at], new.clone());
            let changed = old.system != new.system && new.turns.len() > 1 && !self.may_rewrite;
            return changed
                .then(|| "its system prompt is not that of the request before".to_owned());
        }
        let broken = self.dialogues.iter().any(same) && new.turns.len() > 1 && !self.may_rewrite;
        self.dialogues.push(new.clone());
        broken.then(|| "its messages do not begin with those of the request before".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::FakeLlm;
    use crate::answers::Answer;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn post(llm: &FakeLlm, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", llm.port())).unwrap();
        let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close";
        write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn chat(turns: &[&str]) -> String {
        let roles = ["user", "assistant"];
        let list = turns
            .iter()
            .enumerate()
            .map(|(at, text)| serde_json::json!({"role": roles[at % 2], "content": text}));
        serde_json::json!({"model": "m", "messages": list.collect::<Vec<_>>()}).to_string()
    }

    #[test]
    fn answers_in_order_and_says_when_there_are_no_more() {
        let llm = FakeLlm::start();
        llm.push("one");
        assert!(post(&llm, &chat(&["a"])).contains("[DONE]"));
        assert!(post(&llm, &chat(&["a", "b", "c"])).contains("script of the test is empty"));
        assert_eq!(llm.requests().len(), 2);
        assert_eq!(llm.take_complaints().len(), 1);
    }

    #[test]
    fn a_dialogue_that_does_not_grow_is_a_complaint() {
        let llm = FakeLlm::start();
        llm.choose(|_| Answer::from("x"));
        post(&llm, &chat(&["a"]));
        post(&llm, &chat(&["a", "b", "c"]));
        assert_eq!(llm.take_complaints(), Vec::<String>::new());
        post(&llm, &chat(&["a", "B", "c", "d", "e"]));
        assert!(llm.take_complaints()[0].contains("do not begin with"));
        post(&llm, "{");
        assert!(llm.take_complaints()[0].contains("no JSON"));
        post(&llm, &chat(&["a", "b"]));
        assert!(llm.take_complaints()[0].contains("not the user's"));
    }
}
