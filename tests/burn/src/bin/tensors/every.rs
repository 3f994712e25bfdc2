//! Methods of tensors of every kind.

use burn::tensor::ops::IndexingUpdateOp;
use burn::tensor::{Bool, Int, Tensor, TensorCreationOptions};
use serde_json::json;

use crate::args::{Case, Kinded, Outs, all, one, plain, slice_of};
use crate::with_rank;

pub fn creation<K: Kinded>(case: &Case) -> Option<Outs> {
    let mut options = TensorCreationOptions::new(case.device.clone());
    if let Some(name) = case.fields["dtype"].as_str() {
        options = options.with_dtype(burn_cases::dtype_of(name));
    }
    let rank = || case.list(0).len();
    Some(match case.op() {
        "empty" => with_rank!(rank(), R, plain(json!(Tensor::<R, K>::empty(case.fixed::<R>(0), options).dims()))),
        "zeros" => with_rank!(rank(), R, one(Tensor::<R, K>::zeros(case.fixed::<R>(0), options))),
        "ones" => with_rank!(rank(), R, one(Tensor::<R, K>::ones(case.fixed::<R>(0), options))),
        "full" => with_rank!(rank(), R, one(Tensor::<R, K>::full(case.fixed::<R>(0), case.number::<K>(1), options))),
        "cat" => with_rank!(case.rank(), R, one(Tensor::cat(case.several::<R, K>(0), case.int(1)))),
        "stack" => with_rank!(case.list(0)[0]["shape"].as_array().expect("sizes").len(), D, {
            with_rank!(case.rank(), R, one(Tensor::stack::<R>(case.several::<D, K>(0), case.int(1))))
        }),
        _ => return None,
    })
}

