package contents

import (
	"math"
	"slices"
	"testing"

	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestEachBlock reads a tensor too large for one block through strides.
func TestEachBlock(t *testing.T) {
	raw := make([]byte, 3<<20)
	for i := range raw {
		raw[i] = byte(i * 7 >> 3)
	}
	s := tensor.NewStorage(raw)
	for _, v := range []tensor.View{
		{DType: tensor.Float32, Shape: []int{3 << 18}, Stride: []int{1}},
		{DType: tensor.Float32, Shape: []int{3, 1 << 18}, Stride: []int{1, 3}},
		{DType: tensor.Uint8, Shape: []int{1 << 20, 3}, Stride: []int{1, 1 << 20}},
		{DType: tensor.Int16, Shape: []int{700, 2, 999}, Stride: []int{1, 700, 1400}, Offset: 5},
		{DType: tensor.Uint8, Shape: []int{3000, 1000}, Stride: []int{0, 1}},
		{DType: tensor.Uint8, Shape: []int{0, 5}, Stride: []int{5, 1}},
		{DType: tensor.Uint8, Shape: []int{}, Stride: []int{}, Offset: 9},
	} {
		x, err := tensor.NewView(s, v)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		if err := eachBlock(x, func(b []byte) { got = append(got, b...) }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, x.AppendBytes(nil)) {
			t.Errorf("eachBlock of %s, stride %v: bytes differ from AppendBytes", x.Meta(), v.Stride)
		}
	}
}

func TestElementText(t *testing.T) {
	for _, tc := range []struct {
		dt   tensor.DType
		x    float64
		want string
	}{
		{tensor.Float32, float64(float32(0.1)), "0.1"},
		{tensor.Float64, 0.1, "0.1"},
		{tensor.BFloat16, 0.10009765625, "0.100097656"},
		{tensor.Float32, math.Inf(-1), "-inf"},
	} {
		if got := elementText(tc.dt, tc.x); got != tc.want {
			t.Errorf("elementText(%s, %v) = %s, want %s", tc.dt, tc.x, got, tc.want)
		}
	}
}

// TestOfFile lists containers before what is in them, and one that holds itself once.
func TestOfFile(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{2}, []float64{1, -2}).Rounded()
	loop := value.NewList(int64(3))
	loop.Items = append(loop.Items, loop)
	scale := tensor.New(tensor.Float32, nil, []float64{2})
	x.Attrs = []value.Part{{Name: "tag", Value: "a"}, {Name: "scale", Value: scale}}
	root := &value.Dict{Items: []value.Item{{Key: "x", Value: x}, {Key: int64(1), Value: loop}}}
	f, err := OfFile("a.pth", &pthformat.File{Root: root})
	if err == nil {
		err = f.Hash()
	}
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, it := range f.Items {
		paths = append(paths, it.Path+" "+it.Kind+" "+it.Reason)
	}
	want := []string{"root dict ", "root.x tensor ", "root.x.scale tensor ", "root[1] list ", "root[1][0] int ", "root[1][1] list contains itself"}
	if !slices.Equal(paths, want) {
		t.Errorf("items %q, want %q", paths, want)
	}
	if got := f.Items[1].SHA256; len(got) != 64 {
		t.Errorf("SHA-256 %q", got)
	}
	rows := f.Rows()
	if len(rows) != len(want) || rows[1].Of != x || rows[3].Value != "list of 2" || rows[4].Value != "3" {
		t.Errorf("rows %+v", rows)
	}
	if v, err := FirstValues(x, 5); err != nil || !slices.Equal(v, []string{"1", "-2"}) {
		t.Errorf("values %v, %v", v, err)
	}
}
