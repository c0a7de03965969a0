// SPDX-License-Identifier: MIT
// The emulator through the hip backend: kernels that are right run, and each fault is found. The program is
// given HIP_EMULATOR_LIBRARY and HSACO; the library reads HIP_EMULATOR_ARCH.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <switchyard/base/float16.hpp>
#include <switchyard/devices/hip/driver.hpp>
#include <switchyard/devices/hip/open.hpp>
#include <switchyard/tune/memory.hpp>

#include "catch.hpp"
#include "environment.hpp"
#include "thrown.hpp"

namespace {

namespace sy = switchyard;
using sy::test::contains;
using sy::test::error_of;
using sy::test::required_variable;

std::shared_ptr<sy::device_driver> device() {
  static const auto opened = sy::hip::open(0, {.library = required_variable("HIP_EMULATOR_LIBRARY")});
  return opened;
}

sy::module_handle code() {
  static const sy::module_handle loaded = [] {
    std::ifstream stream{required_variable("HSACO"), std::ios::binary};
    const std::vector<char> file{std::istreambuf_iterator<char>{stream}, {}};
    const auto* const begin = reinterpret_cast<const std::byte*>(file.data());
    return device()->load({begin, begin + file.size()}, "faults.hsaco");
  }();
  return loaded;
}

template <class Function>
Function* own_function(const char* name) {
  void* const library = ::dlopen(required_variable("HIP_EMULATOR_LIBRARY").c_str(), RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

/// Launches a kernel and returns what was wrong; nothing where it ran to its end.
template <class... Arguments>
std::string problem_of(const char* name, unsigned blocks, unsigned threads, Arguments... arguments) {
  auto* const kernel = device()->find(code(), name);
  void* values[]{static_cast<void*>(&arguments)...};
  const sy::launch_geometry where{.grid = {blocks}, .block = {threads}};
  if (device()->launch(kernel, where, values, {}) == 0) return {};
  const std::string text = own_function<const char*()>("hipEmulatorProblem")();
  own_function<void()>("hipEmulatorRecover")();
  return text.empty() ? "an error without a text" : text;
}

template <class Value>
class buffer {
 public:
  explicit buffer(const std::vector<Value>& values)
      : count_{values.size()}, memory_{device(), values.size() * sizeof(Value)} {
    memory_.upload(values.data(), values.size() * sizeof(Value));
  }
  [[nodiscard]] Value* data() const { return memory_.template data<Value>(); }
  [[nodiscard]] std::vector<Value> values() {
    std::vector<Value> out(count_);
    memory_.download(out.data(), count_ * sizeof(Value));
    return out;
  }

 private:
  std::size_t count_;
  sy::tune::device_buffer memory_;
};

std::vector<int> counted(std::size_t count) {
  std::vector<int> out(count);
  std::iota(out.begin(), out.end(), 1);
  return out;
}

}  // namespace

TEST_CASE("a kernel runs, and one that leaves its memory is stopped") {
  std::vector<float> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const buffer<float> x{numbers};
  buffer<float> y{std::vector<float>(100, -1.0F)};
  CHECK(problem_of("scale", 2, 64, y.data(), x.data(), 2.0F, 100).empty());
  const auto found = y.values();
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == 2 * numbers[i]);
  const std::string problem = problem_of("scale", 2, 64, y.data(), x.data(), 2.0F, 101);
  INFO(problem);
  CHECK(contains(problem, "scale, byte "));
  CHECK(contains(problem, "LOAD"));
  CHECK(contains(problem, "reads 4 bytes at byte 400 of an allocation of 400"));
  const std::string nowhere =
      problem_of("scale", 1, 64, static_cast<float*>(nullptr) + 4, x.data(), 2.0F, 64);
  CHECK(contains(nowhere, "writes 4 bytes at 0x10, where nothing is allocated"));
}

TEST_CASE("what lies between allocations is nobody's") {
  const buffer<float> neighbours[3]{buffer<float>{std::vector<float>(64)},
                                    buffer<float>{std::vector<float>(64)},
                                    buffer<float>{std::vector<float>(64)}};
  for (std::ptrdiff_t away = -1024; away <= 1024; away += 64) {
    INFO(away);
    CHECK(problem_of("scale", 1, 64, neighbours[0].data(), neighbours[1].data() + away, 2.0F, 64).empty() ==
          (away == 0));
  }
}

TEST_CASE("waves meet at a barrier, and what lacks one is found") {
  const buffer<int> in{counted(256)};
  buffer<int> out{std::vector<int>(256)};
  std::vector<int> wanted = counted(256);
  std::reverse(wanted.begin(), wanted.end());
  for (int i = 0; i < 8; ++i) {  // in several orders
    REQUIRE(problem_of("reverse", 1, 256, out.data(), in.data()).empty());
    CHECK(out.values() == wanted);
    const std::string problem = problem_of("reverse_at_once", 1, 256, out.data(), in.data());
    INFO(problem);
    CHECK(contains(problem, "of the LDS, which wave "));
    CHECK(contains(problem, " without a barrier between"));
    const std::string missed = problem_of("missed_barrier", 1, 256, out.data());
    CHECK(contains(missed, "waves end where the others wait at a barrier"));
  }
}

TEST_CASE("a barrier of two instructions is signalled before it is waited for, and keeps both apart") {
  if (device()->properties().arch.rfind("gfx12", 0) != 0) return;  // the others have one instruction
  buffer<int> out{std::vector<int>(64)};
  CHECK(contains(problem_of("not_signalled", 1, 64, out.data()),
                 "S_BARRIER_WAIT: waits at a barrier that it has not signalled"));
  CHECK(contains(problem_of("between_signal_and_wait", 1, 64, out.data()),
                 "accesses the LDS between a barrier's signal and wait"));
}

TEST_CASE("waves that write what another touches race") {
  buffer<int> out{std::vector<int>(256)};
  CHECK(problem_of("both_write", 1, 256, out.data(), 1).empty());
  CHECK(out.values() == std::vector<int>(256, 1));
  CHECK(contains(problem_of("both_write", 1, 256, out.data(), 0), " wrote without a barrier between"));
  bool read_before = false;
  bool wrote_before = false;
  for (int i = 0; i < 64; ++i) {  // in several orders
    const std::string problem = problem_of("write_what_is_read", 1, 256, out.data());
    CHECK(contains(problem, " without a barrier between"));
    read_before |= contains(problem, "writes") && contains(problem, " read without");
    wrote_before |= contains(problem, "reads") && contains(problem, " wrote without");
  }
  CHECK(read_before);
  CHECK(wrote_before);
  REQUIRE(problem_of("add_shared", 1, 256, out.data()).empty());
  CHECK(out.values() == std::vector<int>(256, 256));
}

TEST_CASE("what waves write in two orders is compared") {
  buffer<int> numbers{counted(256)};
  REQUIRE(problem_of("reverse_in_place", 1, 256, numbers.data()).empty());
  std::vector<int> wanted = counted(256);
  std::reverse(wanted.begin(), wanted.end());
  CHECK(numbers.values() == wanted);
  for (int i = 0; i < 8; ++i) {  // whatever the first order
    const buffer<int> turned{counted(256)};
    const std::string problem = problem_of("reverse_in_place_at_once", 1, 256, turned.data());
    INFO(problem);
    CHECK(contains(problem,
                   "reverse_in_place_at_once: its waves in another order write other values: at byte 0 of "
                   "argument 0's allocation of 1024 bytes, 0x00000"));
  }
  for (const unsigned blocks : {1U, 2U}) {
    INFO(blocks);
    const buffer<int> list{std::vector<int>(8)};
    const buffer<int> count{std::vector<int>(1)};
    const std::string problem = problem_of("append", blocks, 256, list.data(), count.data());
    INFO(problem);
    CHECK(contains(problem, "append: its waves in another order write other values"));
  }
}

TEST_CASE("what workgroups write in two orders is compared") {
  for (const unsigned threads : {64U, 128U}) {
    for (int i = 0; i < 4; ++i) {
      const buffer<int> out{std::vector<int>(128)};
      const std::string problem = problem_of("all_write", 9, threads, out.data(), 0);
      INFO(problem);
      CHECK(
          contains(problem,
                   "all_write: its workgroups in another order write other values: at byte 0 of argument 0's "
                   "allocation of 512 bytes, 0x0000000"));
      const bool forward =
          contains(problem, "0x00000000 in place of 0x00000008; " + std::to_string(threads) + " bytes");
      CHECK(forward !=
            contains(problem, "0x00000008 in place of 0x00000000; " + std::to_string(threads) + " bytes"));
    }
  }
  const buffer<int> out{std::vector<int>(256)};
  CHECK(problem_of("all_write", 9, 64, out.data(), 1).empty());
  buffer<int> numbers{counted(257)};
  CHECK(problem_of("add_next", 8, 32, out.data(), numbers.data()).empty());
  CHECK(numbers.values() == counted(257));
  // Only the first launch with several workgroups is compared.
  CHECK(problem_of("add_next", 8, 32, numbers.data(), numbers.data()).empty());
}

TEST_CASE("what the setting says is compared") {
  const auto orders = [](const char* which) { ::setenv("HIP_EMULATOR_ORDERS", which, 1); };  // NOLINT
  const buffer<int> numbers{counted(32 * 300 + 1)};
  orders("all");
  for (const unsigned blocks : {2U, 8U, 127U, 128U, 300U}) {  // on one processor, and on several
    INFO(blocks);
    const buffer<int> out{std::vector<int>(std::size_t{32} * blocks)};
    CHECK(problem_of("add_next", blocks, 32, out.data(), numbers.data()).empty());
    CHECK(contains(problem_of("add_next", blocks, 32, numbers.data(), numbers.data()),
                   "add_next: its workgroups in another order write other values"));
  }
  orders("none");
  CHECK(problem_of("reverse_in_place_at_once", 1, 256, numbers.data()).empty());
  orders("some");
  CHECK(contains(problem_of("reverse_in_place", 1, 256, numbers.data()), "HIP_EMULATOR_ORDERS is 'some'"));
  orders("first");
}

TEST_CASE("a kernel whose sums round as their order has it is not compared") {
  buffer<float> sum{std::vector<float>(1)};
  CHECK(problem_of("add_floats", 6, 1, sum.data(), 3.0F).empty());
  CHECK(sum.values().front() >= 3e8F);
}

TEST_CASE("what nobody sets is garbage") {
  buffer<float> out{std::vector<float>(256)};
  REQUIRE(problem_of("unset", 1, 64, out.data(), 5).empty());
  for (const float value : out.values()) CHECK(std::isnan(value));
}

TEST_CASE("lanes have scratch memory of their own, and an end of it") {
  buffer<int> out{std::vector<int>(16 * 64)};
  REQUIRE(problem_of("turn", 1, 64, out.data(), 3).empty());
  const auto found = out.values();
  for (int thread = 0; thread < 64; ++thread) {
    for (int i = 0; i < 16; ++i)
      CHECK(found[static_cast<std::size_t>(16 * thread + i)] == 100 * thread + (i + 13) % 16);
  }
  CHECK(contains(problem_of("beyond_scratch", 1, 64, out.data(), 100000), "of a lane's scratch memory"));
}

TEST_CASE("an atomic addition returns nothing unless it is asked to") {
  buffer<int> sums{std::vector<int>(1)};
  buffer<int> out{std::vector<int>(64)};
  REQUIRE(problem_of("add_and_keep", 1, 64, sums.data(), out.data()).empty());
  CHECK(sums.values().front() == 64);
  for (int i = 0; i < 64; ++i) CHECK(out.values()[static_cast<std::size_t>(i)] == 3 * i);
}

TEST_CASE("what lies behind a buffer is read as 0 and not written") {
  buffer<int> in{std::vector<int>(40, 7)};
  buffer<int> out{std::vector<int>(40, -1)};
  REQUIRE(problem_of("through_buffer", 1, 64, out.data(), in.data(), 4 * 24).empty());
  std::vector<int> wanted(40, -1);
  std::fill_n(wanted.begin(), 24, 8);
  CHECK(out.values() == wanted);
  CHECK(contains(problem_of("through_buffer", 1, 64, out.data(), in.data(), 4 * 41),
                 "of an allocation of 160"));
}

TEST_CASE("shared memory has an end, and begins as garbage") {
  buffer<int> out{std::vector<int>(64)};
  CHECK(problem_of("beyond_shared", 1, 64, out.data(), 63).empty());
  CHECK(out.values() == std::vector<int>(64, 63));
  const std::string problem = problem_of("beyond_shared", 1, 64, out.data(), 64);
  INFO(problem);
  CHECK(contains(problem, "beyond_shared, byte "));
  CHECK(contains(problem, "reads 4 bytes at 256 of the LDS, of which the workgroup has 256"));
  buffer<float> unset{std::vector<float>(64)};
  REQUIRE(problem_of("unset_shared", 1, 64, unset.data()).empty());
  for (const float value : unset.values()) CHECK(std::isnan(value));
}

TEST_CASE("a load that is not waited for has not arrived") {
  const buffer<float> in{std::vector<float>(64, 3.0F)};
  buffer<float> out{std::vector<float>(64)};
  REQUIRE(problem_of("waits", 1, 64, out.data(), in.data()).empty());
  CHECK(out.values() == std::vector<float>(64, 3.0F));
  REQUIRE(problem_of("no_wait", 1, 64, out.data(), in.data()).empty());
  for (const float value : out.values()) CHECK(std::isnan(value));
  buffer<float> both{std::vector<float>(128)};  // before the wait, and behind it
  const auto check = [&](const std::string& problem) {
    REQUIRE(problem.empty());
    const auto found = both.values();
    for (std::size_t i = 0; i < 64; ++i) CHECK(found[i] != 3.0F);
    CHECK(std::vector<float>(found.begin() + 64, found.end()) == std::vector<float>(64, 3.0F));
  };
  check(problem_of("no_wait_shared", 1, 64, both.data()));
  check(problem_of("no_wait_scalar", 1, 64, both.data(), in.data()));
}

TEST_CASE("matrix instructions multiply what their layout holds") {
  const std::string& arch = device()->properties().arch;
  const bool is_mfma = arch.rfind("gfx9", 0) == 0;
  const bool repeats = arch.rfind("gfx11", 0) == 0;
  std::mt19937 random{sy::test::fresh_seed()};
  const auto number = [&] { return static_cast<int>(random() % 17) - 8; };  // exact in any order and type
  const auto check = [&](const char* kernel, unsigned size, unsigned inner, const auto& as_element) {
    INFO(kernel);
    std::vector<float> left(std::size_t{size} * inner);
    std::vector<float> right(left.size());
    std::vector<float> sums(std::size_t{size} * size);
    for (auto* const matrix : {&left, &right, &sums}) std::generate(matrix->begin(), matrix->end(), number);
    const auto elements = [&](const std::vector<float>& of) {
      std::vector<decltype(as_element(0.0F))> out;
      for (const float value : of) out.push_back(as_element(value));
      return buffer{out};
    };
    const auto a = elements(left);
    const auto b = elements(right);
    const buffer<float> c{sums};
    buffer<float> d{std::vector<float>(sums.size())};
    const unsigned threads = is_mfma ? 64 : 32;
    REQUIRE(problem_of(kernel, 1, threads, d.data(), a.data(), b.data(), c.data(), 0).empty());
    for (unsigned m = 0; m < size; ++m) {
      for (unsigned n = 0; n < size; ++n) {
        for (unsigned k = 0; k < inner; ++k) sums[m * size + n] += left[m * inner + k] * right[k * size + n];
      }
    }
    CHECK(d.values() == sums);
    if (repeats) {
      CHECK(contains(problem_of(kernel, 1, threads, d.data(), a.data(), b.data(), c.data(), 1),
                     "lanes 16 to 31 do not repeat lanes 0 to 15"));
    }
  };
  const auto half = [](float value) { return sy::f16_from(static_cast<double>(value)); };
  const auto bfloat = [](float value) { return sy::bf16_from(static_cast<double>(value)); };
  check("multiply_16x16_f16", 16, 16, half);
  check("multiply_16x16_bf16", 16, 16, bfloat);
  if (!is_mfma) return;
  check("multiply_32x8_f16", 32, 8, half);
  check("multiply_32x8_bf16", 32, 8, bfloat);
  check("multiply_32x2_f32", 32, 2, [](float value) { return value; });
  check("multiply_16x4_f32", 16, 4, [](float value) { return value; });
}

TEST_CASE("lanes swap registers under their mask") {
  for (const int count : {0, 1, 20, 64}) {
    buffer<int> out{std::vector<int>(128, -1)};
    REQUIRE(problem_of("swap", 1, 64, out.data(), count).empty());
    const auto found = out.values();
    for (int i = 0; i < 64; ++i) {
      CHECK(found[static_cast<std::size_t>(i)] == (i < count ? 1000 : 0) + i);
      CHECK(found[static_cast<std::size_t>(64 + i)] == (i < count ? 0 : 1000) + i);
    }
  }
}

TEST_CASE("a scalar register is compared with a constant") {
  if (device()->properties().arch.rfind("gfx12", 0) == 0) return;  // has no such instruction
  for (const int value : {-8, -7, -6, 0, 65528, 65529, 65530}) {
    INFO(value);
    buffer<int> out{std::vector<int>(256, -1)};
    REQUIRE(problem_of("compare", 1, 64, out.data(), value).empty());
    const auto found = out.values();
    CHECK((found[0] == 1) == (value < -7));
    CHECK((found[64] == 1) == (value == -7));
    CHECK((found[128] == 1) == (static_cast<unsigned>(value) >= 0xfff9U));
    CHECK((found[192] == 1) == (value != 0xfff9));
  }
}

TEST_CASE("what runs where lanes meet before EXEC is restored is refused") {
  buffer<int> out{std::vector<int>(64)};
  REQUIRE(problem_of("copy_behind", 1, 64, out.data(), 20).empty());
  for (int i = 0; i < 64; ++i) CHECK(out.values()[static_cast<std::size_t>(i)] == (i < 20 ? 100 : 0) + i);
  const auto problem = error_of([] { (void)device()->find(code(), "copy_before"); });
  const std::string text = own_function<const char*()>("hipEmulatorProblem")();
  INFO(text);
  CHECK(contains(text, "copy_before, byte "));
  CHECK(contains(text, "V_MOV_B32_E32 runs where lanes meet, before EXEC is restored"));
}

TEST_CASE("an instruction that is not known is named") {
  const auto problem = error_of([] { (void)device()->find(code(), "unknown"); });
  CHECK(contains(own_function<const char*()>("hipEmulatorProblem")(), "S_TRAP is not known"));
  CHECK(contains(problem.what(), "unknown"));
}

TEST_CASE("workgroups on all processors add to one number") {
  buffer<int> sum{std::vector<int>(1)};
  REQUIRE(problem_of("add_one", 200, 64, sum.data()).empty());
  CHECK(sum.values().front() == 200 * 64);
}

TEST_CASE("what a stream captures is done when its graph is launched") {
  struct graph;
  void* stream = nullptr;
  graph* captured = nullptr;
  graph* executable = nullptr;
  REQUIRE(own_function<int(void**)>("hipStreamCreate")(&stream) == 0);
  buffer<int> sum{std::vector<int>(1)};
  auto* const kernel = device()->find(code(), "add_one");
  REQUIRE(own_function<int(void*, int)>("hipStreamBeginCapture")(stream, 0) == 0);
  CHECK(device()->capturing(sy::stream{static_cast<ihipStream_t*>(stream)}));
  {
    int* to = sum.data();
    void* values[]{&to};
    REQUIRE(device()->launch(kernel, {.grid = {2}, .block = {64}}, values,
                             sy::stream{static_cast<ihipStream_t*>(stream)}) == 0);
    to = nullptr;  // the graph has its own
  }
  CHECK(device()->synchronize(sy::stream{static_cast<ihipStream_t*>(stream)}) != 0);
  REQUIRE(own_function<int(void*, graph**)>("hipStreamEndCapture")(stream, &captured) == 0);
  CHECK(sum.values().front() == 0);
  REQUIRE(own_function<int(graph**, graph*, void**, char*, std::size_t)>("hipGraphInstantiate")(
              &executable, captured, nullptr, nullptr, 0) == 0);
  for (int n = 1; n <= 3; ++n) {
    REQUIRE(own_function<int(graph*, void*)>("hipGraphLaunch")(executable, stream) == 0);
    CHECK(sum.values().front() == 128 * n);
  }
  own_function<int(graph*)>("hipGraphExecDestroy")(executable);
  own_function<int(graph*)>("hipGraphDestroy")(captured);
  own_function<int(void*)>("hipStreamDestroy")(stream);
}

TEST_CASE("each device has memory and kernels of its own") {
  const auto other = sy::hip::open(1, {.library = required_variable("HIP_EMULATOR_LIBRARY")});
  std::ifstream stream{required_variable("HSACO"), std::ios::binary};
  const std::vector<char> file{std::istreambuf_iterator<char>{stream}, {}};
  const auto* const begin = reinterpret_cast<const std::byte*>(file.data());
  auto* const kernel = other->find(other->load({begin, begin + file.size()}, "faults.hsaco"), "add_one");
  sy::tune::device_buffer sum{other, 4};
  sum.fill(0);
  int* to = sum.data<int>();
  void* values[]{&to};
  REQUIRE(other->launch(kernel, {.grid = {1}, .block = {64}}, values, {}) == 0);
  int found = 0;
  sum.download(&found, 4);
  CHECK(found == 64);
  CHECK_FALSE(problem_of("add_one", 1, 64, to).empty());
}

TEST_CASE("a kernel's attributes are told") {
  const auto attribute = [](const char* name, int which) {
    int value = -1;
    // As the driver's handle leads to HIP's.
    void* loaded = nullptr;
    std::ifstream stream{required_variable("HSACO"), std::ios::binary};
    const std::vector<char> file{std::istreambuf_iterator<char>{stream}, {}};
    REQUIRE(own_function<int(void**, const void*)>("hipModuleLoadData")(&loaded, file.data()) == 0);
    void* function = nullptr;
    REQUIRE(own_function<int(void**, void*, const char*)>("hipModuleGetFunction")(&function, loaded, name) ==
            0);
    CHECK(own_function<int(int*, int, void*)>("hipFuncGetAttribute")(&value, which, function) == 0);
    own_function<int(void*)>("hipModuleUnload")(loaded);
    return value;
  };
  CHECK(attribute("reverse", 0) == 256);
  CHECK(attribute("reverse", 1) == 1024);
  CHECK(attribute("turn", 3) >= 64);
}

TEST_CASE("a launch that the device cannot do is refused") {
  auto* const kernel = device()->find(code(), "reverse");
  CHECK(device()->launch(kernel, {.block = {512}}, nullptr, {}) != 0);
}
