// Which instruction set the kernels use.
#pragma once

#include <string>
#include <vector>

namespace burnlike::cpu {

// The names that this machine can run, best last; the first is always "default".
std::vector<std::string> isas_available();

// The name in use.
std::string isa_in_use();

// Use the kernels of `name`, or the best for an empty string. Throws std::runtime_error for a name that this machine
// can't run.
void choose_isa(const std::string& name);

}  // namespace burnlike::cpu
