// SPDX-License-Identifier: MIT
// A second unit of the user's program: the whole library in one include.
#include <switchyard/switchyard.hpp>
