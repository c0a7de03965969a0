# SPDX-License-Identifier: MIT
# Spack 1.   spack repo create R && cp package.py R/spack_repo/R/packages/switchyard/ && spack dev-build -d TREE switchyard@0.1.0
# ruff: noqa: F403, F405
from spack.package import *
from spack_repo.builtin.build_systems.cmake import CMakePackage


class Switchyard(CMakePackage):
    """Runs the fastest precompiled kernel for each call: chooses, loads and launches it by tuning tables."""

    license("MIT")
    version("0.1.0")

    variant("c_library", default=True, description="The shared library of the C API")
    variant("tool", default=False, description="The command-line tool")
    variant("kernels", default="full", values=("none", "ci", "full"), multi=False, description="CPU kernels")

    depends_on("cxx", type="build")
    depends_on("cmake@3.24:", type="build")
    depends_on("python@3.9:", type=("build", "run"))
    depends_on("nlohmann-json@3.11:", type=("build", "link"))
    depends_on("cli11", when="+tool", type="build")
    conflicts("%gcc@:11", msg="needs C++20 as of g++ 12")
    conflicts("%clang@:13", msg="needs C++20 as of clang 14")

    def cmake_args(self):
        args = [
            self.define("SWITCHYARD_BUILD_TESTS", False),
            self.define("SWITCHYARD_BUILD_EXAMPLES", False),
            self.define_from_variant("SWITCHYARD_BUILD_C_LIBRARY", "c_library"),
            self.define_from_variant("SWITCHYARD_BUILD_TOOL", "tool"),
            self.define("SWITCHYARD_BUILD_KERNELS", not self.spec.satisfies("kernels=none")),
        ]
        if not self.spec.satisfies("kernels=none"):
            args.append(self.define("SWITCHYARD_KERNEL_SET", self.spec.variants["kernels"].value))
            args.append(self.define("SWITCHYARD_KERNEL_TARGETS", f"host-{self.spec.target.family}"))
        return args

    def setup_run_environment(self, env):
        env.append_path("SWITCHYARD_PATH", self.prefix.share.switchyard)
