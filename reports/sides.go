package reports

import "fmt"

// apartSides are the calls of device/cpu pairs whose sides hold different values of an argument that the call does not
// write.
type apartSides struct {
	first *Result
	calls int
}

// add adds what a call gave.
func (s *apartSides) add(f *Finding) {
	for _, r := range f.Results {
		if len(r.Sides) == 0 {
			continue
		}
		if s.calls++; s.first == nil || compareKnown(r.Order, s.first.Order) < 0 {
			s.first = r
		}
	}
}

// apartHead begins the line about sides that differ.
const apartHead = "Changed between the two sides of a pair: "

// text is a line about the first call, "" if there is none.
func (s *apartSides) text() string {
	if s.first == nil {
		return ""
	}
	line := fmt.Sprintf(apartHead+"%s: %s.", s.first.Title(), s.first.Sides[0])
	if more := s.calls - 1; more > 0 {
		line += " So it is with " + Count(more, "more call") + "."
	}
	return line
}
