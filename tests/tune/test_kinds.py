# SPDX-License-Identifier: MIT
"""switchyard tune, where several kinds of calls end in one row, since no axis of the row tells them apart."""

import json
import os
import re
import sys

import cases
from cases import check
from tuning import FAULTY_KERNELS, FOLDER, LOOSE, read_table, rows, run


def fastest(row):
    return min(row["times_us"], key=row["times_us"].get)


def make_kinds_root(name, requires=(), ids=("for_split", "for_both")):
    """Kernels: one is fast at split tensors and slow at a packed one, the other is neither."""
    types, parameters, _, _ = cases.FAULTY["gated_activation"]
    types = {key: value for key, value in types.items() if key != "packed"}
    root = os.path.join(FOLDER, name)
    kernels = {kernel: kernel for kernel in ids}
    return cases.make_root(root, FAULTY_KERNELS, kernels, "gated_activation", types, parameters, requires)


def write_kinds(root, *calls):
    """A list of calls at the same sizes, split and packed, and of one call at another size."""
    path = os.path.join(root, "kinds.txt")
    head = "gated_activation dtype=f32 function=gelu_tanh"
    with open(path, "w", encoding="utf-8") as file:
        for packed, count in zip(("false", "true"), calls, strict=False):
            file.write(f"{head} with packed={packed} : rows columns\n  3 40 calls={count}\n")
        file.write(f"{head} with packed=true rows=7 columns=40\n")
    return path


def noted(table, variant, kind):
    """The last time of a variant at a kind of the calls of 3 rows, by the tuner's notes."""
    with open(table + ".tuning.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    found = [line["us"] for line in lines if line.get("variant") == variant and "us" in line
             and kind in line["problem"] and "rows=3 " in line["problem"]]  # fmt: skip
    return found[-1]


def test_kinds_of_one_row():
    # Calls that no axis of a row tells apart end in that row: it prefers what loses least over all of them.
    root = make_kinds_root("kinds")
    for calls, first in [((1, 1), "for_both"), ((9, 1), "for_split"), ((1, 9), "for_both")]:
        table = os.path.join(root, "t.json")
        listed = write_kinds(root, *calls)
        done = run(root, "--problems", listed, "-o", table, *LOOSE, "--again")
        found = read_table(table)
        row = rows(found)[3, 40]
        check(fastest(row) == row.get("first", first) == first, f"calls {calls}: {row}")
        # The geometric mean, by calls, of what was noted of each kind.
        for name, time in row["times_us"].items():
            split, packed = (noted(table, name, f"packed={kind} ") for kind in ("false", "true"))
            wanted = (split ** calls[0] * packed ** calls[1]) ** (1 / sum(calls))
            check(abs(time - wanted) < 0.001 * wanted, f"calls {calls}: {name} takes {time}, not {wanted}")
        check(found["groups"][0]["measured_with"]["packed"] == [False, True], found["groups"][0]["measured_with"])
        check(fastest(rows(found)[7, 40]) == "for_both", rows(found)[7, 40])
        check("rows=3 columns=40 with packed=false, packed=true: " + first in done.stderr, done.stderr)
        check("the mean of 2 kinds" in done.stderr and "2 of 2 problems measured" in done.stdout, done.stdout + done.stderr)
        check(found["measured"]["checks"] == {"reference": "f64", "whole": 3}, found["measured"]["checks"])
    done = run(root, "--problems", listed, "-o", table, *LOOSE)
    check("2 problems, 2 measured before" in done.stderr, done.stderr)

    # A table's rows are measured again as lists ask for them, or as the workload likes best. Lists add none.
    with open(listed, "a", encoding="utf-8") as file:
        file.write("gated_activation dtype=f32 function=gelu_tanh rows=64 columns=40\n")
    done = run(root, "--refresh", table, "--problems", listed, *LOOSE)
    check("rows=3 columns=40 with packed=false, packed=true: for_both" in done.stderr, done.stderr)
    check(rows(read_table(table)).keys() == {(3, 40), (7, 40)}, rows(read_table(table)))
    run(root, "--refresh", table, *LOOSE)
    check(fastest(rows(read_table(table))[3, 40]) == "for_split", rows(read_table(table)))

    # Where a type has the axis, each kind has a row of its own.
    run(root, "gated_activation", "dtype=f32", "function=gelu_tanh", "packed=false,true", "rows=3", "columns=40", "-o", table,
        *LOOSE, "--again")  # fmt: skip
    first = {group["type"]["packed"]: fastest(group["rows"][0]) for group in read_table(table)["groups"]}
    check(first == {False: "for_split", True: "for_both"}, first)


