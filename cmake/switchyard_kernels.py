#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds GPU and CPU kernels from search-space files. See cmake/README.md for the file format.

Installed, it is also the command `switchyard-kernels`.

  switchyard_kernels.py expand SPACE...            what a space expands to, as JSON
  switchyard_kernels.py build SPACE... --out DIR   everything, without CMake
  switchyard_kernels.py configure SPACE...         the jobs and a CMake script that runs them (used by SwitchyardKernels.cmake)
  switchyard_kernels.py compile JOB                one blob
  switchyard_kernels.py manifest PLAN              one manifest
"""

import argparse
import concurrent.futures
import json
import os
import platform
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from kernel_tools import KernelBuildError
from kernel_tools.compiling import compile_job, write_if_changed
from kernel_tools.manifest import layout, make_manifest, verify
from kernel_tools.space import TOOLCHAINS, expand

INSTALL = {
    "host": "a C++20 compiler",
    "nvcc": "the CUDA toolkit (nvcc)",
    "hip": "clang-19 and lld-19",
    "triton": "triton 3.6.0 (pip install triton==3.6.0)",
}

SETTING = {
    "host": "SWITCHYARD_HOST_CXX",
    "nvcc": "SWITCHYARD_NVCC",
    "hip": "SWITCHYARD_HIP_CXX",
    "triton": "SWITCHYARD_TRITON_PYTHON",
}


def host_arch():
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def split(values):
    return [part for value in values or [] for part in value.replace(";", ",").split(",") if part] or None


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def include_folder():
    """The library's headers. An installation names them in a file, relative to this folder unless they are elsewhere."""
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        with open(os.path.join(here, "include_folder.txt"), encoding="utf-8") as file:
            return os.path.normpath(os.path.join(here, file.read().strip()))
    except FileNotFoundError:  # the source tree
        return os.path.normpath(os.path.join(here, "..", "include"))


def find_toolchains():
    """What this machine has, for `build`; CMake passes its own findings instead."""
    found = {"include": [include_folder()]}
    candidates = {
        "host": [os.environ.get("CXX", ""), "c++", "g++"],
        "nvcc": [os.environ.get("CUDACXX", ""), "nvcc", "/usr/local/cuda/bin/nvcc"],
        "hip": [os.environ.get("HIPCXX", ""), "clang++-19", "clang++-20", "clang++"],
    }
    for toolchain, names in candidates.items():
        for name in filter(None, names):
            if (path := shutil.which(name)) and (toolchain != "hip" or amd_targets(path)):
                found[toolchain] = path
                break
    python = os.environ.get("SWITCHYARD_TRITON_PYTHON") or sys.executable
    if (
        shutil.which(python)
        and subprocess.run(
            [python, "-c", "import importlib.metadata as m; assert m.version('triton') == '3.6.0'"],
            capture_output=True,
            check=False,
        ).returncode
        == 0
    ):
        found["triton"] = python
    return found


