package opdef

import (
	"reflect"
)

// Overload declares the operator Of, whose arguments are *A, under a signature
// with arguments *B that says the same otherwise: torch.kl_div has a number for
// the reduction where torch.nn.functional.kl_div has a word. Tensors have the
// same argument names in both.
type Overload[A, B any] struct {
	Schema string // "kl_div.int(...)"
	Names  string
	Of     *Entry
	// To gives the arguments of Of, or refuses b; From the arguments that say a,
	// or nil where there are none. From makes the cases out of those of Of.
	To   func(b *B) (*A, error)
	From func(a *A) *B
}

// Entry declares the op: all that Of declares holds for it, save schema, names
// and in-place forms.
func (o Overload[A, B]) Entry() *Entry {
	e := &Entry{op: overload[A, B]{o.Of.op, o}, schema: o.Schema, Facts: o.Of.Facts}
	e.InPlace, e.Resizes, e.Uncast = false, false, ""
	e.Names = expandNames(e.Op(), o.Names, false)
	return e
}

// An overload is the operator Of with arguments of its own.
type overload[A, B any] struct {
	operator
	Overload[A, B]
}

func (o overload[A, B]) argsType() reflect.Type { return reflect.TypeFor[B]() }

func (o overload[A, B]) cases(g Gen) []any {
	var out []any
	for _, c := range o.operator.cases(g) {
		if b := o.From(c.(*A)); b != nil {
			out = append(out, b)
		}
	}
	return out
}

func (o overload[A, B]) plan(args any) (any, error) {
	a, err := o.To(args.(*B))
	if err != nil {
		return nil, err
	}
	return o.operator.plan(a)
}
