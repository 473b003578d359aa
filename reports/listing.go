package reports

import (
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// A Listing prints rows in columns without borders, a header first. It streams:
// the widths are those of the first rows, later rows only widen them, so that a
// listing of any length takes the memory of a screen.
type Listing struct {
	w      io.Writer
	width  int // of the terminal, 0 for no limit
	head   []string
	widths []int
	right  []bool
	names  []bool // are shortened from the left
	whole  []bool // are not shortened
	wraps  bool   // the last column is wrapped, not shortened
	rows   [][]string
	begun  bool
}

// held is how many rows decide the widths.
const held = 200

// NewListing returns a listing with the given column titles. Lines are at most
// width columns wide: the widest cells are shortened in the middle, numbers and
// the ends of names last. A width of zero is no limit, for output that is not
// read on a terminal.
func NewListing(w io.Writer, width int, head ...string) *Listing {
	return &Listing{w: w, width: width, head: head, widths: make([]int, len(head)), right: make([]bool, len(head)),
		names: make([]bool, len(head)), whole: make([]bool, len(head))}
}

// Right aligns a column to the right.
func (l *Listing) Right(col int) { l.right[col] = true }

// Names says that a column has dotted names, whose end tells most: they are shortened
// from the left.
func (l *Listing) Names(col int) { l.names[col] = true }

// Whole says that the cells of a column are not shortened: a program searches for them.
func (l *Listing) Whole(col int) { l.whole[col] = true }

// Wrap says that the last column has sentences: they are wrapped, not shortened. Where the other columns leave too
// little room, a sentence stands below its row, behind the title of the column.
func (l *Listing) Wrap() { l.wraps = true }

// Add adds a row with one cell per column.
func (l *Listing) Add(cells ...string) error {
	for i := range cells {
		cells[i] = OneLine(cells[i])
	}
	l.rows = append(l.rows, cells)
	if l.begun || len(l.rows) == held {
		return l.Flush()
	}
	return nil
}

// Line adds a line without columns, which is shortened to the width.
func (l *Listing) Line(s string) { l.rows = append(l.rows, []string{OneLine(s)}) }

// free reports whether a row is a line without columns.
func (l *Listing) free(row []string) bool { return len(row) == 1 && len(l.head) > 1 }

// Flush prints the rows held back.
func (l *Listing) Flush() error {
	if len(l.rows) == 0 {
		return nil
	}
	if !l.begun {
		l.begun = true
		l.rows = append([][]string{l.head}, l.rows...)
	}
	for _, r := range l.rows {
		if l.free(r) {
			continue
		}
		for i, c := range r {
			l.widths[i] = max(l.widths[i], text.StringWidthWithoutEscSequences(c))
		}
	}
	limits := l.fit()
	var b strings.Builder
	for _, r := range l.rows {
		if l.free(r) {
			line := r[0]
			if l.width > 0 {
				line = shorten(line, l.width)
			}
			b.WriteString(line + "\n")
			continue
		}
		l.line(&b, r, limits)
	}
	l.rows = l.rows[:0]
	_, err := io.WriteString(l.w, b.String())
	return err
}

// line prints a row in columns of these widths.
func (l *Listing) line(b *strings.Builder, r []string, limits []int) {
	var line strings.Builder
	last := len(r) - 1
	for i, c := range r[:len(limits)] {
		if i > 0 {
			line.WriteString("  ")
		}
		switch {
		case l.wraps && i == last && l.width > 0:
			indent := "\n" + strings.Repeat(" ", sum(limits[:i])+2*i)
			line.WriteString(strings.Join(wrapped(c, limits[i]), indent))
			continue
		case l.names[i]:
			c = shortenLeft(c, limits[i])
		default:
			c = shorten(c, limits[i])
		}
		pad := strings.Repeat(" ", limits[i]-text.StringWidthWithoutEscSequences(c))
		if l.right[i] {
			line.WriteString(pad + c)
		} else {
			line.WriteString(c + pad)
		}
	}
	b.WriteString(strings.TrimRight(line.String(), " "))
	b.WriteByte('\n')
	if last == len(limits) && r[last] != "" && r[last] != l.head[last] {
		const indent = "    "
		text := wrapped(l.head[last]+": "+r[last], max(l.width-len(indent), leastText))
		b.WriteString(indent + strings.Join(text, "\n"+indent) + "\n")
	}
}

// leastName is how much of a name is shown, in columns, before numbers are shortened for it.
const leastName = 32

// fit narrows the widest columns until a line fits. It leaves out the last one if that goes below its rows.
func (l *Listing) fit() []int {
	limits := append([]int(nil), l.widths...)
	if l.width == 0 {
		return limits
	}
	least := make([]int, len(limits))
	for i, n := range limits {
		switch {
		case l.right[i], l.whole[i]:
			least[i] = n
		case l.names[i]:
			least[i] = leastName
		default:
			least[i] = 8
		}
		least[i] = min(least[i], n)
	}
	if last := len(limits) - 1; l.wraps {
		if sum(least[:last])+2*last+min(leastText, limits[last]) > l.width {
			limits, least = limits[:last], least[:last]
		} else {
			least[last] = min(leastText, limits[last])
		}
	}
	for total := sum(limits) + 2*(len(limits)-1); total > l.width; total-- {
		widest := -1
		for i, n := range limits {
			if n > least[i] && (widest < 0 || n > limits[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		limits[widest]--
	}
	return limits
}

func sum(v []int) int {
	n := 0
	for _, x := range v {
		n += x
	}
	return n
}

// shorten cuts s to a width by taking out its middle.
func shorten(s string, width int) string {
	if text.StringWidthWithoutEscSequences(s) <= width {
		return s
	}
	r := []rune(s)
	head, tail := 0, len(r)
	for left := width - 1; head < tail; {
		if left -= text.RuneWidth(r[head]); left < 0 {
			break
		}
		head++
		if left -= text.RuneWidth(r[tail-1]); left < 0 {
			break
		}
		tail--
	}
	return string(r[:head]) + "…" + string(r[tail:])
}
