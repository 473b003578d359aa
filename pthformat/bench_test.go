package pthformat

import (
	"os"
	"path/filepath"
	"testing"
)

func BenchmarkOpenSmall(b *testing.B) {
	path := filepath.Join("testdata", "torch", "getitem.pth")
	if p := os.Getenv("PTH"); p != "" {
		path = p
	}
	for _, m := range []struct {
		name string
		mode ReadMode
	}{{"mmap", Mmap}, {"plain", Plain}} {
		b.Run(m.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f, err := Open(path, Options{Read: m.mode})
				if err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
		})
	}
}
