package opdef_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// TestPerDType checks that cases of different dtypes can differ in more than the dtype.
func TestPerDType(t *testing.T) {
	type args struct {
		dt  tensor.DType
		nth int
	}
	var got []args
	for _, a := range opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *args { return &args{dt, g.Nth} })(
		opdef.Gen{R: rand.New(rand.NewPCG(1, 1))}) {
		got = append(got, *a)
	}
	want := []args{{tensor.Float64, 0}, {tensor.Float32, 1}, {tensor.BFloat16, 2}, {tensor.Float16, 3}}
	if !slices.Equal(got, want) {
		t.Errorf("PerDType: got cases %v, want %v", got, want)
	}
}
