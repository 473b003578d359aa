package opdef

import "github.com/optool/optool/tensor/value"

// Query declares an operator whose result is not made of tensors: Value is what torch returns.
type Query[A any] struct {
	Schema string
	Names  string
	Doc    Doc
	Value  func(a *A) (value.Value, error)
}

// Entry declares the op.
func (q Query[A]) Entry() *Entry {
	return Planned[*A, *answer]{Schema: q.Schema, Names: q.Names, Doc: q.Doc, Plan: func(a *A) (*answer, error) {
		return &answer{func() (value.Value, error) { return q.Value(a) }}, nil
	}}.Entry()
}

// An answer is a call of a Query.
type answer struct {
	value func() (value.Value, error)
}

func (a *answer) Value() (value.Value, error) { return a.value() }
