package value

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestReprRecorded compares with what Python prints, recorded by
// testdata/repr.py.
func TestReprRecorded(t *testing.T) {
	raw, err := os.ReadFile("testdata/repr.tsv")
	if err != nil {
		t.Fatal(err)
	}
	float := func(s string) float64 {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	text := func(s string) (out string) {
		if err := json.Unmarshal([]byte(s), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	lines := 0
	for line := range strings.Lines(string(raw)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		var v Value
		switch f[0] {
		case "float":
			v = float(f[1])
		case "complex":
			v = complex(float(f[1]), float(f[2]))
		case "str":
			v = text(f[1])
		default:
			continue
		}
		lines++
		if got, want := Repr(v), text(f[len(f)-1]); got != want {
			t.Errorf("%s: Repr = %s, want %s", strings.Join(f[:len(f)-1], " "), got, want)
		}
	}
	if lines < 500 {
		t.Errorf("%d lines compared", lines)
	}
}

func TestReprContainers(t *testing.T) {
	dict := &Dict{}
	dict.Items = []Item{{"self", dict}, {int64(1), NewTuple()}}
	for _, tc := range []struct {
		v    Value
		want string
	}{
		{"text", "'text'"},
		{Bytes("a\x00'"), `b"a\x00'"`},
		{Bytes("é\xff\n"), `b'\xc3\xa9\xff\n'`},
		{Device{"npu", 1}, "device(type='npu', index=1)"},
		{Layout("torch.strided"), "torch.strided"},
		{MemoryFormat("torch.channels_last"), "torch.channels_last"},
		{&Sequence{Kind: Set}, "set()"},
		{&Sequence{Kind: Set, Items: []Value{int64(1)}}, "{1}"},
		{&Sequence{Kind: FrozenSet, Items: []Value{int64(1)}}, "frozenset({1})"},
		{NewTuple(int64(1), nil), "(1, None)"},
		{&Sequence{Kind: Tuple, Class: "torch.return_types.max", Items: []Value{int64(1)}},
			"torch.return_types.max(1)"},
		{&Sequence{Kind: Tuple, Class: "torch.return_types.sort", Items: []Value{int64(1), nil}},
			"torch.return_types.sort(\nvalues=1,\nindices=None)"},
		{&Sequence{Kind: Tuple, Class: "torch.return_types.topk_out", Items: []Value{int64(1), nil}},
			"torch.return_types.topk_out(\nvalues=1,\nindices=None)"},
		{Slice{int64(1), nil, int64(-1)}, "slice(1, None, -1)"},
		{dict, "{'self': {...}, 1: ()}"},
		{tensor.Scalar(tensor.Float32, 1.0), "tensor(float32[])"},
		{&Opaque{Global: "torch.Foo", Reason: "sparse tensor"}, "<torch.Foo: sparse tensor>"},
		{NewList(strings.Repeat("x", 3*textLimit), "y"), ""},
	} {
		got := Repr(tc.v)
		if tc.want == "" {
			if len(got) > textLimit+16 || !strings.Contains(got, "...") {
				t.Errorf("a long value prints in %d bytes", len(got))
			}
			continue
		}
		if got != tc.want {
			t.Errorf("Repr(%#v) = %s, want %s", tc.v, got, tc.want)
		}
	}
	long := &Sequence{Kind: List, Items: slices.Repeat([]Value{int64(7)}, textLimit)}
	if got := LongRepr(long); len(got) != 3*textLimit {
		t.Errorf("LongRepr of %d items has %d bytes", textLimit, len(got))
	}
}

// TestString: values print as Python does wherever Go prints them.
func TestString(t *testing.T) {
	for _, v := range []Value{&Sequence{Kind: Tuple, Class: "torch.Size", Items: []Value{int64(1)}}, Bytes("a"),
		&Dict{Items: []Item{{"k", nil}}}, &Opaque{Global: "a.B"}, Slice{}, Ellipsis{}} {
		if got := fmt.Sprint(v); got != Repr(v) {
			t.Errorf("%T prints %s, want %s", v, got, Repr(v))
		}
	}
}

func TestTensors(t *testing.T) {
	a, b := tensor.Scalar(tensor.Float32, 1.0), tensor.Scalar(tensor.Float32, math.Pi)
	shared := NewList(b)
	shared.Items = append(shared.Items, shared)
	v := NewTuple(a, &Dict{Items: []Item{{"k", shared}, {"l", shared}}}, &Opaque{Parts: []Part{{"(0)", a}}})
	got := Tensors(v)
	if len(got) != 3 || got[0] != a || got[1] != b || got[2] != a {
		t.Errorf("tensors %v, want a, b, a", got)
	}
}

func TestGet(t *testing.T) {
	d := &Dict{Items: []Item{{int64(1), "one"}, {"k", "two"}}}
	if v, ok := d.Get("k"); !ok || v != "two" {
		t.Errorf("Get(k) = %v, %v", v, ok)
	}
	if _, ok := d.Get("1"); ok {
		t.Error("an int key answers to a string")
	}
}
