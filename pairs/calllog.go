package pairs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/verdict"
)

// A LoggedCall is a call of a log that holds hashes of tensors, not the tensors.
type LoggedCall struct {
	Op       string
	Types    string // arguments and results as the log shows them: dtypes and shapes
	Inputs   []string
	Outputs  []string // hashes, nil if the log has none
	Module   string
	Location string
	Place    string // in the log: line 12, or call 12
}

// debugModeFormat is what files of DebugMode.save_logs call themselves.
const debugModeFormat = "torch.utils._debug_mode.DebugMode.logs"

// A callLine is a call in the text of DebugMode.debug_string: name(arguments)  ->  result  # {hashes}.
var (
	callLine = regexp.MustCompile(`^(\s+)([\w<][^(]*)\((.*)\)(  ->  (.*?))?(?:  # (\{.*\}))?$`)
	// varying are parts of names and types that differ from run to run: addresses, numbers of tensors.
	varying = regexp.MustCompile(` at 0x[0-9a-f]+|\$\d+`)
)

// IsCallLog reports whether a file is a log of PyTorch's DebugMode: its text, or what save_logs writes.
func IsCallLog(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 1<<16)
	n, _ := io.ReadFull(f, head)
	head = head[:n]
	if bytes.HasPrefix(bytes.TrimSpace(head), []byte("{")) {
		return bytes.Contains(head, []byte(debugModeFormat))
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return false
	}
	return slices.ContainsFunc(strings.Split(string(head), "\n"), func(line string) bool {
		m := callLine.FindStringSubmatch(strings.TrimSuffix(line, "\r"))
		return m != nil && strings.Contains(m[2], "::")
	})
}

// ReadCallLog reads a log of PyTorch's DebugMode.
func ReadCallLog(path string) ([]LoggedCall, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	calls, err := callsOfText(raw)
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		calls, err = callsOfJSON(raw)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(calls) == 0:
		return nil, fmt.Errorf("%s: no calls in it", path)
	}
	return calls, nil
}

func callsOfText(raw []byte) (out []LoggedCall, err error) {
	s := bufio.NewScanner(bytes.NewReader(raw))
	s.Buffer(nil, len(raw)+1)
	type scope struct {
		indent int
		name   string
	}
	var modules []scope
	location := ""
	for n := 1; s.Scan(); n++ {
		line := strings.TrimRight(s.Text(), "\r ")
		text := strings.TrimLeft(line, " ")
		indent := len(line) - len(text)
		for len(modules) > 0 && text != "" && modules[len(modules)-1].indent >= indent {
			modules = modules[:len(modules)-1]
		}
		if name, ok := strings.CutPrefix(text, "[nn.Mod] "); ok {
			modules = append(modules, scope{indent, name})
			continue
		}
		if where, ok := strings.CutPrefix(text, "# File: "); ok {
			location, _, _ = strings.Cut(where, " in ")
			continue
		}
		m := callLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		c := LoggedCall{Op: varying.ReplaceAllString(m[2], ""), Types: typesOf(m[3], m[5]), Location: location,
			Place: fmt.Sprintf("line %d", n)}
		if len(modules) > 0 {
			c.Module = modules[len(modules)-1].name
		}
		if _, after, ok := strings.Cut(m[6], "'input_hash': "); ok {
			before, _, _ := strings.Cut(after, ", 'hash': ")
			c.Inputs = numbersOf(before)
		}
		if _, after, ok := strings.Cut(m[6], "'hash': "); ok {
			c.Outputs = numbersOf(after)
		}
		out = append(out, c)
	}
	return out, s.Err()
}

func typesOf(args, result string) string { return varying.ReplaceAllString(args+" -> "+result, "") }

// numbersOf are the numbers of nested tuples and dictionaries.
func numbersOf(text string) []string {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("()[]{}, ", r) })
	return slices.DeleteFunc(words, func(w string) bool {
		_, err := strconv.ParseFloat(w, 64)
		return err != nil
	})
}

