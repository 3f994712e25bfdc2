"""What metrics take: checks of predictions and targets that need no value of them."""

from typing import Any

from torch import Tensor

from ...errors import DTypeError, ShapeError


def shape_error(metric: object, expected: str, predictions: Tensor, targets: Tensor) -> ShapeError:
    return ShapeError(
        f"{type(metric).__name__}: expected {expected}, got predictions of {list(predictions.shape)} and targets of"
        f" {list(targets.shape)}"
    )


def expect_tensors(metric: object, predictions: Any, targets: Any) -> None:
    """Raise DTypeError unless both are tensors."""
    for what, value in (("predictions", predictions), ("targets", targets)):
        if not isinstance(value, Tensor):
            raise DTypeError(f"{type(metric).__name__}: {what}: expected a tensor, got {type(value).__name__}")


def expect_floats(metric: object, predictions: Tensor) -> None:
    """Raise DTypeError unless predictions, which are scores or images, are floats."""
    if not predictions.is_floating_point():
        raise DTypeError(f"{type(metric).__name__}: predictions: expected floats, got {predictions.dtype}")


def expect_integers(metric: object, what: str, values: Tensor) -> None:
    """Raise DTypeError unless values, which are classes or tokens, are integers."""
    if values.is_floating_point() or values.is_complex():
        raise DTypeError(f"{type(metric).__name__}: {what}: expected integers, got {values.dtype}")


def scores_and_classes(
    metric: object, predictions: Any, targets: Any, class_dim: int, least: int = 2
) -> tuple[Tensor, Tensor]:
    """The scores as `[n, classes]` and the targets as `[n]`.

    Args:
        predictions: floats with a score for each class along `class_dim`, 1 or -1.
        targets: integers, of the shape of `predictions` without `class_dim`.
        least: how many classes there must be.
    """
    expect_tensors(metric, predictions, targets)
    fits = predictions.dim() >= 2 and predictions.shape[class_dim] >= least
    if not fits or targets.shape != _without(predictions, class_dim):
        raise shape_error(metric, _expected(class_dim, least, one_hot=False), predictions, targets)
    expect_floats(metric, predictions)
    expect_integers(metric, "targets", targets)
    return _rows(predictions, class_dim), targets.flatten()


def scores_and_truth(metric: object, predictions: Any, targets: Any, class_dim: int) -> tuple[Tensor, Tensor]:
    """The scores as `[n, classes]`, and for each whether its class is one of the item's: `[n, classes]` bool.

    Args:
        predictions: floats with a score for each class along `class_dim`, 1 or -1.
        targets: zeros and ones of the shape of `predictions`; or integers of this shape without `class_dim`: the class
            of each item, or with a single column of scores 0 or 1.
    """
    expect_tensors(metric, predictions, targets)
    one_hot = targets.shape == predictions.shape
    fits = predictions.dim() >= 2 and predictions.shape[class_dim] >= 1
    if not fits or not (one_hot or targets.shape == _without(predictions, class_dim)):
        raise shape_error(metric, _expected(class_dim, 1, one_hot=True), predictions, targets)
    expect_floats(metric, predictions)
    scores = _rows(predictions, class_dim)
    if one_hot:
        return scores, _rows(targets, class_dim) > 0.5
    expect_integers(metric, "targets", targets)
    classes = targets.flatten().unsqueeze(1)
    if scores.shape[1] == 1:
        return scores, classes > 0
    return scores, classes == classes.new_ones(scores.shape[1]).cumsum(0) - 1


def _expected(class_dim: int, least: int, *, one_hot: bool) -> str:
    order = "[n, ..., classes]" if class_dim == -1 else "[n, classes, ...]"
    several = f" with at least {least} classes" if least > 1 else ""
    of_shape = f"targets [n, ...] of classes or {order} of zeros and ones" if one_hot else "targets [n, ...]"
    return f"predictions {order}{several} and {of_shape} (class_dim is {class_dim})"


def _without(predictions: Tensor, class_dim: int) -> tuple[int, ...]:
    sizes = [*predictions.shape]
    del sizes[class_dim]
    return tuple(sizes)


def _rows(values: Tensor, class_dim: int) -> Tensor:
    return values.movedim(class_dim, -1).flatten(0, -2)
