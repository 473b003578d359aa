package rundir

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/wholefile"
	"github.com/optool/optool/reports"
)

// Files of a run directory.
const (
	settingsFile = "settings.json"
	journalFile  = "run.jsonl"
	startedFile  = "started.jsonl"
	lockFile     = "lock"
	indexFile    = "tree.idx"
	shardsDir    = "shards"
	logsDir      = "logs" // of a scheduler, which may make it before the run does
	tempPrefix   = "."    // of files that are to be renamed
	tempSuffix   = ".tmp" // of databases that are
)

// tempAge is the age at which a temporary file of the whole run counts as left over. Until then
// another part may be writing it.
const tempAge = time.Hour

// A Dir is the directory of a run, or of a part of one, that this process holds.
type Dir struct {
	Root string // as given
	Path string // of this part; Root if the run has none
	// Settings are those the run was begun with.
	Settings *Settings
	// Journal is what was finished before this process, nil if the run begins.
	Journal *reports.Journal
	// InFlight are the captures that were being worked on when the run was stopped.
	InFlight []string

	lock *lock
}

// A Part is one of several into which a run is cut: the I-th of N, from 1.
type Part struct{ I, N int }

// ParsePart reads "3/8".
func ParsePart(s string) (Part, error) {
	i, n, ok := strings.Cut(s, "/")
	p := Part{}
	var err1, err2 error
	p.I, err1 = strconv.Atoi(i)
	p.N, err2 = strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || p.I < 1 || p.I > p.N {
		return Part{}, fmt.Errorf("want I/N with I from 1 to N, got %q", s)
	}
	return p, nil
}

func (p Part) String() string { return fmt.Sprintf("%d/%d", p.I, p.N) }

// dir is the name of its directory: "3-of-8".
func (p Part) dir() string { return fmt.Sprintf("%d-of-%d", p.I, p.N) }

// Options of Open.
type Options struct {
	Part   *Part // nil for the whole run
	Resume bool  // a run that was begun goes on
	// Call takes what each call that was finished before gave.
	Call func(*reports.JournalCall) error
	// Told takes what is to be said while Open waits; it may be nil.
	Told func(string)
}

// Open makes the directory of a run, or goes on with one, and locks it; Close gives it
// back. Errors are sentences about root: it is in use, holds something else, or was begun
// with other settings.
func Open(root string, s *Settings, o Options) (d *Dir, err error) {
	if o.Told == nil {
		o.Told = func(string) {}
	}
	d = &Dir{Root: root, Path: root, Settings: s}
	if o.Part != nil {
		d.Path = filepath.Join(root, shardsDir, o.Part.dir())
		s.Shard = o.Part.String()
	}
	if err := fits(root, o.Part); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(root, 0o777); err != nil {
		return nil, err
	}
	if !capture.Marked(root) { // before anything else is in it, which another part would not know
		if err := capture.Mark(root); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(d.Path, 0o777); err != nil {
		return nil, err
	}
	if d.lock, err = acquire(d.Path, s.Host, o.Told); err != nil {
		return nil, err
	}
	d.clean()
	if err := d.open(s, o); err != nil {
		d.lock.release()
		return nil, err
	}
	return d, nil
}

// open begins the run, or goes on with it.
func (d *Dir) open(s *Settings, o Options) error {
	was, err := readSettings(filepath.Join(d.Path, settingsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	begun, err := d.begun()
	switch {
	case err != nil:
		return err
	case !begun:
		return s.write(filepath.Join(d.Path, settingsFile))
	case was == nil:
		return fmt.Errorf("%s has a journal but no %s: name another directory", d.Path, settingsFile)
	case !o.Resume:
		return fmt.Errorf("%s holds a run that was begun at %s: --resume goes on with it, or name another directory",
			d.Path, was.Start.Format("2006-01-02 15:04:05"))
	}
	if difference := was.Unlike(s); difference != "" {
		return fmt.Errorf("%s cannot go on with other settings: %s", d.Path, difference)
	}
	d.Settings = was
	d.Settings.Ended = false
	return d.recall(o.Call)
}

// fits refuses a directory that is no run's, or whose run is cut in another way.
func fits(root string, part *Part) error {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if !capture.Marked(root) {
		for _, e := range entries {
			if e.Name() != logsDir {
				return fmt.Errorf("%s is not empty and no run directory: it has %s", root, e.Name())
			}
		}
	}
	whole, err := journalBegun(filepath.Join(root, journalFile))
	switch {
	case err != nil:
		return err
	case whole && part != nil:
		return fmt.Errorf("%s holds a run without parts: a part cannot be added to it", root)
	}
	parts, err := shards(root)
	if err != nil || len(parts) == 0 {
		return err
	}
	n := parts[0].N
	switch {
	case part == nil:
		return fmt.Errorf("%s holds parts of a run in %d: --shard I/%d adds one of them", root, n, n)
	case part.N != n:
		return fmt.Errorf("%s holds parts of a run in %d, not in %d", root, n, part.N)
	}
	return nil
}

// shards are the parts that a run directory has, in order.
func shards(root string) ([]Part, error) {
	entries, err := os.ReadDir(filepath.Join(root, shardsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var parts []Part
	for _, e := range entries {
		if p, err := ParsePart(strings.Replace(e.Name(), "-of-", "/", 1)); err == nil && e.IsDir() {
			parts = append(parts, p)
		}
	}
	slices.SortFunc(parts, func(a, b Part) int { return (a.N-b.N)<<32 + a.I - b.I })
	return parts, nil
}

// begun reports whether the journal has its first line.
func (d *Dir) begun() (bool, error) { return journalBegun(d.File(journalFile)) }

func journalBegun(path string) (bool, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // a pipe would be waited for
		return false, fmt.Errorf("%s: a journal is a regular file, this is none", path)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadBytes('\n')
	return err == nil && json.Valid(line), nil
}

// clean removes temporary files that a process which died here has left. It keeps those of
// other parts, unless they are old.
func (d *Dir) clean() {
	_ = filepath.WalkDir(d.Root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if err == nil && e.Name() == shardsDir && d.Path != d.Root && filepath.Dir(path) == d.Root {
				return fs.SkipDir // this part's own files are looked at below
			}
			return nil
		}
		d.remove(path, e, d.Path == d.Root)
		return nil
	})
	if d.Path == d.Root {
		return
	}
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return
	}
	for _, e := range entries {
		d.remove(filepath.Join(d.Path, e.Name()), e, true)
	}
}

// remove removes a temporary file if it is this part's own, or old.
func (d *Dir) remove(path string, e fs.DirEntry, own bool) {
	if !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), tempPrefix) && !strings.HasSuffix(e.Name(), tempSuffix) {
		return
	}
	if info, err := e.Info(); own || err == nil && time.Since(info.ModTime()) > tempAge {
		os.Remove(path)
	}
}

