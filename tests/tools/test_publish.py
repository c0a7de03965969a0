# SPDX-License-Identifier: MIT
"""switchyard publish, verify and rollback, and what a killed writer, a full disk and a wrong clock leave.

test_publish.py PROGRAM FOLDER
"""

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

from invented import Checks

TABLE = {
    "schema": "switchyard.table/1",
    "operator": "softmax",
    "device": {"backend": "host", "arch": "x86_64", "name": "a CPU"},
    "groups": [],
}


class Store:
    def __init__(self, checks, program, folder):
        self.checks, self.program, self.folder = checks, program, folder
        self.root, self.store = os.path.join(folder, "root"), os.path.join(folder, "store")
        self.table = os.path.join(self.root, "tables", "softmax", "a.json")
        os.makedirs(os.path.dirname(self.table))
        self.set(1)

    def set(self, number, size=0):
        with open(self.table, "w", encoding="utf-8") as file:
            json.dump({**TABLE, "_note": f"{number}" + "x" * size}, file)

    def run(self, *arguments, **more):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SWITCHYARD_")}
        return subprocess.run(
            [self.program, *arguments],
            env={**environment, **more.pop("env", {})},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=False,
            **more,
        )

    def expect(self, status, text, *arguments, **more):
        done = self.run(*arguments, **more)
        self.checks.equal(done.returncode, status, f"{arguments}: exit status; {done.stdout}")
        self.checks.equal(text in done.stdout, True, f"{arguments}: '{text}' in '{done.stdout}'")
        return done.stdout

    def publish(self, text, *arguments, status=0, **more):
        return self.expect(status, text, "publish", self.root, self.store, *arguments, **more)

    def verify(self, text, *arguments, status=0):
        return self.expect(status, text, "verify", self.store, *arguments)

    def rollback(self, text, *arguments, status=0):
        return self.expect(status, text, "rollback", self.store, *arguments)

    def read(self, name="tables/softmax/a.json"):
        with open(os.path.join(self.store, "current", name), encoding="utf-8") as file:
            return json.load(file)

    def names(self, below="versions"):
        return sorted(os.listdir(os.path.join(self.store, below)))


def releases(checks, store):
    """Serial numbers, provenance, and the way back."""
    store.publish("current: 1\n")
    table = store.read()
    checks.equal(table["_note"], "1", "what was published")
    checks.equal(table["release"]["serial"], 1, "the table's serial number")
    checks.equal(table["release"]["tool"].startswith("switchyard "), True, "its tool")
    checks.equal(store.read("release.json")["serial"], 1, "the release's serial number")
    store.set(2)
    store.publish("current: 2 (before: 1)\n")
    checks.equal(store.read()["_note"], "2", "the newer content")
    store.verify("2 releases, current: 2\n")
    store.rollback("current: 1 (before: 2)\n")
    checks.equal(store.read()["_note"], "1", "the older content")
    store.rollback("has no release before the current one (1)", status=2)
    store.rollback("current: 2 (before: 1)\n", "--to", "2")
    store.rollback("has no release 7", "--to", "7", status=2)
    store.rollback("current: 1")
    store.set(3)
    store.publish("current: 3 (before: 1)\n")  # no number is given twice
    checks.equal(store.names(), ["00000001", "00000002", "00000003"], "releases")
    for i in range(4, 10):
        store.set(i)
        store.publish(f"current: {i} ", "--keep", "3")
    checks.equal(store.names(), ["00000007", "00000008", "00000009"], "kept releases")
    store.publish("--keep: expected at least 2", "--keep", "1", status=64)

    # A published table is published again: its stamp is replaced, and nothing else changes.
    shutil.copy(os.path.join(store.store, "current", "tables/softmax/a.json"), store.table)
    store.publish("current: 10")
    checks.equal(store.read()["release"]["serial"], 10, "the newer stamp")
    checks.equal({**store.read(), "release": 0}, {**TABLE, "_note": "9", "release": 0}, "the rest of the table")
    with open(store.table, "w", encoding="utf-8") as file:
        json.dump({**TABLE, "release": {"serial": 77}}, file)
    store.publish("current: 11")
    checks.equal(store.read()["release"]["serial"], 11, "a stamp that stands elsewhere")


def provenance(checks, store):
    def git(*arguments):
        subprocess.run(["git", "-C", store.root, *arguments], check=True, stdout=subprocess.DEVNULL)

    git("init", "-q")
    git("add", "-A")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "a")
    store.publish("current: 1\n", env={"SOURCE_DATE_EPOCH": "0"})
    release = store.read()["release"]
    head = subprocess.run(["git", "-C", store.root, "rev-parse", "HEAD"], check=True, stdout=subprocess.PIPE, text=True)
    checks.equal(release["commit"], head.stdout.strip(), "the commit")
    checks.equal(release["clean"], True, "a clean tree")
    checks.equal(release["date"], "1970-01-01T00:00:00Z", "the date")
    store.set(2)
    # The clock runs backwards: numbers do not.
    store.publish("current: 2 (before: 1)\n", env={"SOURCE_DATE_EPOCH": "-86400"})
    checks.equal(store.read()["release"]["clean"], False, "a changed tree")
    checks.equal(store.read()["release"]["date"], "1969-12-31T00:00:00Z", "an earlier date")
    store.rollback("current: 1 (before: 2)\n")


