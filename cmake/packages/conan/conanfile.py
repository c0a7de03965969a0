# SPDX-License-Identifier: MIT
"""Conan 2.   conan create cmake/packages/conan

The headers, the same compiled as a static library, the C library, and CPU kernels with their tables.
"""

import os
from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class Switchyard(ConanFile):
    name = "switchyard"
    version = "0.1.0"
    license = "MIT"
    description = "Runs the fastest precompiled kernel for each call"
    topics = ("gpu", "cuda", "hip", "kernels", "tuning")
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"compiled": [True, False], "c_library": [True, False], "kernels": ["none", "ci", "full"]}
    default_options = {"compiled": True, "c_library": True, "kernels": "full"}

    def export_sources(self):
        tree = Path(self.recipe_folder).resolve().parent.parent.parent
        for pattern in ("cmake/*", "include/*", "kernels/*", "tables/*", "CMakeLists.txt", "LICENSE"):
            copy(self, pattern, tree, self.export_sources_folder, excludes=["*/study/*", "*.svg", "*__pycache__*"])

    def requirements(self):
        self.requires("nlohmann_json/[>=3.11 <4]", transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "EXAMPLES", "TOOL"):
            toolchain.cache_variables[f"SWITCHYARD_BUILD_{part}"] = False
        toolchain.cache_variables["SWITCHYARD_BUILD_C_LIBRARY"] = bool(self.options.c_library)
        toolchain.cache_variables["SWITCHYARD_BUILD_KERNELS"] = self.options.kernels != "none"
        if self.options.kernels != "none":
            arch = {"armv8": "aarch64"}.get(str(self.settings.arch), str(self.settings.arch))
            toolchain.cache_variables["SWITCHYARD_KERNEL_SET"] = str(self.options.kernels)
            toolchain.cache_variables["SWITCHYARD_KERNEL_TARGETS"] = f"host-{arch}"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        for target, wanted in (
            ("switchyard_compiled", self.options.compiled),
            ("switchyard_c", self.options.c_library),
            ("kernels", self.options.kernels != "none"),
        ):
            if wanted:
                cmake.build(target=target)

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # The package's own CMake files: they also have switchyard_add_kernels().
        self.cpp_info.set_property("cmake_find_mode", "none")
        headers = self.cpp_info.components["headers"]
        headers.builddirs = ["", os.path.join("share", "cmake", "switchyard")]  # a package has its components' alone
        headers.requires = ["nlohmann_json::nlohmann_json"]
        headers.system_libs = ["dl", "pthread"]
        if self.options.compiled:
            compiled = self.cpp_info.components["compiled"]
            compiled.libs = ["switchyard_compiled"]
            compiled.defines = ["SWITCHYARD_COMPILED"]
            compiled.requires = ["headers"]
        if self.options.c_library:
            self.cpp_info.components["c"].libs = ["switchyard"]
        # A program that is moved to another machine finds the kernels here.
        self.runenv_info.append_path("SWITCHYARD_PATH", os.path.join(self.package_folder, "share", "switchyard"))
