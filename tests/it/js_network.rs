//! What a script of `nagent-js` reaches of the network: requests, redirects, private addresses, bodies without an end.

use serde_json::{Value, json};

use crate::answers::Answer;
use crate::js::{JS, fails, policy, run};
use crate::process_under_test::slowness;
use crate::sandbox::{Sandbox, wait_until};

#[test]
fn the_network() {
    let sandbox = Sandbox::new();
    let port = sandbox.llm.port();
    let here = format!("127.0.0.1:{port}");
    let policy = policy(&sandbox, &[&here, "*.example"], &[]);
    let flags = ["--policy", policy.as_str()];
    sandbox.llm.beside(move |request| Some(match request.path.as_str() {
        "/echo" => Answer::raw(201, "text/plain", format!("{} {}", request.header("x-mine").unwrap_or("-"), request.text())),
        "/bin" => Answer::raw(200, "text/plain", [0xff]),
        "/private" => Answer::Bytes(format!("HTTP/1.1 302 Found\r\nlocation: http://localhost:{port}/echo\r\ncontent-length: 0\r\n\r\n").into_bytes()),
        "/file" => Answer::Bytes(b"HTTP/1.1 301 Moved\r\nlocation: file:///etc/passwd\r\ncontent-length: 0\r\n\r\n".to_vec()),
        "/loop" => Answer::Bytes(b"HTTP/1.1 302 Found\r\nlocation: /loop\r\ncontent-length: 0\r\n\r\n".to_vec()),
        _ => Answer::Bytes(b"HTTP/1.1 302 Found\r\nlocation: /echo\r\ncontent-length: 0\r\n\r\n".to_vec()),
    }));
    let fetch = |path: &str, options: &str| {
        format!("const r = net.fetch('http://{here}{path}'{options}); [r.status, r.body]")
    };
    let posted = ", {method: 'post', headers: {'X-Mine': 'h'}, body: 'b'}";
    for (path, options, expect) in [
        ("/echo", posted, r#"[201,"h b"]"#),
        ("/to", posted, r#"[201,"h "]"#),
        ("/bin", ", {base64: true}", r#"[200,"/w=="]"#),
    ] {
        let run = run(&sandbox, &flags, &fetch(path, options)).assert_exit(0);
        assert_eq!(run.stdout, expect, "{path}");
    }
    for (path, word) in [
        ("/bin", "not UTF-8"),
        ("/private", "net localhost"),
        ("/file", "only http and https"),
        ("/loop", "10 redirects"),
    ] {
        fails(&sandbox, &flags, &fetch(path, ""), &[word]);
    }
    // Bodies without an end: too many bytes, a byte now and then, and none at all; Ctrl-C does not wait.
    let head = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    sandbox.llm.beside(move |request| {
        Some(match request.path.as_str() {
            "/endless" => Answer::Endless(head.clone(), vec![b'x'; 1 << 16]),
            "/slow" => Answer::StallBody("half".into()),
            _ => Answer::StallHead,
        })
    });
    fails(&sandbox, &flags, &fetch("/endless", ""), &["over the limit of 52428800 bytes"]);
    for path in ["/slow", "/stall"] {
        run(&sandbox, &["--policy", &policy, "--timeout", "0.5"], &fetch(path, ""))
            .assert_exit(124);
        let before = sandbox.llm.all_requests().len();
        let code = fetch(path, "");
        let running = sandbox.program(JS, &[&flags[..], &["-e", &code]].concat()).spawn();
        wait_until("it asks", || sandbox.llm.all_requests().len() > before);
        let watch = std::time::Instant::now();
        running.signal(rustix::process::Signal::INT);
        running.wait().assert_exit(130);
        let took = watch.elapsed().as_secs_f64() / slowness();
        assert!(took < 1.0, "{path}: {took} s");
    }
    // A wildcard does not open a private address, and no other port was allowed.
    for (url, word) in [
        ("http://127.0.0.1:1/", "is not allowed"),
        ("http://[::ffff:127.0.0.1]/", "is not allowed"),
        ("ftp://127.0.0.1/", "only http and https"),
        ("nonsense", "is not a URL"),
    ] {
        fails(&sandbox, &flags, &format!("net.fetch('{url}')"), &[word]);
    }
    // One connection is not made to look like another.
    for header in ["Host", "content-length", "Transfer-Encoding", "Proxy-Authorization"] {
        let code = fetch("/echo", &format!(", {{headers: {{'{header}': 'x'}}}}"));
        fails(&sandbox, &flags, &code, &["cannot be set"]);
    }
    fails(&sandbox, &flags, &fetch("/echo", ", {method: 'connect'}"), &["cannot be used"]);
}

#[test]
fn a_private_address_is_reached_only_by_its_name_in_an_entry() {
    let sandbox = Sandbox::new();
    let port = sandbox.llm.port();
    sandbox.llm.beside(move |request| {
        let to = |place: &str| {
            Answer::Bytes(
                format!("HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n")
                    .into_bytes(),
            )
        };
        Some(match request.path.as_str() {
            "/metadata" => to("http://169.254.169.254/latest/"),
            "/here" => to(&format!("http://localhost:{port}/ok")),
            _ => Answer::raw(200, "text/plain", "reached"),
        })
    });
    let policy = |entries: Value| {
        let hosts = json!({"default": "allow", "entries": entries});
        sandbox.write("policy.json", json!({"net": {"hosts": hosts}}).to_string());
        ["--policy", "policy.json"]
    };
    let all = policy(json!([{"host": "*.localhost", "approval": "allow"}]));
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "[fe80::1]",
        "[fd00::1]",
        "localhost",
    ] {
        let code = format!("net.fetch('http://{host}:{port}/ok')");
        fails(&sandbox, &all, &code, &["in a private network", "nagent-thought policy add host"]);
    }
    let named = policy(json!([{"host": format!("127.0.0.1:{port}"), "approval": "allow"}]));
    let fetch = |path: &str| format!("net.fetch('http://127.0.0.1:{port}/{path}').body");
    run(&sandbox, &named, &fetch("ok")).assert_exit(0).stdout_is("reached");
    for (path, host) in [("metadata", "169.254.169.254"), ("here", "localhost")] {
        fails(&sandbox, &named, &fetch(path), &[host, "in a private network"]);
    }
    // A proxy is reached wherever it is; a name that NO_PROXY takes from it is looked up as any.
    let through = |host: &str| {
        let code = format!("net.fetch('http://{host}/ok').body");
        let words = [&named[..], &["-e", &code]].concat();
        let run = sandbox.program(JS, &words).env("NO_PROXY", "localhost");
        run.env("HTTP_PROXY", format!("localhost:{port}")).run()
    };
    through("api.example").assert_exit(0).stdout_is("reached");
    through(&format!("localhost:{port}")).assert_exit(1).stderr_has(&["in a private network"]);
}
