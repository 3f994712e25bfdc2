// Every kernel body and the tables of them, included once per instruction set between its target pragmas.
//
// Nothing here includes a standard header (those come before the pragma, or their functions would be compiled for this
// instruction set), and the bodies are in unnamed namespaces (or the linker would keep one variant for all).
// Lambdas only call other functions: GCC does not give them the target of the function around them.

namespace burnlike::cpu::BURNLIKE_ISA {

#include "vectors.inl"

#include "lanes.inl"

#define BURNLIKE_FILE(op) BURNLIKE_QUOTED(op.inl)
#include "ops.inc"
#undef BURNLIKE_FILE

}  // namespace burnlike::cpu::BURNLIKE_ISA
