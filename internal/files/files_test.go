package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// What the store of these tests does and holds.
var (
	backend  = s3mem.New()
	requests atomic.Int64
	breaks   atomic.Int64 // so many answers to GET break off
	// stuck, if it is not nil, gets each request that comes, and none is answered.
	stuck atomic.Pointer[chan string]
)

// TestBytes: parts of a damaged recording are together no less than nothing.
func TestBytes(t *testing.T) {
	for _, huge := range []int64{math.MaxInt64, math.MaxInt64 - 1, 1 << 62} {
		if n := Bytes([]Part{{Bytes: huge}, {Bytes: huge}, {Bytes: 5}}); n != math.MaxInt64 {
			t.Errorf("parts of %d bytes twice: got %d bytes", huge, n)
		}
	}
}

func TestMain(m *testing.M) {
	served := gofakes3.New(backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if c := stuck.Load(); c != nil {
			*c <- r.URL.Path
			<-r.Context().Done()
			return
		}
		if r.Header.Get("Range") != "" && breaks.Add(-1) >= 0 {
			w = &breaking{w, 1000}
		}
		served.ServeHTTP(w, r)
	}))
	os.Setenv("AWS_ENDPOINT_URL", server.URL)
	os.Setenv("AWS_ACCESS_KEY_ID", "someone")
	os.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	code := m.Run()
	server.Close()
	os.Exit(code)
}

// breaking ends the connection after so many bytes.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	n, _ := b.ResponseWriter.Write(p[:min(len(p), b.left)])
	if b.left -= n; b.left == 0 {
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// put makes a bucket with objects.
func put(t *testing.T, bucket string, objects map[string][]byte) {
	t.Helper()
	if err := backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	for key, b := range objects {
		write(t, bucket, key, b)
	}
}

func write(t *testing.T, bucket, key string, b []byte) {
	t.Helper()
	meta := map[string]string{"Last-Modified": "Mon, 23 Nov 2026 10:00:00 GMT"}
	if _, err := backend.PutObject(bucket, key, meta, bytes.NewReader(b), int64(len(b)), nil); err != nil {
		t.Fatal(err)
	}
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n)})
	r.Read(b)
	return b
}

// TestTree lists a bucket with keys that name no file below their directory.
func TestTree(t *testing.T) {
	put(t, "tree", map[string][]byte{"a/x": nil, "a/b/y": {1, 2, 3}, "a/": nil, "a//z": nil, "a/../z": nil, "c": {1},
		"a.pth": {7}})
	for _, tc := range []struct {
		dir  string
		want []string
	}{
		{"s3://tree", []string{"a/", "a.pth", "c"}},
		{"s3:/tree/", []string{"a/", "a.pth", "c"}},
		{"s3://tree/a", []string{"b/", "x"}},
		{filepath.Join("s3://tree/a", "b"), []string{"y"}},
	} {
		names, err := ReadDir(tc.dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range names {
			name := n.Name()
			if n.IsDir() {
				name += "/"
			}
			got = append(got, name)
		}
		slices.Sort(got)
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.dir, got, tc.want)
		}
	}
	before := requests.Load()
	if i, err := Stat("s3://tree/a/b/y"); err != nil || i.Size() != 3 || i.IsDir() {
		t.Errorf("got %v, %v, want a file of 3 bytes", i, err)
	}
	if i, err := Stat("s3://tree/a/b"); err != nil || !i.IsDir() {
		t.Errorf("got %v, %v, want a directory", i, err)
	}
	if n := requests.Load() - before; n != 0 {
		t.Errorf("what was listed was asked for again, with %d requests", n)
	}
}

func TestMissing(t *testing.T) {
	put(t, "lonely", map[string][]byte{"dir/file": {1}})
	for _, path := range []string{"s3://lonely/nothing", "s3://lonely/dir/nothing", "s3://lonely/di"} {
		if _, err := Stat(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
			t.Errorf("Stat(%s): got %v, want that it does not exist", path, err)
		}
		if _, _, err := Open(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Open(%s): got %v, want that it does not exist", path, err)
		}
	}
	if _, _, err := Open("s3://lonely/dir"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("got %v, want that it is no regular file", err)
	}
	if _, err := Stat("s3://nowhere/x"); err == nil || !strings.Contains(err.Error(), "bucket does not exist") {
		t.Errorf("got %v, want that the bucket does not exist", err)
	}
	if _, err := Stat("s3://"); err == nil || !strings.Contains(err.Error(), "want s3://BUCKET/PREFIX") {
		t.Errorf("got %v, want what a path looks like", err)
	}
}

