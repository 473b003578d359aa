// Package browse shows all results of a run, or of two side by side, as pages that a
// server of this machine gives to its user alone: results in a database, page by page,
// and tensors of the recorded calls, slice by slice. Nothing is ever written but the
// database, whose directory the caller gives; a request names results by number, and
// no file.
package browse

import (
	"crypto/rand"
	"crypto/subtle"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/charts"
	"github.com/optool/optool/reports/sqlite"
	"github.com/optool/optool/reports/webpage"
	"github.com/optool/optool/tensor"
)

// A Run is a run to look at.
type Run struct {
	Name      string
	Recording *reports.Recording
}

// A Value is what was recorded of a value, and the reference's, unrounded. Close gives
// both back.
type Value struct {
	Got, Want *tensor.Tensor
	Compared  *compare.Result // of both; nil if it is not known
	Close     func()
}

// An Opener opens the value of a recorded call that a result is about.
type Opener func(capture, phase, target string) (*Value, error)

// A Server serves the pages of runs. Close it after use.
type Server struct {
	token string
	db    *sql.DB
	runs  []*run
	open  Opener // nil if no captures are given

	mu     sync.Mutex // of what is below
	opened string     // which value is
	value  *Value
}

// A run is a table of the database.
type run struct {
	Name, Line        string
	Leads             [][2]string // what a reader needs first
	Told              []string    // what was not judged, and for what the run fails besides
	Timeline, Margins template.HTML
	columns           []string
	listed            map[string]bool // columns of the list that have a value
	Verdicts, Ops     []string
	Changes           []string
	causes            []*reports.Cause
}

// table is the name of the table of run i, texts that of what is searched in it: with
// the same row numbers, and narrow, for every search reads it whole.
func table(i int) string { return "run" + strconv.Itoa(i+1) }
func texts(i int) string { return "texts" + strconv.Itoa(i+1) }

// Columns of the tables beside those of reports.Recording.ResultSheet.
const (
	columnRank   = "verdict_rank" // place of the verdict, from best to worst
	columnOther  = "other"        // number of the other run's result, from 1
	columnWas    = "other_verdict"
	columnChange = "change" // against the other run
)

// New makes the database of one run, or of two of which the second is the newer, in dir,
// and serves them. open may be nil.
func New(dir string, runs []Run, open Opener) (*Server, error) {
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	s := &Server{token: hex.EncodeToString(secret), open: open}
	var sheets []reports.Sheet
	for i, r := range runs {
		var other *reports.Recording
		if len(runs) == 2 {
			other = runs[1-i].Recording
		}
		sheet := sheetOf(r.Recording, other, i == 1)
		sheet.Name = table(i)
		sheets = append(sheets, sheet, textSheet(texts(i), r.Recording))
		x := &run{Name: r.Name, Line: r.Recording.Line(), Leads: r.Recording.Headlines(),
			Told: r.Recording.Told(), columns: sheet.Columns,
			causes: r.Recording.Causes}
		timeline, margins := charts.NewTimeline(r.Recording.LastOrder), charts.NewMargins()
		for res := range r.Recording.Results.All() {
			timeline.Add(res, r.Recording.Summary.Shown(res))
			margins.Add(res)
		}
		nowhere := func(string) string { return "" }
		x.Timeline, x.Margins = timeline.Draw(nowhere), margins.Draw(nowhere)
		s.runs = append(s.runs, x)
	}
	path := filepath.Join(dir, "results.db")
	if err := sqlite.WriteFile(path, sheets...); err != nil {
		return nil, err
	}
	for _, r := range runs {
		if err := r.Recording.Results.Err(); err != nil {
			return nil, err
		}
	}
	var err error
	if s.db, err = sqlite.OpenReadOnly(path); err != nil {
		return nil, err
	}
	for i, r := range s.runs {
		r.listed = map[string]bool{}
		for _, c := range listed {
			var n int
			err := s.db.QueryRow(fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM %s WHERE %s IS NOT NULL LIMIT 1)",
				table(i), c.name)).Scan(&n)
			if err != nil {
				return nil, errors.Join(err, s.db.Close())
			}
			r.listed[c.name] = n > 0
		}
		for column, values := range map[string]*[]string{"verdict": &r.Verdicts, "op": &r.Ops,
			columnChange: &r.Changes} {
			if *values, err = s.distinct(table(i), column); err != nil {
				return nil, errors.Join(err, s.db.Close())
			}
		}
	}
	return s, nil
}

