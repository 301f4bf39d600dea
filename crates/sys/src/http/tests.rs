//! Tests of the client against a server that misbehaves on request.

mod trust;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use super::*;

/// What the server does once it has read a request.
#[derive(Clone)]
enum Do {
    Send(Vec<u8>),
    /// One byte at a time, with this pause after each.
    Drip(&'static str, Duration),
    Wait(Duration),
    /// Closes the connection with a reset.
    Reset,
    /// Closes it in the ordinary way.
    Close,
}

fn send(text: impl AsRef<[u8]>) -> Do {
    Do::Send(text.as_ref().to_vec())
}

const HOUR: Duration = Duration::from_hours(1);

struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers each request on each connection with the same deeds. Its threads end with the process.
    fn start(deeds: Vec<Do>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            closed: Arc::default(),
            requests: Arc::default(),
        };
        let (connections, closed) = (Arc::clone(&server.connections), Arc::clone(&server.closed));
        let requests = Arc::clone(&server.requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (deeds, requests, closed) =
                    (deeds.clone(), Arc::clone(&requests), Arc::clone(&closed));
                thread::spawn(move || {
                    serve(stream, &deeds, &requests);
                    closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        server
    }

    fn url(&self) -> String {
        format!("http://{}/v1?key=secret", self.address)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn serve(stream: TcpStream, deeds: &[Do], requests: &Mutex<Vec<String>>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let request = read_request(&mut reader)?;
        requests.lock().unwrap().push(request);
        for deed in deeds {
            match deed {
                Do::Send(bytes) => stream.write_all(bytes).ok()?,
                Do::Drip(text, pause) => {
                    for byte in text.bytes() {
                        stream.write_all(&[byte]).ok()?;
                        thread::sleep(*pause);
                    }
                }
                Do::Wait(pause) => thread::sleep(*pause),
                Do::Reset => {
                    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).ok()?;
                    return None;
                }
                Do::Close => return None,
            }
        }
    }
}

/// The head and the body, or `None` at the end.
fn read_request(reader: &mut impl BufRead) -> Option<String> {
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        if reader.read_line(&mut request).ok()? == 0 {
            return None;
        }
    }
    let length = request.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    write!(request, "{}", String::from_utf8_lossy(&body)).unwrap();
    Some(request)
}

fn post(url: &str, body: &str) -> HttpRequest {
    let headers =
        vec![("content-type", "application/json".to_owned()), ("x-key", "secret".to_owned())];
    let body = body.as_bytes().to_vec();
    HttpRequest { method: "POST", url: url.to_owned(), headers, own_headers: Vec::new(), body }
}

fn client() -> HttpClient {
    HttpClient::new(Duration::from_secs(5), Duration::from_secs(5))
}

type Exchanged = (Result<ResponseHead, RequestError>, Vec<u8>);

fn exchange_with(client: &mut HttpClient, url: &str) -> Exchanged {
    let request = post(url, "{}");
    let mut body = Vec::new();
    let result = client.send(request.clone(), &Interrupts::none(), &mut |part| {
        if let ResponsePart::Body(bytes) = part {
            body.extend_from_slice(bytes);
        }
        Ok(ControlFlow::Continue(()))
    });
    (result, body)
}

/// What comes of one exchange with a server that does this.
fn exchange_of(deeds: Vec<Do>) -> Exchanged {
    let server = Server::start(deeds);
    let mut client = HttpClient::new(Duration::from_secs(1), Duration::from_secs(1));
    exchange_with(&mut client, &server.url())
}

#[track_caller]
fn fails(result: &Exchanged, kind: ErrorKind, words: &str) {
    let Err(RequestError::Api(error)) = &result.0 else { panic!("{result:?}") };
    assert_eq!((error.kind, error.status), (kind, None), "{error}");
    assert!(error.message.contains(words) && error.message.contains("127.0.0."), "{error}");
    assert!(!error.message.contains("secret"), "{error}");
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nX-Some: thing\r\n\r\nhello";

#[test]
fn a_response_comes_whole_with_any_status() {
    let (head, body) = exchange_of(vec![send(OK)]);
    let head = head.unwrap();
    assert_eq!(
        (
            head.status,
            head.headers.iter().find(|(name, _)| name == "x-some").map(|(_, value)| &value[..]),
            &body[..]
        ),
        (200, Some("thing"), &b"hello"[..])
    );
    let (head, body) =
        exchange_of(vec![send("HTTP/1.1 529 Busy\r\nconnection: close\r\n\r\nlate"), Do::Close]);
    assert_eq!((head.unwrap().status, &body[..]), (529, &b"late"[..]));
    let (head, body) = exchange_of(vec![send("HTTP/1.1 204 No Content\r\n\r\n")]);
    assert_eq!((head.unwrap().status, body.len()), (204, 0));
}

#[test]
fn the_request_is_what_was_asked_for() {
    let server = Server::start(vec![send(OK)]);
    exchange_with(&mut client(), &server.url()).0.unwrap();
    let request = server.requests.lock().unwrap()[0].clone();
    let expect = [
        "POST /v1?key=secret HTTP/1.1\r\n",
        "\r\nx-key: secret\r\n",
        "\r\ncontent-type: application/json\r\n",
        "\r\nuser-agent: nagent/",
        "\r\n\r\n{}",
    ];
    for part in expect {
        assert!(request.contains(part), "{part:?} is not in {request}");
    }
}

#[test]
fn chunks_are_handed_on_as_they_come() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n";
    let pause = Duration::from_millis(150);
    let server = Server::start(vec![
        send(head),
        Do::Wait(pause),
        send("3\r\ntwo\r\n"),
        Do::Wait(pause),
        send("0\r\n\r\n"),
    ]);
    let mut client = client();
    let request = post(&server.url(), "");
    let mut parts = Vec::new();
    let head = client.send(request.clone(), &Interrupts::none(), &mut |part| {
        let text = match part {
            ResponsePart::Head(head) => head.status.to_string(),
            ResponsePart::Body(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        };
        parts.push((text, Instant::now()));
        Ok(ControlFlow::Continue(()))
    });
    assert_eq!(head.unwrap().status, 200);
    let texts: Vec<&str> = parts.iter().map(|(text, _)| &text[..]).collect();
    assert_eq!(texts, ["200", "one", "two"]);
    assert!(parts[2].1 - parts[1].1 > Duration::from_millis(100));
}

#[test]
fn silence_has_a_limit_and_slowness_has_none() {
    let watch = Instant::now();
    fails(&exchange_of(vec![Do::Wait(HOUR)]), ErrorKind::Broken, "did not answer within 1 s");
    fails(
        &exchange_of(vec![send(&OK[..20]), Do::Wait(HOUR)]),
        ErrorKind::Broken,
        "did not answer within 1 s",
    );
    let stalled = exchange_of(vec![send(&OK[..OK.len() - 2]), Do::Wait(HOUR)]);
    fails(&stalled, ErrorKind::Broken, "fell silent for 1 s");
    assert_eq!(stalled.1, b"hel");
    assert!(watch.elapsed() < Duration::from_secs(20), "{:?}", watch.elapsed());
    // Interim responses without end are no answer.
    let storm = exchange_of(vec![
        Do::Drip(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n",
            Duration::from_millis(10)
        );
        20
    ]);
    fails(&storm, ErrorKind::Broken, "did not answer");
    // 40 bytes, 20 ms apart: longer than the limit in all, never silent for as long.
    let slow = "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd";
    let (head, body) = exchange_of(vec![
        send("HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n"),
        Do::Drip(slow, Duration::from_millis(20)),
    ]);
    assert_eq!((head.unwrap().status, &body[..]), (200, slow.as_bytes()));
}

#[test]
fn bodies_that_end_early_are_cut() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    fails(
        &exchange_of(vec![send(chunked), Do::Close]),
        ErrorKind::Cut,
        "in the middle of its answer",
    );
    fails(
        &exchange_of(vec![send(chunked), send("9\r\nhe"), Do::Close]),
        ErrorKind::Cut,
        "in the middle",
    );
    fails(
        &exchange_of(vec![send(&OK[..OK.len() - 2]), Do::Close]),
        ErrorKind::Cut,
        "in the middle",
    );
    let reset = exchange_of(vec![send(chunked), Do::Wait(Duration::from_millis(50)), Do::Reset]);
    fails(&reset, ErrorKind::Cut, "reset");
    assert_eq!(reset.1, b"hello");
}

#[test]
fn connections_that_break_before_an_answer_are_broken() {
    fails(&exchange_of(vec![Do::Close]), ErrorKind::Broken, "broke before an answer came");
    fails(&exchange_of(vec![Do::Reset]), ErrorKind::Broken, "broke before an answer came");
    fails(
        &exchange_of(vec![send("HTTP/1.1 200"), Do::Close]),
        ErrorKind::Broken,
        "broke before an answer came",
    );
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = exchange_with(&mut client(), &format!("http://{free}/?key=secret"));
    fails(&refused, ErrorKind::Broken, "refused the connection");
}

#[test]
fn what_is_no_http_is_said() {
    fails(
        &exchange_of(vec![send("SSH-2.0-OpenSSH_9.2\r\n\r\n")]),
        ErrorKind::Other,
        "not valid HTTP",
    );
    let huge = format!("HTTP/1.1 200 OK\r\nx-huge: {}", "x".repeat(1 << 20));
    fails(&exchange_of(vec![send(huge)]), ErrorKind::Other, "too large");
    let many =
        (0..1000).fold("HTTP/1.1 200 OK\r\n".to_owned(), |head, i| format!("{head}x-{i}: y\r\n"));
    fails(&exchange_of(vec![send(many + "\r\n")]), ErrorKind::Other, "not valid HTTP");
}

#[test]
fn one_connection_serves_many_exchanges() {
    let server = Server::start(vec![send(OK)]);
    let mut client = client();
    for _ in 0..5 {
        assert_eq!(exchange_with(&mut client, &server.url()).1, b"hello");
    }
    // The receiver had enough before the body's end: the rest is read, and the connection stays.
    let request = post(&server.url(), "{}");
    for _ in 0..2 {
        client
            .send(request.clone(), &Interrupts::none(), &mut |_| Ok(ControlFlow::Break(())))
            .unwrap();
    }
    assert_eq!((server.connections(), server.requests.lock().unwrap().len()), (1, 7));
}

#[test]
fn a_connection_that_the_server_closed_meanwhile_is_not_used() {
    let server = Server::start(vec![send(OK), Do::Close]);
    let mut client = client();
    for closed in 1..=20 {
        assert_eq!(exchange_with(&mut client, &server.url()).1, b"hello");
        while server.closed.load(Ordering::SeqCst) < closed {
            thread::sleep(Duration::from_millis(1));
        }
    }
    assert_eq!((server.connections(), server.requests.lock().unwrap().len()), (20, 20));
}

#[test]
fn a_body_that_goes_on_after_its_end_mark_is_left() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nend\r\n";
    let server = Server::start(vec![send(head), Do::Wait(HOUR)]);
    let mut client = client();
    let request = post(&server.url(), "");
    let watch = Instant::now();
    let head = client.send(request.clone(), &Interrupts::none(), &mut |part| match part {
        ResponsePart::Head(_) => Ok(ControlFlow::Continue(())),
        ResponsePart::Body(_) => Ok(ControlFlow::Break(())),
    });
    assert_eq!(head.unwrap().status, 200);
    assert!(watch.elapsed() < Duration::from_secs(20));
}

