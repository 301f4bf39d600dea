//! Pictures and documents in a conversation: the blocks that name them, the parts of requests that show them, for each
//! API; what is scaled down, read as text or refused before anything is paid; what is named later.

use std::io::{Cursor, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::codecs::gif::GifEncoder;
use image::{DynamicImage, Frame, ImageFormat, RgbaImage};
use memchr::memmem;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::answers::Answer;
use crate::fake_llm::Request;
use crate::sandbox::{Sandbox, answer, shell};
use crate::wire::Reply;

/// One red pixel.
pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xf8\xcf\xc0\0\0\x03\x01\x01\0\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82";
const PDF: &[u8] =
    b"%PDF-1.4\n1 0 obj<</Type/Page>>endobj\n2 0 obj<</Type /Page>>endobj\nstartxref\n9\n%%EOF\n";

fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    let pixels = RgbaImage::from_fn(width, height, |x, y| {
        image::Rgba([x.to_le_bytes()[0], y.to_le_bytes()[0], 9, 255])
    });
    let pixels = DynamicImage::ImageRgba8(pixels);
    let pixels = if format == ImageFormat::Jpeg { pixels.to_rgb8().into() } else { pixels };
    pixels.write_to(&mut out, format).unwrap();
    out.into_inner()
}

fn animation() -> Vec<u8> {
    let mut out = Vec::new();
    let frame = |red| Frame::new(RgbaImage::from_pixel(4, 3, image::Rgba([red, 0, 0, 255])));
    GifEncoder::new(&mut out).encode_frames([frame(255), frame(0)]).unwrap();
    out
}

/// A photo that lies on its side, as EXIF says.
fn turned_photo() -> Vec<u8> {
    let jpeg = picture(40, 20, ImageFormat::Jpeg);
    let exif =
        b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    [&jpeg[..2], exif, &jpeg[2..]].concat()
}

const APIS: [&str; 5] = ["responses", "chat", "anthropic", "google", "ollama"];

/// A world whose model speaks this API.
fn world(api: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let (origin, key) = (sandbox.llm.origin(), format!("{}_API_KEY", api.to_uppercase()));
    if ["responses", "chat"].contains(&api) {
        return sandbox.config_also(json!({ "api": api }));
    }
    let config = json!({"provider": api, "model": "m", "base_url": origin});
    sandbox.config(config).env("OPENAI_API_KEY", "").env(&key, "k")
}

/// The messages of a request.
fn messages(body: &Value) -> Vec<Value> {
    let all = ["messages", "input", "contents"].iter().find_map(|key| body[key].as_array());
    all.unwrap().iter().filter(|message| message["role"] != "system").cloned().collect()
}

/// The files of a message in order: the text before each, the media type, the bytes.
fn files(message: &Value) -> Vec<(String, String, Vec<u8>)> {
    let decode = |data: &Value| STANDARD.decode(data.as_str().unwrap()).unwrap();
    let of_url = |url: &Value| {
        let (kind, data) = url.as_str().unwrap()[5..].split_once(";base64,").unwrap();
        (kind.to_owned(), decode(&json!(data)))
    };
    if let Some(images) = message["images"].as_array() {
        let text = message["content"].as_str().unwrap().to_owned();
        return images.iter().map(|data| (text.clone(), "?".to_owned(), decode(data))).collect();
    }
    let parts = ["content", "parts"].iter().find_map(|key| message[key].as_array());
    let (mut found, mut text) = (Vec::new(), String::new());
    for part in parts.into_iter().flatten() {
        let (kind, bytes) = match part["type"].as_str() {
            Some("image_url") => of_url(&part["image_url"]["url"]),
            Some("input_image") => of_url(&part["image_url"]),
            Some("file") => of_url(&part["file"]["file_data"]),
            Some("input_file") => of_url(&part["file_data"]),
            Some("image" | "document") => {
                let source = &part["source"];
                (source["media_type"].as_str().unwrap().to_owned(), decode(&source["data"]))
            }
            _ if part["inlineData"].is_object() => {
                let data = &part["inlineData"];
                (data["mimeType"].as_str().unwrap().to_owned(), decode(&data["data"]))
            }
            _ => {
                part["text"].as_str().unwrap().clone_into(&mut text);
                continue;
            }
        };
        found.push((text.clone(), kind, bytes));
    }
    found
}

