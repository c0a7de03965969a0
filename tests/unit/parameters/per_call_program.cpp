// SPDX-License-Identifier: MIT
#include <array>
#include <bit>
#include <catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <switchyard/expression/names.hpp>
#include <switchyard/expression/parse.hpp>
#include <switchyard/parameters/per_call_compiler.hpp>
#include <switchyard/parameters/per_call_program.hpp>

#include "../../environment.hpp"

using namespace switchyard;

namespace {

struct per_call_operator {
  static constexpr std::string_view name = "per_call";
  struct arguments {
    std::int64_t a = 0, b = 0, c = 0;
    const void *p = nullptr, *q = nullptr;
    std::uint64_t u = 0;
    std::int32_t n = 0;
    std::uint32_t m = 0;
    std::int16_t s = 0;
    float f = 0;
    std::int64_t x = 0, y = 0;
  };
  static constexpr auto fields =
      switchyard::fields<&arguments::a, &arguments::b, &arguments::c, &arguments::p, &arguments::q,
                         &arguments::u, &arguments::n, &arguments::m, &arguments::s, &arguments::f>;
  static constexpr auto axes =
      switchyard::axes(switchyard::type_axis<&arguments::x>(), switchyard::size_axis<&arguments::y>());
};

constexpr std::array all_kinds{value_kind::i64, value_kind::i32, value_kind::u64,
                               value_kind::u32, value_kind::i16, value_kind::u8};

scope per_call_names() {
  scope out;
  const auto& op = describe<per_call_operator>();
  for (std::uint32_t i = 0; i < op.fields.size(); ++i)
    out.add(op.fields[i].name, {symbol::source::field, i, 0, 0, false});
  for (std::uint32_t i = 0; i < op.axes.size(); ++i)
    out.add(op.axes[i].name, {symbol::source::axis, i, 0, 0, false});
  return out;
}

/// The forms that compile, with names and constants left open.
constexpr std::array<const char*, 8> forms{
    "F",
    "F / P",
    "F * 1",
    "min(F, K)",
    "F < 0 ? K : min(F, K)",
    "x != 0 ? 0 : min(F, K)",
    "x + 4 * (W != 0) + 8 * (V != 0) + K",
    "(W != 0) + 2 * (V != 0) + 4 * x",
};
/// And those that may not.
constexpr std::array<const char*, 10> others{
    "F / K", "F + G", "F * K", "F << 3", "F % K", "F == 0", "K - F", "max(F, y) / x", "y / x + F", "-F",
};

template <class Number>
std::int64_t draw_edge(std::mt19937_64& random, Number /*kind*/) {
  using limits = std::numeric_limits<Number>;
  const std::array<std::int64_t, 12> edges{
      0,       1,         -1,        7,         8,         -8,
      1 << 20, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, static_cast<std::int64_t>(limits::max())};
  return random() % 4 == 0 ? static_cast<std::int64_t>(random()) : edges[random() % edges.size()];
}

per_call_operator::arguments draw_arguments(std::mt19937_64& random) {
  per_call_operator::arguments out;
  out.a = draw_edge(random, std::int64_t{});
  out.b = draw_edge(random, std::int64_t{});
  out.c = draw_edge(random, std::int64_t{});
  out.p = random() % 2 == 0 ? nullptr : &out;
  out.q = random() % 2 == 0 ? nullptr : &out;
  out.u = static_cast<std::uint64_t>(draw_edge(random, std::uint64_t{}));
  out.n = static_cast<std::int32_t>(draw_edge(random, std::int32_t{}));
  out.m = static_cast<std::uint32_t>(draw_edge(random, std::uint32_t{}));
  out.s = static_cast<std::int16_t>(draw_edge(random, std::int16_t{}));
  out.f = static_cast<float>(draw_edge(random, std::int16_t{}));
  out.x = static_cast<std::int64_t>(random() % 3);
  out.y = static_cast<std::int64_t>(random() % 100);
  return out;
}

std::string fill_in(const char* form, std::mt19937_64& random) {
  constexpr std::array<const char*, 10> any{"a", "b", "c", "p", "q", "u", "n", "m", "s", "f"};
  constexpr std::array<const char*, 6> words{"a", "b", "c", "p", "q", "u"};
  constexpr std::array<const char*, 8> constants{"0", "1", "7", "1 << 29", "1 << 30", "-3", "1 << 45", "64"};
  constexpr std::array<const char*, 6> powers{"1", "2", "4", "8", "16", "1 << 40"};
  std::string out;
  const std::string k = constants[random() % constants.size()];
  const std::string f = any[random() % any.size()];
  for (const char* c = form; *c != 0; ++c) {
    switch (*c) {
      case 'F':
        out += f;
        break;
      case 'G':
        out += any[random() % any.size()];
        break;
      case 'W':
      case 'V':
        out += words[random() % words.size()];
        break;
      case 'P':
        out += std::string{"("} + powers[random() % powers.size()] + ")";
        break;
      case 'K':
        out += "(" + k + ")";
        break;
      default:
        out += *c;
    }
  }
  return out;
}

/// One parameter's bytes, or nothing for a fault or a value that does not fit.
std::optional<std::int64_t> interpreted(const expression& value, value_kind kind, const evaluation& values) {
  const integer_result out = value.evaluate(values);
  if (out.why != fault::none || !detail::fits(kind, out.value)) return std::nullopt;
  return out.value;
}

/// Fills a parameter block by a per-call program; a value that fails is left out, and counted.
struct filled_block {
  std::array<std::byte, 512> bytes;
  std::vector<bool> failed;
  std::size_t interpreted_steps = 0;
};

filled_block run_program(const std::vector<per_call_value>& per_call,
                         const per_call_operator::arguments& call) {
  const auto& op = describe<per_call_operator>();
  const auto problem = make_problem<per_call_operator>(call);
  const std::array<axis_value, 2> axes{axis_value{0, problem[0]}, axis_value{1, problem[1]}};
  const auto program = detail::per_call_compiler{per_call, op.fields}.compile(axes, 2, {});
  const auto* const arguments = reinterpret_cast<const std::byte*>(&call);
  const evaluation values{problem, {}, op.fields, arguments};
  filled_block out;
  out.bytes.fill(std::byte{0xcd});
  out.failed.resize(per_call.size());
  for (const per_call_constant& constant : program->constants)
    detail::store_integer(out.bytes.data() + constant.to, constant.kind, constant.value);
  for (const per_call_step& step : program->steps)
    out.interpreted_steps += step.does == per_call_step::action::interpret ? 1U : 0U;
  const auto no_buffers = [](std::uint32_t) -> const void* { return nullptr; };
  detail::run_per_call(*program, arguments, out.bytes.data(), no_buffers, [&](std::uint32_t index) {
    const per_call_value& stored = per_call[index];
    if (const auto value = interpreted(program->values[index], stored.kind, values)) {
      detail::store_integer(out.bytes.data() + stored.offset, stored.kind, *value);
    } else {
      out.failed[index] = true;
    }
  });
  return out;
}

void check_against_interpreter(const std::vector<expression>& expressions, std::mt19937_64& random,
                               const std::vector<std::string>& texts) {
  std::vector<per_call_value> per_call;
  std::uint32_t end = 0;
  for (const expression& parsed : expressions) {
    const value_kind kind = all_kinds[random() % all_kinds.size()];
    end = (end + size_of(kind) - 1) / size_of(kind) * size_of(kind);
    per_call.push_back({per_call_value::source::integer, kind, end, 0, &parsed});
    end += size_of(kind);
  }
  for (int i = 0; i < 20; ++i) {
    const per_call_operator::arguments call = draw_arguments(random);
    const filled_block got = run_program(per_call, call);
    const auto problem = make_problem<per_call_operator>(call);
    std::array<std::byte, 512> want;
    want.fill(std::byte{0xcd});
    for (std::size_t at = 0; at < per_call.size(); ++at) {
      INFO(texts[at] << " as kind " << static_cast<int>(per_call[at].kind));
      const auto value = interpreted(
          *per_call[at].value, per_call[at].kind,
          {problem, {}, describe<per_call_operator>().fields, reinterpret_cast<const std::byte*>(&call)});
      REQUIRE(got.failed[at] == !value.has_value());
      if (value) detail::store_integer(want.data() + per_call[at].offset, per_call[at].kind, *value);
      REQUIRE(__builtin_memcmp(got.bytes.data() + per_call[at].offset, want.data() + per_call[at].offset,
                               size_of(per_call[at].kind)) == 0);
    }
    REQUIRE(got.bytes == want);  // and nothing else was written
  }
}

}  // namespace

