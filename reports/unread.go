package reports

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/run/folder"
)

// An UnreadFile is a file that could not be read, or of a recording that is not whole.
type UnreadFile struct {
	File   string `json:"file"` // relative to the PATH given
	Reason string `json:"reason"`
	// Calls is how many recorded calls could not be judged for it; 0 where that is not known, since the file lists
	// them.
	Calls int `json:"calls,omitempty"`
	// Cut says that the recording is not whole: the recorded program was killed, for example. What is there was read.
	Cut bool `json:"cut,omitempty"`
	// Absent says that there is nothing to read: File is a PATH that does not exist, holds no recording, or has no call
	// that the command's flags select.
	Absent bool `json:"absent,omitempty"`
}

// String is "FILE, 20 calls: why".
func (f *UnreadFile) String() string {
	text := f.File
	if f.Calls > 0 {
		text += ", " + Count(f.Calls, "call")
	}
	return text + ": " + f.Reason
}

// what is what is wrong with the file.
func (f *UnreadFile) what() string {
	if f.Cut {
		return "the recording is not whole"
	}
	return "could not be read"
}

// stable is the name of the file without the process number and the date that a recorder puts into its path.
func (f *UnreadFile) stable() string {
	return path.Join(folder.Of(f.File, "", -1, -1).Folder, path.Base(f.File))
}

// unread reports whether r says that a call could not be read. Files into which torch saved nothing do not count.
func (r *Result) unread() bool { return r.Verdict == verdict.Invalid && !r.Unwritten }

// mostUnread is how many files that could not be read are named.
const mostUnread = 20

// unreadFiles collects the files that results could not read.
type unreadFiles struct {
	files   []*UnreadFile
	byName  map[string]*UnreadFile
	capture string // of the result added last
}

// add counts r if it could not be read.
func (u *unreadFiles) add(r *Result) {
	if !r.unread() || r.File == "" {
		return
	}
	f := u.byName[r.File]
	if f == nil {
		if u.byName == nil {
			u.byName = map[string]*UnreadFile{}
		}
		_, why, found := strings.Cut(r.Reason, path.Base(r.File)+": ")
		if !found {
			why = r.Reason
		}
		f = &UnreadFile{File: r.File, Reason: why}
		u.byName[r.File] = f
		u.files = append(u.files, f)
	}
	if f.Calls == 0 || r.Capture != u.capture {
		f.Calls++
	}
	u.capture = r.Capture
}

// joinUnread adds the files of another part of the run.
func joinUnread(a, b []UnreadFile) []UnreadFile {
	for _, f := range b {
		if !slices.ContainsFunc(a, func(g UnreadFile) bool { return g.File == f.File }) {
			a = append(a, f)
		}
	}
	return a
}

// unreadLines name the files that could not be read, and say how many more there are.
func (s *Summary) unreadLines() (lines []string) {
	all := slices.Clone(s.damaged.files)
	for i := range s.Unread {
		all = append(all, &s.Unread[i])
	}
	slices.SortStableFunc(all, func(a, b *UnreadFile) int { return cmp.Compare(a.File, b.File) })
	for i, f := range all {
		if i == mostUnread {
			return append(lines, "could not be read: "+Count(len(all)-i, "more file"))
		}
		lines = append(lines, f.what()+": "+f.String())
	}
	return lines
}

// unreadParts count the files that gave only some of their calls.
func (s *Summary) unreadParts() (parts []string) {
	cut, absent := 0, 0
	for _, f := range s.Unread {
		cut += btoi(f.Cut)
		absent += btoi(f.Absent)
	}
	if n := len(s.Unread) - cut - absent; n > 0 {
		parts = append(parts, Count(n, "file")+" could not be read to the end")
	}
	switch {
	case absent == 1:
		parts = append(parts, "1 path gave no call")
	case absent > 1:
		parts = append(parts, fmt.Sprintf("%d paths gave no call", absent))
	}
	switch {
	case cut == 1:
		parts = append(parts, "1 recording is not whole")
	case cut > 1:
		parts = append(parts, fmt.Sprintf("%d recordings are not whole", cut))
	}
	return parts
}

// lostIn reports whether r can be of a call that is lost in one of the files, since it was recorded in the same folder
// by the same rank.
func (r *Result) lostIn(files []UnreadFile) bool {
	return slices.ContainsFunc(files, func(f UnreadFile) bool {
		at := folder.Of(path.Dir(f.File)+"/"+r.Op, r.Op, -1, known(r.Rank)).Folder
		return at == r.Folder() && (r.Rank == nil || !slices.ContainsFunc(strings.Split(f.File, "/"),
			func(part string) bool {
				rank, ok := strings.CutPrefix(part, "rank")
				return ok && rank != strconv.Itoa(*r.Rank)
			}))
	})
}

// UnreadFacts name the files of a run that could not be read, with what was said of them.
func (s *Summary) UnreadFacts() (facts []Fact) {
	for _, line := range s.unreadLines() {
		name, text, _ := strings.Cut(line, ": ")
		facts = append(facts, Fact{name, text})
	}
	return facts
}
