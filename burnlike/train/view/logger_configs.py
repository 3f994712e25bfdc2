"""Configs of the loggers."""

from typing import TYPE_CHECKING, Annotated, Literal

from ...config import LoggerConfig, Meta

if TYPE_CHECKING:
    from .loggers import MLflow, TensorBoard, WandB

Name = Annotated[str, Meta(min_length=1)]


class TensorBoardConfig(LoggerConfig["TensorBoard"], tag="TensorBoard", builds=".loggers"):
    """Writes the event files of TensorBoard, with the extra `tensorboard`.

    Attributes:
        directory: where they go; None is `tensorboard` in the run's directory.
    """

    directory: Name | None = None


class WandBConfig(LoggerConfig["WandB"], tag="WandB", builds=".loggers"):
    """Sends metrics to Weights & Biases, with the extra `wandb`; who is logged in is W&B's own matter.

    Attributes:
        project: the project.
        entity: the user or team; None is the default of the account.
        name: of the run; None is that of the run's directory.
        group: runs that belong together; None for none.
        mode: `offline` writes files that `wandb sync` sends later; None is what `WANDB_MODE` says, else online.
    """

    project: Name = "burnlike"
    entity: Name | None = None
    name: Name | None = None
    group: Name | None = None
    mode: Literal["online", "offline"] | None = None


class MLflowConfig(LoggerConfig["MLflow"], tag="MLflow", builds=".loggers"):
    """Sends metrics to an MLflow server or store, with the extra `mlflow`.

    Attributes:
        tracking_uri: the server or store, such as `http://localhost:5000`; None is what `MLFLOW_TRACKING_URI` says.
        experiment: the experiment, which is made where it does not exist.
        name: of the run; None is that of the run's directory.
    """

    tracking_uri: Name | None = None
    experiment: Name = "burnlike"
    name: Name | None = None
