//! Simulates the model on standard input, writes the results to standard output.

use std::io::Read;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut json = String::new();
    std::io::stdin().read_to_string(&mut json)?;
    let results = isolane_sim::run(&isolane_sim::parse(&json)?, &mut || false)?;
    println!("{}", isolane_sim::to_json(&results));
    Ok(())
}
