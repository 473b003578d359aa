package folder

import (
	"path"
	"strings"
)

// Program is the folder that holds the recording of a program: the folder of a call without those of its steps.
func Program(folder string) string {
	for {
		n, ok := strings.CutPrefix(path.Base(folder), "step")
		if !ok || strings.Trim(n, "0123456789") != "" {
			return folder
		}
		folder = strings.TrimSuffix(path.Dir(folder), ".")
	}
}

// Programs tells whether folders hold programs of their own. The zero value has no folder.
type Programs struct {
	ranks map[string]map[int]bool // by folder
	loose bool                    // it is not known which process made some call
}

// Add adds the folder of a program with the rank of a call in it, -1 if it has none; placed says that its process is
// known.
func (p *Programs) Add(folder string, rank int, placed bool) {
	if p.ranks == nil {
		p.ranks = map[string]map[int]bool{}
	}
	if p.ranks[folder] == nil {
		p.ranks[folder] = map[int]bool{}
	}
	p.ranks[folder][rank] = true
	p.loose = p.loose || !placed
}

// Several reports whether the folders hold programs of their own. Folders of which each has other ranks are parts of
// one program, as they are copied from its hosts; so are those of calls of which no process is known.
func (p *Programs) Several() bool {
	ranks, alike := map[int]bool{}, false
	for _, of := range p.ranks {
		for rank := range of {
			alike = alike || rank < 0 || ranks[rank]
			ranks[rank] = true
		}
	}
	return len(p.ranks) > 1 && alike && !p.loose
}