#[test]
fn redirects_are_not_followed() {
    let other = Server::start(vec![send(OK)]);
    let answer =
        format!("HTTP/1.1 307 Go\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", other.url());
    let (head, _) = exchange_of(vec![send(answer)]);
    assert_eq!(head.unwrap().status, 307);
    assert_eq!(other.connections(), 0);
}

#[test]
fn the_receiver_can_end_an_exchange() {
    let server = Server::start(vec![send(OK), Do::Wait(HOUR)]);
    let mut client = client();
    let request = post(&server.url(), "");
    let error = ApiError::new(ErrorKind::Refused, "enough");
    let result = client.send(request.clone(), &Interrupts::none(), &mut |_| Err(error.clone()));
    assert_eq!(result, Err(RequestError::Api(error)));
}

/// A signal after 100 ms ends what the server at the address leaves undone.
fn check_interrupted(url: &str) {
    let interrupts = Interrupts::none();
    let mut client = HttpClient::new(HOUR, HOUR);
    let request = post(url, "");
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(100));
            interrupts.raise(Signal::Int);
        });
        let watch = Instant::now();
        let result =
            client.send(request.clone(), &interrupts, &mut |_| Ok(ControlFlow::Continue(())));
        assert_eq!(result, Err(RequestError::Interrupted(Signal::Int)));
        assert!(watch.elapsed() < Duration::from_secs(20), "{:?}", watch.elapsed());
        let watch = Instant::now();
        assert!(
            client
                .send(request.clone(), &interrupts, &mut |_| Ok(ControlFlow::Continue(())))
                .is_err()
        );
        drop(client);
        assert!(watch.elapsed() < Duration::from_secs(20));
    });
}