pub fn method<const D: usize, K: Kinded>(x: Tensor<D, K>, case: &Case) -> Option<Outs> {
    Some(match case.op() {
        "from_data" => with_rank!(case.rank(), R, one(Tensor::<R, K>::from_data(x.into_data(), &case.device))),
        "zeros_like" => one(x.zeros_like()),
        "ones_like" => one(x.ones_like()),
        "empty_like" => plain(json!(x.empty_like().dims().to_vec())),
        "full_like" => one(x.full_like(case.number::<K>(1))),
        "rank" => plain(x.rank()),
        "dtype" => plain(format!("{:?}", x.dtype()).to_lowercase()),
        "dims" | "shape" => plain(json!(x.dims().to_vec())),
        "reshape" => with_rank!(case.list(1).len(), R, one(x.reshape(case.dims::<R>(1)))),
        "transpose" => one(x.transpose()),
        "t" => one(x.t()),
        "swap_dims" => one(x.swap_dims(case.int(1), case.int(2))),
        "permute" => one(x.permute(case.dims::<D>(1))),
        "movedim" if case.args[1].is_array() => one(x.movedim(case.ints(1), case.ints(2))),
        "movedim" => one(x.movedim(case.int(1), case.int(2))),
        "flip" => with_rank!(case.list(1).len(), N, one(x.flip(case.dims::<N>(1)))),
        "flatten" => with_rank!(case.rank(), R, one(x.flatten::<R>(case.int(1), case.int(2)))),
        "squeeze" => with_rank!(case.rank(), R, one(x.squeeze::<R>())),
        "squeeze_dim" => with_rank!(case.rank(), R, one(x.squeeze_dim::<R>(case.int(1)))),
        "squeeze_dims" => with_rank!(case.rank(), R, one(x.squeeze_dims::<R>(&case.ints(1)))),
        "unsqueeze" => with_rank!(case.rank(), R, one(x.unsqueeze::<R>())),
        "unsqueeze_dim" => with_rank!(case.rank(), R, one(x.unsqueeze_dim::<R>(case.int(1)))),
        "unsqueeze_dims" => with_rank!(case.rank(), R, one(x.unsqueeze_dims::<R>(&case.ints(1)))),
        "expand" => with_rank!(case.list(1).len(), R, one(x.expand(case.dims::<R>(1)))),
        "repeat_dim" => one(x.repeat_dim(case.int(1), case.size(2))),
        "repeat" => one(x.repeat(&case.sizes(1))),
        "roll_dim" => one(x.roll_dim(case.int(1), case.int(2))),
        "roll" => one(x.roll(&case.ints(1), &case.ints(2))),
        "unfold" => with_rank!(case.rank(), R, one(x.unfold::<R, _>(case.int(1), case.size(2), case.size(3)))),
        "slice" => one(x.slice(case.slices(1).as_slice())),
        "slice_dim" => one(x.slice_dim(case.int(1), slice_of(&case.args[2]))),
        "slice_assign" => one(x.slice_assign(case.slices(1).as_slice(), case.tensor(2))),
        "slice_fill" => one(x.slice_fill(case.slices(1).as_slice(), case.number::<K>(2))),
        "select" => one(x.select(case.int(1), case.tensor(2))),
        "select_dim" => with_rank!(case.rank(), R, one(x.select_dim::<R>(case.int(1), case.int(2)))),
        "select_assign" => one(x.select_assign(case.int(1), case.tensor(2), case.tensor(3), update_of(case, 4))),
        "take" => with_rank!(case.rank_of(2), I, {
            with_rank!(case.rank(), R, one(x.take::<I, R>(case.int(1), case.tensor(2))))
        }),
        "narrow" => one(x.narrow(case.int(1), case.size(2), case.size(3))),
        "gather" => one(x.gather(case.int(1), case.tensor(2))),
        "scatter" => one(x.scatter(case.int(1), case.tensor(2), case.tensor(3), update_of(case, 4))),
        "scatter_nd" => with_rank!(
            case.rank_of(1),
            M,
            with_rank!(case.rank_of(2), V, {
                one(x.scatter_nd::<M, V>(case.tensor(1), case.tensor(2), update_of(case, 3)))
            })
        ),
        "gather_nd" => {
            with_rank!(case.rank_of(1), M, with_rank!(case.rank(), V, one(x.gather_nd::<M, V>(case.tensor(1)))))
        }
        "mask_where" => one(x.mask_where(case.tensor::<D, Bool>(1), case.tensor(2))),
        "mask_fill" => one(x.mask_fill(case.tensor::<D, Bool>(1), case.number::<K>(2))),
        "mask_select" => one(x.mask_select(case.tensor::<D, Bool>(1))),
        "chunk" => all(x.chunk(case.size(1), case.int(2))),
        "split" => all(x.split(case.size(1), case.int(2))),
        "split_with_sizes" => all(x.split_with_sizes(case.sizes(1), case.int(2))),
        "iter_dim" => all(x.iter_dim(case.int(1))),
        "equal" => one(x.equal(case.tensor(1))),
        "not_equal" => one(x.not_equal(case.tensor(1))),
        "equal_elem" => one(x.equal_elem(case.number::<K>(1))),
        "not_equal_elem" => one(x.not_equal_elem(case.number::<K>(1))),
        "equal_scalar" => one(x.equal_scalar(case.number::<K>(1))),
        "not_equal_scalar" => one(x.not_equal_scalar(case.number::<K>(1))),
        "any" => one(x.any()),
        "any_dim" => one(x.any_dim(case.int(1))),
        "all" => one(x.all()),
        "all_dim" => one(x.all_dim(case.int(1))),
        "to_data" => plain(burn_cases::value_of(&x.to_data())),
        "into_data" => plain(burn_cases::value_of(&x.into_data())),
        "try_into_data" => plain(burn_cases::value_of(&x.try_into_data().expect("data"))),
        "to_data_dtype" => plain(burn_cases::value_of(&x.to_data_dtype(case.dtype(1)))),
        "into_data_dtype" => plain(burn_cases::value_of(&x.into_data_dtype(case.dtype(1)))),
        "try_to_data_dtype" => plain(burn_cases::value_of(&x.try_to_data_dtype(case.dtype(1)).expect("data"))),
        "into_scalar" => plain(x.into_scalar::<f64>()),
        "try_into_scalar" => plain(x.try_into_scalar::<f64>().expect("one element")),
        "clone_in_place" => {
            let mut kept = x;
            kept.inplace(|it| it.flip([0]));
            one(kept)
        }
        "display" => plain(match case.args.get(1).and_then(|it| it.as_u64()) {
            None => format!("{x}"),
            Some(digits) => format!("{x:.*}", digits as usize),
        }),
        "diag" => with_rank!(case.rank(), R, one(burn::linalg::diag::<D, R, K>(x))),
        _ => return None,
    })
}

pub fn update_of(case: &Case, at: usize) -> IndexingUpdateOp {
    match case.word(at) {
        "Assign" => IndexingUpdateOp::Assign,
        "Add" => IndexingUpdateOp::Add,
        "Mul" => IndexingUpdateOp::Mul,
        "Min" => IndexingUpdateOp::Min,
        "Max" => IndexingUpdateOp::Max,
        word => panic!("no update {word}"),
    }
}

