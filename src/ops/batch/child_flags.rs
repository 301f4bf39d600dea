//! The flags that a nagent passes on to the nagents that it starts.

use std::ffi::{OsStr, OsString};

use crate::drive::children::{ChildSetup, Children};
use crate::drive::nagent_child::flag_word;
use crate::ops::run::call::Call;
use crate::ops::setup::flags::{LimitArgs, ModelArgs, RunArgs};
use conversation::protocol::TagSet;
use sys::{env, fs};

/// The flags of every child: root, config, provider, model, and what it may do, as they are in force here. A child may have
/// another config, so settings are passed on even where they are off.
fn child_args(call: &Call<'_>, model: Option<&str>) -> RunArgs {
    let (args, settings) = (call.args, &call.settings);
    let config = &settings.config;
    RunArgs {
        context: settings.context.clone(),
        after_write: config.after_write.clone(),
        grammar: args.grammar,
        verbose: args.verbose,
        record: args.record.clone(),
        write: args.write.clone(),
        sandbox: config.sandbox,
        no_network: Some(config.no_network),
        approve: Some(config.approve),
        dangerous: args.dangerous,
        tags: (settings.tags != TagSet::ALL).then(|| vec![settings.tags.names()]),
        look: args.look.clone(),
        no_summaries: args.no_summaries,
        model: ModelArgs {
            root: Some(settings.root.path().to_owned()),
            config: Some(settings.config_path.clone()).filter(|path| fs::exists(path)),
            provider: Some(settings.provider_name().to_owned()),
            model: model.map(str::to_owned),
            base_url: config.base_url.clone(),
            profile: config.profile.clone(),
            patience: Some(config.patience),
            // Options of requests that the config sets come with the config.
            ..args.model.clone()
        },
        ..RunArgs::default()
    }
}

/// The flags of a nagent that works on one part of this call: those of a child, the files of --read, and the limits.
pub(crate) fn part_args(call: &Call<'_>) -> RunArgs {
    RunArgs {
        read: call.args.read.clone(),
        lock_timeout: Some(call.settings.config.lock_timeout),
        limits: LimitArgs { jobs: None, ..call.args.limits.clone() },
        ..child_args(call, call.settings.config.model.as_deref())
    }
}

/// The words that start a nagent with these flags, and one more that names what it works on.
pub(crate) fn nagent_words(
    call: &Call<'_>,
    args: &RunArgs,
    flag: &str,
    target: impl AsRef<OsStr>,
) -> Vec<OsString> {
    let mut words = vec![call.env.tool_path("nagent").into_os_string()];
    words.extend(args.words());
    words.push(flag_word(flag, target));
    words
}

/// The child conversations of a run, none of them started yet. `report`: they report what they do.
pub(crate) fn children(call: &Call<'_>, model: Option<&str>, report: bool) -> Children {
    Children::new(ChildSetup {
        executable: call.env.tool_path("nagent"),
        flags: child_args(call, model).words(),
        report,
        at_once: usize::try_from(call.settings.config.jobs).unwrap_or(1).max(1),
        parents: call.parents.clone(),
        name: call.name.clone(),
        lineage: call.env.get(env::LINEAGE).unwrap_or("0").to_owned(),
    })
}
