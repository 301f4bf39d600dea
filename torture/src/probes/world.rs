//! The world of one run, and the outside that watches it: a home with a root and credentials, a working tree, a folder
//! outside, listeners, terminals, a process of the same user. Each run has its own; it is removed behind it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::inside::{Inside, c};
use super::names::{self, Flavor};
use super::own;

/// The word for the process that stands for nagent.
pub(super) const VICTIM: &str = "victim";
/// Whom the set-user-id program belongs to.
const SUID: u32 = 31_312;

/// What every secret of every world begins with.
pub(super) fn secret() -> &'static str {
    "SECRET-"
}

/// Where worlds stand: outside of all temp folders, reachable for everybody, with the executables.
pub(super) struct Ground {
    base: tempfile::TempDir,
}

impl Ground {
    pub(super) fn make() -> Result<Self, String> {
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let folders =
            [target.as_path(), Path::new("/srv"), Path::new("/opt"), Path::new("/var/lib")];
        let is_fine = |folder: &&Path| {
            let Ok(folder) = folder.canonicalize() else { return false };
            let is_open = |folder: &Path| {
                fs::metadata(folder)
                    .is_ok_and(|there| there.mode() & 0o5 == 0o5 && there.mode() & 0o2 == 0)
            };
            !["/tmp", "/var/tmp", "/dev"].iter().any(|temp| folder.starts_with(temp))
                && folder.ancestors().all(is_open)
                // Some worlds are no repositories: they must not be in one either.
                && !folder.ancestors().any(|folder| folder.join(".git").exists())
        };
        let folder = folders
            .into_iter()
            .find(is_fine)
            .ok_or("no folder outside of temp folders is open to nobody")?;
        let base = tempfile::Builder::new()
            .prefix("nagent-probes-")
            .tempdir_in(folder)
            .map_err(|error| error.to_string())?;
        let base = Self { base };
        let open = Permissions::from_mode(0o755);
        fs::set_permissions(base.base.path(), open.clone()).map_err(|error| error.to_string())?;
        let bin = base.base.path().join("bin");
        fs::create_dir(&bin)
            .and_then(|()| fs::set_permissions(&bin, open))
            .map_err(|error| error.to_string())?;
        let sandbox = Path::new(crate::sandbox::NAGENT).with_file_name("nagent-sandbox");
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let nagent = PathBuf::from(crate::sandbox::NAGENT);
        for (from, name) in [(sandbox, "nagent-sandbox"), (nagent, "nagent"), (own, "torture")] {
            let to = bin.join(name);
            fs::hard_link(&from, &to)
                .or_else(|_| fs::copy(&from, &to).map(drop))
                .map_err(|error| format!("{}: {error}", from.display()))?;
        }
        // A keyring of its own, which what it starts inherits.
        // SAFETY: KEYCTL_JOIN_SESSION_KEYRING, without a name.
        unsafe { libc::syscall(libc::SYS_keyctl, 1, 0) };
        Ok(base)
    }

    pub(super) fn sandbox(&self) -> PathBuf {
        self.base.path().join("bin/nagent-sandbox")
    }

    pub(super) fn torture(&self) -> PathBuf {
        self.base.path().join("bin/torture")
    }
}

/// What is watched, and what it was.
pub(super) type Picture = BTreeMap<PathBuf, String>;

/// The world of one run.
pub(super) struct World {
    base: tempfile::TempDir,
    uid: u32,
    token: String,
    torture: PathBuf,
    sandbox: PathBuf,
    /// A port on which nobody listens.
    pub(super) knock: u16,
    live: Option<Live>,
    watched: RefCell<Vec<UnixStream>>,
    terminals: RefCell<Option<Terminals>>,
    pts: String,
    other_terminal: Option<(OwnedFd, OwnedFd)>,
}

/// A terminal: the outside's end, and the side that programs see.
struct Terminals {
    outside: OwnedFd,
    inside: OwnedFd,
}

/// What listens, and the process that may be attacked.
struct Live {
    tcp: TcpListener,
    tcp6: TcpListener,
    udp: UdpSocket,
    udp6: UdpSocket,
    icmp: OwnedFd,
    streams: Vec<UnixListener>,
    datagrams: UnixDatagram,
    packets: OwnedFd,
    shm: i32,
    shm_file: PathBuf,
    queue: (String, i32),
    key: i64,
    victim: Child,
    address: u64,
    length: usize,
    pictured: String,
}