// sheetOf is the results of a run with the columns that pages need.
func sheetOf(rec, other *reports.Recording, newer bool) reports.Sheet {
	results := rec.Results.All()
	partner, place := map[*reports.Result]*reports.Result{}, map[*reports.Result]int{}
	change := map[*reports.Result]reports.Change{}
	if other != nil {
		own, others := slices.Collect(results), slices.Collect(other.Results.All())
		results = slices.Values(own)
		old, cur := own, others
		if newer {
			old, cur = cur, old
		}
		for b, a := range reports.Partners(old, cur) {
			partner[b], partner[a] = a, b
		}
		for _, c := range reports.ResultChanges(old, cur) {
			change[c.Old], change[c.New] = c.Change, c.Change
		}
		for i, r := range others {
			place[r] = i + 1
		}
	}
	var r *reports.Result // whose row is made
	inner := rec.SheetOf(func(yield func(*reports.Result) bool) {
		for r = range results {
			if !yield(r) {
				return
			}
		}
	})
	s := reports.Sheet{Columns: append(slices.Clone(inner.Columns), columnRank, columnOther, columnWas,
		columnChange), Indexed: []string{columnRank, "op", "worst_ulp", "bound_ratio", columnChange}}
	s.Rows = func(yield func([]any) bool) {
		for row := range inner.Rows {
			var at, was, how any
			if p := partner[r]; p != nil {
				at, was = place[p], string(p.Verdict)
			}
			if c := change[r]; c != "" {
				how = string(c)
			}
			if !yield(append(row, r.Verdict.Rank(), at, was, how)) {
				return
			}
		}
	}
	return s
}

// textSheet has what is searched of each result, in lower case.
func textSheet(name string, rec *reports.Recording) reports.Sheet {
	return reports.Sheet{Name: name, Columns: []string{"text"}, Rows: func(yield func([]any) bool) {
		for r := range rec.Results.All() {
			if !yield([]any{strings.ToLower(strings.Join([]string{r.Op, r.Phase, r.Target, string(r.Verdict), r.Reason,
				r.Capture, r.Module, r.Location}, " "))}) {
				return
			}
		}
	}}
}

func (s *Server) distinct(table, column string) (values []string, err error) {
	rows, err := s.db.Query(fmt.Sprintf("SELECT DISTINCT %s FROM %s WHERE %[1]s IS NOT NULL ORDER BY 1", column, table))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, rows.Err()
}

// Path is the path of the first page; it has the token that all requests need.
func (s *Server) Path() string { return "/" + s.token + "/" }

// Close gives back what the server holds.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
	return s.db.Close()
}

func (s *Server) release() {
	if s.value != nil {
		s.value.Close()
		s.value, s.opened = nil, ""
	}
}

// ServeHTTP answers requests to read that know the token and are addressed to this
// machine by name or number: a page of another site that had its name lead here
// (DNS rebinding) is refused.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "+
		"base-uri 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	token, page, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case !local(r.Host):
		http.Error(w, "this address is not served", http.StatusMisdirectedRequest)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "nothing can be changed here", http.StatusMethodNotAllowed)
	case subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1:
		http.Error(w, "the address lacks the token that optool view printed", http.StatusForbidden)
	case page == "":
		s.answer(w, "list", s.list, r)
	case page == "result":
		s.answer(w, "result", s.result, r)
	case page == "pictures":
		s.answer(w, "pictures", s.pictures, r)
	default:
		http.NotFound(w, r)
	}
}

// local reports whether a Host header names the loopback interface.
func local(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

//go:embed pages.html
var pagesSource string

// pages are parsed when they are first shown: no other command needs them.
var pages = sync.OnceValue(func() *template.Template { return template.Must(template.New("").Parse(pagesSource)) })

// A badRequest is a request that asks for what is not there.
type badRequest string

func (e badRequest) Error() string { return string(e) }

func bad(format string, args ...any) error { return badRequest(fmt.Sprintf(format, args...)) }

// answer writes the page of this name.
func (s *Server) answer(w http.ResponseWriter, name string, make func(*http.Request) (any, error), r *http.Request) {
	data, err := make(r)
	if err != nil {
		code := http.StatusInternalServerError
		if errors.As(err, new(badRequest)) {
			code = http.StatusBadRequest
		}
		http.Error(w, err.Error(), code)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	var b strings.Builder
	err = pages().ExecuteTemplate(&b, name, struct {
		Style template.CSS
		Base  string
		Runs  []*run
		Page  any
	}{template.CSS(webpage.Style), s.Path(), s.runs, data})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, b.String())
}

// number is a parameter that is a number from least to most, or least if it is not given.
func number(r *http.Request, name string, least, most int) (int, error) {
	text := r.FormValue(name)
	if text == "" {
		return least, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, bad("%s: want a number from %d to %d, got %.40q", name, least, most, text)
	}
	return n, nil
}

// pictures is the data of the page of pictures.
func (s *Server) pictures(r *http.Request) (any, error) {
	n, err := number(r, "run", 1, len(s.runs))
	if err != nil {
		return nil, err
	}
	return struct {
		Number int
		Run    *run
	}{n, s.runs[n-1]}, nil
}
