//! `nagent-js`: the language, its limits, what a script reaches of files, and what is refused.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::process_under_test::Run;
use crate::sandbox::{Sandbox, answer};
use crate::think::{script, think};

pub(crate) const JS: &str = env!("CARGO_BIN_EXE_nagent-js");

pub(crate) fn run(sandbox: &Sandbox, flags: &[&str], code: &str) -> Run {
    sandbox.program(JS, &[flags, &["-e", code]].concat()).without_terminal().run()
}

/// The value of a script is this text.
#[track_caller]
fn check(sandbox: &Sandbox, code: &str, expect: &str) {
    let run = run(sandbox, &[], code);
    assert_eq!((run.stdout.as_str(), run.code), (expect, 0), "{code}: {}", run.stderr);
}

/// A script fails with a message that has these words.
#[track_caller]
pub(crate) fn fails(sandbox: &Sandbox, flags: &[&str], code: &str, words: &[&str]) {
    run(sandbox, flags, code).assert_exit(1).no_stdout().stderr_has(words);
}

/// A policy's file that allows these hosts and paths.
pub(crate) fn policy(sandbox: &Sandbox, hosts: &[&str], paths: &[(&Path, &str)]) -> String {
    let hosts: Vec<Value> =
        hosts.iter().map(|host| json!({"host": host, "approval": "allow"})).collect();
    let paths: Vec<Value> = paths
        .iter()
        .map(|(path, mode)| json!({"path": path, "mode": mode, "approval": "allow"}))
        .collect();
    let text =
        json!({"version": 1, "paths": {"entries": paths}, "net": {"hosts": {"entries": hosts}}});
    let path = sandbox.base().join("policy.json");
    std::fs::write(&path, text.to_string()).unwrap();
    path.display().to_string()
}

