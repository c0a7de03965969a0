# SPDX-License-Identifier: MIT
"""Packs what measure wrote into one file a study.   pack.py [--add] PLAN RUN... FOLDER

RUN are outputs of measure, of the same plan; a second run's first pass counts as a repetition of the first's. --add
keeps the shapes that FOLDER has and adds those that it lacks.
"""

import gzip
import json
import lzma
import os
import sys


def read(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:  # the last line of a run whose time was up
                return


def code(times, ids):
    """[best in ns, then variant and permille over the best, fastest first]; coarse where nobody would choose it."""
    best = min(times.values())
    out = [round(best * 1000)]
    for variant, time in sorted(times.items(), key=lambda each: each[1]):
        over = round((time / best - 1) * 1000)
        if over > 300:
            over = min(over // 100 * 100, 5000)
        out += [ids.setdefault(variant, len(ids)), over]
    return out


def main():
    add = sys.argv[1] == "--add"
    plan, *runs, folder = sys.argv[1 + add :]
    with open(plan, encoding="utf-8") as file:
        studies = {each["name"]: each for each in json.load(file)["studies"]}
    lines = {name: [] for name in studies}
    device = None
    for path in runs:
        for line in read(path):
            if "device" in line:
                device = line["device"]
            elif line.get("times"):
                lines[line["study"]].append(line)
            elif "failed" in line:
                print("left out:", line["study"], line["shape"], line["failed"])
    os.makedirs(folder, exist_ok=True)
    for name, study in studies.items():
        ids, shapes, times, again, place = {}, [], [], [], {}
        path = os.path.join(folder, name + ".json.xz")
        if add and os.path.exists(path):
            with lzma.open(path) as file:
                before = json.load(file)
            ids = {variant: i for i, variant in enumerate(before["variants"])}
            shapes, times, again = before["shapes"], before["times"], before["again"]
        present = [each[: len(study["axes"])] for each in shapes]
        for line in lines[name]:
            at = study["shapes"][line["shape"]]
            if at in present:
                continue
            if line["shape"] not in place:
                place[line["shape"]] = len(shapes)
                first = line.get("first")
                shapes.append(
                    at
                    + [study["held_out"][line["shape"]], line["alignment"], ids.setdefault(first[0], len(ids)) if first else -1]
                )
                times.append(code(line["times"], ids))
            else:
                again.append([place[line["shape"]]] + code(line["times"], ids))
        if not shapes:
            continue
        text = json.dumps(
            {
                "operator": study["operator"],
                "type": study["type"],
                "axes": study["axes"],
                "device": device,
                "variants": list(ids),
                "shapes": shapes,
                "times": times,
                "again": again,
            },
            separators=(",", ":"),
        )
        with open(path, "wb") as file:
            file.write(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
        print(
            f"{name:34} {len(shapes):4} shapes, {len(again):4} repeated, {len(ids):3} variants, {os.path.getsize(path):6} bytes"
        )


if __name__ == "__main__":
    main()
