//! Agent Skills (agentskills.io): folders with a `SKILL.md`, whose front matter names and describes them.
//!
//! ```text
//! SKILL.md = "---" LF front-matter "---" LF text          front-matter = YAML: name, description, and more
//! ```
//! Of the file nothing but the front matter is read here. A skill of a repository counts only as long as its folder has the hash
//! that the user has confirmed; that is decided elsewhere.

use std::collections::{BTreeMap, HashSet};
use std::fs::canonicalize;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use conversation::format::harmless::{escape_line, quote_name};
use conversation::limits::{self, SKILL_BYTES, SKILL_DESCRIPTION, SKILL_FILES, SKILL_FRONT};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::fs;
use super::read::open_resolved;
use super::walk::walk_below;

/// The names of the folders of a repository that hold skills.
const IN_REPOSITORY: [&str; 2] = [".agents/skills", ".claude/skills"];
/// The name of the file that makes a folder a skill.
pub const SKILL_FILE: &str = "SKILL.md";

/// A folder that should hold a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFolder {
    /// Its name, which is the skill's.
    pub name: String,
    /// Its path, which may be a link.
    pub path: PathBuf,
    /// The top of the repository that it belongs to; `None` if it is the user's own.
    pub top: Option<PathBuf>,
}

/// The front matter of a skill.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Skill {
    /// Its description, on one line.
    pub description: String,
    /// The reasons why it cannot be used.
    pub errors: Vec<String>,
    /// Another deviation from the specification.
    pub warning: Option<String>,
}

/// The fields of the front matter that are used. Others are skipped with their aliases, which could repeat each other.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Front {
    name: String,
    description: String,
}

/// The front matter as the specification has it.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
struct StrictFront {
    name: String,
    description: String,
    license: String,
    compatibility: String,
    metadata: IgnoredAny,
    allowed_tools: String,
}

/// Lists the folders of skills, the nearest first: those of the repository from `folder` up to its `top`, those of the
/// root, those in the home folder. The second value says whether there are more than [`limits::SKILLS`].
pub fn find_skills(
    root: &Path,
    home: Option<&Path>,
    folder: &Path,
    top: &Path,
) -> (Vec<SkillFolder>, bool) {
    let home = home.map(|home| home.join(".agents/skills"));
    let own: Vec<PathBuf> = [root.join("skills")].into_iter().chain(home).collect();
    // A home folder may be a repository; the user's own skills need no confirmation there.
    let real_own = own.iter().map(PathBuf::as_path).chain([root]).flat_map(canonicalize);
    let real_own: Vec<PathBuf> = real_own.collect();
    let above = folder.ancestors().take_while(|above| above.starts_with(top));
    let inside = above.flat_map(|above| IN_REPOSITORY.map(|name| above.join(name)));
    let inside = inside.filter(|place| {
        canonicalize(place).is_ok_and(|place| !real_own.iter().any(|own| place.starts_with(own)))
    });
    let inside = inside.map(|place| (place, Some(top.to_owned())));
    let places = inside.chain(own.into_iter().map(|place| (place, None)));
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for (place, top) in places {
        // `.claude/skills` is often a link to `.agents/skills`.
        if !canonicalize(&place).is_ok_and(|real| seen.insert(real)) {
            continue;
        }
        for name in fs::list_names(&place).unwrap_or_default() {
            let path = place.join(&name);
            if !name.starts_with('.') && path.is_dir() {
                found.push(SkillFolder { name, path, top: top.clone() });
            }
            if found.len() > limits::SKILLS {
                found.pop();
                return (found, true);
            }
        }
    }
    (found, false)
}

impl SkillFolder {
    /// Reads the front matter, and checks it by the specification.
    pub fn read(&self) -> Skill {
        let mut skill = Skill::default();
        match self.read_front_matter() {
            Ok(front) => skill.check(&front, &self.name),
            Err(why) => skill.errors.push(why),
        }
        skill
    }

