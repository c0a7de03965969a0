// SPDX-License-Identifier: MIT
// Everything. It costs 2 s and 120,000 preprocessed lines to compile, for JSON: include it in one unit of an
// engine, and dispatcher.hpp, which costs a third, in the others.
#pragma once

#include <switchyard/base/cpp20.hpp>
#include <switchyard/catalog.hpp>
#include <switchyard/check_indices.hpp>
#include <switchyard/device.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/live.hpp>
#include <switchyard/operators/built_in.hpp>
#include <switchyard/tensor.hpp>
#include <switchyard/tensor_call.hpp>
#include <switchyard/version.hpp>