TEST_CASE("per-call programs give what the interpreter gives, value for value and fault for fault") {
  const auto seed = switchyard::test::fresh_seed();
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  const scope names = per_call_names();
  for (int round = 0; round < 300; ++round) {
    std::vector<expression> expressions;
    std::vector<std::string> texts;
    for (int i = 0; i < 12; ++i) {
      const bool known = random() % 3 != 0;
      texts.push_back(
          fill_in(known ? forms[random() % forms.size()] : others[random() % others.size()], random));
      expressions.push_back(expression::parse(texts.back(), names));
    }
    check_against_interpreter(expressions, random, texts);
  }
}

TEST_CASE("what shipped kernels pass needs no interpreter") {
  const scope names = per_call_names();
  const std::vector<std::string> texts{"a / 8",
                                       "b / 8",
                                       "c / 1",
                                       "a",
                                       "min(n, 1 << 30)",
                                       "n < 0 ? 1 << 29 : min(n, 1 << 29)",
                                       "x != 0 ? 0 : min(n, 1 << 30)",
                                       "x + 2 * x + 32 * (p != 0) + 64 * (q != 0) + 256 * x",
                                       "(p != 0) + 2 * (q != 0) + 4 * x"};
  for (const std::int64_t x : {0, 1}) {
    for (const std::string& text : texts) {
      INFO(text);
      const expression value = expression::parse(text, names);
      const std::vector<per_call_value> per_call{
          {per_call_value::source::integer, value_kind::i64, 0, 0, &value}};
      per_call_operator::arguments call;
      call.x = x;
      CHECK(run_program(per_call, call).interpreted_steps == 0);
    }
  }
}