fn terminal(uid: u32) -> (OwnedFd, OwnedFd, String) {
    let (mut outside, mut inside) = (0, 0);
    // SAFETY: two numbers, nothing else asked for; then descriptors that have no other owner.
    unsafe {
        let null = std::ptr::null_mut();
        assert!(
            libc::openpty(&raw mut outside, &raw mut inside, null, null.cast(), null.cast()) == 0,
            "a terminal"
        );
        for fd in [outside, inside] {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
        libc::fcntl(outside, libc::F_SETFL, libc::O_NONBLOCK);
        let name = fs::read_link(format!("/proc/self/fd/{inside}")).unwrap();
        chown(&name, Some(uid), None).unwrap();
        (OwnedFd::from_raw_fd(outside), OwnedFd::from_raw_fd(inside), name.display().to_string())
    }
}

impl World {
    pub(super) fn make(ground: &Ground, flavor: Flavor, uid: u32) -> Self {
        let base = tempfile::Builder::new().prefix("w").tempdir_in(ground.base.path()).unwrap();
        let token = uuid::Uuid::new_v4().simple().to_string();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let knock = free.local_addr().unwrap().port();
        let (outside, inside, _) = terminal(uid);
        let (other, other_inside, pts) = terminal(uid);
        let world = Self {
            uid,
            token,
            torture: ground.torture(),
            sandbox: ground.sandbox(),
            knock,
            live: None,
            watched: RefCell::default(),
            terminals: RefCell::new(Some(Terminals { outside, inside })),
            pts,
            other_terminal: Some((other, other_inside)),
            base,
        };
        world.fill(flavor);
        world
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.base.path().join(path)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn secret(&self, kind: &str) -> String {
        format!("{}{kind}-{}", secret(), self.token)
    }

    fn fill(&self, flavor: Flavor) {
        let folders = [
            "home",
            "tree/work/folder",
            "outside/empty",
            "tmp",
            "home/.local/bin",
            "tree-evil",
            "home/.config/autostart",
            "home/.nagent/bin",
        ];
        for folder in folders {
            fs::create_dir_all(self.at(folder)).unwrap();
        }
        for name in ["config.json", "conversations/talk.md", "outputs/one.txt"] {
            self.put(
                &format!("home/.nagent/{name}"),
                &format!("{{\"key\": \"{}\"}}\n", self.secret("root")),
            );
        }
        self.put(&format!("home/.nagent/conversations/{}", self.secret("name")), "x");
        for name in own::CREDENTIALS {
            self.put(&format!("home/{name}"), &format!("{}\n", self.secret("credential")));
        }
        for name in [
            "home/notes.txt",
            "home/.local/bin/tool",
            "tree-evil/victim.txt",
            "outside/victim.txt",
            "tree/work/file.txt",
        ] {
            self.put(name, "as it was\n");
        }
        symlink(self.at("outside/victim.txt"), self.at("tree/work/link")).unwrap();
        symlink(self.at("outside"), self.at("tree/work/link-folder")).unwrap();
        symlink(self.at("home/.nagent"), self.at("tree/work/link-root")).unwrap();
        fs::copy("/usr/bin/id", self.at("outside/suid-id")).unwrap();
        fs::copy("/bin/cat", self.at("outside/cap-cat")).unwrap();
        self.fill_tree(flavor);
        own_all(self.base.path(), self.uid);
        chown(self.at("outside/suid-id"), Some(SUID), None).unwrap();
        fs::set_permissions(self.at("outside/suid-id"), Permissions::from_mode(0o4755)).unwrap();
        // CAP_NET_RAW, permitted and effective.
        let (path, value): (_, [u32; 5]) =
            (c(self.at("outside/cap-cat")), [0x0200_0001, 1 << 13, 0, 0, 0]);
        // SAFETY: strings that live on, twenty bytes.
        unsafe {
            libc::setxattr(
                path.as_ptr(),
                c"security.capability".as_ptr(),
                value.as_ptr().cast(),
                20,
                0,
            )
        };
    }

    fn fill_tree(&self, flavor: Flavor) {
        let repository = |folder: &str| {
            for (name, text) in [
                ("HEAD", "ref: refs/heads/main\n"),
                ("config", "[core]\n\trepositoryformatversion = 0\n"),
                ("hooks/pre-commit", "#!/bin/sh\n"),
            ] {
                self.put(&format!("{folder}/{name}"), text);
            }
            for name in ["objects", "refs/heads"] {
                fs::create_dir_all(self.at(&format!("{folder}/{name}"))).unwrap();
            }
        };
        match flavor {
            Flavor::Full => {
                for name in names::FILES {
                    self.put(&format!("tree/{name}"), "# as it was\n");
                }
                repository("tree/.git");
            }
            Flavor::GitFile => {
                repository("tree/work/real-git");
                self.put("tree/.git", "gitdir: work/real-git\n");
            }
            Flavor::GitLink => {
                repository("tree/work/real-git");
                symlink("work/real-git", self.at("tree/.git")).unwrap();
            }
            Flavor::Named => {
                repository("tree/.git");
                self.put(
                    "tree/.git/config",
                    "[core]\n\trepositoryformatversion = 0\n\thooksPath = work/new-hooks\n\tfsmonitor = ./work/monitor\n\
                     [include]\n\tpath = ../work/shared.conf\n\tpath = ../work/new.conf\n[filter \"x\"]\n\tclean = sh work/clean.sh\n",
                );
                for name in ["monitor", "shared.conf", "clean.sh"] {
                    self.put(&format!("tree/work/{name}"), "# as it was\n");
                }
            }
        }
    }

    /// A program of this world's user, in its tree, with its environment: keys in it, too.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.at("home"))
            .env("TMPDIR", self.at("tmp"))
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("OPENAI_API_KEY", self.secret("environment"))
            .current_dir(self.at("tree"));
        if self.uid != 0 {
            command.uid(self.uid).gid(self.uid);
        }
        command
    }

    /// What a probe is told.
    pub(super) fn words(&self, is_sandboxed: bool) -> Vec<String> {
        let live = self.live.as_ref().unwrap();
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port().to_string();
        let datagrams = |socket: &UdpSocket| socket.local_addr().unwrap().port().to_string();
        let disk = ["/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/xvda", "/dev/loop0"];
        let disk = disk.into_iter().find(|disk| File::open(disk).is_ok()).unwrap_or_default();
        [
            ("base", self.base.path().display().to_string()),
            ("sandboxed", u8::from(is_sandboxed).to_string()),
            ("token", self.token.clone()),
            ("sandbox", self.sandbox.display().to_string()),
            ("suid", SUID.to_string()),
            ("disk", disk.to_owned()),
            ("pts", self.pts.clone()),
            ("knock", self.knock.to_string()),
            ("tcp", port(&live.tcp)),
            ("tcp6", port(&live.tcp6)),
            ("udp", datagrams(&live.udp)),
            ("udp6", datagrams(&live.udp6)),
            ("abstract", self.abstract_name()),
            ("shm", live.shm.to_string()),
            ("shm_file", live.shm_file.display().to_string()),
            ("queue", live.queue.0.clone()),
            ("key", live.key.to_string()),
            ("victim", live.victim.id().to_string()),
            ("address", live.address.to_string()),
            ("length", live.length.to_string()),
        ]
        .map(|(key, value)| format!("{key}={value}"))
        .to_vec()
    }

    fn abstract_name(&self) -> String {
        format!("nagent-probe-{}", self.token)
    }

    /// Starts what listens, and the process that may be attacked.
    pub(super) fn begin(&mut self) {
        let listener = |address: &str| {
            let listener = TcpListener::bind(address).unwrap();
            listener.set_nonblocking(true).unwrap();
            listener
        };
        let datagrams = |address: &str| {
            let socket = UdpSocket::bind(address).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let stream = |listener: UnixListener| {
            listener.set_nonblocking(true).unwrap();
            listener
        };
        let abstract_name = UnixAddr::from_abstract_name(self.abstract_name()).unwrap();
        let streams = vec![
            stream(UnixListener::bind(self.at("outside/docker.sock")).unwrap()),
            stream(UnixListener::bind(self.at("tmp/agent.sock")).unwrap()),
            stream(UnixListener::bind_addr(&abstract_name).unwrap()),
        ];
        let unix = UnixDatagram::bind(self.at("outside/datagrams.sock")).unwrap();
        unix.set_nonblocking(true).unwrap();
        for name in ["outside/docker.sock", "tmp/agent.sock", "outside/datagrams.sock"] {
            fs::set_permissions(self.at(name), Permissions::from_mode(0o777)).unwrap();
        }
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: numbers, addresses of the length given, strings that live on; descriptors that have no other owner.
        let (icmp, packets, shm, queue, key) = unsafe {
            let icmp = OwnedFd::from_raw_fd(libc::socket(
                libc::AF_INET,
                libc::SOCK_RAW | flags,
                libc::IPPROTO_ICMP,
            ));
            let packets =
                OwnedFd::from_raw_fd(libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | flags, 0));
            let path = c(self.at("outside/packets.sock"));
            let mut address: libc::sockaddr_un = std::mem::zeroed();
            address.sun_family = libc::AF_UNIX as u16;
            for (to, from) in address.sun_path.iter_mut().zip(path.as_bytes()) {
                *to = *from as libc::c_char;
            }
            let bound = libc::bind(
                packets.as_raw_fd(),
                std::ptr::from_ref(&address).cast(),
                size_of_val(&address) as u32,
            );
            assert!(bound == 0 && libc::listen(packets.as_raw_fd(), 8) == 0, "sequenced packets");
            libc::chmod(path.as_ptr(), 0o777);
            let shm = libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o666);
            let queue = format!("/nagent-probe-{}", self.token);
            let name = c(&queue);
            let fd = libc::mq_open(
                name.as_ptr(),
                libc::O_CREAT | libc::O_RDONLY | libc::O_NONBLOCK,
                0o666,
                0,
            );
            libc::fchmod(fd, 0o666);
            let (description, value) = (c(self.abstract_name()), self.secret("key"));
            // KEY_SPEC_SESSION_KEYRING is -3.
            let key = libc::syscall(
                libc::SYS_add_key,
                c"user".as_ptr(),
                description.as_ptr(),
                value.as_ptr(),
                value.len(),
                -3,
            );
            (icmp, packets, shm, (queue, fd), key)
        };
        let shm_file = PathBuf::from(format!("/dev/shm/nagent-shm-{}", self.token));
        fs::write(&shm_file, "untouched by probes").unwrap();
        fs::set_permissions(&shm_file, Permissions::from_mode(0o666)).unwrap();
        let (victim, address, length) = self.victim();
        let mut live = Live {
            tcp: listener("127.0.0.1:0"),
            tcp6: listener("[::1]:0"),
            udp: datagrams("127.0.0.1:0"),
            udp6: datagrams("[::1]:0"),
            icmp,
            streams,
            datagrams: unix,
            packets,
            shm,
            shm_file,
            queue,
            key,
            victim,
            address,
            length,
            pictured: String::new(),
        };
        live.pictured = live.picture();
        self.live = Some(live);
    }

    fn victim(&self) -> (Child, u64, usize) {
        let mut command = self.command(&self.torture);
        command
            .args(["--probe", VICTIM])
            .arg(format!("base={}", self.base.path().display()))
            .arg(format!("argument={}", self.secret("argument")))
            .env("VICTIM_SECRET", self.secret("memory"))
            .current_dir(self.base.path())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut words = line.split_whitespace().map(|word| word.parse::<u64>().unwrap());
        let (address, length) = (words.next().unwrap(), words.next().unwrap());
        (child, address, usize::try_from(length).unwrap())
    }

    /// Watches the other end of a socket that a probe has.
    pub(super) fn watch(&self, end: UnixStream) {
        end.set_nonblocking(true).unwrap();
        self.watched.borrow_mut().push(end);
    }

    /// The terminal, as stdin.
    pub(super) fn terminal(&self) -> OwnedFd {
        self.terminals.borrow().as_ref().unwrap().inside.try_clone().unwrap()
    }

    /// What has happened that leaves no trace in the world's files.
    pub(super) fn effects(&self) -> Vec<String> {
        let mut effects = Vec::new();
        let mut saw = |is_seen: bool, what: &str| {
            if is_seen {
                effects.push(what.to_owned());
            }
        };
        let live = self.live.as_ref().unwrap();
        saw(live.tcp.accept().is_ok() || live.tcp6.accept().is_ok(), "a connection came");
        let mut bytes = [0_u8; 512];
        saw(
            live.udp.recv(&mut bytes).is_ok() || live.udp6.recv(&mut bytes).is_ok(),
            "a datagram came",
        );
        saw(
            live.streams.iter().any(|listener| listener.accept().is_ok()),
            "a connection to a Unix socket came",
        );
        saw(live.datagrams.recv(&mut bytes).is_ok(), "a datagram to a Unix socket came");
        saw(
            self.watched
                .borrow_mut()
                .iter_mut()
                .any(|end| end.read(&mut bytes).is_ok_and(|count| count > 0)),
            "an inherited socket was used",
        );
        // SAFETY: buffers of the length given; numbers.
        unsafe {
            saw(
                libc::accept(live.packets.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut())
                    >= 0,
                "a connection of packets came",
            );
            let mut pinged = false;
            loop {
                let count =
                    libc::recv(live.icmp.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0);
                let Ok(count) = usize::try_from(count) else { break };
                let token = &self.token.as_bytes()[..16];
                pinged |= bytes[..count].windows(16).any(|window| window == token);
            }
            saw(pinged, "an echo request came");
            let at = libc::shmat(live.shm, std::ptr::null(), 0);
            saw(at as isize != -1 && at.cast::<u8>().read() != 0, "shared memory was written");
            libc::shmdt(at);
            let mut attributes: libc::mq_attr = std::mem::zeroed();
            libc::mq_getattr(live.queue.1, &raw mut attributes);
            saw(attributes.mq_curmsgs > 0, "a message was queued");
        }
        saw(
            fs::read(&live.shm_file).is_ok_and(|bytes| bytes != b"untouched by probes"),
            "shared memory's file was written",
        );
        let now = live.picture();
        saw(
            now != live.pictured,
            &format!("the other process is not as it was: {} -> {now}", live.pictured),
        );
        for folder in [
            "/dev/shm", "/tmp", "/var/tmp", "/etc", "/usr", "/opt", "/var/lib", "/root", "/boot",
            "/home", "/",
        ] {
            let path = Path::new(folder).join(format!("nagent-probe-{}", self.token));
            saw(path.exists(), &format!("{} is there", path.display()));
            let _ = fs::remove_file(path);
        }
        for top in ["/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"] {
            saw(
                fs::remove_dir(Path::new(top).join(format!("nagent-probe-{}", self.token))).is_ok(),
                "a control group was made",
            );
        }
        let drawn = |fd: &OwnedFd| {
            let mut bytes = [0_u8; 512];
            rustix::io::read(fd, &mut bytes).is_ok_and(|count| count > 0)
        };
        if let Some(terminals) = self.terminals.borrow().as_ref() {
            saw(drawn(&terminals.outside), "something came to the terminal");
            let mut waiting = 0;
            // SAFETY: a number that lives on.
            unsafe { libc::ioctl(terminals.inside.as_raw_fd(), libc::FIONREAD, &raw mut waiting) };
            saw(waiting > 0, "something was typed");
        }
        saw(
            self.other_terminal.as_ref().is_some_and(|(other, _)| drawn(other)),
            "something came to another terminal",
        );
        saw(self.at("tree/work/lingered").exists(), "a process lived on");
        effects
    }

    /// All that may not change: everything but the temp folder, and, where the tree is
    /// writable, what of it is not protected.
    pub(super) fn picture(&self, is_read_only: bool) -> Picture {
        let mut picture = Picture::new();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for entry in
                fs::read_dir(self.base.path().join(&folder)).into_iter().flatten().flatten()
            {
                let path = folder.join(entry.file_name());
                if path.starts_with("tmp") {
                    continue;
                }
                let there = entry.metadata().unwrap();
                if there.is_dir() {
                    folders.push(path.clone());
                }
                let is_watched = match path.strip_prefix("tree") {
                    Ok(inside) => is_read_only || names::is_protected(inside),
                    Err(_) => true,
                };
                if is_watched {
                    picture.insert(path, describe(&entry.path(), &there));
                }
            }
        }
        picture
    }
}

