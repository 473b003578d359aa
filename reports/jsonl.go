package reports

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"
)

// A JSONLines writes one object a line, each in one write as it is known, so
// that a killed run leaves whole lines.
type JSONLines struct {
	w   io.Writer
	buf bytes.Buffer
}

// NewJSONLines returns a writer to w, which should not be buffered.
func NewJSONLines(w io.Writer) *JSONLines { return &JSONLines{w: w} }

// Write writes v as one line.
func (j *JSONLines) Write(v any) error {
	j.buf.Reset()
	e := json.NewEncoder(&j.buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := j.w.Write(j.buf.Bytes())
	return err
}

// Run is the first line of a run.
type Run struct {
	Command []string  `json:"command"`
	Version string    `json:"version"`
	Host    string    `json:"host"`
	Device  string    `json:"device"`
	Against string    `json:"against_device,omitempty"` // the second device of a measurement of two in turn
	Shard   string    `json:"shard,omitempty"`          // the part I/N of the calls that it took
	Start   time.Time `json:"start"`
	Machine Machine   `json:"machine"`
	// Settings are what the run was told about what to check; what they did is in the
	// summary.
	Settings Settings `json:"settings,omitempty"`
	// Config is the file of flags that the command line did not have, and these.
	Config string `json:"config,omitempty"`
	// Of a measurement: how runs were taken, and the device library's digest; ""
	// where no library ran.
	TimingMethod  int    `json:"timing_method,omitempty"` // timing.Method
	LibrarySHA256 string `json:"library_sha256,omitempty"`
}

// Unlike names what else differs between two measurements than what was
// measured: times cannot be compared then without thinking.
func (r *Run) Unlike(s *Run) (differences []string) {
	return unlike([][3]string{
		{"timing method", fmt.Sprint(r.TimingMethod), fmt.Sprint(s.TimingMethod)},
		{"optool", r.Version, s.Version},
		{"host", r.Host, s.Host},
		{"processors", r.Machine.processors(), s.Machine.processors()},
		{"governor", r.Machine.Governor, s.Machine.Governor},
	})
}

// JudgedOther names what two comparisons judged that is not the same: their results say little about each other then.
func (r *Run) JudgedOther(s *Run) []string {
	whole := func(shard string) string { return cmp.Or(shard, "all calls") }
	device := func(name string) string {
		if name == "none" {
			return "recorded results"
		}
		return name
	}
	return unlike([][3]string{{"shard", whole(r.Shard), whole(s.Shard)},
		{"device", device(r.Device), device(s.Device)}})
}

// unlike says which of the facts, each a name and its values in two runs, are not the same.
func unlike(facts [][3]string) (differences []string) {
	for _, f := range facts {
		if f[1] != f[2] {
			differences = append(differences, fmt.Sprintf("%s %q and %q", f[0], f[1], f[2]))
		}
	}
	return differences
}

// A Machine is what decides how fast the host is at the moment; what could not be
// read is left out.
type Machine struct {
	Processors int       `json:"processors"` // that this process may use
	Model      string    `json:"model,omitempty"`
	Governor   string    `json:"governor,omitempty"`     // of the first processor's frequency
	MHz        float64   `json:"mhz,omitempty"`          // of the first processor
	Load       []float64 `json:"load_average,omitempty"` // over 1, 5 and 15 minutes
}

func (m *Machine) processors() string {
	return strings.TrimSpace(fmt.Sprint(m.Processors, " ", m.Model))
}

// Run writes the first line.
func (j *JSONLines) Run(r Run) error {
	return j.Write(struct {
		Kind   string `json:"kind"`
		Schema int    `json:"schema"`
		Run
	}{"run", 1, r})
}

// Result writes one result.
func (j *JSONLines) Result(r *Result) error {
	return j.Write(struct {
		Kind string `json:"kind"`
		*Result
	}{"result", r.recorded()})
}

// Cause writes what explains a finding.
func (j *JSONLines) Cause(c *Cause) error {
	return j.Write(struct {
		Kind string `json:"kind"`
		*Cause
	}{"cause", c})
}

// Profile writes how the errors of a value of a finding are spread.
func (j *JSONLines) Profile(p *Profile) error {
	return j.Write(struct {
		Kind string `json:"kind"`
		*Profile
	}{"profile", p})
}

// Summary writes the last line of a comparison: "captures" and "compared", one
// count per verdict of results and, as captures_<verdict>, of captures by their
// worst, then time, memory and the counts by op.
func (j *JSONLines) Summary(s *Summary) error {
	ops, unjudged := s.Ops(), s.NotJudged()
	for i, o := range ops {
		ops[i] = o.recorded()
	}
	m := map[string]any{
		"kind": "summary", "captures": s.Calls(), "interrupted": s.Interrupted,
		"elapsed_s": s.Elapsed.Seconds(), "peak_rss_bytes": s.PeakRSS, "ops": ops, "exit_code": s.Exit,
		"refused": s.NotRead, "judged": s.Judged(), "not_judged": unjudged.NotJudged,
		"reasons": unjudged.Reasons, "first": cmp.Or(s.First, s.FirstWrong),
	}
	if len(s.Missing) > 0 {
		m["missing"] = s.Missing
	}
	if len(s.Unread) > 0 {
		m["unread"] = s.Unread
	}
	if len(s.FailOn) > 0 {
		m["fail_on"] = s.FailOn
	}
	if len(s.Settings) > 0 {
		m["settings"] = s.Settings
	}
	if s.Known != nil {
		m["known_failures"] = s.Known
	}
	if s.Witness != nil {
		m["witness"] = s.Witness
	}
	if s.Against != nil {
		m["against"] = s.Against
	}
	if found := s.Systematic(); len(found) > 0 {
		m["systematic"] = found
	}
	if s.Budget != nil {
		m["budget"] = s.Budget
	}
	if s.NoCause != nil {
		m["no_cause"] = s.NoCause
	}
	if s.Generated != nil {
		m["generated"] = s.Generated
	}
	if s.Precision != nil {
		m["precision"] = s.Precision
	}
	if s.Same != nil {
		m["same_results"] = s.Same
	}
	if programs := s.Programs(); len(programs) > 0 {
		m["programs"] = programs
	}
	if s.Undecided {
		m["undecided"] = true
	}
	if len(s.Facts) > 0 {
		m["facts"] = s.Facts
	}
	maps.Copy(m, s.Counts())
	return j.Write(m)
}