TEST_CASE("neighbouring strides and arguments are one step") {
  const scope names = per_call_names();
  const std::array<expression, 3> quotients{expression::parse("a / 8", names),
                                            expression::parse("b / 8", names),
                                            expression::parse("c / 8", names)};
  std::vector<per_call_value> per_call;
  for (std::uint32_t i = 0; i < 3; ++i)
    per_call.push_back({per_call_value::source::integer, value_kind::i64, 8 * i, 0, &quotients[i]});
  per_call.push_back({per_call_value::source::field, value_kind::pointer, 24, 3, nullptr});
  per_call.push_back({per_call_value::source::field, value_kind::pointer, 32, 4, nullptr});
  const auto program =
      detail::per_call_compiler{per_call, describe<per_call_operator>().fields}.compile({}, 0, {});
  CHECK(program->moves.all.empty());
  REQUIRE(program->steps.size() == 2);
  CHECK(program->steps[0].count == 3);
  CHECK(program->steps[1].count == 16);
}

TEST_CASE("many arguments, narrowed ones and buffers are moves") {
  const scope names = per_call_names();
  const expression narrow = expression::parse("b", names);
  const expression quotient = expression::parse("a / 8", names);
  using from = per_call_value::source;
  const std::vector<per_call_value> per_call{
      {from::field, value_kind::pointer, 0, 3, nullptr},  // p and q: a pair
      {from::field, value_kind::pointer, 8, 4, nullptr},
      {from::field, value_kind::i64, 16, 0, nullptr},
      {from::workspace, value_kind::pointer, 24, 1, nullptr},
      {from::field, value_kind::f32, 32, 9, nullptr},
      {from::integer, value_kind::i32, 36, 0, &narrow},
      {from::workspace, value_kind::pointer, 40, 0, nullptr},
      {from::integer, value_kind::i64, 48, 0, &quotient},
      {from::field, value_kind::i16, 56, 8, nullptr},
      {from::field, value_kind::i64, 64, 2, nullptr},
      {from::field, value_kind::i64, 72, 1, nullptr}};
  const auto program =
      detail::per_call_compiler{per_call, describe<per_call_operator>().fields}.compile({}, 0, {});
  CHECK(program->moves.ends == std::array<std::uint32_t, 6>{0, 1, 4, 5, 6, 8});
  CHECK(program->steps.size() == 2);

  per_call_operator::arguments call;
  call.a = -1600;
  call.b = INT32_MIN;
  call.c = 2400;
  call.p = &call;
  call.q = &call.q;
  call.s = -5;
  call.f = 0.5F;
  std::array<std::int32_t, 2> buffers{};
  std::array<std::byte, 80> parameter_block{};
  const auto interpreted_values = [&] {
    std::vector<std::uint32_t> out;
    detail::run_per_call(
        *program, reinterpret_cast<const std::byte*>(&call), parameter_block.data(),
        [&buffers](std::uint32_t buffer) -> const void* { return &buffers.at(buffer); },
        [&out](std::uint32_t value) { out.push_back(value); });
    return out;
  };
  const auto read = [&parameter_block](std::size_t at, auto value) {
    __builtin_memcpy(&value, parameter_block.data() + at, sizeof value);
    return value;
  };
  const void* const no_pointer = nullptr;
  CHECK(interpreted_values().empty());
  CHECK(read(0, no_pointer) == call.p);
  CHECK(read(8, no_pointer) == call.q);
  CHECK(read(16, std::int64_t{}) == -1600);
  CHECK(read(24, no_pointer) == &buffers[1]);
  CHECK(read(32, 0.0F) == 0.5F);
  CHECK(read(36, std::int32_t{}) == INT32_MIN);
  CHECK(read(40, no_pointer) == &buffers[0]);
  CHECK(read(48, std::int64_t{}) == -200);
  CHECK(read(56, std::int16_t{}) == -5);
  CHECK(read(64, std::int64_t{}) == 2400);
  CHECK(read(72, std::int64_t{}) == INT32_MIN);

  call.b = std::int64_t{1} << 31;  // does not fit: the interpreter is asked for every value, in their order
  CHECK(interpreted_values() == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(read(36, std::int32_t{}) == INT32_MIN);
}

TEST_CASE("limits of 32-bit arguments join the moves: as integers, or with negative ones as the greatest") {
  const scope names = per_call_names();
  const expression minimum = expression::parse("min(n, 1 << 30)", names);
  const expression below_zero = expression::parse("min(n, -7)", names);
  const expression limit = expression::parse("n < 0 ? 1 << 29 : min(n, 1 << 29)", names);
  const expression wide = expression::parse("min(a, 100)", names);
  using from = per_call_value::source;
  std::vector<per_call_value> per_call{{from::integer, value_kind::i32, 0, 0, &minimum},
                                       {from::integer, value_kind::i32, 4, 0, &below_zero},
                                       {from::integer, value_kind::i32, 8, 0, &limit},
                                       {from::integer, value_kind::i64, 16, 0, &limit}};
  // Fields that lie apart, so that there are enough moves.
  for (const std::uint32_t index : {0U, 2U, 4U, 1U, 3U, 5U})
    per_call.push_back({from::field, value_kind::i64, 24 + 16 * index, index, nullptr});
  per_call.push_back({from::integer, value_kind::i32, 120, 0, &wide});
  const auto program =
      detail::per_call_compiler{per_call, describe<per_call_operator>().fields}.compile({}, 0, {});
  REQUIRE(program->moves.limits.size() == 3);
  CHECK(program->steps.size() == 2);  // of 64 bits: one that is written, one that is read

  const auto values_of = [&](std::int32_t n) {
    per_call_operator::arguments call;
    call.n = n;
    call.a = 1000;
    std::array<std::byte, 128> parameter_block{};
    detail::run_per_call(
        *program, reinterpret_cast<const std::byte*>(&call), parameter_block.data(),
        [](std::uint32_t) -> const void* { return nullptr; },
        [](std::uint32_t) { FAIL("needs no interpreter"); });
    std::array<std::int32_t, 3> out{};
    __builtin_memcpy(out.data(), parameter_block.data(), sizeof out);
    std::int32_t hundred = 0;
    __builtin_memcpy(&hundred, parameter_block.data() + 120, sizeof hundred);
    CHECK(hundred == 100);
    return out;
  };
  CHECK(values_of(5) == std::array{5, -7, 5});
  CHECK(values_of(-5) == std::array{-5, -7, 1 << 29});
  CHECK(values_of(-8) == std::array{-8, -8, 1 << 29});
  CHECK(values_of(INT32_MIN) == std::array{INT32_MIN, INT32_MIN, 1 << 29});
  CHECK(values_of(INT32_MAX) == std::array{1 << 30, -7, 1 << 29});
  CHECK(values_of((1 << 29) + 1) == std::array{(1 << 29) + 1, -7, 1 << 29});
}

namespace {

/// The bytes that one step writes into a parameter block of 0xcd, from arguments of which byte i is i + 1.
std::array<std::byte, 256> written_by(const per_call_step& step,
                                      const std::array<std::byte, 256>& arguments) {
  per_call_program program;
  program.steps = {step};
  std::array<std::byte, 256> parameter_block;
  parameter_block.fill(std::byte{0xcd});
  detail::run_per_call(
      program, arguments.data(), parameter_block.data(), [](std::uint32_t) -> const void* { return nullptr; },
      [](std::uint32_t) { FAIL("needs no interpreter"); });
  return parameter_block;
}

}  // namespace

TEST_CASE("a copy has as many bytes as it says, wherever they lie") {
  std::array<std::byte, 256> arguments{};
  for (std::size_t i = 0; i < arguments.size(); ++i) arguments[i] = static_cast<std::byte>(i + 1);
  for (std::uint32_t count = 0; count <= 40; ++count) {
    for (const std::uint32_t to : {16U, 24U, 61U}) {
      per_call_step step;
      step.does = per_call_step::action::copy;
      step.from = 7;
      step.to = to;
      step.count = count;
      std::array<std::byte, 256> want;
      want.fill(std::byte{0xcd});
      for (std::uint32_t i = 0; i < count; ++i) want[to + i] = arguments[7 + i];
      INFO(count << " bytes to " << to);
      REQUIRE(written_by(step, arguments) == want);
    }
  }
}

TEST_CASE("integers are divided by a power of two toward zero, whichever of them are negative") {
  for (std::uint32_t count = 1; count <= 7; ++count) {
    for (std::uint32_t negative = 0; negative < 1U << count; ++negative) {
      for (const unsigned shift : {0U, 1U, 3U, 40U}) {
        std::array<std::int64_t, 32> numbers{};
        std::array<std::int64_t, 32> want;
        __builtin_memset(want.data(), 0xcd, sizeof want);
        for (std::uint32_t i = 0; i < count; ++i) {
          const std::int64_t positive = (std::int64_t{1} << 41) + std::int64_t{1000} * i + 13;
          numbers[i + 2] = (negative >> i & 1U) != 0 ? -positive : positive;
          want[i + 1] = numbers[i + 2] / (std::int64_t{1} << shift);
        }
        per_call_step step;
        step.does = per_call_step::action::shift;
        step.shift = static_cast<std::uint8_t>(shift);
        step.from = 16;
        step.to = 8;
        step.count = count;
        INFO(count << " integers over 2^" << shift << ", negative ones " << negative);
        REQUIRE(written_by(step, std::bit_cast<std::array<std::byte, 256>>(numbers)) ==
                std::bit_cast<std::array<std::byte, 256>>(want));
      }
    }
  }
}

TEST_CASE("moves write what they say and nothing beside it") {
  std::array<std::byte, 256> arguments{};
  for (std::size_t i = 0; i < arguments.size(); ++i) arguments[i] = static_cast<std::byte>(i + 1);
  const std::int64_t fits = -77;
  __builtin_memcpy(arguments.data() + 200, &fits, sizeof fits);
  per_call_program program;
  // Two of each kind: 64, 16, 8 and 4 bytes, a narrowed one, and an address.
  program.moves.all = {{1, 0},   {70, 70}, {129, 136}, {2, 155},   {3, 174}, {4, 184},
                       {5, 194}, {6, 200}, {200, 206}, {200, 212}, {1, 218}, {0, 228}};
  program.moves.ends = {2, 4, 6, 8, 10, 12};
  std::array<std::byte, 256> want;
  want.fill(std::byte{0xcd});
  const auto moved = [&](std::size_t from, std::size_t to, std::size_t bytes) {
    __builtin_memcpy(want.data() + to, arguments.data() + from, bytes);
  };
  moved(1, 0, 64);
  moved(70, 70, 64);
  moved(129, 136, 16);
  moved(2, 155, 16);
  moved(3, 174, 8);
  moved(4, 184, 8);
  moved(5, 194, 4);
  moved(6, 200, 4);
  moved(200, 206, 4);  // little-endian: the low half
  moved(200, 212, 4);
  std::array<int, 2> buffers{};
  const std::array<const void*, 2> addresses{&buffers[1], &buffers[0]};
  __builtin_memcpy(want.data() + 218, &addresses[0], sizeof addresses[0]);
  __builtin_memcpy(want.data() + 228, &addresses[1], sizeof addresses[1]);

  std::array<std::byte, 256> parameter_block;
  parameter_block.fill(std::byte{0xcd});
  detail::run_per_call(
      program, arguments.data(), parameter_block.data(),
      [&buffers](std::uint32_t buffer) -> const void* { return &buffers.at(buffer); },
      [](std::uint32_t) { FAIL("needs no interpreter"); });
  CHECK(parameter_block == want);
}

TEST_CASE("a buffer's address is written without the interpreter") {
  const std::vector<per_call_value> per_call{
      {per_call_value::source::workspace, value_kind::pointer, 8, 1, nullptr}};
  const auto program =
      detail::per_call_compiler{per_call, describe<per_call_operator>().fields}.compile({}, 0, {});
  const per_call_operator::arguments call;
  std::array<const void*, 3> parameter_block{};
  std::array<int, 2> buffers{};
  detail::run_per_call(
      *program, reinterpret_cast<const std::byte*>(&call),
      reinterpret_cast<std::byte*>(parameter_block.data()),
      [&buffers](std::uint32_t buffer) -> const void* { return &buffers.at(buffer); },
      [](std::uint32_t) { FAIL("needs no interpreter"); });
  CHECK(parameter_block == std::array<const void*, 3>{nullptr, &buffers[1], nullptr});
}

TEST_CASE("limits alone are moves, too") {
  const scope names = per_call_names();
  const expression limit = expression::parse("min(n, 100)", names);
  std::vector<per_call_value> per_call;
  for (std::uint32_t i = 0; i < 8; ++i)
    per_call.push_back({per_call_value::source::integer, value_kind::i32, 8 * i, 0, &limit});
  const auto program =
      detail::per_call_compiler{per_call, describe<per_call_operator>().fields}.compile({}, 0, {});
  CHECK(program->moves.all.empty());
  CHECK(program->moves.limits.size() == 8);
  CHECK(program->steps.empty());
  CHECK_FALSE(program->is_empty());
  per_call_operator::arguments call;
  call.n = 2000;
  std::array<std::int64_t, 8> parameter_block{};
  detail::run_per_call(
      *program, reinterpret_cast<const std::byte*>(&call),
      reinterpret_cast<std::byte*>(parameter_block.data()),
      [](std::uint32_t) -> const void* { return nullptr; },
      [](std::uint32_t) { FAIL("needs no interpreter"); });
  for (const std::int64_t value : parameter_block) CHECK(value == 100);
}

TEST_CASE("where a move's value does not fit, the interpreter is asked for each value once") {
  const scope names = per_call_names();
  const expression narrow = expression::parse("b", names);
  const expression remainder = expression::parse("a % 7", names);
  using from = per_call_value::source;
  std::vector<per_call_value> per_call{{from::integer, value_kind::i32, 0, 0, &narrow},
                                       {from::integer, value_kind::i64, 8, 0, &remainder}};
  for (std::uint32_t i = 0; i < 8; ++i)
    per_call.push_back({from::field, value_kind::i64, 16 + 16 * i, 0, nullptr});
  const auto program =
      detail::per_call_compiler{per_call, describe<per_call_operator>().fields}.compile({}, 0, {});
  per_call_operator::arguments call;
  std::array<std::byte, 160> parameter_block{};
  const auto interpreted_values = [&] {
    std::vector<std::uint32_t> out;
    detail::run_per_call(
        *program, reinterpret_cast<const std::byte*>(&call), parameter_block.data(),
        [](std::uint32_t) -> const void* { return nullptr; },
        [&out](std::uint32_t value) { out.push_back(value); });
    return out;
  };
  CHECK(interpreted_values() == std::vector<std::uint32_t>{1});
  call.b = INT64_MAX;
  CHECK(interpreted_values() == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("per-call programs are found by the axes that they read, and their number is bounded") {
  detail::per_call_programs all;
  all.set_axes({1});
  std::size_t kept = 0;
  for (std::int64_t y = 0; y < 100; ++y) {
    const std::array<std::int64_t, 2> problem{7, y};
    REQUIRE(all.find(problem) == nullptr);
    auto fresh = std::make_unique<per_call_program>();
    fresh->axes = {y};
    if (const per_call_program* const added = all.add(fresh)) {
      ++kept;
      CHECK(fresh == nullptr);
      CHECK(all.find(problem) == added);
    } else {
      CHECK(fresh != nullptr);
    }
  }
  CHECK(kept == 32);
}

TEST_CASE("a per-call program serves problems that agree in every axis that is read") {
  detail::per_call_programs all;
  all.set_axes({0, 2});
  auto fresh = std::make_unique<per_call_program>();
  fresh->axes = {4, 6};
  const per_call_program* const added = all.add(fresh);
  const auto found = [&all](std::int64_t first, std::int64_t second, std::int64_t third) {
    return all.find(std::array<std::int64_t, 3>{first, second, third});
  };
  CHECK(found(4, 5, 6) == added);
  CHECK(found(4, 0, 6) == added);
  CHECK(found(3, 5, 6) == nullptr);
  CHECK(found(4, 5, 7) == nullptr);
}
