package value

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
)

func TestStr(t *testing.T) {
	loop := NewList(int64(1))
	loop.Items = append(loop.Items, loop)
	for _, tc := range []struct {
		v    Value
		want string
	}{
		{nil, "None"},
		{true, "True"},
		{int64(-3), "-3"},
		{new(big.Int).Lsh(big.NewInt(1), 70), "1180591620717411303424"},
		{0.1, "0.1"},
		{1e-5, "1e-05"},
		{1e16, "1e+16"},
		{123456789012345680.0, "1.2345678901234568e+17"},
		{-2.0, "-2.0"},
		{math.Inf(-1), "-inf"},
		{complex(3, 4), "(3+4j)"},
		{complex(0, -2.5), "-2.5j"},
		{"it's", "it's"},
		{NewList("it's", "a\nb", "\x1b"), `["it's", 'a\nb', '\x1b']`},
		{NewTuple(int64(1)), "(1,)"},
		{NewTuple(), "()"},
		{&Sequence{Kind: Tuple, Class: "torch.Size", Items: []Value{int64(2), int64(3)}}, "torch.Size([2, 3])"},
		{Slice{nil, int64(4), nil}, "slice(None, 4, None)"},
		{Ellipsis{}, "Ellipsis"},
		{tensor.Float32, "torch.float32"},
		{Device{"npu", 0}, "npu:0"},
		{NewTuple(Device{"cpu", -1}, Device{"npu", 0}), "(device(type='cpu'), device(type='npu', index=0))"},
		{&Dict{Items: []Item{{"k", 1.5}}}, "{'k': 1.5}"},
		{&Opaque{Global: "mypkg.Thing"}, "<mypkg.Thing>"},
		{loop, "[1, [...]]"},
	} {
		if got := Str(tc.v); got != tc.want {
			t.Errorf("Str(%#v) = %s, want %s", tc.v, got, tc.want)
		}
	}
}

// TestStrShared prints 2^40 leaves that share one list a level.
func TestStrShared(t *testing.T) {
	v := NewList()
	for range 40 {
		v = NewList(v, v)
	}
	got := Str(v)
	if len(got) > textLimit+8 || !strings.HasSuffix(got, "...") {
		t.Errorf("Str of a shared list: %d bytes, ends in %q", len(got), got[len(got)-8:])
	}
}
