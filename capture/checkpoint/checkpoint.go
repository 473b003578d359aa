// Package checkpoint reads values by name: a tensor, list or state_dict in one file,
// or the files of a directory taken together, such as the shards of a checkpoint.
package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/internal/smallfile"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Named is a value with its name.
type Named struct {
	Name  string
	File  string // relative to the path given; its base name where that is a file
	Value value.Value
	// Bare says that the file holds this value in no container: it has no name of its own.
	Bare bool

	group string // of ranks that may each hold a part; "" without ranks
	rank  int

	sharding    *sharding // of a value of SGLang's dumper
	step, index int       // when that was written
}

// A Set is the values of a path. Close it.
type Set struct {
	Path   string
	Values []*Named // in the order of files and of what is in them
	// Failures are files that could not be read, shards that an index names and that are
	// not there, and values whose parts could not be joined.
	Failures []Failure

	files []*pthformat.File
}

// A Failure is what could not be read, and why.
type Failure struct {
	Name string // of the file, relative to the path given, or of the value
	Err  error
}

var (
	// shard is what numbered parts of one checkpoint have in their names.
	shard = lazyregexp.New(`[-_.]\d+-of-\d+`)
	// ranked is a part of a path that names the rank of a process.
	ranked = lazyregexp.New(`(?i)(^|[/_.-])((?:mp_|tp_|model_parallel_)?rank|tp|shard)[_-]?(\d{1,6})`)
)

// Open reads what there is of a file or directory. Where ranks hold parts that will
// be joined (see Set.Unshard), names do not say the rank. The error is that of a path
// that cannot be read, or of ctx.
func Open(ctx context.Context, path string, read pthformat.ReadMode, joined bool) (*Set, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	s := &Set{Path: path}
	if !info.IsDir() {
		if err := s.add(path, filepath.Base(path), "", read); err != nil {
			s.Close()
			return nil, err
		}
		return s, nil
	}
	rels, err := list(ctx, path)
	if err != nil {
		return nil, err
	}
	s.missingShards(path, rels)
	prefixes := prefixesOf(rels, joined)
	for i, rel := range rels {
		if err := ctx.Err(); err != nil {
			s.Close()
			return nil, err
		}
		if err := s.add(filepath.Join(path, rel), rel, prefixes[i], read); err != nil {
			s.Failures = append(s.Failures, Failure{rel, err})
		}
	}
	s.orderDumped()
	return s, nil
}

// list finds the files below a directory that may hold values, sorted.
func list(ctx context.Context, root string) (rels []string, err error) {
	root = filepath.Clean(root) // as filepath.Dir has it
	byDir := map[string][]string{}
	var dirs []string
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if d.IsDir() {
			dirs = append(dirs, path)
			return nil
		}
		dir := filepath.Dir(path)
		byDir[dir] = append(byDir[dir], d.Name())
		return nil
	})
	for _, dir := range dirs {
		for _, name := range capture.ValueFiles(byDir[dir]) {
			rel, err := filepath.Rel(root, filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			rels = append(rels, filepath.ToSlash(rel))
		}
	}
	slices.Sort(rels)
	return rels, err
}

// stem is the name of a file without what numbers it and without its extension.
func stem(rel string) string {
	rel = strings.TrimSuffix(rel, filepath.Ext(rel)) // of .metadata nothing is left
	return shard().ReplaceAllString(rel, "")
}

// prefixesOf gives what names of a file's values begin with: nothing where all files
// are parts of one checkpoint, else the file's own name.
func prefixesOf(rels []string, joined bool) []string {
	prefixes := make([]string, len(rels))
	for i, rel := range rels {
		prefixes[i] = stem(rel)
		if joined {
			prefixes[i] = strings.Trim(ranked().ReplaceAllString(prefixes[i], ""), "/._-")
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(prefixes)))) <= 1 {
		clear(prefixes)
	}
	return prefixes
}

// missingShards reads the indices of a directory.
func (s *Set) missingShards(root string, rels []string) {
	indices, _ := filepath.Glob(filepath.Join(root, "*.index.json"))
	for _, path := range indices {
		b, err := smallfile.Read(path, 4*smallfile.Most)
		var index struct {
			Weights map[string]string `json:"weight_map"`
		}
		if err == nil {
			err = json.Unmarshal(b, &index)
		}
		if err != nil {
			name := filepath.Base(path)
			s.Failures = append(s.Failures, Failure{name, fmt.Errorf("%s: %w", name, err)})
			continue
		}
		missing := map[string]int{}
		for _, file := range index.Weights {
			if !slices.Contains(rels, file) {
				missing[file]++
			}
		}
		for _, file := range slices.Sorted(maps.Keys(missing)) {
			s.Failures = append(s.Failures, Failure{file, fmt.Errorf("%s: shard %q with %d values is missing",
				filepath.Base(path), file, missing[file])})
		}
	}
}

// add reads one file.
func (s *Set) add(path, rel, prefix string, read pthformat.ReadMode) error {
	f, err := pthformat.Open(path, pthformat.Options{Read: read})
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	if e := capture.Dumped(rel); e != nil {
		return s.addDumped(e, f.Root, rel)
	}
	named, err := Flatten(f.Root)
	if err != nil {
		return fmt.Errorf("%s: %w", rel, err)
	}
	group, rank := "", 0
	if m := ranked().FindStringSubmatchIndex(rel); m != nil {
		rank, _ = strconv.Atoi(rel[m[6]:m[7]])
		group = rel[:m[4]] + "#" + rel[m[7]:]
	}
	for _, n := range named {
		n.File, n.group, n.rank = rel, group, rank
		switch {
		case prefix == "":
		case n.Name == "value":
			n.Name = prefix
		default:
			n.Name = prefix + "." + n.Name
		}
	}
	s.Values = append(s.Values, named...)
	return nil
}

// Flatten names the values in a file: keys of dicts are joined by dots, items of
// lists numbered, and a value that stands alone is called value. Of an object its parts
// are listed after it.
func Flatten(root value.Value) ([]*Named, error) {
	all, err := value.Open("", root)
	if err != nil {
		return nil, err
	}
	out := make([]*Named, len(all))
	for i, n := range all {
		out[i] = &Named{Name: n.Name, Value: n.Value}
	}
	if len(out) > 0 && len(value.Parts(root)) == 0 {
		out[0].Bare = true
	}
	return out, nil
}

// Close releases the files; tensors of the set must not be used after it.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}

// Transposed is a tensor with its last two axes exchanged; other values are
// returned as they are.
func Transposed(v value.Value) value.Value {
	if t, ok := v.(*tensor.Tensor); ok && t.Dim() >= 2 {
		return t.Transpose(t.Dim()-2, t.Dim()-1)
	}
	return v
}
