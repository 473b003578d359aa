package opdef

import (
	"reflect"
	"testing"

	"github.com/optool/optool/tensor"
)

// doubled is a plan with a mistake.
type doubled struct{ twice int }

func (d *doubled) Mistakes() []Mistake[any] {
	return []Mistake[any]{{Text: "one more", Plan: func() (any, error) { return &doubled{d.twice + 1}, nil }}}
}

// TestErased: a declaration without its types has every field where it was, and its functions get the pointers
// that those of the declaration get.
func TestErased(t *testing.T) {
	type args struct{ n int }
	o := Planned[*args, *doubled]{
		Plan:   func(a *args) (*doubled, error) { return &doubled{2 * a.n}, nil },
		Bounds: Bounds[*doubled]{Terms: func(p *doubled) int { return p.twice }},
		Cases:  func(Gen) []*args { return []*args{{3}, {4}} },
		Kernel: func(p *doubled) ([]*tensor.Tensor, error) {
			return []*tensor.Tensor{tensor.New(tensor.Float32, nil, []float64{float64(p.twice)})}, nil
		},
	}
	typed, plain := reflect.TypeOf(o), reflect.TypeFor[declaration]()
	if typed.Size() != plain.Size() || typed.NumField() != plain.NumField() {
		t.Fatalf("%d bytes in %d fields, %d in %d", typed.Size(), typed.NumField(), plain.Size(), plain.NumField())
	}
	for i := range typed.NumField() {
		if a, b := typed.Field(i), plain.Field(i); a.Name != b.Name || a.Offset != b.Offset {
			t.Errorf("%s at %d is %s at %d", a.Name, a.Offset, b.Name, b.Offset)
		}
	}

	op := o.Entry().op
	for i, want := range []int{6, 8} {
		a, ok := op.cases(Gen{})[i].(*args)
		if !ok {
			t.Fatalf("case %d is a %T", i, op.cases(Gen{})[i])
		}
		p, err := op.planned(a)
		if err != nil || p.terms() != want {
			t.Fatalf("%d terms, want %d: %v", p.terms(), want, err)
		}
		if out, err := p.kernel(); err != nil || tensor.Data[float64](out[0])[0] != float64(want) {
			t.Errorf("kernel gives %v, want %d: %v", out, want, err)
		}
		if wrong, err := p.mistakes()[0].Plan(); err != nil || wrong.terms() != want+1 {
			t.Errorf("the mistake has %d terms, want %d: %v", wrong.terms(), want+1, err)
		}
	}
}
