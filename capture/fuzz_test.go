package capture

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// FuzzParseName reads names of captures. A name that was understood, written as
// its layout writes it, is read again as the same.
func FuzzParseName(f *testing.F) {
	for _, dir := range []string{
		"/r/torch.add/25001/68/2026-11-20-21-05-57", "/r/torch.add/25053/autocompare/31/2026-11-20-21-06-10",
		"/r/torch.add/25001/68", "/r/0/2024-08-06--11-41/torch.add/7", "/r/2024-08-06--11-41/12/torch.add/7",
		"/r/torch.Tensor.mul/1915530", "/r/torch.Tensor.mul/1915530/3", "/r/2024-08-02--16-31/1915529/torch.bmm",
		"/r/torch.add/25053/autocompare/31/2026-11-20-21-06-10/device", "/", "", "//", "/r/model.layer/000/1",
		"/torch.add/999999999999999999/1000000000000000000/2026-11-20-21-06-10",
	} {
		for s := range flat + 1 {
			f.Add(dir, uint8(s))
		}
	}
	f.Fuzz(func(t *testing.T, dir string, s uint8) {
		held := sides(s % 3)
		dir = path.Clean("/" + dir)
		var n Name
		fuzzcheck.Bounded(t, len(dir), 64, func() { n = parseName(dir, held) })
		if n.Op == "" {
			if n != (Name{ID: -1, PID: -1, Rank: -1}) {
				t.Errorf("%q names no op, but %+v", dir, n)
			}
			return
		}
		if n.ID < -1 || n.PID < -1 || n.Rank < -1 || n.Time != "" && !isTime(n.Time) || strings.Contains(n.Op, "/") {
			t.Errorf("%q: %+v", dir, n)
		}
		if n.Layout == Directory { // one side of a saved failure, named as the whole
			up := parseName(path.Dir(dir), folders)
			up.Layout = Directory
			if held == plain && up != n {
				t.Errorf("%q: %+v, the directory above it %+v", dir, n, up)
			}
			return
		}
		if again := parseName(written(n), held); again != n {
			t.Errorf("%q: %+v; written as %q: %+v", dir, n, written(n), again)
		}
	})
}

// written is the path of a capture of a name.
func written(n Name) string {
	number := func(i int) string {
		if i < 0 {
			return "-"
		}
		return strconv.Itoa(i)
	}
	parts := map[Layout][]string{
		Current:       {n.Op, number(n.PID), number(n.ID), n.Time},
		Autocompare:   {n.Op, number(n.PID), "autocompare", number(n.ID), n.Time},
		V2:            {n.Op, number(n.PID), number(n.ID)},
		V1:            {number(n.Rank), n.Time, n.Op, number(n.ID)},
		AutocompareV1: {n.Op, number(n.PID), number(n.ID)},
		AutocompareV0: {n.Time, number(n.PID), n.Op},
	}[n.Layout]
	switch {
	case n.Layout == V1 && n.PID >= 0:
		parts = []string{n.Time, number(n.PID), n.Op, number(n.ID)}
	case n.Layout == AutocompareV1 && n.ID < 0:
		parts = []string{n.Op, number(n.PID)}
	}
	return "/" + path.Join(parts...)
}

// TestLayoutNames: each layout has a name of its own, which FORMAT.md explains.
func TestLayoutNames(t *testing.T) {
	format, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]Layout{}
	for l := range numLayouts {
		name := l.String()
		switch other, taken := of[name]; {
		case name == "":
			t.Errorf("layout %d, after %s, has no name in layoutNames", l, l-1)
		case taken:
			t.Errorf("layouts %d and %d are both named %s", other, l, name)
		case !strings.Contains(string(format), "\n| `"+name+"` |"):
			t.Errorf("FORMAT.md has no row for layout %s", name)
		}
		of[name] = l
	}
}

