// SPDX-License-Identifier: MIT
// Accesses to memory, whose results arrive at the wait that covers them.
#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>

#include "wave.hpp"

namespace emulator {

namespace {

std::mutex atomics;  // NOLINT: read-modify-write of workgroups that run on other threads

}  // namespace

wave::reached wave::addresses(const instruction& what) {
  reached out{{}, exec()};
  const bool has_base = what.mask_source != 0xffff;
  if (what.shape == form::scratch) {
    const std::uint64_t base = private_base + (has_base ? s[what.mask_source] : 0U);
    const row* const offsets = what.has_offset ? vector(what.source[0], 1) : nullptr;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const std::uint64_t offset = offsets == nullptr ? 0 : (*offsets)[lane];
      out.address[lane] = base + offset + static_cast<std::uint64_t>(std::int64_t{what.immediate});
    }
    return out;
  }
  const bool wide = what.shape != form::ds && !has_base;
  const row* const low = vector(what.source[0], wide ? 2 : 1);
  std::uint64_t base = has_base ? scalar(what.mask_source, 64, number::integer, 0) : 0;
  if (what.what->adds_offset || what.shape != form::ds)
    base += static_cast<std::uint64_t>(std::int64_t{what.immediate});
  for (unsigned lane = 0; lane < lanes; ++lane) {
    std::uint64_t address = low[0][lane];
    if (wide) address |= static_cast<std::uint64_t>(low[1][lane]) << 32U;
    address += base;
    out.address[lane] = memory.shared ? address & 0xffffffffU : address;
  }
  return out;
}

/// Lanes that leave the buffer take no part.
wave::reached wave::addresses_in_buffer(const instruction& what, unsigned bytes) {
  std::uint32_t word[4];
  for (unsigned i = 0; i < 4; ++i) word[i] = s[what.mask_source + i];
  const std::uint64_t base = word[0] | static_cast<std::uint64_t>(word[1] & 0xffffU) << 32U;
  const bool is_raw = is_cdna ? (word[1] >> 16U & 0x3fffU) == 0  // the stride
                              : (word[3] >> 28U & 3U) == 3;
  // What begins as garbage has bits set that no compiler sets: of swizzled buffers, and that add the lane.
  const bool is_scratch = word[1] >> 31U != 0 && word[3] == scratch_buffer;
  if (!is_scratch && ((word[1] >> 30U) != 0 || (word[3] >> 23U & 1U) != 0 || !is_raw || what.has_index))
    throw fault{"accesses a buffer that is not raw, which is not known"};
  const std::uint64_t scalar_offset = scalar(what.source[2], 32, number::integer, 0);
  const row* const offsets = what.has_offset ? vector(what.source[0], 1) : nullptr;
  reached out{{}, exec()};
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const std::uint64_t offset = std::uint64_t{offsets == nullptr ? 0 : (*offsets)[lane]} +
                                 static_cast<std::uint64_t>(what.immediate) + scalar_offset;
    out.address[lane] = (is_scratch ? private_base : base) + offset;
    if (!is_scratch && offset + bytes > word[2]) out.mask &= ~(std::uint64_t{1} << lane);
  }
  return out;
}

void wave::execute_memory(const instruction& what) {
  const kind& kind_of = *what.what;
  refresh_mask();
  memory.shared = what.shape == form::ds;
  // Its order to what other waves do would be open.
  if (memory.shared && signalled_)
    throw fault{"accesses the LDS between a barrier's signal and wait, which is not known"};
  const unsigned loaded = what.returns ? (kind_of.result_bits + 31U) / 32 : 0;
  pending& one = send(memory.shared ? arrival::shared
                      : loaded == 0 ? arrival::store
                                    : arrival::vector,
                      what.result, static_cast<std::uint8_t>(loaded));
  one.mask = kind_of.loaded_mask;
  memory_call call{
      &memory,      nullptr,     nullptr, one.data.data(), static_cast<std::uint32_t>(what.immediate),
      what.offset0, what.offset1};
  const unsigned data = (kind_of.bits[0] + 31U) / 32;
  if (data != 0) call.data = vector(what.source[1], data);
  if (kind_of.bits[1] != 0) call.data2 = vector(what.source[2], (kind_of.bits[1] + 31U) / 32);
  row* const result = loaded == 0 ? nullptr : vector(what.result, loaded);
  if (result != nullptr) std::copy_n(result, loaded, one.data.data());
  const reached where =
      what.does == work::buffer ? addresses_in_buffer(what, kind_of.access_bytes) : addresses(what);
  {
    std::unique_lock<std::mutex> lock{atomics, std::defer_lock};
    memory.atomic = kind_of.reads_memory && kind_of.writes_memory;
    if (memory.atomic && !memory.shared) lock.lock();
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (mask_[lane] == 0) continue;
      if ((where.mask >> lane & 1U) != 0) {
        memory.lane = lane;
        kind_of.memory(call, lane, where.address[lane]);
      } else {
        for (unsigned i = 0; i < loaded; ++i) one.data[i][lane] = 0;
      }
    }
  }
  for (unsigned i = 0; i < loaded; ++i) {
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (mask_[lane] != 0)  // until it arrives
        result[i][lane] = (result[i][lane] & ~one.mask) | (0x7fc0ffad & one.mask);
    }
  }
}

