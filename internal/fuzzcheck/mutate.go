package fuzzcheck

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Mutants is how many damaged recordings a test looks at: few (a quarter of them with -short), or as many as
// OPTOOL_MUTANTS says.
func Mutants(t testing.TB, few int) int {
	t.Helper()
	env := os.Getenv("OPTOOL_MUTANTS")
	if env == "" && testing.Short() {
		return max(1, few/4)
	}
	if env == "" {
		return few
	}
	n, err := strconv.Atoi(env)
	if err != nil {
		t.Fatalf("OPTOOL_MUTANTS: %v", err)
	}
	return n
}

// Seed is what OPTOOL_SEED says, 0 if it is not set: another seed damages recordings in other ways.
func Seed(t testing.TB) uint64 {
	t.Helper()
	env := os.Getenv("OPTOOL_SEED")
	if env == "" {
		return 0
	}
	n, err := strconv.ParseUint(env, 10, 64)
	if err != nil {
		t.Fatalf("OPTOOL_SEED: %v", err)
	}
	return n
}

// Returns runs f and fails the test, which is about what, if f panics or does not come back.
func Returns(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				t.Errorf("%s: panic: %v\n%s", what, r, debug.Stack())
			}
		}()
		f()
	}()
	most := 6 * patience(t) // for several inputs
	select {
	case <-done:
	case <-time.After(most):
		t.Fatalf("%s: not done after %v", what, most)
	}
}

// MutateFile damages one of the files below a directory whose names end in one of
// suffixes, of any if there are none. It says which, relative to the directory, and how.
func MutateFile(t testing.TB, r *rand.Rand, dir string, suffixes ...string) (rel, how string) {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (len(suffixes) == 0 || slices.ContainsFunc(suffixes, func(s string) bool {
			return strings.HasSuffix(path, s)
		})) {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: files %v, %v", dir, files, err)
	}
	path := files[r.IntN(len(files))]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	how, b = Mutate(r, b)
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	rel, err = filepath.Rel(dir, path)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(rel), how
}

// Mutate damages a file, and says how: its bytes, or its structure where it is made of
// records (zip), lines or objects (JSON), or a header (safetensors), which is then whole
// and says something else.
func Mutate(r *rand.Rand, b []byte) (how string, mutant []byte) {
	if r.IntN(2) == 0 {
		for _, structure := range []func(*rand.Rand, []byte) (string, []byte){mutateZip, mutateJSON, mutateHeader} {
			if how, mutant = structure(r, b); how != "" {
				return how, mutant
			}
		}
	}
	return mutateBytes(r, b)
}

// mutateBytes damages bytes wherever they are.
func mutateBytes(r *rand.Rand, b []byte) (string, []byte) {
	b = bytes.Clone(b)
	if len(b) == 0 {
		return "nothing", b
	}
	at := r.IntN(len(b))
	to := min(len(b), at+1+r.IntN(64))
	switch r.IntN(7) {
	case 0:
		b[at] ^= 1 << r.IntN(8)
		return fmt.Sprintf("a bit of byte %d", at), b
	case 1:
		for range 1 + r.IntN(8) {
			b[r.IntN(len(b))] = byte(r.IntN(256))
		}
		return "some bytes", b
	case 2:
		return fmt.Sprintf("cut at %d", at), b[:at]
	case 3:
		return fmt.Sprintf("without %d to %d", at, to), append(b[:at], b[to:]...)
	case 4:
		return fmt.Sprintf("%d to %d twice", at, to), append(b[:to:to], b[at:]...)
	case 5:
		word := words[r.IntN(len(words))]
		end := at
		for end < len(b) && b[end] >= '0' && b[end] <= '9' {
			end++
		}
		return fmt.Sprintf("%q at %d", word, at), slices.Concat(b[:at], []byte(word), b[end:])
	}
	for i := at; i < to; i++ {
		b[i] = [...]byte{0, 0xff, 0x7f, 0x80}[r.IntN(4)]
	}
	return fmt.Sprintf("%d to %d extreme", at, to), b
}

// words are what a text may hold and its reader does not expect.
var words = []string{"-1", "9223372036854775807", "99999999999999999999", "1e999", "NaN", "null", "{}", "[", "]", `"`,
	"../../", "\x00", "\xff", "0", "4611686018427387904"}

