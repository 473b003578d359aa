// Package sqlite writes tables as an SQLite 3 database file. It is apart from
// package reports because of the database engine that it brings along.
package sqlite

import (
	"database/sql"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/optool/optool/reports"
)

// applicationID marks the files written here ("optl").
const applicationID = 0x6f70746c

// WriteFile writes a database with one table for each sheet, in place of what an
// earlier WriteFile left at path. A file of anything else is refused. Texts stay
// whole; bools become 0 and 1, what is nil NULL, and NaN, which SQLite has none
// of, the text "nan".
//
// The database grows under another name and takes its place when it is complete.
func WriteFile(path string, sheets ...reports.Sheet) error {
	if err := Check(path); err != nil {
		return err
	}
	part := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	err := write(part, sheets)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		os.Remove(part)
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Check is why WriteFile refuses to write path, nil if it does not.
func Check(path string) error {
	if !replaceable(path) {
		return fmt.Errorf("%s is not a database that optool wrote: it is left as it is", path)
	}
	return nil
}

// replaceable reports whether path is free: no file, an empty one or ours.
func replaceable(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 {
		return err == nil && info.Mode().IsRegular() || os.IsNotExist(err)
	}
	db, err := open(path, "mode=ro&immutable=1")
	if err != nil {
		return false
	}
	defer db.Close()
	var id int
	return db.QueryRow("PRAGMA application_id").Scan(&id) == nil && id == applicationID
}

func open(path, options string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	address := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: options}
	return sql.Open("sqlite", address.String())
}

// OpenReadOnly opens a database for queries alone.
func OpenReadOnly(path string) (*sql.DB, error) {
	return open(path, "mode=ro&immutable=1&_pragma=query_only(1)")
}

func write(path string, sheets []reports.Sheet) (err error) {
	db, err := open(path, "_pragma=journal_mode(off)&_pragma=synchronous(off)") // nobody else has the file
	if err != nil {
		return err
	}
	defer func() {
		if e := db.Close(); err == nil {
			err = e
		}
	}()
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	if _, err := tx.Exec(fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		return err
	}
	for _, s := range sheets {
		if err := writeTable(tx, s); err != nil {
			return fmt.Errorf("table %q: %w", s.Name, err)
		}
		for _, column := range s.Indexed {
			if _, err := tx.Exec(fmt.Sprintf("CREATE INDEX %s ON %s (%s)", identifier(s.Name+" by "+column),
				identifier(s.Name), identifier(column))); err != nil {
				return fmt.Errorf("table %q: %w", s.Name, err)
			}
		}
	}
	return tx.Commit()
}

// writeTable writes a table whose columns have no type: each value keeps its own.
func writeTable(tx *sql.Tx, s reports.Sheet) error {
	columns := make([]string, len(s.Columns))
	for i, c := range s.Columns {
		columns[i] = identifier(c)
	}
	_, err := tx.Exec("CREATE TABLE " + identifier(s.Name) + " (" + strings.Join(columns, ", ") + ")")
	if err != nil {
		return err
	}
	insert, err := tx.Prepare("INSERT INTO " + identifier(s.Name) + " VALUES (?" +
		strings.Repeat(", ?", len(columns)-1) + ")")
	if err != nil {
		return err
	}
	defer insert.Close()
	values := make([]any, len(columns))
	for row := range s.Rows {
		for i, v := range row {
			if x, ok := v.(float64); ok && math.IsNaN(x) {
				v = "nan"
			}
			values[i] = v
		}
		if _, err := insert.Exec(values...); err != nil {
			return err
		}
	}
	return nil
}

func identifier(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
