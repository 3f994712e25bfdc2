"""The training script of `stock.py` with burnlike added: nine lines, marked `# +`; nothing else is changed.

They show the module, load a record's weights where names, shapes and kinds fit, freeze a part of the model by the names
of its parameters, validate on a view that autograd does not track, and save the weights in bfloat16 with their ids.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional

import burnlike as bl  # +


class Classifier(nn.Module):
    """Which of two spirals a point of the plane is on."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(2, width), nn.GELU(), nn.Linear(width, width), nn.BatchNorm1d(width))
        self.head = nn.Linear(width, 2)

    def forward(self, points: Tensor) -> Tensor:
        """`[batch, 2] -> [batch, 2]`, logits."""
        return self.head(functional.gelu(self.features(points)))


def spirals(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw `count` points `[count, 2]` and their spirals `[count]`."""
    turn = torch.rand(count, generator=generator)
    spiral = torch.randint(2, (count,), generator=generator)
    angle = 3 * torch.pi * turn + torch.pi * spiral
    points = torch.stack((angle.cos(), angle.sin()), 1) * (0.2 + turn).unsqueeze(1)
    return points + 0.02 * torch.randn(count, 2, generator=generator), spiral


def main() -> None:
    """Train, say how good the classifier is, and save it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--out", default="classifier")
    parser.add_argument("--start", help="record or safetensors file to start from")  # +
    parser.add_argument("--freeze", help="regular expression: parameters that are not trained")  # +
    args = parser.parse_args()
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)

    model = Classifier()
    if args.start:  # +
        print(bl.record.load(model, args.start, strict=False))  # +
    if args.freeze:  # +
        bl.module.freeze(model, bl.ParamGroup.from_regex(args.freeze))  # +
    print(bl.module.display(model))  # +
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    compiled = torch.compile(model, backend=args.backend)
    for _ in range(args.steps):
        points, spiral = spirals(256, generator)
        loss = functional.cross_entropy(compiled(points), spiral)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    points, spiral = spirals(2000, generator)
    model.eval()
    with torch.no_grad():
        right = (model(points).argmax(1) == spiral).float().mean()
    print(f"loss {loss.item():.4f}, {right.item():.1%} of new points on the right spiral")
    bl.record.save(compiled, args.out, precision=bl.BFloat16Precision)  # +
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{args.out}.pt")


if __name__ == "__main__":
    main()
