package capture

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/internal/run/folder"
	"github.com/optool/optool/pthformat"
)

// Options of a scan.
type Options struct {
	// Loose also yields files that belong to no capture and may hold values (.pth,
	// .pt, .safetensors, ...), each as an entry of layout File.
	Loose bool
	// Index spares reading directories that did not change; nil to read all.
	Index *Index
}

// marker is the file that marks what optool wrote.
const marker = "written-by-optool"

// Mark marks a directory as written by optool: a scan passes it over, unless it is
// the path given, or nothing else is found under that.
func Mark(dir string) error {
	return os.WriteFile(filepath.Join(dir, marker), []byte("optool replay wrote this directory: it is read as a "+
		"capture only where it is named, or nothing else is found.\n"), 0o666)
}

// Marked reports whether optool wrote a directory.
func Marked(dir string) bool { return !MarkedAt(dir).IsZero() }

// MarkedAt is when optool marked a directory, zero if it did not.
func MarkedAt(dir string) time.Time {
	info, err := os.Stat(filepath.Join(dir, marker))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// IsValueFile reports whether a file of this name may hold values.
func IsValueFile(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".pt", ".pth", ".pt2", ".ckpt", ".safetensors", ".npy", ".npz", pthformat.ShardExt:
		return true
	}
	return weights().MatchString(name)
}

// ValueFiles are the names in a directory of files that may hold values. The shards of a
// distributed checkpoint are read by its metadata.
func ValueFiles(names []string) []string {
	shards, metadata := false, slices.Contains(names, pthformat.MetadataName)
	for _, name := range names {
		shards = shards || filepath.Ext(name) == pthformat.ShardExt
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		switch {
		case filepath.Ext(name) == pthformat.ShardExt:
			return metadata
		case name == pthformat.MetadataName:
			return !shards
		}
		return !IsValueFile(name)
	})
}

// weights are files of torch.save as transformers and diffusers call them.
var weights = lazyregexp.New(`^(\w+_)?(pytorch_)?model([.-].*)?\.bin$`)

// Scan finds the recorded calls under the paths and yields them one by one, in
// the order of the paths and, within one, sorted by path with numbers compared
// by value. Only directories are read, each once; no file is opened.
//
// A directory that cannot be read is yielded as an error and the scan goes on.
// Names are relative to the path given; with several paths they begin with it.
// The scan ends early when ctx is done.
func Scan(ctx context.Context, paths []string, opt Options) iter.Seq2[*Entry, error] {
	return func(each func(*Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		yield := counted(each)
		for _, p := range paths {
			prefix := ""
			if len(paths) > 1 {
				prefix = filepath.ToSlash(p)
			}
			if !scanPath(ctx, p, prefix, opt, yield) {
				return
			}
		}
	}
}

// counted has each entry say the how many-th call of its operator it is in its process. Processes of two folders may
// have one number.
func counted(yield func(*Entry, error) bool) func(*Entry, error) bool {
	type operator struct {
		folder, op       string
		pid, rank, sides int
	}
	seen := map[operator]int{}
	return func(e *Entry, err error) bool {
		if e != nil {
			k := operator{folder.Of(e.Rel, e.Op, e.PID, e.Rank).Folder, e.Op, e.PID, e.Rank, int(e.sides)}
			seen[k]++
			e.Occurrence = seen[k]
		}
		return yield(e, err)
	}
}

func scanPath(ctx context.Context, path, prefix string, opt Options, yield func(*Entry, error) bool) bool {
	info, err := files.Stat(path)
	if err != nil {
		if found, more := scanInside(path, prefix, yield); found {
			return more
		}
		return yield(nil, err)
	}
	abs, err := files.Abs(path)
	if err != nil {
		return yield(nil, err)
	}
	if !info.IsDir() {
		if _, entries := producerOf(filepath.Dir(path), filepath.Base(path)); entries != nil {
			return placed(ctx, entries, filepath.Dir(path), cmp.Or(prefix, "."), yield)
		}
		rel := prefix
		if rel == "" {
			rel = filepath.Base(path)
		}
		return yield(newSingle(filepath.Dir(path), filepath.Base(path), filepath.Dir(abs), rel), nil)
	}
	found := false
	w := &walker{ctx: ctx, opt: opt, root: path, abs: abs, prefix: prefix,
		free: make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
		yield: func(e *Entry, err error) bool {
			found = true
			return yield(e, err)
		}}
	if !w.visit("", w.read("", 0)) {
		return false
	}
	if !found && w.passed {
		w.own = true
		return w.visit("", w.read("", 0))
	}
	return true
}

// placed yields the entries of a recording in dir, which results call rel.
func placed(ctx context.Context, entries iter.Seq2[*Entry, error], dir, rel string,
	yield func(*Entry, error) bool) bool {
	for e, err := range entries {
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			e.place(dir, rel)
		}
		var damaged *FileError
		if errors.As(err, &damaged) {
			damaged.Rel = path.Join(rel, filepath.Base(damaged.Path))
		}
		if !yield(e, err) {
			return false
		}
	}
	return true
}

