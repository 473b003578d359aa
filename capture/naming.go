package capture

import (
	"path/filepath"
	"strconv"
	"strings"
)

// Layout is the convention that named a capture's directory; see FORMAT.md.
type Layout uint8

// The layouts in three groups. A new one stands at the end of its group: by the groups tests ask for its
// path or its recording.
const (
	Directory Layout = iota // any directory that holds input.pth or output.pth
	File                    // one .pth file

	// Those of op_tools, which parseName tells by their paths.
	Current       // <op>/<pid>/<id>/<time>
	Autocompare   // <op>/<pid>/autocompare/<id>/<time>/{device,cpu}
	V2            // <op>/<pid>/<id>
	V1            // <rank>/<minute>/<op>/<id> or <minute>/<pid>/<op>/<id>
	AutocompareV1 // <op>/<pid>[/<id>]/{device,cpu}
	AutocompareV0 // <minute>/<pid>/<op>/{device,cpu}_{input,output}.pth

	// Those of other recorders, each of a producer; MSProbe is the first.
	MSProbe         // a call of an msprobe dump.json
	FlashInfer      // the directory of a call that FlashInfer logged
	FlashInferTrace // a workload of FlashInfer-Bench
	SGLang          // a value that SGLang's dumper wrote
	Pass            // a module's result in a Pass<N>.pt of vLLM or SGLang
	Hook            // a call that `optool hook` recorded
	numLayouts
)

var layoutNames = [numLayouts]string{
	Directory: "directory", File: "file",
	Current: "current", Autocompare: "autocompare", V2: "v2", V1: "v1", AutocompareV1: "autocompare-v1",
	AutocompareV0: "autocompare-v0",
	MSProbe:       "msprobe", FlashInfer: "flashinfer", FlashInferTrace: "flashinfer-trace", SGLang: "sglang",
	Pass: "pass", Hook: "hook",
}

func (l Layout) String() string { return layoutNames[l] }

// A Name is what the path of a capture tells about the call. Numbers are -1
// and strings empty where the path does not say.
type Name struct {
	Op     string // dotted name, "torch.nn.functional.linear"
	ID     int    // forward id: counts applied hooks within a process
	PID    int    // process
	Rank   int    // only in layout V1
	Time   string // as written: 2024-09-14-12-30-05, or to the minute in old layouts
	Layout Layout
}

// nests reports whether files of the layout may hold the pair (args, kwargs) as
// their args: those of V1 and AutocompareV0, which may also be given without the
// names that tell.
func (l Layout) nests() bool {
	return l == V1 || l == AutocompareV0 || l == Directory || l == File
}

// sides tells parseName which files a directory holds.
type sides uint8

const (
	plain   sides = iota // input.pth, ...
	folders              // device/input.pth, cpu/input.pth, ...
	flat                 // device_input.pth, cpu_input.pth, ...
)

// parseName reads the name of a capture from the absolute path of its
// directory.
func parseName(dir string, s sides) Name {
	p := strings.Split(filepath.ToSlash(dir), "/")
	if last := p[len(p)-1]; s == plain && (last == "device" || last == "cpu") { // one side of a saved failure
		p, s = p[:len(p)-1], folders
	}
	n := nameAt(func(i int) string { // i-th component from the end
		if i >= len(p) {
			return ""
		}
		return p[len(p)-1-i]
	}, s)
	if !isOpName(n.Op) { // looks like a layout, but no op stands where it should
		return Name{ID: -1, PID: -1, Rank: -1}
	}
	return n
}

// nameAt reads a name from the components of a path, counted from its end, by the layouts of op_tools.
func nameAt(at func(int) string, s sides) Name {
	n := Name{ID: -1, PID: -1, Rank: -1}
	id, isID := number(at(0))
	up, upIsNumber := number(at(1))
	switch {
	case s == flat:
		n.Layout, n.Op, n.PID, n.Time = AutocompareV0, at(0), numberOr(at(1)), timeOr(at(2))
	case isTime(at(0)) && upIsNumber && at(2) == "autocompare":
		n.Layout, n.Time, n.ID, n.PID, n.Op = Autocompare, at(0), up, numberOr(at(3)), at(4)
	case isTime(at(0)) && upIsNumber:
		n.Layout, n.Time, n.ID, n.PID, n.Op = Current, at(0), up, numberOr(at(2)), at(3)
	case isID && s == folders && upIsNumber:
		n.Layout, n.ID, n.PID, n.Op = AutocompareV1, id, up, at(2)
	case isID && s == folders:
		n.Layout, n.PID, n.Op = AutocompareV1, id, at(1)
	case isID && upIsNumber:
		n.Layout, n.ID, n.PID, n.Op = V2, id, up, at(2)
	case isID && isTime(at(2)):
		n.Layout, n.ID, n.Op, n.Time, n.Rank = V1, id, at(1), at(2), numberOr(at(3))
	case isID && isTime(at(3)):
		n.Layout, n.ID, n.Op, n.Time, n.PID = V1, id, at(1), at(3), numberOr(at(2))
	}
	return n
}

// isOpName reports whether s can be the dotted name of an op.
func isOpName(s string) bool {
	return strings.Contains(s, ".") && strings.Trim(s, ".") == s && !isTime(s)
}

// number parses an unsigned decimal number.
func number(s string) (int, bool) {
	if s == "" || len(s) > 18 {
		return -1, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return -1, false
		}
	}
	v, err := strconv.Atoi(s)
	return v, err == nil
}

func numberOr(s string) int {
	v, _ := number(s)
	return v
}

// isTime recognises 2024-09-14-12-30-05 and 2024-08-06--11-41.
func isTime(s string) bool {
	const second, minute = "0000-00-00-00-00-00", "0000-00-00--00-00"
	form := second
	if len(s) == len(minute) {
		form = minute
	}
	if len(s) != len(form) {
		return false
	}
	for i := range len(s) {
		if digit := s[i] >= '0' && s[i] <= '9'; digit != (form[i] == '0') || !digit && s[i] != '-' {
			return false
		}
	}
	return true
}

func timeOr(s string) string {
	if isTime(s) {
		return s
	}
	return ""
}

// compareNames orders the names of one directory: numbers by value and before
// everything else, the rest by bytes.
func compareNames(a, b string) int {
	x, xIsNumber := number(a)
	y, yIsNumber := number(b)
	switch {
	case xIsNumber && yIsNumber && x != y:
		return x - y
	case xIsNumber != yIsNumber:
		if xIsNumber {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}
