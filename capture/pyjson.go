package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pyWords are the numbers that Python's json module writes and JSON does not have,
// with strings of the same length that stand for them.
var pyWords = [...]struct {
	word, stands []byte
	value        float64
}{
	{[]byte("NaN"), []byte(`"N"`), math.NaN()},
	{[]byte("Infinity"), []byte(`"Infini"`), math.Inf(1)},
	{[]byte("-Infinity"), []byte(`"-Infini"`), math.Inf(-1)},
}

// plainJSON makes JSON of what Python's json module wrote, in place: offsets stay
// those of the file.
func plainJSON(b []byte) []byte {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case 'N', 'I', '-':
			for _, w := range pyWords {
				if bytes.HasPrefix(b[i:], w.word) {
					i += copy(b[i:], w.stands) - 1
					break
				}
			}
		}
	}
	return b
}

// An object is a JSON object in the order of its file.
type object struct {
	keys   []string
	values []any // nil, bool, json.Number, string, []any, *object
}

func (o *object) get(key string) (any, bool) {
	for i, k := range o.keys {
		if k == key {
			return o.values[i], true
		}
	}
	return nil, false
}

// text is the string of a key, "" if there is none.
func (o *object) text(key string) string {
	v, _ := o.get(key)
	s, _ := v.(string)
	return s
}

// list is the array of a key, nil if there is none.
func (o *object) list(key string) []any {
	v, _ := o.get(key)
	l, _ := v.([]any)
	return l
}

// jsonDepth bounds how deep values of a recording nest.
const jsonDepth = 100

// parseJSON reads one JSON value, made plain by plainJSON. A recording has one for each call and reads it several
// times: tokens of encoding/json would take half of the time of a replay.
func parseJSON(b []byte) (any, error) {
	var checked json.RawMessage
	if !json.Valid(b) {
		if err := json.NewDecoder(bytes.NewReader(b)).Decode(&checked); err != nil {
			return nil, jsonError(err)
		}
		b = checked // something follows the value
	}
	p := jsonParser{b, 0}
	return p.value(0)
}

// A jsonParser reads valid JSON.
type jsonParser struct {
	text []byte
	at   int
}

// next is the first byte behind white space.
func (p *jsonParser) next() byte {
	for {
		switch c := p.text[p.at]; c {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return c
		}
	}
}

func (p *jsonParser) value(depth int) (any, error) {
	if depth > jsonDepth {
		return nil, fmt.Errorf("JSON nests deeper than %d", jsonDepth)
	}
	switch p.next() {
	case '[':
		list := []any{}
		for p.at++; p.more(']'); {
			if cap(list) == 0 {
				list = make([]any, 0, 4)
			}
			v, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case '{':
		o := &object{}
		for p.at++; p.more('}'); {
			key := p.key()
			p.next()
			p.at++ // the colon
			v, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			if o.keys == nil {
				const usual = 8 // of a tensor
				o.keys, o.values = make([]string, 0, usual), make([]any, 0, usual)
			}
			o.keys, o.values = append(o.keys, key), append(o.values, v)
		}
		return o, nil
	case '"':
		return p.string(), nil
	case 't':
		p.at += len("true")
		return true, nil
	case 'f':
		p.at += len("false")
		return false, nil
	case 'n':
		p.at += len("null")
		return nil, nil
	}
	from := p.at
	for p.at < len(p.text) && strings.IndexByte("+-.eE0123456789", p.text[p.at]) >= 0 {
		p.at++
	}
	return json.Number(p.text[from:p.at]), nil
}

// more reports whether another item of a list or object follows, and goes to it; else it goes behind the end.
func (p *jsonParser) more(end byte) bool {
	if p.next() == ',' {
		p.at++
	}
	if p.next() != end {
		return true
	}
	p.at++
	return false
}

// key reads the key of an object, which begins here. Those that each tensor has are not copied.
func (p *jsonParser) key() string {
	for _, k := range tensorKeys {
		if end := p.at + 1 + len(k); end < len(p.text) && p.text[end] == '"' && string(p.text[p.at+1:end]) == k {
			p.at = end + 1
			return k
		}
	}
	return p.string()
}

// tensorKeys are those of a tensor in calls.jsonl.
var tensorKeys = [...]string{"tensor", "dtype", "shape", "stride", "stored", "device", "ptr", "version", "requires_grad",
	"name"}

// string reads a string, which begins here.
func (p *jsonParser) string() string {
	from, plain := p.at, true
	for p.at++; p.text[p.at] != '"'; p.at++ {
		switch c := p.text[p.at]; {
		case c == '\\':
			plain = false
			p.at++
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	p.at++
	if plain {
		return string(p.text[from+1 : p.at-1])
	}
	var s string
	_ = json.Unmarshal(p.text[from:p.at], &s) // it is valid
	return s
}

// jsonError is an error of encoding/json in the words of this package.
func jsonError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("JSON is cut off")
	}
	return errors.New("JSON: " + strings.TrimPrefix(err.Error(), "json: "))
}

// jsonFloat is a number of a recording: bool counts, and so do Python's words.
func jsonFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		return f, err == nil || errors.Is(err, strconv.ErrRange)
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case string:
		for _, w := range pyWords {
			if len(v)+2 == len(w.stands) && v == string(w.stands[1:len(w.stands)-1]) {
				return w.value, true
			}
		}
	}
	return 0, false
}

// jsonInt is a whole number.
func jsonInt(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(string(n), 10, 64)
	return i, err == nil
}

// jsonShape is a list of dimensions.
func jsonShape(v any) ([]int, bool) {
	l, ok := v.([]any)
	if !ok {
		return nil, false
	}
	shape := make([]int, len(l))
	for i, x := range l {
		d, ok := jsonInt(x)
		if !ok {
			return nil, false
		}
		shape[i] = int(d)
	}
	return shape, true
}
