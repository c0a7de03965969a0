#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares devices/hip/api.hpp with AMD's header of ROCm 6 and newer, as PyPI's tinygrad carries its numbers and layouts:
test_declarations.py <api.hpp>, with a python that has tinygrad. Where AMD's header itself is, declarations.cpp compares all.
"""

import pathlib
import re
import sys

from tinygrad.runtime.autogen import hip

ENUMERATORS = {
    "result": {
        "success": "hipSuccess",
        "invalid_value": "hipErrorInvalidValue",
        "out_of_memory": "hipErrorOutOfMemory",
        "insufficient_driver": "hipErrorInsufficientDriver",
        "no_device": "hipErrorNoDevice",
        "invalid_device": "hipErrorInvalidDevice",
        "not_found": "hipErrorNotFound",
        "not_ready": "hipErrorNotReady",
        "not_supported": "hipErrorNotSupported",
        "stream_capture_unsupported": "hipErrorStreamCaptureUnsupported",
        "captured_event": "hipErrorCapturedEvent",
    },
    "device_query": {
        "clock_khz": "hipDeviceAttributeClockRate",
        "cooperative_launch": "hipDeviceAttributeCooperativeLaunch",
        "l2_bytes": "hipDeviceAttributeL2CacheSize",
        "max_threads_per_block": "hipDeviceAttributeMaxThreadsPerBlock",
        "max_threads_per_multiprocessor": "hipDeviceAttributeMaxThreadsPerMultiProcessor",
        "memory_bus_bits": "hipDeviceAttributeMemoryBusWidth",
        "memory_clock_khz": "hipDeviceAttributeMemoryClockRate",
        "multiprocessors": "hipDeviceAttributeMultiprocessorCount",
        "max_shared_bytes_per_block": "hipDeviceAttributeMaxSharedMemoryPerBlock",
        "warp_size": "hipDeviceAttributeWarpSize",
        "max_shared_bytes_per_multiprocessor": "hipDeviceAttributeMaxSharedMemoryPerMultiprocessor",
    },
    "capture": {"none": "hipStreamCaptureStatusNone", "relaxed": "hipStreamCaptureModeRelaxed"},
}


def constants(text, namespace):
    body = re.search(rf"^namespace {namespace} \{{\n(.*?)^\}}", text, re.MULTILINE | re.DOTALL).group(1)
    return {name: int(value) for name, value in re.findall(r"inline constexpr \S+ (\w+) = (\d+);", body)}


def main():
    text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    checks, failures = 0, 0

    def same(what, ours, theirs):
        nonlocal checks, failures
        checks += 1
        if ours != theirs:
            failures += 1
            print(f"{what} is {ours} in api.hpp, {theirs} in AMD's header")

    for namespace, names in ENUMERATORS.items():
        found = constants(text, namespace)
        same(f"the names of {namespace}", sorted(found), sorted(names))
        for name, theirs in names.items():
            same(theirs, found.get(name), int(getattr(hip, theirs)))
    layout = constants(text, "property_layout")
    fields = {name: (kind, offset) for name, kind, offset, *_ in hip.hipDeviceProp_tR0600._real_fields_}
    same("the place of hipDeviceProp_tR0600::gcnArchName", layout["architecture_since_6"], fields["gcnArchName"][1])
    print(f"{checks} checks, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
