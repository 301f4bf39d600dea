//! Faults of servers over loopback, each format: how many come to what they must come to. Needs nothing special.

use crate::figures::Figures;
use crate::server_faults;

pub(crate) fn run(figures: &mut Figures) {
    let (count, wrong) = server_faults::run_all();
    println!("  {count} fixtures: {} in the right class", count - wrong.len());
    figures.at_least("HTTP fixtures", count, 80);
    figures.exactly("HTTP fixtures in another class", wrong.len(), 0);
    wrong.into_iter().for_each(|why| figures.miss(why));
}
