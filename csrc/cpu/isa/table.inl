// Every kernel body and the table of them, included once per instruction set between its target pragmas.
//
// Nothing here includes a standard header (those come before the pragma, or their functions would be compiled for this
// instruction set), and everything is in an unnamed namespace (or the linker would keep one variant for all). There are
// no lambdas: GCC does not give them the target of the function around them.

namespace burnlike::cpu {
namespace {

#include "adamw_step.inl"
#include "convert.inl"
#include "rms_norm.inl"

}  // namespace

constinit const Kernels BURNLIKE_TABLE = {
    .isa = BURNLIKE_ISA,
    .rms_norm_float32 = rms_norm_kernels<float>,
    .rms_norm_float64 = rms_norm_kernels<double>,
    .rms_norm_bfloat16 = rms_norm_kernels<BFloat16>,
    .rms_norm_float16 = rms_norm_kernels<Float16>,
    .adamw_float32 = adamw_run<float, float>,
    .adamw_float64 = adamw_run<double, double>,
    .adamw_bfloat16 = adamw_run<BFloat16, BFloat16>,
    .adamw_bfloat16_float32 = adamw_run<BFloat16, float>,
    .adamw_float16 = adamw_run<Float16, Float16>,
    .adamw_float16_float32 = adamw_run<Float16, float>,
    .convert =
        {convert_kernels<float>, convert_kernels<double>, convert_kernels<BFloat16>, convert_kernels<Float16>},
};

}  // namespace burnlike::cpu