// TestRead reads parts at random, and all in order, also over answers that break off.
func TestRead(t *testing.T) {
	want := noise(2*blockSize + 12345)
	put(t, "read", map[string][]byte{"k": want, "empty": nil})
	f, size, err := Open("s3://read/k")
	if err != nil || size != int64(len(want)) {
		t.Fatalf("got %d bytes, %v, want %d", size, err, len(want))
	}
	defer f.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		at := r.IntN(len(want) + 1)
		b := make([]byte, r.IntN(2*blockSize))
		breaks.Store(int64(r.IntN(retries)))
		n, err := f.ReadAt(b, int64(at))
		left := want[at:min(at+len(b), len(want))]
		if !bytes.Equal(b[:n], left) || (err == io.EOF) != (len(left) < len(b)) || err != nil && err != io.EOF {
			t.Fatalf("%d bytes at %d: got %d, %v", len(b), at, n, err)
		}
	}
	breaks.Store(0)
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read in order: got %d bytes, %v, want %d", len(got), err, len(want))
	}
	e, size, err := Open("s3://read/empty")
	if err != nil || size != 0 {
		t.Fatalf("got %d bytes, %v, want none", size, err)
	}
	if got, err := io.ReadAll(e); err != nil || len(got) != 0 {
		t.Errorf("got %d bytes, %v, want none", len(got), err)
	}
}

func TestBrokenConnection(t *testing.T) {
	put(t, "broken", map[string][]byte{"k": noise(3 * blockSize)})
	f, _, err := Open("s3://broken/k")
	if err != nil {
		t.Fatal(err)
	}
	breaks.Store(1000)
	defer breaks.Store(0)
	_, err = f.ReadAt(make([]byte, 2*blockSize), 0)
	if err == nil || !strings.Contains(err.Error(), "s3://broken/k: ") {
		t.Errorf("got %v, want an error that names the object", err)
	}
}

// TestCancel: requests that a store never answers end at once, and no further ones are made.
func TestCancel(t *testing.T) {
	put(t, "stuck", map[string][]byte{"k": noise(100)})
	f, _, err := Open("s3://stuck/k")
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan string, 100)
	stuck.Store(&came)
	defer stuck.Store(nil)
	defer func() { process, cancel = context.WithCancel(context.Background()) }()
	done := make(chan error, 2)
	go func() {
		_, err := f.ReadAt(make([]byte, 10), 0)
		done <- err
	}()
	go func() {
		_, err := ReadDir("s3://stuck/dir")
		done <- err
	}()
	for range 2 {
		<-came
	}
	Cancel()
	for range 2 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it was canceled", err)
		}
	}
	if _, err := Stat("s3://stuck/k"); !errors.Is(err, context.Canceled) {
		t.Errorf("after it: %v", err)
	}
}

// TestListings: a store that does not answer for one tree keeps nobody from another.
func TestListings(t *testing.T) {
	put(t, "answers", map[string][]byte{"k": {1}})
	came := make(chan string, 100)
	stuck.Store(&came)
	defer func() { process, cancel = context.WithCancel(context.Background()) }()
	slow, other := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := ReadDir("s3://silent")
		slow <- err
	}()
	<-came
	stuck.Store(nil)
	go func() {
		_, err := ReadDir("s3://answers")
		other <- err
	}()
	select {
	case err := <-other:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("a tree waits until another is listed")
	}
	Cancel()
	if err := <-slow; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was canceled", err)
	}
}

// TestChanged writes an object again after it was opened.
func TestChanged(t *testing.T) {
	put(t, "changed", map[string][]byte{"k": noise(100)})
	f, _, err := Open("s3://changed/k")
	if err != nil {
		t.Fatal(err)
	}
	write(t, "changed", "k", noise(101))
	if _, err := f.ReadAt(make([]byte, 10), 0); err == nil || !strings.Contains(err.Error(), "changed while it was read") {
		t.Errorf("got %v, want that it changed", err)
	}
}

// TestCacheIsBounded reads more blocks than are kept, each once, and the last ones again.
func TestCacheIsBounded(t *testing.T) {
	c := blockCache{of: map[blockID]*block{}}
	reads := 0
	get := func(k int64) {
		if _, err := c.get(blockID{k: k}, func() ([]byte, error) { reads++; return []byte{byte(k)}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for k := range int64(3 * maxBlocks) {
		get(k)
		if len(c.of) > maxBlocks {
			t.Fatalf("%d blocks are kept, want at most %d", len(c.of), maxBlocks)
		}
	}
	for k := range int64(maxBlocks) {
		get(2*maxBlocks + k)
	}
	if reads != 3*maxBlocks {
		t.Errorf("%d reads, want %d", reads, 3*maxBlocks)
	}
	failed := errors.New("once")
	if _, err := c.get(blockID{k: -1}, func() ([]byte, error) { return nil, failed }); err != failed {
		t.Errorf("got %v, want %v", err, failed)
	}
	get(-1) // an error is not kept
}

func TestAbs(t *testing.T) {
	for path, want := range map[string]string{"s3:/b/x/../y/": "s3://b/y", "s3://b": "s3://b",
		"s3://bucket/../../etc": "s3://bucket/etc", "s3:/bucket/..": "s3://bucket"} {
		if got, err := Abs(path); err != nil || got != want {
			t.Errorf("Abs(%s): got %s, %v, want %s", path, got, err, want)
		}
	}
}
