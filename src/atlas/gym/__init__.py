"""ATLAS for Gymnasium: `import atlas.gym`, then `gymnasium.make("atlas/Minigrid-v0")`. Needs the extra `gym`.

An id for every domain. Importing this registers them and loads nothing heavy; so does
`gymnasium.make("atlas.gym:atlas/Minigrid-v0")` without an import.
"""

from atlas.domains import DOMAINS

try:
    from gymnasium.envs.registration import register as _register
    from gymnasium.envs.registration import registry as _registry
except ModuleNotFoundError:
    raise ModuleNotFoundError("Gymnasium is not installed: `pip install 'atlas-ued[gym]'`") from None


def ids() -> dict[str, str]:
    """The id of every domain, by the domain's name."""
    return {name: f"atlas/{row.title or name.capitalize()}-v0" for name, row in DOMAINS.items()}


def register() -> None:
    """Register all ids that are not registered yet."""
    for domain, id_ in ids().items():
        if id_ not in _registry:
            _register(
                id=id_,
                entry_point="atlas.gym.envs:AtlasEnv",
                vector_entry_point="atlas.gym.envs:AtlasVectorEnv",
                kwargs={"domain": domain},
            )


register()
