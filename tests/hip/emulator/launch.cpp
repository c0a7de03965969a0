// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "counts.hpp"
#include "orders.hpp"
#include "wave.hpp"

namespace emulator {

namespace {

/// Memory that the kernel sees for one launch.
class lent {
 public:
  lent(std::size_t bytes, int device)
      : at_{static_cast<std::byte*>(allocate(std::max<std::size_t>(bytes, 1), device))} {}
  lent(const lent&) = delete;
  lent& operator=(const lent&) = delete;
  ~lent() { release(at_); }
  template <class Value>
  void put(std::size_t offset, Value value) {
    std::memcpy(at_ + offset, &value, sizeof value);
  }
  [[nodiscard]] std::byte* data() const { return at_; }

 private:
  std::byte* at_;
};

void put_hidden(lent& segment, const argument& one, const grid& where) {
  const auto axis = static_cast<std::size_t>(one.hidden.back() - 'x');
  std::uint64_t value = 0;
  if (one.hidden.starts_with("block_count_"))
    value = where.blocks[axis];
  else if (one.hidden.starts_with("group_size_"))
    value = where.threads[axis];
  else if (one.hidden.starts_with("remainder_") || one.hidden.starts_with("global_offset_"))
    value = 0;
  else if (one.hidden == "grid_dims")
    value = where.blocks[2] * where.threads[2] > 1 ? 3 : where.blocks[1] * where.threads[1] > 1 ? 2 : 1;
  else if (one.hidden == "dynamic_lds_size")
    value = where.shared_bytes;
  else
    return;  // garbage, as where nothing sets it
  std::memcpy(segment.data() + one.offset, &value, one.bytes);
}

/// The packet that the hardware's queue would hold.
void put_packet(lent& packet, const grid& where, const lent& arguments) {
  for (std::size_t i = 0; i < 3; ++i) {
    packet.put(4 + 2 * i, static_cast<std::uint16_t>(where.threads[i]));
    packet.put(12 + 4 * i, static_cast<std::uint32_t>(where.blocks[i] * where.threads[i]));
  }
  packet.put(28, where.shared_bytes);
  packet.put(40, reinterpret_cast<std::uint64_t>(arguments.data()));
}

class workgroups {
 public:
  workgroups(const kernel& what, const grid& where, const lent& arguments, const lent& packet,
             const order& in, write_log* log)
      : program_{*what.code},
        where_{where},
        ranges_{allocated(what.device)},
        arguments_{reinterpret_cast<std::uint64_t>(arguments.data())},
        packet_{reinterpret_cast<std::uint64_t>(packet.data())},
        order_{in},
        log_{log},
        count_{std::uint64_t{where.blocks[0]} * where.blocks[1] * where.blocks[2]} {}

  /// At once: each on a thread of its own, as they may wait for one another.
  void run(bool at_once) {
    // Each thread of a launch that is compared has a stretch of the grid, so that the order of neighbours is
    // given. In few workgroups, all of it.
    constexpr std::uint64_t stretch = 64;
    std::uint64_t most = std::max(1U, std::thread::hardware_concurrency());
    if (log_ != nullptr) most = std::clamp<std::uint64_t>(count_ / stretch, 1, most);
    threads_ = std::min(at_once ? count_ : most, count_);
    std::vector<std::thread> others;
    for (std::uint64_t i = 1; i < threads_; ++i) others.emplace_back([this, i] { work(i); });
    work(0);
    for (std::thread& other : others) other.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  /// The workgroup that a thread runs when it has run so many; `count_` where there is none.
  std::uint64_t next(std::uint64_t thread, std::uint64_t done) {
    std::uint64_t begin = 0;
    std::uint64_t end = count_;
    if (log_ != nullptr) {
      begin = count_ * thread / threads_;
      end = count_ * (thread + 1) / threads_;
    } else {
      done = next_.fetch_add(1);
    }
    if (done >= end - begin) return count_;
    return order_.workgroups_backwards ? end - 1 - done : begin + done;
  }

  void work(std::uint64_t thread) {
    counts mine;
    executed = mine.of_kinds();
    try {
      shared_memory shared{std::size_t{program_.shared_bytes} + where_.shared_bytes};
      std::vector<wave> waves;
      for (std::uint64_t done = 0; !failed_; ++done) {
        const std::uint64_t index = next(thread, done);
        if (index == count_) return;
        run_one(index, shared, waves);
      }
    } catch (...) {
      const std::scoped_lock lock{mutex_};
      if (!failure_) failure_ = std::current_exception();
      failed_ = true;
    }
  }

  void run_one(std::uint64_t index, shared_memory& shared, std::vector<wave>& waves) {
    choose_garbage(order_.number ^ index << 20U);
    shared.begin();
    const std::uint32_t threads = where_.threads[0] * where_.threads[1] * where_.threads[2];
    for (std::uint32_t first = 0; first < threads; first += lanes) {
      if (waves.size() == first / lanes)
        waves.emplace_back(program_, access{ranges_, shared, first / lanes, program_.private_bytes, log_});
      begin(waves[first / lanes], index, first, threads);
    }
    std::vector<std::size_t> running(waves.size());
    std::iota(running.begin(), running.end(), std::size_t{0});
    std::uint64_t state = (order_.number + 1) * 0x9e3779b97f4a7c15U ^ index;
    while (!running.empty()) {
      // Between two barriers the waves may run in any order.
      for (std::size_t i = running.size(); i > 1; --i) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        std::swap(running[i - 1], running[(state >> 33U) % i]);
      }
      if (order_.waves_backwards) std::reverse(running.begin(), running.end());
      const std::size_t before = running.size();
      std::vector<std::size_t> waiting;
      while (!running.empty()) {
        std::erase_if(running, [&](std::size_t which) {
          const wave::stop why = waves[which].run();
          if (why == wave::stop::barrier) waiting.push_back(which);
          return why != wave::stop::slice;
        });
        if (failed_) return;  // what another workgroup waits for may not come
      }
      running = std::move(waiting);
      std::sort(running.begin(), running.end());
      if (!running.empty() && running.size() != before)
        throw fault{program_.name + ": " + std::to_string(before - running.size()) + " of " +
                    std::to_string(before) + " waves end where the others wait at a barrier"};
      shared.pass_barrier();
    }
  }

