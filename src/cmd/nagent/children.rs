//! What child conversations are started with: this run's executable, its flags, its place in a recording.

use std::ffi::OsString;

use super::Call;
use crate::client::ModelClient;
use crate::drive::children::Children;
use crate::sys::{env, fs};

/// What every nagent that this one starts is told: root, config, provider, model, and where it may write.
pub(super) fn child_flags(call: &Call<'_>, model_id: Option<&str>) -> Vec<OsString> {
    let settings = &call.settings;
    let mut flags: Vec<OsString> = vec!["--root".into(), settings.root.value.path().into()];
    let mut flag = |name: &str, value: &std::ffi::OsStr| {
        flags.extend([OsString::from(name), value.to_owned()]);
    };
    flag("--config", settings.config_path.value.as_os_str());
    if !fs::exists(&settings.config_path.value) {
        flags.truncate(2);
    }
    if call.args.no_summaries {
        flags.push("--no-summaries".into());
    }
    if call.redacts() {
        flags.push("--redact".into());
    }
    let mut flag = |name: &str, value: &std::ffi::OsStr| {
        flags.extend([OsString::from(name), value.to_owned()]);
    };
    if let Some(provider) = &settings.provider {
        flag("--provider", provider.value.name().as_ref());
    }
    if let Some(model) = model_id {
        // A recording is named by a path, and a child may start elsewhere.
        flag("--model", model.as_ref());
    }
    if let Some(base_url) = &settings.base_url {
        flag("--base-url", base_url.value.as_ref());
    }
    flag("--patience", settings.patience.value.as_secs_f64().to_string().as_ref());
    for path in &call.args.write {
        flag("--write", path.as_os_str());
    }
    if let Some(profile) = &settings.profile {
        flag("--profile", profile.value.as_ref());
    }
    // Said outright: a child's own config may be another one.
    let sandbox = &call.args.sandbox;
    flag("--sandbox", sandbox.mode(settings).value.name().as_ref());
    if let Some(path) = &call.args.record {
        flag("--record", path.as_os_str());
    }
    flags.push(format!("--no-network={}", sandbox.no_network(settings).value).into());
    flags
}

pub(super) fn children(call: &Call<'_>, source: &ModelClient) -> Children {
    let jobs = call
        .args
        .jobs
        .and_then(|jobs| usize::try_from(jobs).ok())
        .or(call.settings.config.jobs)
        .unwrap_or(4);
    Children::new(
        call.env.tool("nagent"),
        child_flags(call, source.model_id.as_deref()),
        jobs,
        call.parents.clone(),
        call.name.clone(),
        call.env.get(env::LINEAGE).unwrap_or("0").to_owned(),
    )
}