// TestLayoutsWritten demands that a capture of each layout of op_tools, written as that writes it, is
// read as one of that layout.
func TestLayoutsWritten(t *testing.T) {
	for l := Current; l < MSProbe; l++ {
		held := map[Layout]sides{AutocompareV1: folders, AutocompareV0: flat}[l]
		times := []string{"2026-11-20-21-06-10", "2024-08-06--11-41"} // to the second, to the minute
		if !slices.ContainsFunc(times, func(time string) bool {
			dir := written(Name{Layout: l, Op: "torch.add", ID: 3, PID: 12, Rank: -1, Time: time})
			return parseName(dir, held).Layout == l
		}) {
			t.Errorf("layout %s (%d): no form of written gives a path that parseName reads so; "+
				"a layout of another recorder stands after msprobe", l, l)
		}
	}
}

// FuzzCompareNames: the order of names is one.
func FuzzCompareNames(f *testing.F) {
	f.Add("1", "10", "2")
	f.Add("01", "1", "1a")
	f.Add("torch.add", "", "-1")
	f.Add("999999999999999999", "1000000000000000000", "0")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		sign := func(n int) int { return min(max(n, -1), 1) }
		ab, ba := sign(compareNames(a, b)), sign(compareNames(b, a))
		if ab != -ba || (ab == 0) != (a == b) {
			t.Errorf("%q and %q compare as %d, the other way as %d", a, b, ab, ba)
		}
		if ab < 0 && compareNames(b, c) < 0 && compareNames(a, c) >= 0 {
			t.Errorf("%q < %q < %q, but not the first and the last", a, b, c)
		}
	})
}

// FuzzPatterns reads lists of names of ops. A name in a list is matched by it.
func FuzzPatterns(f *testing.F) {
	for _, list := range []string{
		"torch.add,torch.mul", "torch.nn.functional.*", ",,", "(", "torch\\.(add|mul)", ".*", "[a-", "a{1000}{1000}",
	} {
		f.Add(list, "torch.add")
	}
	f.Fuzz(func(t *testing.T, list, op string) {
		var p *Patterns
		var err error
		fuzzcheck.Bounded(t, len(list), 1<<14, func() { p, err = ParsePatterns(list) })
		fuzzcheck.Sentence(t, err)
		if err != nil {
			return
		}
		if got := p.Match(op); got != p.Match(op) {
			t.Errorf("%q and %q: %v, then not", list, op, got)
		}
		for item := range strings.SplitSeq(list, ",") {
			if item != "" && !p.Match(item) {
				t.Errorf("%q does not match its item %q", list, item)
			}
		}
	})
}

// FuzzWhere compiles conditions and asks them about a call with a tensor and
// about one without.
func FuzzWhere(f *testing.F) {
	for _, c := range []string{
		`dtype == "float16" && ndim == 2`, `any(inputs, .numel > 10)`, `op matches "^torch\\."`, `shape[0] > 1`,
		`inputs[3].dtype == ""`, `1/id`, `pid`, `len(1..100000000) > 1`, `bytes % 0 == 1`, `repeat("a", 100000) == ""`,
		`let x = time; x + x + x == path`, `map(1..10, map(1..10, #))[0][0] == 1`, "\x00", `"` + "\n" + `" == op`,
	} {
		f.Add(c)
	}
	entry := &Entry{Name: Name{Op: "torch.add", ID: 3, PID: -1, Rank: -1}, Rel: "a/torch.add/3"}
	without := &Call{Op: "torch.add", Kwargs: &value.Dict{}}
	with := &Call{Op: "torch.add", Kwargs: &value.Dict{},
		Args: []value.Value{tensor.Full(tensor.Float16, []int{2, 3}, 1.0)}}
	f.Fuzz(func(t *testing.T, condition string) {
		var filter Filter
		var err error
		fuzzcheck.Bounded(t, len(condition), 1<<16, func() { err = filter.Where(condition) })
		fuzzcheck.Sentence(t, err)
		if err != nil {
			return
		}
		for _, c := range []*Call{with, without} {
			fuzzcheck.Bounded(t, len(condition), 1<<16, func() { _, err = filter.holds(entry, c) })
			fuzzcheck.Sentence(t, err)
		}
	})
}
