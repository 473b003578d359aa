package capture

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// tree makes captures of two operators, and sets all directories to have changed long ago.
func indexedTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for i := range 20 {
		dir := filepath.Join(root, []string{"torch.add", "torch.mul"}[i%2], "25021", fmt.Sprint(i), "2026-11-20-21-06-10")
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "input.pth"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-time.Hour)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chtimes(path, old, old)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func listWith(t *testing.T, root string, x *Index) (names []string) {
	t.Helper()
	for e, err := range Scan(t.Context(), []string{root}, Options{Index: x}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprint(e.Rel, e.Op, e.ID, e.Files))
	}
	return names
}

func readIndex(t *testing.T, path string) *Index {
	t.Helper()
	x, err := ReadIndex(path)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// A tree is listed the same with an index, which knows what did not change and nothing else.
func TestIndex(t *testing.T) {
	root := indexedTree(t)
	path := filepath.Join(t.TempDir(), "tree.idx")
	check := func(what string, read bool) {
		t.Helper()
		x := readIndex(t, path)
		if got, want := fmt.Sprint(listWith(t, root, x)), fmt.Sprint(listWith(t, root, nil)); got != want {
			t.Errorf("%s: lists %s,\nwant  %s", what, got, want)
		}
		if (len(x.fresh) > 0) != read {
			t.Errorf("%s: directories were read: %v, want %v", what, len(x.fresh) > 0, read)
		}
		if err := x.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	check("without an index", true)
	check("with one", false)

	changed := filepath.Join(root, "torch.add", "25021", "4", "2026-11-20-21-06-10")
	if err := os.WriteFile(filepath.Join(changed, "output.pth"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-time.Minute)
	if err := os.Chtimes(changed, then, then); err != nil {
		t.Fatal(err)
	}
	check("a file more", true)
	check("after that", false)
	if err := os.RemoveAll(filepath.Join(root, "torch.mul")); err != nil {
		t.Fatal(err)
	}
	check("an operator less, just now", false) // the directory changed too late to be believed
	if err := os.Chtimes(root, then, then); err != nil {
		t.Fatal(err)
	}
	check("an operator less", true)
	x := readIndex(t, path)
	if n := len(x.at); n != 1+1+1+10+10 {
		t.Errorf("the index has %d directories, want those that are left", n)
	}

	// Damage costs what it hits, no more.
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range whole {
		if err := os.WriteFile(path, whole[:cut], 0o666); err != nil {
			t.Fatal(err)
		}
		if x := readIndex(t, path); cut%50 == 0 && len(listWith(t, root, x)) != 10 {
			t.Errorf("index cut at %d: other captures", cut)
		}
	}
}
