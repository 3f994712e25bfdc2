"""Why a case has no verdict of its own: the runner does not know something, or burnlike leaves it to later work."""


class UnknownError(Exception):
    """An operation, key, flag, argument form or element type that the runner does not know. Always a failure."""


class LaterError(Exception):
    """A layer of later work: the case is skipped with this reason."""


# The only things that are skipped on purpose, by what a case names: an operation or the key of a tensor value.
LATER: dict[str, str] = {
    "quantize": "quantized tensors are a layer of later work",
    "quantize_dynamic": "quantized tensors are a layer of later work",
    "dequantize": "quantized tensors are a layer of later work",
    "quantization.compute_q_params": "quantized tensors are a layer of later work",
}
