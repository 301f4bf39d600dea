//! A program that puts its input in the place of a file, as the tags of a run do: `torture --put FILE`.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

use sys::boundary::{Boundary, BoundaryFolders};
use sys::env::Env;
use sys::interrupt::Interrupts;
use sys::root::Root;
use sys::{fs, replace};

pub(crate) const FLAG: &str = "--put";

/// The words that start the program.
pub(crate) fn words(path: &Path) -> (String, Vec<String>) {
    let program = std::env::current_exe().unwrap().display().to_string();
    (program, vec![FLAG.to_owned(), path.display().to_string()])
}

pub(crate) fn inside(words: &[String]) -> ExitCode {
    match put(Path::new(&words[0])) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A fault may hit this, too.
            let _ = writeln!(std::io::stderr(), "nagent: {error}");
            ExitCode::FAILURE
        }
    }
}

fn put(path: &Path) -> Result<(), String> {
    // A limit on the size of files is an error, not a signal.
    let _interrupts = Interrupts::install().map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(|error| error.to_string())?;
    let env = Env::read();
    let folder = env.current_folder().map_err(|error| format!("{error:#}"))?;
    let home = env.home_folder().ok_or("there is no home folder")?;
    let root = Root { folder: home.join(".nagent") };
    let places = BoundaryFolders {
        cwd: &folder,
        toplevel: None,
        home: Some(&home),
        root: root.path(),
        tmpdir: None,
    };
    let boundary = Boundary::for_file(places, path).map_err(|error| error.to_string())?;
    let opened = boundary.open_for_write(path).map_err(|error| error.to_string())?;
    let mut keep = |file: &mut File| fs::store_file(&root.outputs_folder(), file, &|| false);
    replace::replace_file(opened, &text, &mut keep).map_err(|error| error.to_string())?;
    Ok(())
}
