//! The flags that a nagent passes on to the nagents that it starts.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::call::Call;
use super::flags::LimitArgs;
use crate::drive::children::Children;
use crate::protocol::TagSet;
use crate::sys::{env, fs};

/// What every child is given: root, config, provider, model, and what it may do. Each flag in one word, since values may begin
/// with a dash.
fn child_flags(call: &Call<'_>, model: Option<&str>) -> Vec<OsString> {
    let (args, settings) = (call.args, &call.settings);
    let mut flags: Vec<OsString> = Vec::new();
    let mut flag = |name: &str, value: &OsStr| {
        let mut word = OsString::from(format!("--{name}="));
        word.push(value);
        flags.push(word);
    };
    flag("root", settings.root.path().as_os_str());
    if fs::exists(&settings.config_path) {
        flag("config", settings.config_path.as_os_str());
    }
    if let Some(provider) = settings.provider {
        flag("provider", settings.provider_name(provider).as_ref());
    }
    if let Some(model) = model {
        flag("model", model.as_ref());
    }
    if let Some(base_url) = &settings.config.base_url {
        flag("base-url", base_url.as_ref());
    }
    if let Some(profile) = &settings.config.profile {
        flag("profile", profile.as_ref());
    }
    flag("patience", settings.config.patience.to_string().as_ref());
    for path in &args.write {
        flag("write", path.as_os_str());
    }
    if settings.tags != TagSet::ALL {
        flag("tags", settings.tags.names().as_ref());
    }
    for path in &settings.context {
        flag("context", path.as_os_str());
    }
    if let Some(command) = &settings.config.after_write {
        flag("after-write", command.as_ref());
    }
    if let Some(look) = &args.look {
        flag("look", look.as_ref());
    }
    flag("approve", settings.config.approve.name().as_ref());
    // Also where they are off: the child may have another config.
    flag("sandbox", settings.config.sandbox.name().as_ref());
    flag("no-network", settings.config.no_network.to_string().as_ref());
    if let Some(path) = &args.record {
        flag("record", path.as_os_str());
    }
    for (name, is_set) in [
        ("--no-summaries", args.no_summaries),
        ("--redact", settings.config.redact),
        ("--verbose", args.verbose),
        ("--grammar", args.grammar),
        ("--dangerous", args.dangerous),
        ("--stop-list", args.stop_list),
    ] {
        flags.extend(is_set.then(|| name.into()));
    }
    // Those of the config come with it.
    flags.extend(args.model.option_words());
    flags
}

/// How a nagent is called that edits a file in the file's own conversation, with the limits of this call.
pub(super) fn file_edit_words(call: &Call<'_>, file: &Path) -> Vec<OsString> {
    run_words(call, "--file-edit=", file.as_os_str(), &call.args.limits)
}

/// How a nagent is called that works beside this one: on what `flag` names, with these limits, and the files of --read.
pub(super) fn run_words(
    call: &Call<'_>,
    flag: &str,
    target: &OsStr,
    limits: &LimitArgs,
) -> Vec<OsString> {
    let model = call.settings.config.model.as_deref();
    let mut words = vec![call.env.tool("nagent").into_os_string()];
    words.extend(child_flags(call, model));
    let word = |flag: &str, value: &OsStr| {
        let mut word = OsString::from(flag);
        word.push(value);
        word
    };
    words.push(word(flag, target));
    words.extend(limits.words().map(OsString::from));
    words.extend(call.args.read.iter().map(|path| word("--read=", path.as_os_str())));
    words.push(format!("--lock-timeout={}", call.settings.config.lock_timeout).into());
    words
}

/// The child conversations of a run, none of them started yet. `report`: they report what they do.
pub(super) fn children(call: &Call<'_>, model: Option<&str>, report: bool) -> Children {
    Children::new(
        call.env.tool("nagent"),
        child_flags(call, model),
        report,
        usize::try_from(call.settings.config.jobs).unwrap_or(1),
        call.parents.clone(),
        call.name.clone(),
        call.env.get(env::LINEAGE).unwrap_or("0").to_owned(),
    )
}
