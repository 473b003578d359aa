package pthformat

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// BenchmarkOpenSmall opens and closes a capture of 1 KB: one tensor of 208
// bytes and two slices.
func BenchmarkOpenSmall(b *testing.B) {
	path := filepath.Join("testdata", "torch", "getitem.pth")
	st, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(st.Size())
	b.ReportAllocs()
	for b.Loop() {
		f, err := Open(path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

// BenchmarkFirstValue opens a file of 256 MiB, reads one element and closes
// it, in both read modes. Plain reads the storage the element is in.
func BenchmarkFirstValue(b *testing.B) {
	const n = 64 << 20
	path := filepath.Join(b.TempDir(), "large.pth")
	if err := WriteFile(path, value.NewTuple(largeTensor(b, n))); err != nil {
		b.Fatal(err)
	}
	for name, mode := range map[string]ReadMode{"mmap": Mmap, "plain": Plain} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(4 * n)
			for b.Loop() {
				f, err := Open(path, Options{Read: mode})
				if err != nil {
					b.Fatal(err)
				}
				tensor.At[float64](value.Tensors(f.Root)[0], n/2)
				f.Close()
			}
		})
	}
}

// BenchmarkWrite writes a tensor of 16 MiB to memory.
func BenchmarkWrite(b *testing.B) {
	const n = 4 << 20
	v := value.NewTuple(largeTensor(b, n))
	var buf bytes.Buffer
	b.SetBytes(4 * n)
	for b.Loop() {
		buf.Reset()
		if err := Write(&buf, "x", v); err != nil {
			b.Fatal(err)
		}
	}
}

// largeTensor is a stored float32 tensor of n elements.
func largeTensor(b *testing.B, n int) *tensor.Tensor {
	b.Helper()
	t, err := tensor.NewView(tensor.NewStorage(make([]byte, 4*n)), tensor.View{DType: tensor.Float32, Shape: []int{n},
		Stride: []int{1}})
	if err != nil {
		b.Fatal(err)
	}
	return t
}