// A walker yields the captures of one tree. Directories are read ahead of the
// point reached, by a few goroutines at a time and a bounded distance, so that
// the order stays that of the paths and memory stays bounded.
type walker struct {
	ctx    context.Context
	opt    Options
	yield  func(*Entry, error) bool
	root   string // as given
	abs    string
	prefix string
	free   chan struct{} // one token per directory being read
	own    bool          // what optool wrote is not passed over
	passed bool          // something was
}

// ahead is how many directories of one level are read before they are reached:
// enough to keep the readers busy, a few kilobytes of names each.
const ahead = 64

// A listing is what the walk needs of one directory.
type listing struct {
	err   error
	own   bool    // written by optool
	said  bool    // has a callFile
	files FileSet // input.pth, ...
	flat  [2]FileSet
	loose []string
	dirs  []string
	by    []foreign  // recordings of other producers
	sub   []*listing // of dirs, where read already: short lists only
}

// A foreign is a recording of another producer, and the file that it begins with.
type foreign struct {
	name    string
	entries iter.Seq2[*Entry, error]
}

// read lists a directory, and its sub-directories too where there are few.
func (w *walker) read(rel string, depth int) *listing {
	l := &listing{}
	list := readDir
	if w.opt.Index != nil {
		list = w.opt.Index.readDir
	}
	entries, err := list(filepath.Join(w.root, rel))
	if err != nil {
		l.err = err
		return l
	}
	var hidden []string
	for _, d := range entries {
		name := d.name
		if w.isDir(rel, d) {
			l.dirs = append(l.dirs, name)
			continue
		}
		if name == marker {
			l.own = true
			continue
		}
		l.said = l.said || name == callFile
		if p, entries := producerOf(filepath.Join(w.root, rel), name); p != nil {
			l.by = append(l.by, foreign{name, entries})
			hidden = append(hidden, p.hidden...)
			continue
		}
		switch prefix, k, ok := fileOf(name); {
		case ok && prefix == "":
			l.files.add(k)
		case ok && prefix == Device.String():
			l.flat[Device].add(k)
		case ok:
			l.flat[Host].add(k)
		case w.opt.Loose:
			l.loose = append(l.loose, name)
		}
	}
	l.loose = ValueFiles(l.loose)
	isHidden := func(name string) bool {
		return slices.ContainsFunc(hidden, func(pattern string) bool {
			ok, _ := path.Match(pattern, name)
			return ok
		})
	}
	l.dirs, l.loose = slices.DeleteFunc(l.dirs, isHidden), slices.DeleteFunc(l.loose, isHidden)
	slices.SortFunc(l.by, func(a, b foreign) int { return compareNames(a.name, b.name) })
	slices.SortFunc(l.dirs, compareNames)
	slices.Sort(l.loose)
	if len(l.dirs) <= 2 && depth < 4 {
		for _, d := range l.dirs {
			l.sub = append(l.sub, w.read(join(rel, d), depth+1))
		}
	}
	return l
}

// A dirEntry is a name in a directory and what the directory says it is.
type dirEntry struct {
	name string
	kind dirKind
}

type dirKind uint8

const (
	isFile   dirKind = iota
	isDir            // a directory
	mayBeDir         // a link, or not told: has to be examined
)