void wave::execute_scalar_memory(const instruction& what) {
  const kind& kind_of = *what.what;
  memory.shared = memory.atomic = false;
  std::array<row, 16> loaded;
  const memory_call call{&memory, nullptr, nullptr, loaded.data(), 0, 0, 0};
  const std::uint64_t address = scalar(what.source[0], 64, number::integer, 0) +
                                static_cast<std::uint64_t>(std::int64_t{what.immediate}) +
                                scalar(what.source[1], 32, number::integer, 0);
  if (kind_of.result_bits == 0 || kind_of.result_bits > 512)
    throw fault{"is no load of scalars that is known"};
  const bool is_part =
      emulated == family::rdna4 && std::string_view{kind_of.name}.find("_B") == std::string_view::npos;
  kind_of.memory(call, 0, is_part ? address : address & ~std::uint64_t{3});
  pending& one =
      send(arrival::scalar, what.result, static_cast<std::uint8_t>((kind_of.result_bits + 31U) / 32));
  for (unsigned i = 0; i < one.rows; ++i) {
    one.scalars[i] = loaded[i][0];
    set_scalar(static_cast<std::uint16_t>(what.result + i), 0xdeadbeefU);
  }
}

/// To be filled by the caller.
pending& wave::send(arrival kind, std::uint16_t result, std::uint8_t rows) {
  if (kind == arrival::store && !is_cdna) return unheeded_;
  arrivals& which = kind == arrival::vector || kind == arrival::store ? vector_ : others_;
  return which.add(kind, result, rows, exec());
}

void wave::arrive(const pending& one) {
  if (one.kind == arrival::scalar) {
    for (unsigned i = 0; i < one.rows; ++i)
      set_scalar(static_cast<std::uint16_t>(one.result + i), one.scalars[i]);
    return;
  }
  if (one.rows == 0) return;
  row* const to = vector(one.result, one.rows);
  for (unsigned i = 0; i < one.rows; ++i) {
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if ((one.exec >> lane & 1U) != 0)
        to[i][lane] = (to[i][lane] & ~one.mask) | (one.data[i][lane] & one.mask);
    }
  }
}

/// Lets arrive what has arrived for sure when no more than so many are on their way. Loads of vectors return
/// in order, those of the LDS among themselves, those of scalars in any.
void wave::wait(std::size_t vector_loads, std::size_t others) {
  const auto let = [this](const pending& one) { arrive(one); };
  if (vector_.size() > vector_loads)
    vector_.take(
        vector_.size() - vector_loads, [](const pending&) { return true; }, let);
  if (others_.size() <= others) return;
  if (others == 0)
    others_.take(
        others_.size(), [](const pending&) { return true; }, let);
  else
    wait_of(arrival::shared, others);
}

/// The same with counters that are apart, as RDNA4 has them.
void wave::wait_of(arrival kind, std::size_t left) {
  if (kind == arrival::scalar && left != 0) return;  // they return in any order
  const std::size_t sent = others_.count(kind);
  if (sent <= left) return;
  others_.take(
      sent - left, [kind](const pending& one) { return one.kind == kind; },
      [this](const pending& one) { arrive(one); });
}

}  // namespace emulator