def refusals(checks, store):
    store.expect(2, "is no store of releases", "verify", os.path.join(store.folder, "nowhere"))
    store.expect(2, "is no store of releases", "rollback", os.path.join(store.folder, "nowhere"))
    store.publish("current: 1\n")
    with open(store.table, "w", encoding="utf-8") as file:
        file.write('{"schema": "switchyard.table/1", ')
    store.publish("a.json: is not JSON", status=2)
    os.remove(store.table)
    store.publish("there is nothing to publish", status=2)
    checks.equal(store.read()["_note"], "1", "what was published before")
    checks.equal(store.names(), ["00000001"], "releases after refusals")
    store.verify("1 releases, current: 1")


def damage(checks, store):
    store.publish("current: 1\n")
    store.set(2)
    store.publish("current: 2")
    path = os.path.join(store.store, "versions/00000001/tables/softmax/a.json")
    with open(path, "r+", encoding="utf-8") as file:
        file.write("{ ")
    store.verify("a.json: is not what was published: its SHA-256 differs", status=1)
    store.rollback("is damaged, so it is not made current", status=2)
    checks.equal(store.read()["_note"], "2", "the current release")
    os.rename(path, path + "x")
    found = store.verify("a.json: is missing", status=1)
    checks.equal("a.jsonx: was not published" in found, True, found)
    os.remove(os.path.join(store.store, "current"))
    store.verify("no release is current", status=1)
    store.publish("current: 3\n")
    with open(os.path.join(store.store, "current/release.json"), "w", encoding="utf-8") as file:
        file.write("[]")
    store.verify("release.json: is not of switchyard.release/1", status=1)


def signatures(checks, store):
    def openssl(*arguments):
        return subprocess.run(["openssl", *arguments], cwd=store.folder, check=False, capture_output=True)

    key, public, other = (os.path.join(store.folder, name) for name in ("key.pem", "public.pem", "other.pem"))
    if (
        shutil.which("openssl") is None
        or "built without libcrypto" in store.run("publish", store.root, store.store, "--key", key).stdout
    ):
        print("no openssl: signatures are not tested")
        return
    for name in (key, other):
        openssl("genpkey", "-algorithm", "ed25519", "-out", name)
    openssl("pkey", "-in", key, "-pubout", "-out", public)
    rsa = os.path.join(store.folder, "rsa.pem")
    openssl("genpkey", "-algorithm", "rsa", "-out", rsa)
    store.publish("is no Ed25519 private key", "--key", rsa, status=2)
    store.publish("is no Ed25519 private key", "--key", public, status=2)
    store.publish("public.pem.no", "--key", public + ".no", status=2)
    store.publish("current: 1\n", "--key", key)
    store.verify("1 releases, current: 1", "--key", public)
    store.verify("its signature does not fit this key and content", "--key", other, status=1)
    table = os.path.join(store.store, "current/tables/softmax/a.json")
    done = openssl("pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", table, "-sigfile", table + ".sig")
    checks.equal(done.returncode, 0, f"openssl reads the signature: {done.stdout} {done.stderr}")
    store.set(2)
    store.publish("current: 2")
    store.verify("release.json: is not signed", "--key", public, status=1)
    store.rollback("current: 1", "--key", public)
    store.rollback("is damaged, so it is not made current", "--to", "2", "--key", public, status=2)
    # Someone who cannot sign changes a table and its hash.
    with open(table, "r+", encoding="utf-8") as file:
        file.write("{ ")
    store.verify("its SHA-256 differs", "--key", public, status=1)
    release = os.path.join(store.store, "current/release.json")
    with open(table, "rb") as file:
        fresh = hashlib.sha256(file.read()).hexdigest()
    with open(release, encoding="utf-8") as file:
        content = json.load(file)
    content["files"]["tables/softmax/a.json"] = fresh
    with open(release, "w", encoding="utf-8") as file:
        json.dump(content, file)
    store.verify("its signature does not fit", "--key", public, status=1)


def full_disk(checks, store):
    """Files may not grow beyond some bytes: as on a full disk, a write fails in the middle."""
    store.publish("current: 1\n")
    store.set(2, size=100_000)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    store.publish("a.json: cannot be written: File too large", status=2, preexec_fn=limit)
    checks.equal(store.read()["_note"], "1", "the current release of a full disk")
    checks.equal(store.names(), ["00000001"], "no part of a release stays")
    store.publish("current: 2 (before: 1)\n")


