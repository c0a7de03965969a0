// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <vector>

#include <switchyard/hardware/target.hpp>

using namespace switchyard;

namespace {

struct fit_case {
  const char* backend;
  const char* device;
  const char* blob;
  bool runs;
};

std::optional<int> fit(std::string_view backend, std::string_view device, std::string_view blob) {
  device_properties properties;
  properties.backend = backend;
  properties.arch = device;
  return target_fit(properties, backend, blob);
}

}  // namespace

TEST_CASE("which blob runs on which device") {
  const auto sample = GENERATE(
      fit_case{"cuda", "sm_90", "sm_90a", true}, fit_case{"cuda", "sm_90", "sm_90", true},
      fit_case{"cuda", "sm_100", "sm_90a", false}, fit_case{"cuda", "sm_100", "sm_90", false},
      fit_case{"cuda", "sm_89", "sm_80", true}, fit_case{"cuda", "sm_89", "sm_86", true},
      fit_case{"cuda", "sm_86", "sm_89", false}, fit_case{"cuda", "sm_80", "sm_86", false},
      fit_case{"cuda", "sm_90", "sm_80", false}, fit_case{"cuda", "sm_90", "compute_80", true},
      fit_case{"cuda", "sm_90", "compute_90", true}, fit_case{"cuda", "sm_90", "compute_100", false},
      fit_case{"cuda", "sm_90", "compute_90a", true}, fit_case{"cuda", "sm_100", "compute_90a", false},
      fit_case{"cuda", "sm_103", "sm_100f", true}, fit_case{"cuda", "sm_100", "sm_103f", false},
      fit_case{"cuda", "sm_120", "sm_100f", false}, fit_case{"cuda", "sm_103", "compute_100f", true},
      fit_case{"cuda", "sm_103", "sm_100a", false}, fit_case{"cuda", "sm_121", "sm_120", true},
      fit_case{"cuda", "sm_90", "any", true}, fit_case{"cuda", "sm_90", "sm_", false},
      fit_case{"cuda", "sm_90", "sm_9x", false}, fit_case{"cuda", "sm_90", "gfx942", false},
      fit_case{"hip", "gfx942", "gfx942", true}, fit_case{"hip", "gfx942", "gfx90a", false},
      fit_case{"hip", "gfx942:sramecc+:xnack-", "gfx942", true},
      fit_case{"hip", "gfx942:sramecc+:xnack-", "gfx942:xnack-", true},
      fit_case{"hip", "gfx942:sramecc+:xnack-", "gfx942:xnack-:sramecc+", true},
      fit_case{"hip", "gfx942:sramecc+:xnack-", "gfx942:xnack+", false},
      fit_case{"hip", "gfx942", "gfx942:xnack-", false}, fit_case{"hip", "gfx9", "gfx942", false},
      fit_case{"host", "x86_64", "x86_64", true}, fit_case{"host", "aarch64", "x86_64", false},
      fit_case{"host", "aarch64", "any", true});
  INFO(sample.blob << " on " << sample.backend << " " << sample.device);
  CHECK(fit(sample.backend, sample.device, sample.blob).has_value() == sample.runs);
}

TEST_CASE("a blob never runs on another backend") {
  device_properties device;
  device.backend = "cuda";
  device.arch = "sm_90";
  CHECK_FALSE(target_fit(device, "hip", "sm_90"));
  CHECK_FALSE(target_fit(device, "host", "any"));
}

TEST_CASE("the more specific blob fits better") {
  const auto falls = [](std::string_view backend, std::string_view device,
                        const std::vector<std::string_view>& blobs) {
    for (std::size_t i = 1; i < blobs.size(); ++i) {
      INFO(blobs[i - 1] << " before " << blobs[i]);
      CHECK(fit(backend, device, blobs[i - 1]).value() > fit(backend, device, blobs[i]).value());
    }
  };
  falls("cuda", "sm_103",
        {"sm_103a", "compute_103a", "sm_103f", "sm_100f", "compute_103f", "compute_100f", "sm_103", "sm_100",
         "compute_103", "compute_100", "compute_90", "compute_75", "any"});
  falls("cuda", "sm_89", {"sm_89", "sm_86", "sm_80", "compute_89", "compute_80", "any"});
  falls("hip", "gfx942:sramecc+:xnack-", {"gfx942:xnack-", "gfx942", "any"});
  falls("host", "x86_64", {"x86_64", "any"});
}
