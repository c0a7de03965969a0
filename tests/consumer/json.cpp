// SPDX-License-Identifier: MIT
// A second unit of the user's program: calls, and what needs the JSON library.
#include <switchyard/dispatcher.hpp>
#include <switchyard/files/json.hpp>
