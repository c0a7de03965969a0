"""patch and unpatch: instances of modules get another forward; classes and other models stay as they are."""

import functools
import inspect
import types

import torch
import transformers

from . import _calls, _classes, _merged, _modules, _report

_RMS_NORMS = {
    "LlamaRMSNorm": _calls.plain_rms_norm,
    "Qwen3RMSNorm": _calls.plain_rms_norm,
    "GptOssRMSNorm": _calls.plain_rms_norm,
    "Gemma3RMSNorm": _modules.offset_rms_norm,
}
_FEED_FORWARDS = {"LlamaMLP": "hidden_act", "Qwen3MLP": "hidden_act", "Gemma3MLP": "hidden_activation"}
_LAYERS = {"LlamaDecoderLayer", "Qwen3DecoderLayer", "GptOssDecoderLayer"}
_DECODERS = {"LlamaModel", "Qwen3Model", "Gemma3TextModel", "GptOssModel"}
_ROTARY_TABLES = {"LlamaRotaryEmbedding", "Qwen3RotaryEmbedding", "GptOssRotaryEmbedding"}
_ROTARY = {"LlamaAttention", "Qwen3Attention", "Gemma3Attention", "GptOssAttention"}
_BLOCKS = {"LlamaAttention", "Qwen3Attention"}
# Projections that merge_projections merges. Qwen3's q and k are not: rows of their norms would not be at one distance.
_MERGED = {"LlamaAttention": _modules.QUERY_KEY_VALUE, **dict.fromkeys(_FEED_FORWARDS, _modules.GATE_AND_UP)}
_FAMILIES = ("llama", "qwen3", "gemma3", "gemma3_text", "gpt_oss", "vit")
_STATE = "_switchyard"
# What the forward functions that are replaced may take; all but norms and feed-forward blocks take a cache besides.
_KNOWN = {
    "rms_norm": {"hidden_states", "x"},
    "gated_activation": {"hidden_states", "x"},
    "rotary": {"hidden_states", "position_embeddings", "attention_mask", "position_ids", "kwargs"},
    "rotary tables": {"x", "position_ids"},
    "residual": {"hidden_states", "attention_mask", "position_ids", "use_cache", "position_embeddings", "kwargs"},
    "mask": {"input_ids", "attention_mask", "position_ids", "inputs_embeds", "use_cache", "kwargs"},
}
_WITH_CACHE = ("rotary", "residual", "mask")


def _parameters(module: torch.nn.Module) -> set[str]:
    """The names that a class's forward takes, behind transformers' decorators."""
    return set(inspect.signature(inspect.unwrap(type(module).forward)).parameters) - {"self"}


def _cache_name(module: torch.nn.Module) -> str:
    return min(_parameters(module) & _modules.CACHES)


def _require_known(module: torch.nn.Module, what: str) -> None:
    """Raises for a forward whose parameters are others than those that its replacement was written for."""
    if what not in _KNOWN:
        return
    names = _parameters(module)
    caches = names & _modules.CACHES
    unknown = names - _KNOWN[what] - (caches if what in _WITH_CACHE else set())
    if not unknown and (what not in _WITH_CACHE or len(caches) == 1):
        return
    wrong = f"takes {', '.join(sorted(unknown))}" if unknown else f"takes {len(caches)} caches instead of one"
    raise RuntimeError(f"switchyard.transformers: {type(module).__name__}.forward of transformers {transformers.__version__} "
                       f"{wrong}, which this patch does not know: use a version that switchyard's metadata names, or "
                       "attn_implementation='switchyard' without patch")  # fmt: skip


def _with_rotary(forward):
    """A copy of an attention's forward that calls our rotary embedding; the model's module stays as it is.

    Its globals have no __name__: with one, torch.compile would look names up in the module instead. Raises where the
    function, behind its decorators, calls none.
    """
    forward = inspect.unwrap(forward)
    if "apply_rotary_pos_emb" not in forward.__code__.co_names:
        raise RuntimeError(f"switchyard.transformers: {forward.__qualname__} of transformers {transformers.__version__} calls "
                           "no apply_rotary_pos_emb: use a version that switchyard's metadata names")  # fmt: skip
    names = {key: value for key, value in forward.__globals__.items() if key != "__name__"}
    names["apply_rotary_pos_emb"] = _modules.apply_rotary_pos_emb
    copy = types.FunctionType(forward.__code__, names, forward.__name__, forward.__defaults__, forward.__closure__)
    copy.__kwdefaults__ = forward.__kwdefaults__
    if "cache" not in inspect.signature(forward).parameters:
        return copy

    @functools.wraps(copy)
    def run(self, *args, **kwargs):
        if "past_key_values" in kwargs:  # which transformers' decorator renames
            kwargs.setdefault("cache", kwargs.pop("past_key_values"))
        return copy(self, *args, **kwargs)

    return run


def _is_causal(config) -> bool:
    return getattr(config, "is_causal", True) and not getattr(config, "use_bidirectional_attention", False)


def _is_updated(rope_type: str) -> bool:
    """Whether transformers changes the frequencies from call to call."""
    return "dynamic" in rope_type or rope_type == "longrope"


