"""Build an oak master from a folder of .rwl files and date a beam on it.

    python oak_master.py data/eiche/*.rwl --beam data/balken_07.fh
"""

import argparse
from pathlib import Path

import xylochron as xc


def main() -> None:
    """Read, detrend, average, crossdate, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cores", nargs="+", type=Path)
    parser.add_argument("--beam", type=Path, required=True)
    arguments = parser.parse_args()

    cores = [series.fill_gaps() for path in arguments.cores for series in xc.read(path)]
    # Old oaks keep a long age trend: two thirds of the length leaves the climate in.
    indices = [xc.detrend(core, stiffness=0.67) for core in cores if not core.is_floating]
    master = xc.build_chronology(indices, name="Eiche Südhang", min_depth=3)
    print(f"{master.name}: {len(cores)} Kerne, ab {master.as_series().first_year}")

    (beam,) = xc.read(arguments.beam)
    matches = xc.crossdate(beam, master.as_series(), min_overlap=60, top=3)
    for match in matches:
        print(f"{match.last_year}  t_BP {match.t_bp:4.1f}  t_H {match.t_h:4.1f}  Glk {match.glk:.0f} %")

    best = matches[0]
    dated = beam.shift_to(best.first_year)
    if dated.bark != "waney_edge":
        print(f"no waney edge: felled after {dated.last_year}, sapwood rings {dated.sapwood_rings}")
    xc.write([dated], arguments.beam.with_suffix(".rwl"))


# The guard also lets batch_crossdate(workers=…) be used from here.
if __name__ == "__main__":
    main()
