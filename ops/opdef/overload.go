package opdef

import "reflect"

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
	op := *o.Of.op
	op.other = &otherArgs{reflect.TypeFor[B](), func(b any) (any, error) { return o.To(b.(*B)) }, func(a any) any {
		if b := o.From(a.(*A)); b != nil {
			return b
		}
		return nil
	}, o.Of.op}
	e := &Entry{op: &op, schema: o.Schema, Facts: o.Of.Facts}
	e.InPlace, e.Resizes, e.Uncast = false, false, ""
	e.Names = expandNames(e.Op(), o.Names, false)
	return e
}