def _replacement(module: torch.nn.Module):
    """The forward that replaces a module's, and what it is; or None."""
    name = type(module).__name__
    if name in _RMS_NORMS:
        return _RMS_NORMS[name], "rms_norm"
    if name in _FEED_FORWARDS:
        activation = getattr(module.config, _FEED_FORWARDS[name])
        if activation not in _modules.ACTIVATIONS:
            raise RuntimeError(f"switchyard.transformers: no gated activation for {activation!r}; there are "
                               f"{', '.join(_modules.ACTIVATIONS)}")  # fmt: skip
        return _modules.gated_feed_forward(_modules.ACTIVATIONS[activation]), "gated_activation"
    if name in _ROTARY:
        forward = _with_rotary(type(module).forward)
        return _modules.attention_block(forward, name == "Qwen3Attention") if name in _BLOCKS else forward, "rotary"
    if name in _ROTARY_TABLES and not _is_updated(module.rope_type):
        return _modules.rotary_tables, "rotary tables"
    if name in _LAYERS:
        return _modules.with_checkpoints(_modules.decoder_layer), "residual"
    if name in _DECODERS and _is_causal(module.config):
        return _modules.whole_sequences(type(module).forward, bool(_layers(module)), _cache_name(module)), "mask"
    if isinstance(module, torch.nn.LayerNorm) and len(module.normalized_shape) == 1:
        return _modules.plain_layer_norm, "layer_norm"
    return None


def patch(model, *, merge_projections: bool = False):
    """Makes a model run on Switchyard: attention, rotary embedding, RMSNorm, LayerNorm, SwiGLU and GEGLU.

    For Llama, Qwen3, Gemma 3, gpt-oss and ViT of transformers 5, on any device with kernels. Only this instance
    changes. The experts of gpt-oss, and feed-forward blocks without a gate (ViT), stay as they are.

    merge_projections: without gradients, a feed-forward block's gate and up projections are one matrix product, and so
    are Llama's q, k and v. Their parameters become views of one tensor: patch when the model is on its device and has
    its type. Compiled code, and blocks whose projections are quantised, adapted or moved later, keep single products.

    Returns the model. Raises RuntimeError for another architecture or activation, and for a model that is patched
    already, and where transformers' functions take what this patch does not know.
    """
    if hasattr(model, _STATE):
        raise RuntimeError("switchyard.transformers: the model is patched already")
    _classes.require_interface(type(model))
    kind = model.config.model_type
    if kind not in _FAMILIES:
        raise RuntimeError(f"switchyard.transformers: no patch for {kind!r}; there are {', '.join(_FAMILIES)}. "
                           "attn_implementation='switchyard' may still serve its attention")  # fmt: skip
    found = [(name, module, _replacement(module)) for name, module in model.named_modules()]
    for _, module, replacement in found:
        if replacement is not None:
            _require_known(module, replacement[1])
    before = model.config._attn_implementation
    model.set_attn_implementation("switchyard")
    done, replaced = {}, {}
    for name, module, replacement in found:
        if replacement is None:
            continue
        forward, what = replacement
        place = _place_of_forward(module)
        replaced[name] = vars(module).get(place)
        vars(module)[place] = types.MethodType(forward, module)
        done[name] = what
        if what == "mask":
            _calls.follow(_layers(module), module.norm)
        if merge_projections and type(module).__name__ in _MERGED:
            _merged.merge(module, _MERGED[type(module).__name__])
    object.__setattr__(model, _STATE, (before, done, replaced))
    return model


def _place_of_forward(module: torch.nn.Module) -> str:
    """accelerate's hooks, which move weights, replace a module's forward and call the one before."""
    return "_old_forward" if "_hf_hook" in vars(module) else "forward"


def _layers(decoder) -> list[torch.nn.Module]:
    """The layers of a decoder that a norm of ours follows."""
    return [each for each in decoder.layers if type(each).__name__ in _LAYERS]


def unpatch(model):
    """Undoes patch. Returns the model. Raises RuntimeError for a model that is not patched."""
    if not hasattr(model, _STATE):
        raise RuntimeError("switchyard.transformers: the model is not patched")
    before, done, replaced = getattr(model, _STATE)
    modules = dict(model.named_modules())
    for name, forward in replaced.items():
        module = modules[name]
        place = _place_of_forward(module)
        if forward is None and place == "forward":
            vars(module).pop(place, None)
        else:
            vars(module)[place] = forward or types.MethodType(type(module).forward, module)
        if done[name] == "mask":
            _calls.unfollow(_layers(module))
        if type(module).__name__ in _MERGED:
            _merged.part(module, _MERGED[type(module).__name__])
    model.set_attn_implementation(before)
    object.__delattr__(model, _STATE)
    return model


def report(model) -> dict[str, str]:
    """What the modules of a model call: module name to operators, such as "attention, rotary", or to "unchanged: " and the
    reason. Attention is listed for each layer, also where attn_implementation="switchyard" was asked for without patch."""
    return _report.merged(_report.attention_calls(model), getattr(model, _STATE, (None, {}, {}))[1])
