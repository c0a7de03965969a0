// SPDX-License-Identifier: MIT
// The guide's list of errors shows a message for each number. Those of bad files are from the corpus
// (unit/files/bad_input.cpp); the others are provoked here, and must read as the guide has them.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <switchyard/devices/cuda/driver.hpp>
#include <switchyard/devices/cuda/library.hpp>
#include <switchyard/files/json.hpp>
#include <switchyard/io/file.hpp>
#include <switchyard/observing/environment.hpp>
#include <switchyard/operators/embedding.hpp>

#include "catch.hpp"
#include "cuda/fake_cuda.hpp"
#include "faulty_driver.hpp"
#include "test_disk.hpp"
#include "test_operators.hpp"
#include "thrown.hpp"

namespace {

using namespace test;

std::string message_of(const auto& mistake) {
  return sy::test::refusal_by<sy::error>(mistake);
}

std::vector<std::byte> ptx_image() {
  const std::string text = ".version 8.0\n.target sm_80\n";
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

void replace_all(std::string& text, const std::string& part, const std::string& by) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + by.size()))
    text.replace(at, part.size(), by);
}

/// A message of the stand-in for CUDA's driver, in the words of the driver.
std::string in_driver_words(std::string text, const char* error_name, const char* error_text) {
  replace_all(text, "CUDA_ERROR_OF_SOME_KIND", error_name);
  replace_all(text, "as the fake has it", error_text);
  return text;
}

/// What opening a CUDA device says where the driver misbehaves.
std::string open_with(const char* how) {
  const auto options = fake_cuda::renamed();
  const fake_cuda::misbehaviour now{how};
  std::string out = message_of([&] { (void)sy::cuda::open(0, options); });
  replace_all(out, options.library, "libcuda.so.1");
  return in_driver_words(out, "", "no CUDA-capable device is detected");
}

/// What is said of a variant of `stamp` that a change spoils, and of a call: the warning, or the error.
std::string say_of(const std::function<void(const disk&, json&)>& spoil, const stamp::arguments& call = {},
                   sy::environment settings = {}) {
  const disk files;
  json variant = stamp_variant("tiled", 1);
  files.put_manifest("stamp", {variant});
  spoil(files, variant);
  files.put_manifest("stamp", {variant});
  sy::catalog_options options = files.options();
  settings.debug_file = options.settings.debug_file;
  options.settings = settings;
  sy::catalog catalog{options};
  sy::dispatcher<stamp> on{catalog, sy::device{std::make_shared<faulty_driver>("a CPU")}};
  std::string out = message_of([&] { (void)run(on, call); });
  const std::string log = files.log();
  if (const std::size_t begin = log.find("[switchyard."); begin != std::string::npos)
    out = log.substr(begin, log.find('\n', begin) - begin);
  replace_all(out, files.kernels("stamp").string() + "/", "");
  replace_all(out, "host " + disk::architecture(), "host x86_64");
  return out;
}

/// What checked mode says of a number that is outside an embedding's table.
std::string refused_by_checked_mode() {
  using sy::operators::embedding;
  const disk files;
  json names = json::array();
  for (const auto& field : sy::describe<embedding>().fields) names.push_back(std::string{field.name});
  files.put_manifest(
      "embedding",
      {{{"id", "only"},
        {"launches", {{{"blob", "nothing.so"}, {"kernel", "nothing_embedding"}, {"parameters", names}}}}}});
  sy::catalog_options options = files.options();
  options.settings.check = true;
  sy::catalog catalog{options};
  sy::dispatcher<embedding> on{catalog, fresh_host()};
  alignas(64) std::array<float, 16> table{};
  std::array<std::int32_t, 2> ids{3, 4};
  alignas(64) std::array<float, 8> out{};
  const auto call = embedding::call({table.data(), sy::operators::weight_format::f32, 4, 4},
                                    {ids.data(), sy::dtype::i32, {2}}, {out.data(), sy::dtype::f32, {2, 4}});
  return message_of([&] { on({}, call); });
}

