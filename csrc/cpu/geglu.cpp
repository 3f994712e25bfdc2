// GEGLU on the CPU.
#include "burnlike/approximate.h"
#include "burnlike/calls.h"
#include "glu.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"geglu"};
CallCounter backward_calls{"geglu_backward"};

const PerElement<GluKernels>& table(const std::string& approximate) {
  return is_tanh(approximate) ? tanh_geglu_kernels() : geglu_kernels();
}

Tensor geglu(const Tensor& gate, const std::optional<Tensor>& up, const std::string& approximate) {
  forward_calls.add();
  return glu(table(approximate), gate, up);
}

std::tuple<Tensor, Tensor> geglu_backward(
    const Tensor& grad, const Tensor& gate, const std::optional<Tensor>& up, const std::string& approximate) {
  backward_calls.add();
  return glu_backward(table(approximate), grad, gate, up);
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("geglu(Tensor gate, Tensor? up, str approximate) -> Tensor");
  library.def("geglu_backward(Tensor grad, Tensor gate, Tensor? up, str approximate) -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("geglu", TORCH_BOX(&burnlike::cpu::geglu));
  library.impl("geglu_backward", TORCH_BOX(&burnlike::cpu::geglu_backward));
}
