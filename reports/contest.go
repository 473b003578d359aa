package reports

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
)

// A Contest counts the values of a device that are nearer to the reference than those of
// a second one (Better), as near, or further away.
type Contest struct {
	Device string `json:"device"` // the second one
	Standing
	ByOp map[string]*Standing `json:"by_op"`
	// Ran says of operators for which one of the devices called a function of the user's what both called.
	Ran []string `json:"ran,omitempty"`
}

// A Standing counts values.
type Standing struct {
	Better int `json:"better"`
	Same   int `json:"same"`
	Worse  int `json:"worse"`
	Equal  int `json:"equal"` // to those of the second device, element by element
}

// contest counts a result of one of two devices.
func (s *Summary) contest(r *Result) {
	if r.Device == "" && r.Against == "" {
		return
	}
	if s.Against == nil {
		s.Against = &Contest{ByOp: map[string]*Standing{}}
	}
	c := s.Against
	if r.Device != "" {
		c.Device = r.Device
		return
	}
	of := c.ByOp[r.Op]
	if of == nil {
		of = &Standing{}
		c.ByOp[r.Op] = of
	}
	for _, n := range []*Standing{&c.Standing, of} {
		switch r.Against {
		case "better":
			n.Better++
		case "same":
			n.Same++
		case "worse":
			n.Worse++
		}
		if r.ApartRMSE != nil && *r.ApartRMSE == 0 {
			n.Equal++
		}
	}
}

// write prints the counts, and those of the ops of which values are nearer on one side.
func (c *Contest) write(w io.Writer, st Style) error {
	if c == nil {
		return nil
	}
	line := fmt.Sprintf("against %s: %d of the device's values are nearer to the reference, %d as near, %d further away; "+
		"%d of %d are equal", c.Device, c.Better, c.Same, c.Worse, c.Equal, c.Better+c.Same+c.Worse)
	if _, err := fmt.Fprintln(w, st.Wrap(line, 2)); err != nil {
		return err
	}
	for _, line := range c.Ran {
		if _, err := fmt.Fprintln(w, st.Wrap(line, 2)); err != nil {
			return err
		}
	}
	l := NewListing(w, st.Width, "against "+c.Device, "nearer", "as near", "further", "equal")
	l.Names(0)
	rows := 0
	for i := range 4 {
		l.Right(i + 1)
	}
	for _, op := range slices.Sorted(maps.Keys(c.ByOp)) {
		n := c.ByOp[op]
		if n.Better+n.Worse == 0 && !st.Tables {
			continue
		}
		rows++
		if err := l.Add(op, strconv.Itoa(n.Better), strconv.Itoa(n.Same), strconv.Itoa(n.Worse),
			strconv.Itoa(n.Equal)); err != nil {
			return err
		}
	}
	if rows == 0 {
		return nil
	}
	return l.Flush()
}
