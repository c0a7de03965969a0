# SPDX-License-Identifier: MIT
"""Calls libswitchyard from Python's ctypes, as an engine in another language would: attention against f64.

test_ctypes.py LIBRARY FOLDER      FOLDER has the built kernels
"""

import array
import ctypes
import json
import math
import os
import random
import struct
import sys
import tempfile
import unittest

from binding import Accept, AllOptions, Description, Options, Tensor, arguments, load

BF16, F32, E4M3, I32 = 1, 2, 4, 7
OPERATORS = {
    "attention_forward": 24,
    "attention_decode": 22,
    "attention_backward": 22,
    "attention_dropout_mask": 5,
    "rotary": 15,
    "softmax": 4,
    "softmax_backward": 4,
    "rms_norm": None,
    "rms_norm_backward": None,
    "layer_norm": None,
    "layer_norm_backward": None,
    "gated_activation": None,
    "gated_activation_backward": None,
    "matmul_quantized": 10,
    "embedding": None,
    "rotary_cache": None,
}
# What a call without tensors must have besides.
BESIDES = {"matmul_quantized": {"w_rows": 0, "w_columns": 0}, "embedding": {"table_rows": 0, "table_columns": 0}}


def tensor(values, *extents):
    out = Tensor(ctypes.sizeof(Tensor), values.buffer_info()[0], F32, len(extents))
    stride = 1
    for i in reversed(range(len(extents))):
        out.extents[i], out.strides[i] = extents[i], stride
        stride *= extents[i]
    return out


