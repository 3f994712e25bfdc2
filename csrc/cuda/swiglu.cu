// SwiGLU on CUDA.
#include "burnlike/calls.h"
#include "glu_kernel.h"

namespace burnlike::cuda {
namespace {

CallCounter forward_calls{"swiglu"};
CallCounter backward_calls{"swiglu_backward"};

Tensor swiglu(const Tensor& gate, const std::optional<Tensor>& up) {
  forward_calls.add();
  return glu<Silu>(gate, up);
}

std::tuple<Tensor, Tensor> swiglu_backward(const Tensor& grad, const Tensor& gate, const std::optional<Tensor>& up) {
  backward_calls.add();
  return glu_backward<Silu>(grad, gate, up);
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("swiglu", TORCH_BOX(&burnlike::cuda::swiglu));
  library.impl("swiglu_backward", TORCH_BOX(&burnlike::cuda::swiglu_backward));
}
