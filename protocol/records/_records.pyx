# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, binding=False, emit_code_comments=False
"""The record codec, compiled: the twin of record_python.py, which says what each function means.

Every read is checked against the end of the bytes at hand before it is made, every write against
the room reserved; what does not add up is a ValueError, never a read past the end.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from ..errors import LocalProtocolError
from .record_python import MOST_NAMED, BadRecord, Columns, encode_headers

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char *data, Py_ssize_t size, const char *errors)
    object PyLong_FromLongLong(long long value)
    void PyTuple_SET_ITEM_OBJECT "PyTuple_SET_ITEM"(PyObject *op, Py_ssize_t index, PyObject *value)
    PyObject *PyTuple_GET_ITEM_BORROWED "PyTuple_GET_ITEM"(object op, Py_ssize_t index)
    Py_ssize_t PY_SSIZE_T_MAX
    void PyObject_GC_UnTrack(PyObject *op)
    void Py_XINCREF(PyObject *op)
    void Py_XDECREF(PyObject *op)

cdef extern from *:
    """
    static PyObject *minikafka_new_tuple(PyTypeObject *type, Py_ssize_t size) {
        return type->tp_alloc(type, size);
    }
    static int minikafka_has_own_layout(PyTypeObject *type) {
        return type->tp_basicsize != PyTuple_Type.tp_basicsize
            || type->tp_itemsize != PyTuple_Type.tp_itemsize
            || type->tp_dictoffset != 0 || type->tp_weaklistoffset != 0;
    }
    """
    PyObject *new_tuple "minikafka_new_tuple"(PyTypeObject *type, Py_ssize_t size)
    bint has_own_layout "minikafka_has_own_layout"(PyTypeObject *type)

cdef Py_ssize_t HEADER_ROOM = 61
cdef Py_ssize_t MIN_RECORD_BYTES = 7
cdef Py_ssize_t FIRST_CAPACITY = 1024
cdef int LONGEST_VARINT = 10
cdef int LONGEST_INT32 = 5
cdef Py_ssize_t MOST_OVERHEAD = 30
cdef int LOG_APPEND_TIME = 1

NAME = "compiled"


# --- varints ------------------------------------------------------------------------------------


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline int64_t unzigzag(uint64_t value) noexcept nogil:
    return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)


cdef inline int varint_size(uint64_t value) noexcept nogil:
    cdef int size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


cdef inline uint8_t *put(uint8_t *at, uint64_t value) noexcept nogil:
    """Write up to 10 bytes; the caller has made room for them."""
    while value >= 0x80:
        at[0] = <uint8_t>(value & 0x7F) | 0x80
        value >>= 7
        at += 1
    at[0] = <uint8_t>value
    return at + 1


cdef inline int get(const uint8_t **at, const uint8_t *end, uint64_t *value) noexcept nogil:
    """Read a varint, none of it at or past `end`: 0, or what is wrong."""
    cdef const uint8_t *p = at[0]
    cdef uint64_t byte, found
    cdef int shift
    if p >= end:
        return CUT_OFF
    byte = p[0]
    p += 1
    found = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if p >= end:
            return CUT_OFF
        if shift >= 7 * LONGEST_VARINT:
            return TOO_LONG
        byte = p[0]
        p += 1
        if shift == 63 and byte & 0x7E:
            return TOO_LONG
        found |= (byte & 0x7F) << shift
        shift += 7
    at[0] = p
    value[0] = found
    return FINE


cdef enum:
    FINE = 0
    CUT_OFF = 1
    TOO_LONG = 2
    BAD_LENGTH = 3
    BAD_END = 4
    BAD_HEADERS = 5
    LEFT_OVER = 6
    BAD_OFFSET = 7


cdef inline int get_length(
    const uint8_t **at, const uint8_t *end, Py_ssize_t *length
) noexcept nogil:
    """Read the length of bytes that must end by `end`: -1 for null."""
    cdef uint64_t coded = 0
    cdef int wrong = get(at, end, &coded)
    if wrong:
        return wrong
    if coded & 1:
        if coded != 1:
            return BAD_LENGTH
        length[0] = -1
        return FINE
    coded >>= 1
    if coded > <uint64_t>(end - at[0]):
        return CUT_OFF
    length[0] = <Py_ssize_t>coded
    return FINE


cdef str text_of(int wrong):
    if wrong == CUT_OFF:
        return "the bytes end inside a record, or a record inside a field"
    if wrong == TOO_LONG:
        return "a varint is longer than 10 bytes or 64 bits, or 5 bytes where 32 bits are meant"
    if wrong == BAD_LENGTH:
        return "a negative length other than -1"
    if wrong == BAD_END:
        return "a record does not end where its length says"
    if wrong == BAD_HEADERS:
        return "a header without a key, or a negative number of them"
    if wrong == BAD_OFFSET:
        return "an offset delta is not the record's place in its batch"
    return "bytes after the last record"


cdef int refuse(int wrong) except -1:
    raise ValueError(text_of(wrong))


# --- writing ------------------------------------------------------------------------------------


cdef bytes as_bytes(object given):
    """Copy what is no bytes object but holds bytes; TypeError for all else."""
    return bytes(memoryview(given))


cdef struct Span:
    const char *at
    Py_ssize_t size


cdef inline Span span_of(object given) noexcept:
    """Look into a bytes object or None."""
    cdef Span span
    span.at = NULL
    span.size = -1
    if given is not None:
        span.at = PyBytes_AS_STRING(given)
        span.size = PyBytes_GET_SIZE(given)
    return span


cdef inline uint8_t *put_bytes(uint8_t *at, Span span) noexcept nogil:
    if span.size < 0:
        at[0] = 1
        return at + 1
    at = put(at, zigzag(span.size))
    memcpy(at, span.at, span.size)
    return at + span.size


cdef class View:
    """A buffer held for as long as its bytes are read."""

    cdef Py_buffer buffer
    cdef bint held

    def __cinit__(self, data):
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)


cdef class Spans:
    """Pieces of a buffer: where each begins and how long it is."""

    cdef View data
    cdef View starts
    cdef View lengths
    cdef Py_ssize_t count

    def __cinit__(self, columns):
        data, starts, lengths = columns
        self.data = View(data)
        self.starts = View(starts)
        self.lengths = View(lengths)
        self.count = self.starts.buffer.len // 8
        if self.lengths.buffer.len // 8 != self.count:
            raise ValueError("columns of unequal length")

    cdef Py_ssize_t length(self, Py_ssize_t index) noexcept:
        """Bytes of a piece that may yet turn out to lie outside: none more than there are."""
        cdef int64_t length = (<int64_t *>self.lengths.buffer.buf)[index]
        return max(0, min(length, <int64_t>self.data.buffer.len))

    cdef Span span(self, Py_ssize_t index) except *:
        cdef Span found
        cdef int64_t start = (<int64_t *>self.starts.buffer.buf)[index]
        cdef int64_t length = (<int64_t *>self.lengths.buffer.buf)[index]
        found.at = NULL
        found.size = -1
        if length < 0:
            return found
        if start < 0 or length > self.data.buffer.len or start > self.data.buffer.len - length:
            raise ValueError("a span lies outside its buffer")
        found.at = <const char *>self.data.buffer.buf + start
        found.size = length
        return found


cdef class RecordBody:
    """Records one after the other, behind room for a header. Offsets count from 0."""

    cdef bytearray _body
    cdef Py_ssize_t _size
    cdef Py_ssize_t _capacity
    cdef int64_t _base
    cdef int64_t _max
    cdef readonly Py_ssize_t record_count

    def __cinit__(self, *args, **keywords):
        self._begin()
        self._base = self._max = -1

    cdef int _begin(self) except -1:
        self._body = bytearray(FIRST_CAPACITY)
        self._capacity = FIRST_CAPACITY
        self._size = HEADER_ROOM
        self.record_count = 0
        return 0

    @property
    def size(self):
        """Bytes so far, with the room for the header."""
        return self._size

    @property
    def base_timestamp(self):
        return self._base

    @property
    def max_timestamp(self):
        return self._max

    cdef int _reserve(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t needed = self._size + more
        if needed > self._capacity:
            if needed < self._capacity * 2:
                needed = self._capacity * 2
            PyByteArray_Resize(self._body, needed)
            self._capacity = needed
        return 0

    cdef int _add(self, int64_t timestamp, Span key, Span value, Span headers,
                  Py_ssize_t max_size) except -1:
        """Add a record; 0 if it would not fit `max_size`, which the first one always does.

        `headers` are as written, their number first; null where there are none.
        """
        cdef int64_t base = timestamp if self.record_count == 0 else self._base
        cdef uint64_t delta, count
        cdef Py_ssize_t headers_size = 1, size
        cdef uint8_t *at
        if (base < 0 and timestamp > INT64_MAX + base) or (
            base > 0 and timestamp < INT64_MIN + base
        ):
            raise LocalProtocolError("timestamps of one batch are too far apart")
        delta = zigzag(timestamp - base)
        count = zigzag(self.record_count)
        if headers.size > 0:
            headers_size = headers.size
        size = 1 + varint_size(delta) + varint_size(count) + headers_size
        size += 1 if key.size < 0 else varint_size(zigzag(key.size)) + key.size
        size += 1 if value.size < 0 else varint_size(zigzag(value.size)) + value.size
        if self.record_count and self._size + size + varint_size(zigzag(size)) > max_size:
            return 0
        self._reserve(size + LONGEST_VARINT)
        at = <uint8_t *>PyByteArray_AS_STRING(self._body) + self._size
        at = put(at, zigzag(size))
        at[0] = 0
        at = put(at + 1, delta)
        at = put(at, count)
        at = put_bytes(at, key)
        at = put_bytes(at, value)
        if headers.size <= 0:
            at[0] = 0
            at += 1
        else:
            memcpy(at, headers.at, headers_size)
            at += headers_size
        self._size = at - <uint8_t *>PyByteArray_AS_STRING(self._body)
        if self.record_count == 0:
            self._base = self._max = timestamp
        elif timestamp > self._max:
            self._max = timestamp
        self.record_count += 1
        return 1

    def append(self, timestamp, key, value, headers=()):
        """Add a record; give the size so far."""
        cdef bytes written = None
        if headers:
            written = encode_headers(headers)
        if key is not None and not PyBytes_CheckExact(key):
            key = as_bytes(key)
        if value is not None and not PyBytes_CheckExact(value):
            value = as_bytes(value)
        self._add(timestamp, span_of(key), span_of(value), span_of(written), PY_SSIZE_T_MAX)
        return self._size

    def extend(self, timestamp, values, keys, Py_ssize_t start, Py_ssize_t max_size):
        """Add values from the `start`-th on while the size stays within `max_size`."""
        cdef int64_t when = timestamp
        cdef list some = values if type(values) is list else list(values)
        cdef list some_keys = None
        cdef object key = None, value
        cdef Py_ssize_t stop = len(some)
        if keys is not None:
            some_keys = keys if type(keys) is list else list(keys)
        while start < stop:
            # The lists are the caller's, who may change them while an odd value is copied.
            if start >= len(some) or (some_keys is not None and start >= len(some_keys)):
                raise IndexError("fewer keys or values than there were")
            value = some[start]
            if value is not None and not PyBytes_CheckExact(value):
                value = as_bytes(value)
            if some_keys is not None:
                key = some_keys[start]
                if key is not None and not PyBytes_CheckExact(key):
                    key = as_bytes(key)
            if not self._add(when, span_of(key), span_of(value), span_of(None), max_size):
                break
            start += 1
        return start

    def extend_spans(self, timestamps, values, keys, Py_ssize_t start, Py_ssize_t max_size,
                     headers=None):
        """Add values out of Arrow's buffers, as `extend` does out of lists.

        `timestamps` are int64; values, keys and headers (or None) are a buffer and, each as int64,
        where every one begins in it and how long it is, -1 for null. Headers are as written in a
        record, their number first; no one looks into them here.
        """
        cdef Spans some = Spans(values), some_keys = None, some_headers = None
        cdef View times = View(timestamps)
        cdef Span key = span_of(None), header = span_of(None), value
        cdef Py_ssize_t stop = some.count, ahead = start, expected = 0
        if keys is not None:
            some_keys = Spans(keys)
        if headers is not None:
            some_headers = Spans(headers)
        if (
            times.buffer.len // 8 < stop
            or (some_keys is not None and some_keys.count < stop)
            or (some_headers is not None and some_headers.count < stop)
        ):
            raise ValueError("columns of unequal length")
        # Room for all that may come, at once: growing by and by copies what is there each time.
        while 0 <= ahead < stop and self._size + expected < max_size:
            expected += MOST_OVERHEAD + some.length(ahead)
            if some_keys is not None:
                expected += some_keys.length(ahead)
            if some_headers is not None:
                expected += some_headers.length(ahead)
            ahead += 1
        self._reserve(max(0, min(expected, max_size - self._size)) + LONGEST_VARINT)
        while 0 <= start < stop:
            value = some.span(start)
            if some_keys is not None:
                key = some_keys.span(start)
            if some_headers is not None:
                header = some_headers.span(start)
            if not self._add((<int64_t *>times.buffer.buf)[start], key, value, header, max_size):
                break
            start += 1
        return start

    def take(self):
        """Give the bytes, header room first, and begin again."""
        cdef bytearray body = self._body
        cdef Py_ssize_t size = self._size
        self._begin()
        PyByteArray_Resize(body, size)
        return body


def measure(values, keys):
    """Give the bytes of the largest key and value together, and of all; TypeError for no bytes."""
    cdef list some = values if type(values) is list else list(values)
    cdef list some_keys = None
    cdef Py_ssize_t index, size, largest = 0, total = 0
    cdef object one
    if keys is not None:
        some_keys = keys if type(keys) is list else list(keys)
        if len(some_keys) != len(some):
            raise ValueError(f"{len(some_keys)} keys for {len(some)} values")
    for index in range(len(some)):
        size = 0
        one = some[index]
        if one is not None:
            if not isinstance(one, bytes):
                raise TypeError(f"values must be bytes or None, not {type(one).__name__}")
            size = PyBytes_GET_SIZE(one)
        if some_keys is not None:
            one = some_keys[index]
            if one is not None:
                if not isinstance(one, bytes):
                    raise TypeError(f"keys must be bytes or None, not {type(one).__name__}")
                size += PyBytes_GET_SIZE(one)
        if size > largest:
            largest = size
        total += size
    return largest, total


# --- reading ------------------------------------------------------------------------------------


cdef bint is_among(list names, const uint8_t *name, Py_ssize_t size):
    """True if a name is one of these bytes."""
    cdef object one
    for one in names:
        if PyBytes_GET_SIZE(one) == size and memcmp(PyBytes_AS_STRING(one), name, size) == 0:
            return True
    return False


cdef tuple read_headers(const uint8_t **at, const uint8_t *end, list names):
    """Read headers, their number first; with `names` keep only those of these names."""
    cdef const uint8_t *name
    cdef Py_ssize_t size
    cdef uint64_t coded = 0
    cdef uint64_t index
    cdef Py_ssize_t length = 0
    cdef list found
    cdef object key
    refuse_if(get(at, end, &coded))
    if coded & 1:
        refuse(BAD_HEADERS)
    coded >>= 1
    # A header takes two bytes at least: that bounds the loop before it begins.
    if coded > <uint64_t>(end - at[0]):
        refuse(CUT_OFF)
    found = []
    for index in range(coded):
        refuse_if(get_length(at, end, &length))
        if length < 0:
            refuse(BAD_HEADERS)
        name, size = at[0], length
        at[0] += length
        refuse_if(get_length(at, end, &length))
        if names is not None and not is_among(names, name, size):
            at[0] += max(length, 0)
            continue
        key = PyUnicode_DecodeUTF8(<const char *>name, size, "replace")
        if length < 0:
            found.append((key, None))
        else:
            found.append((key, PyBytes_FromStringAndSize(<const char *>at[0], length)))
            at[0] += length
    return tuple(found)


cdef inline int refuse_if(int wrong) except -1:
    if wrong:
        refuse(wrong)
    return 0


cdef inline object plus(int64_t base, int64_t delta):
    """Add as Python does, without an end to the numbers."""
    if (base > 0 and delta > INT64_MAX - base) or (base < 0 and delta < INT64_MIN - base):
        return <object>base + <object>delta
    return PyLong_FromLongLong(base + delta)


cdef object read_bytes(const uint8_t **at, const uint8_t *end):
    """Read bytes or null."""
    cdef Py_ssize_t length = 0
    cdef object found
    refuse_if(get_length(at, end, &length))
    if length < 0:
        return None
    found = PyBytes_FromStringAndSize(<const char *>at[0], length)
    at[0] += length
    return found


def decode(body, count, base, make, prefix=(), names=None):
    """Read `count` records that fill `body`, each as `make` of the prefix and six fields."""
    cdef list wanted_names = None if names is None else [name.encode() for name in names]
    cdef View view = View(body)
    cdef const uint8_t *at = <const uint8_t *>view.buffer.buf
    cdef const uint8_t *end = at + view.buffer.len
    cdef int64_t base_offset = base[0], base_timestamp = base[1]
    cdef object kind = base[2]
    cdef bint is_append_time = kind == LOG_APPEND_TIME
    cdef Py_ssize_t wanted = max(count, 0)
    if not isinstance(make, type) or not issubclass(make, tuple):
        raise TypeError("records are made as tuples")
    if has_own_layout(<PyTypeObject *>make):
        raise TypeError("records are made as tuples without attributes of their own")
    if wanted > view.buffer.len // MIN_RECORD_BYTES:
        refuse(CUT_OFF)
    return read_rows(
        at,
        end,
        wanted,
        base_offset,
        base_timestamp,
        kind,
        is_append_time,
        make,
        tuple(prefix),
        wanted_names,
    )


cdef list read_rows(
    const uint8_t *at,
    const uint8_t *end,
    Py_ssize_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    object kind,
    bint is_append_time,
    object make,
    tuple prefix,
    list names,
):
    cdef list rows = []
    cdef PyTypeObject *row_type = <PyTypeObject *>make
    cdef Py_ssize_t before = len(prefix), width = before + 6, index, n
    cdef const uint8_t *stop
    cdef uint64_t coded = 0
    cdef int64_t delta, last_delta = 0
    cdef object offset, timestamp = PyLong_FromLongLong(base_timestamp), key, value, headers
    cdef object row
    cdef PyObject *made
    for index in range(count):
        refuse_if(get(&at, end, &coded))
        if coded & 1:
            refuse(BAD_LENGTH)
        coded >>= 1
        if coded > <uint64_t>(end - at):
            refuse(CUT_OFF)
        stop = at + coded
        if at >= stop:
            refuse(CUT_OFF)
        at += 1  # the attributes, of which none are defined
        refuse_if(get(&at, stop, &coded))
        delta = unzigzag(coded)
        if delta != last_delta and not is_append_time:
            timestamp = plus(base_timestamp, delta)
            last_delta = delta
        refuse_if(get(&at, stop, &coded))
        offset = plus(base_offset, unzigzag(coded))
        key = read_bytes(&at, stop)
        value = read_bytes(&at, stop)
        if at >= stop:
            refuse(CUT_OFF)
        if at[0] == 0:
            at += 1
            headers = ()
        else:
            headers = read_headers(&at, stop, names)
        if at != stop:
            refuse(BAD_END)
        made = new_tuple(row_type, width)
        if made == NULL:
            raise MemoryError()
        for n in range(before):
            put_item(made, n, PyTuple_GET_ITEM_BORROWED(prefix, n))
        put_item(made, before, <PyObject *>offset)
        put_item(made, before + 1, <PyObject *>timestamp)
        put_item(made, before + 2, <PyObject *>kind)
        put_item(made, before + 3, <PyObject *>key)
        put_item(made, before + 4, <PyObject *>value)
        put_item(made, before + 5, <PyObject *>headers)
        # Nothing in it can refer to it: the collector need not look at rows by the thousand.
        PyObject_GC_UnTrack(made)
        row = <object>made
        Py_XDECREF(made)
        rows.append(row)
    if at != end:
        refuse(LEFT_OVER)
    return rows


cdef inline void put_item(PyObject *row, Py_ssize_t index, PyObject *item) noexcept:
    Py_XINCREF(item)
    PyTuple_SET_ITEM_OBJECT(row, index, item)


def decode_columns(body, count, base):
    """Read the same as `decode`, a column for each field instead of a tuple for each record."""
    cdef View view = View(body)
    cdef const uint8_t *at = <const uint8_t *>view.buffer.buf
    cdef const uint8_t *end = at + view.buffer.len
    cdef int64_t base_offset = base[0], base_timestamp = base[1]
    cdef bint is_append_time = base[2] == LOG_APPEND_TIME
    cdef Py_ssize_t wanted = max(count, 0), index
    cdef const uint8_t *stop
    cdef uint64_t coded = 0
    cdef int64_t delta, last_delta = 0, first_delta = 0
    cdef bint is_dense = True, has_keys = False, has_headers = False
    cdef object timestamp = PyLong_FromLongLong(base_timestamp), key, headers
    cdef list offsets = [], timestamps = [], keys = [], values = [], all_headers = []
    if wanted > view.buffer.len // MIN_RECORD_BYTES:
        refuse(CUT_OFF)
    for index in range(wanted):
        refuse_if(get(&at, end, &coded))
        if coded & 1:
            refuse(BAD_LENGTH)
        coded >>= 1
        if coded > <uint64_t>(end - at) or coded == 0:
            refuse(CUT_OFF)
        stop = at + coded
        at += 1
        refuse_if(get(&at, stop, &coded))
        delta = unzigzag(coded)
        if delta != last_delta and not is_append_time:
            timestamp = plus(base_timestamp, delta)
            last_delta = delta
        timestamps.append(timestamp)
        refuse_if(get(&at, stop, &coded))
        delta = unzigzag(coded)
        if index == 0:
            first_delta = delta
        if is_dense and <uint64_t>delta - <uint64_t>index != <uint64_t>first_delta:
            is_dense = False
            offsets = [plus(base_offset, first_delta) + n for n in range(index)]
        if not is_dense:
            offsets.append(plus(base_offset, delta))
        key = read_bytes(&at, stop)
        if key is not None and not has_keys:
            has_keys = True
            keys = [None] * index
        if has_keys:
            keys.append(key)
        values.append(read_bytes(&at, stop))
        if at >= stop:
            refuse(CUT_OFF)
        if at[0] == 0:
            at += 1
            headers = ()
        else:
            headers = read_headers(&at, stop, None)
            if headers and not has_headers:
                has_headers = True
                all_headers = [()] * index
        if has_headers:
            all_headers.append(headers)
        if at != stop:
            refuse(BAD_END)
    if at != end:
        refuse(LEFT_OVER)
    dense = offsets
    if is_dense and wanted:
        first = plus(base_offset, first_delta)
        dense = range(first, first + wanted)
    return Columns(
        dense, timestamps, keys if has_keys else None, values, all_headers if has_headers else None
    )


# --- examining: nothing is built for a record ---------------------------------------------------


cdef struct Walked:
    int64_t timestamp_delta
    int64_t offset_delta
    Py_ssize_t key_length


cdef int get_slowly(
    const uint8_t **at, const uint8_t *end, uint64_t *value, int longest
) noexcept nogil:
    """Read one as `get` does, out of line: its loop would crowd the walk it is called from."""
    cdef const uint8_t *first = at[0]
    cdef int wrong = get(at, end, value)
    if wrong == FINE and at[0] - first > longest:
        return TOO_LONG
    return wrong


cdef inline int quick(
    const uint8_t **at, const uint8_t *end, uint64_t *value, int longest
) noexcept nogil:
    """Read a varint of at most so many bytes, those of one and two in line."""
    cdef const uint8_t *p = at[0]
    if end - p >= 2:
        if p[0] < 0x80:
            value[0] = p[0]
            at[0] = p + 1
            return FINE
        if p[1] < 0x80:
            value[0] = (p[0] & 0x7F) | <uint64_t>p[1] << 7
            at[0] = p + 2
            return FINE
    return get_slowly(at, end, value, longest)


cdef inline int quick_length(
    const uint8_t **at, const uint8_t *end, Py_ssize_t *length
) noexcept nogil:
    """Read a length as `get_length` does, in 5 bytes at most."""
    cdef uint64_t coded = 0
    cdef int wrong = quick(at, end, &coded, LONGEST_INT32)
    if wrong:
        return wrong
    if coded & 1:
        length[0] = -1
        return FINE if coded == 1 else BAD_LENGTH
    coded >>= 1
    if coded > <uint64_t>(end - at[0]):
        return CUT_OFF
    length[0] = <Py_ssize_t>coded
    return FINE


cdef inline int walk(const uint8_t **cursor, const uint8_t *end, Walked *found) noexcept nogil:
    """Step over one record, none of it at or past `end`: 0, or what is wrong."""
    cdef const uint8_t *at = cursor[0]
    cdef const uint8_t *stop
    cdef uint64_t coded = 0, header
    cdef Py_ssize_t length = 0
    cdef int wrong = quick(&at, end, &coded, LONGEST_INT32)
    if wrong:
        return wrong
    if coded & 1:
        return BAD_LENGTH
    coded >>= 1
    if coded > <uint64_t>(end - at) or coded == 0:
        return CUT_OFF
    stop = at + coded
    at += 1  # the attributes, of which none are defined
    wrong = quick(&at, stop, &coded, LONGEST_VARINT)
    if wrong:
        return wrong
    found.timestamp_delta = unzigzag(coded)
    wrong = quick(&at, stop, &coded, LONGEST_INT32)
    if wrong:
        return wrong
    found.offset_delta = unzigzag(coded)
    wrong = quick_length(&at, stop, &found.key_length)
    if wrong:
        return wrong
    at += max(found.key_length, 0)
    wrong = quick_length(&at, stop, &length)
    if wrong:
        return wrong
    at += max(length, 0)
    wrong = quick(&at, stop, &coded, LONGEST_INT32)
    if wrong:
        return wrong
    if coded & 1:
        return BAD_HEADERS
    coded >>= 1
    # A header takes two bytes at least: that bounds the loop before it begins.
    if coded > <uint64_t>(stop - at):
        return CUT_OFF
    for header in range(coded):
        wrong = quick_length(&at, stop, &length)
        if wrong:
            return wrong
        if length < 0:
            return BAD_HEADERS
        at += length
        wrong = quick_length(&at, stop, &length)
        if wrong:
            return wrong
        at += max(length, 0)
    if at != stop:
        return BAD_END
    cursor[0] = at
    return FINE


def examine(body, Py_ssize_t count, bint needs_keys, int64_t earliest, int64_t latest):
    """Walk all records of a batch and judge them, as record_python.examine."""
    cdef View view = View(body)
    cdef const uint8_t *at = <const uint8_t *>view.buffer.buf
    cdef const uint8_t *end = at + view.buffer.len
    cdef Walked found
    cdef int64_t lowest = INT64_MAX, highest = INT64_MIN
    cdef Py_ssize_t index
    cdef int wrong
    cdef list keyless = None, untimely = None
    if count < 1 or count > view.buffer.len // MIN_RECORD_BYTES:
        raise BadRecord(f"{count} records in {view.buffer.len} bytes", -1)
    for index in range(count):
        wrong = walk(&at, end, &found)
        if wrong == FINE and found.offset_delta != index:
            wrong = BAD_OFFSET
        if wrong:
            raise BadRecord(text_of(wrong), index)
        if found.timestamp_delta < lowest:
            lowest = found.timestamp_delta
        if found.timestamp_delta > highest:
            highest = found.timestamp_delta
        if needs_keys and found.key_length < 0:
            keyless = noted(keyless, index)
        if found.timestamp_delta < earliest or found.timestamp_delta > latest:
            untimely = noted(untimely, index)
    if at != end:
        raise BadRecord(text_of(LEFT_OVER), -1)
    return lowest, highest, tuple(keyless or ()), tuple(untimely or ())


cdef list noted(list indexes, Py_ssize_t index):
    if indexes is None:
        indexes = []
    if len(indexes) < <Py_ssize_t>MOST_NAMED:
        indexes.append(index)
    return indexes


def highest_delta(batch, Py_ssize_t start, Py_ssize_t count, bint needs_keys):
    """Find the greatest timestamp delta of good records, as record_python.highest_delta."""
    cdef Py_buffer buffer
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef Walked found
    cdef int64_t highest = INT64_MIN
    cdef Py_ssize_t index
    cdef bint is_good
    PyObject_GetBuffer(batch, &buffer, PyBUF_SIMPLE)
    at = <const uint8_t *>buffer.buf + start
    end = <const uint8_t *>buffer.buf + buffer.len
    is_good = 0 <= start <= buffer.len and 0 < count <= (buffer.len - start) // MIN_RECORD_BYTES
    if is_good:
        for index in range(count):
            if walk(&at, end, &found) != FINE or found.offset_delta != index:
                is_good = False
                break
            if needs_keys and found.key_length < 0:
                is_good = False
                break
            if found.timestamp_delta > highest:
                highest = found.timestamp_delta
        is_good = is_good and at == end
    PyBuffer_Release(&buffer)
    return highest if is_good else None


def first_at(body, Py_ssize_t count, int64_t timestamp_delta, int64_t offset_delta):
    """Find the first record of a time and place, as record_python.first_at."""
    cdef View view = View(body)
    cdef const uint8_t *at = <const uint8_t *>view.buffer.buf
    cdef const uint8_t *end = at + view.buffer.len
    cdef Walked found
    cdef Py_ssize_t index
    cdef int wrong
    if count > view.buffer.len // MIN_RECORD_BYTES:
        raise BadRecord(f"{count} records in {view.buffer.len} bytes", -1)
    for index in range(count):
        wrong = walk(&at, end, &found)
        if wrong:
            raise BadRecord(text_of(wrong), index)
        if found.timestamp_delta >= timestamp_delta and found.offset_delta >= offset_delta:
            return found.timestamp_delta, found.offset_delta
    return None


def find(body, Py_ssize_t count, offset_deltas):
    """Say where the records with some offset deltas are, as record_python.find."""
    cdef View view = View(body)
    cdef const uint8_t *first = <const uint8_t *>view.buffer.buf
    cdef const uint8_t *at = first
    cdef const uint8_t *start
    cdef const uint8_t *end = at + view.buffer.len
    cdef Walked found
    cdef Py_ssize_t index, next_wanted = 0, wanted = len(offset_deltas)
    cdef int64_t delta
    cdef int wrong
    cdef list places = []
    if wanted == 0:
        return places
    if count > view.buffer.len // MIN_RECORD_BYTES:
        raise BadRecord(f"{count} records in {view.buffer.len} bytes", -1)
    delta = offset_deltas[0]
    for index in range(count):
        start = at
        wrong = walk(&at, end, &found)
        if wrong:
            raise BadRecord(text_of(wrong), index)
        while delta < found.offset_delta:
            next_wanted += 1
            if next_wanted == wanted:
                return places
            delta = offset_deltas[next_wanted]
        if delta == found.offset_delta:
            places.append((start - first, at - first))
            next_wanted += 1
            if next_wanted == wanted:
                return places
            delta = offset_deltas[next_wanted]
    return places


# --- columns ------------------------------------------------------------------------------------


def locate(body, Py_ssize_t count, int64_t base, out, Py_ssize_t column):
    """Say where the fields of `count` records that fill `body` are, as record_columns.locate."""
    cdef View view = View(body)
    cdef Py_buffer target
    cdef const uint8_t *first = <const uint8_t *>view.buffer.buf
    cdef const uint8_t *at = first
    cdef const uint8_t *end = at + view.buffer.len
    cdef const uint8_t *stop
    cdef uint64_t coded = 0
    cdef Py_ssize_t index, stride, length = 0
    cdef int64_t *table
    cdef int wrong = FINE
    PyObject_GetBuffer(out, &target, PyBUF_WRITABLE)
    try:
        stride = target.len // 8 // LOCATED
        if count < 0 or column < 0 or count > stride - column:
            raise ValueError("no room for so many records")
        if count > view.buffer.len // MIN_RECORD_BYTES:
            refuse(CUT_OFF)
        table = <int64_t *>target.buf + column
        for index in range(count):
            wrong = get(&at, end, &coded)
            if wrong:
                break
            if coded & 1:
                wrong = BAD_LENGTH
                break
            coded >>= 1
            if coded > <uint64_t>(end - at) or coded == 0:
                wrong = CUT_OFF
                break
            stop = at + coded
            at += 1
            wrong = get(&at, stop, &coded)
            if wrong:
                break
            table[index] = unzigzag(coded)
            wrong = get(&at, stop, &coded)
            if wrong:
                break
            table[stride + index] = unzigzag(coded)
            wrong = get_length(&at, stop, &length)
            if wrong:
                break
            table[2 * stride + index] = base + (at - first)
            table[3 * stride + index] = length
            at += max(length, 0)
            wrong = get_length(&at, stop, &length)
            if wrong:
                break
            table[4 * stride + index] = base + (at - first)
            table[5 * stride + index] = length
            at += max(length, 0)
            wrong = get(&at, stop, &coded)
            if wrong:
                break
            if coded & 1:
                wrong = BAD_HEADERS
                break
            table[6 * stride + index] = base + (at - first)
            table[7 * stride + index] = <int64_t>(coded >> 1)
            table[8 * stride + index] = base + (stop - first)
            if coded == 0 and at != stop:
                wrong = BAD_END
                break
            at = stop
        if wrong:
            refuse(wrong)
        if at != end:
            refuse(LEFT_OVER)
    finally:
        PyBuffer_Release(&target)


cdef Py_ssize_t LOCATED = 9


# --- keys ---------------------------------------------------------------------------------------


def murmur2(data):
    """MurmurHash2 as Java's Kafka clients compute it, as an unsigned 32-bit number."""
    cdef View view = View(data)
    return hash_of(<const uint8_t *>view.buffer.buf, view.buffer.len)


