package browse

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// pageRows is how many results a page lists.
const pageRows = 100

// mostPages bounds the number of a page; more results than fit them are filtered.
const mostPages = 1 << 24

// listed are the columns of the list. Some are sorted by another column.
var listed = []struct{ name, by string }{
	{"verdict", columnRank}, {columnChange, columnChange}, {columnWas, columnWas}, {"op", "op"},
	{"forward_id", "forward_id"}, {"phase", "phase"}, {"target", "target"}, {"reason", "reason"}, {"dtype", "dtype"}, {"shape", "shape"},
	{"worst_ulp", "worst_ulp"}, {"bound_ratio", "bound_ratio"}, {"rank", "rank"},
	{"capture", "capture"},
}

// A header is a heading of the list, and where it leads.
type header struct{ Name, Href, Arrow string }

// A listRow is a result.
type listRow struct {
	Href  string
	Cells []listCell
}

type listCell struct{ Class, Text string }

// A listPage is the data of a page of the list.
type listPage struct {
	Number               int // of the run
	Run                  *run
	Text                 string
	Verdict, Op, Change  string
	Sort, Dir            string
	Heads                []header
	Rows                 []listRow
	From, To, Total      int
	Before, After, Other string
}

func (s *Server) list(r *http.Request) (any, error) {
	n, err := number(r, "run", 1, len(s.runs))
	if err != nil {
		return nil, err
	}
	at, err := number(r, "page", 1, mostPages)
	if err != nil {
		return nil, err
	}
	p := listPage{Number: n, Run: s.runs[n-1], Text: r.FormValue("text"), Verdict: r.FormValue("verdict"),
		Op: r.FormValue("op"), Change: r.FormValue("change"), Sort: r.FormValue("sort"), Dir: r.FormValue("dir")}
	if p.Sort == "" { // what is wrong comes first
		p.Sort, p.Dir = "verdict", "desc"
	}
	where, args := p.filter()
	name, query := table(n-1), p.query
	if err := s.readRows(r.Context(), &p, p.columns(s, query), name, where, args, at); err != nil {
		return nil, err
	}
	p.To = p.From + len(p.Rows) - 1
	if p.Total = p.To; len(p.Rows) == pageRows || len(p.Rows) == 0 && at > 1 { // else it is the last page
		err := s.db.QueryRowContext(r.Context(), "SELECT count(*) FROM "+name+where, args...).Scan(&p.Total)
		if err != nil {
			return nil, err
		}
	}
	if at > 1 {
		p.Before = query("page", strconv.Itoa(at-1))
	}
	if p.To < p.Total {
		p.After = query("page", strconv.Itoa(at+1))
	}
	if len(s.runs) == 2 {
		p.Other = query("run", strconv.Itoa(3-n))
	}
	return p, nil
}

// query is the address of the page with some fields, names and values in turn, changed.
func (p *listPage) query(changed ...string) string {
	v := url.Values{}
	for k, x := range map[string]string{"run": strconv.Itoa(p.Number), "text": p.Text, "verdict": p.Verdict, "op": p.Op,
		"change": p.Change, "sort": p.Sort, "dir": p.Dir} {
		if x != "" {
			v.Set(k, x)
		}
	}
	for i := 0; i < len(changed); i += 2 {
		v.Set(changed[i], changed[i+1])
	}
	return "?" + v.Encode()
}

// readRows reads the rows of the page with a number.
func (s *Server) readRows(ctx context.Context, p *listPage, columns []string, name, where string, args []any,
	page int) error {
	i := slices.IndexFunc(listed, func(c struct{ name, by string }) bool { return c.name == p.Sort })
	if i < 0 {
		return bad("sort: no column %.40q", p.Sort)
	}
	order := " ORDER BY " + listed[i].by + " ASC NULLS LAST, rowid"
	if p.Dir == "desc" {
		order = " ORDER BY " + listed[i].by + " DESC, rowid"
	}
	p.From = (page-1)*pageRows + 1
	// Which rows the page has is found first, by an index alone if there is one: the rows
	// before them are not read.
	rows, err := s.db.QueryContext(ctx, fmt.Sprintf("SELECT rowid, %s FROM %s WHERE rowid IN "+
		"(SELECT rowid FROM %s%s%s LIMIT %d OFFSET %d)%s",
		strings.Join(columns, ", "), name, name, where, order, pageRows, p.From-1, order), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		id, cells, err := scanRow(rows, len(columns))
		if err != nil {
			return err
		}
		row := listRow{Href: fmt.Sprintf("result?run=%d&id=%d", p.Number, id)}
		for i, c := range columns {
			row.Cells = append(row.Cells, listCell{classOf(c, cells[i]), text(cells[i])})
		}
		p.Rows = append(p.Rows, row)
	}
	return rows.Err()
}

// filter is the condition of what the page lists.
func (p *listPage) filter() (where string, args []any) {
	var all []string
	for _, f := range []struct{ column, value string }{{"verdict", p.Verdict}, {"op", p.Op}, {columnChange, p.Change}} {
		if f.value != "" {
			all, args = append(all, f.column+" = ?"), append(args, f.value)
		}
	}
	var words []string
	for _, word := range strings.Fields(strings.ToLower(p.Text)) {
		words, args = append(words, "instr(text, ?)"), append(args, word)
	}
	if words != nil {
		all = append(all, fmt.Sprintf("rowid IN (SELECT rowid FROM %s WHERE %s)", texts(p.Number-1),
			strings.Join(words, " AND ")))
	}
	if len(all) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(all, " AND "), args
}

// columns are those of the list that the run has, with the headings that sort by them.
func (p *listPage) columns(s *Server, query func(...string) string) (columns []string) {
	for _, c := range listed {
		two := c.name == columnChange || c.name == columnWas
		if !p.Run.listed[c.name] || two && len(s.runs) < 2 {
			continue
		}
		columns = append(columns, c.name)
		h := header{Name: c.name}
		dir := "asc"
		switch {
		case p.Sort != c.name && (c.name == "verdict" || c.name == "worst_ulp" || c.name == "bound_ratio"):
			dir = "desc"
		case p.Sort == c.name && p.Dir == "desc":
			h.Arrow = " ▼"
		case p.Sort == c.name:
			h.Arrow, dir = " ▲", "desc"
		}
		h.Href = query("sort", c.name, "dir", dir)
		p.Heads = append(p.Heads, h)
	}
	return columns
}

func scanRow(rows *sql.Rows, n int) (id int, cells []any, err error) {
	cells = make([]any, n)
	targets := []any{&id}
	for i := range cells {
		targets = append(targets, &cells[i])
	}
	return id, cells, rows.Scan(targets...)
}

func classOf(column string, v any) string {
	switch v.(type) {
	case int64, float64:
		return "num"
	}
	switch column {
	case "verdict", columnWas:
		return text(v)
	case "reason":
		return "wide"
	}
	return ""
}

// text is a value of the database for people.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		if math.IsInf(v, 0) {
			return strings.ToLower(strings.TrimPrefix(fmt.Sprint(v), "+"))
		}
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return fmt.Sprint(v)
}
