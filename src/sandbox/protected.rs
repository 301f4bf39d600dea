//! Names that stay read-only in writable folders, and paths of the home folder that commands cannot read: tables, with a
//! reason for each group.
//!
//! A protected name is one that runs by itself when somebody enters, opens or works in a folder: a command that may write it
//! runs again outside of its sandbox. What a person or a build runs by its name (Makefile, package.json, build.rs, workflows
//! of CI) is the project itself and stays writable.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::sync::LazyLock;

/// Names that are protected for the same reason.
#[derive(Debug)]
pub struct ProtectedNames {
    /// Why they are here.
    pub reason: &'static str,
    /// The names, separated by a comma and a blank.
    names: &'static str,
}

/// Returns the names of a table.
pub fn names_in(table: &'static [ProtectedNames]) -> impl Iterator<Item = &'static str> {
    table.iter().flat_map(|group| group.names.split(", "))
}

/// Returns whether an entry has a protected name. Some file systems do not distinguish case.
pub fn is_protected(name: &OsStr) -> bool {
    static NAMES: LazyLock<HashSet<String>> =
        LazyLock::new(|| names_in(PROTECTED).map(str::to_ascii_lowercase).collect());
    name.to_str().is_some_and(|name| NAMES.contains(&name.to_ascii_lowercase()))
}

/// Names that are read-only wherever they are in a writable folder.
pub const PROTECTED: &[ProtectedNames] = &[
    ProtectedNames {
        reason: "git, Mercurial and Jujutsu run hooks, filters and monitors that these name",
        names: ".git, .gitmodules, .gitconfig, .githooks, .hg, .jj",
    },
    ProtectedNames {
        reason: "shells and their like run these when they start or enter the folder",
        names: ".bashrc, .bash_profile, .bash_login, .bash_logout, .bash_aliases, .profile, .zshrc, .zshenv, .zprofile, \
                .zlogin, .zlogout, .kshrc, .cshrc, .tcshrc, .login, .inputrc, .envrc, .direnv",
    },
    ProtectedNames {
        reason: "editors run tasks, scripts and servers that these name when the folder is opened",
        names: ".vscode, .devcontainer, .idea, .fleet, .zed, .vim, .vimrc, .gvimrc, .exrc, .nvimrc, .nvim.lua, .emacs, \
                .emacs.d, .dir-locals.el, .dir-locals-2.el, .helix, .lvimrc, .lazy.lua",
    },
    ProtectedNames {
        reason: "agents take permissions, hooks and servers from these",
        names: ".mcp.json, .agents, .claude, .codex, .cursor, .gemini, .nagent, .opencode, .windsurf, .qwen, \
                .kiro, .roo, .amazonq, .aider.conf.yml",
    },
    ProtectedNames {
        reason: "package managers and version managers run or fetch what these name",
        names: ".cargo, .npmrc, .yarnrc, .yarnrc.yml, .pnpmfile.cjs, .pypirc, .pydistutils.cfg, .mise.toml, .mise, \
                mise.toml, .tool-versions, .rvmrc, .mvn, .bundle",
    },
    ProtectedNames {
        reason: "commits run what these name",
        names: ".husky, .pre-commit-config.yaml, .overcommit.yml, lefthook.yml, .lefthook.yml",
    },
    ProtectedNames {
        reason: "debuggers, interpreters and searchers read these from the folder that they start in",
        names: ".gdbinit, .lldbinit, .pdbrc, .irbrc, .pryrc, .Rprofile, .Renviron, .RData, .ghci, .ocamlinit, .iex.exs, \
                .octaverc, .ripgreprc",
    },
];

/// Paths in the home folder that start things. They are read-only where the home folder, or a folder of it, is writable.
pub const STARTERS_IN_HOME: &[ProtectedNames] = &[ProtectedNames {
    reason: "sessions, shells and desktops run what these hold",
    names: ".config/autostart, .config/environment.d, .config/fish, .config/git, .config/nvim, .config/systemd, \
                .local/bin, .pam_environment, .tmux.conf, .xinitrc, .xprofile, .xsession, .xsessionrc, bin",
}];

/// Paths in the home folder that hold credentials: commands cannot read them.
///
/// What builds read is not here, though it may hold a password: settings of pip and uv, Maven's `settings.xml` (Maven does
/// not start with an empty one), the config of NuGet and Bundler.
pub const CREDENTIALS_IN_HOME: &[ProtectedNames] = &[
    ProtectedNames {
        reason: "keys and logins of machines",
        names: ".ssh, .putty, .gnupg, .config/age, .config/sops, .netrc, _netrc, .netrc.gpg, .authinfo, .authinfo.gpg, \
                .smbcredentials, .vnc/passwd",
    },
    ProtectedNames {
        reason: "password stores",
        names: ".local/share/keyrings, .local/share/kwalletd, .password-store, .vault-token, .op, .config/op, \
                .config/1Password, .config/Bitwarden, .config/Bitwarden CLI",
    },
    ProtectedNames {
        reason: "clouds and what runs there",
        names: ".aws, .azure, .oci, .aliyun, .bluemix, .kube, .docker, .dockercfg, .config/containers, \
                .config/helm/registry, .config/gcloud, .boto, .s3cfg, .mc/config.json, .passwd-s3fs, .config/rclone, \
                .rclone.conf, .config/doctl, .config/hcloud, .config/heroku, .config/linode-cli, .config/scw, \
                .config/netlify, .config/configstore, .config/.wrangler, .wrangler, .cloudflared, .fly, .railway, \
                .local/share/com.vercel.cli, .config/ngrok, .ngrok2, .config/stripe, .config/solana, \
                .pulumi/credentials.json, .terraformrc, .terraform.d/credentials.tfrc.json, .databrickscfg, .snowflake, \
                .snowsql, .sentryclirc, .modal.toml, .supabase, .tsh, .dbt/profiles.yml",
    },
    ProtectedNames {
        reason: "code hosts",
        names: ".git-credentials, .subversion/auth, .config/git/credentials, .config/gh, .config/glab-cli, .config/hub, .config/tea",
    },
    ProtectedNames {
        reason: "agents and models",
        names: ".claude/.credentials.json, .claude.json, .codex/auth.json, .gemini/oauth_creds.json, \
                .gemini/mcp-oauth-tokens.json, .gemini/.env, .config/aichat, .config/mods, .qwen/oauth_creds.json, .aider.conf.yml, .config/cursor, \
                .config/github-copilot, .config/goose/secrets.yaml, .config/io.datasette.llm/keys.json, \
                .local/share/opencode/auth.json, .cache/huggingface/token, .cache/huggingface/stored_tokens, \
                .huggingface/token, .kaggle/kaggle.json, .config/kaggle",
    },
    ProtectedNames {
        reason: "package registries",
        names: ".pypirc, .config/pypoetry/auth.toml, .local/share/uv/credentials, .npmrc, .yarnrc.yml, .cargo/credentials, \
                .cargo/credentials.toml, .gem/credentials, .m2/settings-security.xml, .ivy2/.credentials, .sbt/.credentials, \
                .composer/auth.json, .config/composer/auth.json",
    },
    ProtectedNames { reason: "databases", names: ".pgpass, .my.cnf, .mylogin.cnf" },
    ProtectedNames {
        reason: "mail, messages, browsers and editors",
        names: ".config/isync, .config/Slack, .config/Signal, .config/Code/User/globalStorage, .config/syncthing, \
                .local/share/remmina, .msmtprc, .config/msmtp, .mbsyncrc, .fetchmailrc, .offlineimaprc, .thunderbird, .mozilla, .config/chromium, \
                .config/google-chrome, .config/BraveSoftware, .config/microsoft-edge, .config/vivaldi",
    },
    ProtectedNames {
        reason: "wallets",
        names: ".bitcoin, .electrum, .ethereum/keystore, .bitmonero, .config/Exodus, .config/Ledger Live",
    },
    ProtectedNames {
        reason: "histories, in which people type passwords",
        names: ".bash_history, .zsh_history, .local/share/fish/fish_history, .python_history, .node_repl_history, \
                .psql_history, .mysql_history, .rediscli_history",
    },
];

/// Variables that say where credentials are: in place of a folder of the home folder in the table above, or, with an empty
/// one, by themselves.
pub const CREDENTIAL_VARIABLES: &[(&str, &str)] = &[
    ("AWS_CONFIG_FILE", ""),
    ("AWS_SHARED_CREDENTIALS_FILE", ""),
    ("CARGO_HOME", ".cargo"),
    ("DOCKER_CONFIG", ".docker"),
    ("GNUPGHOME", ".gnupg"),
    ("GOOGLE_APPLICATION_CREDENTIALS", ""),
    ("KUBECONFIG", ""),
    ("NETRC", ""),
    ("NPM_CONFIG_USERCONFIG", ""),
    ("npm_config_userconfig", ""),
    ("PGPASSFILE", ""),
    ("REGISTRY_AUTH_FILE", ""),
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    // Podman's login.
    ("XDG_RUNTIME_DIR", ".config"),
];

/// Folders of a tree that are searched last: they are large, and tools made them.
pub const HEAVY: &[&str] =
    &["node_modules", "target", ".venv", "venv", "__pycache__", "dist", "build", "vendor", ".tox"];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_protected_whatever_their_case() {
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
    fn credentials_are_listed_once_and_hide_no_folder_that_many_tools_share() {
        let mut seen = HashSet::new();
        for path in names_in(CREDENTIALS_IN_HOME) {
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
                assert_ne!(path, shared);
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
            assert!(names_in(CREDENTIALS_IN_HOME).any(|known| known == path), "{path}");
        }
        for path in [
            ".config/pip/pip.conf",
            ".pip/pip.conf",
            ".m2/settings.xml",
            ".gradle/gradle.properties",
        ] {
            assert!(
                names_in(CREDENTIALS_IN_HOME).all(|known| known != path),
                "a build reads {path}"
            );
        }
    }

    #[test]
    fn each_name_is_listed_once() {
        let mut seen = HashSet::new();
        for name in names_in(PROTECTED) {
            assert!(seen.insert(name) && !name.contains('/'), "{name}");
        }
    }
}
