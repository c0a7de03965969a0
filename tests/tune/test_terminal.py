# SPDX-License-Identifier: MIT
"""The progress bar of switchyard tune.   test_terminal.py TOOL KERNELS FOLDER

Needs a pseudo-terminal; skipped where none can be opened, for example where /dev/pts is not mounted.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import cases
from cases import check

TOOL, KERNELS, FOLDER = sys.argv[1:]
WIDTH = 120  # of the terminal


def show(master, slave, command):
    """What a command writes to the terminal."""
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=slave) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        process.wait()
    os.close(master)
    return shown.decode()


def test_bar():
    # The bar is drawn at most ten times a second, so one variant is slow.
    root = cases.make_root(os.path.join(FOLDER, "bar"), KERNELS, {name: name for name in ("off", "slow", "right")})
    text = show(
        *TERMINAL,
        [
            TOOL,
            "--root",
            root,
            *"tune softmax dtype=f32 rows=1..6+1 columns=16 --drift 90% -o".split(),
            os.path.join(root, "bar.json"),
            *"--confidence 0.1% --samples 40 --devices host".split(),
        ],
    )
    check(re.search(r"\r\x1b\[K\[#+\.+\] \d/6, 1 failure, .* left", text), f"no bar: {text!r}")
    check(re.search(r"\| best slow \d+ us, dtype=f32", text), f"the bar does not name the best variant so far: {text!r}")
    check(text.rstrip("\n").endswith("\x1b[K"), f"the bar is not erased: {text!r}")
    check(
        all(len(re.sub(r"\x1b\[K", "", line)) < WIDTH for line in re.split(r"[\r\n]", text) if line.startswith("\x1b[K[")),
        "the bar is wider than the terminal",
    )


if __name__ == "__main__":
    try:
        TERMINAL = pty.openpty()
    except OSError as problem:
        print(f"skipped: no pseudo-terminal: {problem}")
        sys.exit(77)
    sys.exit(cases.run_all(globals(), FOLDER))
