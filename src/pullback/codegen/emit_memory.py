"""Loads and stores: one element, a run of lanes, strided lanes, gathered lanes; whole or masked."""

from typing import Any

from . import target
from .emit import Emitter, Lanes, Literal, Value, describe, is_vector
from .types import Pointer, Problem, Scalar, Vector, bool_, f16, f32, i32, i64

CLOSE_STRIDES = (Literal(2), Literal(3), Literal(4))


class MemoryEmitter(Emitter):
    """An emitter that also reads and writes memory. `mask` limits every vector access through an index."""

    def load(self, pointer: Any, index: Any) -> Value:
        """`pointer[index]`: a number for a scalar index, else a vector; lanes that are off read nothing and give 0."""
        element = self._element(pointer)
        if not is_vector(index):
            place = self.offset(pointer, self._scalar_place(index))
            return self._after_load(self._whole(element, place, scalar=True), element)
        if isinstance(index, Lanes) and index.stride == Literal(1):
            return self.load_run(self.offset(pointer, self.coerce(index.base, i64, "an index")), self.mask)
        if isinstance(index, Lanes) and index.stride == Literal(-1):
            first = self.arithmetic("Sub", index.base, Literal(self.vl - 1))
            mask = self.mask and self.reversed(self.mask)
            return self.reversed(self.load_run(self.offset(pointer, self.coerce(first, i64, "an index")), mask))
        if isinstance(index, Lanes) and self.mask is None and index.stride in CLOSE_STRIDES:
            return self._load_close(self.offset(pointer, self.coerce(index.base, i64, "an index")), index.stride.value)
        places = self._places(pointer, index)
        kind = self._memory_vector(element)
        name = f"llvm.masked.gather.v{self.vl}{self._memory_suffix(element)}.v{self.vl}p0"
        raw = self._masked_call(
            f"{kind}",
            name,
            f"<{self.vl} x ptr> {places}",
            f"i32 {element.size}",
            self._mask_text(),
            f"{kind} zeroinitializer",
        )
        return self._after_load(Value(Vector(element), raw), element)

    def store(self, pointer: Any, index: Any, value: Any) -> None:
        """`pointer[index] = value`; lanes that are off write nothing."""
        element = self._element(pointer)
        held = f32 if element is f16 else element
        if not is_vector(index):
            value = self.coerce(value, held, f"an element of {pointer.type}")
            place = self.offset(pointer, self._scalar_place(index))
            self._write_whole(self._before_store(value, element), element, place, scalar=True)
            return
        value = self.coerce(value, Vector(held), f"an element of {pointer.type}", fill=True)
        if isinstance(index, Lanes) and index.stride == Literal(1):
            self.store_run(self.offset(pointer, self.coerce(index.base, i64, "an index")), value, self.mask)
            return
        places = self._places(pointer, index)
        kind = self._memory_vector(element)
        name = f"llvm.masked.scatter.v{self.vl}{self._memory_suffix(element)}.v{self.vl}p0"
        raw = self._before_store(value, element)
        self._masked_call(
            "void", name, f"{kind} {raw}", f"<{self.vl} x ptr> {places}", f"i32 {element.size}", self._mask_text()
        )

    def load_run(self, place: Value, mask: Value | None) -> Value:
        """The VL elements at a pointer."""
        element = self._element(place)
        if mask is None:
            return self._after_load(self._whole(element, place, scalar=False), element)
        kind = self._memory_vector(element)
        name = f"llvm.masked.load.v{self.vl}{self._memory_suffix(element)}.p0"
        raw = self._masked_call(
            kind, name, f"ptr {place.ref}", f"i32 {element.size}", self._mask_text(mask), f"{kind} zeroinitializer"
        )
        return self._after_load(Value(Vector(element), raw), element)

    def store_run(self, place: Value, value: Any, mask: Value | None) -> None:
        """Write a vector to the VL elements at a pointer."""
        element = self._element(place)
        held = f32 if element is f16 else element
        value = self.coerce(value, Vector(held), f"an element of {place.type}", fill=True)
        raw = self._before_store(value, element)
        if mask is None:
            self._write_whole(raw, element, place, scalar=False)
            return
        kind = self._memory_vector(element)
        name = f"llvm.masked.store.v{self.vl}{self._memory_suffix(element)}.p0"
        self._masked_call(
            "void", name, f"{kind} {raw}", f"ptr {place.ref}", f"i32 {element.size}", self._mask_text(mask)
        )

    def _load_close(self, place: Value, stride: int) -> Value:
        """Every stride-th element: load all from first to last, and pick. Up to three times as fast as a gather."""
        element, count = self._element(place), self.vl * stride
        wide = f"<{count} x {element.stored}>"
        live = ", ".join(f"i1 {int(j <= count - stride)}" for j in range(count))
        name = f"llvm.masked.load.v{count}{self._memory_suffix(element)}.p0"
        mask = f"<{count} x i1> <{live}>"
        zeros = f"{wide} zeroinitializer"
        raw = self._masked_call(wide, name, f"ptr {place.ref}", f"i32 {element.size}", mask, zeros)
        order = ", ".join(f"i32 {j * stride}" for j in range(self.vl))
        picked = self.named(f"shufflevector {wide} {raw}, {wide} poison, <{self.vl} x i32> <{order}>")
        return self._after_load(Value(Vector(element), picked), element)

    def reversed(self, value: Value) -> Value:
        """The lanes in the opposite order."""
        order = ", ".join(f"i32 {j}" for j in reversed(range(self.vl)))
        mask = f"<{self.vl} x i32> <{order}>"
        return self.value(value.type, f"shufflevector {self.typed(value)}, {self.llvm(value.type)} poison, {mask}")

    def first_lanes(self, count: Any) -> Value:
        """The mask of the first `count` lanes."""
        if isinstance(count, Literal):
            count = self.constant(min(max(count.value, 0), self.vl), i32)
        else:
            count = self.coerce(count, i64, "a number of lanes")
            few = self.compare("Lt", count, Literal(self.vl))
            count = self.convert(self.select(few, count, Literal(self.vl)), i32)
        return self.compare("Lt", self.iota(kind=i32), self.splat(count))

    # Pieces

    def _element(self, pointer: Any) -> Scalar:
        if not isinstance(pointer, Value) or not isinstance(pointer.type, Pointer):
            raise Problem(f"{describe(pointer)} can't be indexed: it isn't a pointer")
        return pointer.type.element

    def _scalar_place(self, index: Any) -> Value:
        return self.coerce(index, i64, "an index")

    def _places(self, pointer: Value, index: Any) -> str:
        """One address a lane."""
        stored = pointer.type.element.stored
        if isinstance(index, Lanes):
            pointer = self.offset(pointer, self.coerce(index.base, i64, "an index"))
            small = isinstance(index.stride, Literal) and abs(index.stride.value) < 2**24
            index = self.iota(index.stride.value, i32) if small else self.plain(Lanes(Literal(0), index.stride))
        elif index.type.element not in (i32, i64):
            index = self.coerce(index, Vector(i64), "an index")
        return self.named(f"getelementptr {stored}, {self.typed(pointer)}, {self.typed(index)}")

    def _whole(self, element: Scalar, place: Value, scalar: bool) -> Value:
        kind = element.stored if scalar else self._memory_vector(element)
        result = self.named(f"load {kind}, ptr {place.ref}, align {element.size}")
        return Value(element if scalar else Vector(element), result)

    def _write_whole(self, raw: str, element: Scalar, place: Value, scalar: bool) -> None:
        kind = element.stored if scalar else self._memory_vector(element)
        self.line(f"store {kind} {raw}, ptr {place.ref}, align {element.size}")

    def _after_load(self, raw: Value, element: Scalar) -> Value:
        """From the form in memory to the form in registers."""
        vector = isinstance(raw.type, Vector)
        if element is bool_:
            kind = self._memory_vector(element) if vector else element.stored
            return self.value(raw.type, f"icmp ne {kind} {raw.ref}, {'zeroinitializer' if vector else '0'}")
        if element is not f16:
            return raw
        wide = Vector(f32) if vector else f32
        if target.isa() == "plain":
            return self._half_to_float(raw, wide)
        return self.value(
            wide, f"fpext {self._memory_vector(f16) if vector else 'half'} {raw.ref} to {self.llvm(wide)}"
        )

    def _before_store(self, value: Value, element: Scalar) -> str:
        """From the form in registers to the form in memory."""
        kind = self._memory_vector(element) if isinstance(value.type, Vector) else element.stored
        if element is bool_:
            return self.named(f"zext {self.typed(value)} to {kind}")
        if element is not f16:
            return value.ref
        if target.isa() == "plain":
            return self._float_to_half(value, kind)
        return self.named(f"fptrunc {self.typed(value)} to {kind}")

    def _half_to_float(self, raw: Value, wide: Any) -> Value:
        """Without the instruction: shift the 15 bits into place, scale by 2**112, and repair infinity and NaN."""
        vector = isinstance(wide, Vector)
        kinds = (Vector(i32), f"<{self.vl} x i16>") if vector else (i32, "i16")
        half = f"<{self.vl} x half>" if vector else "half"
        narrow = self.named(f"bitcast {half} {raw.ref} to {kinds[1]}")
        whole = self.value(kinds[0], f"zext {kinds[1]} {narrow} to {self.llvm(kinds[0])}")
        magnitude = self.arithmetic("LShift", self.arithmetic("BitAnd", whole, Literal(0x7FFF)), Literal(13))
        scaled = self.arithmetic("Mult", self.reinterpret(magnitude, f32), Literal(2.0**112))
        special = self.arithmetic("BitOr", magnitude, Literal(0x7F800000))
        is_special = self.compare("GtE", magnitude, Literal(0x0F800000))
        result = self.select(is_special, special, self.reinterpret(scaled, i32))
        sign = self.arithmetic("LShift", self.arithmetic("BitAnd", whole, Literal(0x8000)), Literal(16))
        return self.reinterpret(self.arithmetic("BitOr", result, sign), f32)

    def _float_to_half(self, value: Value, kind: str) -> str:
        """Without the instruction: round to nearest even by hand, with subnormals, overflow and NaN."""
        raw = self.reinterpret(value, i32)
        sign = self.arithmetic("BitAnd", self.arithmetic("RShift", raw, Literal(16)), Literal(0x8000))
        magnitude = self.arithmetic("BitAnd", raw, Literal(0x7FFFFFFF))
        odd = self.arithmetic("BitAnd", self.arithmetic("RShift", magnitude, Literal(13)), Literal(1))
        rounded = self.arithmetic("Add", self.arithmetic("Add", magnitude, odd), Literal(0xFFF - (112 << 23)))
        normal = self.arithmetic("RShift", rounded, Literal(13))
        shifted = self.arithmetic("Add", self.reinterpret(magnitude, f32), Literal(0.5))
        subnormal = self.arithmetic("Sub", self.reinterpret(shifted, i32), Literal(0x3F000000))
        huge = self.select(self.compare("Gt", magnitude, Literal(0x7F800000)), Literal(0x7E00), self._like(raw, 0x7C00))
        result = self.select(self.compare("Lt", magnitude, Literal(113 << 23)), subnormal, normal)
        result = self.select(self.compare("GtE", magnitude, Literal(0x477FF000)), huge, result)
        result = self.arithmetic("BitOr", result, sign)
        vector = isinstance(value.type, Vector)
        short = f"<{self.vl} x i16>" if vector else "i16"
        narrow = self.named(f"trunc {self.typed(result)} to {short}")
        return self.named(f"bitcast {short} {narrow} to {kind}")

    def _like(self, value: Value, number: int) -> Value:
        constant = self.constant(number, i32)
        return self.splat(constant) if is_vector(value) else constant

    def reinterpret(self, value: Value, element: Scalar) -> Value:
        """The same bits as another type of the same width."""
        kind = Vector(element) if isinstance(value.type, Vector) else element
        return self.value(kind, f"bitcast {self.typed(value)} to {self.llvm(kind)}")

    def _memory_vector(self, element: Scalar) -> str:
        return f"<{self.vl} x {element.stored}>"

    def _memory_suffix(self, element: Scalar) -> str:
        return f"f{element.bits}" if element.is_float else f"i{max(element.bits, 8)}"

    def _mask_text(self, mask: Value | None = None) -> str:
        mask = mask or self.mask
        return self.typed(mask) if mask else f"<{self.vl} x i1> <{', '.join(['i1 true'] * self.vl)}>"

    def _masked_call(self, result: str, name: str, *arguments: str) -> str:
        types = [_type_text(a) for a in arguments]
        self.declarations.add(f"declare {result} @{name}({', '.join(types)})")
        call = f"call {result} @{name}({', '.join(arguments)})"
        if result == "void":
            self.line(call)
            return ""
        return self.named(call)


def _type_text(argument: str) -> str:
    """The type at the front of "<16 x float> %t1" or "ptr %t2"."""
    return argument[: argument.index(">") + 1] if argument.startswith("<") else argument.split()[0]
