"""The sections of the site and their pages, in order. A page that stands nowhere here fails the build."""

from typing import NamedTuple


class Section(NamedTuple):
    """A section: its folder, title, what it is for, and its pages: paths below docs, `*` for the rest."""

    folder: str
    title: str
    about: str
    pages: str


SECTIONS = (
    Section("start", "Start", "Five minutes each: one page for each way to begin.",
            "start/own_data start/pytorch start/yaml_model start/training_job start/*"),
    Section("guide", "Tutorials", "Programs and jobs, explained from first line to last.", "guide/* notebooks/index"),
    Section("how_to", "How to", "One page for each question that people ask.",
            "how_to/resume_mid_epoch how_to/resume_lightning_and_trainer how_to/prove_that_a_run_resumes "
            "how_to/optimizer_state_after_rename how_to/half_size_weights how_to/sharded_checkpoints "
            "how_to/pytorch_to_rust how_to/weights_to_rust how_to/burn_training how_to/exact_big_batch "
            "how_to/freeze_by_pattern "
            "how_to/stochastic_rounding "
            "how_to/lora_on_a_laptop how_to/faster_model how_to/*"),
    Section("concepts", "Concepts", "What burnlike is made of, with a drawing for each.",
            "concepts/overview concepts/ids concepts/records concepts/typed_tensors concepts/resume concepts/*"),
    Section("guides", "Manual", "Each part of burnlike, with programs that run.",
            "drop_in training config models modules nn data streaming chat_data optimizers "
            "metrics after_training fine_tuning preferences rewards records formats burn parallelism clusters "
            "tensor backends mlax kernels"),
    Section("reference", "Reference", "Every public name, config, command and error.",
            "reference/api/index reference/configs/index reference/* tensor_api"),
    Section("figures", "Figures", "How fast it is, beside what, on which machine.", "figures/* measured tables"),
    Section("support", "Support", "What is supported, in tables that tests compare.",
            "support/* fuse_support compatibility"),
    Section("project", "Project", "How it is built, what it promises, and how to work on it.",
            "building deviations architecture design/* project/*"),
)  # fmt: skip
WITH_PAGES = ("training", "parallelism", "measured", "deviations", "fuse_support", "notebooks/index")
"""Pages that have pages below them, in the folder of their name."""
PROJECT = {
    "README": "readme",
    "CHANGELOG": "changelog",
    "CONTRIBUTING": "contributing",
    "AGENTS": "agents",
    "SECURITY": "security",
    "CODE_OF_CONDUCT": "code_of_conduct",
}
"""Files of the project's root, and what they are called in the section of that name."""
