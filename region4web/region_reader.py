"""A small sentence embedding model that reads regions: what a label of each would mean, on average.

Enters: passages of regions. Leaves: for each the sentence embedding that its label is expected to have. The model is
all-MiniLM-L6-v2 fine-tuned, with a linear head, trained by `training.train_reader` for the least squared distance
to the embeddings of labels, so that what it gives is their conditional mean: the phrase closest to it has the highest
expected similarity to a label. It reads a region with what stands around it; the embedded model counts words.

Symbols: R regions, T tokens, D dimensions of the sentence embedding, L of the embedded model's reduced estimate, K phrases.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from region4web.contents import Unit, units_of_regions
from region4web.errors import WeightsError
from region4web.language_models import multiplies_in_bf16
from region4web.purposes import PurposeModel, ReadEstimate
from region4web.region_features import region_features
from region4web.region_passages import region_passages
from region4web.regions import Abstraction, Abstractor, Partition
from region4web.states import DETAILED, state_line

__all__ = [
    "CHANGES_FILE",
    "READER_FILE",
    "TRAINED",
    "ReaderAbstractor",
    "RegionReader",
    "minilm_abstractor",
    "packaged_reader",
    "padded",
    "pooled",
]

FloatArray = npt.NDArray[np.float32]
READER_FILE = "reader.json"
"""`{"tokens", "share"}`: how many tokens of a passage are read, and the reader's share of an estimate."""
CHANGES_FILE = "reader.safetensors"
"""What training changed: a matrix's change is `name.up @ name.down`, other parameters' is `name`; and `head`, `offset`."""
READER = Path(__file__).parent / "weights" / "region-reader"
CODE = ("region_reader", "region_passages", "region_text", "similarity")
"""Modules that decide what the reader says, besides those of the embedded model."""
TRAINED = "encoder."
"""Parameters that are fine-tuned start with this."""
BATCH = 16
PAD_TO = 8
"""Widths are multiples of this: kernels are chosen for each new shape."""


class RegionReader:
    """`model` and `tokenizer` of the sentence embedding model, adapted; `head` (D, D) and `offset` (D,) after its mean over tokens.

    `tokens` of a passage are read; `share`: of its estimate beside the embedded model's.
    """

    def __init__(
        self, model: Any, tokenizer: Any, head: FloatArray, offset: FloatArray, *, tokens: int, share: float, identity: str = ""
    ) -> None:
        self.model, self.tokenizer, self.head, self.offset = model.eval(), tokenizer, head, offset
        self.tokens, self.share, self.identity = tokens, share, identity

    @classmethod
    def load(cls, folder: Path, *, half: bool = True) -> RegionReader:
        """What `training.train_reader` wrote. Weights are bf16 where the hardware multiplies in it and `half`, else float32.

        Raises WeightsError when it is missing or damaged, MissingExtraError without the sentence embedding model.
        """
        from region4web.similarity import bare_model

        model, tokenizer = bare_model()
        import torch  # after what says that an extra is missing
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            said = json.loads((folder / READER_FILE).read_text(encoding="utf-8"))
            tokens, share = int(said["tokens"]), float(said["share"])
            changes = {name: tensor.float() for name, tensor in load_file(str(folder / CHANGES_FILE)).items()}
            head, offset = changes.pop("head").numpy(), changes.pop("offset").numpy()
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    if name.startswith(TRAINED):
                        parameter += changes[f"{name}.up"] @ changes[f"{name}.down"] if parameter.ndim == 2 else changes[name]
            checksum = crc32((folder / READER_FILE).read_bytes(), crc32((folder / CHANGES_FILE).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
            raise WeightsError(f"{folder}: the region reader cannot be read ({error}); reinstall region4web, or train it anew") from error
        if half and multiplies_in_bf16():
            model = model.to(torch.bfloat16)
        return cls(model, tokenizer, head, offset, tokens=tokens, share=share, identity=f"{checksum:08x}")

    def read(self, partition: Partition, units: Sequence[Sequence[Unit]], numbers: Sequence[int]) -> ReadEstimate:
        """What it estimates of the regions `numbers`. `units` are those of all regions."""
        return ReadEstimate(self.estimates(region_passages(partition, units, numbers)), self.share)

    def estimates(self, passages: Sequence[str]) -> FloatArray:
        """(R, D) the embedding that is expected of each region's label; equal passages are read once."""
        import torch

        distinct = list(dict.fromkeys(passages))
        rows = self.tokenizer(distinct, truncation=True, max_length=self.tokens)["input_ids"] if distinct else []
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        found = np.zeros((len(rows), len(self.offset)), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(order), BATCH):
                part = order[start : start + BATCH]
                ids, mask = padded([rows[i] for i in part])
                states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
                found[part] = pooled(states, mask).numpy()
        at = {passage: i for i, passage in enumerate(distinct)}
        return np.asarray(found @ self.head + self.offset, dtype=np.float32)[[at[passage] for passage in passages]]


class ReaderAbstractor:
    """Purpose from the embedded model's estimate joined with the reader's, state from the region's own content."""

    def __init__(self, reader: RegionReader, purposes: PurposeModel, *, name: str = "minilm", identity: str = "") -> None:
        self.reader, self.purposes, self.name = reader, purposes, name
        self.identity = f"{name} {reader.identity} {identity}"

    def abstract(self, partition: Partition) -> tuple[Abstraction, ...]:
        return self.abstract_regions(partition, range(len(partition)))

    def abstract_regions(self, partition: Partition, numbers: Sequence[int]) -> tuple[Abstraction, ...]:
        """Abstractions of the regions `numbers`, which rise."""
        if not numbers:
            return ()
        units = list(units_of_regions(partition))
        own = [units[number] for number in numbers]
        read = self.reader.read(partition, units, numbers)
        purposes = self.purposes.purposes(region_features(partition, units, frozenset(numbers)), own, read)
        return tuple(Abstraction(purpose, state_line(unit, DETAILED), self.name) for purpose, unit in zip(purposes, own, strict=True))


def packaged_reader() -> RegionReader:
    """Raises WeightsError and MissingExtraError."""
    return RegionReader.load(READER)


def minilm_abstractor(folder: str = "") -> Abstractor:
    """The abstractor `minilm`: the packaged reader, '' for `folder`, or one's own. Raises WeightsError and MissingExtraError."""
    from region4web.abstraction import EmbeddedAbstractor, code_checksum, packaged_weights, purpose_model

    reader = RegionReader.load(Path(folder) if folder else READER)
    return ReaderAbstractor(
        reader, purpose_model(packaged_weights()), identity=f"{EmbeddedAbstractor().identity} {code_checksum(CODE):08x}"
    )


def padded(rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """(B, T) ids and mask of rows of token ids, padded on the right to a multiple of PAD_TO."""
    import torch

    width = -(-max(map(len, rows)) // PAD_TO) * PAD_TO
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    return ids, torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])


def pooled(states: Any, mask: Any) -> Any:
    """(B, D) mean of the states (B, T, D) of real tokens, at length 1."""
    import torch

    return torch.nn.functional.normalize((states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True), dim=1)
