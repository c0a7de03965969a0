// SPDX-License-Identifier: MIT
// The library's version, and the versions of the file formats it reads.
#pragma once

#define SWITCHYARD_VERSION_MAJOR 0
#define SWITCHYARD_VERSION_MINOR 1
#define SWITCHYARD_VERSION_PATCH 0
