# SPDX-License-Identifier: MIT
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class Test(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def has(self, option):
        return self.dependencies[self.tested_reference_str].options.get_safe(option)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for name in ("compiled", "c_library"):
            toolchain.cache_variables[name] = bool(self.has(name))
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        programs = ["headers"]
        if self.has("compiled"):
            programs.append("compiled")
        if self.has("c_library"):  # with an argument it calls a kernel
            programs.append("c_library" if self.has("kernels") == "none" else "c_library softmax")
        for program in programs:
            self.run(os.path.join(self.cpp.build.bindir, program), env="conanrun")
