# SPDX-License-Identifier: MIT
"""Makes the data wheel of a GPU architecture from kernels that were built.

    python kernel_wheel.py --target cuda-sm_90a --data build/share/switchyard --out dist

It holds kernels/<operator>/<target> and an entry point in the group `switchyard.roots`. Tables are the wheel
`switchyard`'s: they name kernels by hash, so that a kernel newer than its table is used and reported as stale.
"""

import argparse
import base64
import csv
import hashlib
import io
import re
import sys
import zipfile
from pathlib import Path

_INIT = '''"""Kernels of Switchyard for {target}."""

from pathlib import Path


def roots() -> list[str]:
    """The folder of kernels, for the entry point group switchyard.roots."""
    return [str(Path(__file__).absolute().parent / "share" / "switchyard")]
'''

_METADATA = """Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: Kernels of Switchyard for {target}
License-Expression: MIT
Requires-Python: >=3.10
"""

_WHEEL = """Wheel-Version: 1.0
Generator: switchyard kernel_wheel
Root-Is-Purelib: true
Tag: py3-none-any
"""


def _files(data: Path, target: str) -> list[Path]:
    """The manifests and blobs of a target. Raises SystemExit where there are none."""
    found = sorted(p for p in data.glob(f"kernels/*/{target}/*") if p.is_file() and p.suffix != ".partial")
    if not any(file.suffix == ".json" for file in found):
        sys.exit(f"kernel_wheel: no manifests of {target} in {data}/kernels")
    return found


def write(target: str, data: Path, out: Path, version: str) -> Path:
    """Writes the wheel and returns its path. `data` has the layout of share/switchyard."""
    name = "switchyard-kernels-" + re.sub(r"[^a-z0-9]+", "", target.split("-", 1)[0]) + "-" + re.sub(
        r"[^a-z0-9]+", "", target.split("-", 1)[1])  # fmt: skip
    package = name.replace("-", "_")
    info = f"{package}-{version}.dist-info"
    files = _files(data, target)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{package}-{version}-py3-none-any.whl"
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:

        def write_entry(inside: str, content: bytes) -> None:
            entry = zipfile.ZipInfo(inside, (2026, 1, 1, 0, 0, 0))  # the same bytes from the same kernels
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, content)

        def add(inside: str, content: bytes) -> None:
            write_entry(inside, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            rows.writerow([inside, f"sha256={digest}", len(content)])

        add(f"{package}/__init__.py", _INIT.format(target=target).encode())
        for file in files:
            add(f"{package}/share/switchyard/{file.relative_to(data)}", file.read_bytes())
        add(f"{info}/METADATA", _METADATA.format(name=name, version=version, target=target).encode())
        add(f"{info}/WHEEL", _WHEEL.encode())
        add(f"{info}/entry_points.txt", f"[switchyard.roots]\n{package} = {package}:roots\n".encode())
        rows.writerow([f"{info}/RECORD", "", ""])
        write_entry(f"{info}/RECORD", record.getvalue().encode())
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", required=True, help="a kernel target, such as cuda-sm_90a")
    parser.add_argument("--data", type=Path, required=True, help="the folder share/switchyard of a build")
    parser.add_argument("--out", type=Path, default=Path("dist"))
    parser.add_argument("--version", default="0.1.0")
    given = parser.parse_args()
    path = write(given.target, given.data, given.out, given.version)
    print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
