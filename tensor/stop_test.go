package tensor

import (
	"testing"

	"github.com/optool/optool/internal/quota"
)

// TestLoadStops: loading many elements at once ends when computing is stopped.
func TestLoadStops(t *testing.T) {
	defer quota.Resume()
	s := OpenStorage(4, func() ([]byte, error) {
		quota.Stop()
		return make([]byte, 4), nil
	})
	v, err := NewView(s, View{DType: Float32, Shape: []int{2*mostAtOnce + 1}, Stride: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p := recover(); p != quota.ErrStopped {
			t.Errorf("ends with %v, want that it is stopped", p)
		}
	}()
	Load(v, 0, make([]float64, v.Numel()))
}

// TestMemory: tensors have the same key where they view the same elements.
func TestMemory(t *testing.T) {
	s, other := NewStorage(make([]byte, 64)), NewStorage(make([]byte, 64))
	var all []*Tensor
	for _, of := range []*Storage{s, s, other} {
		for _, v := range []View{{DType: Float32, Shape: []int{4}, Stride: []int{1}},
			{DType: Int32, Shape: []int{4}, Stride: []int{1}}, {DType: Float32, Shape: []int{4}, Stride: []int{2}},
			{DType: Float32, Shape: []int{4}, Stride: []int{1}, Offset: 1},
			{DType: Float32, Shape: []int{2, 2}, Stride: []int{2, 1}}} {
			x, err := NewView(of, v)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, x)
		}
	}
	all = append(all, New(Float32, []int{1}, []float64{1}), New(Float32, []int{1}, []float64{1}))
	for i, a := range all {
		for j, b := range all {
			if same := a.Memory() == b.Memory(); same != a.SameMemory(b) {
				t.Errorf("%d and %d: the same key %v, the same memory %v", i, j, same, !same)
			}
		}
	}
}
