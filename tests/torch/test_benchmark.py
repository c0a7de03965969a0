# SPDX-License-Identifier: MIT
"""The benchmark's program on the CPU with tiny models, and what its report makes of known lines."""

import json
import subprocess
import sys

import benchmark
import benchmark_report as report
import benchmark_turns
import pytest


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the program with arguments in this process, and returns what it prints."""

    def call(*arguments) -> str:
        monkeypatch.setattr(sys, "argv", ["benchmark.py", *map(str, arguments)])
        benchmark.main()
        return capsys.readouterr().out

    return call


def line(peer, ms, size=512, part="prefill", **more) -> dict:
    return {
        "kind": "model",
        "model": "llama",
        "part": part,
        "size": size,
        "peer": peer,
        "ms": ms,
        "host_ms": 0.5,
        "peak_gib": 1.5,
        **more,
    }


@pytest.mark.parametrize("kernel", [
    "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NTN", "void gemv2T_kernel_val<int, __nv_bfloat16>", "sm90_xmma_gemm_bf16bf16",
    "void cublasLt::splitKreduce_kernel<32, 16>", "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>",
    "triton_tem_fused_mm_3", "aten::mm", "aten::addmm",
])  # fmt: skip
def test_kernels_of_linear_layers(kernel):
    assert report.is_matrix_product(kernel)


@pytest.mark.parametrize("kernel", [
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x128", "fmha_cutlassF_bf16_aligned_64x64",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, cutlass::bfloat16_t>>", "attention", "rms_norm",
    "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm90FlashAttentionForwardSm90", "gated_activation", "rotary",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>",
    "triton_poi_fused_mul_silu_1", "triton_red_fused_mm_matmul_view_4", "_rms_norm_forward_kernel", "aten::_softmax",
])  # fmt: skip
def test_other_kernels(kernel):
    assert not report.is_matrix_product(kernel)


def test_report(run, tmp_path):
    rows = [
        {"kind": "machine", "gpu": "G", "driver": "13000", "torch": "2", "cudnn": 9, "transformers": "5"},
        line("sdpa", 9.0, kernels={"nvjet": 4.0, "flash": 3.0, "norm": 1.0}),
        line("switchyard", 6.0, kernels={"nvjet": 4.0, "attention": 1.0}),
        line("flash 4", 1.0, kernels={}),
        line("compile", 12.0, size=8, part="decode", kernels={"gemv": 2.0}),
        {"kind": "host", "op": "softmax", "mode": "inference_mode", "switchyard": 3.0, "torch": 2.0},
        {"kind": "layer", "model": "llama", "peer": "sdpa", "layer": 300.4, "rest": 500.0},
    ]  # fmt: skip
    rows[3].pop("ms")
    rows[3]["failed"] = "ModuleNotFoundError: no flash_attn"
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    first.write_text("".join(json.dumps(row) + "\n" for row in rows))
    # A later line counts, a later failure does not.
    later = [line("sdpa", 10.0, kernels={"nvjet": 4.0, "flash": 4.0}), {**line("switchyard", 0), "failed": "out of memory"}]
    later[1].pop("ms")
    second.write_text("".join(json.dumps(row) + "\n" for row in later))
    text = run("--report", first, second, "--plot", tmp_path / "plot.svg")
    assert "| sdpa | 10.000 | 4.000 | 2.000 | 0.500 | 1.50 |" in text
    assert "| switchyard | 6.000 | 1.000 | 1.000 | 0.500 | 1.50 |" in text
    assert "total 0.60, outside matrix products 0.25" in text
    assert "flash 4 | failed: ModuleNotFoundError" in text
    assert "| softmax | inference_mode | 3.00 | 2.00 | 1.50 |" in text
    assert "| llama | sdpa | 300 | 500 |" in text
    assert text.index("prompt of 512") < text.index("batch 8")
    plot = (tmp_path / "plot.svg").read_text()
    assert plot.count("ms</text>") == 3 and "llama, prompt of 512 tokens" in plot


def test_the_program(run, tmp_path):
    """Every part, peers that are not installed among them; a line for each measurement."""
    out = tmp_path / "small.jsonl"
    run("--small", "--out", out, "--models", "qwen3", "--peers", "sdpa,compile is_causal,liger,switchyard", "--sizes", "16,1")
    rows = [json.loads(text) for text in out.read_text().splitlines()]
    found = {(row["part"], row["peer"]): row for row in rows if row["kind"] == "model"}
    for peer in ("sdpa", "switchyard"):
        for part in ("prefill", "training", "decode"):
            assert found[part, peer]["ms"] > 0
            assert report.outside_ms(found[part, peer]) > 0
            assert any(map(report.is_matrix_product, found[part, peer]["kernels"]))
    assert found["prefill", "compile is_causal"]["ms"] > 0 and ("decode", "compile is_causal") not in found
    host = {(row["op"], row["mode"]): row for row in rows if row["kind"] == "host"}
    assert len(host) == 6 * 4 and all(row["switchyard"] > 0 and row["torch"] > 0 for row in host.values())
    assert {(row["model"], row["peer"]) for row in rows if row["kind"] == "layer"} == {
        (model, peer) for model in ("llama", "qwen3") for peer in ("switchyard", "switchyard merged", "sdpa")}  # fmt: skip
    assert "### qwen3, prompt of 16 tokens" in run("--report", out)


def test_turns(tmp_path):
    """Peers in processes of their own; one that fails is named."""
    out = tmp_path / "turns.jsonl"
    command = [sys.executable, benchmark_turns.__file__, "--small", "--out", out, "--models", "qwen3", "--peers", "sdpa,liger,switchyard",
               "--cells", "prefill:16,decode:1", "--rounds", "2", "--runs", "2", "--sustained", "0.2", "--turns", "2"]  # fmt: skip
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    lines = map(json.loads, out.read_text().splitlines())
    rows = {(row["part"], row["peer"]): row for row in lines if row["kind"] == "model"}
    assert len(rows) == 6
    for (_, peer), row in rows.items():
        if peer == "liger":
            assert row["failed"]
        else:
            assert row["ms"] > 0 and row["host_ms"] > 0 and report.outside_ms(row) > 0
            load = row["sustained"]
            assert load["us"] > 0 and ("mj" in load) != ("no_energy" in load)


def test_the_report_knows_every_peer():
    import benchmark_models

    assert set(report.PEERS) == set(benchmark_models.PEERS)


def test_a_peer_that_replaces_classes_does_not_reach_the_next():
    import benchmark_models
    from transformers.models.llama import modeling_llama

    before = modeling_llama.LlamaRMSNorm, modeling_llama.apply_rotary_pos_emb
    with benchmark_models.restored_module(benchmark_models.configurations(small=True)["llama"]):
        modeling_llama.LlamaRMSNorm = modeling_llama.apply_rotary_pos_emb = None
    assert (modeling_llama.LlamaRMSNorm, modeling_llama.apply_rotary_pos_emb) == before


def test_a_budget_names_what_is_left(run, tmp_path):
    text = run("--small", "--out", tmp_path / "o.jsonl", "--parts", "prefill", "--peers", "sdpa", "--budget-s", "0.000001")
    assert "not measured, out of time: llama prefill 16 sdpa" in text


def test_an_unknown_peer_is_named(run, tmp_path):
    with pytest.raises(SystemExit, match="no peer 'nobody'; there are sdpa"):
        run("--small", "--out", tmp_path / "o.jsonl", "--peers", "nobody")
