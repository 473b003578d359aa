package reports

import (
	"bytes"
	"encoding/json"
	"io"
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
	Start   time.Time `json:"start"`
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
	}{"result", r})
}

// Summary writes the last line of a comparison.
func (j *JSONLines) Summary(s *Summary) error {
	return j.Write(struct {
		Kind        string         `json:"kind"`
		Interrupted bool           `json:"interrupted"`
		ElapsedNS   int64          `json:"elapsed_ns"`
		PeakRSS     int64          `json:"peak_rss_bytes"`
		Captures    map[string]int `json:"captures"`
		Results     map[string]int `json:"results"`
		Ops         []*OpSummary   `json:"ops"`
	}{"summary", s.Interrupted, s.Elapsed.Nanoseconds(), s.PeakRSS, s.Captures, s.Results, s.Ops()})
}
