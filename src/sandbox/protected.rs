//! Names that stay read-only inside writable folders, whether they exist yet or not, and what of the home folder nothing
//! inside the walls reads.
//!
//! What is here runs by itself when somebody enters, opens or works in a folder: a command that may write it runs again
//! outside of its walls. What a person or a build runs by its name (Makefile, package.json, build.rs, CI's workflows) is
//! the project itself and stays writable.

use std::ffi::OsStr;

/// What stands in for a name that does not exist yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ghost {
    /// An empty folder: git does not see it, and no tool takes it for its settings.
    Folder,
    /// An empty file, for names whose tools stumble over a folder.
    File,
    /// Nothing: it is a rarer tool's, kept where it exists, and told of when it appears.
    Nothing,
}

use Ghost::{File, Folder, Nothing};

/// Names that belong together.
#[derive(Debug)]
pub struct Group {
    /// Why they are here.
    pub why: &'static str,
    /// The names, and what stands in for each.
    pub names: &'static [(&'static str, Ghost)],
}

/// All groups.
pub const GROUPS: &[Group] = &[
    Group {
        why: "git runs hooks, filters and monitors that these name",
        names: &[
            (".git", Folder),
            (".gitmodules", File),
            (".gitconfig", Folder),
            (".githooks", Folder),
        ],
    },
    Group {
        why: "shells and their like run these when they start or enter the folder",
        names: &[
            (".bashrc", Folder),
            (".bash_profile", Folder),
            (".bash_login", Folder),
            (".bash_logout", Folder),
            (".bash_aliases", Nothing),
            (".profile", Folder),
            (".zshrc", Folder),
            (".zshenv", Folder),
            (".zprofile", Folder),
            (".zlogin", Folder),
            (".zlogout", Folder),
            (".kshrc", Folder),
            (".cshrc", Nothing),
            (".tcshrc", Nothing),
            (".login", Nothing),
            (".inputrc", Nothing),
            (".envrc", Folder),
            (".direnv", Nothing),
        ],
    },
    Group {
        why: "editors run tasks, scripts and servers that these name when the folder is opened",
        names: &[
            (".vscode", Folder),
            (".devcontainer", Folder),
            (".idea", Folder),
            (".fleet", Nothing),
            (".zed", Folder),
            (".vim", Folder),
            (".vimrc", Folder),
            (".gvimrc", Nothing),
            (".exrc", Folder),
            (".nvimrc", Folder),
            (".nvim.lua", Nothing),
            (".emacs", Folder),
            (".emacs.d", Folder),
            (".dir-locals.el", Folder),
            (".dir-locals-2.el", Nothing),
        ],
    },
    Group {
        why: "agents take permissions, hooks and servers from these",
        names: &[
            (".mcp.json", Folder),
            (".agents", Folder),
            (".claude", Folder),
            (".codex", Folder),
            (".cursor", Folder),
            (".gemini", Folder),
            (".nagent", Folder),
            (".opencode", Nothing),
            (".windsurf", Nothing),
        ],
    },
    Group {
        why: "package managers and version managers run or fetch what these name",
        names: &[
            (".cargo", Folder),
            (".npmrc", File),
            (".yarnrc", File),
            (".yarnrc.yml", File),
            (".pnpmfile.cjs", File),
            (".pypirc", Folder),
            (".pydistutils.cfg", Nothing),
            (".mise.toml", File),
            (".mise", Nothing),
            (".tool-versions", File),
        ],
    },
    Group {
        why: "commits run what these name",
        names: &[(".husky", Folder), (".pre-commit-config.yaml", Folder)],
    },
    Group {
        why: "debuggers, interpreters and searchers read these from the folder that they start in",
        names: &[
            (".gdbinit", File),
            (".lldbinit", Nothing),
            (".pdbrc", Folder),
            (".irbrc", File),
            (".pryrc", Nothing),
            (".Rprofile", File),
            (".ripgreprc", Folder),
        ],
    },
];

/// Paths of the home folder, from there, that start things, and what stands in for each: read-only where they lie in a
/// folder that is writable because the user works in it or named it.
pub const STARTERS_IN_HOME: &[(&str, Ghost)] = &[
    (".config/autostart", Folder),
    (".config/environment.d", Folder),
    (".config/fish", Folder),
    (".config/git", Folder),
    (".config/nvim", Folder),
    (".config/systemd", Folder),
    (".local/bin", Folder),
    (".pam_environment", File),
    (".tmux.conf", File),
    (".xinitrc", Folder),
    (".xprofile", Folder),
    (".xsession", Folder),
    (".xsessionrc", Folder),
    ("bin", Folder),
];

