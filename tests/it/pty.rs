//! A terminal of its own for a program, and what it shows: keys go in, a screen comes out.
//!
//! The program gets the other end as stdin, stdout and stderr, and as its controlling terminal. The screen is made from what
//! the program printed, by the few control sequences that a line editor and nagent use; any other fails the test.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::sandbox::{Invocation, Sandbox, wait_until};

impl Sandbox {
    /// `nagent-repl` with arguments.
    pub(crate) fn repl<S: AsRef<str>>(&self, args: &[S]) -> Invocation<'_> {
        self.program(env!("CARGO_BIN_EXE_nagent-repl"), args)
    }
}

impl Invocation<'_> {
    /// Starts it on a terminal of its own, with keys and a screen.
    pub(crate) fn on_pty(self, columns: u16) -> Pty {
        Pty::start(&self.command(), columns)
    }
}

/// A program on a terminal.
pub(crate) struct Pty {
    master: File,
    slave: OwnedFd,
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    columns: u16,
}

impl Pty {
    /// Starts a program on a terminal with this many columns and 40 rows.
    pub(crate) fn start(program: &Command, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let open = || {
            rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
                .unwrap()
        };
        let slave = open();
        let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).unwrap();
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(program.get_program()).args(program.get_args());
        command.env_clear();
        for (name, value) in program.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let folder = program.get_current_dir().unwrap();
        let child = command
            .current_dir(folder)
            .stdin(Stdio::from(open()))
            .stdout(Stdio::from(open()))
            .stderr(Stdio::from(open()))
            .spawn()
            .unwrap();
        let shown = Arc::<Mutex<Vec<u8>>>::default();
        let (into, mut from) = (Arc::clone(&shown), File::from(master.try_clone().unwrap()));
        std::thread::spawn(move || {
            let mut chunk = vec![0; 1 << 16];
            while let Ok(count @ 1..) = from.read(&mut chunk) {
                into.lock().unwrap().extend_from_slice(&chunk[..count]);
            }
        });
        Self { master: File::from(master), slave, child, shown, columns }
    }

    /// The process of the program: `setsid` has become it, or waits for it.
    pub(crate) fn pid(&self) -> Pid {
        let own = Pid::from_child(&self.child);
        let path = format!("/proc/{own}/task/{own}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        let name = std::fs::read_to_string(format!("/proc/{own}/comm")).unwrap_or_default();
        let first = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
        match first.filter(|_| name.trim() == "setsid") {
            Some(pid) => Pid::from_raw(pid).unwrap(),
            None => own,
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Types keys, as a terminal sends them: Enter is `\r`.
    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the program has printed this text, that many times.
    #[track_caller]
    pub(crate) fn expect_times(&self, text: &str, times: usize) {
        let start = std::time::Instant::now();
        while self.printed().matches(text).count() < times {
            assert!(start.elapsed().as_secs() < 30, "no {text:?} in {:?}", self.printed());
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
    }

    #[track_caller]
    pub(crate) fn expect(&self, text: &str) {
        self.expect_times(text, 1);
    }

    /// Everything that was printed, byte for byte.
    pub(crate) fn printed(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// The lines of the screen, with those that were scrolled away, without colours and blanks at their ends.
    pub(crate) fn screen(&self) -> Vec<String> {
        screen_of(&self.printed(), usize::from(self.columns))
    }

    /// The same lines with their styles: `{32}` begins the style of these numbers, `{}` ends it.
    pub(crate) fn styled_screen(&self) -> Vec<String> {
        lines_of(&draw(&self.printed(), usize::from(self.columns)), true)
    }

    pub(crate) fn resize(&mut self, columns: u16) {
        self.columns = columns;
        let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.slave, size).unwrap();
    }

    /// The modes of the terminal, as text that can be compared.
    pub(crate) fn modes(&self) -> String {
        let Termios { input_modes, output_modes, control_modes, local_modes, .. } =
            tcgetattr(&self.slave).unwrap();
        format!("{input_modes:?} {output_modes:?} {control_modes:?} {local_modes:?}")
    }

    /// Waits for the end of the program, and until all that it printed is on the screen.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_until("the program has ended", || self.child.try_wait().unwrap().is_some());
        // It draws nothing, and comes behind everything else.
        let last = "\x1b[?25h";
        let count = self.printed().matches(last).count();
        rustix::io::write(&self.slave, last.as_bytes()).unwrap();
        self.expect_times(last, count + 1);
        self.child.wait().unwrap()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process(self.pid(), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// What a terminal of this many columns shows of some bytes.
pub(crate) fn screen_of(printed: &str, columns: usize) -> Vec<String> {
    lines_of(&draw(printed, columns), false)
}

fn draw(printed: &str, columns: usize) -> Screen {
    let mut screen = Screen { columns, ..Screen::default() };
    let mut rest = printed;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\x1b' {
            screen.put(c);
            continue;
        }
        let from = rest.strip_prefix('[').unwrap_or_else(|| panic!("ESC {:?}", rest.get(..8)));
        let end = from.find(|c: char| c.is_ascii_alphabetic()).expect("the end of a sequence");
        let count = from[..end].parse().unwrap_or(1);
        screen.control(&from[..=end], count);
        rest = &from[end + 1..];
    }
    screen
}

fn lines_of(screen: &Screen, has_styles: bool) -> Vec<String> {
    let line = |row: &Vec<Cell>| {
        let (mut line, mut style) = (String::new(), "");
        for cell in row {
            if has_styles && cell.style != style {
                style = &cell.style;
                line.push_str(&format!("{{{style}}}"));
            }
            line.push_str(&cell.text);
        }
        line.trim_end().to_owned()
    };
    let mut lines: Vec<String> = screen.rows.iter().map(line).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[derive(Clone)]
struct Cell {
    text: String,
    style: String,
}

impl Cell {
    fn blank() -> Self {
        Self { text: " ".into(), style: String::new() }
    }
}

#[derive(Default)]
struct Screen {
    columns: usize,
    rows: Vec<Vec<Cell>>,
    row: usize,
    column: usize,
    style: String,
}

impl Screen {
    fn put(&mut self, c: char) {
        match c {
            '\r' => self.column = 0,
            '\n' => self.row += 1,
            '\t' => self.column = (self.column / 8 + 1) * 8,
            '\x07' => {}
            '\x08' => self.column = self.column.saturating_sub(1),
            c => self.draw(c),
        }
        self.grow();
    }

    fn draw(&mut self, c: char) {
        let wide = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if self.column + wide > self.columns {
            (self.row, self.column) = (self.row + 1, 0);
        }
        self.grow();
        let row = &mut self.rows[self.row];
        if wide == 0 {
            row[self.column.saturating_sub(1)].text.push(c);
            return;
        }
        row[self.column] = Cell { text: c.to_string(), style: self.style.clone() };
        if wide == 2 {
            row[self.column + 1] = Cell { text: String::new(), style: self.style.clone() };
        }
        self.column += wide;
    }

    fn grow(&mut self) {
        while self.rows.len() <= self.row {
            self.rows.push(vec![Cell::blank(); self.columns]);
        }
    }

    fn control(&mut self, sequence: &str, count: usize) {
        self.grow();
        match sequence.chars().last() {
            Some('A') => self.row = self.row.saturating_sub(count),
            Some('B') => self.row += count,
            Some('C') => self.column += count,
            Some('D') => self.column = self.column.saturating_sub(count),
            // As long as nothing was scrolled away.
            Some('H') if sequence == "H" => (self.row, self.column) = (0, 0),
            Some('K') if sequence == "K" => self.rows[self.row][self.column..].fill(Cell::blank()),
            Some('J') if sequence == "J" => {
                self.rows[self.row][self.column..].fill(Cell::blank());
                self.rows.truncate(self.row + 1);
            }
            Some('m') if matches!(sequence, "m" | "0m") => self.style.clear(),
            Some('m') => sequence.trim_end_matches('m').clone_into(&mut self.style),
            // The marks of what is pasted and of one picture.
            Some('h' | 'l')
                if ["?2004", "?2026", "?25"].iter().any(|mode| sequence.starts_with(mode)) => {}
            _ => panic!("ESC [{sequence}"),
        }
        self.grow();
    }
}

#[test]
fn the_screen_is_what_a_terminal_shows() {
    let check = |printed: &str, expect: &[&str]| assert_eq!(screen_of(printed, 6), expect);
    check("ab\r\n\x1b[31mcd\x1b[0m", &["ab", "cd"]);
    check("abcdefgh", &["abcdef", "gh"]);
    check("ab\rx", &["xb"]);
    check("abc\r\x1b[Kd", &["d"]);
    check("ab\r\ncd\x1b[A\x1b[1Dx", &["ax", "cd"]);
    check("世界世界", &["世界世", "界"]);
    check("e\u{301}x", &["e\u{301}x"]);
    let styled = lines_of(&draw("\x1b[1;31mab\x1b[0mc\x1b[2md\r\n", 6), true);
    assert_eq!(styled, ["{1;31}ab{}c{2}d{}"]);
}
