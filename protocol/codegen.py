"""Generates the source of the encode and decode functions for one (declared class, version).

`codec` calls the compiled functions. Consecutive fixed-size fields become one `struct` call,
one-byte lengths are read inline, and each nested struct has a function of its own. A compiled
decoder raises struct.error, IndexError or ValueError on bad bytes. It checks every claimed length
against the bytes left before it slices or loops.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from .primitives import continue_uvarint, encode_uvarint, read_uvarint
from .schema import UNSET, Element, Field, Shape, shape_of

INLINE_RECORDS_BYTES: Final = 1024
"""Record bytes up to this size are copied into the message; an extra part would cost more."""


def short(what: str, claimed: int, left: int) -> ValueError:
    """Make the error for a claimed length that exceeds the bytes left."""
    return ValueError(f"{what} claims {claimed} bytes or items, {left} bytes are left")


def crowded(what: str, most: int) -> ValueError:
    """Make the error for a request with more items in its arrays than allowed."""
    return ValueError(f"more than {most} items in one request, with those of {what}: ask in parts")


def null(what: str) -> ValueError:
    """Make the error for a null in a field that may not be null in this version."""
    return ValueError(f"{what} is null, but may not be")


class _Source:
    """The lines of a function that is being generated, and the objects to which they refer."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "continue_uvarint": continue_uvarint,
            "crowded": crowded,
            "encode_uvarint": encode_uvarint,
            "read_uvarint": read_uvarint,
            "short": short,
            "null": null,
            "unpack_from": struct.unpack_from,
            "pack": struct.pack,
        }
        self._depth = 1
        self._count = 0

    def name(self, value: object, prefix: str = "k") -> str:
        """Return a new name by which the generated lines refer to an object."""
        self._count += 1
        name = f"{prefix}{self._count}"
        self.names[name] = value
        return name

    def variable(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def add(self, *lines: str) -> None:
        self.lines += ["    " * self._depth + line for line in lines]

    def block(self, line: str) -> "_Block":
        self.add(line)
        return _Block(self)

    def compile(self, signature: str, title: str) -> Any:
        text = "\n".join([f"def compiled({signature}):", *self.lines])
        exec(compile(text, f"<{title}>", "exec"), self.names)
        return self.names["compiled"]

    def indent(self, by: int) -> None:
        self._depth += by


class _Block:
    def __init__(self, source: _Source) -> None:
        self._source = source

    def __enter__(self) -> None:
        self._source.indent(1)

    def __exit__(self, *_: object) -> None:
        self._source.indent(-1)


def fixed_code(element: Element) -> str:
    """Return the `struct` code of a type of fixed size, else an empty string."""
    return element.wire.code if element.wire is not None else ""


def present(shape: Shape, version: int) -> tuple[list[Field], list[Field], list[Field]]:
    """Split the fields into untagged, tagged and absent ones in `version`.

    Raise TypeError if an absent field has no default.
    """
    here = [f for f in shape.fields if version in f.versions]
    tagged = sorted((f for f in here if f.tag is not None), key=lambda f: f.tag or 0)
    in_place = [f for f in here if f.tag is None]
    absent = [f for f in shape.fields if version not in f.versions]
    for f in absent:
        if f.default is UNSET:
            raise TypeError(f"{shape.cls.__name__}.{f.name} is absent in v{version}: no default")
    return in_place, tagged, absent


def length_code(element: Element) -> str:
    """Return the `struct` code of a length in versions that are not flexible."""
    return "h" if element.wire is not None and element.wire.name == "string" else "i"


def minimum_size(element: Element, version: int, flexible: bool) -> int:
    """Return the fewest bytes of an item, by which an array's claimed count is checked."""
    if code := fixed_code(element):
        return struct.calcsize(f">{code}")
    if element.struct is not None:
        in_place, _, _ = present(shape_of(element.struct), version)
        size = sum(
            1
            if f.element.struct and version in f.nullable
            else minimum_size(f.element, version, flexible)
            for f in in_place
        )
        return max(1, size + flexible)
    if flexible:
        return 1
    return 2 if element.wire is not None and element.wire.name == "string" else 4


# --- decoding ---------------------------------------------------------------------------------


def compile_decoder(cls: type, version: int, flexible: bool) -> Any:
    """Compile `decode(buf, pos, end) -> (message, pos)`."""
    return _Decoding(version, flexible, shape_of(cls)).of(shape_of(cls))


class _Decoding:
    def __init__(self, version: int, flexible: bool, whole: Shape) -> None:
        self.version = version
        self.flexible = flexible
        self._whole = whole
        self._left = [0]
        """The number of items that a request may still have, shared by all of its functions."""
        self._done: dict[type, Any] = {}

    def of(self, shape: Shape) -> Any:
        if shape.cls not in self._done:
            self._done[shape.cls] = self._compile(shape)
        return self._done[shape.cls]

    def _compile(self, shape: Shape) -> Any:
        src = _Source()
        new, cls = src.name(object.__new__, "new"), src.name(shape.cls, "cls")
        src.add(f"o = {new}({cls})")
        if self._whole.most_items:
            src.names["left"] = self._left
            if shape is self._whole:
                src.add(f"left[0] = {shape.most_items}")
        in_place, tagged, absent = present(shape, self.version)
        run: list[Field] = []
        for f in in_place:
            if fixed_code(f.element):
                run.append(f)
                continue
            if f.element.struct is None:
                self._length(src, f.element, run)
                self._after_length(src, f.element, f"o.{f.name}", f)
            else:
                self._fixed_run(src, run)
                self._field(src, f, f"o.{f.name}")
            run = []
        for f in (*absent, *tagged):
            value = "[]" if isinstance(f.default, list) else src.name(f.default)
            src.add(f"o.{f.name} = {value}")
        self._fixed_run(src, run, "B" if self.flexible else "")
        if self.flexible:
            self._tags(src, tagged)
        src.add("return o, pos")
        return src.compile("buf, pos, end", f"decode {shape.cls.__name__} v{self.version}")

    def _fixed_run(self, src: _Source, run: list[Field], then: str = "") -> None:
        """Generate one call that reads fixed-size fields, and then `n` if `then` has its code."""
        targets = [f"o.{f.name}" for f in run] + ["n"] * bool(then)
        if targets == ["n"] and then == "B":
            src.add("n = buf[pos]", "pos += 1")
        elif targets:
            layout = struct.Struct(">" + "".join(fixed_code(f.element) for f in run) + then)
            unpack = src.name(layout.unpack_from, "unpack")
            src.add(f"{', '.join(targets)}, = {unpack}(buf, pos)", f"pos += {layout.size}")

    def _field(self, src: _Source, f: Field, target: str) -> None:
        nullable = self.version in f.nullable
        if f.element.struct is not None and nullable and f.tag is None:
            src.add("present = buf[pos]", "pos += 1")
            with src.block("if present == 255:"):
                src.add(f"{target} = None")
            with src.block("else:"):
                self._value(src, f.element, target, f)
            return
        self._value(src, f.element, target, f)

    def _value(self, src: _Source, element: Element, target: str, f: Field) -> None:
        """Generate the reading of `f`'s value, or of one item if `f` is an array."""
        if code := fixed_code(element):
            layout = struct.Struct(">" + code)
            unpack = src.name(layout.unpack_from, "unpack")
            src.add(f"{target}, = {unpack}(buf, pos)", f"pos += {layout.size}")
        elif element.struct is not None:
            nested = src.name(self.of(shape_of(element.struct)), "decode")
            src.add(f"{target}, pos = {nested}(buf, pos, end)")
        else:
            self._length(src, element, [])
            self._after_length(src, element, target, f)

    def _length(self, src: _Source, element: Element, run: list[Field]) -> None:
        """Generate the reading of `run`, then of the length of `element` into `n` (-1 for null)."""
        if not self.flexible:
            self._fixed_run(src, run, length_code(element))
            return
        self._fixed_run(src, run, "B")
        with src.block("if n > 127:"):
            with src.block("if buf[pos] < 128:"):  # two bytes: most records, no call
                src.add("n += (buf[pos] << 7) - 128", "pos += 1")
            with src.block("else:"):
                src.add("n, pos = continue_uvarint(buf, pos, n)")
        src.add("n -= 1")

    def _after_length(self, src: _Source, element: Element, target: str, f: Field) -> None:
        with src.block("if n < 0:"):
            nullable = element is f.element and self.version in f.nullable
            src.add(f"{target} = None" if nullable else f"raise null({f.name!r})")
        with src.block("else:"):
            if element.items is not None:
                self._items(src, element.items, target, f)
            else:
                self._span(src, element, target, f.name)

    def _span(self, src: _Source, element: Element, target: str, what: str) -> None:
        assert element.wire is not None
        src.add("stop = pos + n")
        with src.block("if stop > end:"):
            src.add(f"raise short({what!r}, n, end - pos)")
        made = {
            "string": "str(buf[pos:stop], 'utf-8')",
            "bytes": "bytes(buf[pos:stop])",
            "records": "buf[pos:stop]",
        }[element.wire.name]
        src.add(f"{target} = {made}", "pos = stop")

    def _items(self, src: _Source, items: Element, target: str, f: Field) -> None:
        least = minimum_size(items, self.version, self.flexible)
        with src.block(f"if n * {least} > end - pos:"):
            src.add(f"raise short({f.name!r}, n, end - pos)")
        if self._whole.most_items:
            # Arrays of one item, the most frequent, are not counted: the item around them is.
            with src.block("if n > 1:"):
                src.add("left[0] -= n")
                with src.block("if left[0] < 0:"):
                    src.add(f"raise crowded({f.name!r}, {self._whole.most_items})")
        if items.wire is not None and items.wire.code and items.wire.code != "16s":
            src.add(
                f"{target} = list(unpack_from('>%d{items.wire.code}' % n, buf, pos))",
                f"pos += n * {least}",
            )
            return
        out, item = src.variable(), src.variable()
        src.add(f"{out} = []")
        if items.struct is not None:  # read by a function of its own, so `n` may count down
            with src.block("while n:"):
                self._value(src, items, item, f)
                src.add(f"{out}.append({item})", "n -= 1")
        else:
            with src.block("for _ in range(n):"):
                self._value(src, items, item, f)
                src.add(f"{out}.append({item})")
        src.add(f"{target} = {out}")

    def _tags(self, src: _Source, tagged: list[Field]) -> None:
        """Generate the reading of tagged fields; `n` has the first byte of their count already."""
        with src.block("if n:"):
            with src.block("if n > 127:"):
                src.add("n, pos = continue_uvarint(buf, pos, n)")
            src.add("previous = -1")
            with src.block("for _ in range(n):"):
                src.add("tag, pos = read_uvarint(buf, pos)", "size, pos = read_uvarint(buf, pos)")
                with src.block("if tag <= previous:"):
                    src.add("raise ValueError(f'tag {tag} after tag {previous}')")
                src.add("previous = tag", "tag_stop = pos + size")
                with src.block("if tag_stop > end:"):
                    src.add("raise short(f'tag {tag}', size, end - pos)")
                keyword = "if"
                for f in tagged:
                    with src.block(f"{keyword} tag == {f.tag}:"):
                        self._field(src, f, f"o.{f.name}")
                        with src.block("if pos != tag_stop:"):
                            src.add(f"raise ValueError('{f.name} does not fill its tag')")
                    keyword = "elif"
                if tagged:
                    with src.block("else:"):
                        src.add("pos = tag_stop")
                else:
                    src.add("pos = tag_stop")


# --- encoding ---------------------------------------------------------------------------------


def compile_encoder(cls: type, version: int, flexible: bool) -> Any:
    """Compile `encode(b, parts, message) -> b`, where `b` is the buffer that is being filled."""
    return _Encoding(version, flexible).of(shape_of(cls))


class _Encoding:
    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self._done: dict[type, Callable[..., bytearray]] = {}

    def of(self, shape: Shape) -> Any:
        if shape.cls not in self._done:
            self._done[shape.cls] = self._compile(shape)
        return self._done[shape.cls]

    def _compile(self, shape: Shape) -> Any:
        src = _Source()
        in_place, tagged, _ = present(shape, self.version)
        run: list[Field] = []
        for f in in_place:
            if fixed_code(f.element):
                run.append(f)
                continue
            src.add(f"x = o.{f.name}")
            if f.element.struct is None:
                self._sized(src, f.element, f, run)
            else:
                self._fixed_run(src, run)
                self._field(src, f)
            run = []
        # A pad byte is a zero, which is the number of tagged fields if there are none.
        self._fixed_run(src, run, "x" if self.flexible and not tagged and run else "")
        if self.flexible and (tagged or not run):
            self._tags(src, tagged)
        src.add("return b")
        return src.compile("b, parts, o", f"encode {shape.cls.__name__} v{self.version}")

    def _fixed_run(self, src: _Source, run: list[Field], then: str = "", n: str = "") -> None:
        """Generate one call that packs the fields of `run`, if there is anything to pack.

        `then` is a struct code to append. `n` is the expression of the value for that code, or
        empty if the code needs none.
        """
        values = [f"o.{f.name}" for f in run] + [n] * bool(n)
        if values:
            layout = struct.Struct(">" + "".join(fixed_code(f.element) for f in run) + then)
            src.add(f"b += {src.name(layout.pack, 'pack')}({', '.join(values)})")

    def _field(self, src: _Source, f: Field) -> None:
        """Generate the encoding of the field `f`, whose value is in `x`."""
        if f.element.struct is not None and self.version in f.nullable and f.tag is None:
            with src.block("if x is None:"):
                src.add("b.append(255)")
            with src.block("else:"):
                src.add("b.append(1)")
                self._value(src, f.element, f)
            return
        self._value(src, f.element, f)

    def _value(self, src: _Source, element: Element, f: Field) -> None:
        """Generate the encoding of `x`, which is the value of `f` or one item of its array."""
        if code := fixed_code(element):
            src.add(f"b += {src.name(struct.Struct('>' + code).pack, 'pack')}(x)")
        elif element.struct is not None:
            nested = src.name(self.of(shape_of(element.struct)), "encode")
            src.add(f"b = {nested}(b, parts, x)")
        else:
            self._sized(src, element, f, [])

    def _sized(self, src: _Source, element: Element, f: Field, run: list[Field]) -> None:
        """Generate the writing of `run`, then of the length and the content of `x`."""
        nullable = element is f.element and self.version in f.nullable
        with src.block("if x is None:"):
            null_length = "n = 0" if self.flexible else "n = -1"
            src.add(null_length if nullable else f"raise TypeError('{f.name} may not be None')")
        with src.block("else:"):
            if element.wire is not None and element.wire.name == "string":
                src.add("x = x.encode()")
            src.add("n = len(x) + 1" if self.flexible else "n = len(x)")
        self._length(src, element, run)
        if not nullable:
            self._content(src, element, f)
            return
        with src.block("if x is not None:"):
            self._content(src, element, f)

    def _length(self, src: _Source, element: Element, run: list[Field]) -> None:
        if not self.flexible:
            self._fixed_run(src, run, length_code(element), "n")
            return
        with src.block("if n < 128:"):
            if run:
                self._fixed_run(src, run, "B", "n")
            else:
                src.add("b.append(n)")
        with src.block("else:"):
            self._fixed_run(src, run)
            src.add("b += encode_uvarint(n)")

    def _content(self, src: _Source, element: Element, f: Field) -> None:
        if element.items is not None:
            self._items(src, element.items, f)
        elif element.wire is None or element.wire.name != "records":
            src.add("b += x")
        else:
            with src.block(f"if len(x) <= {INLINE_RECORDS_BYTES}:"):
                src.add("b += x")
            with src.block("else:"):
                src.add("parts.append(b)", "parts.append(x)", "b = bytearray()")

    def _items(self, src: _Source, items: Element, f: Field) -> None:
        if items.wire is not None and items.wire.code and items.wire.code != "16s":
            src.add(f"b += pack('>%d{items.wire.code}' % len(x), *x)")
            return
        with src.block("for x in x:"):
            self._value(src, items, f)

    def _tags(self, src: _Source, tagged: list[Field]) -> None:
        """Generate the writing of the tagged fields that differ from their default, by tag."""
        if not tagged:
            src.add("b.append(0)")
            return
        differs = [self._differs(src, f) for f in tagged]
        with src.block(f"if {' or '.join(differs)}:"):
            src.add("tags = []")
            for f, condition in zip(tagged, differs, strict=True):
                with src.block(f"if {condition}:"):
                    src.add("outer, b = b, bytearray()", f"x = o.{f.name}")
                    self._field(src, f)
                    src.add(f"tags.append(({f.tag}, b))", "b = outer")
            src.add("b += encode_uvarint(len(tags))")
            with src.block("for tag, x in tags:"):
                src.add("b += encode_uvarint(tag)", "b += encode_uvarint(len(x))", "b += x")
        with src.block("else:"):
            src.add("b.append(0)")

    def _differs(self, src: _Source, f: Field) -> str:
        if f.default is None:
            return f"o.{f.name} is not None"
        default = "[]" if isinstance(f.default, list) else src.name(f.default)
        return f"o.{f.name} != {default}"
