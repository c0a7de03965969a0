# SPDX-License-Identifier: MIT
"""Tiny models with random weights against transformers' eager attention and modules: logits, gradients, and which
calls each layer makes."""

import copy

import pytest
import switchyard.transformers as sy
import torch
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    Gemma3TextConfig,
    GptOssConfig,
    LlamaConfig,
    Qwen3Config,
    StaticCache,
    ViTConfig,
    ViTForImageClassification,
)
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaDecoderLayer

LAYERS = 4
SMALL = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
}
MIXED = ["sliding_attention", "full_attention"] * (LAYERS // 2)
CONFIGS = {
    "llama": LlamaConfig(**SMALL),
    "qwen3": Qwen3Config(**SMALL),
    "gemma3": Gemma3TextConfig(**SMALL, layer_types=MIXED, sliding_window=5, query_pre_attn_scalar=16,
                               attn_logit_softcapping=20.0),
    "gpt_oss": GptOssConfig(**SMALL, layer_types=MIXED, sliding_window=5, num_local_experts=4, num_experts_per_tok=2),
}  # fmt: skip
# Calls of a forward pass: attention and rotary once a layer; norms as the family has them, and one at the end.
NORMS = {"llama": 2, "qwen3": 4, "gemma3": 6, "gpt_oss": 2}


def make(name, implementation="eager", seed=3):
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(copy.deepcopy(CONFIGS[name]), attn_implementation=implementation).eval()
    with torch.no_grad():  # norms and sinks are constant at first
        for parameter_name, parameter in model.named_parameters():
            if "norm" in parameter_name or "sinks" in parameter_name:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def tokens(batch=2, seqlen=11):
    return torch.randint(1, 97, (batch, seqlen))


def close(got, want, tolerance=2e-5):
    assert (got - want).abs().max() <= tolerance * max(1.0, want.abs().max())


def judged(model, ids, mask=None, **kwargs):
    """Logits, and gradients of all parameters of a loss over tokens that are not padding."""
    logits = model(ids, attention_mask=mask, use_cache=False, **kwargs).logits
    seen = logits if mask is None else logits * mask[..., None]
    model.zero_grad()
    seen.square().mean().backward()
    return seen.detach(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def compare(name, ids, mask=None):
    want, want_grads = judged(make(name), ids, mask)
    got, grads = judged(sy.patch(make(name)), ids, mask)
    close(got, want)
    assert grads.keys() == want_grads.keys()
    for parameter_name, grad in grads.items():
        close(grad, want_grads[parameter_name])


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_and_gradients(name):
    compare(name, tokens())


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("side", ["right", "left"])
def test_padding(name, side):
    mask = torch.ones(2, 11, dtype=torch.long)
    mask[0, 7:] = 0
    compare(name, tokens(), mask if side == "right" else mask.flip(1))


@pytest.mark.parametrize("name", CONFIGS)
def test_every_layer_calls_us(name, counted):
    model = sy.patch(make(name))
    with torch.no_grad(), counted() as mode:
        model(tokens(), use_cache=False)
    ours = {key: value for key, value in mode.calls.items() if "::" not in key}
    want = {"attention_forward": LAYERS, "rotary": LAYERS, "rms_norm": NORMS[name] * LAYERS + 1}
    if name != "gpt_oss":  # whose experts are no SwiGLU
        want["gated_activation"] = LAYERS
    assert ours == want
    assert not any("softmax" in key and name != "gpt_oss" or "rsqrt" in key for key in mode.calls)


@pytest.mark.parametrize("name", CONFIGS)
def test_attn_implementation_alone(name, counted):
    ids = tokens()
    with torch.no_grad():
        want = make(name)(ids, use_cache=False).logits
        with counted() as mode:
            close(make(name, "switchyard")(ids, use_cache=False).logits, want)
    assert mode.calls["attention_forward"] == LAYERS and mode.calls["rms_norm"] == 0


@pytest.mark.parametrize("name", CONFIGS)
def test_unpatch(name, counted):
    ids, other = tokens(), make(name)
    model = sy.patch(make(name))
    assert sy.report(model)
    with pytest.raises(RuntimeError, match="patched already"):
        sy.patch(model)
    with torch.no_grad():
        with counted() as mode:
            want = other(ids).logits  # another model of the class is not affected
            assert torch.equal(sy.unpatch(model)(ids).logits, want)
    assert not any("::" not in key for key in mode.calls)
    with pytest.raises(RuntimeError, match="not patched"):
        sy.unpatch(model)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("padded", [False, True])
def test_generation(name, cache, padded):
    ids = tokens(2, 9)
    mask = torch.ones_like(ids)
    if padded:
        mask[1, :4] = 0
        ids[1, :4] = 0
    options = {"max_new_tokens": 8, "do_sample": False, "attention_mask": mask, "disable_compile": True,
               "cache_implementation": None if cache == "dynamic" else cache, "pad_token_id": 0}  # fmt: skip
    want = make(name).generate(ids, **options)
    assert torch.equal(sy.patch(make(name)).generate(ids, **options), want)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_static_cache_gives_lengths(name, counted):
    """Prefill and steps of decoding with a static cache: no mask of queries times keys is made."""
    model = sy.patch(make(name))
    ids = tokens(2, 12)
    with torch.no_grad():
        want = make(name)(ids, use_cache=False).logits
        cache = StaticCache(config=model.config, max_cache_len=20)
        got = [model(ids[:, :9], past_key_values=cache).logits]
        with counted() as mode:
            for i in range(9, 12):
                got.append(model(ids[:, i : i + 1], past_key_values=cache).logits)
        close(torch.cat(got, 1), want)
    assert mode.calls["attention_forward"] == 3 * LAYERS
    assert name == "gpt_oss" or not any("masked_fill" in key for key in mode.calls)  # whose experts call it in 5.17


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3"])
def test_compiles_without_graph_breaks(name):
    torch._dynamo.reset()
    ids = tokens()
    model = sy.patch(make(name))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        close(compiled(ids, use_cache=False).logits, model(ids, use_cache=False).logits)
    got, grads = judged(compiled, ids)
    want, want_grads = judged(make(name), ids)
    close(got, want)
    for parameter_name, grad in want_grads.items():
        close(grads[f"_orig_mod.{parameter_name}"], grad)


@pytest.mark.parametrize("side", ["right", "left"])
def test_compiled_padding(side):
    """Compiled code must not look at the mask's values."""
    torch._dynamo.reset()
    ids, mask = tokens(), torch.ones(2, 11, dtype=torch.long)
    mask[0, 7:] = 0
    mask = mask if side == "right" else mask.flip(1)
    compiled = torch.compile(sy.patch(make("llama")), fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        got = compiled(ids, attention_mask=mask, use_cache=False).logits
        want = make("llama")(ids, attention_mask=mask, use_cache=False).logits
    close(got * mask[..., None], want * mask[..., None])


def graph_of(model, ids, **options):
    """What dynamo makes of a model, and the logits of a call."""
    torch._dynamo.reset()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    with torch.no_grad():
        logits = torch.compile(model, fullgraph=True, backend=backend)(ids, use_cache=False, **options).logits
    return [node for graph in graphs for node in graph.graph.nodes], logits


def largest_boolean(nodes) -> int:
    values = [node.meta.get("example_value") for node in nodes]
    return max((v.numel() for v in values if isinstance(v, torch.Tensor) and v.dtype == torch.bool), default=0)


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3"])
def test_compiled_code_makes_no_mask_of_whole_sequences(name):
    ids = tokens()
    nodes, logits = graph_of(sy.patch(make(name)), ids)
    assert largest_boolean(nodes) == 0
    with torch.no_grad():
        close(logits, make(name)(ids, use_cache=False).logits)


@pytest.mark.parametrize("name", ["llama", "gemma3"])
@pytest.mark.parametrize("compiled", [False, True])
def test_packed_sequences(name, compiled):
    """Positions that begin again: sequences in one row do not see each other."""
    ids = tokens(1, 11)
    positions = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4]])
    model = sy.patch(make(name))
    with torch.no_grad():
        want = make(name)(ids, position_ids=positions, use_cache=False).logits
        close(make(name)(ids[:, :6], use_cache=False).logits, want[:, :6])
        close(make(name)(ids[:, 6:], use_cache=False).logits, want[:, 6:])
        if compiled:
            nodes, got = graph_of(model, ids, position_ids=positions)
            assert largest_boolean(nodes) >= 11 * 11
        else:
            got = model(ids, position_ids=positions, use_cache=False).logits
    close(got, want)


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3"])  # gpt-oss' experts look at how many tokens they have
def test_whole_sequences_are_not_looked_at(name, counted):
    """Positions are not searched for packed sequences, and no value is read back, which would wait for the device."""
    model = sy.patch(make(name))
    with torch.no_grad(), counted() as mode:
        model(tokens(), use_cache=False)
    assert mode.calls["aten::_local_scalar_dense"] == 0
    assert mode.calls["aten::cumsum"] == 0