// recall reads what is finished, cuts off what follows, and finds what was in flight.
func (d *Dir) recall(call func(*reports.JournalCall) error) error {
	f, err := os.Open(d.File(journalFile))
	if err != nil {
		return err
	}
	defer f.Close()
	started, err := readStarted(d.File(startedFile))
	if err != nil {
		return err
	}
	d.Journal, err = reports.ReadJournal(f, func(done *reports.JournalCall) error {
		if n := started[done.Capture]; n > 0 {
			started[done.Capture]--
		}
		return call(done)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	for name, n := range started {
		if n > 0 {
			d.InFlight = append(d.InFlight, name)
		}
	}
	slices.Sort(d.InFlight)
	return nil
}

func readStarted(path string) (map[string]int, error) {
	started := map[string]int{}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return started, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		name := ""
		if err != nil || json.Unmarshal(line, &name) != nil {
			return started, nil // cut off: the call was not begun
		}
		started[name]++
	}
}

// File is the path of a file of this part.
func (d *Dir) File(name string) string { return filepath.Join(d.Path, name) }

// Index is the path of the index of the captures, which all parts of a run share.
func (d *Dir) Index() string { return filepath.Join(d.Root, indexFile) }

// Began is when the run began, the same for all of its parts.
func (d *Dir) Began() time.Time { return capture.MarkedAt(d.Root) }

// Ended reports whether the run ended before this process, and looked at every call.
func (d *Dir) Ended() bool {
	return d.Journal != nil && !d.Journal.Interrupted() && d.Journal.Left() == 0
}

// End notes that the run has come to its end.
func (d *Dir) End() error {
	d.Settings.Ended = true
	return d.Settings.write(d.File(settingsFile))
}

// Plan stores the digest of the captures that the parts of the run divide. It refuses a digest
// that differs from the stored one.
func (d *Dir) Plan(digest string) error {
	if was := d.Settings.Plan; was != "" && was != digest {
		return fmt.Errorf("%s cannot go on: the captures are not those of which its parts were made", d.Path)
	}
	d.Settings.Plan = digest
	return d.Settings.write(d.File(settingsFile))
}

// Close gives the directory back.
func (d *Dir) Close() { d.lock.release() }

func writeWhole(path string, text []byte) error {
	return wholefile.Write(path, func(f *os.File) error {
		if _, err := f.Write(text); err != nil {
			return err
		}
		return f.Sync()
	})
}