def killed(checks, store, seed):
    """Whatever the moment at which a writer is killed, what is current is whole."""
    # What it can leave, made by hand: a part, a link, a release that did not become current.
    store.publish("current: 1\n")
    versions = os.path.join(store.store, "versions")
    os.makedirs(os.path.join(versions, ".partial-1", "tables"))
    os.makedirs(os.path.join(versions, ".removed-1", "tables"))
    os.symlink("versions/00000009", os.path.join(store.store, ".current-1"))
    shutil.copytree(os.path.join(versions, "00000001"), os.path.join(versions, "00000002"))
    store.verify("is of another release", status=1)
    store.set(2)
    store.publish("current: 3 (before: 1)\n")
    checks.equal(store.names(), ["00000001", "00000002", "00000003"], "what was left is gone")
    checks.equal(".current-1" in store.names("."), False, "the link that was left is gone")
    shutil.rmtree(os.path.join(versions, "00000002"))

    choose = random.Random(seed)
    begin = time.monotonic()
    store.publish("current: 4")
    whole = time.monotonic() - begin
    deaths = 0
    for i in range(60):
        store.set(100 + i, size=200_000)
        child = subprocess.Popen([store.program, "publish", store.root, store.store], stdout=subprocess.DEVNULL)
        time.sleep(choose.uniform(0, 1.2 * whole))
        child.kill()
        deaths += child.wait() != 0
        note = int(store.read()["_note"].rstrip("x"))
        checks.equal(note in (2, *range(100, 101 + i)), True, f"what is current after a death: {note}")
        done = store.run("verify", store.store)
        checks.equal((done.returncode, done.stdout), (0, done.stdout), "verified after a death")
    checks.equal(deaths > 5, True, f"{deaths} of 60 writers were killed in time")
    store.set(999)
    store.publish("current: ")
    checks.equal(store.read()["_note"], "999", "a release after all deaths")
    checks.equal([name for name in store.names() if name.startswith(".")], [], "what deaths left")
    checks.equal([name for name in store.names(".") if name.startswith(".current")], [], "links that deaths left")


def together(checks, store):
    """Several writers at once: each gets a number of its own."""
    children = [
        subprocess.Popen([store.program, "publish", store.root, store.store, "--keep", "50"], stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    said = [child.communicate(timeout=300)[0] for child in children]
    numbers = sorted(int(line.split()[1]) for line in said)
    checks.equal(numbers, [1, 2, 3, 4, 5, 6], f"numbers of writers at the same time: {said}")
    store.verify("6 releases, current: 6")


def watched(checks, store):
    """The tool sees a release become current, and the way back, as an engine does."""
    store.publish("current: 1\n")
    metrics, root = os.path.join(store.folder, "a.prom"), os.path.join(store.store, "current")
    child = subprocess.Popen(
        [store.program, "--root", root, "watch", "softmax", "--interval", "0.05", "--metrics", metrics],
        stdout=subprocess.PIPE,
        text=True,
    )

    def wait_for(text):
        for _ in range(600):
            if os.path.exists(metrics):
                with open(metrics, encoding="utf-8") as file:
                    if text in file.read():
                        return
            time.sleep(0.05)
        checks.that(False, f"{text!r} never stood in the metrics")

    wait_for('switchyard_replacements_total{operator="softmax"} 0\n')
    store.set(2)
    store.publish("current: 2")
    wait_for('switchyard_replacements_total{operator="softmax"} 1\n')
    store.rollback("current: 1")
    wait_for('switchyard_replacements_total{operator="softmax"} 2\n')
    wait_for("switchyard_reloads_total 2\n")
    child.terminate()
    said = child.communicate(timeout=60)[0]
    checks.equal(said.count("changed: ") == 2 and "current/tables/softmax/a.json" in said, True, f"what it said: {said}")
    store.expect(64, "--interval: expected more than 0", "watch", "--interval", "0")
    store.expect(2, "a.prom: cannot be written", "watch", "softmax", "--metrics", "/no/such/folder/a.prom", "--times", "1")


def main():
    program, folder = sys.argv[1:3]
    seed = int(os.environ.get("SWITCHYARD_TEST_SEED", random.randrange(2**32)))
    print(f"SWITCHYARD_TEST_SEED={seed}")
    checks = Checks()
    shutil.rmtree(folder, ignore_errors=True)
    for case in (releases, provenance, refusals, damage, signatures, full_disk, together, watched):
        case(checks, Store(checks, program, os.path.join(folder, case.__name__)))
    killed(checks, Store(checks, program, os.path.join(folder, "killed")), seed)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
