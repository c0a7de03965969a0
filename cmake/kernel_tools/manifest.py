# SPDX-License-Identifier: MIT
"""Manifests: made from a plan and its compiled blobs, and checked against blobs."""

import hashlib
import json
import os

from . import KernelBuildError
from .blob import read_blob

SCHEMA = "switchyard.manifest/1"
WIDTH = 110
SIZES = {
    "i8": 1,
    "u8": 1,
    "i16": 2,
    "u16": 2,
    "f16": 2,
    "bf16": 2,
    "i32": 4,
    "u32": 4,
    "f32": 4,
    "i64": 8,
    "u64": 8,
    "f64": 8,
    "pointer": 8,
}
SWIZZLES = ("none", "32B", "64B", "128B")


def hash_file(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def layout(node, indent=0):
    """JSON text: what fits a line stays on it, the rest is broken by element; a variant is always broken."""
    flat = json.dumps(node, ensure_ascii=False)
    if not isinstance(node, (dict, list)) or not node:
        return flat
    structure = indent == 0 or indent == 1 and isinstance(node, list) or indent == 2 and isinstance(node, dict)
    if not structure and len(flat) + indent <= WIDTH:
        return flat
    inner = " " * (indent + 1)
    if isinstance(node, dict):
        parts = [f"{json.dumps(key)}: {layout(value, indent + 1)}" for key, value in node.items()]
        return "{\n" + ",\n".join(inner + part for part in parts) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(inner + layout(value, indent + 1) for value in node) + "\n" + " " * indent + "]"


LAUNCH_ORDER = (
    "blob",
    "sha256",
    "kernel",
    "grid",
    "block",
    "shared_bytes",
    "cluster",
    "cooperative",
    "programmatic_dependent_launch",
    "parameters",
    "fill",
    "byte",
)


def no_kernel(kernel, info):
    """What to say of a kernel that a blob lacks: how its source must declare it."""
    wanted = (
        (
            f'`extern "C" __attribute__((visibility("default"))) const switchyard::host::kernel {kernel} = ...`: without '
            '`extern "C"` or default visibility the symbol is not exported'
        )
        if info["backend"] == "host"
        else '`extern "C"`, so that its symbol is its name'
    )
    return f"has no kernel '{kernel}'; it has {', '.join(sorted(info['kernels'])) or 'none'}. Declare it {wanted}"


def finish_launch(launch, plan, facts, info, digest):
    if "fill" in launch:
        return launch
    name = launch["blob"]
    kernel = launch["kernel"]
    launch = dict(launch, sha256=digest)
    if kernel not in info["kernels"]:
        raise KernelBuildError(f"blob {name} {no_kernel(kernel, info)}")
    if "kernel" in facts:  # Triton says what the launch must be
        for key in ("block", "shared_bytes", "cluster", "cooperative", "programmatic_dependent_launch"):
            if key in facts:
                launch.setdefault(key, facts[key])
        parameters = list(launch.get("parameters", []))
        check_descriptors(name, parameters, facts)
        scratch = info["kernels"][kernel]["parameters"][facts["parameters"] + descriptor_extra(facts) :]
        if len(scratch) > 2 or any(size != 8 for _, size in scratch):
            raise KernelBuildError(
                f"kernel {kernel} of {name}: expected at most two scratch pointers after the "
                f"arguments, found sizes {[size for _, size in scratch]}"
            )
        launch["parameters"] = parameters + [{"null": 8}] * len(scratch)
    if plan["backend"] == "host":
        launch.setdefault("block", [1, 1, 1])
    launch.setdefault("shared_bytes", 0)
    for key in ("grid", "block", "parameters"):
        if key not in launch:
            raise KernelBuildError(f"kernel {kernel} of {name}: the launch has no `{key}`")
    return {key: launch[key] for key in (*LAUNCH_ORDER, *sorted(set(launch) - set(LAUNCH_ORDER))) if key in launch}


def descriptor_extra(facts):
    """Parameters beyond one that host tensor descriptors take: a shape and a stride for each dimension."""
    return sum(2 * len(one["block_size"]) for one in facts.get("tensor_descriptors", []) if one)


def check_descriptors(name, parameters, facts):
    """The tensor maps of a launch, against what Triton compiled for: its boxes are listed outermost first."""
    compiled = [one for one in facts.get("tensor_descriptors", []) if one]
    given = [parameter["tensor_map"] for parameter in parameters if isinstance(parameter, dict) and "tensor_map" in parameter]
    if len(compiled) != len(given):
        raise KernelBuildError(f"{name} takes {len(compiled)} tensor descriptors, the launch lists {len(given)}")
    for one, tensor_map in zip(compiled, given):
        expected = {"box": list(reversed(one["block_size"])), "swizzle": SWIZZLES[one["swizzle"]]}
        found = {"box": tensor_map.get("box"), "swizzle": tensor_map.get("swizzle", "none")}
        if expected != found:
            raise KernelBuildError(
                f"{name}: a tensor map has {json.dumps(found)}, the kernel was compiled for {json.dumps(expected)}"
            )


# Of these each launch has its own; the rest is what launches of one kernel source have in common.
OWN_FIELDS = ("blob", "sha256", "kernel", "block", "shared_bytes")


def share_launches(variants):
    """Moves what launches have in common into shared objects that they are `like`; returns these by name."""
    used = {}
    for variant in variants:
        for launch in variant["launches"]:
            body = {key: value for key, value in launch.items() if key not in OWN_FIELDS}
            if "blob" in launch:
                used.setdefault(json.dumps(body), []).append((variant, launch))
    shared = {}
    for text, users in used.items():
        if len(users) < 2:
            continue
        kernel = users[0][1]["kernel"]
        name = kernel if kernel not in shared else f"{kernel}_{len(shared)}"
        shared[name] = json.loads(text)
        for variant, launch in users:
            own = {key: launch[key] for key in OWN_FIELDS if key in launch}
            variant["launches"] = [{"like": name, **own} if one is launch else one for one in variant["launches"]]
    return shared


def expand_shared(manifest):
    """A manifest whose variants and launches say everything themselves."""

    def expanded(node):
        shared = manifest.get("shared", {}).get(node.get("like"), {})
        return {**shared, **{key: value for key, value in node.items() if key != "like"}}

    variants = [expanded(variant) for variant in manifest["variants"]]
    for variant in variants:
        variant["launches"] = [expanded(launch) for launch in variant["launches"]]
    return {**{key: value for key, value in manifest.items() if key != "shared"}, "variants": variants}


def make_manifest(plan, folder, meta_folder):
    facts, infos, hashes = {}, {}, {}
    for blob in plan["blobs"]:
        path = os.path.join(folder, blob["file"])
        infos[blob["file"]] = read_blob(path)
        hashes[blob["file"]] = hash_file(path)
        with open(os.path.join(meta_folder, blob["file"] + ".meta.json"), encoding="utf-8") as file:
            facts[blob["file"]] = json.load(file)
    variants = []
    for variant in plan["variants"]:
        launches = [
            finish_launch(
                launch, plan, facts.get(launch.get("blob"), {}), infos.get(launch.get("blob")), hashes.get(launch.get("blob"))
            )
            for launch in variant["launches"]
        ]
        entry = {"id": variant["id"], "type": variant["type"]}
        for key in ("config", "requires", "cost", "cost_us", "cost_ns", "max_error", "reproducible", "workspace"):
            if variant.get(key):
                entry[key] = variant[key]
        entry["launches"] = launches
        variants.append(entry)
    shared = share_launches(variants)
    return {
        "schema": SCHEMA,
        "operator": plan["operator"],
        "target": {"backend": plan["backend"], "arch": plan["arch"]},
        "built_by": "; ".join(sorted({fact["built_by"] for fact in facts.values()})),
        **({"shared": shared} if shared else {}),
        "variants": variants,
    }


def parameter_size(parameter, variant):
    """Size and alignment of a manifest parameter; None where only the operator's C++ type knows."""
    if isinstance(parameter, str):
        return (8, 8) if parameter in variant.get("workspace", {}) else None
    if "struct" in parameter:
        offset, widest = 0, 1
        for member in parameter["struct"]:
            size = parameter_size(member, variant)
            if size is None:
                return None
            offset = (offset + size[1] - 1) // size[1] * size[1] + size[0]
            widest = max(widest, size[1])
        align = parameter.get("align", widest)
        return (offset + align - 1) // align * align, align
    if "tensor_map" in parameter:
        return 128, 64
    if "null" in parameter:
        return parameter["null"], min(parameter["null"], 8) or 1
    for key, size in SIZES.items():
        if key in parameter:
            return size, size
    raise KernelBuildError(f"parameter {json.dumps(parameter)} is of no known kind")


def check_launch(launch, variant, info):
    """Yields what is wrong between a launch and the kernel it names."""
    kernel = info["kernels"].get(launch["kernel"])
    if kernel is None:
        yield no_kernel(launch["kernel"], info)
        return
    parameters = launch.get("parameters", [])
    found = kernel.get("parameters")
    if found is not None:
        if len(found) != len(parameters):
            yield f"kernel {launch['kernel']} takes {len(found)} parameters, the manifest lists {len(parameters)}"
        else:
            for index, (parameter, (offset, size)) in enumerate(zip(parameters, found)):
                expected = parameter_size(parameter, variant)
                if expected is not None and expected[0] != size:
                    yield (
                        f"kernel {launch['kernel']}: parameter {index} ({json.dumps(parameter)}) has {expected[0]} "
                        f"bytes, the kernel takes {size} at offset {offset}"
                    )
                if isinstance(parameter, dict) and {"pointer", "null"} & set(parameter) == {"pointer"}:
                    if not kernel.get("pointers", [True] * len(found))[index]:
                        yield f"kernel {launch['kernel']}: parameter {index} is no pointer"
    if kernel.get("abi", 1) != 1:
        yield f"kernel {launch['kernel']} has ABI {kernel['abi']}, expected 1"
    block = launch.get("block", [1, 1, 1])
    if all(isinstance(extent, int) for extent in block):
        threads = block[0] * block[1] * block[2]
        limit = kernel.get("max_threads")
        if limit and threads > limit[0] * limit[1] * limit[2]:
            yield f"kernel {launch['kernel']}: block of {threads} threads, compiled for at most {limit[0] * limit[1] * limit[2]}"
        flat = kernel.get("max_flat_threads")
        if flat and threads > flat:
            yield f"kernel {launch['kernel']}: block of {threads} threads, compiled for at most {flat}"
    if info["backend"] == "hip":
        last = max((offset + size for offset, size in found), default=0)
        if kernel["kernarg_bytes"] < last:
            yield f"kernel {launch['kernel']}: kernarg segment of {kernel['kernarg_bytes']} bytes ends before its arguments"
        expected = 64 if info["arch"].startswith("gfx9") else 32
        if kernel["wavefront_size"] != expected:
            yield f"kernel {launch['kernel']}: wavefront of {kernel['wavefront_size']}, expected {expected} on {info['arch']}"
        shared = launch.get("shared_bytes", 0)
        dynamic = shared if isinstance(shared, int) else 0
        if kernel["static_shared_bytes"] + dynamic > 65536 * (1 if info["arch"] != "gfx950" else 2.5):
            yield f"kernel {launch['kernel']}: {kernel['static_shared_bytes']} + {dynamic} bytes of LDS do not fit {info['arch']}"


def same_arch(manifest_arch, blob_arch):
    if manifest_arch == "any":
        return True
    plain = manifest_arch.rstrip("af")
    # A cubin of old tools does not say whether it uses architecture-specific features.
    return blob_arch in (manifest_arch, plain) or manifest_arch == blob_arch.rstrip("af")


def verify(path):
    """What is wrong between a manifest and its blobs, as sentences, so that a build fails instead of a call. `switchyard
    check` knows more: the operator's argument types, tensor maps, the limits of devices."""
    with open(path, encoding="utf-8") as file:
        manifest = expand_shared(json.load(file))
    folder = os.path.dirname(os.path.abspath(path))
    problems, infos = [], {}
    if manifest.get("schema") != SCHEMA:
        return [f"{path}: schema {manifest.get('schema')}, expected {SCHEMA}"]
    seen = set()
    for index, variant in enumerate(manifest["variants"]):
        place = f"{path}: /variants/{index} ({variant['id']})"
        key = (variant["id"], json.dumps(variant.get("type", {}), sort_keys=True))
        if key in seen:
            problems.append(f"{place}: id is there twice for type {key[1]}")
        seen.add(key)
        for launch in variant["launches"]:
            if "fill" in launch:
                if launch["fill"] not in variant.get("workspace", {}):
                    problems.append(f"{place}: fills '{launch['fill']}', which is no workspace")
                continue
            name = launch["blob"]
            blob_path = os.path.join(folder, name)
            try:
                if name not in infos:
                    if os.path.basename(name) != name:
                        raise KernelBuildError("a blob lies in its manifest's folder")
                    infos[name] = (read_blob(blob_path), hash_file(blob_path))
                info, digest = infos[name]
                if digest != launch["sha256"]:
                    problems.append(f"{place}: blob {name} has SHA-256 {digest}, the manifest says {launch['sha256']}")
                if info["backend"] != manifest["target"]["backend"] or not same_arch(manifest["target"]["arch"], info["arch"]):
                    problems.append(f"{place}: blob {name} is for {info['backend']}-{info['arch']}")
                problems += [f"{place}: blob {name}: {text}" for text in check_launch(launch, variant, info)]
            except (KernelBuildError, OSError) as error:
                problems.append(f"{place}: blob {name}: {error}")
    return problems