/// The files of the last request.
fn sent(sandbox: &Sandbox) -> Vec<(String, String, Vec<u8>)> {
    let body = sandbox.requests().last().unwrap().json();
    messages(&body).iter().flat_map(files).collect()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_picture_is_directly_behind_its_block_in_every_turn() {
    for api in APIS {
        let jpeg = picture(8, 4, ImageFormat::Jpeg);
        let sandbox = world(api).file("a.png", PNG).file("b.jpg", &jpeg).replies([
            "<nagent-read path=\"b.jpg\"/>".to_owned(),
            answer("two"),
            answer("more"),
        ]);
        sandbox.run(&["-f", "a.png", "what is it?"]).answers("two");
        sandbox.run(&["and now?"]).answers("more");
        let requests: Vec<Value> = sandbox.requests().iter().map(Request::json).collect();
        let all: Vec<Vec<Value>> = requests.iter().map(messages).collect();
        // Each request begins with the one before, byte for byte, but for the marks of a cache, which move.
        for pair in all.windows(2) {
            let text = |messages: &[Value]| {
                let text = serde_json::to_string(messages).unwrap();
                text.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
            };
            assert_eq!(text(&pair[1][..pair[0].len()]), text(&pair[0]), "{api}");
        }
        let found = sent(&sandbox);
        assert_eq!(found.len(), 2, "{api}");
        assert!(
            found[0].0.contains("path=\"a.png\"") && found[0].0.contains("1x1 pixels"),
            "{api}"
        );
        assert!(found[1].0.contains("path=\"b.jpg\"") && found[1].2 == jpeg, "{api}");
        assert_eq!(found[0].2, PNG);
        let block = &sandbox.blocks_of("nagent-read-result")[0];
        let get = |name| block.get(name).to_owned();
        assert_eq!(get("sha256"), sha256(PNG));
        assert_eq!([get("media"), get("bytes"), get("width")], ["image/png", "69", "1"]);
        assert_eq!(std::fs::read(sandbox.stored(&sha256(&jpeg)[..12])).unwrap(), jpeg);
    }
}

#[test]
fn formats_that_an_api_does_not_take_become_copies() {
    for api in ["anthropic", "google"] {
        let sandbox = world(api)
            .file("a.gif", picture(4, 3, ImageFormat::Gif))
            .file("b.gif", animation())
            .file("c.webp", picture(4, 3, ImageFormat::WebP))
            .reply(answer("ok"));
        sandbox.run(&["-f", "a.gif", "-f", "b.gif", "-f", "c.webp", "x"]).answers("ok");
        let found = sent(&sandbox);
        let kinds: Vec<&str> = found.iter().map(|file| file.1.as_str()).collect();
        assert_eq!(kinds, ["image/png"; 3]);
        assert!(found[1].0.contains("only its first frame is shown"), "{}", found[1].0);
        let first = image::load_from_memory(&found[1].2).unwrap().to_rgb8();
        assert_eq!(first.get_pixel(0, 0).0, [255, 0, 0]);
    }
}

#[test]
fn what_is_too_large_is_scaled_down_and_what_lies_on_its_side_is_put_upright() {
    let large = picture(4000, 50, ImageFormat::Png);
    let sandbox =
        world("anthropic").file("a.png", &large).file("b.jpg", turned_photo()).reply(answer("ok"));
    sandbox.run(&["-f", "a.png", "-f", "b.jpg", "x"]).answers("ok");
    let found = sent(&sandbox);
    let size = |bytes: &[u8]| {
        let picture = image::load_from_memory(bytes).unwrap();
        (picture.width(), picture.height())
    };
    assert_eq!((size(&found[0].2), size(&found[1].2)), ((2000, 25), (20, 40)));
    let blocks = sandbox.blocks_of("nagent-read-result");
    assert_eq!(blocks[0].get("width"), "4000");
    assert_eq!((blocks[1].get("width"), blocks[1].get("height")), ("20", "40"));
    assert_eq!(std::fs::read(sandbox.stored(&sha256(&large)[..12])).unwrap(), large);
}

#[test]
fn documents_go_as_such_or_as_text() {
    for api in ["responses", "chat", "anthropic", "google"] {
        let sandbox = world(api).file("a.pdf", PDF).reply(answer("ok"));
        sandbox.run(&["-f", "a.pdf", "x"]).answers("ok");
        let found = sent(&sandbox);
        assert_eq!((found[0].1.as_str(), found[0].2.as_slice()), ("application/pdf", PDF));
        assert_eq!(sandbox.block("nagent-read-result").get("pages"), "2");
    }
    let locked = [&PDF[..PDF.len() - 6], b"trailer<</Encrypt 5 0 R>>\n%%EOF\n"].concat();
    let pages = [b"%PDF-1.4\n".as_slice(), &b"<</Type/Page>>\n".repeat(2000), b"%%EOF\n"].concat();
    for (api, pdf, why) in [
        ("ollama", PDF, "Ollama does not accept application/pdf"),
        ("anthropic", &locked, "it is encrypted"),
        ("anthropic", &pages, "it has 2000 pages, and Anthropic takes 100 pages"),
        ("anthropic", &PDF[..PDF.len() - 9], "it was truncated"),
    ] {
        let sandbox = world(api).file("a b.pdf", pdf);
        let none = sandbox.cmd(&["-f", "a b.pdf", "x"]).env("PATH", "/nowhere").run();
        none.assert_exit(1).stderr_has(&[why, "install pdftotext (poppler-utils)"]);
        let script = "#!/bin/sh\n[ \"$1\" = -layout ] && head -c 5 \"$3\" && echo ' the words'\n";
        sandbox.script("bin/pdftotext", script);
        let path = format!("{}:/usr/bin:/bin", sandbox.work().join("bin").display());
        let sandbox = sandbox.env("PATH", path).reply(answer("ok"));
        sandbox.run(&["-f", "a b.pdf", "x"]).answers("ok");
        assert_eq!(sent(&sandbox), []);
        let block = sandbox.block("nagent-read-result");
        assert!(
            block.body.contains(why) && block.body.contains("%PDF- the words"),
            "{}",
            block.body
        );
        assert_eq!(block.get("sha256"), "");
        sandbox.script("bin/pdftotext", "#!/bin/sh\nexit 0\n");
        sandbox.run(&["-f", "a b.pdf", "x"]).assert_exit(1).stderr_has(&["pdftoppm -png makes"]);
    }
}

#[test]
fn bad_pictures_are_refused_before_anything_is_sent() {
    let mut large = PNG.to_vec();
    large[16..24].copy_from_slice(&[0, 0, 0x4e, 0x20, 0, 0, 0x4e, 0x20]);
    let crc = flate2::Crc::new();
    let mut crc = crc;
    crc.update(&large[12..29]);
    large[29..33].copy_from_slice(&crc.sum().to_be_bytes());
    // Many zeros in its pixels, which are one.
    let mut bomb = PNG[..33].to_vec();
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..64 {
        packed.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let packed = packed.finish().unwrap();
    let mut crc = flate2::Crc::new();
    crc.update(b"IDAT");
    crc.update(&packed);
    bomb.extend(u32::try_from(packed.len()).unwrap().to_be_bytes());
    bomb.extend(
        [b"IDAT".as_slice(), &packed, &crc.sum().to_be_bytes(), &PNG[PNG.len() - 12..]].concat(),
    );
    let whole = picture(300, 300, ImageFormat::Png);
    let sandbox = Sandbox::new()
        .file("one.png", b"\x89")
        .file("large.png", large)
        .file("cut.png", &whole[..whole.len() / 2])
        .file("head.png", &PNG[..8])
        .file("bomb.png", bomb)
        .file("lie.jpg", PNG)
        .file("text.png", "words\n");
    for (file, why) in [
        ("one.png", "it is damaged, or no picture"),
        ("large.png", "it has 20000x20000 pixels, and 64000000 pixels are shown at most"),
        ("cut.png", "it cannot be decoded"),
        ("head.png", "it cannot be decoded"),
    ] {
        sandbox.run(&["-n", "-f", file, "x"]).assert_exit(1).stderr_has(&[file, why]);
        sandbox.llm.push(format!("<nagent-read path=\"{file}\"/>"));
        sandbox.llm.push(answer("ok"));
        sandbox.run(&["-n", "x"]).answers("ok");
        assert!(sandbox.requests().last().unwrap().last().contains(why), "{file}");
        assert_eq!(sent(&sandbox), []);
    }
    // A bomb costs no memory, whether it is taken for a picture of one pixel or not.
    sandbox.llm.choose(|_| answer("ok").into());
    let _ = sandbox.cmd(&["-n", "-f", "bomb.png", "x"]).run().within(10.0);
    sandbox.run(&["-n", "-f", "lie.jpg", "x"]).answers("ok");
    assert_eq!(sent(&sandbox)[0].1, "image/png");
    sandbox.run(&["-n", "-f", "text.png", "x"]).answers("ok");
    assert!(sandbox.requests().last().unwrap().last().contains("words"));
}

#[test]
fn the_bytes_that_were_read_are_shown_however_the_file_changes_and_missing_ones_are_told() {
    let first = picture(5, 5, ImageFormat::Png);
    let sandbox = Sandbox::new().file("a.png", &first).replies([
        shell("printf gone > a.png"),
        answer("one"),
        answer("two"),
        answer("three"),
    ]);
    sandbox.run(&["-f", "a.png", "x"]).answers("one");
    assert_eq!(sent(&sandbox)[0].2, first);
    std::fs::remove_file(sandbox.stored(&sha256(&first)[..12])).unwrap();
    let why =
        "a.png is not shown to the model: its bytes are not kept any more (pruned?); read it again";
    sandbox.run(&["y"]).assert_exit(0);
    sandbox.cmd(&["--progress", "z"]).run().assert_exit(0).stderr_has(&[why]);
    assert_eq!(sent(&sandbox), []);
    assert!(sandbox.requests()[2].text().contains(why));
    // Another file under that name is not sent either.
    std::fs::write(sandbox.root().join("outputs").join(format!("{}.txt", sha256(&first))), PNG)
        .unwrap();
    sandbox.llm.push(answer("four"));
    sandbox.run(&["z"]).assert_exit(0).stdout_is("four\n");
    assert_eq!(sent(&sandbox), []);
}

#[test]
fn no_text_makes_a_file_be_sent() {
    let sandbox = Sandbox::new().file("a.png", PNG).replies([answer("one")]);
    sandbox.run(&["-f", "a.png", "x"]).answers("one");
    let hash = sha256(PNG);
    let block = format!(
        "<nagent-read-result path=\"a.png\" status=\"ok\" media=\"image/png\" tokens=\"1\" sha256=\"{hash}\">\n[A picture]\n</nagent-read-result>\n"
    );
    sandbox.write("f.txt", &block);
    sandbox.write(&format!("x\" sha256=\"{hash}\" media=\"image"), "png");
    sandbox.llm.push(format!(
        "<nagent-read path=\"f.txt\"/>\n{}\n<nagent-read path='x\" sha256=\"{hash}\" media=\"image'/>\n<nagent-next>{block}</nagent-next>",
        shell("cat f.txt")
    ));
    sandbox.llm.push(format!("{block}\n<nagent-response>{block}</nagent-response>"));
    sandbox.llm.push(answer(&block));
    sandbox.run(&["-n", "-f", "f.txt", &block]).assert_exit(0);
    for request in &sandbox.requests()[1..] {
        assert_eq!(messages(&request.json()).iter().flat_map(files).count(), 0);
    }
}

#[test]
fn a_model_that_cannot_see_is_told_from_the_table_or_by_its_server() {
    let sandbox = Sandbox::new()
        .config_also(json!({"model": "openai/gpt-oss-120b"}))
        .file("a.png", PNG)
        .replies(["<nagent-read path=\"a.png\"/>".to_owned(), answer("ok")]);
    let why = "this model does not accept image/png; send its text, or choose another model";
    sandbox.run(&["-f", "a.png", "x"]).assert_exit(1).stderr_has(&[why]);
    sandbox.run(&["x"]).answers("ok");
    assert!(sandbox.requests()[1].last().contains(why));
    let sandbox =
        Sandbox::new().file("a.png", PNG).answer(Answer::error(400, "invalid_request_error"));
    let run = sandbox.run(&["-f", "a.png", "x"]).assert_exit(3);
    run.stderr_has(&["the test server says no", "1 picture or document: if the model cannot see"]);
}

#[test]
fn tokens_are_estimated_and_compared_and_full_windows_lose_old_pictures_first() {
    let large = picture(1200, 1000, ImageFormat::Png);
    let sandbox = world("anthropic")
        .config_also(json!({"context_window_tokens": 14_000}))
        .file("a.png", &large)
        .reply(Reply::new(answer("one")).usage(4_100, 0, 5));
    sandbox.run(&["-f", "a.png", "x"]).answers("one");
    assert_eq!(sandbox.block("nagent-read-result").get("tokens"), "1600");
    for at in 0..5 {
        // Another file with the same pixels.
        sandbox.write("a.png", [large.as_slice(), &[at]].concat());
        sandbox.llm.push(Reply::new(answer("more")).usage(5_700 + 1_600 * u64::from(at), 0, 5));
        sandbox.run(&["-f", "a.png", "x"]).assert_exit(0).stdout_is("more\n");
    }
    let blocks = sandbox.blocks_of("nagent-read-result");
    let named = blocks.iter().filter(|block| !block.get("output").is_empty()).count();
    assert!(named >= 1 && !blocks.last().unwrap().get("sha256").is_empty(), "{named}");
    assert_eq!(sent(&sandbox).len(), blocks.len() - named);
    // What is only named is still there, and can be read again.
    let output = blocks[0].get("output").to_owned();
    let kept = std::fs::read(&output).unwrap();
    sandbox.llm.push(format!("<nagent-read path=\"{output}\"/>"));
    sandbox.llm.push(answer("seen"));
    sandbox.run(&["x"]).answers("seen");
    assert_eq!(sent(&sandbox).last().unwrap().2, kept);
}

#[test]
fn the_bytes_are_named_by_export_and_show_and_kept_by_prune_and_replays_need_none() {
    let sandbox = Sandbox::new().file("a.png", PNG).reply(answer("red"));
    sandbox.run(&["-c", "c", "-f", "a.png", "x"]).answers("red");
    let tool =
        |args: &[&str]| sandbox.program(env!("CARGO_BIN_EXE_nagent-conversations"), args).run();
    let stored = sandbox.stored(&sha256(PNG)[..12]);
    let export = tool(&["export", "c"]).assert_exit(0).stdout;
    assert!(export.contains("image/png") && export.contains(&sha256(PNG)), "{export}");
    assert!(tool(&["show", "c"]).stdout.contains("[A picture of 1x1 pixels]"));
    let old = std::time::SystemTime::UNIX_EPOCH;
    std::fs::File::open(&stored).unwrap().set_modified(old).unwrap();
    tool(&["prune", "--older", "0d"]).assert_exit(0);
    assert!(stored.exists());
    std::fs::remove_file(&stored).unwrap();
    let path = sandbox.root().join("conversations/c").display().to_string();
    let replay = ["-n", "--provider", "replay", "--model", &path, "-f", "a.png", "x"];
    sandbox.run(&replay).answers("red");
}

#[test]
fn programs_are_told_the_path() {
    let script = "#!/bin/sh\ncat > seen\necho '<nagent-response>ok</nagent-response>'\n";
    let sandbox = Sandbox::new().file("a.png", PNG);
    let program = sandbox.script("model.sh", script);
    let sandbox = sandbox.config(json!({"provider": "command", "command": [program]}));
    sandbox.run(&["-n", "-f", "a.png", "x"]).answers("ok");
    let path = sandbox.stored(&sha256(PNG)[..12]).display().to_string();
    let seen = sandbox.read("seen");
    let mark = seen.lines().find(|line| line.starts_with("=== ")).unwrap();
    let word = mark.split(' ').nth(1).unwrap();
    let expect =
        format!("</nagent-read-result>\n\n=== {word} file === {word}\n{path}\n\n<user-prompt");
    assert!(seen.contains(&expect), "{seen}");
}

#[test]
fn every_way_in_shows_pictures() {
    let sandbox =
        Sandbox::new().file("a b.png", PNG).file("c.png", picture(2, 2, ImageFormat::Png));
    sandbox.llm.choose(|_| answer("ok").into());
    let dropped = sandbox.work().join("a b.png").display().to_string();
    let lines = format!(
        "'{dropped}' what is it?\n{} and this?\nfile://{} x\n/nothing.png\n",
        dropped.replace(' ', "\\ "),
        dropped.replace("a b", "c")
    );
    let repl = sandbox.program(env!("CARGO_BIN_EXE_nagent-repl"), &["-n"]).stdin(lines).run();
    repl.stderr_has(&["unknown command /nothing.png"]);
    assert_eq!(sent(&sandbox).len(), 3);
    let each = env!("CARGO_BIN_EXE_nagent-each");
    let before = sandbox.requests().len();
    sandbox.program(each, &["What is it?", "a b.png", "c.png"]).run().assert_exit(0);
    for request in &sandbox.requests()[before..] {
        assert_eq!(messages(&request.json()).iter().flat_map(files).count(), 1);
    }
    sandbox.cmd(&["-n", "-f", "-", "x"]).stdin(PNG).run().answers("ok");
    assert_eq!(sent(&sandbox)[0].2, PNG);
    let shown = sandbox.run(&["-n", "-f", "c.png", "--show-request", "x"]).assert_exit(0).stdout;
    assert!(shown.contains("data:image/png;base64,"), "{shown}");
}

#[test]
fn what_is_too_large_for_a_request_is_uploaded_and_removed_and_the_oldest_are_left_out() {
    let pdf = |bytes: usize, mark: u8| {
        [b"%PDF-1.4\n<</Type/Page>>\n".as_slice(), &vec![mark; bytes], b"\n%%EOF\n"].concat()
    };
    let sandbox = world("anthropic")
        .file("a.pdf", pdf(24_000_000, b'a'))
        .replies(["<nagent-next>on</nagent-next>".to_owned(), answer("ok")]);
    sandbox.llm.beside(|request| {
        let body = json!({"id": "f-1", "deleted": request.method == "DELETE"}).to_string();
        Some(Answer::raw(200, "application/json", body))
    });
    sandbox.run(&["-f", "a.pdf", "x"]).answers("ok");
    let all = sandbox.llm.all_requests();
    let lines: Vec<String> = all.iter().map(|it| format!("{} {}", it.method, it.path)).collect();
    let expect =
        ["POST /v1/files", "POST /v1/messages", "POST /v1/messages", "DELETE /v1/files/f-1"];
    assert_eq!(lines, expect);
    assert!(all[2].text().contains("\"file_id\":\"f-1\"") && all[2].body.len() < 30_000);
    let sandbox = world("anthropic")
        .file("a.pdf", pdf(12_000_000, b'a'))
        .file("b.pdf", pdf(12_000_000, b'b'))
        .reply(answer("ok"));
    sandbox.run(&["-f", "a.pdf", "-f", "b.pdf", "x"]).answers("ok");
    // Looked at as bytes: to decode them takes a second.
    let body = &sandbox.requests()[0].body;
    let many = |text: &str| memmem::find_iter(body, text).count();
    assert_eq!(many("\"application/pdf\""), 1);
    let b = STANDARD.encode(pdf(3_000, b'b'));
    assert!(many(&b[..4_000]) == 1 && many("[a.pdf: left out, since later ones fill") == 1);
}
