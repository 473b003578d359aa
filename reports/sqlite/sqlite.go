// Package sqlite writes tables as an SQLite 3 database file, after the published
// description of the format (sqlite.org/fileformat2.html): tables without
// indices, written once. That takes a page of code; a database engine would take
// 8 MB of the binary.
package sqlite

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/optool/optool/reports"
)

const (
	pageSize = 4096
	// applicationID marks the files written here ("optl").
	applicationID = 0x6f70746c
	// Most bytes of a row that stay in its page, and how few do if it overflows.
	maxLocal = pageSize - 35
	minLocal = (pageSize-12)*32/255 - 23
)

// WriteFile writes a database with one table for each sheet, in place of what an
// earlier WriteFile left at path. A file of anything else is refused.
func WriteFile(path string, sheets ...reports.Sheet) error {
	old, err := os.ReadFile(path)
	if err == nil && len(old) > 0 && (len(old) < 100 || binary.BigEndian.Uint32(old[68:]) != applicationID) {
		return fmt.Errorf("%s is not a database that optool wrote: it is left as it is", path)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := Write(f, sheets...); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Close()
}

// Write writes a database with one table for each sheet. Texts stay whole;
// bools become 0 and 1, what is nil NULL.
func Write(w io.Writer, sheets ...reports.Sheet) error {
	db := &database{pages: [][]byte{nil}} // page 1 comes last: it names the others
	var schema []cell
	for i, s := range sheets {
		var rows []cell
		for row := range s.Rows {
			rows = append(rows, db.row(len(rows)+1, row))
		}
		columns := make([]string, len(s.Columns))
		for k, c := range s.Columns {
			columns[k] = identifier(c)
		}
		root := db.tree(rows)
		text := "CREATE TABLE " + identifier(s.Name) + " (" + strings.Join(columns, ", ") + ")"
		schema = append(schema, db.row(i+1, []any{"table", s.Name, s.Name, root, text}))
	}
	db.pages[0] = leaf(schema, 100)
	if db.pages[0] == nil {
		return fmt.Errorf("the descriptions of %d tables do not fit a page", len(sheets))
	}
	db.header()
	for _, p := range db.pages {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

func identifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// A database is the pages of a file; page n is pages[n-1].
type database struct{ pages [][]byte }

func (db *database) add(p []byte) int {
	db.pages = append(db.pages, p)
	return len(db.pages)
}

func (db *database) header() {
	h := db.pages[0]
	copy(h, "SQLite format 3\x00")
	binary.BigEndian.PutUint16(h[16:], pageSize)
	// journal mode, no reserved bytes, fractions of a page as the format wants them
	copy(h[18:], []byte{1, 1, 0, 64, 32, 32})
	for at, v := range map[int]uint32{24: 1, 28: uint32(len(db.pages)), 40: 1, 44: 4, 56: 1, 68: applicationID, 92: 1,
		96: 3045000} {
		binary.BigEndian.PutUint32(h[at:], v) // change counter, pages, schema cookie and format, UTF-8, version
	}
}

// A cell is a row as it lies in a page.
type cell struct {
	id    int
	bytes []byte
}

// row is a row; what does not fit a page goes to pages of its own.
func (db *database) row(id int, values []any) cell {
	var types, body []byte
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			types = append(types, 0)
		case bool:
			n := byte(8) // the type of the number 0, and 9 that of 1
			if v {
				n = 9
			}
			types = append(types, n)
		case int:
			types, body = append(types, 6), binary.BigEndian.AppendUint64(body, uint64(v))
		case float64:
			if math.IsNaN(v) { // SQLite has none
				types, body = appendText(types, body, "nan")
			} else {
				types, body = append(types, 7), binary.BigEndian.AppendUint64(body, math.Float64bits(v))
			}
		default:
			types, body = appendText(types, body, fmt.Sprint(v))
		}
	}
	size := len(types) + 1 // of the header, its own length included
	if size > 127 {
		size++
	}
	payload := append(append(varint(nil, size), types...), body...)
	b := varint(varint(nil, len(payload)), id)
	if len(payload) <= maxLocal {
		return cell{id, append(b, payload...)}
	}
	local := minLocal + (len(payload)-minLocal)%(pageSize-4)
	if local > maxLocal {
		local = minLocal
	}
	b = append(b, payload[:local]...)
	first := len(db.pages) + 1
	for rest := payload[local:]; len(rest) > 0; {
		p := make([]byte, pageSize)
		n := copy(p[4:], rest)
		if rest = rest[n:]; len(rest) > 0 {
			binary.BigEndian.PutUint32(p, uint32(len(db.pages)+2))
		}
		db.add(p)
	}
	return cell{id, binary.BigEndian.AppendUint32(b, uint32(first))}
}

func appendText(types, body []byte, s string) ([]byte, []byte) {
	return varint(types, 13+2*len(s)), append(body, s...)
}

// tree writes rows as a tree of pages and returns the number of its root.
func (db *database) tree(rows []cell) int {
	var children []cell // page number in bytes, by the last row below
	for {
		n := fitting(rows, 8)
		page := db.add(leaf(rows[:n], 0))
		last := 0
		if n > 0 {
			last = rows[n-1].id
		}
		children = append(children, cell{last, binary.BigEndian.AppendUint32(nil, uint32(page))})
		if rows = rows[n:]; len(rows) == 0 {
			break
		}
	}
	for len(children) > 1 {
		var above []cell
		for len(children) > 0 {
			// The last child stands in the page's head, and no page has it alone.
			n := min(len(children), 300)
			if len(children)-n == 1 {
				n--
			}
			cells := make([]cell, n-1)
			for i, c := range children[:n-1] {
				cells[i] = cell{c.id, varint(c.bytes, c.id)}
			}
			p := page(5, cells, 0)
			copy(p[8:], children[n-1].bytes)
			above = append(above, cell{children[n-1].id, binary.BigEndian.AppendUint32(nil, uint32(db.add(p)))})
			children = children[n:]
		}
		children = above
	}
	return int(binary.BigEndian.Uint32(children[0].bytes))
}

// fitting counts the cells from the first that fit a page with that much taken.
func fitting(cells []cell, taken int) int {
	for i, c := range cells {
		if taken += 2 + len(c.bytes); taken > pageSize {
			return i
		}
	}
	return len(cells)
}

// leaf is a page of rows, nil if they do not fit; the first page of a file has
// the file's header before.
func leaf(cells []cell, header int) []byte {
	if fitting(cells, header+8) < len(cells) {
		return nil
	}
	return page(13, cells, header)
}

// page is a page of a table's tree: kind 13 holds rows, kind 5 pages.
func page(kind byte, cells []cell, header int) []byte {
	p := make([]byte, pageSize)
	h := p[header:]
	pointers := 8
	if kind == 5 {
		pointers = 12
	}
	end := pageSize
	for i, c := range cells {
		end -= len(c.bytes)
		copy(p[end:], c.bytes)
		binary.BigEndian.PutUint16(h[pointers+2*i:], uint16(end))
	}
	h[0] = kind
	binary.BigEndian.PutUint16(h[3:], uint16(len(cells)))
	binary.BigEndian.PutUint16(h[5:], uint16(end))
	return p
}

// varint appends n, which is not negative, in groups of seven bits.
func varint(b []byte, n int) []byte {
	var groups [9]byte
	i := len(groups)
	for first := true; first || n > 0; first = false {
		i--
		groups[i] = byte(n & 0x7f)
		if !first {
			groups[i] |= 0x80
		}
		n >>= 7
	}
	return append(b, groups[i:]...)
}