/// Cases that hold in the language, each an expression of its own: what fails is the value.
const LANGUAGE: &str = r#"
        const cases = [
            ["1+1", 2], ["if (true) { 42 }", 42], ["var x = 3; x", 3], ["'a' + 1", "a1"], ["[1,2].at(-1)", 2],
            ["class A { #b = 7; get b() { return this.#b } } new A().b", 7], ["`t${1}`", "t1"],
            ["({a: {b: 1}}).a?.b ?? 0", 1], ["[..."+ "'äö'].length", 2], ["'😀'.length", 2],
            ["JSON.parse('{\"a\": [1]}').a[0]", 1], ["/(?<y>\\d+)/.exec('in 2026').groups.y", "2026"],
            ["'a-b'.replaceAll('-', '+')", "a+b"], ["[3,1,2].toSorted().join()", "1,2,3"], ["typeof 1n", "bigint"],
            ["new Date(0).toISOString()", "1970-01-01T00:00:00.000Z"], ["Object.entries({a: 1}).flat().join()", "a,1"],
            ["undeclared = 5; undeclared", 5], ["(function () { return this !== undefined })()", true],
            ["new Map([[1, 2]]).get(1)", 2], ["[1, 2, 3].reduce((a, b) => a + b)", 6],
            ["let {a, ...rest} = {a: 1, b: 2}; rest.b", 2], ["Math.max(...[1, 5])", 5],
            ["'x'.padStart(3, '.')", "..x"], ["isNaN(+'a')", true], ["0.1 + 0.2 > 0.3", true],
            ["encodeURIComponent('ä b')", "%C3%A4%20b"], ["new Set('aab').size", 2], ["Array.from({length: 2}).length", 2],
            ["parseInt('0x1f')", 31], ["'b'.localeCompare('a') > 0", true], ["[...'ab'].entries().next().value[1]", "a"],
            ["typeof setTimeout + typeof std + typeof os + typeof Worker + typeof Intl", "undefined".repeat(5)],
            ["[1, [2, [3]]].flat(Infinity).length", 3], ["Object.groupBy([1, 2], (n) => n % 2 ? 'a' : 'b').a.length", 1],
            ["'ß'.toUpperCase()", "SS"], ["'e\\u0301'.normalize('NFC').length", 1], ["[...'👩‍👩‍👧'].length", 5],
            ["/\\p{Lu}/u.test('Ä')", true], ["/(?<=a)b/.test('ab')", true], ["'aBc'.replace(/b/i, (x) => x + x)", "aBBc"],
            ["'2026-11-23'.match(/\\d+/g).length", 3], ["'a,b'.split(',', 1).length", 1], ["JSON.stringify({a: undefined, b: [undefined]})", "{\"b\":[null]}"],
            ["JSON.stringify({d: new Date(0)}).length", 32], ["JSON.parse('1e3')", 1000], ["JSON.stringify('\\u2028').length", 3],
            ["new Date(2020, 1, 29).getDate()", 29], ["new Date('2026-11-23T00:00:00Z').getTime()", 1795392000000], ["isNaN(new Date('x'))", true],
            ["Date.UTC(1970, 0, 2)", 86400000], ["(function* () { yield 1 })().next().value", 1], ["(() => { try { return 1 } finally { 2 } })()", 1],
            ["var {x = 5} = {}; x", 5], ["((a, b = a) => a + b)(2)", 4], ["0b101 + 0o17 + 1_000", 1020], ["2 ** 10", 1024],
            ["(class { static #n = 3; static n() { return this.#n } }).n()", 3], ["Symbol('a').description", "a"],
            ["new Proxy({}, {get: (t, k) => k}).abc", "abc"], ["Reflect.ownKeys({a: 1, [Symbol.iterator]: 2}).length", 2],
            ["new Uint8Array([255, 256])[1]", 0], ["new DataView(new ArrayBuffer(8)).getFloat64(0)", 0], ["structure = [1,2,3].with(1, 9)[1]", 9],
            ["(5).toFixed(2)", "5.00"], ["(255).toString(16)", "ff"], ["[10, 9, 1].sort().join()", "1,10,9"], ["'abc'.at(-1)", "c"],
            ["Number.MAX_SAFE_INTEGER + 2 === Number.MAX_SAFE_INTEGER + 1", true], ["typeof globalThis", "object"], ["eval('1;2;3')", 3],
            ["a: { break a } typeof undefined", "undefined"], ["with ({q: 8}) { q }", 8], ["010 + 0", 8], ["atob(btoa('x'))", "x"],
            ["typeof new WeakRef({}).deref", "function"], ["let n; n ??= 4; n", 4], ["null?.a.b.c === undefined", true],
            ["try { null.x } catch ({name}) { name }", "TypeError"], ["label: for (;;) { break label } 1", 1],
        ];
        const wrong = cases.filter(([code, value]) => (0, eval)(code) !== value);
        JSON.stringify(wrong)
"#;

#[test]
fn the_value_of_the_last_statement() {
    let sandbox = Sandbox::new();
    // As nagent-js runs it, and as a script of the model.
    check(&sandbox, LANGUAGE, "[]");
    sandbox.write("hello.md", "Print hello.");
    sandbox.llm.push(
        script(LANGUAGE) + &script("({a: [1, 'ü']})") + &script("'a\\u0000b'") + &script("null"),
    );
    sandbox.llm.push(answer("done"));
    think(&sandbox, &["hello.md"]).assert_exit(0).no_stdout();
    let results = sandbox.blocks_of("nagent-script-result");
    let values: Vec<_> = results.iter().map(|block| (block.get("status"), &*block.body)).collect();
    assert_eq!(values[0], ("ok", "[]"));
    assert_eq!(values[1], ("ok", "{\"a\":[1,\"ü\"]}"));
    assert_eq!((values[2].0, values[3]), ("ok", ("ok", "")));
    check(&sandbox, "undefined", "");
    check(&sandbox, "null", "");
    check(&sandbox, "({a: [1, 'ü']})", "{\"a\":[1,\"ü\"]}");
    check(&sandbox, "await Promise.resolve(9)", "9");
    check(&sandbox, "(async () => await 5)()", "5");
    check(&sandbox, "10n ** 20n", "100000000000000000000");
    check(&sandbox, "new Error('x')", "Error: x");
    let zones = [("UTC", "12"), ("Asia/Tokyo", "21"), ("America/New_York", "08")];
    for (zone, hour) in zones {
        let date = "new Date('2026-07-01T12:00:00Z').toString().slice(16, 18)";
        sandbox.program(JS, &["-e", date]).env("TZ", zone).run().assert_exit(0).stdout_is(hour);
    }
}

