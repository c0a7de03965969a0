# SPDX-License-Identifier: MIT
"""Compiles one Triton kernel ahead of time, with no GPU and no driver. Needs triton 3.6.0."""

import importlib.util
import os
import re
import sys
import tempfile

from . import KernelBuildError
from .exec_mask import early_vector_instructions

VERSION = "3.6.0"


def load_function(path, name):
    folder = os.path.dirname(path)
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if function is None:
        raise KernelBuildError(f"{path} has no function '{name}'")
    while hasattr(function, "fn") and type(function).__name__ != "JITFunction":
        function = function.fn  # under autotune and heuristics
    if type(function).__name__ != "JITFunction":
        raise KernelBuildError(f"{path}: '{name}' is not decorated with triton.jit")
    inputs = {path}
    for other in list(sys.modules.values()):
        file = getattr(other, "__file__", None)
        if file and os.path.dirname(os.path.abspath(file)) == folder:
            inputs.add(os.path.abspath(file))
    return function, inputs


def gpu_target(backend, arch, warp_size):
    from triton.backends.compiler import GPUTarget

    if backend == "hip":
        return GPUTarget("hip", arch, warp_size)
    return GPUTarget("cuda", int(re.match(r"(?:sm|compute)_(\d+)", arch).group(1)), 32)


def constant(value):
    if isinstance(value, str):
        if re.fullmatch(r"-?\d+", value):
            return int(value)
        if value in ("true", "false"):
            return value == "true"
    return value


def options_of(blob):
    return {name: constant(value) for name, value in blob["options"].items()}


def compile_right(triton, source, job):
    """Compiles, on AMD with other numbers of registers until LLVM makes no mistake that exec_mask.py knows."""
    target = gpu_target(job["backend"], job["arch"], job["warp_size"])
    options = options_of(job["blob"])
    for waves in (None, 4, 2, 1):
        more = {} if waves is None else {"waves_per_eu": waves}
        compiled = triton.compile(source, target=target, options={**options, **more})
        wrong = early_vector_instructions(compiled.asm["amdgcn"]) if job["backend"] == "hip" else []
        if not wrong:
            return compiled
    line, text = wrong[0]
    raise KernelBuildError(f"LLVM runs {text} before it restores EXEC (line {line} of the assembly); take a smaller tile")


def compile_blob(job, output):
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # keeps paths out of the binary
    blob = job["blob"]
    with tempfile.TemporaryDirectory(prefix="switchyard_triton_") as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        try:
            import triton
        except ImportError:
            raise KernelBuildError(
                f"triton {VERSION} is not installed for {sys.executable}: pip install triton=={VERSION}"
            ) from None
        if triton.__version__ != VERSION:
            raise KernelBuildError(
                f"triton {triton.__version__} found, {VERSION} expected: its ahead-of-time interface differs between versions"
            )
        # The cache begins empty, so that its keys need not tell one Triton from another: a hash of its library's 400 MB takes
        # a fifth of a compilation.
        triton.runtime.cache.triton_key = lambda: VERSION
        function, inputs = load_function(blob["source"], blob["function"])
        arguments = function.arg_names
        given = {
            **{name: str(kind) for name, kind in blob["signature"].items()},
            **{name: "constexpr" for name in blob["constexprs"]},
        }
        if set(given) != set(arguments):
            raise KernelBuildError(
                f"{blob['source']}: {blob['function']} takes {arguments}; signature and constexprs give {sorted(given)}"
            )
        run_time = [name for name in arguments if given[name] != "constexpr"]
        if run_time != list(blob["signature"]):
            raise KernelBuildError(f"{blob['source']}: signature must be in the function's order {run_time}")
        attributes = {}
        for key, attribute in (("divisible", ["tt.divisibility", 16]), ("pointer_range_32", ["tt.pointer_range", 32])):
            for name in blob[key]:
                if name not in run_time:
                    raise KernelBuildError(f"{key}: '{name}' is no run-time argument; those are {run_time}")
                if key == "divisible" or job["backend"] == "hip":
                    attributes.setdefault((arguments.index(name),), []).append(attribute)
        source = triton.compiler.ASTSource(
            function,
            {name: given[name] for name in arguments},
            {(arguments.index(name),): constant(value) for name, value in blob["constexprs"].items()},
            attributes,
        )
        compiled = compile_right(triton, source, job)
        kind = "hsaco" if job["backend"] == "hip" else "ptx" if job["arch"].startswith("compute_") else "cubin"
        content = compiled.asm[kind]
        with open(output, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        meta = compiled.metadata
        facts = {
            "kernel": meta.name,
            "shared_bytes": meta.shared,
            "block": [job["warp_size"] * meta.num_warps, 1, 1],
            "parameters": len(run_time),
        }
        if meta.num_ctas > 1:
            facts["cluster"] = [meta.num_ctas, 1, 1]
        if getattr(meta, "launch_cooperative_grid", False):
            facts["cooperative"] = True
        if getattr(meta, "launch_pdl", False):
            facts["programmatic_dependent_launch"] = True
        descriptors = getattr(meta, "tensordesc_meta", None)
        if descriptors:
            facts["tensor_descriptors"] = [dict(one) if one else None for one in descriptors]
    return inputs, f"triton {VERSION}", facts