@pytest.mark.parametrize("name", CONFIGS)
def test_a_mask_of_another_implementation(name):
    """Attention that was changed behind patch gets no mask that only ours knows."""
    ids = tokens()
    model = sy.patch(make(name))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        close(model(ids, use_cache=False).logits, make(name)(ids, use_cache=False).logits)


WITH_NORMS_OF_SUMS = ["llama", "qwen3", "gpt_oss"]


@pytest.mark.parametrize("name", WITH_NORMS_OF_SUMS)
def test_norms_add(name, counted):
    """Both sums of a layer are part of the norms behind them."""
    model = sy.patch(make(name))
    with torch.no_grad(), counted() as mode:
        model(tokens(), use_cache=False)
    assert mode.calls["aten::add.Tensor"] == (1 if name != "gpt_oss" else 1 + LAYERS)  # positions; the experts' own


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_compiled_norms_add(name):
    """All sums but the last layer's second are part of norms; what is left of them is dead code."""
    from torch._dynamo.backends.common import aot_autograd

    torch._dynamo.reset()
    seen, ids = [], tokens()

    def compiler(graph, inputs):
        graph.graph.eliminate_dead_code()
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    with torch.no_grad():
        model = sy.patch(make(name))
        compiled = torch.compile(model, fullgraph=True, backend=aot_autograd(fw_compiler=compiler))
        close(compiled(ids, use_cache=False).logits, model(ids, use_cache=False).logits)
    assert sum("switchyard.rms_norm" in target for target in seen) == NORMS[name] * LAYERS + 1
    assert seen.count("aten.add.Tensor") == 2  # the last sum, and positions


