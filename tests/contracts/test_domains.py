"""Laws of every domain, and of one from outside."""

import pytest

import corridor
from atlas.domains import DOMAINS
from atlas.testing import DOMAIN_LAWS, Visit

VISITS = {name: Visit(name) for name in (*DOMAINS, "corridor")}


@pytest.mark.parametrize("law", DOMAIN_LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("name", VISITS)
def test_law(monkeypatch, name, law):
    corridor.register(monkeypatch)
    law(VISITS[name])