    /// The folder without links.
    ///
    /// # Errors
    /// It is a repository's and leads out of it, or does not exist.
    pub fn real_path(&self) -> Result<PathBuf, String> {
        let real = canonicalize(&self.path).map_err(|error| error.to_string())?;
        let top = self.top.as_ref().map(|top| canonicalize(top).unwrap_or_default());
        if top.is_some_and(|top| !real.starts_with(top)) {
            let real = quote_name(real);
            return Err(format!("it is a link that leads out of the repository, to {real}"));
        }
        Ok(real)
    }

    fn read_front_matter(&self) -> Result<String, String> {
        let folder = self.real_path()?;
        let path =
            canonicalize(folder.join(SKILL_FILE)).map_err(|_| format!("it has no {SKILL_FILE}"))?;
        if !path.starts_with(&folder) {
            return Err(format!("{SKILL_FILE} is a link that leads out of its folder"));
        }
        let (file, _) = open_resolved(&path).map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        file.take(SKILL_FRONT).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.trim_start_matches('\u{feff}').split_inclusive('\n');
        let is_mark = |line: &&str| line.trim_end() == "---";
        if !lines.next().is_some_and(|line| is_mark(&line)) {
            return Err(format!("{SKILL_FILE} does not begin with a line of ---"));
        }
        // The errors of YAML count lines from the start of the file.
        let mut front = "\n".to_owned();
        for line in lines {
            if is_mark(&line) {
                return Ok(front);
            }
            front.push_str(line);
        }
        Err(format!("its front matter does not end with a line of --- within {SKILL_FRONT} bytes"))
    }
}

