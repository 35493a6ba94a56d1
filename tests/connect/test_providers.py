"""References in configurations, and secrets that nobody sees."""

from pathlib import Path

import pytest

from minikafka.connect.config_def import BadConfig
from minikafka.connect.providers import MAX_BYTES, ConfigProviders

from .pipeline_support import find

CLASSES = {"file": "FileProvider", "env": "EnvProvider", "dir": "DirProvider"}


def providers(**params: str) -> ConfigProviders:
    props = {"config.providers": "file, env, dir"}
    for name, cls in CLASSES.items():
        props[f"config.providers.{name}.class"] = f"providers:{cls}"
    for key, value in params.items():
        name, _, rest = key.partition("_")
        props[f"config.providers.{name}.param.{rest.replace('_', '.')}"] = value
    return ConfigProviders(props, find)


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "db.properties").write_text("user=joe\npassword=s3cr3t!\n")
    (tmp_path / "token").write_text("t0k3n\n")
    monkeypatch.setenv("DB_PORT", "54321")
    return tmp_path


def test_references_become_values_and_the_rest_stays(secrets: Path) -> None:
    props = {
        "url": f"db://${{file:{secrets}/db.properties:user}}@host:${{env:DB_PORT}}/x",
        "token": f"${{dir:{secrets}:token}}",
        "other": "${topic}-${unknown:a:b}-$1",
    }
    assert providers().resolve(props) == {
        "url": "db://joe@host:54321/x",
        "token": "t0k3n\n",
        "other": "${topic}-${unknown:a:b}-$1",
    }


def test_what_was_resolved_is_hidden_in_texts(secrets: Path) -> None:
    each = providers()
    text = "cannot log in as joe with s3cr3t!"
    assert each.hide(text) == text
    each.resolve(
        {"a": f"${{file:{secrets}/db.properties:password}} ${{file:{secrets}/db.properties:user}}"}
    )
    assert each.hide(text) == "cannot log in as joe with [hidden]"


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("${{file:{0}/none:key}}", "cannot be read: No such file"),
        ("${{file:{0}/db.properties:none}}", "has no value"),
        ("${{file:{0}/large:key}}", f"larger than {MAX_BYTES}"),
        ("${{file:{0}/binary:key}}", "no UTF-8"),
        ("${{file:{0}/damaged:key}}", "no properties file"),
        ("${{dir:{0}:none}}", "has no value"),
        ("${{dir:{0}:..}}", "no name of a file"),
        ("${{dir:{0}:a/b}}", "no name of a file"),
        ("${{env:NO_SUCH_NAME}}", "has no value"),
        ("${{env:path:HOME}}", "path must be empty"),
    ],
)
def test_a_reference_without_value_is_refused_with_its_key(
    secrets: Path, reference: str, why: str
) -> None:
    (secrets / "large").write_bytes(b"x" * (MAX_BYTES + 1))
    (secrets / "binary").write_bytes(b"key=\xff")
    (secrets / "damaged").write_bytes(b"password=pw\\u12zz")
    shown = reference.format(secrets)
    with pytest.raises(BadConfig) as caught:
        providers().resolve({"password": shown})
    assert str(caught.value).startswith(f"password: {shown}")
    assert why in str(caught.value)
    assert "pw" not in str(caught.value).replace("password", "")


def test_paths_and_names_can_be_limited(secrets: Path) -> None:
    inside = secrets / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(secrets / "token")
    (inside / "own").write_text("mine")
    each = providers(
        file_allowed_paths=str(inside),
        dir_allowed_paths=str(inside),
        env_allowlist_pattern="DB_USER|MK_.*",
    )
    assert each.resolve({"a": f"${{dir:{inside}:own}}"}) == {"a": "mine"}
    for refused in (
        f"${{file:{secrets}/db.properties:user}}",
        f"${{file:{inside}/../db.properties:user}}",
        f"${{dir:{inside}:link}}",
        "${env:DB_PORT}",
    ):
        with pytest.raises(BadConfig):
            each.resolve({"a": refused})


def test_a_wrong_worker_configuration_names_its_key() -> None:
    with pytest.raises(BadConfig, match=r"config\.providers\.x\.class"):
        ConfigProviders({"config.providers": "x"}, find)
    with pytest.raises(BadConfig, match=r"config\.providers\.env: .*allowlist\.pattern"):
        providers(env_allowlist_pattern="(")
