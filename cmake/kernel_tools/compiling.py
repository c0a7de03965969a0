# SPDX-License-Identifier: MIT
"""Compiles one blob: host C++, CUDA C++ and HIP C++ through their compilers, Triton in this process.

The same input gives the same bytes wherever it is built: each job runs in a folder of its own that reaches the
sources through links, so that a compiler only ever sees the same relative paths, and nothing that carries a
date, a path or a random number is kept.
"""

import ctypes
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile

from . import KernelBuildError
from .cache import Cache


def first_line(command, pattern):
    output = subprocess.run(command, capture_output=True, text=True, check=False)
    match = re.search(pattern, output.stdout)
    return match.group(0) if match else "unknown"


def compiler_name(toolchain, compiler):
    """Name and version, for the manifest's built_by."""
    if toolchain == "nvcc":
        return "nvcc " + first_line([compiler, "--version"], r"V\d[\d.]*")[1:]
    version = first_line([compiler, "--version"], r"clang version \d[\d.]*|\d+\.\d+\.\d+")
    return version.replace("clang version", "clang") if version.startswith("clang") else f"g++ {version}"


def default_flags(toolchain, arch, hip_language):
    if toolchain == "host":
        return ["-shared", "-fPIC", "-fvisibility=hidden", "-O2", "-ffp-contract=off", "-fno-ident"]
    if toolchain == "nvcc":
        kind = "-ptx" if arch.startswith("compute_") else "-cubin"
        return ["-O3", kind, f"-arch={arch}"]
    if hip_language:
        return [
            "-O3",
            "-x",
            "hip",
            f"--offload-arch={arch}",
            "--cuda-device-only",
            "--no-gpu-bundle-output",
            "-nogpuinc",
            "-nogpulib",
            "-fuse-cuid=none",
            "-fno-ident",
        ]
    return [
        "-O3",
        "-x",
        "c++",
        "--target=amdgcn-amd-amdhsa",
        f"-mcpu={arch}",
        "-nogpulib",
        "-nogpuinc",
        "-ffreestanding",
        "-fno-exceptions",
        "-fno-rtti",
        "-DSWITCHYARD_HIP_DEVICE=1",
        "-fno-ident",
    ]


def link_folder(folder, name, to):
    os.symlink(to, os.path.join(folder, name), target_is_directory=True)
    return name


def unit_text(blob, sources):
    lines = [f'#include "{source}"' for source in sources]
    lines += [blob["instances"][kernel] for kernel in sorted(blob["instances"])]
    return "\n".join(lines) + "\n"


def stage(blob, folder, include):
    """Links everything the unit includes into the job's folder; returns the sources and include folders there."""
    roots = {}

    def place(path, prefix):
        if path not in roots:
            roots[path] = link_folder(folder, f"{prefix}{len(roots)}", path)
        return roots[path]

    sources = []
    for source in blob["sources"]:
        if not os.path.isfile(source):
            raise KernelBuildError(f"source {source} of blob {blob['file']} does not exist")
        sources.append(os.path.join(place(os.path.dirname(source), "source"), os.path.basename(source)))
    folders = [place(os.path.dirname(source), "source") for source in blob["sources"]]
    folders += [place(path, "include") for path in blob["include"]]
    folders += [place(os.path.abspath(path), "include") for path in include]
    return sources, list(dict.fromkeys(folders))


def settle_module_id(path, unit):
    """Names of internal linkage carry a hash of nvcc's working folder; a hash of the unit replaces it."""
    with open(path, "rb") as file:
        content = file.read()
    settled = hashlib.sha256(unit.encode()).hexdigest()[:8].encode()
    for found in set(re.findall(rb"_INTERNAL_([0-9a-f]{8})_", content)):
        content = content.replace(found, settled)
    with open(path, "wb") as file:
        file.write(content)