func callsOfJSON(raw []byte) (out []LoggedCall, err error) {
	var file struct {
		Format string
		Logs   []struct {
			Type    string
			Op      string `json:"op_name"`
			Kernel  string `json:"kernel_name"`
			Args    string `json:"args_str"`
			Kwargs  string `json:"kwargs_str"`
			Output  string `json:"output_str"`
			Log     json.RawMessage
			Pre     json.RawMessage `json:"pre_hashes"`
			Post    json.RawMessage `json:"post_hashes"`
			Stack   string          `json:"stack_trace"`
			Forward string          `json:"fwd_stack_trace"`
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, err
	}
	if file.Format != debugModeFormat {
		return nil, errors.New("no log of DebugMode")
	}
	for n, l := range file.Logs {
		c := LoggedCall{Op: varying.ReplaceAllString(l.Op, ""), Place: fmt.Sprintf("call %d", n+1)}
		switch l.Type {
		case "op":
			c.Types = typesOf(l.Args+l.Kwargs, strings.TrimPrefix(l.Output, "  ->  "))
			c.Inputs, c.Outputs = scalars(l.Log, "input_hash"), scalars(l.Log, "hash")
		case "triton_kernel":
			c.Op, c.Types = l.Kernel, typesOf(l.Kwargs, "")
			c.Inputs, c.Outputs = scalars(l.Pre, ""), scalars(l.Post, "")
		default:
			continue
		}
		out = append(out, c)
	}
	return out, nil
}

// scalars are the numbers in a value of save_logs, where key is not empty in the entry of that name.
func scalars(raw json.RawMessage, key string) (out []string) {
	var v struct {
		Type  string
		Value json.RawMessage
		Items []json.RawMessage
	}
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return nil
	}
	if v.Type != "dict" && key != "" {
		return nil
	}
	for _, item := range v.Items {
		var entry []json.RawMessage
		if v.Type == "dict" && json.Unmarshal(item, &entry) == nil && len(entry) == 2 {
			var name string
			_ = json.Unmarshal(entry[0], &name)
			if key != "" && name != key {
				continue
			}
			item = entry[1]
		}
		out = append(out, scalars(item, "")...)
	}
	if text := strings.Trim(string(v.Value), `"`); len(v.Items) == 0 {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			out = append(out, text)
		}
	}
	return out
}

// A LogComparison is two logs of calls, aligned.
type LogComparison struct {
	Calls    [2]int
	Compared int // pairs with hashes on both sides
	Differ   int
	First    *reports.Place
	Findings []reports.FindingRecord
}

// CompareLogs aligns the calls of two logs by sequence and finds the first whose results differ, and those that only
// one has. names are those of the logs.
func CompareLogs(a, b []LoggedCall, names [2]string) *LogComparison {
	al := Align(len(a), len(b), func(i, j int) int { return a[i].likeness(&b[j]) }, sameShapes, nil)
	out := &LogComparison{Calls: [2]int{len(a), len(b)}}
	for _, p := range al.Pairs {
		x, y := &a[p[0]], &b[p[1]]
		if x.Outputs == nil || y.Outputs == nil {
			continue
		}
		out.Compared++
		known := x.Inputs != nil && y.Inputs != nil
		inputs := !known || slices.Equal(x.Inputs, y.Inputs)
		if inputs && slices.Equal(x.Outputs, y.Outputs) {
			continue
		}
		out.Differ++
		if out.First != nil {
			continue
		}
		f := reports.FindingRecord{Kind: "finding", Rule: verdict.Diverged, Op: x.Op, Target: "output",
			Capture: names[0] + " " + x.Place, Peer: names[1] + " " + y.Place, Module: x.Module, Location: x.Location}
		got, want := x.Outputs, y.Outputs
		switch {
		case !inputs:
			f.Target, got, want = "input", x.Inputs, y.Inputs
			f.Reason = "the first value that differs, though no result before it does"
		case known:
			f.Reason = "inputs agree, the result does not"
		default:
			f.Reason = "the first result that differs"
		}
		f.Reason += fmt.Sprintf(": hash %s, in the other run %s", strings.Join(got, ", "), strings.Join(want, ", "))
		f.From = &reports.Place{Capture: f.Peer, Target: f.Target}
		out.First = &reports.Place{Capture: f.Capture, Target: f.Target}
		out.Findings = append(out.Findings, f)
	}
	alone := func(places []int, calls []LoggedCall, rule verdict.Rule, name string) {
		slices.Sort(places)
		for _, i := range places {
			c := &calls[i]
			out.Findings = append(out.Findings, reports.FindingRecord{Kind: "finding", Rule: rule, Op: c.Op,
				Capture: name + " " + c.Place, Module: c.Module, Location: c.Location, Reason: verdict.OnlyIn + name})
		}
	}
	alone(al.Missing, a, verdict.Missing, names[0])
	alone(al.Inserted, b, verdict.Inserted, names[1])
	return out
}

// likeness is how much speaks for two calls being the same one: name, dtypes and shapes, module.
func (c *LoggedCall) likeness(d *LoggedCall) int {
	if c.Op != d.Op {
		return 0
	}
	n := 1
	if c.Types == d.Types {
		n += 2
	}
	if c.Module == d.Module {
		n++
	}
	return n
}
