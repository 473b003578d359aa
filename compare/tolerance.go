package compare

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/tensor"
)

// Tolerance is op_tools' pair of tolerances, |a-b| <= Atol + Rtol*|b|, and the
// name of the rule that gave them. An explicit tolerance may also, or instead,
// allow a distance of ULP units in the last place.
type Tolerance struct {
	Atol, Rtol float64
	ULP        float64
	Rule       string
	Setting    string // the variable it is from, or FileSetting; "" if it was not asked for
}

// FileSetting is the Setting of tolerances from a file: the flag that names it.
const FileSetting = "--tolerances"

// String describes the tolerance: "atol=0.001 rtol=0.001 (flag)".
func (t Tolerance) String() string {
	var parts []string
	if t.Atol != 0 || t.Rtol != 0 || t.ULP == 0 {
		parts = append(parts, fmt.Sprintf("atol=%g rtol=%g", t.Atol, t.Rtol))
	}
	if t.ULP != 0 {
		parts = append(parts, fmt.Sprintf("ulp=%g", t.ULP))
	}
	s := strings.Join(parts, " or ")
	if t.Rule != "" {
		s += " (" + t.Rule + ")"
	}
	return s
}

// DefaultTolerance is op_tools' default for a dtype: atol = rtol, for every
// dtype smaller than one ULP of most values.
func DefaultTolerance(dt tensor.DType) Tolerance {
	v := 1e-3
	switch dt {
	case tensor.Float16:
		v = 1e-4
	case tensor.Float32:
		v = 1e-5
	case tensor.Float64:
		v = 1e-8
	}
	return Tolerance{Atol: v, Rtol: v, Rule: "op_tools default for " + dt.String()}
}

const envSuffix = "AUTOCOMPARE_ERROR_TOLERANCE"

// Tolerances finds the tolerance of a value. From weakest to strongest:
// op_tools' default for the dtype; op_tools' environment variables; a
// tolerance file; the command line. The zero value knows the defaults only.
type Tolerances struct {
	env  map[string]Tolerance
	file *ToleranceFile
	flag *Tolerance
}

// NewTolerances reads op_tools' variables from env (KEY=VALUE strings, as
// os.Environ returns them; others are ignored):
//
//	<OP>_AUTOCOMPARE_ERROR_TOLERANCE_<DTYPE>
//	AUTOCOMPARE_ERROR_TOLERANCE_<DTYPE>
//	AUTOCOMPARE_ERROR_TOLERANCE
//
// each "atol,rtol"; <OP> is the last part of the op's name in capitals, <DTYPE>
// FLOAT16, BFLOAT16, FLOAT32 or FLOAT64. file may be nil. At most one flag is
// used; it wins over everything.
func NewTolerances(env []string, file *ToleranceFile, flag ...Tolerance) (*Tolerances, error) {
	t := &Tolerances{env: map[string]Tolerance{}, file: file}
	for _, kv := range env {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || !strings.Contains(k, envSuffix) || v == "" {
			continue
		}
		tol, err := parsePair(v)
		if err != nil {
			return nil, fmt.Errorf("environment variable %q: %w", k, err)
		}
		tol.Rule, tol.Setting = k, k
		t.env[k] = tol
	}
	if len(flag) > 0 {
		f := flag[0]
		if f.Rule == "" {
			f.Rule = "flag"
		}
		t.flag = &f
	}
	return t, nil
}

// parsePair parses "atol,rtol".
func parsePair(s string) (Tolerance, error) {
	a, r, ok := strings.Cut(s, ",")
	atol, err1 := strconv.ParseFloat(strings.TrimSpace(a), 64)
	rtol, err2 := strconv.ParseFloat(strings.TrimSpace(r), 64)
	if !ok || err1 != nil || err2 != nil || !valid(atol) || !valid(rtol) {
		return Tolerance{}, fmt.Errorf("want two numbers atol,rtol that are not negative, got %q", s)
	}
	return Tolerance{Atol: atol, Rtol: rtol}, nil
}

// File is the tolerance file, nil if there is none.
func (t *Tolerances) File() *ToleranceFile { return t.file }

// Variables are the environment variables that were read, sorted, and their values as
// numbers.
func (t *Tolerances) Variables() []Tolerance {
	return slices.SortedFunc(maps.Values(t.env), func(a, b Tolerance) int { return strings.Compare(a.Rule, b.Rule) })
}

func valid(x float64) bool { return x >= 0 && x <= math.MaxFloat64 }

// For returns the tolerance of op_tools' rule for one value, and the tolerance
// that was explicitly asked for by flag, file or environment, nil if the verdict
// is up to the model: op is the dotted name, class the name of the op's error
// class or "", output the value's label ("output[1]"), dt the dtype of the
// device's side. A layer of the file that sets only ulp leaves atol and rtol 0.
func (t *Tolerances) For(op, class, output string, dt tensor.DType) (rule Tolerance, asked *Tolerance) {
	asked = t.asked(op, class, output, dt)
	if asked != nil && (asked.Atol != 0 || asked.Rtol != 0 || asked.ULP == 0) {
		return *asked, asked
	}
	if e, ok := t.fromEnv(op, dt); ok {
		return e, asked
	}
	return DefaultTolerance(dt), asked
}

func (t *Tolerances) asked(op, class, output string, dt tensor.DType) *Tolerance {
	if t == nil {
		return nil
	}
	if t.flag != nil {
		f := *t.flag
		return &f
	}
	if o := t.file.find(op, class, output, dt); o != nil {
		return o
	}
	if e, ok := t.fromEnv(op, dt); ok {
		return &e
	}
	return nil
}

func (t *Tolerances) fromEnv(op string, dt tensor.DType) (Tolerance, bool) {
	if t == nil {
		return Tolerance{}, false
	}
	keys := []string{envSuffix}
	switch dt {
	case tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64:
		byDType := envSuffix + "_" + strings.ToUpper(dt.String())
		keys = []string{strings.ToUpper(lastPart(op)) + "_" + byDType, byDType, envSuffix}
	}
	for _, k := range keys {
		if tol, ok := t.env[k]; ok {
			return tol, true
		}
	}
	return Tolerance{}, false
}

// lastPart is the part of a dotted name after the last dot.
func lastPart(op string) string { return op[strings.LastIndexByte(op, '.')+1:] }
