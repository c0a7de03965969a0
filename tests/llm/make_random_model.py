#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a GGUF file of a model with random weights: the shape of a real one, for measuring its speed.

    python3 make_random_model.py --shape llama-3.1-8b --format q4_k llama.gguf

The weights repeat a random block of a mebibyte, whose scales keep all states finite. Needs nothing but Python.
"""

import argparse
import math
import random
import struct
import sys

# width, width of the feed-forward block, layers, query heads, KV heads, head dim, vocabulary
SHAPES = {
    "llama-3.1-8b": (4096, 14336, 32, 32, 8, 128, 128256),
    "llama-3.2-1b": (2048, 8192, 16, 32, 8, 64, 128256),
    "tiny": (512, 1024, 2, 4, 2, 128, 512),
}
# Number in the file, weights of a block, bytes of a block.
FORMATS = {
    "f32": (0, 1, 4),
    "f16": (1, 1, 2),
    "bf16": (30, 1, 2),
    "q8_0": (8, 32, 34),
    "q4_0": (2, 32, 18),
    "q4_k": (12, 256, 144),
    "q6_k": (14, 256, 210),
    "q5_k": (13, 256, 176),
    "iq4_nl": (20, 32, 18),
    "mxfp4": (39, 32, 17),
    "q5_0": (6, 32, 22),
    "q5_1": (7, 32, 24),
}
ALIGNMENT = 32


def half(value):
    return struct.pack("<e", value)


def random_blocks(generator, name, deviation):
    """About a mebibyte of whole blocks, whose weights have about this deviation. Rows of no usual width divide it."""
    _, _, size = FORMATS[name]
    count = (1 << 20) // size - 3
    if name == "f32":
        return struct.pack(f"<{count}f", *(generator.gauss(0, deviation) for _ in range(count)))
    if name in ("f16", "bf16"):
        values = [generator.gauss(0, deviation) for _ in range(count)]
        if name == "f16":
            return struct.pack(f"<{count}e", *values)
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    data = bytearray(generator.randbytes(count * size))

    def put(offset, value):
        """The same f16 in every block: random quants alone make the weights differ."""
        for i, byte in enumerate(half(value)):
            data[offset + i :: size] = bytes([byte]) * count

    if name == "q8_0":
        put(0, deviation / 74)  # the deviation of a random byte
    elif name == "q4_0":
        put(0, deviation / 4.6)
    elif name == "q4_k":
        # w = d s q - m t with 6-bit s and t; q is 7.5 on average, so that m = 7.5 d leaves little of the mean.
        put(0, deviation / 220)
        put(2, 7.5 * deviation / 220)
    elif name == "q6_k":
        put(208, deviation / 1366)
    elif name == "q5_k":
        put(0, deviation / 528)
        put(2, 15.5 * deviation / 528)
    elif name == "iq4_nl":
        put(0, deviation / 67.4)
    elif name == "mxfp4":
        # The deviation of a random number of e2m1 is 2.93; the nearest power of two.
        data[0::size] = bytes([127 + round(math.log2(deviation / 2.93))]) * count
    elif name == "q5_0":
        put(0, deviation / 9.2)
    elif name == "q5_1":
        put(0, deviation / 9.2)
        put(2, -15.5 * deviation / 9.2)
    return bytes(data)


class Writer:
    """Metadata and tensors of a GGUF file, written as they come."""

    def __init__(self):
        self.metadata, self.tensors, self.bytes = [], [], 0

    @staticmethod
    def string(text):
        data = text.encode()
        return struct.pack("<Q", len(data)) + data

    def set(self, key, kind, value):
        numbers = {"u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f")}
        if kind == "string":
            packed = struct.pack("<I", 8) + self.string(value)
        elif kind == "strings":
            packed = struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(self.string, value))
        elif kind == "integers":
            packed = struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
        else:
            number, pattern = numbers[kind]
            packed = struct.pack("<I", number) + struct.pack(pattern, value)
        self.metadata.append(self.string(key) + packed)

    def add(self, name, kind, extents, source=None):
        """Extents are innermost first. write() asks for the data of `source`, else of `kind`."""
        number, elements, size = FORMATS[kind]
        if extents[0] % elements:
            sys.exit(f"{name}: {extents[0]} columns are no multiple of {elements}, the block of {kind}")
        count = 1
        for extent in extents:
            count *= extent
        entry = self.string(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, number, self.bytes)
        self.tensors.append((entry, source or kind, count // elements * size))
        self.bytes += -(-self.tensors[-1][2] // ALIGNMENT) * ALIGNMENT

    def write(self, path, data_of):
        with open(path, "wb", buffering=0) as file:
            head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.metadata))
            head += b"".join(self.metadata) + b"".join(entry for entry, _, _ in self.tensors)
            write_all(file, head + bytes(-len(head) % ALIGNMENT))
            for _, source, size in self.tensors:
                block = data_of(source)
                for _ in range(size // len(block)):
                    write_all(file, block)
                write_all(file, block[: size % len(block)] + bytes(-size % ALIGNMENT))


def write_all(file, data):
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def byte_character(byte):
    """The character that stands for a byte in byte-level vocabularies."""

    def printable(value):
        return 0x21 <= value <= 0x7E or 0xA1 <= value != 0xAD

    return chr(byte if printable(byte) else 0x100 + sum(not printable(below) for below in range(byte)))


def add_tokenizer(file, vocabulary):
    """Bytes, and tokens that no text gives."""
    tokens = [byte_character(byte) for byte in range(256)]
    tokens += [f"<|unused_{i}|>" for i in range(256, vocabulary)]
    file.set("tokenizer.ggml.model", "string", "gpt2")
    file.set("tokenizer.ggml.pre", "string", "gpt-2")
    file.set("tokenizer.ggml.tokens", "strings", tokens)
    file.set("tokenizer.ggml.token_type", "integers", [1] * 256 + [5] * (vocabulary - 256))
    file.set("tokenizer.ggml.merges", "strings", [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path")
    parser.add_argument("--shape", choices=SHAPES, default="llama-3.1-8b")
    parser.add_argument("--format", choices=FORMATS, default="bf16", help="of all matrices")
    parser.add_argument("--output-format", choices=FORMATS, help="of the output matrix and the embedding's table")
    parser.add_argument("--layers", type=int, help="in place of the shape's")
    parser.add_argument("--context", type=int, default=131072)
    parser.add_argument("--seed", type=int, default=1)
    with_ = parser.parse_args()
    width, inner, layers, heads, heads_kv, head_dim, vocabulary = SHAPES[with_.shape]
    layers = layers if with_.layers is None else with_.layers
    ends = with_.output_format or with_.format

    file = Writer()
    file.set("general.architecture", "string", "llama")
    file.set("general.name", "string", f"{with_.shape} with random weights")
    for key, value in [
        ("block_count", layers),
        ("context_length", with_.context),
        ("embedding_length", width),
        ("feed_forward_length", inner),
        ("attention.head_count", heads),
        ("attention.head_count_kv", heads_kv),
        ("attention.key_length", head_dim),
        ("rope.dimension_count", head_dim),
    ]:
        file.set(f"llama.{key}", "u32", value)
    file.set("llama.attention.layer_norm_rms_epsilon", "f32", 1e-5)
    file.set("llama.rope.freq_base", "f32", 500000.0)
    add_tokenizer(file, vocabulary)
    file.add("token_embd.weight", ends, [width, vocabulary])
    for layer in range(layers):
        for name, rows, columns in [
            ("attn_q", heads * head_dim, width),
            ("attn_k", heads_kv * head_dim, width),
            ("attn_v", heads_kv * head_dim, width),
            ("attn_output", width, heads * head_dim),
            ("ffn_gate", inner, width),
            ("ffn_up", inner, width),
            ("ffn_down", width, inner),
        ]:
            file.add(f"blk.{layer}.{name}.weight", with_.format, [columns, rows])
        for name in ("attn_norm", "ffn_norm"):
            file.add(f"blk.{layer}.{name}.weight", "f32", [width], "ones")
    file.add("output_norm.weight", "f32", [width], "ones")
    file.add("output.weight", ends, [width, vocabulary])

    generator = random.Random(with_.seed)
    blocks = {"ones": struct.pack("<f", 1.0) * (1 << 18)}

    def data_of(source):
        if source not in blocks:
            blocks[source] = random_blocks(generator, source, 0.02)
        return blocks[source]

    file.write(with_.path, data_of)


if __name__ == "__main__":
    main()