fn describe(path: &Path, there: &fs::Metadata) -> String {
    let mut text = format!("{:o} {}:{}", there.mode(), there.uid(), there.gid());
    if there.is_symlink() {
        text.push_str(&format!(" -> {}", fs::read_link(path).unwrap_or_default().display()));
    } else if there.is_file() {
        let (mut flags, mut value): (libc::c_long, [u8; 4]) = (0, [0; 4]);
        let name = c(path);
        // SAFETY: an open descriptor, a long, a string, four bytes that live on.
        unsafe {
            if let Ok(file) = File::open(path) {
                libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags);
            }
            libc::getxattr(name.as_ptr(), c"user.probe".as_ptr(), value.as_mut_ptr().cast(), 4);
        }
        let content =
            if there.len() < 4096 { fs::read(path).unwrap_or_default() } else { Vec::new() };
        let content = String::from_utf8_lossy(&content).escape_debug().to_string();
        let is_dumped = flags & 0x40 == 0;
        text.push_str(&format!(
            " {} bytes, {} names, {} {is_dumped} {value:?} {content}",
            there.len(),
            there.nlink(),
            there.mtime_nsec()
        ));
    }
    text
}

/// Gives everything below to a user.
fn own_all(folder: &Path, uid: u32) {
    lchown(folder, Some(uid), Some(uid)).unwrap();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            own_all(&entry.path(), uid);
        } else {
            lchown(entry.path(), Some(uid), Some(uid)).unwrap();
        }
    }
}