// isDir reports whether d is a directory to walk: itself one, or a link to one
// that does not lead back.
func (w *walker) isDir(rel string, d dirEntry) bool {
	if d.kind != mayBeDir {
		return d.kind == isDir
	}
	info, err := os.Stat(filepath.Join(w.root, rel, d.name))
	return err == nil && info.IsDir() && !w.loops(rel, info)
}

// loops reports whether a linked directory is one of those that lead to it.
func (w *walker) loops(rel string, target os.FileInfo) bool {
	for p := filepath.Join(w.abs, rel); ; p = filepath.Dir(p) {
		if info, err := os.Stat(p); err == nil && os.SameFile(info, target) {
			return true
		}
		if p == filepath.Dir(p) {
			return false
		}
	}
}

// visit yields what l holds, then what its directories hold.
func (w *walker) visit(rel string, l *listing) bool {
	if w.ctx.Err() != nil {
		return false
	}
	if l.err != nil {
		return w.yield(nil, l.err)
	}
	if l.own && rel != "" && !w.own {
		w.passed = true
		return true
	}
	if l.files.Has(Input) || l.files.Has(Output) {
		e := w.entry(rel, plain, l.files, 0)
		if l.said {
			e.readCallFile()
		}
		if !w.yield(e, nil) {
			return false
		}
	}
	if l.flat != [2]FileSet{} && !w.yield(w.entry(rel, flat, l.flat[Device], l.flat[Host]), nil) {
		return false
	}
	for _, f := range l.by {
		if !placed(w.ctx, f.entries, filepath.Join(w.root, rel), w.relName(rel), w.yield) {
			return false
		}
	}
	for _, name := range l.loose {
		dir := filepath.Join(w.root, rel)
		if !w.yield(newSingle(dir, name, filepath.Join(w.abs, rel), w.relName(join(rel, name))), nil) {
			return false
		}
	}
	return w.visitDirs(rel, l)
}

// visitDirs visits the sub-directories of a listing in order, reading ahead.
func (w *walker) visitDirs(rel string, l *listing) bool {
	pending := make(chan chan *listing, ahead)
	if l.sub == nil && len(l.dirs) > 0 {
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for _, d := range l.dirs {
				c := make(chan *listing, 1)
				select {
				case pending <- c:
				case <-stop:
					return
				}
				w.free <- struct{}{}
				go func() {
					c <- w.read(join(rel, d), 0)
					<-w.free
				}()
			}
		}()
	}
	var pair [2]*listing
	for i, d := range l.dirs {
		var sub *listing
		if l.sub != nil {
			sub = l.sub[i]
		} else {
			sub = <-<-pending
		}
		if s, ok := sideOf(d); ok && sub.err == nil && sub.files != 0 {
			pair[s] = sub
			continue
		}
		if !w.visit(join(rel, d), sub) {
			return false
		}
	}
	if pair == [2]*listing{} {
		return true
	}
	var files [2]FileSet
	for s, sub := range pair {
		if sub != nil {
			files[s] = sub.files
		}
	}
	return w.yield(w.entry(rel, folders, files[Device], files[Host]), nil)
}

func sideOf(name string) (Side, bool) {
	switch name {
	case "device":
		return Device, true
	case "cpu":
		return Host, true
	}
	return 0, false
}

func (w *walker) entry(rel string, s sides, files, host FileSet) *Entry {
	return &Entry{
		Rel: w.relName(rel), Dir: filepath.Join(w.root, rel), Name: parseName(filepath.Join(w.abs, rel), s),
		Files: files, Host: host, sides: s, Step: -1, Order: -1, BackwardOrder: -1, Within: -1, WithinBackward: -1,
	}
}

// relName is how results name the path rel under the root.
func (w *walker) relName(rel string) string {
	switch {
	case w.prefix == "" && rel == "":
		return "."
	case w.prefix == "":
		return rel
	case rel == "":
		return w.prefix
	}
	return strings.TrimSuffix(w.prefix, "/") + "/" + rel
}

func join(rel, name string) string {
	if rel == "" {
		return name
	}
	return rel + "/" + name
}
