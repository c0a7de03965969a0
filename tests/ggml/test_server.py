# SPDX-License-Identifier: MIT
"""llama-server with this backend answers a chat, and generates faster from the moment at which a better table is dropped in.

    test_server.py SERVER BACKEND MODEL

SERVER: the program llama-server of a llama.cpp built with GGML_BACKEND_DL. BACKEND: libggml-switchyard.so, with its kernels
in ../share/switchyard. MODEL: a GGUF file of a model that knows the capital of France.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SERVER, BACKEND, MODEL = sys.argv[1:]
SLOW = "baseline_dot_n32"  # SSE2 alone
LIMIT = 120  # seconds


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def products(log):
    """The variants that were chosen for products of one token, in order."""
    return re.findall(r"^switchyard: matmul_quantized \{[^}]*\brows=1\b[^}]*\}[^:]*: (\w+)", log.read_text(), re.MULTILINE)


class Server:
    def __init__(self, folder, overlay):
        self.port = free_port()
        self.log, self.choices = folder / "server.log", folder / "choices.log"
        self.choices.touch()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHYARD_")}
        more = {
            "GGML_BACKEND_PATH": BACKEND,
            "SWITCHYARD_TABLES": str(overlay),
            "SWITCHYARD_DEBUG": "1",
            "SWITCHYARD_DEBUG_FILE": str(self.choices),
        }
        words = ["-m", MODEL, "-dev", "SwitchyardCPU", "-ngl", "99", "-c", "8192", "-np", "1", "--port", str(self.port)]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([SERVER, *words], stdout=log, stderr=log, env={**kept, **more})

    def request(self, path, body=None, wait=LIMIT):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=wait)
        text = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, text, {"Content-Type": "application/json"})
        return connection.getresponse()

    def wait_until_ready(self):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            with contextlib.suppress(OSError):
                if self.request("/health", wait=5).status == 200:
                    return
            time.sleep(0.05)
        raise AssertionError("not ready: " + self.log.read_text()[-4000:])

    def end(self):
        self.process.terminate()
        return self.process.wait(timeout=LIMIT)


def write(table, *pinned):
    """Renamed over the old one, as a table is shipped."""
    text = {
        "schema": "switchyard.table/1",
        "operator": "matmul_quantized",
        "device": {"backend": "host"},
        "groups": [],
        "pin": [{"variant": variant, "reason": "a test"} for variant in pinned],
    }
    fresh = table.with_suffix(".new")
    fresh.write_text(json.dumps(text))
    fresh.rename(table)


def check_chat(server):
    question = [{"role": "user", "content": "What is the capital of France?"}]
    answer = server.request("/v1/chat/completions", {"messages": question, "temperature": 0, "max_tokens": 32})
    body = json.loads(answer.read())
    assert answer.status == 200 and "Paris" in body["choices"][0]["message"]["content"], body
    assert body["usage"]["completion_tokens"] > 0, body


def tokens(response):
    """The tokens' texts, as the server sends them."""
    for line in response:
        if line.startswith(b"data: {"):
            yield json.loads(line[len(b"data: ") :])["content"]


def check_replaced_table(server, table):
    """Tokens that were asked for in one request: the first with slow kernels, the rest with those of the new table."""
    before, after = [], []
    last, replaced = time.monotonic(), False
    wanted = {"prompt": "Once upon a time", "n_predict": 4000, "stream": True, "temperature": 0, "ignore_eos": True}
    response = server.request("/completion", wanted)
    for _ in tokens(response):
        now = time.monotonic()
        is_new = replaced and products(server.choices)[-1] != SLOW
        (after if is_new else before).append(now - last)
        if len(before) == 40 and not replaced:
            assert set(products(server.choices)) == {SLOW}, products(server.choices)
            write(table)
            replaced = True
        if len(after) == 60:
            break
        last = time.monotonic()
    response.close()
    chosen = products(server.choices)
    assert len(after) == 60, (len(before), chosen)
    slow, fast = statistics.median(before[8:40]), statistics.median(after[8:])
    print(f"{1 / slow:.0f} tokens/s with {SLOW}, {1 / fast:.0f} with {', '.join(sorted(set(chosen) - {SLOW}))}")
    assert fast < slow, (fast, slow)


def main():
    if "avx2" not in pathlib.Path("/proc/cpuinfo").read_text():
        print("this CPU has no AVX2: no kernels are faster than those for every CPU")
        return 77
    with tempfile.TemporaryDirectory() as name:
        table = pathlib.Path(name) / "overlay.json"
        write(table, SLOW)
        server = Server(pathlib.Path(name), table)
        try:
            server.wait_until_ready()
            check_chat(server)
            check_replaced_table(server, table)
        finally:
            status = server.end()
        assert status == 0, (status, server.log.read_text()[-4000:])
    print("3 checks, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
