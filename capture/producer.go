package capture

import (
	"io"
	"iter"
	"path/filepath"
	"strings"

	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/pthformat"
)

// A producer is another recorder than op_tools. It lays down many calls in a directory or a file. A call's name within
// is the rest of its path.
//
// open lists the entries without reading their values. An entry that is read becomes a Record. Its arguments are Args,
// as called; the results of a record of kind Output are its Args too.
type producer struct {
	// begins reports whether a file of this name may begin a recording; only then
	// is it looked into.
	begins func(name string) bool
	// open reads what there is; ok is false if the file is something else. The
	// entries have paths relative to the directory.
	open func(dir, name string) (entries iter.Seq2[*Entry, error], ok bool)
	// hidden are patterns of the names beside the file that hold its values: no entries themselves.
	hidden []string
}

// producers are those that are known.
var producers = []*producer{&msprobe, &flashInfer, &flashInferTrace, &sglang, &passes, &hookProducer}

// producerOf is the producer that recorded the file of this name in dir, or nil.
func producerOf(dir, name string) (*producer, iter.Seq2[*Entry, error]) {
	for _, p := range producers {
		if p.begins(name) {
			if entries, ok := p.open(dir, name); ok {
				return p, entries
			}
		}
	}
	return nil, nil
}

// A recording holds the values of a call that are not in op_tools' files.
type recording interface {
	// describe reads what is said about the call, once for all of its values.
	describe() (description, error)
	// parts are where the values lie.
	parts() []files.Part
}

// A recording that remembers how many bytes its parts have is measured: they are asked for several times.
type measured interface {
	bytes() int64
}

// A description is what a producer says about a call. It is used by one goroutine.
type description interface {
	// record gives what op_tools would have in its file of kind k, and what has to be
	// closed after use.
	record(k Kind, mode pthformat.ReadMode) (*Record, []io.Closer, error)
}

// A description that says where tensors lay while the job ran is addressed.
type addressed interface {
	memories(k Kind) map[string]Memory
}

// place sets where an entry was found: in dir, which results call rel.
func (e *Entry) place(dir, rel string) {
	switch {
	case e.Rel == "": // the directory is the capture
	case rel == ".":
		rel = e.Rel
	default:
		rel = strings.TrimSuffix(rel, "/") + "/" + e.Rel
	}
	e.Dir, e.Rel = filepath.Join(dir, filepath.FromSlash(e.Rel)), rel
}

// newForeign is an entry of a producer, of that name within its recording.
func newForeign(l Layout, name string, r recording) *Entry {
	return &Entry{Rel: name, Call: name, Name: Name{ID: -1, PID: -1, Rank: -1, Layout: l}, Step: -1, Order: -1,
		BackwardOrder: -1, Within: -1, WithinBackward: -1, rec: r}
}

// scanInside yields the call that a path names inside of a recording: a path that
// does not exist as such.
func scanInside(path, prefix string, yield func(*Entry, error) bool) (found, more bool) {
	dir, inside := filepath.Dir(path), filepath.Base(path)
	for range 2 {
		info, err := files.Stat(dir)
		if err != nil {
			dir, inside = filepath.Dir(dir), filepath.Base(dir)+"/"+inside
			continue
		}
		names := []string{filepath.Base(dir)}
		if info.IsDir() {
			listed, err := readDir(dir)
			if err != nil {
				return false, true
			}
			names = names[:0]
			for _, d := range listed {
				names = append(names, d.name)
			}
		} else {
			inside = names[0] + "/" + inside
			dir = filepath.Dir(dir)
		}
		for _, name := range names {
			_, entries := producerOf(dir, name)
			if entries == nil {
				continue
			}
			for e, err := range entries {
				if err == nil && e.Rel == filepath.ToSlash(inside) {
					e.place(dir, ".")
					e.Rel = "."
					if prefix != "" {
						e.Rel = prefix
					}
					return true, yield(e, nil)
				}
			}
		}
		return false, true
	}
	return false, true
}
