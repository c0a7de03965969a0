// SPDX-License-Identifier: MIT
// The weights of a model, where a device reads them: on the CPU in the file itself, elsewhere in copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <switchyard/devices/device.hpp>
#include <switchyard/operators/weight_format.hpp>
#include <switchyard/tensor.hpp>

#include "device_memory.hpp"
#include "gguf.hpp"
#include "model_config.hpp"
#include "staged_upload.hpp"

namespace llm {

/// A linear layer. Matrices of one input that the file keeps apart are one where their formats agree.
struct projection {
  struct part {
    switchyard::operators::weight_matrix weights;
    switchyard::const_tensor bias;  ///< f32; none where the model has none
    std::int64_t first = 0;         ///< column of the result
  };
  std::vector<part> parts;
  std::int64_t outputs = 0;
};

struct layer_weights {
  switchyard::const_tensor attention_norm;  ///< f32 [width]
  projection qkv;                           ///< queries, keys, values
  switchyard::const_tensor query_norm;      ///< f32 [head_dim]; none in most models
  switchyard::const_tensor key_norm;
  projection attention_output;
  switchyard::const_tensor inner_norm;
  projection gate_and_up;
  projection down;
};

/// Called with the share of the weights that are loaded, 0 to 1.
using load_progress = std::function<void(double)>;

class model_weights {
 public:
  /// `file` must outlive the object. Throws gguf_error where a tensor is missing or has another shape, and
  /// driver_error where the device has no room.
  model_weights(const gguf_file& file, const model_config& config, switchyard::device device,
                const load_progress& progress = {});

  [[nodiscard]] const switchyard::operators::weight_matrix& embedding() const noexcept { return embedding_; }
  [[nodiscard]] const std::vector<layer_weights>& layers() const noexcept { return layers_; }
  [[nodiscard]] const switchyard::const_tensor& output_norm() const noexcept { return output_norm_; }
  [[nodiscard]] const projection& output() const noexcept { return output_; }
  /// Bytes that generating one token reads.
  [[nodiscard]] std::int64_t bytes_per_token() const noexcept { return bytes_per_token_; }

 private:
  struct shape {
    std::string name;
    std::int64_t columns;
    std::int64_t rows;
  };

  [[nodiscard]] const gguf_tensor& find(const shape& wanted) const;
  [[nodiscard]] switchyard::operators::weight_matrix matrix(const shape& wanted);
  [[nodiscard]] switchyard::const_tensor vector(const std::string& name, std::int64_t count);
  [[nodiscard]] switchyard::const_tensor optional_vector(const std::string& name, std::int64_t count);
  [[nodiscard]] projection join(const std::string& prefix, const std::vector<shape>& shapes);
  [[nodiscard]] const void* place(std::span<const std::byte> bytes);
  [[nodiscard]] device_memory& allocate(std::size_t bytes);
  void copy(const device_memory& to, const void* from, std::size_t bytes, std::size_t first = 0) const;
  [[nodiscard]] bool reads_file() const;

  const gguf_file& file_;
  switchyard::device device_;
  std::unique_ptr<staged_upload> upload_;  // while loading for a GPU
  std::vector<device_memory> buffers_;
  switchyard::operators::weight_matrix embedding_;
  std::vector<layer_weights> layers_;
  switchyard::const_tensor output_norm_;
  projection output_;
  std::int64_t bytes_per_token_ = 0;
};

}  // namespace llm