def test_kinds_that_fail():
    # A kind that nothing serves is named, and the row is of the others.
    root = make_kinds_root("kinds_that_fail", ["packed == 1"])
    table = os.path.join(root, "t.json")
    done = run(root, "--problems", write_kinds(root, 1, 1), "-o", table, *LOOSE, status=1)
    check("2 of 2 problems measured" in done.stdout and "remaining" not in done.stdout, done.stdout)
    said = r"1 kinds of calls were left out of their rows:\n  .* packed=false rows=3 columns=40: no variant may serve it"
    check(re.search(said, done.stdout), done.stdout)
    check("the mean of 1 kinds" in done.stderr, done.stderr)
    check(fastest(rows(read_table(table))[3, 40]) == "for_both", rows(read_table(table)))
    check(read_table(table)["groups"][0]["measured_with"]["packed"] is True, read_table(table)["groups"][0])
    root = make_kinds_root("kinds_that_all_fail", ["rows == 7"])
    table = os.path.join(root, "t.json")
    done = run(root, "--problems", write_kinds(root, 1, 1), "-o", table, *LOOSE, status=1)
    check(re.search(r"rows=3 columns=40 with packed=false, packed=true: no variant may serve it", done.stdout), done.stdout)
    check(rows(read_table(table)).keys() == {(7, 40)}, rows(read_table(table)))

    # Stopped between two kinds, a run goes on with the second, and does not take the times of the first for it.
    root = make_kinds_root("kinds_stopped")
    table = os.path.join(root, "t.json")
    words = ["--problems", write_kinds(root, 1, 1), "-o", table, *LOOSE]
    run(root, *words)
    whole = rows(read_table(table))
    with open(table + ".tuning.jsonl", encoding="utf-8") as file:
        lines = file.read().splitlines()
    for kept in (3, 4):  # a header, and both times of the first kind; one of the second as well
        os.remove(table)
        with open(table + ".tuning.jsonl", "w", encoding="utf-8") as file:
            file.write("\n".join(lines[:kept]) + "\n")
        done = run(root, *words)
        check(f"resuming after {kept - 1} times" in done.stderr, done.stderr)
        row = rows(read_table(table))[3, 40]
        check(row["times_us"].keys() == whole[3, 40]["times_us"].keys() == {"for_both", "for_split"}, row)
        check(row["times_us"]["for_split"] > 6000, f"the mean of 2 and 20 ms: {row}")


def test_kinds_are_judged():
    # What wins in the mean alone is judged again, too, and at each kind.
    root = make_kinds_root("judged", ids=("for_split", "for_packed", "for_both_but_wrong"))
    table = os.path.join(root, "t.json")
    done = run(root, "--problems", write_kinds(root, 1, 1), "-o", table, *LOOSE, "--most", "1")
    check(rows(read_table(table))[3, 40]["times_us"].keys() == {"for_split"}, rows(read_table(table))[3, 40])
    said = r"1 variants are known to be bad.*\n  for_both_but_wrong: right before it was timed, wrong results afterwards"
    check(re.search(said, done.stdout), done.stdout)
    # What is hopeless at one kind may be the best at another one.
    root = make_kinds_root("hopeless", ids=("for_split", "for_packed", "for_both"))
    table = os.path.join(root, "t.json")
    run(root, "--problems", write_kinds(root, 1, 1), "-o", table, *LOOSE)
    check(fastest(rows(read_table(table))[7, 40]) == "for_packed", rows(read_table(table))[7, 40])
    split, packed = (noted(table, "for_packed", f"packed={kind} ") for kind in ("false", "true"))
    time = rows(read_table(table))[3, 40]["times_us"]["for_packed"]
    check(3 * packed < split and abs(time / (split * packed) ** 0.5 - 1) < 0.001, f"{split}, {packed}: {time}")


def test_hopeless_at_other_sizes():
    # What is hopeless for few rows may be the best for many, and the other way round.
    root = make_kinds_root("sizes", ids=("for_few", "for_many"))
    table = os.path.join(root, "t.json")
    words = "gated_activation dtype=f32 function=gelu_tanh packed=false rows=3,64 columns=40".split()
    run(root, *words, "-o", table, *LOOSE)
    first = {rows_of: fastest(row) for (rows_of, _), row in rows(read_table(table)).items()}
    check(first == {3: "for_few", 64: "for_many"}, first)


def test_options_of_the_workload():
    # Options that no axis holds: a run that was stopped does not take the times of one kind for those of another.
    root = cases.make_faulty_root(os.path.join(FOLDER, "options"), FAULTY_KERNELS, "rotary", ["right"])
    table, notes = os.path.join(root, "t.json"), os.path.join(root, "t.json.tuning.jsonl")
    path = os.path.join(root, "kinds.txt")
    with open(path, "w", encoding="utf-8") as file:
        for first in ("false", "true"):
            words = "dtype=f32 style=half table=false head_dim=16 with in_place=false"
            file.write(f"rotary {words} heads_first={first} : batch seqlen heads heads_kv\n  2 5 3 0\n")
    words = ["--problems", path, "-o", table, *LOOSE]

    def timed():
        with open(notes, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return [re.sub(r".* ", "", line["problem"]) for line in lines if "us" in line]

    done = run(root, *words)
    check("with heads_first=0, heads_first=1: right" in done.stderr, done.stderr)
    check(timed() == ["heads_first=0", "heads_first=1"], timed())
    with open(notes, encoding="utf-8") as file:
        lines = file.read().splitlines()
    os.remove(table)
    with open(notes, "w", encoding="utf-8") as file:
        file.write("\n".join(lines[:2]) + "\n")
    done = run(root, *words)
    check("resuming after 1 times" in done.stderr and timed() == ["heads_first=0", "heads_first=1"], timed())
    # The same kind twice is one that is called more often.
    with open(path, "a", encoding="utf-8") as file:
        file.write("rotary dtype=f32 style=half table=false head_dim=16 batch=2 seqlen=5 heads=3 heads_kv=0")
        file.write(" with in_place=false heads_first=true calls=3\n")
    done = run(root, *words, "--again")
    check("with heads_first=0, heads_first=1: right" in done.stderr and "the mean of 2 kinds" in done.stderr, done.stderr)


if __name__ == "__main__":
    sys.exit(cases.run_all(globals(), FOLDER, together=4))  # their slow kernels sleep