#[test]
fn files_arguments_and_stdin() {
    let sandbox = Sandbox::new()
        .file("a.js", "#!/usr/bin/env nagent-js\nprocess.args.join() + require('./b').x");
    sandbox.write("b.js", "exports.x = __filename.slice(-4) + typeof module");
    sandbox
        .program(JS, &["--file", "a.js", "--", "-x", "y"])
        .run()
        .assert_exit(0)
        .stdout_is("-x,yb.jsobject");
    std::fs::create_dir(sandbox.work().join("sub")).unwrap();
    sandbox.write("sub/b.js", "process.args[0]");
    sandbox.program(JS, &["-C", "sub", "b.js", "-C"]).run().assert_exit(0).stdout_is("-C");
    sandbox.program(JS, &["-", "z"]).stdin("process.args[0]").run().assert_exit(0).stdout_is("z");
    sandbox
        .program(JS, &["--file", "none.js"])
        .run()
        .assert_exit(1)
        .stderr_has(&["none.js", "no such file"]);
    sandbox.program::<&str>(JS, &[]).run().assert_exit(2).stderr_has(&["no script given"]);
    sandbox.write("c.js", "let a = 1;\n\nfoo.bar()\n");
    let run = sandbox.program(JS, &["--json", "--file", "c.js"]).run().assert_exit(1);
    let json = run.json();
    assert_eq!(json["line"], 3, "{json}");
    sandbox.write("d.js", "1;\n(");
    sandbox
        .program(JS, &["--file", "d.js"])
        .run()
        .assert_exit(1)
        .stderr_has(&["line 2: SyntaxError"]);
}

