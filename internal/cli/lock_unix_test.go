//go:build unix

package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Runs side by side, a measurement alone; the last leaves no file.
func TestLockDevice(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	var said bytes.Buffer
	a := &app{Streams: Streams{Out: &said, Err: &said}}
	lock := func(alone bool) func() {
		t.Helper()
		release, err := lockDevice(t.Context(), a, "host", alone)
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	files := func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	first, second := lock(false), lock(false)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := lockDevice(ctx, a, "host", true); err == nil ||
		!strings.Contains(said.String(), "in use by another optool") {
		t.Errorf("a measurement beside others: error %v, said %q", err, said.String())
	}
	first()
	if n := files(); n != 1 {
		t.Errorf("%d files while one holds the lock, want 1", n)
	}
	second()
	if n := files(); n != 0 {
		t.Errorf("%d files left, want none", n)
	}

	// What killed runs left goes, what others hold stays.
	stale := filepath.Join(dir, fmt.Sprintf("optool-device-%d-dead.lock", os.Getuid()))
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := lockDevice(t.Context(), a, "/other.so", false)
	if err != nil {
		t.Fatal(err)
	}
	lock(false)()
	if _, err := os.Stat(stale); err == nil || files() != 1 {
		t.Errorf("%d files beside a run on another device, want 1 and not %s", files(), stale)
	}
	other()

	inside, most := 0, 0
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 5 {
				release, err := lockDevice(t.Context(),
					&app{Streams: Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}}, "host", true)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				inside++
				most = max(most, inside)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				inside--
				mu.Unlock()
				release()
			}
		})
	}
	group.Wait()
	if most != 1 {
		t.Errorf("%d measure at once, want 1", most)
	}
	if n := files(); n != 0 {
		t.Errorf("%d files left by measurements, want none", n)
	}

	said.Reset()
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	lock(true)()
	if !strings.Contains(said.String(), "not waited for") {
		t.Errorf("without a directory it said %q", said.String())
	}
}
