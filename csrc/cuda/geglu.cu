// GEGLU on CUDA.
#include "burnlike/approximate.h"
#include "burnlike/calls.h"
#include "glu_kernel.h"

namespace burnlike::cuda {
namespace {

CallCounter forward_calls{"geglu"};
CallCounter backward_calls{"geglu_backward"};

Tensor geglu(const Tensor& gate, const std::optional<Tensor>& up, const std::string& approximate) {
  forward_calls.add();
  return is_tanh(approximate) ? glu<TanhGelu>(gate, up) : glu<Gelu>(gate, up);
}

std::tuple<Tensor, Tensor> geglu_backward(
    const Tensor& grad, const Tensor& gate, const std::optional<Tensor>& up, const std::string& approximate) {
  backward_calls.add();
  return is_tanh(approximate) ? glu_backward<TanhGelu>(grad, gate, up) : glu_backward<Gelu>(grad, gate, up);
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("geglu", TORCH_BOX(&burnlike::cuda::geglu));
  library.impl("geglu_backward", TORCH_BOX(&burnlike::cuda::geglu_backward));
}
