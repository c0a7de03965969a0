# SPDX-License-Identifier: MIT
"""switchyard report: what it says, or how a browser shows it.   test_report.py PROGRAM FOLDER [browser]"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib

from invented import Checks, run
from invented_tables import Folder, install, table

WINNER = (0x00, 0x72, 0xB2)  # the colour of the variant that wins most


def pixels(path):
    """The colours of an 8-bit PNG without interlacing, as a set."""
    with open(path, "rb") as file:
        data = file.read()
    at, compressed, header = 8, b"", None
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            compressed += body
        at += 12 + length
    width, height, depth, kind, _, _, interlaced = header
    channels = {2: 3, 6: 4}[kind]
    assert depth == 8 and interlaced == 0, header
    raw, stride, found = zlib.decompress(compressed), width * channels, set()
    before = bytearray(stride)
    for y in range(height):
        method, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1 : (y + 1) * (stride + 1)])
        for x in range(stride):
            a = line[x - channels] if x >= channels else 0
            b, c = before[x], before[x - channels] if x >= channels else 0
            if method == 1:
                line[x] = (line[x] + a) & 255
            elif method == 2:
                line[x] = (line[x] + b) & 255
            elif method == 3:
                line[x] = (line[x] + (a + b) // 2) & 255
            elif method == 4:
                near = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
                line[x] = (line[x] + near) & 255
        found.update(tuple(line[i : i + 3]) for i in range(0, stride, channels))
        before = line
    return found


def browser():
    for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return [path, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    return None


def measured():
    content = table(
        {
            (rows, columns): {"wide": 2.0 + rows * columns / 1e6, "<narrow>": 1.5 + rows * columns / 1e5}
            for rows in (256, 512, 1024)
            for columns in (64, 128, 256, 512)
            if (rows, columns) != (512, 128)
        },
        operator="softmax",
        deny=[{"variant": "broken", "reason": "hangs & more"}],
        match={"rows": "log", "columns": "log"},
    )
    content["groups"][0]["axes"] = ["rows", "columns"]
    content["device"]["memory_bandwidth"] = 4.8e12
    return content


def test_page(program, folder, checks):
    one, html = folder.write("softmax.json", measured()), folder.name("report.html")
    status, out, problem = run(program, "--json", "report", one, "-o", html)
    checks.equal((status, problem), (0, ""), "report")
    found = json.loads(out)["tables"][0]
    checks.equal((found["operator"], found["rows"], found["groups"]), ("softmax", 11, 1), "report --json")
    checks.that(1 <= found["regret_mean"] <= found["regret_worst"] < 2, f"regret {found}")
    text = folder.read("report.html")
    checks.equal([url for url in re.findall(r"https?://[^\"' )]+", text) if "www.w3.org" not in url], [], "no network")
    checks.that("<script" not in text and "<link" not in text and "<img" not in text, "one file, without scripts")
    checks.contains(text, "&lt;narrow&gt;", "names are escaped")
    checks.contains(text, "hangs &amp; more", "denials")
    checks.equal(text.count('class="row"'), 11, "a cell a row")
    checks.equal(text.count('class="predicted"'), 1, "the cell without a row is predicted")
    for kind in ("heat-map", "roofline", "regret", "variants"):
        checks.equal(text.count(f'<svg class="{kind}"'), 1, f"the {kind} plot")


def test_costs(program, folder, checks):
    """Waves of 32 and of 128 rows: who knows them predicts each row from the others."""
    html = folder.name("waves.html")
    waves = table(
        {
            (rows, 64): {"fine": 0.3 * -(-rows // 32), "coarse": 1.0 * -(-rows // 128)}
            for rows in (96, 112, 128, 136, 160, 240, 256, 264)
        },
        operator="softmax",
        match={"rows": "log", "columns": "log"},
    )
    waves["groups"][0]["axes"] = ["rows", "columns"]
    waves = folder.write("waves.json", waves)
    root = install(folder, "softmax", {"fine": "ceil_div(rows, 32)", "coarse": "ceil_div(rows, 128)"})
    for words, known in (((), 0), (("--root", root), 2)):
        status, out, problem = run(program, "--json", *words, "report", waves, "-o", html)
        checks.equal((status, problem), (0, ""), "report: costs")
        found = json.loads(out)["tables"][0]
        checks.equal((found["variants"], found["variants_with_cost"]), (2, known), "report: costs")
        checks.equal(found["regret_worst"] == 1, known == 2, f"report: costs, regret {found}")
        checks.contains(folder.read("waves.html"), f"manifests state for {known} of its 2 variants", "report: costs")

    # A row of odd columns says nothing of a variant that could not serve it. Conditions on other axes say nothing of rows.
    odd = table(
        {(64, columns): {"any": 3.0} if columns % 8 else {"wide": 1.0, "any": 3.0} for columns in (255, 256, 257, 512)},
        operator="softmax",
        match={"rows": "log", "columns": "log"},
    )
    odd["groups"][0]["axes"] = ["rows", "columns"]
    odd = folder.write("odd.json", odd)
    costs = {"wide": "1", "any": "1"}
    for requires, worst in (({"wide": []}, 3), ({"wide": ["columns % 8 == 0", "alignment == 16"]}, 1)):
        shutil.rmtree(folder.name("softmax_root_with_conditions"), ignore_errors=True)
        root = install(folder, "softmax", costs, requires)
        status, out, problem = run(program, "--json", "--root", root, "report", odd, "-o", html)
        checks.equal((status, problem), (0, ""), "report: conditions")
        checks.equal(json.loads(out)["tables"][0]["regret_worst"], worst, f"report: conditions {requires}")

    status, _, problem = run(program, "report", folder.name("absent.json"), "-o", html)
    checks.equal(status, 2, "report: no table")
    checks.contains(problem, "absent.json: cannot be opened", "report: no table")


PAGE = {"light": (0xFF, 0xFF, 0xFF), "dark": (0x15, 0x18, 0x1D)}
WIDTHS = {"desk": 1200, "phone": 390}
TABLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tables")
# How wide the page is, its colours, and how many plots have text that is cut off.
PROBE = """<script>
const cut = [...document.querySelectorAll("svg text")].filter(text => {
  const box = text.getBoundingClientRect(), plot = text.ownerSVGElement.getBoundingClientRect();
  return box.left < plot.left - 1 || box.right > plot.right + 1;
});
const style = getComputedStyle(document.body);
document.title = [document.documentElement.scrollWidth, style.backgroundColor, style.color, cut.length].join("|");
</script></body>"""


def look(seen, scheme, width, *words):
    """What a browser of this width prints, on a device that prefers light or dark pages."""
    preferred = f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"
    return subprocess.run([*seen, preferred, f"--window-size={width},1400", *words], check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, timeout=120).stdout  # fmt: skip


def check_layout(checks, seen, folder, html, name):
    """No page is wider than its screen, and all text can be read."""
    probed = folder.name("probed.html")
    with open(html, encoding="utf-8") as page, open(probed, "w", encoding="utf-8") as file:
        file.write(page.read().replace("</body>", PROBE))
    for scheme, background in PAGE.items():
        for screen, width in WIDTHS.items():
            dom = look(seen, scheme, width, "--dump-dom", "file://" + os.path.abspath(probed))
            needed, page, text, cut = re.search("<title>(.*?)</title>", dom)[1].split("|")
            checks.that(int(needed) <= width, f"{name}, {scheme}, {screen}: the page is {needed} wide")
            checks.equal(page, f"rgb{background}", f"{name}, {scheme}, {screen}: the page's colour")
            brightness = [sum(map(int, re.findall(r"\d+", colour))) for colour in (page, text)]
            checks.that(abs(brightness[0] - brightness[1]) > 400, f"{name}, {scheme}: text in {text} on {page}")
            checks.equal(cut, "0", f"{name}, {scheme}, {screen}: texts of plots that are cut off")


def test_in_browser(program, folder, checks, seen):
    html, picture = folder.name("report.html"), folder.name("report.png")
    status, _, problem = run(program, "report", folder.write("softmax.json", measured()), "-o", html)
    checks.equal((status, problem), (0, ""), "report")
    page = "file://" + os.path.abspath(html)
    for scheme, background in PAGE.items():
        look(seen, scheme, 1200, f"--screenshot={picture}", page)
        colours = pixels(picture)
        checks.that(WINNER in colours, f"the winner's colour is on the {scheme} page")
        checks.that(background in colours and len(colours) > 20, f"a {scheme} page with text and plots, {len(colours)} colours")
    dom = look(seen, "light", 1200, "--dump-dom", page)
    checks.equal(len(re.findall(r'<rect[^>]*class="row"', dom)), 11, "cells in the browser's tree")
    checks.that(dom.count("<svg") == 4 and dom.count("<tr>") == 2 + 12, f"{dom.count('<svg')} plots, {dom.count('<tr>')} lines")
    check_layout(checks, seen, folder, html, "an invented table")
    for name in ("attention_forward", "attention_decode", "matmul_quantized"):
        table = os.path.join(TABLES, name, "nvidia-h200.json")
        checks.equal(run(program, "report", table, "-o", html)[0], 0, f"report of {table}")
        check_layout(checks, seen, folder, html, f"the shipped table of {name}")


def main():
    program, path = sys.argv[1:3]
    checks = Checks()
    if sys.argv[3:] == ["browser"]:
        seen = browser()
        if seen is None:
            print("skipped: no browser (Debian: chromium-headless-shell)")
            return 77
        test_in_browser(program, Folder(path), checks, seen)
        return checks.finish()
    folder = Folder(path)
    test_page(program, folder, checks)
    test_costs(program, folder, checks)
    return checks.finish()


if __name__ == "__main__":
    sys.exit(main())
