package opdef

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Schema is the parsed identity of an op, in ATen's notation with two
// additions:
//
//	leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor
//	add(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor
//	view(Tensor self, int[]... size) -> Tensor
//
// Returns is Tensor for one tensor, (Tensor, Tensor) or Tensor[] for a sequence, also of
// one, and Tensor|Tensor[] where an argument says how many: one by itself, or
// Tensor|Tensor[as_tuple], a sequence also of one where as_tuple is true or a list. Results
// int at the end are numbers that nothing says anything of.
// A result Tensor? at the end is None in calls whose kernel gives fewer results.
// Tensor|Scalar accepts a Python number, which becomes a wrapped 0-d tensor.
// A list type followed by ... also accepts its items as separate positional
// arguments. A * alone starts the keyword-only arguments.
type Schema struct {
	Name    string
	Params  []Param
	Returns string
	text    string
}

// A Param is one argument of a Schema.
type Param struct {
	Name     string
	Type     Type
	Default  string // Python literal, "" if required
	Required bool
	Keyword  bool // keyword only
}

// Type is a schema type: base name with its modifiers.
type Type struct {
	// Base is Tensor, Scalar, int, float, bool, str, dtype, any, Device, Layout, MemoryFormat, Generator,
	// ignored, or Out: a tensor that the result is written to, where that is not a keyword only.
	Base     string
	Optional bool // T?: None allowed
	List     bool // T[]
	ListOpt  bool // T?[]: items may be None
	Len      int  // T[n]: a single number stands for n equal ones
	Scalar   bool // Tensor|Scalar
	Variadic bool // T[]...
}

func (t Type) String() string {
	s := t.Base
	if t.Scalar {
		s += "|Scalar"
	}
	if t.ListOpt {
		s += "?"
	}
	if t.List {
		s += "["
		if t.Len > 0 {
			s += strconv.Itoa(t.Len)
		}
		s += "]"
	}
	if t.Optional {
		s += "?"
	}
	return s
}

// carried reports whether values of t reach kernels; devices, layouts, memory
// formats and generators do not change what is computed.
func (t Type) carried() bool {
	switch t.Base {
	case "Device", "Layout", "MemoryFormat", "Generator", "Out", "ignored":
		return false
	}
	return true
}

// parameters are what decides which positional arguments can be bound.
func (s *Schema) parameters() []Param {
	params := slices.Clone(s.Params)
	for i := range params {
		params[i].Name, params[i].Default = "", ""
	}
	return params
}

// String returns the text the schema was parsed from.
func (s *Schema) String() string { return s.text }

// ParseSchema parses the notation described at Schema.
func ParseSchema(text string) (*Schema, error) {
	open, arrow := strings.IndexByte(text, '('), strings.LastIndex(text, ") -> ")
	if open <= 0 || arrow < open {
		return nil, fmt.Errorf("schema %q: want name(args) -> returns", text)
	}
	s := &Schema{Name: text[:open], Returns: text[arrow+len(") -> "):], text: text}
	keyword := false
	for _, part := range splitArgs(text[open+1 : arrow]) {
		if part == "*" {
			keyword = true
			continue
		}
		p, err := parseParam(part)
		if err != nil {
			return nil, fmt.Errorf("schema %q: %w", text, err)
		}
		p.Keyword = keyword
		if slices.ContainsFunc(s.Params, func(q Param) bool { return q.Name == p.Name }) {
			return nil, fmt.Errorf("schema %q: argument %q appears twice", text, p.Name)
		}
		s.Params = append(s.Params, p)
	}
	return s, nil
}

// Single reports whether every call returns one tensor, never a sequence; Several
// whether every call returns a sequence, also of one.
func (s *Schema) Single() bool { return s.Returns == "Tensor" }
func (s *Schema) Several() bool {
	return s.Returns == "Tensor[]" || strings.HasPrefix(s.Returns, "(Tensor")
}

// decisive is the argument that says whether one result is in a sequence, "" if none does.
func (s *Schema) decisive() string {
	name, ok := strings.CutPrefix(s.Returns, "Tensor|Tensor[")
	if !ok {
		return ""
	}
	return strings.TrimSuffix(name, "]")
}

// absent is the number of results that are None in a call that gives n: those
// after the first n where all of them are declared optional, as in
// (Tensor, Tensor?).
func (s *Schema) absent(n int) int {
	inner, ok := strings.CutPrefix(s.Returns, "(")
	if !ok {
		return 0
	}
	parts := splitArgs(strings.TrimSuffix(inner, ")"))
	if n >= len(parts) {
		return 0
	}
	for _, p := range parts[n:] {
		if typ, _, _ := strings.Cut(p, " "); !strings.HasSuffix(typ, "?") {
			return 0
		}
	}
	return len(parts) - n
}

// Numbers is how many results at the end are numbers of a device's own, such as seeds,
// which are not compared: (Tensor, Tensor, int).
func (s *Schema) Numbers() int {
	inner, ok := strings.CutPrefix(s.Returns, "(")
	n := 0
	if parts := splitArgs(strings.TrimSuffix(inner, ")")); ok {
		for n < len(parts) && parts[len(parts)-1-n] == "int" {
			n++
		}
	}
	return n
}

// splitArgs splits at commas outside brackets and quotes.
func splitArgs(s string) []string {
	var out []string
	depth, start := 0, 0
	quote := byte(0)
	for i := 0; i <= len(s); i++ {
		switch {
		case i < len(s) && quote != 0:
			if s[i] == quote {
				quote = 0
			}
		case i < len(s) && (s[i] == '"' || s[i] == '\''):
			quote = s[i]
		case i == len(s) || s[i] == ',' && depth <= 0:
			if p := strings.TrimSpace(s[start:i]); p != "" {
				out = append(out, p)
			}
			start = i + 1
		case s[i] == '[' || s[i] == '(':
			depth++
		case s[i] == ']' || s[i] == ')':
			depth--
		}
	}
	return out
}

func parseParam(s string) (Param, error) {
	typ, rest, ok := strings.Cut(s, " ")
	if !ok {
		return Param{}, fmt.Errorf("argument %q: want type and name", s)
	}
	p := Param{Name: rest, Required: true}
	if name, def, ok := strings.Cut(rest, "="); ok {
		p.Name, p.Default, p.Required = name, def, false
	}
	if !isName(p.Name) {
		return p, fmt.Errorf("argument %q: bad name %q", s, p.Name)
	}
	t := &p.Type
	typ, t.Variadic = strings.CutSuffix(typ, "...")
	typ, t.Optional = strings.CutSuffix(typ, "?")
	if i := strings.IndexByte(typ, '['); i > 0 && strings.HasSuffix(typ, "]") {
		t.List = true
		if n := typ[i+1 : len(typ)-1]; n != "" {
			v, err := strconv.Atoi(n)
			if err != nil {
				return p, fmt.Errorf("argument %q: bad length %q", s, n)
			}
			t.Len = v
		}
		typ, t.ListOpt = strings.CutSuffix(typ[:i], "?")
	}
	typ, t.Scalar = strings.CutSuffix(typ, "|Scalar")
	t.Base = typ
	switch typ {
	case "Tensor", "Scalar", "int", "float", "bool", "str", "dtype", "any", "Device", "Layout", "MemoryFormat",
		"Generator", "Out", "ignored":
	default:
		return p, fmt.Errorf("argument %q: unknown type %q", s, typ)
	}
	if t.Variadic && !t.List {
		return p, fmt.Errorf("argument %q: only a list can be variadic", s)
	}
	return p, nil
}

// isName reports whether s is a Python identifier in ASCII.
func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