std::map<int, std::string> provoked() {
  const disk files;
  const std::string root = files.root().string() + "/";
  const auto relative = [&root](std::string text) { return text.erase(text.find(root), root.size()); };
  std::map<int, std::string> out;
  out[101] = relative(message_of([&] { (void)sy::read_file(root + "table.json", sy::max_json_bytes); }));
  files.write(root + "table.json", "");
  std::filesystem::resize_file(root + "table.json", sy::max_json_bytes + 1);
  out[102] = relative(message_of([&] { (void)sy::read_file(root + "table.json", sy::max_json_bytes); }));

  {
    const disk unsigned_files{"stamp", {stamp_variant("tiled", 1)}};
    sy::catalog_options options = unsigned_files.options();
    options.accept = [](std::string_view, const std::string&) { return std::string{"it has no signature"}; };
    sy::catalog refusing{options};
    (void)message_of([&] { sy::dispatcher<stamp>{refusing, fresh_host()}; });
    const std::string log = unsigned_files.log();
    const std::size_t begin = log.find("[switchyard.113]");
    REQUIRE(begin != std::string::npos);
    out[113] = log.substr(begin, log.find('\n', begin) - begin);
    replace_all(out[113], unsigned_files.kernels("stamp").string() + "/", "");
  }

  out[201] = message_of([] { (void)sy::cuda::open(0, {.library = "libcuda.so.0"}); });
  out[202] = open_with("old");
  out[203] = open_with("no_device");
  out[204] = open_with("featureless");
  out[205] = say_of([](const disk&, json& variant) {
    variant["launches"][0]["blob"] = "gone.so";
    variant["launches"][0]["sha256"] = std::string(64, '0');
  });
  out[206] = say_of([](const disk& at, json& variant) {
    at.write(at.kernels("stamp") / "tiled.so", "another build");
    variant["launches"][0]["blob"] = "tiled.so";
    variant["launches"][0]["sha256"] = std::string(64, '0');
  });
  const auto device = sy::cuda::open(0, fake_cuda::fake_options());
  const auto image = ptx_image();
  out[207] = message_of([&] { (void)device->load({}, "tiled.cubin"); });
  sy::module_handle const module = device->load(image, "tiled.ptx");
  out[208] = say_of([](const disk&, json& variant) { variant["launches"][0]["kernel"] = "stomp"; });
  out[209] = say_of([](const disk&, json& variant) { variant["launches"][0]["parameters"] = {"out"}; });
  {
    const fake_cuda::misbehaviour full{"full"};
    out[210] = in_driver_words(message_of([&] { (void)device->load(image, "tiled.ptx"); }),
                               "CUDA_ERROR_OUT_OF_MEMORY", "out of memory");
  }
  out[211] =
      message_of([&] { device->configure(device->find(module, "kernel"), {.shared_bytes = 100 * 1024}); });
  device->unload(module);
  const auto entry_points =
      std::make_shared<sy::cuda::api>(*sy::cuda::open_library(fake_cuda::fake_options()));
  entry_points->event_create = [](CUevent_st**, unsigned) { return 700; };
  sy::cuda::driver broken{entry_points, 0, fake_cuda::primary(0), false};
  out[213] = in_driver_words(message_of([&] { (void)broken.create_event(); }), "CUDA_ERROR_ILLEGAL_ADDRESS",
                             "an illegal memory access was encountered");

  const auto nothing = [](const disk&, json&) {};
  out[301] = message_of([] {
    const disk other;
    disk_dispatcher<axpy> on{other, sy::device{std::make_shared<faulty_driver>("a CPU")}};
    on(nullptr, {.a = 1, .n = 8});
  });
  out[302] = say_of(nothing, {.dtype = sy::dtype::f16});
  sy::environment forced;
  forced.forced = {{"stamp", "tilted"}};
  out[303] = say_of(nothing, {}, forced);
  ::setenv("SWITCHYARD_FORCE", "tiled", 1);  // NOLINT(concurrency-mt-unsafe)
  out[304] = message_of([] { (void)sy::environment::read(); });
  ::unsetenv("SWITCHYARD_FORCE");  // NOLINT(concurrency-mt-unsafe)
  out[305] = say_of(
      [](const disk&, json& variant) {
        variant["launches"][0]["grid"] = {"64 / (seqlen - 7)", 1, 1};
      },
      {.seqlen = 7});
  const auto driver = std::make_shared<faulty_driver>("a CPU");
  files.put_manifest("stamp", {stamp_variant("tiled", 1)});
  disk_dispatcher<stamp> on{files, sy::device{driver}};
  driver->is_capturing = true;
  out[212] = message_of([&] { (void)run(on, {.seqlen = 64}); });
  driver->is_capturing = false;
  on.catalog.seal({.load = sy::seal_action::refuse});
  out[306] = message_of([&] { (void)run(on, {.seqlen = 64}); });
  out[307] = refused_by_checked_mode();
  return out;
}

}  // namespace

TEST_CASE("the guide shows a message for each number that no bad file has") {
  const std::string guide = read_text(SWITCHYARD_GUIDE);
  std::string missing;
  for (const auto& [number, said] : provoked()) {
    INFO(said);
    CHECK(said.starts_with("[switchyard." + std::to_string(number) + "] "));
    if (guide.find("\n    " + said + "\n") == std::string::npos) missing += "    " + said + "\n";
  }
  if (!missing.empty()) std::printf("The guide lacks these lines:\n%s", missing.c_str());
  CHECK(missing.empty());
}