#[test]
fn a_signal_ends_an_exchange_at_any_point() {
    check_interrupted(&Server::start(vec![Do::Wait(HOUR)]).url());
    check_interrupted(&Server::start(vec![send(&OK[..OK.len() - 2]), Do::Wait(HOUR)]).url());
    let endless = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    check_interrupted(
        &Server::start([vec![send(endless)], vec![send(chunk); 1500]].concat()).url(),
    );
    // While connecting: a listener whose queue is full takes no connection.
    let (listener, address) = full_listener();
    check_interrupted(&format!("http://{address}/"));
    let mut client = HttpClient::new(Duration::from_millis(200), HOUR);
    let result = exchange_with(&mut client, &format!("http://{address}/"));
    fails(&result, ErrorKind::Broken, "cannot connect to 127.0.0.1");
    drop(listener);
}

fn full_listener() -> (impl Sized, SocketAddr) {
    use rustix::net::{
        AddressFamily, SocketType, bind, connect, getsockname, listen, socket, socket_with,
    };
    let near = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&near, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    listen(&near, 0).unwrap();
    let address = SocketAddr::try_from(getsockname(&near).unwrap()).unwrap();
    let flags = rustix::net::SocketFlags::NONBLOCK;
    let far: Vec<_> = (0..4)
        .map(|_| {
            let far = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
            let _ = connect(&far, &address);
            far
        })
        .collect();
    thread::sleep(Duration::from_millis(50));
    ((near, far), address)
}