class Ctypes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = load(LIBRARY)
        cls.catalog = ctypes.c_void_p()
        roots = (ctypes.c_char_p * 1)(FOLDER.encode())
        options = Options(ctypes.sizeof(Options), roots, 1, 0, 0)
        assert cls.library.switchyard_open(ctypes.byref(options), ctypes.byref(cls.catalog)) == 0, cls.text()

    @classmethod
    def tearDownClass(cls):
        cls.library.switchyard_close(cls.catalog)

    @classmethod
    def text(cls):
        return cls.library.switchyard_last_error_text().decode()

    def test_operators_are_described(self):
        for name, axes in OPERATORS.items():
            out = Description(ctypes.sizeof(Description))
            self.assertEqual(self.library.switchyard_describe(name.encode(), ctypes.byref(out)), 0, self.text())
            self.assertEqual(out.name.decode(), name)
            if axes is not None:
                self.assertEqual(out.axis_count, axes, name)

    def test_attention(self):
        op = ctypes.c_void_p()
        library = self.library
        self.assertEqual(
            library.switchyard_operator_open(self.catalog, b"attention_forward", b"host", ctypes.byref(op)), 0, self.text()
        )
        heads, heads_kv, tokens, dim = 4, 2, 5, 64
        draw = random.Random(7)
        make = lambda count: array.array("f", [draw.gauss(0, 1) for _ in range(count)])
        q, k, v = make(tokens * heads * dim), make(tokens * heads_kv * dim), make(tokens * heads_kv * dim)
        out = array.array("f", [math.nan] * len(q))
        shape, shape_kv = (1, tokens, heads, dim), (1, tokens, heads_kv, dim)
        given = arguments(
            q=tensor(q, *shape),
            k=tensor(k, *shape_kv),
            v=tensor(v, *shape_kv),
            out=tensor(out, *shape),
            mask="causal_bottom_right",
        )
        self.assertEqual(library.switchyard_call(op, None, given, len(given)), 0, self.text())
        for i in range(tokens):
            for h in range(heads):
                g = h // (heads // heads_kv)
                scores = [
                    sum(q[(i * heads + h) * dim + d] * k[(j * heads_kv + g) * dim + d] for d in range(dim)) / math.sqrt(dim)
                    for j in range(i + 1)
                ]
                weights = [math.exp(score - max(scores)) for score in scores]
                for d in (0, 63):
                    wanted = sum(w * v[(j * heads_kv + g) * dim + d] for j, w in enumerate(weights)) / sum(weights)
                    self.assertAlmostEqual(out[(i * heads + h) * dim + d], wanted, 4)
        wrong = arguments(
            q=tensor(q, *shape), k=tensor(k, 1, tokens, heads_kv, 32), v=tensor(v, *shape_kv), out=tensor(out, *shape)
        )
        self.assertEqual(library.switchyard_call(op, None, wrong, len(wrong)), 301)
        self.assertEqual(
            self.text(), "[switchyard.301] attention_forward: k [1, 5, 2, 32]: head_dim is 32, but 64 in q [1, 5, 4, 64]"
        )
        wrong = arguments(
            q=tensor(q, *shape), k=tensor(k, *shape_kv), v=tensor(v, *shape_kv), out=tensor(out, *shape), mask="causal"
        )
        self.assertEqual(library.switchyard_call(op, None, wrong, len(wrong)), 301)
        self.assertEqual(
            self.text(),
            "[switchyard.301] attention_forward: mask is 'causal'; known are none, causal_top_left, causal_bottom_right",
        )
        wrong = arguments(
            q=tensor(q, *shape), k=tensor(k, *shape_kv), v=tensor(v, *shape_kv), out=tensor(out, *shape), window_left=1 << 40
        )
        self.assertEqual(library.switchyard_call(op, None, wrong, len(wrong)), 301)
        self.assertIn("window_left is 1099511627776, which does not fit", self.text())
        library.switchyard_operator_close(op)

    def open(self, name):
        op = ctypes.c_void_p()
        self.assertEqual(self.library.switchyard_operator_open(self.catalog, name, b"host", ctypes.byref(op)), 0, self.text())
        self.addCleanup(self.library.switchyard_operator_close, op)
        return op

    def call(self, op, **given):
        given = arguments(**given)
        return self.library.switchyard_call(op, None, given, len(given))

    def test_latent_cache_of_rows(self):
        """Rows of 656 bytes: 512 numbers in e4m3, a scale for each 128 of them, and 64 rotary columns in bf16."""
        tokens, heads = 2, 16
        cache = bytearray(tokens * 656)
        for j in range(tokens):  # numbers of 1, and a scale for each token and group
            scales = [(j + 1) * (g + 1) for g in range(4)]
            struct.pack_into("<512B4f64H", cache, j * 656, *[0x38] * 512, *scales, *[0] * 64)
        buffers = [(ctypes.c_char * len(data)).from_buffer(data) for data in (cache, bytearray(heads * 576 * 2))]
        out = array.array("H", [0xFFFF] * (heads * 512))

        def view(address, dtype, extents, strides):
            made = Tensor(ctypes.sizeof(Tensor), address, dtype, len(extents))
            made.extents[: len(extents)], made.strides[: len(strides)] = extents, strides
            return made

        rows, q = (ctypes.addressof(buffer) for buffer in buffers)
        keys = view(rows, E4M3, (1, tokens, 1, 512), (tokens * 656, 656, 512, 1))
        given = {
            "q": view(q, BF16, (1, 1, heads, 576), (heads * 576, heads * 576, 576, 1)),  # zeros: all keys weigh the same
            "k": keys,
            "v": keys,
            "out": view(out.buffer_info()[0], BF16, (1, 1, heads, 512), (heads * 512, heads * 512, 512, 1)),
            "k_scale": view(rows + 512, F32, (1, tokens, 4), (tokens * 164, 164, 1)),
            "k_rotary": view(rows + 528, BF16, (1, tokens, 64), (tokens * 328, 328, 1)),
        }
        op = self.open(b"attention_decode")
        self.assertEqual(self.call(op, **given), 0, self.text())
        wanted = [struct.unpack("<2H", struct.pack("<f", 1.5 * (d // 128 + 1)))[1] for d in range(512)] * heads
        self.assertEqual(out.tolist(), wanted)
        given["k_rotary"] = view(rows + 528, BF16, (1, tokens, 32), (tokens * 328, 328, 1))
        self.assertEqual(self.call(op, **given), 301)
        self.assertIn("head_dim must be head_dim_v + rotary_dim with k_rotary: it is 576, they are 512 and 32", self.text())

    def test_weights(self):
        """Weights of a format are a pointer with its rows and columns: q8_0 has an f16 scale before 32 integers."""
        draw = random.Random(8)
        rows, inner, wanted = 3, 64, 8
        x = array.array("f", [draw.gauss(0, 1) for _ in range(rows * inner)])
        integers = [[draw.randint(-127, 127) for _ in range(inner)] for _ in range(wanted + 1)]
        stride = inner // 32 * 34 + 2
        weights = bytearray(stride * (wanted + 1))
        for i, row in enumerate(integers):
            for block in range(inner // 32):
                struct.pack_into("<e32b", weights, i * stride + block * 34, 0.25 * (block + 1), *row[block * 32 :][:32])
        value = lambda i, j: integers[i][j] * 0.25 * (j // 32 + 1)
        buffer = (ctypes.c_char * len(weights)).from_buffer(weights)
        w = {
            "weights": "q8_0",
            "w": ctypes.c_void_p(ctypes.addressof(buffer)),
            "w_rows": wanted,
            "w_columns": inner,
            "w_stride_bytes": stride,
        }
        out = array.array("f", [math.nan] * (rows * wanted))
        op = self.open(b"matmul_quantized")
        self.assertEqual(self.call(op, x=tensor(x, rows, inner), out=tensor(out, rows, wanted), **w), 0, self.text())
        for r in range(rows):
            for i in range(wanted):
                terms = [x[r * inner + j] * value(i, j) for j in range(inner)]
                self.assertAlmostEqual(out[r * wanted + i], sum(terms), delta=1e-4 * sum(map(abs, terms)))
        self.assertEqual(self.call(op, x=tensor(x, rows, inner), out=tensor(out, rows, wanted), **{**w, "w_columns": 32}), 301)
        self.assertIn("matmul_quantized: w is [8, 32], but x and out ask for [8, 64]", self.text())
        del w["w_rows"]
        self.assertEqual(self.call(op, x=tensor(x, rows, inner), out=tensor(out, rows, wanted), **w), 301)
        self.assertIn("w needs w_rows and w_columns, which must not be negative", self.text())

        ids = array.array("i", [5, 0])
        ids_view = Tensor(ctypes.sizeof(Tensor), ids.buffer_info()[0], I32, 1, (ctypes.c_int64 * 5)(2), (ctypes.c_int64 * 5)(1))
        found = array.array("f", [math.nan] * (2 * inner))
        table = {
            "weights": "q8_0",
            "table": ctypes.c_void_p(ctypes.addressof(buffer)),
            "table_rows": wanted + 1,
            "table_columns": inner,
            "table_stride_bytes": stride,
        }
        self.assertEqual(self.call(self.open(b"embedding"), ids=ids_view, out=tensor(found, 2, inner), **table), 0, self.text())
        self.assertEqual(list(found), [value(i, j) for i in ids for j in range(inner)])

    def test_calls_by_names_reach_every_operator(self):
        """Each adapter reads its operator's tensors: without any, the first one is what is missing."""
        for name in OPERATORS:
            op = ctypes.c_void_p()
            self.assertEqual(
                self.library.switchyard_operator_open(self.catalog, name.encode(), b"host", ctypes.byref(op)), 0, self.text()
            )
            given = arguments(**BESIDES.get(name, {}))
            self.assertEqual(self.library.switchyard_call(op, None, given, len(given)), 301, name)
            self.assertIn("has 0 dimensions instead of", self.text())
            self.library.switchyard_operator_close(op)

    def open_all(self, **given):
        catalog = ctypes.c_void_p()
        roots = (ctypes.c_char_p * 1)(FOLDER.encode())
        options = AllOptions(ctypes.sizeof(AllOptions), roots, 1, **given)
        self.assertEqual(self.library.switchyard_open(ctypes.byref(options), ctypes.byref(catalog)), 0, self.text())
        self.addCleanup(self.library.switchyard_close, catalog)
        return catalog

    def read(self, function, *given):
        """A text of any length."""
        length = ctypes.c_size_t()
        self.assertEqual(function(*given, None, 0, ctypes.byref(length)), 0, self.text())
        text = ctypes.create_string_buffer(length.value + 1)
        self.assertEqual(function(*given, text, len(text), None), 0, self.text())
        return text.value.decode()

    def test_live_measuring(self):
        library = self.library
        catalog = self.open_all(live_one_in=2)
        op = ctypes.c_void_p()
        self.assertEqual(library.switchyard_operator_open(catalog, b"softmax", b"host", ctypes.byref(op)), 0, self.text())
        self.addCleanup(library.switchyard_operator_close, op)
        values, out = array.array("f", [1, 2, 3, 4]), array.array("f", [0] * 4)
        given = arguments(x=tensor(values, 1, 4), out=tensor(out, 1, 4))
        for _ in range(9):
            self.assertEqual(library.switchyard_call(op, None, given, len(given)), 0, self.text())
        self.assertEqual(library.switchyard_poll_live(catalog), 0)
        self.assertRegex(self.read(library.switchyard_live, catalog), r"softmax \{dtype=f32 .* us in 4 calls")
        self.assertIn("softmax {dtype=f32", self.read(library.switchyard_fingerprint_of_choices, catalog))
        before = list(out)
        outcome, text = ctypes.c_int32(-1), ctypes.create_string_buffer(1024)
        compare = (op, None, given, len(given), 1, ctypes.byref(outcome), text, len(text), None)
        self.assertEqual(library.switchyard_compare_live(*compare), 0, self.text())
        self.assertEqual(outcome.value, 0, text.value)
        self.assertIn(b" us, '", text.value)
        self.assertEqual(list(out), before)
        with tempfile.TemporaryDirectory() as folder:
            count = ctypes.c_uint64()
            self.assertEqual(
                library.switchyard_write_live_tables(catalog, folder.encode(), ctypes.byref(count)), 0, self.text()
            )
            self.assertEqual(count.value, 1)
            (name,) = os.listdir(os.path.join(folder, "softmax"))
            with open(os.path.join(folder, "softmax", name), encoding="utf-8") as file:
                self.assertEqual(len(json.load(file)["groups"][0]["rows"][0]["times_us"]), 2)
        self.assertEqual(library.switchyard_compare_live(op, None, given, len(given), 0, None, None, 0, None), 301)
        self.assertIn("runner_up is 0", self.text())

    def test_fingerprints(self):
        library = self.library
        one = self.read(library.switchyard_fingerprint, self.catalog, b"softmax", b"host")
        self.assertEqual(self.read(library.switchyard_fingerprint, self.open_all(), b"softmax", b"host"), one)
        other = self.read(library.switchyard_fingerprint, self.catalog, b"rms_norm", b"host")
        self.assertEqual(self.read(library.switchyard_compare_fingerprints, one.encode(), one.encode()), "")
        self.assertNotEqual(self.read(library.switchyard_compare_fingerprints, one.encode(), other.encode()), "")
        self.assertGreater(len(self.read(library.switchyard_fingerprint, self.catalog, None, b"host")), len(one))
        self.assertEqual(library.switchyard_fingerprint(self.catalog, b"softmax", b"cpu", None, 0, None), 301)

    def test_files_are_refused(self):
        seen = []

        def refuse(_context, _bytes, length, path, why, _capacity):
            seen.append((length, path))
            ctypes.memmove(why, b"no signature\0", 13)
            return 1

        callback = Accept(refuse)  # kept as long as the catalog may call it
        catalog = self.open_all(accept=callback)
        op = ctypes.c_void_p()
        self.assertEqual(self.library.switchyard_operator_open(catalog, b"softmax", b"host", ctypes.byref(op)), 0, self.text())
        self.addCleanup(self.library.switchyard_operator_close, op)
        values = array.array("f", [1, 2, 3, 4])
        given = arguments(x=tensor(values, 1, 4), out=tensor(values, 1, 4))
        self.assertEqual(self.library.switchyard_call(op, None, given, len(given)), 302)
        self.assertTrue(seen)
        self.assertTrue(all(length > 0 and path.endswith(b".json") for length, path in seen))

    def test_canary(self):
        tables = (ctypes.c_char_p * 1)(b"/no/such/folder")
        catalog = self.open_all(canary_tables=tables, canary_table_count=1, canary_share=0.5)
        self.assertEqual(self.library.switchyard_set_canary_share(catalog, 0.0), 0, self.text())
        self.assertEqual(self.library.switchyard_set_canary_share(catalog, 2.0), 301)
        self.assertIn("must be 0 to 1", self.text())


if __name__ == "__main__":
    LIBRARY, FOLDER = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
