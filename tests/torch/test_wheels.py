# SPDX-License-Identifier: MIT
"""The wheels: what the extension links to, what a wheel holds, and that it works without the source tree.

SWITCHYARD_TEST_WHEEL names the wheel, SWITCHYARD_TEST_SDIST the sdist. Without them, the tests of files are skipped.
"""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import switchyard
import switchyard.torch._library as library
import tomllib
from elftools.elf.elffile import ELFFile

MAX_BYTES = 95 * 2**20
TREE = Path(__file__).absolute().parent.parent.parent

# C functions of libtorch's stable ABI, of libc and libm, of the C++ runtime, and of the linker.
ALLOWED = re.compile(
    r"^(aoti_torch_\w+|torch_(call_dispatcher|library_impl|new_\w+|delete_\w+|list_\w+|string_\w+|get_\w+_data_ptr)"
    r"|_Z(N|NK|St|d|n|TI|TV|TS|Th)\w*|_ITM_\w+|__gmon_start__|__cxa_\w+|__gxx_personality_v0|_Unwind_Resume|__\w+di2)$"
)


def dynamic(file: Path):
    with file.open("rb") as opened:
        elf = ELFFile(opened)
        versions = elf.get_section_by_name(".gnu.version")
        needs = {}
        for verneed, auxiliaries in elf.get_section_by_name(".gnu.version_r").iter_versions():
            for auxiliary in auxiliaries:
                needs[auxiliary["vna_other"]] = verneed.name
        symbols = []
        for i, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
            if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name:
                index = versions.get_symbol(i)["ndx"]
                symbols.append((symbol.name, needs.get(index) if isinstance(index, int) else None))
        needed = [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags() if tag.entry.d_tag == "DT_NEEDED"]
        return symbols, needed


def test_vllm_finds_its_plugin():
    """Its function imports neither vLLM nor the extension before vLLM calls it."""
    (plugin,) = [entry_point for entry_point in entry_points(group="vllm.general_plugins") if entry_point.name == "switchyard"]
    code = "import sys; from switchyard.vllm import register; assert callable(register) and not {'torch', 'vllm'} & set(sys.modules)"
    assert plugin.value == "switchyard.vllm:register"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_extension_uses_the_stable_abi_alone():
    symbols, needed = dynamic(Path(library._file))
    system = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libpthread.so.0", "libdl.so.2"}
    system |= {"ld-linux-aarch64.so.1", "libstdc++.so.6"}
    assert "libtorch_cpu.so" in needed and set(needed) <= system | {"libtorch_cpu.so"}
    foreign = [name for name, origin in symbols if origin not in system and not ALLOWED.match(name)]
    assert foreign == []
    # C++ symbols must be the standard library's: a class of torch or c10 would tie the binary to one release.
    assert [name for name, _ in symbols if name.startswith("_Z") and re.search(r"(c10|5torch|2at)\d", name)] == []
    assert sum(name.startswith(("aoti_torch_", "torch_")) for name, _ in symbols) > 10
    print(f"{len(symbols)} undefined symbols")


def test_the_extension_hides_the_library():
    """A process may have other copies of Switchyard, in an engine or a plug-in, of another version."""
    with Path(library._file).open("rb") as opened:
        table = ELFFile(opened).get_section_by_name(".dynsym")
        shown = {symbol.name for symbol in table.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF" and symbol.name}
    assert shown
    assert {name for name in shown if not name.startswith("switchyard_torch_")} == set()


def test_versions_agree():
    text = (TREE / "include/switchyard/version.hpp").read_text()
    parts = [re.search(rf"SWITCHYARD_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH")]
    project = tomllib.loads((TREE / "examples/torch/pyproject.toml").read_text())["project"]
    assert project["version"] == ".".join(parts)


def given(variable: str) -> Path:
    if not os.environ.get(variable):
        pytest.skip(f"{variable} is not set")
    return Path(os.environ[variable])


def test_what_the_wheel_holds():
    wheel = given("SWITCHYARD_TEST_WHEEL")
    assert wheel.stat().st_size <= MAX_BYTES
    assert "manylinux" in wheel.name and "-py3-none-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    for path in ("lib/_torch.so", "include/switchyard/dispatcher.hpp", "share/cmake/switchyard/switchyard-config.cmake",
                 "share/pkgconfig/switchyard.pc", "bin/switchyard", "torch/__init__.py", "transformers/__init__.py"):  # fmt: skip
        assert f"switchyard/{path}" in names
    operators = {p.name for p in (TREE / "tables").iterdir() if p.is_dir()} - {"schema", "study", "problems"}
    for operator in operators:
        assert any(name.startswith(f"switchyard/share/switchyard/tables/{operator}/") for name in names)
        assert any(re.match(rf"switchyard/share/switchyard/kernels/{operator}/host-\w+/.*\.so$", name) for name in names)
    header = zipfile.ZipFile(wheel).read("switchyard/include/switchyard/files/data_folder.hpp").decode()
    assert 'if_absolute(__FILE__ "/../../../../share/switchyard")' in header  # no folder of the machine that built it
    extension = zipfile.ZipFile(wheel).read("switchyard/lib/_torch.so")
    assert b"torch/csrc/stable/" in extension and not re.search(rb"\0/[^\0]*torch/csrc/stable/", extension)  # by __FILE__
    print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB, {len(names)} files")


