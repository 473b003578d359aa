package tensor

import (
	"os"
	"strings"
	"testing"
)

// TestPromotion compares with what torch 1.13 answers, recorded by
// testdata/promote.py.
func TestPromotion(t *testing.T) {
	raw, err := os.ReadFile("testdata/promote.tsv")
	if err != nil {
		t.Fatal(err)
	}
	dtype := func(name string) DType {
		if name == "refused" {
			return Invalid
		}
		d, ok := ParseDType(name)
		if !ok {
			t.Fatalf("no dtype %q", name)
		}
		return d
	}
	given := func(name, how string) *Tensor {
		d := dtype(name)
		switch how {
		case "number":
			return Wrap(map[DType]any{Bool: true, Int64: int64(3), Float64: 1.5, Complex128: complex(1, 2)}[d])
		case "zero":
			return Full(d, nil, int64(0))
		}
		return Full(d, []int{2}, int64(0))
	}
	lines := 0
	for line := range strings.Lines(string(raw)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		switch f[0] {
		case "promote":
			if got, want := Promote(dtype(f[1]), dtype(f[2])), dtype(f[3]); got != want {
				t.Errorf("Promote(%s, %s) = %s, want %s", f[1], f[2], got, want)
			}
		case "cast":
			if got := CanCast(dtype(f[1]), dtype(f[2])); got != (f[3] == "True") {
				t.Errorf("CanCast(%s, %s) = %v, want %s", f[1], f[2], got, f[3])
			}
		case "result":
			if got, want := ResultType(given(f[1], f[2]), given(f[3], f[4])), dtype(f[5]); got != want {
				t.Errorf("ResultType(%s %s, %s %s) = %s, want %s", f[1], f[2], f[3], f[4], got, want)
			}
		default:
			continue
		}
		lines++
	}
	if lines < 1000 {
		t.Errorf("%d lines compared", lines)
	}
}

// TestPromotionNewer checks what torch 1.13 does not have: float8 and the wide
// unsigned integers of torch 2.3.
func TestPromotionNewer(t *testing.T) {
	for _, tc := range []struct{ a, b, want DType }{
		{Uint16, Uint32, Uint32}, {Uint8, Uint16, Uint16}, {Uint16, Int32, Invalid}, {Uint64, Int64, Invalid},
		{Uint32, Float16, Float16},
		{Float8E5M2, Float8E5M2, Float8E5M2}, {Float8E5M2, Float8E4M3FN, Invalid}, {Float8E5M2, Float32, Invalid},
		{Float8E5M2, Int32, Float8E5M2},
		{QInt8, Int8, Invalid}, {Invalid, Int8, Int8}, {Float32, Invalid, Float32},
	} {
		if got := Promote(tc.a, tc.b); got != tc.want {
			t.Errorf("Promote(%s, %s) = %s, want %s", tc.a, tc.b, got, tc.want)
		}
		if got := Promote(tc.b, tc.a); got != tc.want {
			t.Errorf("Promote(%s, %s) = %s, want %s", tc.b, tc.a, got, tc.want)
		}
	}
	if got := ResultType(nil, Full(Float16, []int{1}, int64(0)), nil); got != Float16 {
		t.Errorf("ResultType with absent tensors = %s, want float16", got)
	}
	if got := ResultType(Full(Float8E5M2, []int{1}, int64(0)), Full(Float32, []int{1}, int64(0)),
		Full(Float32, []int{1}, int64(0))); got != Invalid {
		t.Errorf("ResultType of float8, float32 and float32 = %s, want none", got)
	}
}