/// Paths of the home folder, from there, that hold credentials: nothing inside the walls reads them.
///
/// What a build reads besides is not here, though it may hold a password: pip's and uv's settings, Maven's `settings.xml`
/// (Maven starts no build without it or with an empty one), NuGet's and Bundler's config.
pub const CREDENTIALS_IN_HOME: &[&str] = &[
    // Keys and logins of machines.
    ".ssh",
    ".putty",
    ".gnupg",
    ".config/age",
    ".config/sops",
    ".netrc",
    "_netrc",
    ".netrc.gpg",
    ".authinfo",
    ".authinfo.gpg",
    ".smbcredentials",
    ".vnc/passwd",
    // Password stores.
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".password-store",
    ".vault-token",
    ".op",
    ".config/op",
    ".config/1Password",
    ".config/Bitwarden",
    ".config/Bitwarden CLI",
    // Clouds and what runs there.
    ".aws",
    ".azure",
    ".oci",
    ".aliyun",
    ".bluemix",
    ".kube",
    ".docker",
    ".dockercfg",
    ".config/containers",
    ".config/helm/registry",
    ".config/gcloud",
    ".boto",
    ".s3cfg",
    ".mc/config.json",
    ".passwd-s3fs",
    ".config/rclone",
    ".rclone.conf",
    ".config/doctl",
    ".config/hcloud",
    ".config/heroku",
    ".config/linode-cli",
    ".config/scw",
    ".config/netlify",
    ".config/configstore",
    ".config/.wrangler",
    ".wrangler",
    ".cloudflared",
    ".fly",
    ".railway",
    ".local/share/com.vercel.cli",
    ".config/ngrok",
    ".ngrok2",
    ".config/stripe",
    ".config/solana",
    ".pulumi/credentials.json",
    ".terraformrc",
    ".terraform.d/credentials.tfrc.json",
    ".databrickscfg",
    ".snowflake",
    ".snowsql",
    ".sentryclirc",
    // Code hosts.
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/tea",
    // Agents and models.
    ".claude/.credentials.json",
    ".claude.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".gemini/mcp-oauth-tokens.json",
    ".qwen/oauth_creds.json",
    ".aider.conf.yml",
    ".config/cursor",
    ".config/github-copilot",
    ".config/goose/secrets.yaml",
    ".config/io.datasette.llm/keys.json",
    ".local/share/opencode/auth.json",
    ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens",
    ".huggingface/token",
    ".kaggle/kaggle.json",
    // Package registries.
    ".pypirc",
    ".config/pypoetry/auth.toml",
    ".local/share/uv/credentials",
    ".npmrc",
    ".yarnrc.yml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings-security.xml",
    ".ivy2/.credentials",
    ".sbt/.credentials",
    ".composer/auth.json",
    ".config/composer/auth.json",
    // Databases.
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    // Mail and browsers.
    ".msmtprc",
    ".config/msmtp",
    ".mbsyncrc",
    ".fetchmailrc",
    ".offlineimaprc",
    ".thunderbird",
    ".mozilla",
    ".config/chromium",
    ".config/google-chrome",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
];

/// Folders of a tree that are looked through last: large, and made by tools.
pub const HEAVY: &[&str] =
    &["node_modules", "target", ".venv", "venv", "__pycache__", "dist", "build", "vendor", ".tox"];

/// All names, with what stands in for each.
pub fn names() -> impl Iterator<Item = (&'static str, Ghost)> {
    GROUPS.iter().flat_map(|group| group.names.iter().copied())
}

/// Whether an entry's name is one of them. Some file systems know no case.
pub fn is_protected(name: &OsStr) -> bool {
    // All begin with a dot, and most entries do not.
    name.as_encoded_bytes().first() == Some(&b'.')
        && names().any(|(known, _)| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_known_whatever_their_case() {
        for name in [".git", ".GIT", ".Bashrc", ".vscode", ".rprofile", ".mcp.json", ".npmrc"] {
            assert!(is_protected(OsStr::new(name)), "{name}");
        }
        for name in [
            "git",
            ".github",
            ".gitignore",
            ".gitattributes",
            "Makefile",
            "package.json",
            ".env",
            ".",
        ] {
            assert!(!is_protected(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn credentials_stand_once_below_the_home_and_are_no_folder_that_all_tools_share() {
        let mut seen = HashSet::new();
        for path in CREDENTIALS_IN_HOME {
            let is_plain = path.split('/').all(|part| !["", ".", ".."].contains(&part));
            assert!(seen.insert(path) && is_plain, "{path}");
            // One would hide the settings of others.
            for shared in [
                ".config",
                ".local",
                ".local/share",
                ".cache",
                ".cargo",
                ".claude",
                ".codex",
                ".m2",
            ] {
                assert_ne!(*path, shared);
            }
        }
    }

    #[test]
    fn logins_of_agents_and_registries_are_credentials() {
        for path in [
            ".claude/.credentials.json",
            ".claude.json",
            ".codex/auth.json",
            ".gemini/oauth_creds.json",
            ".config/cursor",
            ".config/github-copilot",
            ".cache/huggingface/token",
            ".huggingface/token",
            ".s3cfg",
            ".boto",
            ".fly",
            ".config/doctl",
            ".config/heroku",
            "_netrc",
        ] {
            assert!(CREDENTIALS_IN_HOME.contains(&path), "{path}");
        }
        for path in [
            ".config/pip/pip.conf",
            ".pip/pip.conf",
            ".m2/settings.xml",
            ".gradle/gradle.properties",
        ] {
            assert!(!CREDENTIALS_IN_HOME.contains(&path), "a build reads {path}");
        }
    }

    #[test]
    fn each_name_stands_once_and_begins_with_a_dot() {
        let mut seen = HashSet::new();
        for (name, _) in names() {
            assert!(seen.insert(name) && name.starts_with('.') && !name.contains('/'), "{name}");
        }
    }
}
