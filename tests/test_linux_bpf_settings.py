"""Settings of loaded algorithms, read back from the kernel's integers."""

from __future__ import annotations

import random

import pytest

from knee.kernel import modules
from knee.kernel.bpf import _value, build


@pytest.mark.parametrize("name", build.algorithms())
def test_what_is_read_back_from_the_kernel_means_the_same_integers(name: str) -> None:
    chance = random.Random(1)
    params = modules.declared(name)
    defaults = modules.parameters(name, {key: param.default for key, param in params.items()})
    assert modules.settings(name, defaults) == {}
    for _ in range(500):
        numbers = dict(defaults)
        for key, param in params.items():
            if chance.random() < 0.5:
                count = 2 if param.kind == "bool" else len(param.words)
                least = 0 if count else modules.parameters(name, {key: param.min})[key]
                most = count - 1 if count else max(least, defaults[key])
                numbers[key] = chance.randint(least, most)
        settings = modules.settings(name, numbers)
        given = {key: params[key].parse(_value(params[key], text)) for key, text in settings.items()}
        assert defaults | modules.parameters(name, given) == numbers
