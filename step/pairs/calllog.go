package pairs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/internal/quota"
)

// A LoggedCall is a call of which a log says what its tensors were, without the tensors.
type LoggedCall struct {
	Op       string
	Types    string // arguments and results as the log shows them: dtypes and shapes
	Inputs   []Digest
	Outputs  []Digest // nil if the log has none
	Module   string
	Location string
	Place    string // in the log: line 12, or call 12
}

// debugModeFormat is what files of DebugMode.save_logs call themselves.
const debugModeFormat = "torch.utils._debug_mode.DebugMode.logs"

// A callLine is a call in the text of DebugMode.debug_string: name(arguments)  ->  result  # {hashes}.
var (
	callLine = lazyregexp.New(`^(\s+)([\w<][^(]*)\((.*)\)(  ->  (.*?))?(?:  # (\{.*\}))?$`)
	// A callBlock begins a call in the logs of torchtitan: the module, the number of the call in it, and the operator.
	callBlock = lazyregexp.New(`(?m)^\[(.+)/op_\d+_([^/\]]+)\]\r?$`)
	// A namedHash is a hash in such a log that says of which argument it is.
	namedHash = lazyregexp.New(`=("?[-+.\w]+"?)`)
	// varying are parts of names and types that differ from run to run: addresses, numbers of tensors.
	varying = lazyregexp.New(` at 0x[0-9a-f]+|\$\d+`)
)

// IsCallLog reports whether a file is a log of PyTorch's DebugMode, its text or what save_logs writes, or of
// torchtitan.
func IsCallLog(path string) bool {
	f, _, err := files.Open(path)
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
	return callBlock().Match(head) || slices.ContainsFunc(strings.Split(string(head), "\n"), func(line string) bool {
		m := callLine().FindStringSubmatch(strings.TrimSuffix(line, "\r"))
		return m != nil && strings.Contains(m[2], "::")
	})
}

// ReadCallLog reads a log of PyTorch's DebugMode, or of torchtitan.
func ReadCallLog(path string) ([]LoggedCall, error) {
	f, size, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := quota.CheckMemory(size); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	raw, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	read := callsOfText
	switch {
	case bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")):
		read = callsOfJSON
	case callBlock().Match(raw):
		read = callsOfBlocks
	}
	calls, err := read(raw)
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
		m := callLine().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		c := LoggedCall{Op: varying().ReplaceAllString(m[2], ""), Types: typesOf(m[3], m[5]), Location: location,
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

// callsOfBlocks reads a log of torchtitan: a block for each call, with statistics of its result, or hashes.
func callsOfBlocks(raw []byte) (out []LoggedCall, err error) {
	for n, line := range strings.Split(string(raw), "\n") {
		line = strings.TrimSpace(line)
		if m := callBlock().FindStringSubmatch(line); m != nil {
			out = append(out, LoggedCall{Op: m[2], Module: m[1], Place: fmt.Sprintf("line %d", n+1)})
			continue
		}
		name, text, ok := strings.Cut(line, ":")
		if !ok || len(out) == 0 {
			continue
		}
		c := &out[len(out)-1]
		text = strings.TrimSpace(text)
		switch name {
		case "Shape":
			shape, dtype, _ := strings.Cut(text, ", Dtype: ")
			c.Types = typesOf("", strings.TrimPrefix(dtype, "torch.")+
				strings.TrimSuffix(strings.TrimPrefix(shape, "torch.Size("), ")"))
		case "L1 norm", "L2 norm", "Min", "Max", "Mean":
			c.Outputs = append(c.Outputs, Digest{Hash: text})
		case "Output hash", "Output hashes":
			c.Outputs = hashesOf(text)
		case "Input hashes":
			c.Inputs = hashesOf(text)
		case "Location":
			c.Location = text
		}
	}
	return out, nil
}

// hashesOf are the hashes of a line, each with the name of its argument or without.
func hashesOf(text string) (out []Digest) {
	if named := namedHash().FindAllStringSubmatch(text, -1); named != nil {
		for _, m := range named {
			out = append(out, Digest{Hash: strings.Trim(m[1], `"`)})
		}
		return out
	}
	return numbersOf(text)
}

func typesOf(args, result string) string { return varying().ReplaceAllString(args+" -> "+result, "") }

// numbersOf are the numbers of nested tuples and dictionaries.
func numbersOf(text string) (out []Digest) {
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("()[]{}, ", r) }) {
		if _, err := strconv.ParseFloat(w, 64); err == nil {
			out = append(out, Digest{Hash: w})
		}
	}
	return out
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
		c := LoggedCall{Op: varying().ReplaceAllString(l.Op, ""), Place: fmt.Sprintf("call %d", n+1)}
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
func scalars(raw json.RawMessage, key string) (out []Digest) {
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
			out = append(out, Digest{Hash: text})
		}
	}
	return out
}
