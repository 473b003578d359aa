package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/optool/optool/reports"
)

// Is reports whether a path is a directory with a run.
func Is(path string) bool {
	for _, name := range []string{journalFile, shardsDir} {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			return true
		}
	}
	return false
}

// Read reads the run in directories: that of one run, or those with the parts of one. What
// there is of a run that is not finished is reported; lacks says what is missing, a sentence
// each. Close the recording after use.
func Read(dirs ...string) (rec *reports.Recording, lacks []string, err error) {
	places, err := placesOf(dirs)
	if err != nil {
		return nil, nil, err
	}
	n := places[0].N
	var parts []*reports.PartRecord
	var first *Settings
	for _, p := range places {
		if begun, err := journalBegun(filepath.Join(p.dir, journalFile)); err != nil {
			return nil, nil, err
		} else if !begun && n > 1 {
			lacks = append(lacks, fmt.Sprintf("part %s is missing: it has begun nothing", p.Part))
			continue
		}
		part, settings, err := readPart(p.dir)
		if err != nil {
			return nil, nil, err
		}
		if first == nil {
			first = settings
		} else if difference := first.alike(settings); difference != "" {
			return nil, nil, fmt.Errorf("%s is no part of the run of %s: %s", p.dir, places[0].dir, difference)
		}
		if n > 1 && part.Interrupted() {
			lacks = append(lacks, fmt.Sprintf("part %s did not end: %s finished", p.Part,
				reports.Count(part.Calls, "call")))
		}
		if settings.Shard != "" {
			part.Run.Command = withoutShard(part.Run.Command)
		}
		parts = append(parts, part)
	}
	lacks = append(lacks, gaps(places)...)
	if len(parts) == 0 {
		return nil, lacks, fmt.Errorf("%s has no part that began: %s", strings.Join(dirs, ", "), lacks[0])
	}
	rec, err = reports.Join(parts, len(parts) == n)
	return rec, lacks, err
}

// A place is the directory of a part.
type place struct {
	Part
	dir string
}

// placesOf are the parts that directories hold, in order. They are different parts of one run.
func placesOf(dirs []string) (places []place, err error) {
	for _, dir := range dirs {
		parts, err := shards(dir)
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			places = append(places, place{p, filepath.Join(dir, shardsDir, p.dir())})
		}
		if len(parts) == 0 {
			places = append(places, place{Part{1, 1}, dir})
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return a.I - b.I })
	for i, p := range places {
		switch {
		case p.N != places[0].N:
			return nil, fmt.Errorf("%s is of a run in %s, %s of one in %d", p.dir, reports.Count(p.N, "part"),
				places[0].dir, places[0].N)
		case i > 0 && p.I == places[i-1].I:
			return nil, fmt.Errorf("part %s is there twice: %s and %s", p.Part, places[i-1].dir, p.dir)
		}
	}
	return places, nil
}

// gaps says which parts are missing between places, a sentence each.
func gaps(places []place) (lacks []string) {
	n, next := places[0].N, 1
	for _, p := range append(places, place{Part: Part{n + 1, n}}) {
		switch last := p.I - 1; {
		case next == last:
			lacks = append(lacks, fmt.Sprintf("part %s is missing", Part{next, n}))
		case next < last:
			lacks = append(lacks, fmt.Sprintf("parts %d to %s are missing", next, Part{last, n}))
		}
		next = p.I + 1
	}
	return lacks
}

// alike says what differs between two parts of one run.
func (s *Settings) alike(t *Settings) string {
	a, b := *s, *t
	a.Shard, b.Shard = "", ""
	return a.Unlike(&b)
}

func readPart(dir string) (*reports.PartRecord, *Settings, error) {
	f, err := os.Open(filepath.Join(dir, journalFile))
	if err != nil {
		return nil, nil, err
	}
	settings, err := readSettings(filepath.Join(dir, settingsFile))
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	p, err := reports.ReadPart(f)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", f.Name(), err), f.Close())
	}
	return p, settings, nil
}

// withoutShard is a command line without --shard.
func withoutShard(command []string) []string {
	var out []string
	for i := 0; i < len(command); i++ {
		switch {
		case command[i] == "--shard":
			i++
		case !strings.HasPrefix(command[i], "--shard="):
			out = append(out, command[i])
		}
	}
	return out
}

// Ended reports whether all parts of the run in directories are there and have ended.
func Ended(dirs ...string) bool {
	done, n := map[int]bool{}, 1
	for _, dir := range dirs {
		parts, err := shards(dir)
		if err != nil {
			return false
		}
		for _, p := range parts {
			n = p.N
			s, err := readSettings(filepath.Join(dir, shardsDir, p.dir(), settingsFile))
			done[p.I] = err == nil && s.Ended
		}
		if len(parts) == 0 {
			s, err := readSettings(filepath.Join(dir, settingsFile))
			done[1] = err == nil && s.Ended
		}
	}
	for i := 1; i <= n; i++ {
		if !done[i] {
			return false
		}
	}
	return true
}
