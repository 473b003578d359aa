package tensor

// DefaultDType is torch's default floating dtype, the dtype of Python floats.
const DefaultDType = Float32

// Promote returns the smallest dtype both a and b convert to
// (torch.promote_types), or Invalid where torch has none (float8 with another
// dtype, uint16/32/64 with a signed integer).
// Source: https://pytorch.org/docs/stable/generated/torch.promote_types.html
func Promote(a, b DType) DType {
	switch {
	case a == b || b == Invalid:
		return a
	case a == Invalid:
		return b
	case !a.Computable() || !b.Computable() || unpromoted(a, b) || unpromoted(b, a):
		return Invalid
	}
	if a.Kind() < b.Kind() {
		a, b = b, a
	}
	switch {
	case a.Kind() == KindBool:
		return Bool
	case a.Kind() == KindInt:
		return promoteInt(a, b)
	case b.Kind() < KindFloat:
		return a
	case a.Kind() != b.Kind(): // complex and real
		b = b.Complex()
	case a.Kind() == KindFloat && a.Size() == b.Size(): // float16 with bfloat16
		return Float32
	}
	if a.Size() < b.Size() {
		return b
	}
	return a
}

// unpromoted reports whether a has no common dtype with b because it is one of 8 bits.
func unpromoted(a, b DType) bool { return a == Float8E8M0FNU || a.IsFloat8() && b.Kind() >= KindFloat }

func promoteInt(a, b DType) DType {
	if b == Bool {
		return a
	}
	if a.IsUnsigned() == b.IsUnsigned() {
		if a.Bits() < b.Bits() {
			return b
		}
		return a
	}
	if a.IsUnsigned() {
		a, b = b, a
	} // a signed, b unsigned
	if b != Uint8 {
		return Invalid
	}
	if a == Int8 {
		return Int16
	}
	return a
}

// ResultType returns the dtype of an arithmetic operation on ts
// (torch.result_type): tensors with dimensions decide; 0-d tensors and, below
// them, Python numbers count only where their category is higher. Invalid
// means torch refuses the combination. nil tensors are ignored.
// Source: https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
func ResultType(ts ...*Tensor) DType {
	var dim, zero, wrapped DType
	for _, t := range ts {
		if t == nil {
			continue
		}
		d := t.DType
		switch {
		case t.Wrapped:
			switch d.Kind() {
			case KindFloat:
				d = DefaultDType
			case KindComplex:
				d = DefaultDType.Complex()
			}
			wrapped = Promote(wrapped, d)
		case len(t.Shape) == 0:
			zero = Promote(zero, d)
		default:
			if dim != Invalid && Promote(dim, d) == Invalid {
				return Invalid
			}
			dim = Promote(dim, d)
		}
	}
	return combine(dim, combine(zero, wrapped))
}

func combine(higher, lower DType) DType {
	switch {
	case higher == Invalid:
		return lower
	case lower == Invalid || higher.IsComplex():
		return higher
	case higher.IsFloat():
		if lower.IsComplex() {
			return higher.Complex()
		}
		return higher
	case higher == Bool || lower.Kind() >= KindFloat:
		return Promote(higher, lower)
	}
	return higher
}

// CanCast reports whether torch lets a result of dtype from be written to a
// tensor of dtype to: not from complex to real, from floating to integer, or
// from a number to bool (torch.can_cast).
func CanCast(from, to DType) bool {
	if from.IsComplex() && !to.IsComplex() {
		return false
	}
	if from.IsFloat() && to.Kind() < KindFloat {
		return false
	}
	return from == Bool || to != Bool
}
