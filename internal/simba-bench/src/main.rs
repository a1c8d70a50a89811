//! Measures what the design promises, as ratios to floors in interleaved runs, and writes the table to
//! `docs/benchmarks.md`. Absolute times of this or any machine mean little; ratios and counts are what is kept.

mod alloc;
mod client;
mod clock;
mod engine;
mod processes;
mod servers;
mod sqlite;
mod table;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, url] = arguments.as_slice()
        && word == "node"
    {
        return processes::node(url);
    }
    let mut rows = Vec::new();
    engine::memory(&mut rows);
    engine::validity(&mut rows);
    client::term_reads(&mut rows)?;
    engine::throughput(&mut rows);
    sqlite::all(&mut rows)?;
    servers::all(&mut rows)?;
    processes::all(&mut rows)?;
    let table = table::render(&rows);
    #[expect(clippy::print_stdout, reason = "the table is what the program is for")]
    {
        println!("{table}");
    }
    let text = format!(
        "# Benchmarks\n\nWritten by `cargo xtask bench`: medians of interleaved pairs on one machine of 2 cores, as \
         ratios to a floor measured in the same run, or as counts.\n\n{table}"
    );
    std::fs::write("docs/benchmarks.md", text)?;
    Ok(())
}