def test_what_the_sdist_holds():
    sdist = given("SWITCHYARD_TEST_SDIST")
    assert sdist.stat().st_size <= MAX_BYTES
    names = {name.split("/", 1)[1] for name in tarfile.open(sdist).getnames() if "/" in name}
    for path in ("pyproject.toml", "build_backend.py", "CMakeLists.txt", "LICENSE", "source/CMakeLists.txt",
                 "source/include/switchyard/version.hpp", "source/examples/switchyard/main.cpp", "extension/register.hpp"):  # fmt: skip
        assert path in names


@pytest.mark.parametrize("version, found", [("2.9.1+cu128", "torch 2.9"), (None, "no torch")])
def test_a_build_says_which_torch_it_needs(tmp_path, version, found):
    python, site = tmp_path / "python", tmp_path / "site"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')  # which sees no installed torch
    python.chmod(0o755)
    if version:
        (site / "torch").mkdir(parents=True)
        (site / "torch/__init__.py").touch()
        (site / "torch/version.py").write_text(f"__all__ = ['__version__']\n__version__ = '{version}'\n")
    command = ["cmake", "-S", TREE / "examples/torch", "-B", tmp_path / "build", f"-DPython_EXECUTABLE={python}"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True, check=False)
    said = " ".join(done.stderr.split())
    assert done.returncode != 0 and f"has {found}. The extension is compiled with the headers of torch 2.10 or newer" in said


def test_data_wheels_are_found(tmp_path):
    """A data wheel made of the CPU kernels: its entry point makes another root."""
    sys.path.insert(0, str(TREE / "examples/torch"))
    import kernel_wheel

    data = Path(switchyard.roots()[0])
    target = sorted(p.name for p in (data / "kernels/softmax").iterdir())[0]
    wheel = kernel_wheel.write(target, data, tmp_path, "0.1.0")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    program = "import switchyard; print(*switchyard.roots(), sep='\\n')"
    environment = {**os.environ, "PYTHONPATH": f"{site}:{os.environ.get('PYTHONPATH', '')}"}
    roots = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert len(roots.stdout.split()) == len(switchyard.roots()) + 1
    root = Path(roots.stdout.split()[-1])
    assert (root / "kernels/softmax" / target).is_dir()


def test_the_wheel_works_in_an_empty_environment(tmp_path):
    """Installed into an environment of its own, beside torch, from another folder than the source tree."""
    wheel = given("SWITCHYARD_TEST_WHEEL")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    # torch and transformers are this environment's: their download would be most of the test's time.
    own = [folder for folder in sys.path if folder.endswith("site-packages") and not (Path(folder) / "switchyard").exists()]
    (site / "beside.pth").write_text("\n".join(own))
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", wheel], check=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SWITCHYARD"))}
    program = """
import torch, switchyard, switchyard.torch as sy, switchyard.transformers
from transformers import AutoModelForCausalLM, LlamaConfig
print(switchyard.__file__)
config = LlamaConfig(vocab_size=31, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2)
model = AutoModelForCausalLM.from_config(config)
ids = torch.randint(31, (2, 7))
want = model(ids).logits
torch.testing.assert_close(switchyard.transformers.patch(model)(ids).logits, want, rtol=1e-4, atol=1e-4)
print(sy.explain(sy.softmax, torch.randn(3, 5))["manifest"])
"""
    run = subprocess.run([python, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert all(line.startswith(str(site)) for line in run.stdout.splitlines())
    tool = subprocess.run([tmp_path / "venv/bin/switchyard", "list"], env=environment, cwd=tmp_path, capture_output=True,
                          text=True)  # fmt: skip
    assert tool.returncode == 0 and "attention_forward" in tool.stdout, tool.stderr


def test_the_wheels_headers_build_a_program(tmp_path):
    """find_package with the folder that the wheel names."""
    given("SWITCHYARD_TEST_WHEEL")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(engine CXX)\nfind_package(switchyard REQUIRED)\n"
        "add_executable(engine main.cpp)\ntarget_link_libraries(engine PRIVATE switchyard::switchyard)\n"
    )
    (tmp_path / "main.cpp").write_text(
        "#include <switchyard/tensor.hpp>\nint main() { return switchyard::tensor{} ? 1 : 0; }\n"
    )
    with zipfile.ZipFile(given("SWITCHYARD_TEST_WHEEL")) as wheel:
        wheel.extractall(tmp_path / "site")
    prefix = tmp_path / "site/switchyard"
    subprocess.run(
        ["cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={prefix}"], check=True, capture_output=True
    )
    subprocess.run(["cmake", "--build", tmp_path / "b"], check=True, capture_output=True)
    subprocess.run([tmp_path / "b/engine"], check=True)
    flags = subprocess.run(["pkg-config", "--cflags", "switchyard"], capture_output=True, text=True, check=True,
                           env={**os.environ, "PKG_CONFIG_PATH": str(prefix / "share/pkgconfig")})  # fmt: skip
    assert "include" in flags.stdout
