package sqlite

import (
	"bytes"
	"database/sql"
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

// query returns the rows of a query on the database at path.
func query(t *testing.T, path, text string) (rows [][]any) {
	t.Helper()
	db, err := open(path, "mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	r, err := db.Query(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer r.Close()
	columns, err := r.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for r.Next() {
		row := make([]any, len(columns))
		to := make([]any, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		if err := r.Scan(to...); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if err := r.Err(); err != nil && err != sql.ErrNoRows {
		t.Fatal(err)
	}
	return rows
}

func TestTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "what? 100% #1.db")
	many := make([][]any, 50000)
	for i := range many {
		many[i] = []any{i - 7, fmt.Sprintf("case %d", i), float64(i) / 3, nil, 1}
	}
	long := strings.Repeat("é", 30000)
	err := WriteFile(path,
		reports.Sheet{Name: "by function", Columns: []string{"n", `quo"te`, "flag", "x"},
			Rows: slices.Values([][]any{{1, "a", true, 2.0}, {math.MaxInt64, "", false, math.Inf(-1)},
				{nil, "12", false, math.NaN()}})},
		reports.Sheet{Name: "many", Columns: []string{"i", "name", "x", "none", "one"}, Rows: slices.Values(many)},
		reports.Sheet{Name: "none", Columns: []string{"a"}, Rows: slices.Values([][]any(nil))},
		reports.Sheet{Name: "long", Columns: []string{"text"}, Rows: slices.Values([][]any{{long}})},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		query string
		want  [][]any
	}{
		{"SELECT * FROM sqlite_master WHERE type <> 'table'", nil},
		{"SELECT name, sql FROM sqlite_master WHERE name LIKE 'by%' OR name = 'none'", [][]any{
			{"by function", `CREATE TABLE "by function" ("n", "quo""te", "flag", "x")`},
			{"none", `CREATE TABLE "none" ("a")`}}},
		{`SELECT * FROM "by function"`, [][]any{{int64(1), "a", int64(1), 2.0},
			{int64(math.MaxInt64), "", int64(0), math.Inf(-1)}, {nil, "12", int64(0), "nan"}}},
		{`SELECT typeof(n), typeof("quo""te"), typeof(flag), typeof(x) FROM "by function"`, [][]any{
			{"integer", "text", "integer", "real"}, {"integer", "text", "integer", "real"},
			{"null", "text", "integer", "text"}}},
		{"SELECT count(*), sum(i), min(i), max(x), count(none), count(DISTINCT name) FROM many", [][]any{
			{int64(50000), int64(50000*49999/2 - 7*50000), int64(-7), 49999.0 / 3, int64(0), int64(50000)}}},
		{"SELECT * FROM many WHERE name = 'case 4711'", [][]any{{int64(4704), "case 4711", 4711.0 / 3, nil, int64(1)}}},
		{"SELECT count(*) FROM none", [][]any{{int64(0)}}},
		{"SELECT text FROM long", [][]any{{long}}},
		{"PRAGMA integrity_check", [][]any{{"ok"}}},
	} {
		got := query(t, path, c.query)
		if !slices.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s: got %.300v, want %.300v", c.query, got, c.want)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the database: %v, %v", entries, err)
	}
}

// TestHeader reads the file's first bytes, by which other programs know it.
func TestHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	if err := WriteFile(path, reports.Sheet{Name: "t", Columns: []string{"a"},
		Rows: slices.Values([][]any{{1}})}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(data, []byte("SQLite format 3\x00")) || binary.BigEndian.Uint32(data[68:]) != applicationID {
		t.Errorf("the file begins with %q", data[:100])
	}
}

// TestReplace replaces its own files and no others.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	table := func(v any) reports.Sheet {
		return reports.Sheet{Name: "t", Columns: []string{"a"}, Rows: slices.Values([][]any{{v}})}
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for v := range int64(2) { // the empty file, then ours
		if err := WriteFile(path, table(v)); err != nil {
			t.Fatal(err)
		}
		if got := query(t, path, "SELECT a FROM t"); len(got) != 1 || got[0][0] != v {
			t.Fatalf("got %v, want %d", got, v)
		}
	}
	// A table that cannot be written leaves the earlier file.
	if err := WriteFile(path, table(2), table(3)); err == nil || !strings.Contains(err.Error(), `table "t": `) {
		t.Errorf("two tables of one name: got %v", err)
	}
	if got := query(t, path, "SELECT a FROM t"); len(got) != 1 || got[0][0] != int64(1) {
		t.Errorf("after a failure: got %v", got)
	}
	foreign := filepath.Join(dir, "other.db")
	db, err := open(foreign, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE mine (x)"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	notes := filepath.Join(dir, "notes")
	if err := os.WriteFile(notes, bytes.Repeat([]byte("somebody's notes\n"), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{foreign, notes, dir} {
		before, _ := os.ReadFile(path)
		if err := WriteFile(path, table(1)); err == nil ||
			!strings.Contains(err.Error(), "is not a database that optool wrote") {
			t.Errorf("%s was replaced: %v", filepath.Base(path), err)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("%s has changed", filepath.Base(path))
		}
	}
	if err := WriteFile(filepath.Join(dir, "missing", "a.db"), table(1)); err == nil {
		t.Error("a directory that does not exist: no error")
	}
}
