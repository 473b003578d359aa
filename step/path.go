package step

// Readers are the calls that read a result of c in the forward pass, in order, each
// once.
func (c *Call) Readers() []*Call {
	var out []*Call
	seen := map[*Call]bool{c: true}
	for _, o := range append(append([]*Value(nil), c.Outputs...), c.Inputs...) {
		for _, r := range o.readers {
			if r.Kind == inputKind && !seen[r.Call] {
				seen[r.Call] = true
				out = append(out, r.Call)
			}
		}
	}
	return out
}

// Way is the shortest way of a call's results to another call, both included; nil
// if there is none.
func Way(from, to *Call) []*Call {
	before := map[*Call]*Call{from: nil}
	for todo := []*Call{from}; len(todo) > 0; todo = todo[1:] {
		c := todo[0]
		if c == to {
			var way []*Call
			for ; c != nil; c = before[c] {
				way = append([]*Call{c}, way...)
			}
			return way
		}
		for _, r := range c.Readers() {
			if _, seen := before[r]; !seen {
				before[r] = c
				todo = append(todo, r)
			}
		}
	}
	return nil
}

// Behind counts the calls that read, directly or through others, what c gives.
func (c *Call) Behind() int {
	seen := map[*Call]bool{c: true}
	for todo := []*Call{c}; len(todo) > 0; todo = todo[1:] {
		for _, r := range todo[0].Readers() {
			if !seen[r] {
				seen[r] = true
				todo = append(todo, r)
			}
		}
	}
	return len(seen) - 1
}
