// Package folder names the part of a capture's path that is the same in every run of a program.
//
// A recorder puts process numbers and dates into the paths of its calls, so the path of a call is another one each
// night. The folder is what is left without them: it tells the recordings of two models apart, and finds each of them
// in another night.
package folder

import (
	"strconv"
	"strings"
	"time"

	"github.com/optool/optool/internal/lazyregexp"
)

// A Place is where a process left its calls.
type Place struct {
	// Folder has the components of the path that do not change from run to run, "" if there are none. A star stands
	// for a date or a process number inside a component.
	Folder string
	// Start orders the processes of a folder by the dates in their paths, "" if there are none.
	Start string
}

var (
	// date is 2026-11-29, 2024-08-06--11-41, 20261129T0123, 2026-11-29-01-23-13 and the like.
	date = lazyregexp.New(`20\d\d[-_]?[01]\d[-_]?[0-3]\d([-_T]+[0-2]\d[-_:]?[0-5]\d([-_:]?[0-5]\d)?)?`)
	// numbered is a process number in words, started one and the time when it started.
	numbered = lazyregexp.New(`(?i)(pid|proc)[-_=]?\d+`)
	started  = lazyregexp.New(`^\d+-20\d\d(-\d\d){5}$`)
	step     = lazyregexp.New(`^step\d+$`)
	// layout are the directories that op_tools makes in every run.
	layout = lazyregexp.New(`^op_(tools_results|(capture|autocompare)_results?)$`)
)

// Time is the last date and time of day in Start; the zero time if there is none.
func (p Place) Time() (t time.Time) {
	for _, layout := range []string{"2006-01-02-15-04-05", "2006-01-02--15-04", "20060102T150405"} {
		if n := len(p.Start) - len(layout); n >= 0 {
			if at, err := time.Parse(layout, p.Start[n:]); err == nil {
				return at
			}
		}
	}
	return t
}

// Of takes the path of a call below the PATH of its run apart, with slashes. pid and rank are the process, -1 where it
// is not known. The rank is no part of the folder.
func Of(path, op string, pid, rank int) Place {
	parts := strings.Split(path, "/")
	end := ofCall(parts, op, pid)
	var p Place
	for _, part := range parts {
		if strings.Contains(part, "20") {
			p.Start += strings.Join(date().FindAllString(part, -1), "")
		}
		if part == op {
			break // dates behind it are those of calls
		}
	}
	var stable []string
	for _, part := range parts[:end] {
		if strings.ContainsAny(part, "0123456789") {
			part = numbered().ReplaceAllString(undated(part), "$1*")
		}
		changes := strings.Contains(part, "*") && strings.Trim(part, "*-_.0123456789") == ""
		if !changes && part != "." {
			stable = append(stable, part)
		}
	}
	hooked := started().MatchString(parts[end])
	ofStep := !hooked && numbered().MatchString(parts[end]) // as step0/proc4711
	if n := len(stable); n > 0 && isRank(stable[n-1], rank) {
		stable, ofStep = stable[:n-1], !hooked // as step0/rank0
	}
	if n := len(stable); n > 0 && ofStep && step().MatchString(stable[n-1]) {
		stable = stable[:n-1]
	}
	for n := len(stable); n > 0 && layout().MatchString(stable[n-1]); n = len(stable) {
		stable = stable[:n-1]
	}
	p.Folder = strings.Join(stable, "/")
	return p
}

// ofCall is the number of components in front of those that name a process or a call in it.
func ofCall(parts []string, op string, pid int) int {
	number := strconv.Itoa(pid)
	for i, part := range parts[:len(parts)-1] {
		dated := i > 0 && undated(parts[i-1]) == "*"
		if part == op || started().MatchString(part) || pid >= 0 && (part == "proc"+number || dated && part == number) {
			return i
		}
	}
	return ofDated(parts)
}

// ofDated is the same of the path of a call below the directory of its operator, as 4711/3/2024-09-14-12-30-05.
func ofDated(parts []string) int {
	i := len(parts) - 1
	if undated(parts[i]) != "*" {
		return i
	}
	for n := 0; n < 3 && i > 0 && (parts[i-1] == "autocompare" || strings.Trim(parts[i-1], "0123456789") == ""); n++ {
		i--
	}
	return i
}

// isRank reports whether a component is the directory of a rank. Recorders name that of a program without ranks rank0.
func isRank(part string, rank int) bool {
	return part == "rank"+strconv.Itoa(max(rank, 0)) || rank >= 0 && part == strconv.Itoa(rank)
}

// undated is a component with a star for each date. Digits of a longer number are none.
func undated(part string) string {
	digit := func(i int) bool { return i >= 0 && i < len(part) && part[i] >= '0' && part[i] <= '9' }
	var b strings.Builder
	at := 0
	for _, m := range date().FindAllStringIndex(part, -1) {
		if !digit(m[0]-1) && !digit(m[1]) {
			b.WriteString(part[at:m[0]] + "*")
			at = m[1]
		}
	}
	return b.String() + part[at:]
}
