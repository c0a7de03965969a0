# SPDX-License-Identifier: MIT
"""vLLM's backend: forward() on paged caches against attention in float64, what batches become, and those that are refused."""

import math
from types import SimpleNamespace

import pytest
import reference
import torch
from test_attention import compare

pytest.importorskip("vllm.v1.attention.backend", reason="vLLM cannot be imported", exc_type=ImportError)

from switchyard.vllm._cache import pages_of
from switchyard.vllm.backend import SwitchyardBackend
from vllm.v1.attention.backend import AttentionCGSupport, AttentionType, CommonAttentionMetadata
from vllm.v1.kv_cache_layout import KVCacheLayout

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HEADS, HEADS_KV, HEAD_SIZE, BLOCK, BLOCKS = 4, 2, 32, 16, 24
TOLERANCES = {torch.bfloat16: 2e-2, torch.float16: 3e-3}
# Tokens of each sequence, and how many are in the cache before them.
BATCHES = {
    "decodes": [(1, 5), (1, 60), (1, 0), (1, 15), (1, 16)],
    "verification": [(4, 12), (4, 30)],
    "prompts": [(33, 0), (7, 0), (16, 0)],
    "chunks": [(9, 30), (20, 16)],
    "mixed": [(1, 20), (1, 3), (17, 0), (9, 30)],
    "unequal": [(2, 9), (3, 1), (1, 0)],
}
OPTIONS = {
    "plain": {},
    "scale": {"scale": 0.3},
    "window": {"sliding_window": 6},
    "soft cap": {"logits_soft_cap": 5.0},
    "slopes": {"alibi_slopes": [0.5, 0.25, 0.125, 0.0625]},
    "sinks": {"sinks": torch.tensor([0.5, -1.0, 2.0, 0.0], dtype=torch.bfloat16)},
    "window and sinks": {"sliding_window": 17, "sinks": torch.tensor([0.5, -1.0, 2.0, 0.0])},
}


@pytest.fixture(autouse=True)
def on_the_device():
    """As vLLM builds its layers."""
    with DEVICE:
        yield


def config(drafted=None):
    speculative = drafted and SimpleNamespace(num_speculative_tokens=drafted, parallel_drafting=False)
    return SimpleNamespace(
        speculative_config=speculative,
        use_v2_model_runner=False,
        parallel_config=SimpleNamespace(decode_context_parallel_size=1),
    )


def builder(drafted=None):
    return SwitchyardBackend.get_builder_cls()(
        SimpleNamespace(block_size=BLOCK), ["layer"], config(drafted), torch.device("cpu")
    )


def layer_of(k_scale=1.0, v_scale=1.0):
    return SimpleNamespace(_k_scale=torch.tensor(k_scale), _v_scale=torch.tensor(v_scale))


def impl(cache="auto", **options):
    options = {"scale": HEAD_SIZE**-0.5, "num_kv_heads": HEADS_KV, "kv_cache_dtype": cache, **options}
    if "sinks" in options:
        options["sinks"] = options["sinks"].to(DEVICE)
    return SwitchyardBackend.get_impl_cls()(HEADS, HEAD_SIZE, **options)


def common(batch, slots, table, pad_tokens=0, pad_sequences=0, **others):
    """vLLM's metadata of a step, padded as for a graph: sequences without tokens or keys, tokens without slots."""
    lengths = [n for n, _ in batch] + [0] * pad_sequences
    starts = torch.tensor([0, *lengths]).cumsum(0).int()
    table = torch.cat([table, torch.zeros(pad_sequences, table.shape[1], dtype=torch.int32)])
    used = [n + before for n, before in batch]
    return CommonAttentionMetadata(
        query_start_loc=starts,
        query_start_loc_cpu=starts.cpu(),
        seq_lens=torch.tensor(used + [0] * pad_sequences, dtype=torch.int32),
        num_reqs=len(lengths),
        num_actual_tokens=sum(lengths) + pad_tokens,
        max_query_len=max(lengths),
        max_seq_len=max(used) + 3,  # vLLM: may be an upper bound
        block_table_tensor=table,
        slot_mapping=torch.cat([slots, torch.full((pad_tokens,), -1)]),
        **others,
    )


def cache_of(layout, dtype, layers=2):
    """Layer 1 of a cache in NaN, [blocks, heads_kv, block_size, 2 * head_size], with the layout's order in memory."""
    logical = (layers, BLOCKS, HEADS_KV, BLOCK, 2 * HEAD_SIZE)
    order = layout.stride_order
    memory = torch.full([logical[d] for d in order], math.nan).to(dtype)
    return memory.permute([order.index(d) for d in range(5)])[1]


