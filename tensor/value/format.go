package value

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"github.com/optool/optool/tensor"
)

// The length of the text of one value is bounded: shared containers can stand for
// far more items than they hold.
const (
	textLimit = 4 << 10
	longLimit = 4 << 20 // of LongRepr
)

// Str is Python's str(v), as op_tools prints arguments: a string is itself, a
// device "npu:0", a dtype "torch.float32". Tensors show dtype and shape only.
// Texts beyond 4 KiB end in "...".
func Str(v Value) string {
	switch v := v.(type) {
	case string:
		return v
	case Device:
		return v.String()
	}
	return Repr(v)
}

// Repr is Python's repr(v), with the limits of Str.
func Repr(v Value) string {
	return repr(v, textLimit)
}

// LongRepr is Python's repr(v) for files: texts beyond 4 MiB end in "...".
func LongRepr(v Value) string { return repr(v, longLimit) }

func repr(v Value, limit int) string {
	p := printer{inside: map[any]bool{}, limit: limit}
	p.print(v)
	return p.b.String()
}

// String is torch's str of a device: "npu:0", "cpu".
func (d Device) String() string {
	if d.Index < 0 {
		return d.Type
	}
	return d.Type + ":" + strconv.Itoa(d.Index)
}

type printer struct {
	b      strings.Builder
	inside map[any]bool // containers being printed: cycles end here
	limit  int
	full   bool
}

func (p *printer) text(s string) {
	if p.full {
		return
	}
	if p.b.Len()+len(s) > p.limit {
		p.full = true
		s = "..."
	}
	p.b.WriteString(s)
}

func (p *printer) print(v Value) {
	if p.full {
		return
	}
	switch v := v.(type) {
	case nil, bool, int64, *big.Int, float64, complex128, string, Bytes:
		p.text(literal(v))
	case *tensor.Tensor:
		p.text("tensor(" + v.Meta() + ")")
	case tensor.DType:
		p.text("torch." + v.String())
	case Device:
		p.text("device(type=" + StringRepr(v.Type))
		if v.Index >= 0 {
			p.text(", index=" + strconv.Itoa(v.Index))
		}
		p.text(")")
	case Layout:
		p.text(string(v))
	case MemoryFormat:
		p.text(string(v))
	case Ellipsis:
		p.text("Ellipsis")
	case Slice:
		p.text("slice(")
		p.list([]Value{v.Start, v.Stop, v.Step})
		p.text(")")
	case *Sequence:
		p.sequence(v)
	case *Dict:
		p.dict(v)
	case *Opaque:
		p.text("<" + v.Global)
		if v.Reason != "" {
			p.text(": " + v.Reason)
		}
		p.text(">")
	default:
		p.text(fmt.Sprint(v))
	}
}

// literal is the text of None, a number, a string or bytes.
func literal(v Value) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int64:
		return strconv.FormatInt(v, 10)
	case *big.Int:
		return v.String()
	case float64:
		return FloatRepr(v)
	case complex128:
		return complexRepr(v)
	case string:
		return StringRepr(v)
	case Bytes:
		chars := make([]rune, min(len(v), textLimit+1))
		for i := range chars {
			chars[i] = rune(v[i])
		}
		return "b" + quoted(string(chars), unicode.MaxASCII)
	}
	return ""
}

func (p *printer) sequence(s *Sequence) {
	if p.inside[s] {
		p.text("[...]")
		return
	}
	p.inside[s] = true
	defer delete(p.inside, s)
	open, end := "[", "]"
	switch {
	case s.Class == "torch.Size":
		open, end = "torch.Size([", "])"
	case s.Class != "":
		open, end = s.Class+"(", ")"
	case s.Kind == Tuple && len(s.Items) == 1:
		open, end = "(", ",)"
	case s.Kind == Tuple:
		open, end = "(", ")"
	case s.Kind == Set && len(s.Items) == 0:
		open, end = "set(", ")"
	case s.Kind == Set:
		open, end = "{", "}"
	case s.Kind == FrozenSet:
		open, end = "frozenset({", "})"
	}
	p.text(open)
	if names := s.fields(); names != nil {
		p.named(names, s.Items)
	} else {
		p.list(s.Items)
	}
	p.text(end)
}

// named prints the items of a named result as torch does, each on its line.
func (p *printer) named(names []string, items []Value) {
	for i, it := range items {
		if i > 0 {
			p.text(",")
		}
		p.text("\n" + names[i] + "=")
		p.print(it)
	}
}

func (p *printer) list(items []Value) {
	for i, it := range items {
		if i > 0 {
			p.text(", ")
		}
		p.print(it)
		if p.full {
			return
		}
	}
}

func (p *printer) dict(d *Dict) {
	if p.inside[d] {
		p.text("{...}")
		return
	}
	p.inside[d] = true
	defer delete(p.inside, d)
	p.text("{")
	for i, it := range d.Items {
		if i > 0 {
			p.text(", ")
		}
		p.print(it.Key)
		p.text(": ")
		p.print(it.Value)
		if p.full {
			return
		}
	}
	p.text("}")
}

// FloatRepr is Python's repr of a float: the shortest digits that read back,
// ".0" on whole numbers, an exponent below 1e-4 and from 1e16.
func FloatRepr(x float64) string {
	switch {
	case math.IsNaN(x):
		return "nan"
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	}
	if a := math.Abs(x); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(x, 'e', -1, 64)
	}
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// complexRepr is Python's repr of a complex: (3+4j), or 4j for a real part of
// positive zero.
func complexRepr(c complex128) string {
	part := func(x float64) string { return strings.TrimSuffix(FloatRepr(x), ".0") }
	re, im := real(c), imag(c)
	if re == 0 && !math.Signbit(re) {
		return part(im) + "j"
	}
	s := part(im)
	if !strings.HasPrefix(s, "-") {
		s = "+" + s
	}
	return "(" + part(re) + s + "j)"
}

// StringRepr is Python's repr of a string: in single quotes unless only double
// quotes avoid escapes, with what does not print escaped.
func StringRepr(s string) string { return quoted(s, unicode.MaxRune) }

// quoted is StringRepr with everything beyond last escaped.
func quoted(s string, last rune) string {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for i, r := range s {
		switch {
		case b.Len() > textLimit:
			return b.String() + "..."
		case r == unicode.ReplacementChar && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == quote || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r) && r <= last:
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
	return b.String()
}

// String is Python's repr.
func (s Slice) String() string { return Repr(s) }

// String is Python's repr.
func (s *Sequence) String() string { return Repr(s) }

// String is Python's repr.
func (d *Dict) String() string { return Repr(d) }

// String is Python's repr.
func (b Bytes) String() string { return Repr(b) }

// String is the class of the object.
func (o *Opaque) String() string { return Repr(o) }

// String is Python's repr.
func (e Ellipsis) String() string { return Repr(e) }
