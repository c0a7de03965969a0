# SPDX-License-Identifier: MIT
"""The ops in processes that are forked: a DataLoader's workers, and a server that forks when its model has run."""

import subprocess
import sys

import pytest
import switchyard.torch as sy
import torch
from torch.utils.data import DataLoader, Dataset

SECONDS = 120  # a process that hangs is seen


def prepared(i: int) -> torch.Tensor:
    """What a data set would do with an item: rows of it, normed and turned into weights. Enough rows for several threads."""
    x = torch.arange(400 * 100, dtype=torch.float32).reshape(400, 100).sin() * (i + 1)
    return sy.softmax(sy.rms_norm(x, torch.linspace(0.5, 2, 100)))


class Items(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        return prepared(i)


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_of_a_data_loader(start, persistent):
    want = torch.stack([prepared(i) for i in range(12)])  # the parent has loaded kernels and has threads
    q = torch.randn(1, 2, 64, 32, requires_grad=True)
    sy.attention(q, q, q).sum().backward()
    loader = DataLoader(Items(), batch_size=3, num_workers=2, multiprocessing_context=start, persistent_workers=persistent,
                        timeout=SECONDS)  # fmt: skip
    for _ in range(2):
        assert torch.equal(torch.cat(list(loader)), want)
    assert torch.equal(prepared(3), want[3])


# Children end by sys.exit, which destroys what the library keeps.
SERVER = """
import os, sys
import switchyard.torch as sy, switchyard.transformers
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(1)
model = LlamaForCausalLM(LlamaConfig(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                                     num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)).eval()
switchyard.transformers.patch(model)
ids = torch.randint(1, 97, (2, 9))
options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}


def serve():
    with torch.no_grad():
        return model.generate(ids, **options), sy.attention_decode(*(torch.full((1, 2, n, 32), 0.5).half() for n in (1, 70, 70)))


def equal(results):
    return all(map(torch.equal, results, wanted))


wanted = serve()
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # torch's own threads are the parent's
        sys.exit(0 if equal(serve()) and equal(serve()) else 3)
    children.append(child)
print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children), equal(serve()))
"""


def test_a_server_that_forks():
    done = subprocess.run([sys.executable, "-c", SERVER], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["0", "0", "0", "True"]), done.stderr