def murmur2_spans(keys, out):
    """Hash each of `keys`, given as to `extend_spans`, into `out`, a uint32 each; null as empty."""
    cdef Spans some = Spans(keys)
    cdef Py_buffer target
    cdef Span key
    cdef Py_ssize_t index
    PyObject_GetBuffer(out, &target, PyBUF_WRITABLE)
    try:
        if target.len // 4 < some.count:
            raise ValueError("no room for so many hashes")
        for index in range(some.count):
            key = some.span(index)
            (<uint32_t *>target.buf)[index] = hash_of(<const uint8_t *>key.at, max(key.size, 0))
    finally:
        PyBuffer_Release(&target)


cdef uint32_t hash_of(const uint8_t *at, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t left = length
    cdef uint32_t m = 0x5BD1E995, h = <uint32_t>0x9747B28C ^ <uint32_t>length, k
    while left >= 4:
        k = at[0] | <uint32_t>at[1] << 8 | <uint32_t>at[2] << 16 | <uint32_t>at[3] << 24
        k *= m
        k ^= k >> 24
        h = (h * m) ^ (k * m)
        at += 4
        left -= 4
    if left >= 3:
        h ^= <uint32_t>at[2] << 16
    if left >= 2:
        h ^= <uint32_t>at[1] << 8
    if left >= 1:
        h ^= at[0]
        h *= m
    h ^= h >> 13
    h *= m
    return h ^ (h >> 15)
