package tensor

import (
	"sync/atomic"
	"testing"
)

// TestMemo: once a block was asked for twice, blocks asked for again, whole or in
// part, are not computed again, and every element is that of the tensor.
func TestMemo(t *testing.T) {
	var calls atomic.Int64
	const n = 3*blockLen + 10
	x := Memo(Lazy(Float64, []int{n}, 1, func(lo int, dst []float64) {
		calls.Add(1)
		for i := range dst {
			dst[i] = float64(lo + i)
		}
	}))
	check := func(lo, k int, want int64) {
		t.Helper()
		dst := make([]float64, k)
		before := calls.Load()
		Load(x, lo, dst)
		for i, v := range dst {
			if v != float64(lo+i) {
				t.Fatalf("element %d is %v", lo+i, v)
			}
		}
		if got := calls.Load() - before; got != want {
			t.Errorf("%d elements from %d: computed %d times, want %d", k, lo, got, want)
		}
	}
	check(0, blockLen, 1)
	check(blockLen, blockLen, 1)
	check(0, blockLen, 1) // the second time: from now on they are kept
	check(0, blockLen, 0)
	check(100, 50, 0)
	check(blockLen, 100, 1) // a small part is not kept
	check(blockLen, 100, 1)
	check(blockLen-50, 100, 1) // over the border of two blocks
	check(3*blockLen, 10, 1)
	check(0, n, 1)
	for range 2 { // many blocks take turns
		for lo := 0; lo < n-blockLen; lo += blockLen {
			dst := make([]float64, blockLen)
			Load(x, lo, dst)
			if dst[7] != float64(lo+7) {
				t.Fatalf("element %d is %v", lo+7, dst[7])
			}
		}
	}
	if s := Scalar(Float64, 1.0); Memo(s) != s {
		t.Error("a tensor that is not lazy was wrapped")
	}
}
