"""The type of each method and function of the API once: rank and kind of the result, as both checkers must see it.

`test_types.py` makes a program of it, in which each expression is asserted to have the type above it.
"""

IMPORTS = """
from typing import Any, TypeVar, assert_type
import torch
from burnlike import D1, D2, D3, D4, D5, Bool, Cpu, Float, Int, Tensor
from burnlike.tensor import (
    ConvOptions, ConvTransposeOptions, DeformConvOptions, GridSampleOptions, IndexingUpdateOp,
    InterpolateOptions, Kind, StftOptions, TensorData, UnfoldOptions, activation, grid, linalg, loss, module,
    signal
)
K = TypeVar("K", bound=Kind)
"""

EXPRESSIONS = {
    "x: Tensor[Cpu, D2]": """
        Tensor[Cpu, D2, Float]:
            x.square(); x.exp(); x.log1p(); x.log(); x.sqrt(); x.cos(); x.sin(); x.tan(); x.cosh(); x.sinh(); x.tanh();
            x.acos(); x.acosh(); x.asin(); x.asinh(); x.atan(); x.atanh(); x.erf(); x.recip(); x.deg2rad();
            x.rad2deg(); x.round(); x.floor(); x.ceil(); x.trunc(); x.sign(); x.abs(); x.neg(); x.atan2(x); x.fmod(x);
            x.fmod_scalar(2.0); x.hypot(x); x.powf(x); x.powi_scalar(2)
        Tensor[Cpu, D2, Bool]:
            x.is_nan(); x.is_inf(); x.is_finite()
        Tensor[Cpu, D1, Bool]:
            x.contains_nan()
    """,
    "x: Tensor[Cpu, D2], v: Tensor[Cpu, D1]": """
        Tensor[Cpu, D2, Float]:
            x.add(x); x.sub(x); x.mul(x); x.div(x); x.remainder(x); x.matmul(x); x.max_pair(x); x.min_pair(x);
            x.powf(x); x.add_scalar(0.5); x.sub_scalar(0.5); x.mul_scalar(0.5); x.div_scalar(0.5);
            x.remainder_scalar(0.5); x.clamp_min(0.5); x.clamp_max(0.5); x.clamp(0.5, 0.5); x.neg(); x.sign(); x.abs();
            x.powi_scalar(2); x.sum_dim(0); x.mean_dim(0); x.prod_dim(0); x.max_dim(0); x.min_dim(0); x.max_abs_dim(0);
            x.cumsum(0); x.cumprod(0); x.cummin(0); x.cummax(0); x.triu(0); x.tril(0); x.sort(0); x.sort_descending(0);
            x.sum_dims([0]); x.mean_dims([0]); x.prod_dims([0]); x.max_dims([0]); x.min_dims([0]); x.max_abs_dims([0]);
            x.topk(1, 0)
        Tensor[Cpu, D1, Float]:
            v.dot(v); x.sum(); x.mean(); x.prod(); x.max(); x.min(); x.max_abs()
        Tensor[Cpu, Any, Float]:
            x.sum_dims_squeeze([0])
        Tensor[Cpu, D2, Int]:
            x.argtopk(1, 0); x.argmax(0); x.argmin(0); x.argsort(0); x.argsort_descending(0)
        Tensor[Cpu, D2, Bool]:
            x.bool(); x.greater(x); x.greater_equal(x); x.lower(x); x.lower_equal(x); x.greater_elem(0.5);
            x.greater_scalar(0.5); x.greater_equal_elem(0.5); x.greater_equal_scalar(0.5); x.lower_elem(0.5);
            x.lower_scalar(0.5); x.lower_equal_elem(0.5); x.lower_equal_scalar(0.5)
        tuple[Tensor[Cpu, D2, Float], Tensor[Cpu, D2, Int]]:
            x.sort_with_indices(0); x.sort_descending_with_indices(0); x.max_dim_with_indices(0);
            x.min_dim_with_indices(0); x.topk_with_indices(1, 0)
        Tensor[Cpu, D3, Float]:
            x.one_hot(3); x.one_hot_fill(3, 0.5, 0.5, -1)
    """,
    (
        "x: Tensor[Cpu, D2, K], v: Tensor[Cpu, D1, K], ids: Tensor[Cpu, D2, Int], rows: Tensor[Cpu, D1, Int], "
        "mask: Tensor[Cpu, D2, Bool], backend: Cpu"
    ): """
        Tensor[Cpu, D2, K]:
            x.zeros_like(); x.ones_like(); x.empty_like(); x.transpose(); x.T; x.t(); x.full_like(0.5);
            x.swap_dims(0, 1); x.permute((1, 0)); x.movedim(0, 1); x.flip([0]); x.repeat_dim(0, 2); x.repeat([1, 2]);
            x.roll_dim(1, 0); x.roll([1], [0]); x.slice([slice(0, 1)]); x.slice_dim(0, slice(0, 1));
            x.slice_assign([slice(0, 1)], x); x.slice_fill([slice(0, 1)], 0.5); x.select(0, rows); x.narrow(0, 0, 1);
            x.gather(0, ids); x.scatter(0, ids, x, IndexingUpdateOp.Assign);
            x.select_assign(0, rows, x, IndexingUpdateOp.Assign); x.mask_where(mask, x); x.mask_fill(mask, 0.5);
            Tensor.cat([x, x], 0); Tensor.stack([v, v], 0); next(iter(x.iter_dim(0))); x.to_device(backend);
            x.without_autodiff()
        Tensor[Cpu, D2, Bool]:
            x.equal(x); x.not_equal(x); x.equal_elem(0.5); x.equal_scalar(0.5); x.not_equal_elem(0.5);
            x.not_equal_scalar(0.5); x.any_dim(0); x.all_dim(0)
        Tensor[Cpu, D1, Bool]:
            x.any(); x.all()
        Tensor[Cpu, D1, K]:
            x.flatten(0, 1, rank=1); x.squeeze(rank=1); x.squeeze_dims([0], rank=1); x.select_dim(0, 0);
            x.mask_select(mask)
        Tensor[Cpu, D3, K]:
            x.unsqueeze_dims([0], rank=3); x.unsqueeze(rank=3); x.take(0, ids)
        Tensor[Cpu, Any, K]:
            x.squeeze(); x.flatten(0, 1)
        list[Tensor[Cpu, D2, K]]:
            x.chunk(2, 0); x.split(2, 0); x.split_with_sizes([1, 1], 0)
        D2:
            x.rank()
        tuple[int, int]:
            x.dims()
        torch.Size:
            x.shape
        torch.dtype:
            x.dtype
        torch.device:
            x.device
        Cpu:
            x.backend
        torch.Tensor:
            x.inner
        TensorData:
            x.to_data(); x.into_data()
    """,
    "x: Tensor[Cpu, D1], n: Tensor[Cpu, D1, Int], b: Tensor[Cpu, D1, Bool]": """
        float:
            x.into_scalar(); x.item(); float(x)
        int:
            n.into_scalar(); n.item(); int(n)
        bool:
            b.into_scalar(); b.item()
    """,
    "x: Tensor[Cpu, D2], v: Tensor[Cpu, D2]": """
        Tensor[Cpu, D2, Float]:
            x.var(0); x.var_bias(0); x.median(0); x.cov(0, 1); x.cross(x, 0)
        tuple[Tensor[Cpu, D2, Float], Tensor[Cpu, D2, Float]]:
            x.var_mean(0); x.var_mean_bias(0)
        tuple[Tensor[Cpu, D2, Float], Tensor[Cpu, D2, Int]]:
            x.median_with_indices(0)
        Tensor[Cpu, D2, Int]:
            x.categorical(2)
    """,
    "x: Tensor[Cpu, D2, Int], v: Tensor[Cpu, D1, Int]": """
        Tensor[Cpu, D2, Int]:
            x.add(x); x.sub(x); x.mul(x); x.div(x); x.remainder(x); x.matmul(x); x.max_pair(x); x.min_pair(x);
            x.powi(x); x.add_scalar(2); x.sub_scalar(2); x.mul_scalar(2); x.div_scalar(2); x.remainder_scalar(2);
            x.clamp_min(2); x.clamp_max(2); x.clamp(2, 2); x.neg(); x.sign(); x.abs(); x.powi_scalar(2); x.sum_dim(0);
            x.mean_dim(0); x.prod_dim(0); x.max_dim(0); x.min_dim(0); x.max_abs_dim(0); x.cumsum(0); x.cumprod(0);
            x.cummin(0); x.cummax(0); x.triu(0); x.tril(0); x.sort(0); x.sort_descending(0); x.sum_dims([0]);
            x.mean_dims([0]); x.prod_dims([0]); x.max_dims([0]); x.min_dims([0]); x.max_abs_dims([0]); x.topk(1, 0);
            x.argtopk(1, 0); x.argmax(0); x.argmin(0); x.argsort(0); x.argsort_descending(0)
        Tensor[Cpu, D1, Int]:
            v.dot(v); x.sum(); x.mean(); x.prod(); x.max(); x.min(); x.max_abs()
        Tensor[Cpu, Any, Int]:
            x.sum_dims_squeeze([0])
        Tensor[Cpu, D2, Bool]:
            x.bool(); x.greater(x); x.greater_equal(x); x.lower(x); x.lower_equal(x); x.greater_elem(2);
            x.greater_scalar(2); x.greater_equal_elem(2); x.greater_equal_scalar(2); x.lower_elem(2);
            x.lower_scalar(2); x.lower_equal_elem(2); x.lower_equal_scalar(2)
        tuple[Tensor[Cpu, D2, Int], Tensor[Cpu, D2, Int]]:
            x.sort_with_indices(0); x.sort_descending_with_indices(0); x.max_dim_with_indices(0);
            x.min_dim_with_indices(0); x.topk_with_indices(1, 0)
        Tensor[Cpu, D3, Int]:
            x.one_hot(3); x.one_hot_fill(3, 2, 2, -1)
    """,
    "n: Tensor[Cpu, D2, Int]": """
        Tensor[Cpu, D2, Int]:
            n.bitwise_and(n); n.bitwise_or(n); n.bitwise_xor(n); n.bitwise_left_shift(n); n.bitwise_right_shift(n);
            n.bitwise_and_scalar(1); n.bitwise_or_scalar(1); n.bitwise_xor_scalar(1); n.bitwise_left_shift_scalar(1);
            n.bitwise_right_shift_scalar(1); n.bitwise_not(); n.square()
        Tensor[Cpu, D2, Float]:
            n.float()
    """,
    "b: Tensor[Cpu, D2, Bool]": """
        Tensor[Cpu, D2, Bool]:
            b.bool_not(); b.bool_and(b); b.bool_or(b); b.bool_xor(b); ~b; b & b; b | b; b ^ b
        list[Tensor[Cpu, D1, Int]]:
            b.nonzero()
        Tensor[Cpu, D2, Int]:
            b.argwhere(); b.int()
        Tensor[Cpu, D2, Float]:
            b.float()
    """,
    "x: Tensor[Cpu, D3], alpha: Tensor[Cpu, D1], raw: torch.Tensor": """
        Tensor[Cpu, D3, Float]:
            activation.relu(x); activation.gelu(x); activation.gelu_approximate(x); activation.sigmoid(x);
            activation.log_sigmoid(x); activation.silu(x); activation.hard_swish(x); activation.mish(x);
            activation.tanh(x); activation.selu(x); activation.softsign(x); activation.tanhshrink(x);
            activation.relu6(x); activation.softmax(x, 1); activation.softmin(x, 1); activation.quiet_softmax(x, 1);
            activation.log_softmax(x, 1); activation.glu(x, 1); activation.leaky_relu(x, 0.5);
            activation.softplus(x, 0.5); activation.elu(x, 0.5); activation.celu(x, 0.5);
            activation.thresholded_relu(x, 0.5); activation.hard_shrink(x, 0.5); activation.soft_shrink(x, 0.5);
            activation.hard_sigmoid(x, 0.5, 1.0); activation.shrink(x, 0.5, 1.0); activation.hardtanh(x, 0.5, 1.0);
            activation.threshold(x, 0.5, 1.0); activation.prelu(x, alpha); activation.prelu(x, raw)
    """,
    "a: Tensor[Cpu, D3], b: Tensor[Cpu, D4], c: Tensor[Cpu, D5], bias: Tensor[Cpu, D1], raw: torch.Tensor": """
        Tensor[Cpu, D3, Float]:
            module.conv1d(a, a, bias, ConvOptions()); module.conv_transpose1d(a, a, bias, ConvTransposeOptions());
            module.unfold4d(b, (2, 2), UnfoldOptions())
        Tensor[Cpu, D4, Float]:
            module.conv2d(b, b, None, ConvOptions()); module.conv2d(b, raw, raw, ConvOptions());
            module.conv2d_weight_backward(b, b, b, ConvOptions());
            module.deform_conv2d(b, b, b, None, bias, DeformConvOptions());
            module.conv_transpose2d(b, b, bias, ConvTransposeOptions());
            module.fold4d(a, (4, 4), (2, 2), UnfoldOptions())
        Tensor[Cpu, D5, Float]:
            module.conv3d(c, c, bias, ConvOptions()); module.conv_transpose3d(c, c, bias, ConvTransposeOptions())
    """,
    "a: Tensor[Cpu, D3], b: Tensor[Cpu, D4], c: Tensor[Cpu, D5]": """
        Tensor[Cpu, D3, Float]:
            module.max_pool1d(a, 2, 2, 0, 1, False); module.avg_pool1d(a, 2, 2, 0, True, False);
            module.adaptive_avg_pool1d(a, 2)
        Tensor[Cpu, D4, Float]:
            module.max_pool2d(b, (2, 2), (2, 2), (0, 0), (1, 1), False);
            module.avg_pool2d(b, (2, 2), (2, 2), (0, 0), True, False); module.adaptive_avg_pool2d(b, (2, 2));
            module.interpolate(b, (4, 4), InterpolateOptions())
        tuple[Tensor[Cpu, D3, Float], Tensor[Cpu, D3, Int]]:
            module.max_pool1d_with_indices(a, 2, 2, 0, 1, False)
        tuple[Tensor[Cpu, D4, Float], Tensor[Cpu, D4, Int]]:
            module.max_pool2d_with_indices(b, (2, 2), (2, 2), (0, 0), (1, 1), False)
        Tensor[Cpu, D5, Float]:
            module.adaptive_avg_pool3d(c, (2, 2, 2))
    """,
    (
        "x: Tensor[Cpu, D3], q: Tensor[Cpu, D4], w: Tensor[Cpu, D2], v: Tensor[Cpu, D1], ids: Tensor[Cpu, D2, "
        "Int], lengths: Tensor[Cpu, D1, Int], raw: torch.Tensor"
    ): """
        Tensor[Cpu, D3, Float]:
            module.linear(x, w); module.linear(x, raw, raw); module.embedding(w, ids);
            module.layer_norm(x, v, None, 1e-05); module.batch_norm(x, v, v, v, v, 1e-05)
        Tensor[Cpu, D4, Float]:
            module.attention(q, q, q); module.attention_fallback(q, q, q, None, None)
        Tensor[Cpu, D1, Float]:
            module.ctc_loss(x, ids, lengths, lengths, 0); loss.cross_entropy_with_logits(w, w)
    """,
    (
        "a: Tensor[Cpu, D2], v: Tensor[Cpu, D1], n: Tensor[Cpu, D2, Int], batch: Tensor[Cpu, D4], mask: "
        "Tensor[Cpu, D3, Bool], k: Tensor[Cpu, D1, Int]"
    ): """
        Tensor[Cpu, D1, Float]:
            linalg.matvec(a, v); linalg.diag(a); linalg.trace(a)
        Tensor[Cpu, D1, Int]:
            linalg.matvec(n, k)
        Tensor[Cpu, D3, Float]:
            linalg.matvec(batch, batch.select_dim(0, 0)); linalg.outer_dim(a, a, 0); linalg.trace(batch)
        Tensor[Cpu, D2, Float]:
            linalg.outer(v, v); linalg.det(batch); linalg.cosine_similarity(a, a, 0); linalg.vector_norm(a, 2.0, 0);
            linalg.lp_norm(a, 3.0, 0); linalg.vector_normalize(a, 2.0, 0, 1e-05); linalg.l1_norm(a, 0);
            linalg.l2_norm(a, 0); linalg.min_abs_norm(a, 0)
        Tensor[Cpu, D2, Int]:
            linalg.outer(k, k); linalg.l0_norm(n, 0); linalg.max_abs_norm(n, 0)
        Tensor[Cpu, D2, Bool]:
            linalg.diag(mask)
        tuple[Tensor[Cpu, D2, Float], Tensor[Cpu, D2, Float], Tensor[Cpu, D2, Float]]:
            linalg.lu(a)
        tuple[Tensor[Cpu, D4, Float], Tensor[Cpu, D4, Float]]:
            linalg.qr(batch, False)
        Tensor[Cpu, Any, Float]:
            Tensor.einsum('ij,jk->ik', [a, a])
    """,
    "x: Tensor[Cpu, D2], v: Tensor[Cpu, D1], frames: Tensor[Cpu, D4], backend: Cpu": """
        tuple[Tensor[Cpu, D2, Float], Tensor[Cpu, D2, Float]]:
            signal.rfft(x, 1)
        Tensor[Cpu, D2, Float]:
            signal.irfft(x, x, 1); signal.istft(frames, None, None, StftOptions(8))
        tuple[Tensor[Cpu, D1, Float], Tensor[Cpu, D1, Float]]:
            signal.cfft(v, v, 0, 8)
        Tensor[Cpu, D4, Float]:
            signal.stft(x, v, StftOptions(8))
        Tensor[Cpu, D1, Float]:
            signal.hann_window(8, True, backend); signal.hamming_window(8, True, backend);
            signal.blackman_window(8, True, backend, torch.float64)
    """,
    "v: Tensor[Cpu, D1], k: Tensor[Cpu, D1, Int], t: Tensor[Cpu, D3], x: Tensor[Cpu, D4]": """
        list[Tensor[Cpu, Any, Float]]:
            grid.meshgrid([v, v])
        list[Tensor[Cpu, D2, Float]]:
            grid.meshgrid((v, v))
        Tensor[Cpu, D3, Int]:
            grid.meshgrid_stack((k, k))
        Tensor[Cpu, D4, Float]:
            grid.affine_grid_2d(t, (1, 1, 4, 4)); x.grid_sample_2d(x, GridSampleOptions())
    """,
}