impl Skill {
    fn check(&mut self, text: &str, folder: &str) {
        let explain = |error: serde_yaml::Error| escape_line(&error.to_string(), 200);
        let front: Front = match serde_yaml::from_str(text) {
            Ok(front) => front,
            Err(error) => {
                let error = explain(error);
                return self.errors.push(format!("its front matter is bad YAML: {error}"));
            }
        };
        let strict: Result<StrictFront, _> = serde_yaml::from_str(text);
        let warn = |error| format!("not as the specification says: {}", explain(error));
        self.warning = strict.err().map(warn);
        let (name, description) = (front.name.trim(), front.description.trim());
        self.description = escape_line(description, SKILL_DESCRIPTION);
        if !is_name(name) {
            let shown = escape_line(name, 80);
            self.errors.push(format!("its name \"{shown}\" is not 1 to 64 lower-case letters and digits, with single hyphens between them"));
        } else if name != folder {
            self.errors
                .push(format!("its name is {name}, and its folder's {}", quote_name(folder)));
        }
        let count = description.chars().count();
        if !(1..=SKILL_DESCRIPTION).contains(&count) {
            self.errors.push(format!(
                "its description has {count} characters, not 1 to {SKILL_DESCRIPTION}"
            ));
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    text.len() <= 64 && text.split('-').all(is_part)
}

/// The names in a text that follow a `$`, as in `use $pdf-tools`: whole words that may name skills.
pub fn named_in(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && !"_$\\-".contains(c));
    let names = words.filter_map(|word| Some(word.strip_prefix('$')?.trim_end_matches('-')));
    names.filter(|name| is_name(name)).collect()
}

/// The hash of all files in a folder of a skill, a path without links: their names, their bytes and whether they are executable. And
/// the files with their bytes.
///
/// # Errors
/// It holds more than [`limits`] allow, something that is neither file nor folder, or a link that leads out.
pub fn hash_folder(folder: &Path) -> Result<(String, BTreeMap<PathBuf, Vec<u8>>), String> {
    let mut paths: Vec<_> =
        walk_below(folder, &|_| true).take(SKILL_FILES + 1).map(|entry| entry.path()).collect();
    if paths.len() > SKILL_FILES {
        return Err(format!("it has more than {SKILL_FILES} files and folders"));
    }
    paths.sort();
    let (mut files, mut all, mut bytes) = (BTreeMap::new(), Vec::new(), 0);
    for path in paths {
        let below = path.strip_prefix(folder).unwrap_or(&path).to_owned();
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", quote_name(&below));
        all.extend([below.as_os_str().as_bytes(), b"\0"].concat());
        let kind = std::fs::symlink_metadata(&path).map_err(|error| failed(&error))?.file_type();
        if kind.is_symlink() {
            let target = canonicalize(&path).map_err(|error| failed(&error))?;
            let target = target.strip_prefix(folder);
            let target = target.map_err(|_| failed(&"a link that leads out of its folder"))?;
            all.extend(format!("link {}", quote_name(target)).bytes());
        } else if !kind.is_dir() {
            let content = fs::read_resolved(&path, SKILL_BYTES - bytes);
            let content = content.map_err(|error| failed(&format!("{error:#}")))?;
            bytes += content.len() as u64;
            all.extend(format!("{} {}", fs::is_executable(&path), fs::sha256(&content)).bytes());
            files.insert(below, content);
        }
        all.push(b'\n');
    }
    Ok((fs::sha256(&all), files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_specification() {
        for name in ["a", "pdf-tools", "1-2-3", &"x".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "a--b", "A", "a_b", "ä", "a b", &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn only_whole_words_name_skills() {
        let check = |text: &str, expect: &[&str]| assert_eq!(named_in(text), expect, "{text}");
        check("use $pdf-tools, ($a1) and $pdf-tools.", &["pdf-tools", "a1", "pdf-tools"]);
        check("$a\n$b: \"$c\" '$d-' €$e", &["a", "b", "c", "d", "e"]);
        check("$HOME ${a} $a_b $aB $$ $ \\$a x$a $$a $-a $a--b $5.00", &["5"]);
    }

    #[test]
    fn front_matter_is_checked() {
        let check = |front: &str, errors: &[&str], warning: Option<&str>| {
            let mut skill = Skill::default();
            skill.check(front, "pdf");
            let got = &skill.errors;
            let is_like = got.len() == errors.len()
                && got.iter().zip(errors).all(|(got, it)| got.contains(it));
            assert!(is_like, "{front}: {got:?}");
            let warned = skill.warning.as_deref();
            assert_eq!(warned.is_some(), warning.is_some(), "{front}: {warned:?}");
            assert!(warned.unwrap_or_default().contains(warning.unwrap_or_default()), "{warned:?}");
            skill
        };
        let skill = check(
            "name: pdf\ndescription: |\n  a\x20\n  b\u{202e}\nlicense: MIT\ncompatibility: x\nallowed-tools: Bash Read\nmetadata: {a: b}",
            &[],
            None,
        );
        assert_eq!(skill.description, "a b\\u{202e}");
        let good = "name: pdf\ndescription: d\n";
        check(&format!("{good}hooks: [x]"), &[], Some("unknown field `hooks`"));
        check(&format!("{good}license: [x]"), &[], Some("license"));
        check(&format!("{good}allowed-tools: [a]"), &[], Some("allowed-tools"));
        check("", &["its name \"\"", "has 0 characters"], None);
        check("a: \u{1b}", &["control characters"], None);
        check("- a", &["bad YAML"], None);
        check("a: [", &["bad YAML"], None);
        check(&format!("{good}name: pdf"), &["duplicate"], None);
        check("x: y", &["its name \"\"", "has 0 characters"], Some("`x`"));
        check("name: Pdf\ndescription: ' '", &["its name \"Pdf\"", "has 0 characters"], None);
        check("name: doc\ndescription: d", &["its name is doc, and its folder's pdf"], None);
        let long = |count| format!("name: pdf\ndescription: {}", "ä".repeat(count));
        check(&long(1025), &["has 1025 characters"], None);
        check(&long(1024), &[], None);
        check("name: [pdf]\ndescription: x", &["bad YAML: name"], None);
        // Each of 8,000 aliases would repeat 16,000 values.
        let bomb = format!("{good}a: &a [{}]\nb: [{}]", "x,".repeat(16_000), "*a,".repeat(8_000));
        check(&bomb, &[], Some("`a`"));
        check(
            &format!("{good}{}", bomb.replace("a: &a", "metadata: &a").replace(good, "")),
            &[],
            Some("`b`"),
        );
        check(&"[".repeat(6_000), &["bad YAML"], None);
    }
}