def compile_cxx(job, compiler, include, output):
    """Host, nvcc and hip: one unit, one command. Returns what the compiler read, and built_by."""
    blob, arch = job["blob"], job["arch"]
    toolchain = blob["toolchain"]
    with tempfile.TemporaryDirectory(prefix="switchyard_kernel_") as folder:
        sources, folders = stage(blob, folder, include)
        unit = "unit.cu" if toolchain == "nvcc" else "unit.cpp"
        with open(os.path.join(folder, unit), "w", encoding="utf-8") as file:
            file.write(unit_text(blob, sources))
        flags = [f"-std={blob['std']}", *default_flags(toolchain, arch, blob["hip_language"]), *blob["flags"]]
        command = [
            compiler,
            *flags,
            *(f"-D{name}={value}" for name, value in sorted(blob["defines"].items())),
            *(f"-I{path}" for path in folders),
        ]
        if toolchain == "host":
            command += ["-Wl,--build-id=none", "-s"]
        if toolchain == "hip":  # past the driver: clang 20 and newer drop -MD where one command also links
            dependencies = ["-dependency-file", "blob.d", "-sys-header-deps", "-MT", "blob"]
            command += [word for option in dependencies for word in ("-Xclang", option)]
        else:
            command += ["-MD", "-MF", "blob.d"]
        command += [unit, "-o", "blob"]
        # ccache's and nvcc's own temporary names must not depend on who builds where.
        environment = {**os.environ, "LC_ALL": "C", "SOURCE_DATE_EPOCH": "0", "TMPDIR": folder}
        try:
            run = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
        except OSError as problem:
            raise KernelBuildError(
                f"blob {blob['file']}: the {toolchain} compiler {compiler} cannot be run "
                f"({problem.strerror}); install it, or configure again with another one"
            ) from problem
        if run.returncode != 0:
            raise KernelBuildError(f"blob {blob['file']}: {' '.join(command)}\n{run.stdout}{run.stderr}")
        if run.stderr.strip():
            print(f"{blob['file']}: {run.stderr.rstrip()}", flush=True)
        with open(os.path.join(folder, "blob.d"), encoding="utf-8") as file:
            read = file.read().replace("\\\n", " ").split(":", 1)[1].split()
        inputs = {os.path.realpath(os.path.join(folder, path)) for path in read if path != unit}
        if toolchain == "nvcc":
            settle_module_id(os.path.join(folder, "blob"), unit_text(blob, sources))
        shutil.move(os.path.join(folder, "blob"), output)
    os.chmod(output, 0o644)
    shown = [flag for flag in flags if not flag.startswith(("-arch=", "-mcpu=", "--offload-arch="))]
    common = [flag for flag in shown if flag not in blob["flags"]]
    return inputs, f"{compiler_name(toolchain, compiler)} {' '.join(common)}", {}


def compile_triton(job, output):
    from . import triton_job  # the only part that needs a package

    return triton_job.compile_blob(job, output)


def write_if_changed(path, text):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except OSError:
        pass
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def place_compilers_alike():
    """Has the programs that this process starts placed at the same addresses each time, and says whether the system
    allows it: of some kernels the ptxas of CUDA 12.8 makes one thing or another by where it lies."""
    address_no_randomize = 0x0040000  # of <sys/personality.h>
    try:
        personality = ctypes.CDLL(None).personality
    except (OSError, AttributeError):  # no Linux
        return False
    now = personality(ctypes.c_ulong(0xFFFFFFFF))
    return now >= 0 and personality(ctypes.c_ulong(now | address_no_randomize)) >= 0


def open_cache(job, compiler, include):
    folder = os.environ.get("SWITCHYARD_KERNEL_CACHE")
    blob = job["blob"]
    if not folder:
        return None
    sources = [blob["source"]] if blob["toolchain"] == "triton" else blob["sources"]
    roots = [*(os.path.dirname(source) for source in sources), *blob.get("include", []), *include]
    try:
        return Cache(folder, job, compiler, roots)
    except OSError:  # no such compiler: the compilation says so
        return None


def compile_job(job, toolchains, output, meta, depfile=None):
    """Builds one blob and writes beside it what the manifest needs to know of the compilation."""
    place_compilers_alike()
    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    toolchain = job["blob"]["toolchain"]
    partial = output + ".partial"
    compiler = toolchains.get(toolchain)
    if not compiler:
        raise KernelBuildError(f"blob {job['blob']['file']} needs the toolchain {toolchain}, and none was found")
    include = toolchains.get("include", [])
    cache = open_cache(job, compiler, include)
    kept = cache.load(partial) if cache else None
    if kept:
        inputs, built_by, facts = kept
    else:
        if toolchain == "triton":
            inputs, built_by, facts = compile_triton(job, partial)
        else:
            inputs, built_by, facts = compile_cxx(job, compiler, include, partial)
        if cache:
            cache.store(partial, inputs, built_by, facts)
    os.replace(partial, output)
    os.makedirs(os.path.dirname(os.path.abspath(meta)), exist_ok=True)
    with open(meta, "w", encoding="utf-8") as file:
        json.dump({"built_by": built_by, **facts}, file, indent=1, sort_keys=True)
    if depfile:
        escaped = [path.replace(" ", "\\ ") for path in sorted(inputs)]
        write_if_changed(depfile, f"{output.replace(' ', chr(92) + ' ')}: " + " \\\n  ".join(escaped) + "\n")
