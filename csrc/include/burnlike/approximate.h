// Which GELU is meant, by the names that torch has.
#pragma once

#include <torch/headeronly/util/Exception.h>

#include <string>

namespace burnlike {

// Whether it is the approximation by tanh.
inline bool is_tanh(const std::string& approximate) {
  STD_TORCH_CHECK(approximate == "none" || approximate == "tanh", "gelu: expected approximate 'none' or 'tanh'");
  return approximate == "tanh";
}

// Whether it is the approximation by a sigmoid, which `bias_gelu` has besides.
inline bool is_sigmoid(const std::string& approximate) { return approximate == "sigmoid"; }

}  // namespace burnlike
