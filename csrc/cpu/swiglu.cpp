// SwiGLU on the CPU.
#include "burnlike/calls.h"
#include "glu.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"swiglu"};
CallCounter backward_calls{"swiglu_backward"};

Tensor swiglu(const Tensor& gate, const std::optional<Tensor>& up) {
  forward_calls.add();
  return glu(swiglu_kernels(), gate, up);
}

std::tuple<Tensor, Tensor> swiglu_backward(const Tensor& grad, const Tensor& gate, const std::optional<Tensor>& up) {
  backward_calls.add();
  return glu_backward(swiglu_kernels(), grad, gate, up);
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("swiglu(Tensor gate, Tensor? up) -> Tensor");
  library.def("swiglu_backward(Tensor grad, Tensor gate, Tensor? up) -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("swiglu", TORCH_BOX(&burnlike::cpu::swiglu));
  library.impl("swiglu_backward", TORCH_BOX(&burnlike::cpu::swiglu_backward));
}
