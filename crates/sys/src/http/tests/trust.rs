//! Whom a connection trusts, and which way it takes: certificates and proxies.

use super::*;

const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tls");

/// A server with a certificate for 127.0.0.1 and localhost by an authority that nobody knows.
fn tls_server(certificate: &str) -> u16 {
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(Path::new(TLS).join(certificate)).unwrap()],
            PrivateKeyDer::from_pem_file(Path::new(TLS).join("server.key.pem")).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = BufReader::new(rustls::StreamOwned::new(session, stream));
            while read_request(&mut stream).is_some() {
                stream.get_mut().write_all(OK.as_bytes()).unwrap();
            }
        }
    });
    port
}

#[test]
fn only_known_authorities_are_believed() {
    let port = tls_server("server.pem");
    let url = |host: &str| format!("https://{host}:{port}/");
    fails(&exchange_with(&mut client(), &url("127.0.0.1")), ErrorKind::Other, "SSL_CERT_FILE");

    let with_authority = || {
        let mut client = client();
        let needs = ConnectionNeeds { tls: true, direct: true };
        let file = Path::new(TLS).join("authority.pem").into_os_string();
        let made = build_client(needs, client.connect_timeout, (Some(file), None)).unwrap();
        client.client = Some((needs, made));
        client
    };
    assert_eq!(exchange_with(&mut with_authority(), &url("127.0.0.1")).1, b"hello");
    fails(
        &exchange_with(&mut with_authority(), &url("127.0.0.2")),
        ErrorKind::Other,
        "no secure connection to 127.0.0.2",
    );

    let expired = format!("https://127.0.0.1:{}/", tls_server("expired.pem"));
    let result = exchange_with(&mut with_authority(), &expired);
    fails(&result, ErrorKind::Other, "expired");

    // Plain HTTP where TLS is expected: one that answers all the same, and one that hangs up.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        thread::sleep(HOUR);
    });
    fails(&exchange_with(&mut client(), &url), ErrorKind::Other, "no secure connection");
    let url = format!("https://{}/", Server::start(vec![Do::Close]).address);
    fails(&exchange_with(&mut client(), &url), ErrorKind::Broken, "tls handshake eof");
}

/// Not a test by itself: what the test below runs as a process of its own, with proxies in its environment.
#[test]
fn entry() {
    let Ok(url) = env::var("NAGENT_TEST_HTTP") else { return };
    let (head, body) = exchange_with(&mut client(), &url);
    assert_eq!((head.unwrap().status, &body[..]), (200, &b"hello"[..]));
}

#[test]
fn proxies_come_from_the_environment_and_never_for_this_machine() {
    let proxy = Server::start(vec![send(OK)]);
    let server = Server::start(vec![send(OK)]);
    let run = |url: &str, variables: &[(&str, &str)]| {
        let mut command = std::process::Command::new(env::current_exe().unwrap());
        command.args(["--exact", "http::tests::trust::entry"]).env("NAGENT_TEST_HTTP", url);
        for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied()).output().unwrap().status.success()
    };
    let address = format!("http://{}", proxy.address);
    assert!(run("http://model.invalid/v1", &[("HTTP_PROXY", &address)]));
    assert!(run("http://model.invalid/v1", &[("ALL_PROXY", &address)]));
    let seen = proxy.requests.lock().unwrap().clone();
    assert_eq!(seen.len(), 2);
    assert!(seen[0].starts_with("POST http://model.invalid/v1 HTTP/1.1\r\n"), "{seen:?}");
    assert!(run(&server.url(), &[("HTTP_PROXY", &address), ("ALL_PROXY", &address)]));
    assert_eq!((proxy.connections(), server.connections()), (2, 1));
    let unreachable = [("HTTP_PROXY", &address[..]), ("NO_PROXY", "model.invalid")];
    assert!(!run("http://model.invalid/v1", &unreachable));
    assert_eq!(proxy.connections(), 2);
}
