//! The scripts of plots with curves.

use std::fmt::Write as _;

use super::cache::Point;
use super::growth::Window;
use super::memory::MB;
use crate::bench::plot::STYLE;

/// Rates are on the left, memory is on the right.
const AXES: &str = "\
set ylabel \"requests/s\" noenhanced
set y2label \"memory, MB\" noenhanced
set y2range [0:*]
set format y \"%'.10g\"
set format y2 \"%'.10g\"
set key outside top center horizontal noenhanced
set xtics nomirror
set y2tics nomirror
set border 11
";

/// The script for creates and memory over the number of plants.
pub(super) fn growth(windows: &[Window]) -> anyhow::Result<String> {
    let mut script = format!(
        "{STYLE}{AXES}set title \"Creates and memory as a store grows\" noenhanced\n\
         set xlabel \"million plants\" noenhanced\n\
         set xrange [0:*]\n\
         $windows << END\n"
    );
    for Window { plants, memory, creates, .. } in windows {
        let millions = *plants as f64 / 1_000_000.0;
        let resident_mb = memory.resident_bytes as f64 / MB;
        writeln!(script, "{millions:.3} {:.0} {resident_mb:.1}", creates.requests_per_s())?;
    }
    script.push_str(
        "END\n\
         plot $windows using 1:2 axes x1y1 with lines linewidth 2 title \"creates/s\", \
         $windows using 1:3 axes x1y2 with lines linewidth 2 title \"memory, MB\"\n",
    );
    Ok(script)
}

/// The script for creates, reads and memory over the size of the cache.
pub(super) fn cache(points: &[Point]) -> anyhow::Result<String> {
    let mut script = format!(
        "{STYLE}{AXES}set title \"What memory for the cache buys\" noenhanced\n\
         set xlabel \"--cache-mb\" noenhanced\n\
         set logscale x 2\n\
         set xrange [12:700]\n\
         $points << END\n"
    );
    for point in points {
        let resident_mb = point.memory.resident_bytes as f64 / MB;
        writeln!(
            script,
            "{} {:.0} {:.0} {resident_mb:.1}",
            point.cache_mb,
            point.creates_per_s(),
            point.reads.requests_per_s()
        )?;
    }
    script.push_str(
        "END\n\
         plot $points using 1:2:xtic(1) axes x1y1 with linespoints linewidth 2 pointtype 7 title \"creates/s\", \
         $points using 1:3 axes x1y1 with linespoints linewidth 2 pointtype 7 title \"reads by id/s\", \
         $points using 1:4 axes x1y2 with linespoints linewidth 2 pointtype 5 title \"memory, MB\"\n",
    );
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::super::memory::Memory;
    use super::super::store::Start;
    use super::*;
    use crate::bench::wrk::tests::outcome;

    const MEMORY: Memory = Memory { resident_bytes: 400_000_000, peak_bytes: 500_000_000 };

    #[test]
    fn each_window_is_a_line_with_millions_of_plants_and_of_bytes() {
        let window =
            Window { plants: 1_500_000, disk_bytes: 1, memory: MEMORY, creates: outcome(30_000) };
        let script = growth(&[window.clone(), Window { plants: 2_000_000, ..window }]).unwrap();
        let data = "$windows << END\n1.500 30000 400.0\n2.000 30000 400.0\nEND\n";
        assert!(script.contains(data), "{script}");
    }

    #[test]
    fn each_size_of_the_cache_is_a_line() {
        let point = Point {
            cache_mb: 64,
            start: Start { plants: 1, ready_s: 1.0, memory: MEMORY },
            creates: vec![outcome(30_000), outcome(20_000)],
            reads: outcome(80_000),
            memory: MEMORY,
        };
        let script = cache(&[point]).unwrap();
        assert!(script.contains("$points << END\n64 25000 80000 400.0\nEND\n"), "{script}");
    }
}
