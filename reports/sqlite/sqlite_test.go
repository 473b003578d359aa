package sqlite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/reports"
)

// A reader reads what Write writes, after the format's description.
type reader struct {
	t    *testing.T
	data []byte
}

func (r *reader) page(n int) []byte { return r.data[(n-1)*pageSize : n*pageSize] }

func (r *reader) varint(b []byte) (v, n int) {
	for {
		v = v<<7 | int(b[n]&0x7f)
		n++
		if b[n-1] < 0x80 {
			return v, n
		}
	}
}

// table returns the rows below a page, whose numbers must rise.
func (r *reader) table(n, header int) (rows [][]any, last int) {
	p := r.page(n)
	h := p[header:]
	count := int(binary.BigEndian.Uint16(h[3:]))
	switch h[0] {
	case 5:
		for i := range count {
			c := p[binary.BigEndian.Uint16(h[12+2*i:]):]
			key, _ := r.varint(c[4:])
			below, top := r.table(int(binary.BigEndian.Uint32(c)), 0)
			if top != key {
				r.t.Fatalf("page %d: key %d over rows up to %d", n, key, top)
			}
			rows = append(rows, below...)
		}
		below, top := r.table(int(binary.BigEndian.Uint32(h[8:])), 0)
		return append(rows, below...), top
	case 13:
		for i := range count {
			c := p[binary.BigEndian.Uint16(h[8+2*i:]):]
			size, k := r.varint(c)
			id, k2 := r.varint(c[k:])
			if id <= last {
				r.t.Fatalf("page %d: row %d after %d", n, id, last)
			}
			last = id
			rows = append(rows, r.row(c[k+k2:], size))
		}
		return rows, last
	}
	r.t.Fatalf("page %d is of kind %d", n, h[0])
	return nil, 0
}

func (r *reader) row(c []byte, size int) (row []any) {
	payload := c[:min(size, len(c))]
	if size > pageSize-35 {
		local := (pageSize-12)*32/255 - 23
		if k := local + (size-local)%(pageSize-4); k <= pageSize-35 {
			local = k
		}
		payload = bytes.Clone(c[:local])
		for next := int(binary.BigEndian.Uint32(c[local:])); next != 0; {
			p := r.page(next)
			payload = append(payload, p[4:4+min(pageSize-4, size-len(payload))]...)
			next = int(binary.BigEndian.Uint32(p))
		}
	}
	header, k := r.varint(payload)
	body := payload[header:]
	for k < header {
		kind, n := r.varint(payload[k:])
		k += n
		switch {
		case kind == 0:
			row = append(row, nil)
		case kind == 6:
			row, body = append(row, int(binary.BigEndian.Uint64(body))), body[8:]
		case kind == 7:
			row, body = append(row, math.Float64frombits(binary.BigEndian.Uint64(body))), body[8:]
		case kind == 8, kind == 9:
			row = append(row, kind-8)
		case kind >= 13 && kind%2 == 1:
			n := (kind - 13) / 2
			row, body = append(row, string(body[:n])), body[n:]
		default:
			r.t.Fatalf("type %d", kind)
		}
	}
	return row
}

// TestRead reads back tables of one page, of many and with rows longer than a page.
func TestRead(t *testing.T) {
	many := make([][]any, 50000)
	for i := range many {
		many[i] = []any{i - 7, fmt.Sprintf("case %d", i), float64(i) / 3, nil, 1}
	}
	long := [][]any{{strings.Repeat("x", 4000)}, {strings.Repeat("é", 30000)}, {"short"},
		{strings.Repeat("z", maxLocal)}}
	few := [][]any{{1, "a", true}, {2, "", false}, {nil, "nan", 0}}
	var b bytes.Buffer
	err := Write(&b,
		reports.Sheet{Name: "few", Columns: []string{"n", `quo"te`, "flag"},
			Rows: slices.Values([][]any{{1, "a", true}, {2, "", false}, {nil, math.NaN(), false}})},
		reports.Sheet{Name: "many rows", Columns: []string{"i", "name", "x", "none", "one"}, Rows: slices.Values(many)},
		reports.Sheet{Name: "none", Columns: []string{"a"}, Rows: slices.Values([][]any(nil))},
		reports.Sheet{Name: "long", Columns: []string{"text"}, Rows: slices.Values(long)},
	)
	if err != nil {
		t.Fatal(err)
	}
	few[0][2], few[1][2] = 1, 0
	r := &reader{t, b.Bytes()}
	if n := int(binary.BigEndian.Uint32(r.data[28:])); len(r.data) != n*pageSize {
		t.Errorf("%d bytes for %d pages", len(r.data), n)
	}
	schema, _ := r.table(1, 100)
	if len(schema) != 4 || schema[0][4] != `CREATE TABLE "few" ("n", "quo""te", "flag")` {
		t.Fatalf("schema %v", schema)
	}
	for i, want := range [][][]any{few, many, nil, long} {
		got, _ := r.table(schema[i][3].(int), 0)
		if len(got) != len(want) {
			t.Fatalf("table %v: %d rows, want %d", schema[i][1], len(got), len(want))
		}
		for k := range want {
			if !slices.Equal(got[k], want[k]) {
				t.Fatalf("table %v row %d: %.80v, want %.80v", schema[i][1], k, got[k], want[k])
			}
		}
	}
}

// TestWriteFile replaces its own files and no others.
func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := reports.Sheet{Name: "t", Columns: []string{"a"}, Rows: slices.Values([][]any{{1}})}
	for range 2 {
		if err := WriteFile(path, s); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte("somebody's notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, s); err == nil {
		t.Error("another file was replaced")
	}
	if text, _ := os.ReadFile(path); string(text) != "somebody's notes" {
		t.Errorf("the file became %q", text)
	}
}