#[test]
fn ways_to_end() {
    let sandbox = Sandbox::new();
    for (code, exit, part) in [
        ("throw new Error('boom')", 1, "line 1: Error: boom"),
        ("throw 'text'", 1, "text"),
        ("throw new Proxy({}, {get() { throw 1 }})", 1, "has no text"),
        ("new Proxy({}, {get() { throw new Error('gotcha') }})", 1, "gotcha"),
        ("const o = {}; o.o = o; o", 1, "circular"),
        ("Promise.reject(new Error('lost')); 1", 1, "lost"),
        ("await new Promise(() => {})", 1, "nothing will ever fulfil"),
        ("(function f() { f() })()", 1, "call stack"),
        ("try { process.exit(3) } catch (e) {} finally { while (1) {} }", 3, ""),
        ("process.exit()", 0, ""),
        ("process.exit(256)", 1, ""),
        ("throw {code: 7}", 1, "{\"code\":7}"),
        ("throw new Error('half \\ud83d')", 1, "half \u{fffd}"),
        ("env.get('')", 1, "not the name of a variable"),
        ("try { agent.resume({need: 1}) } catch (e) { 7 }", 10, ""),
        (
            "const a = []; while (1) a.push(new Uint8Array(1e7))",
            125,
            "out of memory: the limit is 256 MiB",
        ),
        ("throw null", 1, "null"),
        ("await Promise.reject(null)", 1, "null"),
        ("throw new Error('out of memory')", 1, "Error: out of memory"),
        ("while (1) console.log('x'.repeat(100000))", 1, "the console is full"),
        (
            "'x'.repeat(1.1e6).repeat(10)",
            1,
            "the value has 11000000 characters, over the limit of 10485760",
        ),
        ("fs.exists('x'.repeat(1e6).repeat(70))", 1, "too many for one call"),
    ] {
        run(&sandbox, &[], code).assert_exit(exit).no_stdout().stderr_has(&[part]);
    }
    // The engine throws null where it has no memory left for an error.
    let small = ["--memory", "20000000"];
    let code = "(function () { const a = []; while (1) a.push({ a: a.length }) })()";
    run(&sandbox, &small, "const a = []; while (1) a.push('x'.repeat(100000) + a.length)")
        .assert_exit(125)
        .stderr_has(&["out of memory"]);
    let full = run(&sandbox, &small, code);
    assert!([1, 125].contains(&full.code) && full.stderr.contains("memory"), "{}", full.stderr);
    run(&sandbox, &small, "throw null").assert_exit(1).stderr_has(&["null"]);
    // Deep in every way that the language has; in one process, since none of them may harm the next.
    let deep = r#"
        const chain = (link, end) => { let x = end; for (let i = 0; i < 1e5; i++) x = link(x); return x };
        const ways = [
            () => { (function f() { f() })() }, () => new Proxy({}, { get: (t, k, r) => r[k] }).x,
            () => { const o = { toString: () => "" + o }; return "" + o }, () => ({ get a() { return this.a } }).a,
            () => { class A { constructor() { new A() } } new A() }, () => { function* g() { yield* g() } [...g()] },
            () => [1, 2].sort(function c() { [1, 2].sort(c) }), () => "a".replace(/a/, function f() { return "a".replace(/a/, f) }),
            () => JSON.parse("[".repeat(1e5)), () => JSON.stringify(chain((x) => [x], [])), () => String(chain((x) => [x], [])),
            () => eval("(".repeat(1e5)), () => eval("[".repeat(1e5)), () => eval("!".repeat(1e5) + 1),
            () => new RegExp("(?:".repeat(1e5) + ")".repeat(1e5)).test("a"), () => chain((f) => f.bind(null), () => 1)(),
            () => { const o = {}; o.toJSON = () => JSON.stringify(o); return JSON.stringify(o) },
            () => Reflect.construct(function F() { Reflect.construct(F, []) }, []),
        ];
        ways.map((way) => { try { way(); return "no error" } catch (e) { return e.name } }).join()
    "#;
    let ended = run(&sandbox, &[], deep).assert_exit(0).stdout;
    let names: Vec<&str> = ended.split(',').collect();
    assert_eq!(names.len(), 18, "{ended}");
    assert!(names.iter().all(|name| name.ends_with("Error")), "{ended}");
    let json = run(&sandbox, &["--json"], "console.log('c'); agent.resume({need: 1})").json();
    assert_eq!(
        (json["resumed"].as_str(), json["console"].as_str()),
        (Some("{\"need\":1}"), Some("c\n"))
    );
    // Native loops ask nobody: the process is ended.
    for code in [
        "while (true) {}",
        "try { while (1) {} } finally { while (1) {} }",
        "new Array(1e9) + ''",
        "/(a+)+b/.test('a'.repeat(40))",
        "process.sleep(60000)",
    ] {
        let run = run(&sandbox, &["--timeout", "0.1"], code).within(5.0);
        run.assert_exit(124).no_stdout().stderr_has(&["longer than 0.1 s"]);
    }
    assert_eq!(sandbox.lasting_processes(), Vec::<String>::new());
}

