// Prints the arguments of every operator and their machine types as JSON, for the checks of manifests.
#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include <switchyard/operator.hpp>
#include <switchyard/operators/attention_backward.hpp>
#include <switchyard/operators/attention_decode.hpp>
#include <switchyard/operators/attention_dropout_mask.hpp>
#include <switchyard/operators/attention_forward.hpp>
#include <switchyard/operators/gated_activation.hpp>
#include <switchyard/operators/gated_activation_backward.hpp>
#include <switchyard/operators/layer_norm.hpp>
#include <switchyard/operators/layer_norm_backward.hpp>
#include <switchyard/operators/rms_norm.hpp>
#include <switchyard/operators/rms_norm_backward.hpp>
#include <switchyard/operators/rotary.hpp>
#include <switchyard/operators/softmax.hpp>
#include <switchyard/operators/softmax_backward.hpp>

namespace {

struct scaled_sum {
  static constexpr std::string_view name = "scaled_sum";
  struct arguments {
    const void* x = nullptr;
    void* y = nullptr;
    std::int64_t n = 0;
    float a = 0.0F;
    std::int32_t dtype = 0;
  };
  static constexpr auto fields =
      switchyard::fields<&arguments::x, &arguments::y, &arguments::n, &arguments::a, &arguments::dtype>;
  static constexpr auto axes =
      switchyard::axes(switchyard::type_axis<&arguments::dtype>(), switchyard::size_axis<&arguments::n>());
};

template <class Operator>
void print(const char* separator) {
  constexpr std::array<const char*, 13> kinds{"pointer", "i8",  "u8",  "i16",  "u16", "i32", "u32",
                                              "i64",     "u64", "f16", "bf16", "f32", "f64"};
  const auto& description = switchyard::describe<Operator>();
  std::printf("%s\"%.*s\": {", separator, static_cast<int>(description.name.size()), description.name.data());
  const char* comma = "";
  for (const auto& field : description.fields) {
    std::printf("%s\"%.*s\": \"%s\"", comma, static_cast<int>(field.name.size()), field.name.data(),
                kinds[static_cast<std::size_t>(field.kind)]);
    comma = ", ";
  }
  std::printf("}");
}

template <class... Operators>
void print_all() {
  const char* separator = "{";
  ((print<Operators>(separator), separator = ",\n "), ...);
  std::puts("}");
}

}  // namespace

int main() {
  namespace operators = switchyard::operators;
  print_all<scaled_sum, operators::attention_backward, operators::attention_decode,
            operators::attention_dropout_mask, operators::attention_forward, operators::gated_activation,
            operators::gated_activation_backward, operators::layer_norm, operators::layer_norm_backward,
            operators::rms_norm, operators::rms_norm_backward, operators::rotary, operators::softmax,
            operators::softmax_backward>();
}
