"""``bench.toml``: reading it, and making it from the INI file of version 1."""

import configparser
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from xylochron_bench.auth import Token
from xylochron_bench.calibration import load_scale
from xylochron_bench.encoder import EncoderSettings


class SettingsError(Exception):
    """A file that cannot be used; the message names the key."""


@dataclass(frozen=True)
class ServerSettings:
    """The ``[server]`` section."""

    host: str = "127.0.0.1"
    port: int = 8474
    base_path: str = ""
    """Path under which a reverse proxy shows the server, as ``/bench``."""
    allowed_origins: tuple[str, ...] = ()
    ping_interval_s: float = 30.0
    """How often the server pings a WebSocket."""
    state_dir: Path = Path("/var/lib/xylochron-bench")


@dataclass(frozen=True)
class SerialSettings:
    """The ``[serial]`` section; ``simulated`` instead of a device needs no bench."""

    device: str = "/dev/ttyUSB0"
    baud: int = 9600
    parity: str = "N"


@dataclass(frozen=True)
class Settings:
    """The whole file."""

    server: ServerSettings = field(default_factory=ServerSettings)
    serial: SerialSettings = field(default_factory=SerialSettings)
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    tokens: tuple[Token, ...] = ()


def load(path: Path) -> Settings:
    """Read ``bench.toml``; the scale comes from ``calibration.json``, never from here.

    Raises:
        SettingsError: a key is unknown, or ``scale`` stands in the file.
    """
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    if "scale" in data.get("encoder", {}):
        raise SettingsError("encoder.scale is written by calibrate; remove it from bench.toml")
    server = dict(data.get("server", {}))
    if "state_dir" in server:
        server["state_dir"] = Path(server["state_dir"])
    if "allowed_origins" in server:
        server["allowed_origins"] = tuple(server["allowed_origins"])
    try:
        where = ServerSettings(**server)
        return Settings(
            where,
            SerialSettings(**data.get("serial", {})),
            EncoderSettings(scale=load_scale(where.state_dir), **data.get("encoder", {})),
            tuple(Token(**token) for token in data.get("tokens", [])),
        )
    except TypeError as error:
        raise SettingsError(f"{path.name}: {error}") from error


def migrate_ini(path: Path) -> str:
    """Turn a ``bench.ini`` of version 1 into the text of a ``bench.toml``.

    ``mm_per_pulse`` becomes ``counts_per_mm``, ``reverse = yes`` becomes
    ``direction = -1``; the port is not taken over, because 8080 was only the default.
    """
    old = configparser.ConfigParser()
    old.read(path, encoding="utf-8")
    serial, bench = old["serial"], old["bench"]
    counts = round(1 / bench.getfloat("mm_per_pulse", 0.001))
    direction = -1 if bench.getboolean("reverse", False) else 1
    lines = [
        "[serial]",
        f'device = "{serial.get("port", "/dev/ttyUSB0")}"',
        f"baud = {serial.getint('baudrate', 9600)}",
        "",
        "[encoder]",
        f"counts_per_mm = {counts}",
        f"direction = {direction}",
        f"debounce_ms = {bench.getint('switch_delay', 120)}",
    ]
    if "password" in bench:
        secret = bench["password"]
        lines += ["", "[[tokens]]", 'name = "migrated"', f'secret = "{secret}"', 'role = "measure"']
    return "\n".join(lines) + "\n"