#[test]
fn the_functions_of_files() {
    let sandbox =
        Sandbox::new().file("d/a.txt", "one\n").file("d/b.bin", [0xff, 0]).file("d/e/c.txt", "");
    let out = sandbox.base().join("out");
    std::fs::create_dir(&out).unwrap();
    let policy = policy(&sandbox, &[], &[(&out, "rwd")]);
    let code = |code: &str| {
        let code = format!("const out = {:?}; {code}", out.display().to_string());
        let run = run(&sandbox, &["--policy", &policy], &code);
        if run.code == 0 { run.stdout } else { run.stderr }
    };
    for (script, expect) in [
        ("fs.readFile('d/a.txt')", "one\n"),
        ("fs.readFile('d/b.bin', 'base64')", "/wA="),
        (
            "fs.readDir('d')",
            r#"[{"name":"a.txt","isDir":false,"size":4},{"name":"b.bin","isDir":false,"size":2},"#,
        ),
        ("Object.keys(fs.stat('d/a.txt'))", r#"["name","isDir","size","modTime"]"#),
        ("[fs.exists('d'), fs.exists('nope'), fs.exists('/etc/passwd')]", "[true,false,false]"),
        (
            "fs.glob('d/**/*.txt').map(p => p.split('/').slice(-2).join('/'))",
            r#"["d/a.txt","e/c.txt"]"#,
        ),
        (
            "fs.writeFile(out + '/w', 'ä'); fs.appendFile(out + '/w', 'b'); fs.readFile(out + '/w')",
            "äb",
        ),
        ("fs.writeFile(out + '/bin', '/wA=', 'base64'); fs.stat(out + '/bin').size", "2"),
        ("fs.mkdir(out + '/x/y/z'); fs.mkdir(out + '/x'); fs.stat(out + '/x/y/z').isDir", "true"),
        (
            "fs.copy('d/a.txt', out + '/copy'); fs.move(out + '/copy', out + '/x/moved'); fs.readFile(out + '/x/moved')",
            "one\n",
        ),
        ("fs.delete(out + '/x'); fs.delete(out + '/never'); fs.exists(out + '/x')", "false"),
        // Half a character, as cutting a text leaves it.
        (
            r"const half = 'a\\😀b'.slice(0, 3); process.stdout.write(half); fs.writeFile(out + '/w', half); fs.readFile(out + '/w') + half",
            "a\\\u{fffd}a\\\u{fffd}a\\\u{fffd}",
        ),
        (
            "try { fs.readFile('nope') } catch (e) { [String(e) === e.message, e instanceof Error] }",
            "[true,true]",
        ),
    ] {
        let got = code(script);
        assert!(got.starts_with(expect), "{script}: {got}");
    }
    for (script, part) in [
        ("fs.readFile('d/b.bin')", "is not UTF-8 text; fs.readFile(path, \"base64\")"),
        ("fs.readFile('d')", "is a folder"),
        ("fs.readFile('')", "the path is empty"),
        ("fs.readFile(1)", "argument 1 must be a string"),
        ("fs.readFile('d/a.txt', 'hex')", "the encoding is"),
        ("fs.writeFile(out + '/no/x', 'a')", "fs.mkdir makes it"),
        ("fs.writeFile(out, 'a')", "is a folder"),
        (
            "fs.writeFile(out + '/big', 'x'.repeat(10 * 1024 * 1024 + 1))",
            "over the limit of 10485760",
        ),
        ("fs.readDir('d/a.txt')", "is not a folder"),
        ("fs.delete('d')", "delete "),
        ("fs.move('d/a.txt', out + '/m')", "delete "),
        ("fs.copy(out + '/none', out + '/m')", "no such file"),
        ("require('lodash')", "only paths work"),
        ("require('./nope')", "module not found"),
        ("fs.nope()", "not a function"),
    ] {
        let got = code(script);
        assert!(got.contains(part), "{script}: {got}");
    }
    // Other names of a file would change, too.
    std::fs::write(out.join("one"), "1").unwrap();
    std::fs::hard_link(out.join("one"), sandbox.work().join("two")).unwrap();
    assert!(code("fs.appendFile(out + '/one', '2')").contains("other names"));
    code("fs.writeFile(out + '/one', '3')");
    assert_eq!(sandbox.read("two"), "1");
}

#[test]
fn modules() {
    let sandbox = Sandbox::new()
        .file("lib/index.js", "exports.name = 'lib'; exports.other = require('../other').name")
        .file("other.js", "exports.name = 'other'; exports.lib = require('./lib').name")
        .file("data.json", "{\"a\": 1}")
        .file("pkg/src/m.js", "module.exports = () => __dirname.split('/').pop()")
        .file("bad.js", "x = 1;\nthrow new Error('in bad')");
    check(
        &sandbox,
        "[require('./lib').other, require('./other').lib, require('./data.json').a, require('./pkg/src/m')()]",
        r#"["other","lib",1,"src"]"#,
    );
    check(&sandbox, "require('./lib') === require('./lib/index.js')", "true");
    fails(&sandbox, &[], "require('./bad')", &["in bad"]);
    for name in ["/etc/hostname", "/etc/no-such-file"] {
        let refused = format!("read {name} is not allowed");
        fails(&sandbox, &[], &format!("require('{name}')"), &[&refused]);
    }
}

#[test]
fn places_that_are_refused() {
    let sandbox = Sandbox::new().file("a", "1");
    let secret = sandbox.base().join("secret");
    std::fs::write(&secret, "s3cr3t").unwrap();
    symlink(&secret, sandbox.work().join("link")).unwrap();
    symlink(sandbox.base(), sandbox.work().join("up")).unwrap();
    let fifo = sandbox.work().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let path = secret.display().to_string();
    for (code, word) in [
        (format!("fs.readFile({path:?})"), "read "),
        ("fs.readFile('../secret')".to_owned(), "read "),
        ("fs.readFile('link')".to_owned(), "read "),
        ("fs.readFile('up/secret')".to_owned(), "read "),
        ("fs.readDir('up')".to_owned(), "read "),
        ("fs.copy('link', 'b')".to_owned(), "read "),
        ("fs.writeFile('a', '2')".to_owned(), "write "),
        ("fs.writeFile('link', '2')".to_owned(), "secret"),
        ("fs.appendFile('a', '2')".to_owned(), "write "),
        ("fs.mkdir('x')".to_owned(), "write "),
        ("fs.delete('a')".to_owned(), "delete "),
        ("env.get('HOME')".to_owned(), "env HOME"),
        ("net.fetch('http://127.0.0.1:9/')".to_owned(), "net 127.0.0.1:9"),
    ] {
        fails(&sandbox, &[], &code, &[word, "is not allowed", "nobody is there to ask"]);
    }
    fails(&sandbox, &[], "fs.readFile('fifo')", &["not a regular file"]);
    // By no entry: special files, nagent's own folder, keys.
    let home = sandbox.home();
    for folder in [".thinkingscript/agents", ".nagent"] {
        std::fs::create_dir_all(home.join(folder)).unwrap();
        std::fs::write(home.join(folder).join("x"), "key").unwrap();
    }
    let policy = policy(&sandbox, &[], &[(Path::new("/"), "rwd")]);
    let all = ["--policy", policy.as_str()];
    for place in ["/proc/self/environ", "/proc/version", "/dev/null", "/sys/kernel/uevent_seqnum"] {
        for flags in [&all[..], &[]] {
            let why = ["is not allowed", "devices and processes, not files"];
            fails(&sandbox, flags, &format!("fs.readFile('{place}')"), &why);
        }
    }
    let home = home.display();
    for (code, word) in [
        (format!("fs.readFile('{home}/.thinkingscript/agents/x')"), "keys and conversations"),
        (format!("fs.readFile('{home}/.nagent/x')"), "keys and conversations"),
        (format!("fs.writeFile('{home}/.thinkingscript/policy.json', '{{}}')"), "what it may do"),
        (format!("fs.writeFile('{home}/.thinkingscript/config.json', '{{}}')"), "what it may do"),
        (format!("fs.delete('{home}')"), "needs this folder"),
        (format!("fs.move('{home}/.thinkingscript', '/tmp/x')"), "needs this folder"),
    ] {
        fails(&sandbox, &all, &code, &["is not allowed", word]);
    }
    // A key by another name.
    for folder in [".thinkingscript/agents", ".nagent"] {
        let hard = sandbox.work().join("hard");
        std::fs::hard_link(format!("{home}/{folder}/x"), &hard).unwrap();
        for code in ["fs.readFile('hard')", "require('./hard')", "fs.move('hard', 'b')"] {
            fails(&sandbox, &all, code, &["is not allowed", "contain keys"]);
        }
        std::fs::remove_file(hard).unwrap();
    }
    let run = run(
        &sandbox,
        &["--json"],
        "try { fs.readFile('../secret') } catch {} fs.exists('../secret')",
    )
    .assert_exit(0);
    assert_eq!(run.json()["denied"], json!([format!("read {path}")]));
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "s3cr3t");
}

