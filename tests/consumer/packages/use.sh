#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs in a fresh system, in the folder with the packages: installs, uses, moves and removes them.
set -eu
cd "$(dirname "$0")"
export DEBIAN_FRONTEND=noninteractive

expect() {  # text, command...: the command succeeds and prints the text
  wanted=$1
  shift
  printed=$("$@" 2>&1) || { echo "$printed"; echo "failed: $*"; exit 1; }
  case $printed in *"$wanted"*) ;; *) echo "$printed"; echo "$* does not print '$wanted'"; exit 1 ;; esac
}

# Kernels and the tool, without the headers.
dpkg -i switchyard-tools_*.deb switchyard-tables_*.deb switchyard-kernels-host-*.deb
version=$(dpkg-query -W -f '${Version}' switchyard-tools)
expect "switchyard ${version%-*}" switchyard --version
expect "/usr/share/switchyard/tables/softmax/" switchyard list softmax
expect "/usr/share/switchyard/kernels/softmax/host-" switchyard explain softmax dtype=f32 rows=64 columns=4096
expect "0 errors" switchyard check /usr/share/switchyard
if find /usr/share/switchyard -type f -name '*.so' | grep .; then echo "shared objects in /usr/share"; exit 1; fi

# A program in C, a program in C++: by the compiler alone, by pkg-config, by CMake.
dpkg -i libswitchyard0_*.deb libswitchyard-dev_*.deb
gcc c_library.c -o c_program -lswitchyard
expect "0.644" ./c_program softmax
# shellcheck disable=SC2046
c++ -std=c++20 roots.cpp -o roots $(pkg-config --cflags --libs switchyard)
expect "/usr/share/switchyard" ./roots
cmake -S . -B build >/dev/null
cmake --build build >/dev/null
expect "0.644" build/program
expect "0.644" build/c_program softmax
expect "usage" switchyard-kernels --help
for page in switchyard switchyard-kernels; do expect ".SH NAME" gzip -dc "/usr/share/man/man1/$page.1.gz"; done

# Moved: the tool, the library and a program that is built there find the kernels beside them.
mkdir -p /opt/moved
for package in *.deb; do dpkg -x "$package" /opt/moved; done
dpkg -P libswitchyard-dev libswitchyard0 switchyard-tools switchyard-tables $(dpkg-query -W -f '${Package}\n' 'switchyard-kernels-*')
if find /usr -name '*switchyard*' | grep .; then echo "left behind after removal"; exit 1; fi
expect "/opt/moved/usr/share/switchyard/kernels/softmax" /opt/moved/usr/bin/switchyard explain softmax dtype=f32 rows=64 columns=4096
library=$(dirname /opt/moved/usr/lib/*/libswitchyard.so)
gcc c_library.c -o c_program -I/opt/moved/usr/include -L"$library" -Wl,-rpath,"$library" -lswitchyard
expect "of /opt/moved/usr/share/switchyard/kernels/softmax" env SWITCHYARD_DEBUG=1 ./c_program softmax
PKG_CONFIG_PATH=/opt/moved/usr/share/pkgconfig
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
c++ -std=c++20 roots.cpp -o roots $(pkg-config --cflags --libs switchyard)
expect "/opt/moved/usr/share/switchyard" ./roots
rm -rf build
cmake -S . -B build -Dswitchyard_ROOT=/opt/moved/usr >/dev/null
cmake --build build >/dev/null
expect "of /opt/moved/usr/share/switchyard/kernels/softmax" env SWITCHYARD_DEBUG=1 build/program
echo "used"