  void begin(wave& one, std::uint64_t index, std::uint32_t first, std::uint32_t threads) const {
    one.reset();
    one.v.resize(program_.vector_registers);
    fill_with_garbage(one.v.data(), one.v.size() * sizeof(row));
    fill_with_garbage(one.s.data(), sizeof one.s);
    one.set_exec(threads - first >= lanes ? ~std::uint64_t{} : (std::uint64_t{1} << (threads - first)) - 1);
    std::size_t at = 0;
    const auto address = [&](std::uint64_t value) {
      one.s[at] = static_cast<std::uint32_t>(value);
      one.s[at + 1] = static_cast<std::uint32_t>(value >> 32U);
      at += 2;
    };
    const auto has = [this](unsigned bit) { return (program_.properties >> bit & 1U) != 0; };
    if (has(0)) {  // a buffer of scratch memory
      one.s[1] = 0x80000000U;
      one.s[3] = scratch_buffer;
      at += 4;
    }
    if (has(1)) address(packet_);
    if (has(2)) at += 2;  // the queue
    if (has(3)) address(arguments_);
    at = program_.user_registers;
    const std::uint64_t rows = where_.blocks[0];
    const std::uint64_t block[] = {index % rows, index / rows % where_.blocks[1],
                                   index / rows / where_.blocks[1]};
    if (emulated == family::rdna4) {  // what traps may write, which kernels read
      one.s[117] = static_cast<std::uint32_t>(block[0]);
      one.s[115] = static_cast<std::uint32_t>(block[1] | block[2] << 16U);
      one.s[116] = first / lanes << 25U;
    }
    for (unsigned i = 0; i < 3 && emulated != family::rdna4; ++i) {
      if ((program_.resources2 >> (7 + i) & 1U) != 0) one.s[at++] = static_cast<std::uint32_t>(block[i]);
    }
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const std::uint32_t thread = first + lane;
      const std::uint32_t x = thread % where_.threads[0];
      const std::uint32_t y = thread / where_.threads[0] % where_.threads[1];
      one.v[0][lane] = x | y << 10U | thread / where_.threads[0] / where_.threads[1] << 20U;
    }
  }

  const program& program_;
  const grid& where_;
  std::vector<range> ranges_;
  std::uint64_t arguments_;
  std::uint64_t packet_;
  order order_;
  write_log* log_;
  std::uint64_t threads_ = 1;
  std::uint64_t count_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

thread_local std::uint64_t* executed = nullptr;

void launch(const kernel& what, const grid& where, void* const* values, bool at_once) {
  static std::atomic<std::uint64_t> launches{0};
  // Compilers load more than there is where the segment's alignment lets them.
  lent arguments{(std::size_t{what.code->argument_bytes} + 63) / 64 * 64, what.device};
  std::size_t next = 0;
  for (const argument& one : what.arguments) {
    if (one.hidden.empty())
      std::memcpy(arguments.data() + one.offset, values[next++], one.bytes);
    else
      put_hidden(arguments, one, where);
  }
  lent packet{64, what.device};
  put_packet(packet, where, arguments);
  counts::launched(what.image, what.code->name);
  run_in_orders(what, where, arguments.data(), launches.fetch_add(1), [&](const order& in, write_log* log) {
    workgroups{what, where, arguments, packet, in, log}.run(at_once);
  });
}

}  // namespace emulator
