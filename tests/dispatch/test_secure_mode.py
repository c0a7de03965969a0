# SPDX-License-Identifier: MIT
"""Checks that a set-uid program does not search beside itself, where who starts it may have put files.

  test_secure_mode.py PRINT_ROOTS

Needs root, to make a program set-uid and to start it as somebody else: skipped otherwise.
"""

import os
import shutil
import subprocess
import sys
import tempfile

NOBODY = 65534


def roots(program, **how):
    return subprocess.run([program], check=True, text=True, stdout=subprocess.PIPE, **how).stdout.splitlines()


def main():
    if os.geteuid() != 0:
        print("skipped: needs root to make a program set-uid")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        os.mkdir(f"{folder}/bin")
        os.chmod(f"{folder}/bin", 0o755)
        program = shutil.copy(sys.argv[1], f"{folder}/bin/print_roots")
        os.chmod(program, 0o755)
        beside = os.path.realpath(f"{folder}/share/switchyard")
        if beside not in roots(program):
            print(f"a plain program does not search {beside}")
            return 1
        os.chmod(program, 0o4755)
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            print("skipped: the temporary folder's file system ignores set-uid")
            return 77
        found = roots(program, user=NOBODY, group=NOBODY, extra_groups=[])
        print("\n".join(found), "2 cases", sep="\n")
        return int(beside in found or len(found) != 2)


if __name__ == "__main__":
    sys.exit(main())
