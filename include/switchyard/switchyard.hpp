// Everything. It costs 2 s and 120,000 preprocessed lines to compile, for JSON: include it in one unit of an
// engine, and dispatcher.hpp, which costs a third, in the others.
#pragma once

#include <switchyard/catalog.hpp>
#include <switchyard/device.hpp>
#include <switchyard/dispatcher.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/version.hpp>
