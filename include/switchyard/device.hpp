// SPDX-License-Identifier: MIT
// The devices of this machine.
#pragma once

#include <switchyard/base/compiled.hpp>
#include <switchyard/devices/device.hpp>
#include <switchyard/devices/stream_router.hpp>

#ifndef SWITCHYARD_COMPILED
#include <switchyard/device_impl.hpp>
#endif
