//! Everyday commands in the sandbox: which of them are refused. The table is `everyday.txt`, one script in a line.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Output;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{VARIANTS, Variant, World};
use crate::figures::Figures;

/// How many may be refused with `bwrap`, and with Landlock alone.
const MOST: [usize; 2] = [8, 15];

/// Runs at one time.
const HANDS: usize = 4;

fn world(variant: Variant) -> World {
    let world = World::new(variant);
    let made = world.plain(
        "git config user.name a && git config user.email a@x && echo 'int main(void) { return 0; }' > m.c && \
         echo 'fn main() {}' > r.rs && echo pass > s.py && printf 'import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n' > t.py && \
         mkdir pkg && echo '{\"name\": \"pkg\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"true\"}}' > pkg/package.json && \
         git add -A && git commit -qm files && git clone -q . ../origin && git -C .. init -q --bare tmp/bare.git",
    );
    assert!(made.status.success(), "{made:?}");
    world
}

/// Runs every command without the sandbox and within it. One that fails without it is not counted.
pub(super) fn run(figures: &mut Figures) {
    let commands: Vec<&str> = include_str!("everyday.txt").lines().collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhello");
        }
    });
    for variant in VARIANTS {
        let (next, found) = (AtomicUsize::new(0), Mutex::<Vec<(usize, bool, String)>>::default());
        std::thread::scope(|scope| {
            for _ in 0..HANDS {
                scope.spawn(|| {
                    while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let script = format!("export PORT={port}; {command}");
                        let is_here = world(variant).plain(&script).status.success();
                        let within = world(variant);
                        let got: Output = within.run(&[], &script);
                        let refused = !got.status.success();
                        let text = String::from_utf8_lossy(&got.stderr)
                            .lines()
                            .next()
                            .unwrap_or_default()
                            .to_owned();
                        let at = commands.iter().position(|other| other == command).unwrap();
                        found.lock().unwrap().push((
                            at,
                            is_here,
                            if refused { format!("refused: {text}") } else { String::new() },
                        ));
                        let _ = fs::remove_file(format!("/tmp/nagent-everyday-{at}"));
                    }
                });
            }
        });
        let mut found = found.into_inner().unwrap();
        found.sort();
        for (at, is_here, refused) in &found {
            match (is_here, refused.as_str()) {
                (false, _) => println!(
                    "  {}: fails without the sandbox, too: {}",
                    variant.name, commands[*at]
                ),
                (true, "") => {}
                (true, why) => println!("  {}: {}: {why}", variant.name, commands[*at]),
            }
        }
        let tried = found.iter().filter(|(_, is_here, _)| *is_here).count();
        let refused = found.iter().filter(|(_, is_here, why)| *is_here && !why.is_empty()).count();
        let most = MOST[usize::from(variant.alone)];
        figures.row(
            &format!("{}: refused of {tried} everyday commands", variant.name),
            refused,
            format!("at most {most}"),
            refused <= most && tried > 90,
        );
    }
}
