"""Calls libswitchyard from Python's ctypes, as an engine in another language would: attention against f64.

  test_ctypes.py LIBRARY FOLDER      FOLDER has the built kernels
"""

import array
import ctypes
import math
import random
import sys
import unittest

from binding import Description, Options, Tensor, arguments, load


F32 = 2
OPERATORS = {"attention_forward": 21, "attention_decode": 19, "attention_backward": 20, "attention_dropout_mask": 5,
             "rotary": 15, "softmax": 4, "softmax_backward": 4, "rms_norm": None, "rms_norm_backward": None, "layer_norm": None,
             "layer_norm_backward": None, "gated_activation": None, "gated_activation_backward": None}


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
        self.assertEqual(library.switchyard_operator_open(self.catalog, b"attention_forward", b"host", ctypes.byref(op)), 0, self.text())
        heads, heads_kv, tokens, dim = 4, 2, 5, 64
        draw = random.Random(7)
        make = lambda count: array.array("f", [draw.gauss(0, 1) for _ in range(count)])
        q, k, v = make(tokens * heads * dim), make(tokens * heads_kv * dim), make(tokens * heads_kv * dim)
        out = array.array("f", [math.nan] * len(q))
        shape, shape_kv = (1, tokens, heads, dim), (1, tokens, heads_kv, dim)
        given = arguments(q=tensor(q, *shape), k=tensor(k, *shape_kv), v=tensor(v, *shape_kv), out=tensor(out, *shape),
                          mask="causal_bottom_right")
        self.assertEqual(library.switchyard_call(op, None, given, len(given)), 0, self.text())
        for i in range(tokens):
            for h in range(heads):
                g = h // (heads // heads_kv)
                scores = [sum(q[(i * heads + h) * dim + d] * k[(j * heads_kv + g) * dim + d] for d in range(dim)) / math.sqrt(dim)
                          for j in range(i + 1)]
                weights = [math.exp(each - max(scores)) for each in scores]
                for d in (0, 63):
                    wanted = sum(w * v[(j * heads_kv + g) * dim + d] for j, w in enumerate(weights)) / sum(weights)
                    self.assertAlmostEqual(out[(i * heads + h) * dim + d], wanted, 4)
        wrong = arguments(q=tensor(q, *shape), k=tensor(k, 1, tokens, heads_kv, 32), v=tensor(v, *shape_kv), out=tensor(out, *shape))
        self.assertEqual(library.switchyard_call(op, None, wrong, len(wrong)), 301)
        self.assertEqual(self.text(), "[switchyard.301] attention_forward: k [1, 5, 2, 32]: head_dim is 32, but 64 in q [1, 5, 4, 64]")
        wrong = arguments(q=tensor(q, *shape), k=tensor(k, *shape_kv), v=tensor(v, *shape_kv), out=tensor(out, *shape), mask="causal")
        self.assertEqual(library.switchyard_call(op, None, wrong, len(wrong)), 301)
        self.assertEqual(self.text(), "[switchyard.301] attention_forward: mask is 'causal'; known are none, causal_top_left, "
                                      "causal_bottom_right")
        wrong = arguments(q=tensor(q, *shape), k=tensor(k, *shape_kv), v=tensor(v, *shape_kv), out=tensor(out, *shape),
                          window_left=1 << 40)
        self.assertEqual(library.switchyard_call(op, None, wrong, len(wrong)), 301)
        self.assertIn("window_left is 1099511627776, which does not fit", self.text())
        library.switchyard_operator_close(op)

    def test_calls_by_names_reach_every_operator(self):
        """Each adapter reads its operator's tensors: without any, the first one is what is missing."""
        for name in OPERATORS:
            op = ctypes.c_void_p()
            self.assertEqual(self.library.switchyard_operator_open(self.catalog, name.encode(), b"host", ctypes.byref(op)), 0, self.text())
            self.assertEqual(self.library.switchyard_call(op, None, arguments(), 0), 301, name)
            self.assertIn("has 0 dimensions instead of", self.text())
            self.library.switchyard_operator_close(op)


if __name__ == "__main__":
    LIBRARY, FOLDER = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
