// The schema of every op, and the ops that say what this library is.
//
// CPU kernels are registered in cpu/, CUDA kernels in the second library, from cuda/. Fakes (shapes without data) and
// derivatives are in Python, beside each op's function in burnlike/ops.
#include <torch/csrc/stable/library.h>

#include <string>

#include "burnlike/calls.h"
#include "cpu/isa.h"

#ifndef BURNLIKE_VERSION
#error "BURNLIKE_VERSION comes from setup.py"
#endif

// Gradients are written only with zero_grads.
#define BURNLIKE_STEP_OPTIONS                                                                                 \
  "float grad_scale, Tensor? factors, float clip_value, Tensor? skip, Tensor? skipped, Tensor(z!)[] copies, " \
  "bool zero_grads, int? seed) -> ()"

STABLE_TORCH_LIBRARY(burnlike, library) {
  library.def(
      "cross_entropy(Tensor logits, Tensor targets, Tensor? weight, int ignore_index, float label_smoothing, "
      "float z_loss, float? soft_cap, str reduction) -> (Tensor, Tensor, Tensor)");
  library.def(
      "cross_entropy_backward(Tensor grad, Tensor logits, Tensor targets, Tensor? weight, Tensor statistics, "
      "Tensor total_weight, int ignore_index, float label_smoothing, float z_loss, float? soft_cap, str reduction) -> "
      "Tensor");
  library.def("rms_norm(Tensor x, Tensor gamma, float epsilon) -> Tensor");
  library.def("rms_norm_backward(Tensor grad, Tensor x, Tensor gamma, float epsilon) -> (Tensor, Tensor)");
  library.def("layer_norm(Tensor x, Tensor gamma, Tensor? beta, float epsilon) -> Tensor");
  library.def("layer_norm_backward(Tensor grad, Tensor x, Tensor gamma, float epsilon) -> (Tensor, Tensor, Tensor)");
  library.def("add_rms_norm(Tensor x, Tensor residual, Tensor gamma, float epsilon) -> (Tensor, Tensor)");
  library.def(
      "add_rms_norm_backward(Tensor grad, Tensor? grad_total, Tensor total, Tensor gamma, float epsilon) -> "
      "(Tensor, Tensor)");
  library.def(
      "add_layer_norm(Tensor x, Tensor residual, Tensor gamma, Tensor? beta, float epsilon) -> (Tensor, Tensor)");
  library.def(
      "add_layer_norm_backward(Tensor grad, Tensor? grad_total, Tensor total, Tensor gamma, float epsilon) -> "
      "(Tensor, Tensor, Tensor)");
  library.def("swiglu(Tensor gate, Tensor? up) -> Tensor");
  library.def("swiglu_backward(Tensor grad, Tensor gate, Tensor? up) -> (Tensor, Tensor)");
  library.def("geglu(Tensor gate, Tensor? up, str approximate) -> Tensor");
  library.def("geglu_backward(Tensor grad, Tensor gate, Tensor? up, str approximate) -> (Tensor, Tensor)");
  library.def("bias_gelu(Tensor x, Tensor bias, str approximate) -> Tensor");
  library.def("bias_gelu_backward(Tensor grad, Tensor x, Tensor bias, str approximate) -> (Tensor, Tensor)");
  library.def("masked_softmax(Tensor scores, Tensor? mask, float scale, bool causal) -> Tensor");
  library.def("masked_softmax_backward(Tensor grad, Tensor y, Tensor? mask, float scale, bool causal) -> Tensor");
  library.def("dropout_add(Tensor x, Tensor residual, float probability, Tensor seed) -> Tensor");
  library.def("dropout_add_backward(Tensor grad, float probability, Tensor seed, ScalarType dtype) -> Tensor");
  library.def(
      "rotary(Tensor query, Tensor key, Tensor cos, Tensor sin, bool interleaved, bool inverse) -> (Tensor, Tensor)");
  library.def(
      "attention(Tensor query, Tensor key, Tensor value, Tensor? mask, bool causal, float scale) -> (Tensor, Tensor)");
  library.def(
      "attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor output, Tensor logsumexp, "
      "Tensor? mask, bool causal, float scale) -> (Tensor, Tensor, Tensor)");
  library.def(
      "adamw_step_(Tensor(a!)[] params, Tensor(b!)[] grads, Tensor(c!)[] moments_1, Tensor(d!)[] moments_2, "
      "Tensor(e!)[] max_moments_2, Tensor(f!)[] scales_1, Tensor(g!)[] scales_2, int[] times, float lr, float beta_1, "
      "float beta_2, float epsilon, float weight_decay, bool coupled, bool cautious, " BURNLIKE_STEP_OPTIONS);
  library.def(
      "sgd_step_(Tensor(a!)[] params, Tensor(b!)[] grads, Tensor(c!)[] velocities, Tensor(d!)[] scales, int[] times, "
      "float lr, float momentum, float dampening, bool nesterov, float weight_decay, " BURNLIKE_STEP_OPTIONS);
  library.def(
      "lion_step_(Tensor(a!)[] params, Tensor(b!)[] grads, Tensor(c!)[] moments, Tensor(d!)[] scales, float lr, "
      "float beta_1, float beta_2, float weight_decay, " BURNLIKE_STEP_OPTIONS);
  library.def("gradient_squares_(Tensor[] grads, Tensor(a!) squares) -> ()");
  library.def("convert_(Tensor(a!)[] targets, Tensor[] sources, Tensor(b!) lost) -> ()");
  library.def("read_values_(Tensor(a!) target, int descriptor, int offset, int source) -> int");
  library.def("crc32(Tensor bytes, int start) -> int");

  library.def("library_version() -> str");
  library.def("cpu_isa() -> str");
  library.def("cpu_isas_available() -> str");
  library.def("choose_cpu_isa(str name) -> ()");
  library.def("call_counts() -> str");
  library.def("cuda_library_version() -> str");
  library.def("cuda_call_counts() -> str");
}

namespace {

std::string library_version() { return BURNLIKE_VERSION; }

std::string cpu_isa() { return burnlike::cpu::isa_in_use(); }

std::string cpu_isas_available() {
  std::string text;
  for (const std::string& name : burnlike::cpu::isas_available()) text += text.empty() ? name : ' ' + name;
  return text;
}

void choose_cpu_isa(const std::string& name) { burnlike::cpu::choose_isa(name); }

std::string call_counts() { return burnlike::CallCounter::all(); }

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(burnlike, CompositeExplicitAutograd, library) {
  library.impl("library_version", TORCH_BOX(&library_version));
  library.impl("cpu_isa", TORCH_BOX(&cpu_isa));
  library.impl("cpu_isas_available", TORCH_BOX(&cpu_isas_available));
  library.impl("choose_cpu_isa", TORCH_BOX(&choose_cpu_isa));
  library.impl("call_counts", TORCH_BOX(&call_counts));
}
