package quota

import (
	"errors"
	"math"
	"testing"
)

// caught is the error that f panics with.
func caught(f func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	f()
	return nil
}

func TestMake(t *testing.T) {
	SetMemory(1 << 30)
	defer SetMemory(0)
	for _, c := range []struct {
		what string
		make func()
		ok   bool
	}{
		{"nothing", func() { Make[float64](0) }, true},
		{"a megabyte", func() { Make[float64](1 << 17) }, true},
		{"more than the limit", func() { Make[float64](1 << 28) }, false},
		{"more than an int64 holds", func() { Make[complex128](1 << 60) }, false},
		{"a product that overflowed", func() { Make[byte](math.MinInt64) }, false},
	} {
		err := caught(c.make)
		if memory := (*MemoryError)(nil); (err == nil) != c.ok || err != nil && !errors.As(err, &memory) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestMakeManySmall: slices that are small each are counted together.
func TestMakeManySmall(t *testing.T) {
	SetMemory(256 << 20)
	defer SetMemory(0)
	var kept [][]byte
	err := caught(func() {
		for range 512 {
			kept = append(kept, Make[byte](1<<20))
		}
	})
	if err == nil {
		t.Errorf("%d MiB were made within 256 MiB", len(kept))
	}
}

func TestNoLimit(t *testing.T) {
	if err := caught(func() { Make[float64](1 << 50) }); err == nil {
		t.Error("2^50 numbers were made")
	}
}

func TestStop(t *testing.T) {
	Stop()
	defer Resume()
	if err := caught(func() { Make[byte](1) }); !errors.Is(err, ErrStopped) {
		t.Errorf("got %v, want %v", err, ErrStopped)
	}
	Resume()
	if err := caught(Check); err != nil {
		t.Errorf("after Resume: %v", err)
	}
}

func TestSteps(t *testing.T) {
	if Steps(5) != 5 {
		t.Error("5 steps are not 5")
	}
	if err := caught(func() { Steps(MaxSteps + 1) }); err == nil {
		t.Error("more steps than MaxSteps were allowed")
	}
}
