// Every kernel body and the table of them, included once per instruction set between its target pragmas.
//
// Nothing here includes a standard header (those come before the pragma, or their functions would be compiled for this
// instruction set), and everything is in an unnamed namespace (or the linker would keep one variant for all). There are
// no lambdas: GCC does not give them the target of the function around them.

namespace burnlike::cpu {
namespace {

#include "lanes.inl"

#include "adamw_step.inl"
#include "attention.inl"
#include "bias_gelu.inl"
#include "convert.inl"
#include "crc32.inl"
#include "cross_entropy.inl"
#include "dropout_add.inl"
#include "glu.inl"
#include "gradient_squares.inl"
#include "lion_step.inl"
#include "masked_softmax.inl"
#include "norms.inl"
#include "rotary.inl"
#include "sgd_step.inl"
#include "step_memory.inl"

template <class Accumulate>
constexpr StepKernels<Accumulate> step_kernels = {
    .adamw = adamw_values<Accumulate>,
    .sgd = sgd_values<Accumulate>,
    .lion = lion_values<Accumulate>,
    .load =
        {load_elements<float, Accumulate>, load_elements<double, Accumulate>, load_elements<BFloat16, Accumulate>,
         load_elements<Float16, Accumulate>, load_codes<int8_t, Accumulate>, load_codes<uint8_t, Accumulate>},
    .store =
        {store_elements<float, Accumulate>, store_elements<double, Accumulate>, store_elements<BFloat16, Accumulate>,
         store_elements<Float16, Accumulate>, store_codes<int8_t, Accumulate>, store_codes<uint8_t, Accumulate>},
};

}  // namespace

#define BURNLIKE_PER_ELEMENT(kernels) {kernels<float>, kernels<double>, kernels<BFloat16>, kernels<Float16>}

constinit const Kernels BURNLIKE_TABLE = {
    .isa = BURNLIKE_ISA,
    .attention = BURNLIKE_PER_ELEMENT(attention_kernels),
    .cross_entropy = BURNLIKE_PER_ELEMENT(cross_entropy_kernels),
    .rms_norm = BURNLIKE_PER_ELEMENT(rms_norm_kernels),
    .layer_norm = BURNLIKE_PER_ELEMENT(layer_norm_kernels),
    .rotary = BURNLIKE_PER_ELEMENT(rotary_kernels),
    .swiglu = BURNLIKE_PER_ELEMENT(swiglu_kernels),
    .geglu = BURNLIKE_PER_ELEMENT(geglu_kernels),
    .tanh_geglu = BURNLIKE_PER_ELEMENT(tanh_geglu_kernels),
    .bias_gelu = BURNLIKE_PER_ELEMENT(bias_gelu_kernels),
    .tanh_bias_gelu = BURNLIKE_PER_ELEMENT(tanh_bias_gelu_kernels),
    .dropout_add = BURNLIKE_PER_ELEMENT(dropout_add_kernels),
    .masked_softmax = BURNLIKE_PER_ELEMENT(masked_softmax_kernels),
    .step_float32 = step_kernels<float>,
    .step_float64 = step_kernels<double>,
    .sum_of_squares =
        {sum_of_squares<float>, sum_of_squares<double>, sum_of_squares<BFloat16>, sum_of_squares<Float16>},
    .convert = {convert_kernels<float>, convert_kernels<double>, convert_kernels<BFloat16>, convert_kernels<Float16>},
    .crc32 = crc32_update,
};

#undef BURNLIKE_PER_ELEMENT

}  // namespace burnlike::cpu
