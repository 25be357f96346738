"""Abstractors: purpose and state of every region of a page.

Enters: a partition. Leaves: one `Abstraction` a region, in page order. `EmbeddedAbstractor` is the default: learned
weights of the package, no language model, no download. `RoleNameAbstractor` is the trivial baseline.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache, reduce
from importlib.resources import files
from pathlib import Path
from zlib import crc32

from region4web.contents import units_of_regions
from region4web.purposes import PurposeModel, load_purpose_model
from region4web.region_features import region_features
from region4web.regions import Abstraction, Abstractor, Partition
from region4web.states import state_line

__all__ = [
    "ABSTRACTOR_NAMES",
    "EmbeddedAbstractor",
    "RoleNameAbstractor",
    "abstractor_by_name",
    "code_checksum",
    "packaged_weights",
    "purpose_model",
]

ABSTRACTOR_NAMES = ("embedded", "role-name")
READER_NAMES = ("minilm", "minilm:FOLDER")
CODE = ("contents", "region_features", "purposes", "states")
"""Modules that decide what the embedded abstractor says."""


class EmbeddedAbstractor:
    """Purpose by the packaged model, state from the region's own content. Weights are read once a process.

    `weights` is a folder written by `training.train_embedded_abstraction`; None: the packaged one. Raises WeightsError.
    """

    source = "embedded"

    def __init__(self, weights: str | os.PathLike[str] | None = None) -> None:
        folder = packaged_weights() if weights is None else Path(weights)
        self._purposes = purpose_model(folder)
        self.identity = f"{self.source} {_checksum(folder):08x}"
        """Changes with the weights and with the code that reads a region, as a cache's key must."""

    def abstract(self, partition: Partition) -> tuple[Abstraction, ...]:
        return self.abstract_regions(partition, range(len(partition)))

    def abstract_regions(self, partition: Partition, numbers: Sequence[int]) -> tuple[Abstraction, ...]:
        """What `abstract` says of the regions `numbers`, which rise; of the others only the content is read."""
        units = list(units_of_regions(partition))
        asked = [units[number] for number in numbers]
        purposes = self._purposes.purposes(region_features(partition, units, frozenset(numbers)), asked)
        return tuple(Abstraction(purpose, state_line(own), self.source) for purpose, own in zip(purposes, asked, strict=True))


class RoleNameAbstractor:
    """Purpose: the root's role and name; state: the region's first words. What a page says with no model at all."""

    source = "role-name"

    def abstract(self, partition: Partition) -> tuple[Abstraction, ...]:
        nodes = partition.tree.nodes
        found = []
        for region in partition.regions:
            root = nodes[region.root]
            words = " ".join(nodes[i].name for i in region.members.tolist() if nodes[i].name).split()
            found.append(Abstraction(" ".join([root.role, *root.name.split()][:8]), " ".join(words[:20]), self.source))
        return tuple(found)


def abstractor_by_name(name: str) -> Abstractor:
    """`embedded`, `role-name`, `minilm`, or a language model of `generative.language_model_abstractor` (both extra `lm`).

    Raises ValueError that lists the names; WeightsError and LanguageModelError when a model is not to be had.
    """
    if name == "embedded":
        return EmbeddedAbstractor()
    if name == "role-name":
        return RoleNameAbstractor()
    from region4web.generative import LANGUAGE_MODEL_NAMES, language_model_abstractor

    kind, _, folder = name.partition(":")
    if kind == "smollm2":
        from region4web.region_writer import smollm2_abstractor

        return smollm2_abstractor(folder)
    if kind == "minilm":
        from region4web.region_reader import minilm_abstractor

        return minilm_abstractor(folder)
    if kind in {known.partition(":")[0] for known in LANGUAGE_MODEL_NAMES}:
        return language_model_abstractor(name)
    raise ValueError(
        f"no abstractor is called {name!r}; choose one of {', '.join((*ABSTRACTOR_NAMES, *READER_NAMES, *LANGUAGE_MODEL_NAMES))}"
    )


def packaged_weights() -> Path:
    """The folder of the packaged embedded model."""
    return Path(str(files("region4web") / "weights" / "abstraction"))


@lru_cache(maxsize=4)
def purpose_model(folder: Path) -> PurposeModel:
    """The purpose model of a folder, read once a process. Raises WeightsError."""
    return load_purpose_model(folder)


@lru_cache(maxsize=4)
def _checksum(folder: Path) -> int:
    """What tells these weights and this code from others."""
    return code_checksum(CODE, crc32((folder / "purposes.json").read_bytes(), crc32((folder / "purposes.npz").read_bytes())))


def code_checksum(modules: Sequence[str], before: int = 0) -> int:
    """CRC-32 over the source of modules of this package, after `before`."""
    code = files("region4web")
    return reduce(lambda found, name: crc32((code / f"{name}.py").read_bytes(), found), modules, before)
