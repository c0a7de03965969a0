// SPDX-License-Identifier: MIT
// ggml's objects with owners.
#pragma once

#include <memory>

#include "ggml-backend.h"
#include "ggml.h"

namespace switchyard::test {

struct context_deleter {
  void operator()(ggml_context* of) const { ggml_free(of); }
  void operator()(ggml_backend* of) const { ggml_backend_free(of); }
  void operator()(ggml_backend_buffer* of) const { ggml_backend_buffer_free(of); }
};
using context_pointer = std::unique_ptr<ggml_context, context_deleter>;
using backend_pointer = std::unique_ptr<ggml_backend, context_deleter>;
using buffer_pointer = std::unique_ptr<ggml_backend_buffer, context_deleter>;

[[nodiscard]] inline context_pointer make_context() {
  return context_pointer{ggml_init({ggml_tensor_overhead() * 64 + ggml_graph_overhead(), nullptr, true})};
}

}  // namespace switchyard::test
