"""The command line of the bench: serve, calibrate, recover, migrate-config."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from xylochron_bench import calibration, session, settings


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success, 1 a refusal with one line on stderr."""
    parser = argparse.ArgumentParser(prog="xylochron-bench")
    parser.add_argument("--config", type=Path, default=Path("/etc/xylochron-bench/bench.toml"))
    commands = parser.add_subparsers(required=True)

    serve = commands.add_parser("serve", help="run the server (needs xylochron-bench[http])")
    serve.set_defaults(run=_serve)

    calibrate = commands.add_parser("calibrate", help="scale factor from passes over a block")
    calibrate.add_argument("--reference-um", type=int, required=True)
    calibrate.add_argument("--passes", type=int, default=5)
    calibrate.set_defaults(run=_calibrate)

    recover = commands.add_parser("recover", help="print a session from its journal")
    recover.add_argument("session")
    recover.set_defaults(run=_recover)

    migrate = commands.add_parser("migrate-config", help="bench.ini of version 1 to TOML")
    migrate.add_argument("ini", type=Path)
    migrate.set_defaults(run=_migrate)

    arguments = parser.parse_args(argv)
    try:
        return arguments.run(arguments)
    except (calibration.CalibrationError, session.SessionError, settings.SettingsError) as error:
        print(f"xylochron-bench: {error}", file=sys.stderr)
        return 1


def _serve(arguments: argparse.Namespace) -> int:
    from xylochron_bench_http import run

    return run(settings.load(arguments.config))


def _calibrate(arguments: argparse.Namespace) -> int:
    """Ask for each pass; the numbers are typed or piped in, one a line."""
    config = settings.load(arguments.config)
    print(f"zero at one face of the block, move to the other, {arguments.passes} times")
    lengths = [int(sys.stdin.readline()) for _ in range(arguments.passes)]
    result = calibration.calibrate(
        lengths, arguments.reference_um, stage_temp_c=config.encoder.stage_temp_c
    )
    target = calibration.save(result, config.server.state_dir)
    print(f"scale {result.scale} written to {target}; restart the server to use it")
    return 0


def _recover(arguments: argparse.Namespace) -> int:
    directory = settings.load(arguments.config).server.state_dir
    one = session.recover(directory, arguments.session)
    widths, first = one.export_widths()
    print(json.dumps({"id": one.id, "first_year": first, "widths_um": widths}))
    return 0


def _migrate(arguments: argparse.Namespace) -> int:
    print(settings.migrate_ini(arguments.ini), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
