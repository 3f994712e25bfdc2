"""ParamId: Burn's text form, randomness, seeds."""

import pytest
from torch import nn

from burnlike.module import ParamId, seed_param_ids
from burnlike.module.tree.identities import fingerprint_of_tree

from ..cases import case

# Burn's text form: spec of v0.21.0, crates/burn-core/src/module/param/id.rs
BURN_TEXTS = [
    (0, "0000000000000"),
    (1, "0400000000000"),
    (123456, "83h0200000000"),
    (255, "vs00000000000"),
    (2**32, "0000000100000"),
    (2**63, "0000000000080"),
    (2**64 - 1, "vvvvvvvvvvvvu"),
    (0x65695FD4BB139A38, "72d17eukbtkma"),
    (6830441800946000814, "lqhlrt50jb55s"),
]


@case("param_id/derived_table", "param_id/try_deserialize")
@pytest.mark.parametrize(("value", "text"), BURN_TEXTS)
def test_text_is_burns_and_reads_back(value: int, text: str) -> None:
    assert str(ParamId(value)) == text
    assert ParamId.parse(text) == ParamId(value)
    assert ParamId.parse(text.upper()) == ParamId(value)


def test_short_ids_of_old_versions_are_extended_with_zeros() -> None:
    assert ParamId.parse("5kmiqb9d5k") == ParamId(int.from_bytes(bytes([45] * 6), "little"))


@case("param_id/legacy_uuid")
def test_a_uuid_of_old_versions_is_the_same_id_each_time() -> None:
    text = "30b82c23-788d-4d63-a743-ada258d5f13c"
    assert ParamId.parse(text) == ParamId.parse(text) == ParamId.parse(text.upper())
    assert ParamId.parse(text) != ParamId.parse("30b82c23-788d-4d63-a743-ada258d5f13d")


@case("param_id/invalid", "param_id/try_deserialize")
@pytest.mark.parametrize(
    "text",
    [
        "30b82c23-788d-4d63-ada258d5f13c",
        "{30b82c23-788d-4d63-a743-ada258d5f13c}",
        "invalid_id",
        "",
        "zzzzzzzzzzzzz",
        "83h02000000000000",
        "83h 200000000",
        "83h0200000ß00",
    ],
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid id\. .*expected a ParamId of 13 characters"):
        ParamId.parse(text)


@pytest.mark.parametrize("value", [-1, 2**64])
def test_only_64_bits_fit(value: int) -> None:
    with pytest.raises(ValueError, match="unsigned 64-bit"):
        ParamId(value)


def test_new_ids_differ() -> None:
    assert len({ParamId.new() for _ in range(1000)}) == 1000


def test_a_seed_repeats_the_ids() -> None:
    seed_param_ids(7)
    first = [ParamId.new() for _ in range(3)]
    seed_param_ids(7)
    assert [ParamId.new() for _ in range(3)] == first
    seed_param_ids(8)
    assert ParamId.new() not in first


def test_what_ids_are_drawn_for_is_short_however_large_the_model() -> None:
    small, large = (nn.Sequential(*(nn.Linear(1, 1) for _ in range(count))) for count in (1, 1000))
    assert len(fingerprint_of_tree(large)) == len(fingerprint_of_tree(small)) < 100
    assert fingerprint_of_tree(large) != fingerprint_of_tree(small)
