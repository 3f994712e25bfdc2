// The tensors of gated linear units, checked: the gate and what it gates are two tensors, or the halves of one. The
// functions in burnlike/ops word the errors for the user.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "row_tensor.h"

namespace burnlike {

inline void check_alike(const Tensor& tensor, const Tensor& like, const char* message) {
  STD_TORCH_CHECK(
      tensor.is_cpu() == like.is_cpu() && tensor.get_device_index() == like.get_device_index() &&
          element_kind(tensor) == element_kind(like),
      message);
}

class GluTensors {
 public:
  GluTensors(const Tensor& gate, const std::optional<Tensor>& up)
      : sizes_(checked_sizes(gate, up)), gate_(gate), is_packed_(!up.has_value()) {
    if (up.has_value()) up_.emplace(*up);
    width_ = sizes_.empty() ? 1 : sizes_.back();
    rows_ = 1;
    for (size_t dim = 0; dim + 1 < sizes_.size(); ++dim) rows_ *= sizes_[dim];
  }

  // Of the result.
  const std::vector<int64_t>& sizes() const { return sizes_; }
  const Tensor& like() const { return gate_.tensor; }
  int64_t rows() const { return rows_; }
  int64_t width() const { return width_; }
  int64_t count() const { return rows_ * width_; }

  // Whether the values of all tensors lie side by side, and rows need not be told apart.
  bool is_flat() const { return rows_ == 1 || (!is_packed_ && gate_.stride == width_ && up_->stride == width_); }

  template <class Element>
  RowPlaces<const Element> gate() const {
    return gate_.places<Element>();
  }

  template <class Element>
  RowPlaces<const Element> up() const {
    if (!is_packed_) return up_->places<Element>();
    return {data_of<Element>(gate_.tensor) + width_, gate_.stride};
  }

  void check_grad(const Tensor& grad) const {
    check_alike(grad, gate_.tensor, "glu: grad does not have the dtype and device of the gate");
    const auto sizes = grad.sizes();
    STD_TORCH_CHECK(
        std::equal(sizes.begin(), sizes.end(), sizes_.begin(), sizes_.end()),
        "glu: grad does not have the shape of the result");
  }

  // For the gradients of the gate and of what it gates; of halves the first is of both, and the second empty.
  std::tuple<Tensor, Tensor> new_grads() const {
    if (!is_packed_) return {new_like(gate_.tensor), new_like(gate_.tensor)};
    return {new_like(gate_.tensor), new_contiguous({0}, element_kind(gate_.tensor), gate_.tensor)};
  }

  template <class Element>
  std::tuple<RowPlaces<Element>, RowPlaces<Element>> grad_places(const std::tuple<Tensor, Tensor>& grads) const {
    Element* first = mutable_data_of<Element>(std::get<0>(grads));
    if (is_packed_) return {{first, 2 * width_}, {first + width_, 2 * width_}};
    return {{first, width_}, {mutable_data_of<Element>(std::get<1>(grads)), width_}};
  }

 private:
  static std::vector<int64_t> checked_sizes(const Tensor& gate, const std::optional<Tensor>& up) {
    const auto gate_sizes = gate.sizes();
    std::vector<int64_t> sizes(gate_sizes.begin(), gate_sizes.end());
    element_kind(gate);
    if (!up.has_value()) {
      STD_TORCH_CHECK(!sizes.empty() && sizes.back() % 2 == 0, "glu: expected halves in the last dimension");
      sizes.back() /= 2;
      return sizes;
    }
    check_alike(*up, gate, "glu: up does not have the dtype and device of the gate");
    const auto up_sizes = up->sizes();
    STD_TORCH_CHECK(
        std::equal(sizes.begin(), sizes.end(), up_sizes.begin(), up_sizes.end()),
        "glu: up does not have the shape of the gate");
    return sizes;
  }

  std::vector<int64_t> sizes_;
  RowTensor gate_;
  std::optional<RowTensor> up_;
  bool is_packed_;
  int64_t rows_;
  int64_t width_;
};

}  // namespace burnlike
