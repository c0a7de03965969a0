// The emulator through the hip backend: kernels that are right run, and each fault is found. The program is
// given HIP_EMULATOR_LIBRARY and HSACO; the library reads HIP_EMULATOR_ARCH.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
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
#include "driver_error.hpp"
#include "environment.hpp"

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

TEST_CASE("waves meet at a barrier, and what lacks one is wrong") {
  const buffer<int> in{counted(256)};
  buffer<int> out{std::vector<int>(256)};
  std::vector<int> wanted = counted(256);
  std::reverse(wanted.begin(), wanted.end());
  for (int i = 0; i < 8; ++i) {  // in several orders
    REQUIRE(problem_of("reverse", 1, 256, out.data(), in.data()).empty());
    CHECK(out.values() == wanted);
    REQUIRE(problem_of("reverse_at_once", 1, 256, out.data(), in.data()).empty());
    CHECK(out.values() != wanted);
  }
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
}

TEST_CASE("matrix instructions multiply what their layout holds") {
  if (device()->properties().arch.rfind("gfx9", 0) != 0) return;  // no layout of others is known
  std::mt19937 random{sy::test::fresh_seed()};
  const auto number = [&] { return static_cast<int>(random() % 17) - 8; };  // exact in any order
  for (const unsigned size : {32U, 16U}) {
    const unsigned inner = size == 32 ? 8 : 16;
    std::vector<float> left(std::size_t{size} * inner);
    std::vector<float> right(left.size());
    std::vector<float> sums(std::size_t{size} * size);
    for (auto* const matrix : {&left, &right, &sums}) std::generate(matrix->begin(), matrix->end(), number);
    const auto halves = [](const std::vector<float>& of) {
      std::vector<std::uint16_t> out;
      for (const float value : of) out.push_back(sy::f16_from(value));
      return out;
    };
    const buffer<std::uint16_t> a{halves(left)};
    const buffer<std::uint16_t> b{halves(right)};
    const buffer<float> c{sums};
    buffer<float> d{std::vector<float>(sums.size())};
    REQUIRE(
        problem_of(size == 32 ? "multiply_32" : "multiply_16", 1, 64, d.data(), a.data(), b.data(), c.data())
            .empty());
    for (unsigned m = 0; m < size; ++m) {
      for (unsigned n = 0; n < size; ++n) {
        for (unsigned k = 0; k < inner; ++k) sums[m * size + n] += left[m * inner + k] * right[k * size + n];
      }
    }
    CHECK(d.values() == sums);
  }
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

TEST_CASE("a launch that the device cannot do is refused") {
  auto* const kernel = device()->find(code(), "reverse");
  CHECK(device()->launch(kernel, {.block = {512}}, nullptr, {}) != 0);
}
