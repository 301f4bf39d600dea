//! Facts about the machine that a script may read without permission.

use rustix::system::sysinfo;
use serde_json::{Value, json};

/// The value of a function of `sys`.
pub(super) fn describe(name: &str) -> Option<Value> {
    let info = sysinfo();
    let unit = u64::from(info.mem_unit.max(1));
    Some(match name {
        "platform" => json!("linux"),
        "arch" => json!(match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }),
        "cpus" => json!(std::thread::available_parallelism().map_or(1, usize::from)),
        "totalmem" => json!(info.totalram.saturating_mul(unit)),
        "freemem" => json!(info.freeram.saturating_mul(unit)),
        "uptime" => json!(info.uptime),
        "loadavg" => json!(info.loads.map(|load| load as f64 / 65536.0)),
        _ => return None,
    })
}
