"""The command line: parse, call, print.

Exit codes: 0 all went well, 1 ``check`` found problems, 2 wrong usage or configuration,
3 a file or a series is not usable.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xylochron import config, formats
from xylochron.chronology import build_chronology
from xylochron.crossdate import batch_crossdate, segment_check
from xylochron.detrend import detrend
from xylochron.errors import XylochronError
from xylochron.series import Series


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        settings = config.load(arguments.config)
        return arguments.run(arguments, settings)
    except XylochronError as error:
        print(f"xylochron: {error}", file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="xylochron")
    parser.add_argument("--config", type=Path, help="read this file and no other")
    commands = parser.add_subparsers(required=True)

    info = commands.add_parser("info", help="ids, dates, units and gaps of a file")
    info.add_argument("file", type=Path)
    info.set_defaults(run=_info)

    convert = commands.add_parser("convert", help="write a file in another format")
    convert.add_argument("source", type=Path)
    convert.add_argument("target", type=Path)
    convert.add_argument("--units", choices=["1/100mm", "1/1000mm"])
    convert.set_defaults(run=_convert)

    cross = commands.add_parser("crossdate", help="find samples on masters")
    cross.add_argument("sample", type=Path)
    cross.add_argument("master", type=Path, nargs="+")
    cross.add_argument("--min-overlap", type=int)
    cross.add_argument("--workers", type=int)
    cross.set_defaults(run=_crossdate)

    check = commands.add_parser("check", help="flag segments of dated series")
    check.add_argument("file", type=Path)
    check.add_argument("--master", type=Path, required=True)
    check.set_defaults(run=_check)

    chron = commands.add_parser("chron", help="build a chronology")
    chron.add_argument("file", type=Path)
    chron.add_argument("--min-depth", type=int)
    chron.set_defaults(run=_chron)

    listing = commands.add_parser("formats", help="list the registered formats")
    listing.set_defaults(run=_formats)

    show = commands.add_parser("config", help="print the settings in force")
    show.add_argument("action", choices=["show"])
    show.add_argument("--origin", action="store_true", help="and where each came from")
    show.set_defaults(run=_config)
    return parser


def _read(path: Path, settings: config.Settings) -> list[Series]:
    values = settings["read"]
    options: dict[str, Any] = {}
    if path.suffix.lower() in (".rwl", ".tuc"):
        options = {"units": values["units"].value or None}
        options["wide_years"] = values["wide_years"].value
    return formats.read(path, encoding=values["encoding"].value or None, **options)


def _info(arguments: argparse.Namespace, settings: config.Settings) -> int:
    era = settings["output"]["era"].value
    for one in _read(arguments.file, settings):
        if one.is_floating:
            span = "floating"
        else:
            span = f"{label(one.last_year - len(one) + 1, era)}–{label(one.last_year, era)}"
        units = one.meta.get("units") or one.meta.get("Unit", "-")
        absent, gaps = one.widths.count(0), one.widths.count(None)
        print(f"{one.id:<10}{span:<22}{units:<10} absent {absent:>3}  gaps {gaps:>3}")
    return 0


def _convert(arguments: argparse.Namespace, settings: config.Settings) -> int:
    options = {"units": arguments.units} if arguments.units else {}
    formats.write(_read(arguments.source, settings), arguments.target, **options)
    return 0


def _crossdate(arguments: argparse.Namespace, settings: config.Settings) -> int:
    values = settings["crossdate"]
    masters = [one for path in arguments.master for one in _read(path, settings)]
    matches = batch_crossdate(
        _read(arguments.sample, settings),
        masters,
        workers=arguments.workers or values["workers"].value,
        top=values["top"].value,
        min_overlap=arguments.min_overlap or values["min_overlap"].value,
    )
    for match in matches:
        print(
            f"{match.sample} {match.master} {match.first_year} {match.last_year} "
            f"n={match.overlap} t_bp={match.t_bp:.1f} t_h={match.t_h:.1f} glk={match.glk:.0f}"
        )
    if not matches:
        print("no position has enough common rings; see min_overlap", file=sys.stderr)
    return 0


def _check(arguments: argparse.Namespace, settings: config.Settings) -> int:
    master = _read(arguments.master, settings)[0]
    found = 0
    for one in _read(arguments.file, settings):
        for flag in segment_check(one, master):
            found += 1
            print(f"{one.id} {flag.start}-{flag.end} {flag.flag} r={flag.r:.2f} {flag.shift:+d}")
    return 1 if found else 0


def _chron(arguments: argparse.Namespace, settings: config.Settings) -> int:
    trend = {key: setting.value for key, setting in settings["detrend"].items()}
    build = {key: setting.value for key, setting in settings["chronology"].items()}
    if arguments.min_depth is not None:
        build["min_depth"] = arguments.min_depth
    detrended = [detrend(one, **trend) for one in _read(arguments.file, settings)]
    chronology = build_chronology(detrended, name=arguments.file.stem, **build)
    decimals = settings["output"]["decimals"].value
    for offset, (value, depth) in enumerate(
        zip(chronology.values, chronology.depth, strict=True)
    ):
        if value is not None:
            print(f"{chronology.first_year + offset} {value:.{decimals}f} {depth}")
    return 0


def _formats(arguments: argparse.Namespace, settings: config.Settings) -> int:
    for name, fmt in formats.registered().items():
        modes = "read, write" if fmt.write else "read"
        print(f"{name:<12}{' '.join(fmt.suffixes):<14}{modes}")
    return 0


def _config(arguments: argparse.Namespace, settings: config.Settings) -> int:
    for section, keys in settings.items():
        for key, setting in keys.items():
            origin = f"    # {setting.origin}" if arguments.origin else ""
            print(f"{section}.{key} = {setting.value!r}{origin}")
    return 0


def label(year: int, era: str) -> str:
    """A year for people: astronomical as it is, or with BC and no year 0."""
    if era == "historical" and year <= 0:
        return f"{1 - year} BC"
    return str(year)


if __name__ == "__main__":
    sys.exit(main())