/// In a mount namespace of its own, where that can be made and the kernel has traces.
#[test]
fn what_the_kernel_makes_elsewhere_is_no_file_either() {
    let sandbox = Sandbox::new();
    let policy = policy(&sandbox, &[], &[(Path::new("/"), "rwd")]);
    std::fs::create_dir(sandbox.work().join("traces")).unwrap();
    let read = |mount: &str| {
        let js = env!("CARGO_BIN_EXE_nagent-js");
        let code = "fs.readFile('traces/README').length > 0";
        let words = format!("{mount} || exit 99; exec {js} --policy '{policy}' -e \"{code}\"");
        sandbox.program("unshare", &["-m", "sh", "-c", &words]).run()
    };
    if sandbox.program("unshare", &["-m", "true"]).run().code != 0 {
        return;
    }
    let traces = read("mount -t tracefs none traces");
    if traces.code != 99 {
        traces.assert_exit(1).stderr_has(&["is not a regular file"]);
    }
    read("echo x > traces/README").assert_exit(0);
}

#[test]
fn a_variable_with_a_password_in_its_value_is_a_credential() {
    let sandbox = Sandbox::outside_temp()
        .env("DATABASE_URL", "postgres://me:hunter2!x@db/app")
        .env("DATABASE_COPY", "at sk-test-0123456789abcdef")
        .env("OPENAI_API_KEY", "sk-test-0123456789abcdef")
        .env("DATABASE_DIR", "/srv");
    let policy = |env: Value| {
        sandbox.write("policy.json", json!({"env": env}).to_string());
        ["--policy", "policy.json"]
    };
    let allow = |name: &str| json!({"name": name, "approval": "allow"});
    for env in [json!({"default": "allow"}), json!({"entries": [allow("DATA*")]})] {
        let flags = policy(env);
        run(&sandbox, &flags, "env.get('DATABASE_DIR')").assert_exit(0).stdout_is("/srv");
        for name in ["DATABASE_URL", "DATABASE_COPY"] {
            let code = format!("env.get('{name}')");
            fails(&sandbox, &flags, &code, &["nobody is there to ask"]);
        }
    }
    let flags = policy(json!({"entries": [allow("DATABASE_URL")]}));
    run(&sandbox, &flags, "env.get('DATABASE_URL').length").assert_exit(0).stdout_is("30");
}

