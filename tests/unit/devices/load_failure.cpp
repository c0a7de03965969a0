// SPDX-License-Identifier: MIT
#include <catch.hpp>
#include <initializer_list>

#include <switchyard/devices/load_failure.hpp>

using namespace switchyard;

TEST_CASE("failed loads are told apart: the blob, what may pass, the context") {
  struct sample {
    int status;
    error_code code;
    failure_kind kind;
  };
  for (const sample& given : std::initializer_list<sample>{
           {1, error_code::blob_not_loadable, failure_kind::permanent},    // invalid value
           {2, error_code::out_of_memory, failure_kind::transient},        // out of memory
           {3, error_code::blob_not_loadable, failure_kind::permanent},    //
           {200, error_code::blob_not_loadable, failure_kind::permanent},  // invalid image
           {209, error_code::blob_not_loadable, failure_kind::permanent},  // no binary for this device
           {218, error_code::blob_not_loadable, failure_kind::permanent},  // invalid PTX
           {700, error_code::driver_failed, failure_kind::context},        // illegal address
           {713, error_code::blob_not_loadable, failure_kind::permanent},  // host memory not registered
           {714, error_code::driver_failed, failure_kind::context},        // hardware stack error
           {719, error_code::driver_failed, failure_kind::context},        // launch failed
           {720, error_code::blob_not_loadable, failure_kind::permanent},  // cooperative launch too large
           {802, error_code::driver_failed, failure_kind::transient},      // system not ready
           {899, error_code::blob_not_loadable, failure_kind::permanent},  //
           {900, error_code::load_during_capture, failure_kind::transient},
           {908, error_code::load_during_capture, failure_kind::transient},
           {909, error_code::blob_not_loadable, failure_kind::permanent},
           {-1, error_code::blob_not_loadable, failure_kind::permanent}}) {
    INFO("status " << given.status);
    CHECK(classify_load_failure(given.status).code == given.code);
    CHECK(classify_load_failure(given.status).kind == given.kind);
  }
}
