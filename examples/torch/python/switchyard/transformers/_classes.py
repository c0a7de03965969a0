"""Models whose class takes no attention interface: their own attention would misread the masks made for ours."""

import functools

from transformers import PreTrainedModel


def takes_interface(model: type[PreTrainedModel]) -> bool:
    """Whether a class says that it takes attention interfaces, or its module calls them."""
    return model._supports_attention_backend or model._can_set_attn_implementation()


def require_interface(model: type[PreTrainedModel]) -> None:
    """Raises ValueError, as transformers does for SDPA, for a class whose attention is its own."""
    if not takes_interface(model):
        raise ValueError(f"{model.__name__} takes no attention interface, so attn_implementation='switchyard' cannot serve "
                         "it: use attn_implementation='eager'")  # fmt: skip


def refuse_others() -> None:
    """Makes transformers check classes that are asked for our attention, as it checks them for SDPA."""
    check = PreTrainedModel._check_and_adjust_attn_implementation

    @functools.wraps(check)
    def checked(self, attn_implementation, *args, **kwargs):
        if attn_implementation == "switchyard":
            require_interface(type(self))
        return check(self, attn_implementation, *args, **kwargs)

    PreTrainedModel._check_and_adjust_attn_implementation = checked