#[test]
fn a_folder_is_removed_whole_or_not_at_all() {
    let sandbox = Sandbox::new().file("d/a", "1").file("d/b/kept", "2").file("d/c", "3");
    let work = sandbox.work().canonicalize().unwrap();
    let entries = json!([
        {"path": work.join("d"), "mode": "rwd", "approval": "allow"},
        {"path": work.join("d/b/kept"), "mode": "d", "approval": "deny"},
    ]);
    let policy = sandbox.base().join("policy.json");
    std::fs::write(&policy, json!({"version": 1, "paths": {"entries": entries}}).to_string())
        .unwrap();
    fails(
        &sandbox,
        &["--policy", policy.to_str().unwrap()],
        "fs.delete('d')",
        &["kept is not allowed", "the policy says no"],
    );
    for name in ["d/a", "d/b/kept", "d/c"] {
        assert!(work.join(name).exists(), "{name}");
    }
}

#[test]
fn names_that_change_places_lead_nowhere_else() {
    let sandbox = Sandbox::new().file("in/name/f", "inside").file("out/f", "outside");
    let (work, out) = (sandbox.work().canonicalize().unwrap(), sandbox.base().join("out"));
    std::fs::rename(work.join("out"), &out).unwrap();
    symlink(&out, work.join("in/other")).unwrap();
    let policy = policy(&sandbox, &[], &[(&work.join("in"), "rwd")]);
    let done = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            let (one, other) = (work.join("in/name"), work.join("in/other"));
            while !done.load(Ordering::Relaxed) {
                let (flags, cwd) = (rustix::fs::RenameFlags::EXCHANGE, rustix::fs::CWD);
                rustix::fs::renameat_with(cwd, &one, cwd, &other, flags).unwrap();
            }
        });
        // Until there was enough of both.
        let code = "let ok = 0, no = 0, out = 0;
            const count = (f) => { try { if (f() === 'outside') out++; ok++ } catch { no++ } };
            for (let i = 0; i < 50000 && (i < 300 || ok < 50 || no < 50); i++) {
                count(() => fs.readFile('in/name/f')); count(() => fs.writeFile('in/name/g', 'x'));
                count(() => fs.appendFile('in/name/f', '')); count(() => fs.mkdir('in/name/d'));
                count(() => fs.delete('in/name/d'));
            }
            // Reading is where a path would be looked up twice.
            for (let i = 0; i < 2500; i++) count(() => fs.readFile('in/name/f'));
            [ok > 49, no > 49, out]";
        let run = run(&sandbox, &["--policy", &policy], code);
        done.store(true, Ordering::Relaxed);
        run.assert_exit(0).stdout
    });
    assert_eq!(report, "[true,true,0]");
    let names: Vec<_> = std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["f"], "nothing was written or made outside");
}