/// Vectors of a grid, of which the type names the number.
pub fn grids<K: Kinded>(case: &Case) -> Outs {
    use burn::tensor::grid::{GridIndexing, GridOptions, GridSparsity, IndexPos, meshgrid, meshgrid_stack};
    let vectors: Vec<Tensor<1, K>> = case.several(0);
    let options = GridOptions {
        indexing: if case.word(1) == "Cartesian" { GridIndexing::Cartesian } else { GridIndexing::Matrix },
        sparsity: if case.word(2) == "Sparse" { GridSparsity::Sparse } else { GridSparsity::Dense },
    };
    let place = if case.word(1) == "Last" { IndexPos::Last } else { IndexPos::First };
    macro_rules! of {
        ($($n:literal $m:literal),*) => {
            match vectors.len() {
                $($n => {
                    let vectors: [Tensor<1, K>; $n] = vectors.try_into().expect("as many vectors");
                    if case.op() == "grid.meshgrid" { all(meshgrid(&vectors, options)) } else {
                        one(meshgrid_stack::<$n, $m, K>(&vectors, place))
                    }
                })*
                count => panic!("{count} vectors"),
            }
        };
    }
    of!(1 2, 2 3, 3 4)
}

pub fn of_bools<const D: usize>(x: Tensor<D, Bool>, case: &Case) -> Option<Outs> {
    Some(match case.op() {
        "int" => one(x.int()),
        "float" => one(x.float()),
        "bool_not" => one(x.bool_not()),
        "bool_and" => one(x.bool_and(case.tensor(1))),
        "bool_or" => one(x.bool_or(case.tensor(1))),
        "bool_xor" => one(x.bool_xor(case.tensor(1))),
        "nonzero" => all(x.nonzero()),
        "argwhere" => one(x.argwhere()),
        _ => return crate::numbers::cast_bools(x, case),
    })
}

pub fn of_ints<const D: usize>(x: Tensor<D, Int>, case: &Case) -> Option<Outs> {
    Some(match case.op() {
        "float" => one(x.float()),
        "square" => one(x.square()),
        "bitwise_and" => one(x.bitwise_and(case.tensor(1))),
        "bitwise_or" => one(x.bitwise_or(case.tensor(1))),
        "bitwise_xor" => one(x.bitwise_xor(case.tensor(1))),
        "bitwise_not" => one(x.bitwise_not()),
        "bitwise_left_shift" => one(x.bitwise_left_shift(case.tensor(1))),
        "bitwise_right_shift" => one(x.bitwise_right_shift(case.tensor(1))),
        "bitwise_and_scalar" => one(x.bitwise_and_scalar(case.int(1))),
        "bitwise_or_scalar" => one(x.bitwise_or_scalar(case.int(1))),
        "bitwise_xor_scalar" => one(x.bitwise_xor_scalar(case.int(1))),
        "bitwise_left_shift_scalar" => one(x.bitwise_left_shift_scalar(case.int(1))),
        "bitwise_right_shift_scalar" => one(x.bitwise_right_shift_scalar(case.int(1))),
        _ => return crate::numbers::cast_ints(x, case),
    })
}

/// Creations of one kind only.
pub fn others(case: &Case) -> Option<Outs> {
    let device = &case.device;
    Some(match case.op() {
        "arange" => one(Tensor::<1, Int>::arange(case.int(0)..case.int(1), device)),
        "arange_step" => one(Tensor::<1, Int>::arange_step(case.int(0)..case.int(1), case.size(2), device)),
        "from_floats" => {
            with_rank!(case.rank_of(0), R, one(Tensor::<R>::from_floats(burn_cases::data_of(&case.args[0]), device)))
        }
        "from_ints" => {
            with_rank!(case.rank_of(0), R, one(Tensor::<R, Int>::from_ints(burn_cases::data_of(&case.args[0]), device)))
        }
        "from_bool" => with_rank!(
            case.rank_of(0),
            R,
            one(Tensor::<R, Bool>::from_bool(burn_cases::data_of(&case.args[0]), device))
        ),
        "cartesian_grid" => with_rank!(
            case.list(0).len(),
            R,
            with_rank!(case.rank(), S, one(Tensor::<R, Int>::cartesian_grid::<_, S>(case.fixed::<R>(0), device)))
        ),
        "triu_mask" => with_rank!(
            case.list(0).len(),
            R,
            one(Tensor::<R, Bool>::triu_mask(case.fixed::<R>(0), case.int(1), device))
        ),
        "tril_mask" => with_rank!(
            case.list(0).len(),
            R,
            one(Tensor::<R, Bool>::tril_mask(case.fixed::<R>(0), case.int(1), device))
        ),
        "diag_mask" => with_rank!(
            case.list(0).len(),
            R,
            one(Tensor::<R, Bool>::diag_mask(case.fixed::<R>(0), case.int(1), device))
        ),
        _ => return None,
    })
}