def test_compiled_gradient_checkpointing():
    torch._dynamo.reset()
    ids, found = tokens(), []
    for compiled in (False, True):
        model = sy.patch(make("llama")).train()
        model.gradient_checkpointing_enable({"use_reentrant": False})
        logits, grads = judged(torch.compile(model, backend="aot_eager") if compiled else model, ids)
        found.append((logits, {parameter_name.removeprefix("_orig_mod."): grad for parameter_name, grad in grads.items()}))
    close(found[1][0], found[0][0])
    for parameter_name, grad in found[0][1].items():
        close(found[1][1][parameter_name], grad)


@pytest.mark.parametrize("place", ["layer", "before a layer", "norm", "second norm"])
def test_compiled_hooks_are_called(place):
    torch._dynamo.reset()
    ids, found = tokens(), []
    with torch.no_grad():
        for model in (make("llama"), sy.patch(make("llama"))):
            PLACES[place](model)
            found.append(torch.compile(model, backend="aot_eager")(ids, use_cache=False).logits)
            torch._dynamo.reset()
    close(*reversed(found))
    assert (found[0] - make("llama")(ids, use_cache=False).logits).abs().max() > 1e-4


def doubled(module, args, output):
    return output.mul_(2.0)


def moved(module, args):
    return (args[0] + torch.linspace(-0.1, 0.1, args[0].shape[-1]), *args[1:])