def run_compiler(toolchain, command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as problem:
        raise KernelBuildError(
            f"the {toolchain} compiler {command[0]} cannot be run ({problem.strerror}); install "
            f"{INSTALL[toolchain]}, or correct {SETTING[toolchain]}"
        ) from problem


def amd_targets(clang):
    run = run_compiler("hip", [clang, "--target=amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus"])
    return {word for word in (run.stdout + run.stderr).split() if word.startswith("gfx")} if run.returncode == 0 else set()


def nvidia_targets(nvcc):
    listed = set()
    for option in ("--list-gpu-code", "--list-gpu-arch"):
        run = run_compiler("nvcc", [nvcc, option])
        listed |= {line.strip() for line in run.stdout.splitlines()}
    return listed


def unsupported(toolchains, plans):
    """(toolchain, target) pairs that a compiler found here is too old for."""
    result = set()
    for toolchain, backend, listing in (("nvcc", "cuda", nvidia_targets), ("hip", "hip", amd_targets)):
        wanted = {
            plan["arch"]
            for plan in plans
            if plan["backend"] == backend and any(blob["toolchain"] == toolchain for blob in plan["blobs"])
        }
        if not wanted or toolchain not in toolchains:
            continue
        known = listing(toolchains[toolchain])
        result |= {
            (toolchain, f"{backend}-{arch}")
            for arch in wanted
            if known and arch not in known and arch.rstrip("af") not in known
        }
    return result


def left_out(parts):
    """Names what is missing in one line, however many operators and targets it concerns."""
    operators, targets = (sorted({one[key] for one in parts}) for key in ("operator", "target"))
    what = operators[0] if len(operators) == 1 else f"{len(operators)} operators"
    return f"{sum(one['variants'] for one in parts)} variants of {what} for {' '.join(targets)} are left out: "


def expand_for(args, toolchains, supposed=False):
    """Plans that can be built here, and a sentence for each thing that cannot. `supposed` compilers are not asked."""
    names = [name for name in TOOLCHAINS if name in toolchains]
    chosen = args.set if args.set not in (None, "full", "all") else None
    plans, missing = expand(args.spaces, chosen, split(args.targets), names, args.host_arch)
    messages = []
    for toolchain in sorted({one["toolchain"] for one in missing}):
        messages.append(
            left_out([one for one in missing if one["toolchain"] == toolchain])
            + f"{toolchain} was not found; install {INSTALL[toolchain]}"
        )
    for toolchain, target in sorted(set() if supposed else unsupported(toolchains, plans)):
        remaining, dropped = [], []
        for plan in plans:
            if plan["target"] != target:
                remaining.append(plan)
                continue
            kinds = {blob["file"]: blob["toolchain"] for blob in plan["blobs"]}
            kept = [
                variant
                for variant in plan["variants"]
                if all(kinds.get(launch.get("blob")) != toolchain for launch in variant["launches"])
            ]
            used = {launch.get("blob") for variant in kept for launch in variant["launches"]}
            if len(kept) < len(plan["variants"]):
                dropped.append({"operator": plan["operator"], "target": target, "variants": len(plan["variants"]) - len(kept)})
            if kept:
                remaining.append({**plan, "variants": kept, "blobs": [blob for blob in plan["blobs"] if blob["file"] in used]})
        plans = remaining
        if dropped:
            messages.append(left_out(dropped) + f"{toolchains[toolchain]} does not know {target.split('-')[1]}")
    return plans, messages


def jobs_of(plan):
    for blob in plan["blobs"]:
        yield {"arch": plan["arch"], "backend": plan["backend"], "warp_size": plan["warp_size"], "blob": blob}


def command_expand(args):
    found = find_toolchains()
    plans, messages = expand_for(args, dict.fromkeys(TOOLCHAINS, "") if args.all_toolchains else found, args.all_toolchains)
    if args.all_toolchains:
        used = {blob["toolchain"] for plan in plans for blob in plan["blobs"]}
        messages += [
            f"{name} was not found: `build` leaves its variants out; install {INSTALL[name]}"
            for name in sorted(used - set(found))
        ]
    for message in messages:
        print(message, file=sys.stderr)
    print(layout(plans))


def run_compile(job_path, toolchains, output, meta):
    python = toolchains["triton"] if read_json(job_path)["blob"]["toolchain"] == "triton" else sys.executable
    return subprocess.run(
        [
            python,
            os.path.abspath(__file__),
            "compile",
            job_path,
            "--toolchains",
            toolchains["file"],
            "--output",
            output,
            "--meta",
            meta,
        ],
        capture_output=True,
        text=True,
        check=False,
    )


def command_build(args):
    toolchains = find_toolchains()
    if not os.path.isfile(os.path.join(toolchains["include"][0], "switchyard", "version.hpp")):
        raise KernelBuildError(
            f"no headers of Switchyard in {toolchains['include'][0]}; install the library's headers and this tool together"
        )
    plans, messages = expand_for(args, toolchains)
    for message in messages:
        print(message, file=sys.stderr)
    if not plans:
        raise KernelBuildError(
            "nothing was built: "
            + ("no toolchain was found for these variants" if messages else "no variant is of these targets and this set")
        )
    work = os.path.join(args.out, ".switchyard_kernels")
    toolchains["file"] = os.path.join(work, "toolchains.json")
    write_if_changed(toolchains["file"], json.dumps(toolchains))
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        waiting = []
        for plan in plans:
            base = os.path.join(plan["operator"], plan["target"])
            for job in jobs_of(plan):
                path = os.path.join(work, base, job["blob"]["file"])
                write_if_changed(path + ".job.json", json.dumps(job, indent=1))
                output = os.path.join(args.out, "kernels", base, job["blob"]["file"])
                waiting.append((path, pool.submit(run_compile, path + ".job.json", toolchains, output, path + ".meta.json")))
        failures = 0
        for _, result in waiting:
            run = result.result()
            sys.stdout.write(run.stdout)
            if run.returncode != 0:
                failures += 1
                sys.stderr.write(run.stderr)
    if failures:
        raise KernelBuildError(f"{failures} of {len(waiting)} blobs failed")
    for plan in plans:
        base = os.path.join(plan["operator"], plan["target"])
        folder = os.path.join(args.out, "kernels", base)
        manifest = make_manifest(plan, folder, os.path.join(work, base))
        write_if_changed(os.path.join(folder, "manifest.json"), layout(manifest) + "\n")
        problems = verify(os.path.join(folder, "manifest.json"))
        if problems:
            raise KernelBuildError("\n".join(problems))
        print(f"{folder}: {len(plan['blobs'])} blobs, {len(plan['variants'])} variants")


def quoted(path):
    return '"' + path.replace("\\", "/").replace('"', '\\"').replace("$", "\\$") + '"'


def command_configure(args):
    """Writes jobs and plans below --work and a CMake script that declares their custom commands."""
    toolchains = read_json(args.toolchains)
    plans, messages = expand_for(args, toolchains)
    tool = os.path.abspath(__file__)
    tool_files = [tool] + sorted(
        os.path.join(os.path.dirname(tool), "kernel_tools", name)
        for name in os.listdir(os.path.join(os.path.dirname(tool), "kernel_tools"))
        if name.endswith(".py")
    )
    lines = [f"message(STATUS {quoted('Switchyard kernels: ' + message)})" for message in messages]
    lines.append("set(switchyard_kernel_manifests)")
    lines.append("set(switchyard_kernel_folders)")
    needed = " ".join(quoted(path) for path in tool_files)
    for plan in plans:
        base = os.path.join(plan["operator"], plan["target"])
        folder = os.path.join(args.out, "kernels", base)
        lines.append(f"list(APPEND switchyard_kernel_folders {quoted(base)})")
        blobs = []
        for job in jobs_of(plan):
            path = os.path.join(args.work, base, job["blob"]["file"])
            write_if_changed(path + ".job.json", json.dumps(job, indent=1))
            output = os.path.join(folder, job["blob"]["file"])
            blobs += [output, path + ".meta.json"]
            python = toolchains["triton"] if job["blob"]["toolchain"] == "triton" else sys.executable
            lines.append(
                f"add_custom_command(OUTPUT {quoted(output)} {quoted(path + '.meta.json')}\n"
                f"  COMMAND {quoted(python)} {quoted(tool)} compile {quoted(path + '.job.json')} --toolchains {quoted(args.toolchains)}\n"
                f"          --output {quoted(output)} --meta {quoted(path + '.meta.json')} --depfile {quoted(path + '.d')}\n"
                f"  DEPENDS {quoted(path + '.job.json')} {quoted(args.toolchains)} {needed}\n"
                f"  DEPFILE {quoted(path + '.d')} COMMENT {quoted('Kernel ' + base + '/' + job['blob']['file'])} VERBATIM)"
            )
        plan_path = os.path.join(args.work, base, "plan.json")
        write_if_changed(plan_path, json.dumps(plan, indent=1))
        manifest = os.path.join(folder, "manifest.json")
        lines.append(f"list(APPEND switchyard_kernel_manifests {quoted(manifest)})")
        lines.append(
            f"add_custom_command(OUTPUT {quoted(manifest)}\n"
            f"  COMMAND {quoted(sys.executable)} {quoted(tool)} manifest {quoted(plan_path)} --folder {quoted(folder)}"
            f" --meta {quoted(os.path.join(args.work, base))}\n"
            f"  DEPENDS {quoted(plan_path)} {needed} {' '.join(quoted(path) for path in blobs)}\n"
            f"  COMMENT {quoted('Manifest ' + base)} VERBATIM)"
        )
    write_if_changed(args.script, "\n".join(lines) + "\n")


def command_compile(args):
    toolchains = read_json(args.toolchains)
    compile_job(read_json(args.job), toolchains, args.output, args.meta, args.depfile)


def command_manifest(args):
    plan = read_json(args.plan)
    path = os.path.join(args.folder, "manifest.json")
    text = layout(make_manifest(plan, args.folder, args.meta)) + "\n"
    expected = {"manifest.json", *(blob["file"] for blob in plan["blobs"])}
    for name in os.listdir(args.folder):  # what an earlier space file built
        if name not in expected and not name.endswith(".partial"):
            os.remove(os.path.join(args.folder, name))
    with open(path + ".partial", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".partial", path)
    problems = verify(path)
    if problems:
        os.remove(path)
        raise KernelBuildError("\n".join(problems))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    def command(name, function):
        sub = commands.add_parser(name)
        sub.set_defaults(function=function)
        return sub

    def space_arguments(sub):
        sub.add_argument("spaces", nargs="+", metavar="SPACE")
        sub.add_argument("--set", help="named subset; `full`: everything")
        sub.add_argument("--targets", action="append", help="only these, separated by commas")
        sub.add_argument("--host-arch", default=host_arch())

    sub = command("expand", command_expand)
    space_arguments(sub)
    sub.add_argument("--all-toolchains", action="store_true", help="as if every toolchain were installed")
    sub = command("build", command_build)
    space_arguments(sub)
    sub.add_argument("--out", required=True)
    sub.add_argument("--jobs", type=int, default=os.cpu_count())
    sub = command("configure", command_configure)
    space_arguments(sub)
    for name in ("--toolchains", "--work", "--out", "--script"):
        sub.add_argument(name, required=True)
    for name in ("compile", "compile-triton"):
        sub = command(name, command_compile)
        sub.add_argument("job")
        for option in ("--toolchains", "--output", "--meta"):
            sub.add_argument(option, required=True)
        sub.add_argument("--depfile")
    sub = command("manifest", command_manifest)
    sub.add_argument("plan")
    sub.add_argument("--folder", required=True)
    sub.add_argument("--meta", required=True)
    args = parser.parse_args()
    try:
        args.function(args)
    except KernelBuildError as error:
        print(f"switchyard_kernels: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