#[test]
fn requests_that_cannot_be_made_are_refused_without_telling_secrets() {
    let check = |request: HttpRequest, words: &str| {
        let Err(RequestError::Api(error)) =
            client().send(request, &Interrupts::none(), &mut |_| Ok(ControlFlow::Continue(())))
        else {
            panic!("the request was sent")
        };
        assert_eq!(error.kind, ErrorKind::Other);
        assert!(error.message.contains(words) && !error.message.contains("secret"), "{error}");
    };
    check(post("api.example/secret", ""), "not a URL");
    check(post("http://", ""), "not a URL");
    check(post("ftp://host/secret", ""), "ftp:// is not supported");
    let mut request = post("http://127.0.0.1/", "");
    request.headers.push(("x-api-key", "secret\n".into()));
    check(request, "the header x-api-key");
}

#[test]
fn this_machine_is_known_by_its_names() {
    for host in [
        "localhost",
        "a.localhost",
        "localhost.",
        "127.0.0.1",
        "127.9.9.9",
        "[::1]",
        "[::ffff:127.0.0.1]",
    ] {
        assert!(is_loopback(host), "{host}");
    }
    for host in ["example.com", "localhost.example.com", "10.0.0.1", "[::2]", "128.0.0.1"] {
        assert!(!is_loopback(host), "{host}");
    }
}