class Sequences:
    """Random keys and values of a batch, and random blocks for them."""

    def __init__(self, batch, dtype):
        self.batch = batch
        self.k, self.v = ([torch.randn(n + before, HEADS_KV, HEAD_SIZE).to(dtype) for n, before in batch] for _ in range(2))
        blocks = torch.randperm(BLOCKS - 1, dtype=torch.int32) + 1  # block 0 is vLLM's null block
        self.table = torch.zeros(len(batch), 5, dtype=torch.int32)
        first = 0
        for row, keys in zip(self.table, self.k):
            count = -(-len(keys) // BLOCK)
            row[:count] = blocks[first : first + count]
            first += count

    def slots(self, new):
        """Of the tokens of the step, or of those before them."""
        out = []
        for row, (n, before) in zip(self.table, self.batch):
            at = torch.arange(before, before + n) if new else torch.arange(before)
            out.append(row[at // BLOCK].long() * BLOCK + at % BLOCK)
        return torch.cat(out)

    def forget(self, window):
        """Puts vLLM's null block in the place of blocks that no query of the step sees."""
        for row, (_, before) in zip(self.table, self.batch):
            row[: max(0, before - window + 1) // BLOCK] = 0

    def tokens(self, of, new):
        return torch.cat([x[before:] if new else x[:before] for x, (_, before) in zip(of, self.batch)])


def judge(q, of, options, stored=lambda x, _: x.double()):
    """In float64, sequence by sequence. `stored`: what the cache holds of keys and values."""
    window = options.get("sliding_window")
    slopes, sinks = options.get("alibi_slopes"), options.get("sinks")
    out = []
    for x, k, v in zip(q.split([n for n, _ in of.batch]), of.k, of.v):
        q64, k64, v64 = (tensor.transpose(0, 1)[None] for tensor in (x.double(), stored(k, "k"), stored(v, "v")))
        result, _ = reference.attention(
            q64, k64, v64, mask="causal_bottom_right", window=(-1 if window is None else window - 1, -1),
            scale=options.get("scale"), soft_cap=options.get("logits_soft_cap", 0.0),
            alibi=None if slopes is None else torch.tensor(slopes, dtype=torch.float64),
            sinks=None if sinks is None else sinks.to(DEVICE).double())  # fmt: skip
        out.append(result[0].transpose(0, 1))
    return torch.cat(out)


def step(batch, options, dtype, layout=KVCacheLayout.LBNHC, cache="auto", drafted=None, scales=(1.0, 1.0), pad_tokens=0,
         pad_sequences=0):  # fmt: skip
    """One step of a layer, as vLLM calls it. Returns queries, the sequences, the result and the metadata."""
    mine, layer = impl(cache, **options), layer_of(*scales)
    kv_cache = cache_of(layout, torch.float8_e4m3fn if cache.startswith("fp8") else dtype)
    if cache.startswith("fp8"):
        kv_cache = kv_cache.view(torch.uint8)  # as vLLM allocates it
    of = Sequences(batch, dtype)
    mine.do_kv_cache_update(layer, of.tokens(of.k, False), of.tokens(of.v, False), kv_cache, of.slots(False))
    if "sliding_window" in options:
        of.forget(options["sliding_window"])
    given = common(batch, of.slots(True), of.table, pad_tokens, pad_sequences)
    tokens = given.num_actual_tokens
    k, v = (torch.cat([of.tokens(x, True), torch.full((pad_tokens, HEADS_KV, HEAD_SIZE), math.nan, dtype=dtype)])
            for x in (of.k, of.v))  # fmt: skip
    mine.do_kv_cache_update(layer, k, v, kv_cache, given.slot_mapping)
    q = torch.randn(tokens, HEADS, HEAD_SIZE).to(dtype)
    out = torch.full((tokens + 2, HEADS, HEAD_SIZE), math.nan, dtype=dtype)
    metadata = builder(drafted).build(0, given)
    assert mine.forward(layer, q, k, v, kv_cache, metadata, out) is out
    assert out[tokens:].isnan().all()
    real = tokens - pad_tokens
    return q[:real], of, out[:real], metadata


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_forward(batch, options, dtype):
    drafted = 3 if batch == "verification" else None
    q, of, out, _ = step(BATCHES[batch], OPTIONS[options], dtype, drafted=drafted)
    compare(out, judge(q, of, OPTIONS[options]), TOLERANCES[dtype])


@pytest.mark.parametrize("layout", KVCacheLayout)
def test_every_layout_of_the_cache(layout):
    q, of, out, _ = step(BATCHES["mixed"], {}, torch.float16, layout)
    compare(out, judge(q, of, {}), TOLERANCES[torch.float16])


@pytest.mark.parametrize("batch", ["decodes", "mixed"])
@pytest.mark.parametrize("cache", ["fp8", "fp8_e4m3"])
def test_cache_in_e4m3(batch, cache):
    scales = {"k": 0.02, "v": 0.5}

    def stored(x, name):
        return (x.float() / scales[name]).clamp(-448, 448).to(torch.float8_e4m3fn).double() * scales[name]

    q, of, out, _ = step(BATCHES[batch], {}, torch.bfloat16, cache=cache, scales=(0.02, 0.5))
    compare(out, judge(q, of, {}, stored), TOLERANCES[torch.bfloat16])


@pytest.mark.parametrize("head_size", [8, 80, 256])
def test_head_sizes(head_size, monkeypatch):
    monkeypatch.setitem(globals(), "HEAD_SIZE", head_size)
    q, of, out, _ = step(BATCHES["mixed"], {"scale": 0.1}, torch.float16)
    compare(out, judge(q, of, {"scale": 0.1}), TOLERANCES[torch.float16])


def test_padding_writes_nothing():
    """Tokens without slots are not cached, and sequences without tokens change no result."""
    batch = BATCHES["decodes"]
    q, of, out, metadata = step(batch, {}, torch.bfloat16, pad_tokens=3, pad_sequences=3)
    assert metadata.decodes.sequences == len(batch) + 3 and metadata.prefills is None
    compare(out, judge(q, of, {}), TOLERANCES[torch.bfloat16])
    kv_cache = cache_of(KVCacheLayout.LBHNC, torch.bfloat16)
    k = torch.randn(3, HEADS_KV, HEAD_SIZE).bfloat16()
    impl().do_kv_cache_update(layer_of(), k, k + 1, kv_cache, torch.tensor([-1, 2 * BLOCK + 5, -1]))
    keys, values = pages_of(kv_cache, HEAD_SIZE, False)
    assert torch.equal(keys[2, 5], k[1]) and torch.equal(values[2, 5], k[1] + 1)
    assert (~kv_cache.isnan()).sum() == 2 * HEADS_KV * HEAD_SIZE


def test_graph_of_decodes():
    """Captured with one batch, replayed with another, whose sequences are fewer and longer. On the CPU the same calls run again:
    they read what vLLM writes into its tensors."""
    first, second = Sequences([(1, 5), (1, 9), (1, 0), (1, 30)], torch.float16), Sequences([(1, 60), (1, 2)], torch.float16)
    mine, layer, kv_cache = impl(), layer_of(), cache_of(KVCacheLayout.LBNHC, torch.float16)
    given = common(first.batch, first.slots(True), first.table)
    padded = common(second.batch, second.slots(True), second.table, pad_tokens=2, pad_sequences=2)
    q, k, v = (torch.randn(4, heads, HEAD_SIZE).half() for heads in (HEADS, HEADS_KV, HEADS_KV))
    out, metadata = torch.full_like(q, math.nan), builder().build(0, given)

    def run():
        mine.do_kv_cache_update(layer, k, v, kv_cache, given.slot_mapping)
        mine.forward(layer, q, k, v, kv_cache, metadata, out)

    run()
    replay = run
    if DEVICE.type == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        replay = graph.replay
    mine.do_kv_cache_update(
        layer, second.tokens(second.k, False), second.tokens(second.v, False), kv_cache, second.slots(False)
    )
    for name in ("seq_lens", "block_table_tensor", "slot_mapping"):
        getattr(given, name).copy_(getattr(padded, name))
    k[:2], v[:2] = second.tokens(second.k, True), second.tokens(second.v, True)
    out.fill_(math.nan)
    replay()
    compare(out[:2], judge(q[:2], second, {}), TOLERANCES[torch.float16])


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("attn_type", [AttentionType.ENCODER, AttentionType.ENCODER_ONLY])
def test_encoders(attn_type, window):
    lengths = [5, 1, 18]
    q, k, v = (torch.randn(sum(lengths) + 2, heads, HEAD_SIZE).half() for heads in (HEADS, HEADS_KV, HEADS_KV))
    out = torch.full_like(q, math.nan)
    given = common([(n, 0) for n in lengths], torch.arange(24), torch.zeros(3, 2, dtype=torch.int32), causal=False)
    mine = impl(attn_type=attn_type, sliding_window=window)
    mine.do_kv_cache_update(layer_of(), k, v, torch.empty(0), given.slot_mapping)  # there is no cache
    mine.forward(layer_of(), q, k, v, torch.empty(0), builder().build(0, given), out)
    about = (-1, -1) if window is None else (window - 1, window - 1)
    parts = zip(*(x[: sum(lengths)].double().split(lengths) for x in (q, k, v)))
    want = torch.cat([reference.attention(*(x.transpose(0, 1)[None] for x in part), window=about)[0][0].transpose(0, 1)
                      for part in parts])  # fmt: skip
    compare(out[: sum(lengths)], want, TOLERANCES[torch.float16])
    assert out[sum(lengths) :].isnan().all()


def build(batch, drafted=None, pad_tokens=0, pad_sequences=0, **others):
    of = Sequences(batch, torch.float16)
    given = common(batch, of.slots(True), of.table, pad_tokens, pad_sequences, **others)
    return builder(drafted).build(0, given), given


def test_decodes_are_in_front():
    metadata, given = build(BATCHES["mixed"])
    steps, others = metadata.decodes, metadata.prefills
    assert (steps.sequences, steps.tokens) == (2, 2)
    assert steps.seq_lens.tolist() == [21, 4] and torch.equal(steps.block_table, given.block_table_tensor[:2])
    assert (others.first_token, others.tokens, others.longest_query, others.longest) == (2, 26, 17, 42)
    assert others.query_start_loc.tolist() == [0, 17, 26] and others.seq_lens.tolist() == [17, 39]
    assert torch.equal(others.block_table, given.block_table_tensor[2:])


def test_batches_of_one_kind():
    metadata, given = build(BATCHES["decodes"])
    assert metadata.prefills is None and metadata.decodes.sequences == 5
    assert metadata.decodes.seq_lens.data_ptr() == given.seq_lens.data_ptr()  # a graph reads vLLM's own memory
    assert metadata.decodes.block_table.data_ptr() == given.block_table_tensor.data_ptr()
    metadata, given = build(BATCHES["prompts"])
    assert metadata.decodes is None and metadata.prefills.tokens == 56
    assert metadata.prefills.query_start_loc.data_ptr() == given.query_start_loc.data_ptr()


def test_tokens_that_are_verified_are_decodes():
    assert build([(4, 12), (4, 30)], drafted=3)[0].decodes.tokens == 8
    assert build([(4, 12), (4, 30)])[0].decodes is None
    assert build([(17, 2), (17, 3)], drafted=16)[0].decodes is None  # attention_decode takes 16
    metadata, _ = build([(4, 12), (2, 30)], drafted=3)  # not uniform
    assert (metadata.decodes.sequences, metadata.prefills.tokens) == (1, 2)


def test_padding_is_not_taken_for_tokens():
    """4 sequences with 4 tokens, but 2 each for the first two."""
    assert build([(2, 3), (2, 4)], drafted=1, pad_sequences=2)[0].decodes is None
    metadata, _ = build([(2, 3), (2, 4)], drafted=1, pad_sequences=2, pad_tokens=4)
    assert (metadata.decodes.sequences, metadata.decodes.tokens) == (4, 8)


def test_graphs():
    support = SwitchyardBackend.get_builder_cls().get_cudagraph_support
    assert support(config(), None) == support(config(15), None) == AttentionCGSupport.UNIFORM_BATCH
    assert support(config(16), None) == AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE


@pytest.mark.parametrize(
    "others, words",
    [
        ({"causal": torch.tensor([True, False])}, "some sequences are causal"),
        ({"mm_req_doc_ranges": {0: [(0, 2)]}}, "see one another"),
        ({"rswa_prefix_lens": torch.tensor([1, 2])}, "reference sliding window"),
        ({"dcp_local_seq_lens": torch.tensor([1, 2])}, "spread over devices"),
    ],
)
def test_batches_that_are_refused(others, words):
    with pytest.raises(NotImplementedError, match=words):
        build([(1, 5), (1, 4)], **others)


def test_attention_that_is_not_causal_is_refused():
    metadata, _ = build([(3, 0)], causal=False)
    x = torch.zeros(3, HEADS, HEAD_SIZE, dtype=torch.float16)
    with pytest.raises(NotImplementedError, match="no decoder whose attention is not causal"):
        impl().forward(layer_of(), x, x, x, cache_of(KVCacheLayout.LBHNC, torch.float16), metadata, x)
    metadata, _ = build([(3, 0)])
    with pytest.raises(NotImplementedError, match="no encoder whose attention is causal"):
        impl(attn_type=AttentionType.ENCODER).forward(layer_of(), x, x, x, torch.empty(0), metadata, x)
    with pytest.raises(NotImplementedError, match="it quantizes no results"):
        impl().forward(layer_of(), x, x, x, torch.empty(0), metadata, x, output_scale=torch.ones(1))