PLACES = {
    "layer": lambda model: model.model.layers[1].register_forward_hook(doubled),
    "before a layer": lambda model: model.model.layers[2].register_forward_pre_hook(moved),
    "norm": lambda model: model.model.layers[2].input_layernorm.register_forward_hook(doubled),
    "second norm": lambda model: model.model.layers[2].post_attention_layernorm.register_forward_hook(doubled),
    "last norm": lambda model: model.model.norm.register_forward_pre_hook(moved),
    "projection": lambda model: model.model.layers[1].self_attn.v_proj.register_forward_hook(doubled),
    "feed forward": lambda model: model.model.layers[1].mlp.register_forward_hook(doubled),
    "everywhere": lambda model: torch.nn.modules.module.register_module_forward_hook(
        lambda module, args, output: output.mul_(1.25) if type(module).__name__.endswith("DecoderLayer") else None),
}  # fmt: skip


@pytest.mark.parametrize("name", ["llama", "qwen3"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_hooks_are_called(name, place, mode):
    """Also hooks that write into what a layer returns."""
    ids, found = tokens(), []
    with mode():
        plain = make(name)(ids, use_cache=False).logits
        for model in (make(name), sy.patch(make(name))):
            handle = PLACES[place](model)
            try:
                found.append(model(ids, use_cache=False).logits)
            finally:
                handle.remove()
    close(*reversed(found))
    assert (found[0] - plain).abs().max() > 1e-4  # the hook counts


class Scaled(torch.nn.Linear):
    """As quantised and adapted layers are: a subclass with its own forward."""

    def forward(self, x):
        return 3.0 * super().forward(x)


@pytest.mark.parametrize("way", ["subclass", "forward", "compile", "tensor"])
def test_replaced_projections_are_called(way):
    ids, found = tokens(), []
    for model in (make("qwen3"), sy.patch(make("qwen3"))):
        mlp, attention = model.model.layers[1].mlp, model.model.layers[2].self_attn
        for module in (mlp.up_proj, attention.v_proj):
            if way == "subclass":
                module.__class__ = Scaled
            elif way == "forward":
                module.forward = lambda x, module=module: 3.0 * torch.nn.Linear.forward(module, x)
            elif way == "tensor":  # a weight that is no parameter, as some libraries leave it
                weight = 3.0 * module._parameters.pop("weight").detach()
                module.weight = weight
            else:  # what torch.nn.Module.compile sets
                module._compiled_call_impl = lambda x, module=module: 3.0 * torch.nn.Linear.forward(module, x)
        if way == "tensor":
            norm = model.model.layers[1].post_attention_layernorm
            weight = norm._parameters.pop("weight").detach()
            norm.weight = weight
        with torch.no_grad():
            found.append(model(ids, use_cache=False).logits)
    close(*reversed(found))
    assert (found[0] - make("qwen3")(ids, use_cache=False).logits).abs().max() > 1e-4


@pytest.mark.parametrize("name", WITH_NORMS_OF_SUMS)
@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing(name, reentrant, counted):
    """Layers run again in the backward, and gradients stay the same."""
    ids, found = tokens(), []
    for checkpointed in (False, True):
        model = sy.patch(make(name)).train()
        if checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        with counted() as mode:
            found.append(judged(model, ids))
        assert mode.calls["attention_forward"] == LAYERS * (2 if checkpointed else 1)
    (logits, grads), (logits_again, grads_again) = found
    close(logits_again, logits)
    for parameter_name, grad in grads.items():
        close(grads_again[parameter_name], grad)


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3"])
@pytest.mark.parametrize("hooked_first", [False, True])
def test_weights_that_accelerate_offloads(name, hooked_first, counted):
    """accelerate's hooks load a module's weights before its forward; patch replaces what they call."""
    from accelerate import cpu_offload

    ids, model = tokens(), make(name)
    with torch.no_grad():
        want = model(ids, use_cache=False).logits
        if hooked_first:
            model = sy.patch(cpu_offload(model, execution_device="cpu"))
        else:
            model = cpu_offload(sy.patch(model), execution_device="cpu")
        assert model.lm_head.weight.device.type == "meta"
        with counted() as mode:
            close(model(ids, use_cache=False).logits, want)
        assert mode.calls["attention_forward"] == LAYERS and mode.calls["rms_norm"] == NORMS[name] * LAYERS + 1
        assert torch.equal(sy.unpatch(model)(ids, use_cache=False).logits, want)


def test_accelerates_hooks_are_removed():
    from accelerate import cpu_offload
    from accelerate.hooks import remove_hook_from_module

    ids, model = tokens(), make("llama")
    with torch.no_grad():
        want = model(ids, use_cache=False).logits
        model = sy.patch(cpu_offload(model, execution_device="cpu"))
        remove_hook_from_module(model, recurse=True)
        close(model(ids, use_cache=False).logits, want)
        assert torch.equal(sy.unpatch(model)(ids, use_cache=False).logits, want)


MERGED_PRODUCTS = {"llama": 7 - 3, "qwen3": 7 - 1, "gemma3": 7 - 1}  # of a layer


@pytest.mark.parametrize("name", MERGED_PRODUCTS)
def test_merged_projections(name, counted):
    """Fewer products, the same results, and weights that are still the model's own."""
    ids, want = tokens(), make(name)
    model = sy.patch(make(name), merge_projections=True)
    with torch.no_grad():
        with counted() as mode:
            logits = model(ids, use_cache=False).logits
        close(logits, want(ids, use_cache=False).logits)
        assert mode.calls["aten::mm"] == MERGED_PRODUCTS[name] * LAYERS + 1
        for changed in (want, model):  # a weight that is written is seen
            changed.model.layers[1].mlp.up_proj.weight.mul_(-2.0)
        close(model(ids, use_cache=False).logits, want(ids, use_cache=False).logits)
        sy.unpatch(model)
        assert torch.equal(model(ids, use_cache=False).logits, want(ids, use_cache=False).logits)
    for parameter_name, parameter in model.named_parameters():
        assert parameter.untyped_storage().nbytes() == parameter.numel() * 4, parameter_name


@pytest.mark.parametrize("name", MERGED_PRODUCTS)
def test_merged_projections_have_gradients(name):
    ids = tokens()
    logits, grads = judged(sy.patch(make(name), merge_projections=True), ids)
    want, want_grads = judged(make(name), ids)
    close(logits, want)
    for parameter_name, grad in want_grads.items():
        close(grads[parameter_name], grad)


ENDS = {
    "another type": lambda model: model.double().float(),
    "another weight": lambda model: setattr(model.model.layers[0].mlp.up_proj, "weight", torch.nn.Parameter(
        model.model.layers[0].mlp.up_proj.weight.detach() * -2.0)),
    "a subclass": lambda model: setattr(model.model.layers[0].mlp.up_proj, "__class__", Scaled),
    "a hook": lambda model: model.model.layers[0].mlp.up_proj.register_forward_hook(doubled),
    "a copy": lambda model: copy.deepcopy(model),
}  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
def test_what_ends_merged_projections(end):
    """A projection that is changed behind patch is called by itself."""
    ids, found = tokens(), []
    for model in (make("llama"), sy.patch(make("llama"), merge_projections=True)):
        with torch.no_grad():
            model(ids, use_cache=False)
            changed = ENDS[end](model)
            model = changed if isinstance(changed, torch.nn.Module) and end == "a copy" else model
            found.append(model(ids, use_cache=False).logits)
    close(*reversed(found))


def test_merged_projections_are_saved(tmp_path):
    model, want = sy.patch(make("llama"), merge_projections=True), make("llama").state_dict()
    model.save_pretrained(tmp_path)
    saved = AutoModelForCausalLM.from_pretrained(tmp_path).state_dict()
    assert saved.keys() == want.keys() and all(torch.equal(saved[key], want[key]) for key in want)


def test_quantised_and_offloaded_projections_are_not_merged(counted):
    from accelerate import cpu_offload

    ids, model = tokens(), make("llama")
    model.model.layers[1].mlp.up_proj.__class__ = Scaled
    with torch.no_grad():
        want = model(ids, use_cache=False).logits
        sy.patch(model, merge_projections=True)
        with counted() as mode:
            close(model(ids, use_cache=False).logits, want)
        assert mode.calls["aten::mm"] == MERGED_PRODUCTS["llama"] * LAYERS + 2
        offloaded = cpu_offload(sy.unpatch(model), execution_device="cpu")
        close(sy.patch(offloaded, merge_projections=True)(ids, use_cache=False).logits, want)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_copy_of_a_patched_model(name):
    """It has norms of its own."""
    ids, model = tokens(), sy.patch(make(name))
    copied = copy.deepcopy(model)
    with torch.no_grad():
        want = model(ids, use_cache=False).logits
        for parameter_name, parameter in model.named_parameters():
            if "norm" in parameter_name:
                parameter.zero_()
        assert torch.equal(copied(ids, use_cache=False).logits, want)


ROPES = {
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
    "linear": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 32},
    "dynamic": {"factor": 2.0},
}


@pytest.mark.parametrize("kind", ROPES)
@pytest.mark.parametrize("batched", [False, True])
def test_rotary_embeddings(kind, batched):
    """Frequencies of every kind, positions of a batch and of each row."""
    small = {**SMALL, "max_position_embeddings": 8}  # dynamic: shorter than the sequence
    config = LlamaConfig(**small, rope_parameters={"rope_type": kind, "rope_theta": 1e4, **ROPES[kind]})
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    ids = tokens(2, 13)
    options = {"attention_mask": torch.tensor([[1] * 13, [0] * 4 + [1] * 9])} if batched else {}
    if batched:
        options["position_ids"] = torch.stack([torch.arange(13), (torch.arange(13) - 4).clamp(min=0)])
    with torch.no_grad():
        want = model(ids, use_cache=False, **options).logits
        got = sy.patch(model)(ids, use_cache=False, **options).logits
    seen = options.get("attention_mask", torch.ones_like(ids))[..., None]
    close(got * seen, want * seen)
    assert ("rotary tables" in sy.report(model).values()) == (kind != "dynamic")


@pytest.mark.parametrize("name", CONFIGS)
def test_hidden_states(name):
    ids = tokens()
    with torch.no_grad():
        want = make(name)(ids, use_cache=False, output_hidden_states=True).hidden_states
        got = sy.patch(make(name))(ids, use_cache=False, output_hidden_states=True).hidden_states
    assert len(got) == len(want) == LAYERS + 1
    for mine, theirs in zip(got, want, strict=True):
        close(mine, theirs)


def test_compiled_code_calls_our_rotary():
    """Its name is looked up in the patched function, not in the model's module."""
    nodes, _ = graph_of(sy.patch(make("llama")), tokens())
    calls = [str(node.target) for node in nodes if node.op == "call_function"]
    assert sum("switchyard.rotary" in target for target in calls) == LAYERS


@pytest.mark.parametrize("name", CONFIGS)
def test_decode_in_half_precision_uses_the_decode_operator(name, counted):
    model = sy.patch(make(name)).bfloat16()
    with torch.no_grad():
        out = model(tokens(2, 8))
        with counted() as mode:
            model(tokens(2, 1), past_key_values=out.past_key_values)
    assert mode.calls["attention_decode"] == LAYERS and mode.calls["attention_forward"] == 0


def vit(implementation="eager"):
    torch.manual_seed(4)
    config = ViTConfig(hidden_size=64, num_hidden_layers=LAYERS, num_attention_heads=4, intermediate_size=112,
                       image_size=32, patch_size=8, num_labels=5)  # fmt: skip
    return ViTForImageClassification._from_config(config, attn_implementation=implementation).eval()


def test_vit(counted):
    pixels = torch.randn(2, 3, 32, 32)
    results, models = [], (vit(), sy.patch(vit()))
    with counted() as mode:
        for model in models:
            logits = model(pixels).logits
            logits.square().mean().backward()
            results.append([logits, *(p.grad for p in model.parameters() if p.grad is not None)])
    for want, got in zip(*results, strict=True):
        close(got, want)
    assert mode.calls["attention_forward"] == LAYERS and mode.calls["attention_backward"] == LAYERS
    assert mode.calls["layer_norm"] == 2 * LAYERS + 1


def test_attention_weights_are_refused():
    model = make("llama", "switchyard")
    with pytest.raises((RuntimeError, ValueError)):
        model(tokens(), output_attentions=True)


def test_sliding_layers_of_qwen3():
    config = Qwen3Config(**SMALL, layer_types=MIXED, sliding_window=3, use_sliding_window=True)
    torch.manual_seed(6)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    ids = tokens()
    with torch.no_grad():
        want = model(ids, use_cache=False).logits
        wide = AutoModelForCausalLM.from_config(Qwen3Config(**SMALL), attn_implementation="eager").eval()
        wide.load_state_dict(model.state_dict())
        assert (wide(ids, use_cache=False).logits - want).abs().max() > 1e-3  # the window is seen
        close(sy.patch(model)(ids, use_cache=False).logits, want)


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_dropout_is_of_training(name):
    model = sy.patch(make(name))
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    ids = tokens()
    with torch.no_grad():
        assert torch.equal(model(ids, use_cache=False).logits, model(ids, use_cache=False).logits)
        model.train()
        assert not torch.equal(model(ids, use_cache=False).logits, model(ids, use_cache=False).logits)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_cache_is_used(name):
    """Two steps give what the whole gives, with the cache that the first returns: patched, and by the old name too."""
    ids = tokens(2, 12)
    model = sy.patch(make(name))
    with torch.no_grad():
        want = make(name)(ids, use_cache=False).logits
        cache = DynamicCache(config=model.config)
        first = model(ids[:, :7], past_key_values=cache, use_cache=True).logits
        assert cache.get_seq_length() == 7
        close(torch.cat([first, model(ids[:, 7:], past_key_values=cache).logits], 1), want)


class Renamed(LlamaDecoderLayer):
    def forward(self, hidden_states, attention_mask=None, position_ids=None, memory=None, **kwargs):
        raise AssertionError


@pytest.mark.parametrize("place", ["residual", "rotary"])
def test_names_that_patch_does_not_know(place, monkeypatch):
    """As a later transformers may have them, also in the functions that replacements were written for: left alone."""
    from switchyard.transformers import _known

    model = make("llama")
    if place == "residual":
        monkeypatch.setattr(LlamaDecoderLayer, "forward", Renamed.forward)
        where, message = "model.layers.1", "unchanged: its forward takes memory, which this patch does not know"
    else:
        forward = lambda self, hidden_states, position_embeddings, attention_mask=None, cache=None, **kwargs: None
        monkeypatch.setattr(LlamaAttention, "forward", forward)
        where, message = "model.layers.1.self_attn", "unchanged: LlamaAttention computes attention itself"
    _known._codes.cache_clear()
    try:
        sy.patch(model)
    finally:
        _known._codes.cache_clear()
    assert sy.report(model)[where] == message
    assert "rotary tables" not in sy.report(model).values()