impl Live {
    /// How the process is that may be attacked.
    fn picture(&self) -> String {
        let pid = self.victim.id();
        let read =
            |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let stat = read("stat");
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied().unwrap_or("gone");
        let state = if matches!(field(3), "S" | "R" | "D") { "lives" } else { field(3) };
        let status = read("status");
        let line = |name: &str| {
            status.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned()
        };
        let limits = read("limits");
        let files = limits.lines().find(|line| line.contains("open files")).unwrap_or_default();
        let mut memory = vec![0; self.length];
        if let Ok(mut file) = File::open(format!("/proc/{pid}/mem")) {
            let _ =
                file.seek(SeekFrom::Start(self.address)).and_then(|_| file.read_exact(&mut memory));
        }
        // SAFETY: numbers only.
        let input_output = unsafe { libc::syscall(libc::SYS_ioprio_get, 1, pid) };
        let memory: String = String::from_utf8_lossy(&memory).chars().take(16).collect();
        let (nice, policy, oom) = (field(19), field(41), read("oom_score_adj"));
        let (where_it_runs, tracer) = (line("Cpus_allowed:"), line("TracerPid:"));
        format!(
            "{state} nice {nice} policy {policy} io {input_output} oom {} {where_it_runs} {tracer} {files} {memory}",
            oom.trim()
        )
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut live) = self.live.take() {
            let _ = live.victim.kill();
            let _ = live.victim.wait();
            let _ = fs::remove_file(&live.shm_file);
            let name = c(&live.queue.0);
            // SAFETY: numbers, and a string that lives on.
            unsafe {
                libc::shmctl(live.shm, libc::IPC_RMID, std::ptr::null_mut());
                libc::close(live.queue.1);
                libc::mq_unlink(name.as_ptr());
                // KEYCTL_UNLINK from the session's keyring.
                libc::syscall(libc::SYS_keyctl, 9, live.key, -3);
            }
        }
    }
}

/// What the victim does: holds a secret in its memory, its environment, its arguments and a descriptor, and waits.
pub(super) fn be_victim(inside: &Inside) {
    let held = std::env::var("VICTIM_SECRET").unwrap_or_default().into_bytes();
    let file = File::open(inside.at("home/.nagent/config.json")).unwrap();
    // SAFETY: an open descriptor; 9 is nobody's.
    unsafe { libc::dup2(file.as_raw_fd(), 9) };
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{} {}", held.as_ptr() as usize, held.len()).and_then(|()| out.flush());
    let mut all = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut all);
    std::hint::black_box(&held);
}
