import sys
from pathlib import Path

import pytest

from minikafka.connect.api import SinkConnector, SourceConnector
from minikafka.connect.plugins import ALIASES, BUILTINS, PluginError, PluginKind, Plugins

HERE = "tests.connect.test_plugins"


class Lines(SourceConnector):
    """A source of these tests."""


class Wall(SinkConnector):
    """A sink of these tests."""


def package(directory: Path, *, source: str, group: str = "minikafka.connectors") -> str:
    """Write a distribution with one entry point `Pump`, and return its directory."""
    (directory / "pump_plugin.py").write_text(source)
    info = directory / "pump_plugin-1.4.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pump-plugin\nVersion: 1.4\n")
    (info / "entry_points.txt").write_text(f"[{group}]\nPump = pump_plugin:Pump\n")
    return str(directory)


@pytest.fixture(autouse=True)
def _path_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "pump_plugin", raising=False)


def test_a_class_is_found_by_module_and_class() -> None:
    assert Plugins().find(f"{HERE}:Lines", PluginKind.SOURCE) is Lines
    assert Plugins().find_connector(f" {HERE}:Wall ") == (Wall, PluginKind.SINK)


def test_a_class_of_another_kind_is_refused() -> None:
    with pytest.raises(PluginError, match="Lines is no sink: it is <class"):
        Plugins().find(f"{HERE}:Lines", PluginKind.SINK)
    with pytest.raises(PluginError, match="JsonConverter is no predicate"):
        Plugins().find("JsonConverter", PluginKind.PREDICATE)


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(PluginError) as refused:
        Plugins().find("FileStreamSorce", PluginKind.SOURCE)
    assert str(refused.value) == (
        "Failed to find any class that implements source and which name matches FileStreamSorce;"
        " did you mean FileStreamSource?; give the name of a built-in or of an entry point,"
        " or module:Class"
    )


@pytest.mark.parametrize(
    ("java", "builtin"),
    [
        ("org.apache.kafka.connect.file.FileStreamSourceConnector", "FileStreamSource"),
        ("org.apache.kafka.connect.mirror.MirrorCheckpointConnector", "MirrorCheckpoint"),
        ("org.apache.kafka.connect.transforms.Cast$Value", "Cast$Value"),
        ("org.apache.kafka.connect.transforms.predicates.HasHeaderKey", "HasHeaderKey"),
        ("org.apache.kafka.connect.converters.LongConverter", "LongConverter"),
    ],
)
def test_names_of_kafkas_classes_stand_for_the_built_ins(java: str, builtin: str) -> None:
    assert ALIASES[java] == builtin


def test_names_of_built_ins_are_unique() -> None:
    assert len({row.name for row in BUILTINS}) == len(BUILTINS) == len({r.target for r in BUILTINS})


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import no_such_library", "No module named 'no_such_library'; install the package"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
        ("Pump = 7", "Pump is no source: it is 7"),
        ("", "cannot be imported: AttributeError"),
    ],
)
def test_a_broken_plugin_is_an_error_text(tmp_path: Path, source: str, why: str) -> None:
    plugins = Plugins([package(tmp_path, source=source)])
    assert "Pump" not in [one["class"] for one in plugins.listing(connectors_only=True)]
    with pytest.raises(PluginError, match=why):
        plugins.find("Pump", PluginKind.SOURCE)


def test_an_entry_point_is_listed_with_its_type_and_version(tmp_path: Path) -> None:
    source = "from minikafka.connect.api import SinkConnector\nclass Pump(SinkConnector): ..."
    plugins = Plugins([package(tmp_path, source=source)])
    listed = plugins.listing(connectors_only=True)
    assert {"class": "Pump", "type": "sink", "version": "1.4"} in listed
    assert plugins.find_any("Pump")[1] is PluginKind.SINK


def test_a_listing_is_sorted_and_imports_no_built_in() -> None:
    before = list(sys.modules)
    listed = Plugins().listing(connectors_only=False)
    assert listed == sorted(listed, key=lambda one: (one["type"], one["class"]))
    assert [one["class"] for one in listed if one["type"] == "predicate"] == [
        "HasHeaderKey",
        "RecordIsTombstone",
        "TopicNameMatches",
    ]
    assert not [
        name
        for name in sys.modules
        if name not in before and name.startswith(("minikafka.connect.conn", "minikafka.connect.m"))
    ]


def test_a_converter_is_known_by_its_methods(tmp_path: Path) -> None:
    source = "class Pump:\n    def from_header(self): ...\n    def to_header(self): ..."
    plugins = Plugins([package(tmp_path, source=source, group="minikafka.converters")])
    assert plugins.find_any("Pump")[1] is PluginKind.HEADER_CONVERTER
    with pytest.raises(PluginError, match="Pump is no converter"):
        plugins.find("Pump", PluginKind.CONVERTER)


def test_a_converter_of_values_converts_headers_too() -> None:
    name = "org.apache.kafka.connect.converters.ByteArrayConverter"
    found = Plugins().find(name, PluginKind.HEADER_CONVERTER)
    assert found is Plugins().find(name, PluginKind.CONVERTER)