// mutateZip damages a record of a zip, whose checksum is then right again.
func mutateZip(r *rand.Rand, b []byte) (string, []byte) {
	in, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil || len(in.File) == 0 {
		return "", nil
	}
	k := r.IntN(len(in.File))
	if r.IntN(2) == 0 { // the structure more often than elements
		for i, f := range in.File {
			if strings.HasSuffix(f.Name, "data.pkl") {
				k = i
			}
		}
	}
	var out bytes.Buffer
	var how string
	w := zip.NewWriter(&out)
	for i, f := range in.File {
		c, err := f.Open()
		if err != nil {
			return "", nil
		}
		content, err := io.ReadAll(c)
		if err != nil {
			return "", nil
		}
		if i == k {
			how, content = mutateBytes(r, content)
			how = "record " + f.Name + ": " + how
		}
		to, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Store})
		if err == nil {
			_, err = to.Write(content)
		}
		if err != nil {
			return "", nil
		}
	}
	if err := w.Close(); err != nil {
		return "", nil
	}
	return how, out.Bytes()
}

// mutateJSON changes the structure of a line of JSON, or of the whole if it is one value.
func mutateJSON(r *rand.Rand, b []byte) (string, []byte) {
	if json.Valid(b) {
		return restructure(r, b)
	}
	lines := bytes.Split(b, []byte("\n"))
	k := r.IntN(len(lines))
	if !json.Valid(lines[k]) {
		return "", nil
	}
	how, line := restructure(r, lines[k])
	lines = slices.Clone(lines)
	switch r.IntN(6) {
	case 0:
		how, lines = "left out", slices.Delete(lines, k, k+1)
	case 1:
		how, lines = "twice", slices.Insert(lines, k, lines[k])
	case 2:
		other := r.IntN(len(lines))
		lines[k], lines[other] = lines[other], lines[k]
		how = fmt.Sprintf("exchanged with %d", other+1)
	default:
		lines[k] = line
	}
	return fmt.Sprintf("line %d: %s", k+1, how), bytes.Join(lines, []byte("\n"))
}

// mutateHeader changes the structure of the header of safetensors.
func mutateHeader(r *rand.Rand, b []byte) (string, []byte) {
	if len(b) < 10 || b[8] != '{' {
		return "", nil
	}
	n := binary.LittleEndian.Uint64(b)
	if n > uint64(len(b)-8) || !json.Valid(b[8:8+n]) {
		return "", nil
	}
	how, header := restructure(r, b[8:8+n])
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return "header: " + how, slices.Concat(out, header, b[8+n:])
}

// A node is a place in a tree of JSON: where its value is, how to replace it, and what
// leads there.
type node struct {
	path string
	set  func(any)
	drop func()
}

// restructure replaces, removes or repeats one value of a JSON text, and says which.
func restructure(r *rand.Rand, text []byte) (string, []byte) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var root any
	if d.Decode(&root) != nil {
		return "", nil
	}
	nodes := []node{{path: "$", set: func(v any) { root = v }}}
	values := []any{root}
	for at := 0; at < len(nodes); at++ {
		n := nodes[at]
		switch v := values[at].(type) {
		case map[string]any:
			for key, x := range ordered(v) {
				nodes = append(nodes, node{n.path + "." + key, func(y any) { v[key] = y }, func() { delete(v, key) }})
				values = append(values, x)
			}
		case []any:
			for i, x := range v {
				nodes = append(nodes, node{fmt.Sprintf("%s[%d]", n.path, i), func(y any) { v[i] = y },
					func() { n.set(slices.Delete(slices.Clone(v), i, i+1)) }})
				values = append(values, x)
			}
		}
	}
	k := r.IntN(len(nodes))
	n, how := nodes[k], "gone"
	others := []any{nil, true, json.Number("-1"), json.Number("0"), json.Number("9223372036854775807"),
		json.Number("1e400"), json.Number("0.5"), "", "../../x", map[string]any{}, []any{},
		[]any{json.Number("4611686018427387904"), json.Number("8")}, values[r.IntN(len(values))]}
	if number, ok := values[k].(json.Number); ok { // a size that is another
		if i, err := number.Int64(); err == nil {
			for _, j := range []int64{i + 1, i - 1, 2 * i, -i, 1000 * i} {
				others = append(others, json.Number(strconv.FormatInt(j, 10)))
			}
		}
	}
	if which := r.IntN(len(others) + 1); which < len(others) || n.drop == nil {
		other := others[which%len(others)]
		text, err := json.Marshal(other)
		if err != nil {
			return "", nil
		}
		n.set(json.RawMessage(text)) // not the value itself, which may hold the place
		how = fmt.Sprintf("is %.40s", text)
	} else {
		n.drop()
	}
	out, err := json.Marshal(root)
	if err != nil {
		return "", nil
	}
	return n.path + " " + how, out
}

// ordered are the items of an object in the order of their keys.
func ordered(m map[string]any) func(func(string, any) bool) {
	return func(yield func(string, any) bool) {
		keys := make([]string, 0, len(m))
		for key := range m {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}