#[test]
fn an_entry_of_a_policy_is_about_what_its_path_leads_to() {
    let sandbox = Sandbox::new().file("secret", "x").file("real/secret", "x");
    symlink(sandbox.work(), sandbox.base().join("way")).unwrap();
    let policy = |path: &str| {
        let entries = json!([{"path": path, "mode": "rw", "approval": "deny"}]);
        sandbox.write("policy", json!({"version": 1, "paths": {"entries": entries}}).to_string());
    };
    let way = sandbox.base().join("way").display().to_string();
    for (path, code) in [
        (way.clone() + "/secret", "fs.readFile('secret')"),
        (way.clone() + "//real/./", "fs.readFile('real/secret')"),
        (way + "/new/folder", "fs.mkdir('new/folder')"),
    ] {
        policy(&path);
        fails(&sandbox, &["--policy", "policy"], code, &["the policy says no"]);
    }
    for path in ["secret", "./secret", "~/secret", "/x/../secret"] {
        policy(path);
        let run = run(&sandbox, &["--policy", "policy"], "fs.readFile('secret')");
        run.assert_exit(2).stderr_has(&[path, "is not an absolute path"]);
    }
}

#[test]
fn a_script_does_not_write_its_own_policy() {
    let sandbox = Sandbox::new().file("p/own.json", "{}").file("p/global.json", "{}");
    let work = sandbox.work().canonicalize().unwrap();
    let policy = policy(&sandbox, &[], &[(&work, "rwd")]);
    std::fs::rename(policy, work.join("p/own.json")).unwrap();
    symlink("p/own.json", work.join("link")).unwrap();
    let flags = ["--policy", "link", "--global", "p/global.json"];
    for code in [
        "fs.writeFile('p/own.json', '{}')",
        "fs.writeFile('link', '{}')",
        "fs.appendFile('p/global.json', ' ')",
        "fs.delete('p/global.json')",
        "fs.move('p', 'q')",
        "fs.writeFile('x', '{}'); fs.move('x', 'p/own.json')",
    ] {
        fails(&sandbox, &flags, code, &["is not allowed", "cannot change what it may do"]);
    }
    run(&sandbox, &flags, "fs.readFile('p/global.json')").assert_exit(0).stdout_is("{}");
}

#[test]
fn a_folder_takes_no_restricted_file_elsewhere() {
    let sandbox = Sandbox::new().file("folder/secret", "s3cr3t").file("folder/open", "1");
    let work = sandbox.work().canonicalize().unwrap();
    let entry = |path: &str, approval: &str| json!({"path": work.join(path), "mode": "rwd", "approval": approval});
    for (list, approval) in [("entries", "deny"), ("entries", "prompt"), ("protected", "deny")] {
        let own = json!({"paths": {"entries": [entry("", "allow")]}});
        sandbox.write("own.json", own.to_string());
        let global = json!({"paths": {list: [entry("folder/secret", approval)]}});
        sandbox.write("global.json", global.to_string());
        let flags = ["--policy", "own.json", "--global", "global.json"];
        let code = "fs.move('folder', 'other'); fs.readFile('other/secret')";
        fails(&sandbox, &flags, code, &["move ", "has entries for paths in it"]);
        run(&sandbox, &flags, "fs.move('folder/open', 'x'); fs.move('x', 'folder/open')")
            .assert_exit(0);
    }
}
