package opdef

import (
	"math/rand/v2"
	"reflect"

	"github.com/optool/optool/tensor"
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

// Entry declares the op. DIOPI's recipes know the arguments of Of alone.
func (o Overload[A, B]) Entry() *Entry {
	of := o.Of
	e := &Entry{
		Doc: of.Doc, Error: of.Error, NoGrad: of.NoGrad, Random: of.Random, Trivial: of.Trivial, HasGrad: of.HasGrad,
		Exempt: of.Exempt, DIOPI: "none",
		args: reflect.TypeFor[B](), schema: o.Schema,
	}
	e.kernel = func(b any) ([]*tensor.Tensor, error) {
		a, err := o.To(b.(*B))
		if err != nil {
			return nil, err
		}
		return of.kernel(a)
	}
	// What follows runs on calls that the kernel has run.
	to := func(b any) *A {
		a, err := o.To(b.(*B))
		if err != nil {
			panic(err)
		}
		return a
	}
	if of.errorOf != nil {
		e.errorOf = func(b any) Error { return of.errorOf(to(b)) }
	}
	if of.random != nil {
		e.random = func(b any) string { return of.random(to(b)) }
	}
	if of.after != nil {
		e.after = func(b any, outs []*tensor.Tensor) (map[string][]*tensor.Tensor,
			error) {
			return of.after(to(b), outs)
		}
	}
	if of.ascale != nil {
		e.ascale = func(b any) map[string][]*tensor.Tensor { return of.ascale(to(b)) }
	}
	if of.grad != nil {
		e.grad = func(b any, g *Grad) (Grads, error) { return of.grad(to(b), g) }
	}
	if of.node != nil {
		e.node = func(b any, g *Grad) (Node, error) { return of.node(to(b), g) }
	}
	if of.scale != nil {
		e.scale = func(b any, outs []*tensor.Tensor) []*tensor.Tensor { return of.scale(to(b), outs) }
	}
	if of.gscale != nil {
		e.gscale = func(b any, g *Grad, gr Grads) (Grads, error) { return of.gscale(to(b), g, gr) }
	}
	if of.terms != nil {
		e.terms = func(b any) int { return of.terms(to(b)) }
	}
	if of.gterms != nil {
		e.gterms = func(b any) int { return of.gterms(to(b)) }
	}
	if of.product != nil {
		e.product = func(b any) float64 { return of.product(to(b)) }
	}
	if of.accept != nil {
		e.accept = func(b any, got, want []*tensor.Tensor) []Acceptance { return of.accept(to(b), got, want) }
	}
	if of.exact != nil {
		e.exact = func(b any) bool { return of.exact(to(b)) }
	}
	e.cases = func(r *rand.Rand) []any {
		var out []any
		for _, c := range of.cases(r) {
			if b := o.From(c.(*A)); b != nil {
				out = append(out, b)
			}
		}
		return out
	}
	e.Names = expandNames(e.Op(), o.Names, false)
	return e
}
